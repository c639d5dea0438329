"""Every operator of ai.onnx that PopART runs, in every version a model of opset 6 to 11 can have, by value and gradient."""

import numpy
import pytest

from popart_onnx_cases import OPSETS, ROWS, Batch, usable
from popart_onnx_samples import CASES

NARROW = {"int64": "int32", "float64": "float32"}


def cases_of(opset, wanted=lambda case: True):
    return [case for case in CASES if opset in case.opsets and wanted(case)]


def check(case, got, expected, half=False):
    assert len(got) == len(case.results) - case.results.count("")
    for array, wanted in zip(got, expected):
        wanted = numpy.asarray(wanted)
        assert array.shape == wanted.shape, case.kind
        tolerance = {"rtol": 2e-2, "atol": 2e-2} if half else {"rtol": case.rtol, "atol": case.rtol}
        numpy.testing.assert_allclose(array, wanted, **tolerance, err_msg=f"{case.kind} {case.attributes}")
        if wanted.dtype.kind in "fb":
            floats = ("float16",) if half else ("float32", "float16")
            assert array.dtype.name in (floats if wanted.dtype.kind == "f" else ("bool",)), case.kind


@pytest.mark.parametrize("opset", OPSETS)
def test_values_are_those_of_the_version_that_an_opset_has(opset):
    cases = cases_of(opset)
    for case, got in zip(cases, Batch(cases, opset).run()):
        check(case, got, case.expected())


@pytest.mark.parametrize("opset", (7, 11))
def test_half_precision_gives_the_same_within_its_rounding(opset):
    cases = [case for case in CASES if case.f16 and case.opsets[0] <= opset and usable_at(case, opset)]
    for case, got in zip(cases, Batch(cases, opset, half=True).run()):
        check(case, got, case.expected(half=True), half=True)


def usable_at(case, opset):
    return usable(ROWS[case.kind], opset) in case.versions


@pytest.mark.parametrize("opset", OPSETS)
def test_gradients_are_the_slopes_of_the_values(opset):
    cases = cases_of(opset, lambda case: case.trained)
    batch = Batch(cases, opset, training=True)
    for number, (case, found) in enumerate(zip(cases, batch.gradients())):
        for i, slopes in batch.differences(number).items():
            scale = max(1.0, float(numpy.abs(slopes).max(initial=0)))
            numpy.testing.assert_allclose(
                found[i],
                slopes,
                atol=2e-2 if case.kind == "Cast" else 2e-4 * scale,
                err_msg=f"{case.kind} {case.attributes} {i}",
            )


# Random tensors are tested by their statistics.
ELSEWHERE = {"RandomNormal", "RandomNormalLike", "RandomUniform", "RandomUniformLike"}


def test_every_version_of_every_row_of_the_table_has_a_case():
    missing = []
    for kind, row in ROWS.items():
        if row.how == "none" or kind in ELSEWHERE:
            continue
        cases = [case for case in CASES if case.kind == kind]
        selected = {usable(row, opset) for opset in OPSETS} - {0}
        tested = set().union(*(case.versions for case in cases), set())
        missing += [f"{kind}:{version}" for version in sorted(selected - tested)]
        if row.gradient in ("yes", "zero") and not any(case.trained for case in cases):
            missing.append(f"the gradient of {kind}")
    assert not missing, f"no case for {', '.join(missing)}"
