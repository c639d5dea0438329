"""Models that torch writes as ONNX give torch's numbers: opsets 10 to 21, constants folded by torch or left to the importer,
axes fixed or open."""

import itertools

import numpy
import pytest

import ipu_core
from exported_models import KINDS, exported, made

OPSETS = range(10, 22)
WAYS = list(itertools.product((True, False), (True, False)))  # constants are folded, axes are open
FEW = {10: (False, True), 13: (False, False), 21: (False, True)}


def check(kind, opset, folds, is_dynamic):
    module, x, expected = made(kind)
    model = exported(module, x, opset, folds, is_dynamic)
    session = ipu_core.compile_model(ipu_core.read_onnx(model))
    got = session.run({"x": x.numpy()})
    session.detach()
    assert len(model.graph.output) == len(expected)
    for output, value in zip(model.graph.output, expected):
        numpy.testing.assert_allclose(got[output.name], value, rtol=1e-4, atol=1e-5, err_msg=output.name)
        assert got[output.name].shape == value.shape


@pytest.mark.parametrize("opset", FEW)
@pytest.mark.parametrize("kind", KINDS)
def test_an_exported_model_gives_the_numbers_of_torch(kind, opset):
    check(kind, opset, *FEW[opset])


@pytest.mark.slow
@pytest.mark.parametrize("opset", OPSETS)
@pytest.mark.parametrize("kind", KINDS)
def test_every_way_to_export_gives_the_numbers_of_torch(kind, opset):
    for way in WAYS:
        check(kind, opset, *way)
