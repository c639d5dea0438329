"""The forward pass of a pipelined training session as a program of its own."""

import numpy as np
import pytest

import popart
from popart_execution_models import batches, device, layers, options_of, weights

PLACES = [{"ipu": 0, "stage": 0}, {"ipu": 1, "stage": 1}, {"ipu": 1, "stage": 1}]
HANDLE = "implicitPipeliningFwdOnly"


def session(has_program=True, gradients=False):
    anchors = {"loss": popart.AnchorReturnType("All"), "y": popart.AnchorReturnType("Final")}
    if gradients:
        anchors["Gradient___y"] = popart.AnchorReturnType("All")
    made = popart.TrainingSession(
        layers(weights(), PLACES),
        popart.DataFlow(2, anchors),
        "loss",
        popart.SGD({"defaultLearningRate": (0.1, False)}),
        device(2),
        userOptions=options_of(
            virtualGraphMode=popart.VirtualGraphMode.Manual,
            enablePipelining=True,
            accumulationFactor=6,
            createImplicitPipeliningFwdOnlyProgram=has_program,
        ),
    )
    made.prepareDevice()
    made.weightsFromHost()
    return made


def losses(values, x):
    h = np.maximum(np.maximum(x @ values["w0"], 0) @ values["w1"], 0) @ values["w2"]
    return np.mean(h * h, axis=(-1, -2)), h


def weights_of(made):
    made.weightsToHost()
    read = {name: np.empty((4, 4), np.float32) for name in ("w0", "w1", "w2")}
    made.readWeights(popart.PyWeightsIO(read))
    return read


@pytest.mark.shows("popart.SessionOptions.createImplicitPipeliningFwdOnlyProgram")
def test_it_runs_all_micro_batches_with_the_weights_of_now():
    made = session()
    x = batches(12).reshape(2, 6, 2, 4)
    arrays = made.initAnchorArrays()
    made.run(popart.PyStepIO({"x": x.copy()}, arrays))  # trains
    now = weights_of(made)
    made.run(HANDLE, popart.PyStepIO({"x": x.copy()}, arrays))
    expected, y = losses(now, x)
    np.testing.assert_allclose(arrays["loss"], expected, rtol=1e-5)
    np.testing.assert_allclose(arrays["y"], y[-1, -1], rtol=1e-5, atol=1e-6)
    for name, value in weights_of(made).items():
        np.testing.assert_array_equal(value, now[name])


def test_anchors_that_it_does_not_make_are_left_alone():
    made = session(gradients=True)
    x = batches(12).reshape(2, 6, 2, 4)
    arrays = made.initAnchorArrays()
    arrays["Gradient___y"][...] = 7
    made.run(HANDLE, popart.PyStepIO({"x": x.copy()}, arrays))
    assert (arrays["Gradient___y"] == 7).all()
    np.testing.assert_allclose(arrays["loss"], losses(weights(), x)[0], rtol=1e-5)


def test_callbacks_serve_it():
    made, x, seen = session(), batches(12), []
    given = iter(x)
    out = {"loss": np.empty((), np.float32), "y": np.empty((2, 4), np.float32)}
    stepio = popart.PyStepIOCallback(
        lambda id, prefetch: next(given),
        lambda id: None,
        lambda id: out[id],
        lambda id: seen.append(float(out[id])) if id == "loss" else None,
    )
    made.run(HANDLE, stepio, "evaluation")
    np.testing.assert_allclose(seen, losses(weights(), x)[0], rtol=1e-5)


@pytest.mark.parametrize("handle, has_program", [(HANDLE, False), ("another", True)])
def test_an_unknown_handle_is_named(handle, has_program):
    with pytest.raises(popart.popart_exception, match=f"no program with the handle '{handle}'"):
        session(has_program).run(handle, popart.PyStepIO({}, {}))
