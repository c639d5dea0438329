"""Settings that popart gives to its native program: a name that nothing reads is refused, and does not leave another at its default."""

import pytest

import ipu_core

GRAPH = {
    "inputs": [("x", "float32", [2])],
    "initialisers": {},
    "trained": [],
    "nodes": [{"domain": "ai.onnx", "type": "Relu", "name": "", "operands": ["x"], "results": ["y"], "attributes": {}}],
    "outputs": ["y"],
}
MODEL = {"source": "model", "dialect": "popart", "versions": {"ai.onnx": 10}, "graph": GRAPH}


def test_known_settings_are_taken():
    program = ipu_core._native.ModelProgram(
        MODEL, {"anchors": [("y", 2, 1, 0)], "batches_per_step": 3, "locations": {"weights": {"off_chip": True}}}
    )
    assert program.inputs == ["x"]


@pytest.mark.parametrize(
    "settings, text",
    [
        (
            {"batchs_per_step": 3},
            "unknown setting .*: 'batchs_per_step' of the session; known are accumulates, .* virtual_graphs",
        ),
        (
            {"locations": {"weight": {}}},
            "'weight' of the locations; known are accumulators, activations, optimizer_state, weights",
        ),
        (
            {"locations": {"weights": {"shared": True}}},
            "'shared' of a location; known are loads_io, min_elements_off_chip, ",
        ),
        ({"location_overrides": {"w": {"": 1}}}, "'' of a location; known are "),
        (
            {"loss_scaling": {"periods": 2}},
            "'periods' of automatic loss scaling; known are bin_edge, period, tracking, ",
        ),
    ],
)
def test_an_unknown_setting_is_named_with_the_known_ones(settings, text):
    with pytest.raises(ipu_core.Error, match=text):
        ipu_core._native.ModelProgram(MODEL, settings)


@pytest.mark.parametrize("settings", [{"batches_per_step": "3"}, {"locations": 1}, {"anchors": [("x",)]}])
def test_a_setting_of_another_type_is_named(settings):
    with pytest.raises(ipu_core.Error, match=f"wrong kind of data .*: '{next(iter(settings))}' of the session"):
        ipu_core._native.ModelProgram(MODEL, settings)
