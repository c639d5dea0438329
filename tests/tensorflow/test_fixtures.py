"""The recorded units of tests/tensorflow_records are those that TensorFlow gives now."""

import json
import pathlib
import sys

import numpy as np
import pytest

ROOT = pathlib.Path(__file__).parents[2]


@pytest.fixture(scope="module")
def fixtures():
    sys.path.insert(0, str(ROOT / "scripts"))
    try:
        import tensorflow_fixtures
    finally:
        sys.path.pop(0)
    return tensorflow_fixtures


def test_every_record_has_a_program(fixtures):
    assert {file.stem for file in fixtures.FOLDER.glob("*.json")} == set(fixtures.GIVEN)


def check(fixtures, name):
    stored = json.loads((fixtures.FOLDER / f"{name}.json").read_text())
    new = json.loads(fixtures.text_of(fixtures.built(name)))
    assert new["unit"] == stored["unit"]
    assert new["inputs"] == stored["inputs"] and new["variables"] == stored["variables"]
    for ours, theirs in zip(new["outputs"], stored["outputs"], strict=True):
        np.testing.assert_allclose(ours["data"], theirs["data"], rtol=1e-5, atol=1e-6)


def test_a_record_made_anew_is_the_same(fixtures):
    check(fixtures, "branches")


@pytest.mark.slow
def test_all_records_made_anew_are_the_same(fixtures):
    for name in fixtures.GIVEN:
        check(fixtures, name)
