"""Recorded units of TensorFlow programs (scripts/tensorflow_fixtures.py): what they give and assign is what TensorFlow computed."""

import json
import pathlib

import numpy
import pytest
from test_lists import array, with_arrays

import ipu_core

FILES = sorted(pathlib.Path(__file__).parent.glob("*.json"))


@pytest.mark.parametrize("file", FILES, ids=lambda file: file.stem)
def test_recorded_unit(file):
    fixture = json.loads(file.read_text())
    with_arrays(fixture["unit"]["graph"])
    unit = ipu_core.Unit(fixture["unit"])
    given = {name: array(fixture["variables"][name]) for name in unit.variables}
    outputs, written = unit.run([array(value) for value in fixture["inputs"]], given)
    tolerance = 5e-3 if "half" in file.stem else 5e-6
    for ours, theirs in zip(outputs, fixture["outputs"], strict=True):
        numpy.testing.assert_allclose(ours, array(theirs), rtol=tolerance, atol=tolerance)
    for name, ours in written.items():
        numpy.testing.assert_allclose(ours, array(fixture["after"][name]), rtol=tolerance, atol=tolerance)
    changed = {
        name
        for name, value in fixture["after"].items()
        if not numpy.array_equal(array(value), array(fixture["variables"][name]))
    }
    assert changed <= set(written)


def test_units_of_all_kinds_are_there():
    types = set()

    def collect(graph):
        for node in graph["nodes"]:
            types.add(node["type"])
            for inside in node.get("subgraphs", {}).values():
                collect(inside)

    for file in FILES:
        collect(json.loads(file.read_text())["unit"]["graph"])
    assert types >= {
        "StatelessWhile",
        "StatelessIf",
        "Case",
        "Conv2D",
        "FusedBatchNormV3",
        "ResourceApplyMomentum",
        "Einsum",
    }
