"""Automatic loss scaling in sessions, and the optimizer's runtime scalars as anchors."""

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import popart

ALL = popart.AnchorReturnType("All")


def half_model(scale=1.0):
    """w·x summed, in f16."""
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT16", [4, 4], "x")
    w = builder.addInitializedInputTensor(np.full((4, 4), 0.5, np.float16), "w")
    y = builder.aiGraphcore.scale([builder.aiOnnx.matmul([x, w])], scale)
    loss = builder.aiGraphcore.identityloss([y], popart.ReductionType.Sum)
    return builder.getModelProto(), loss


def session(
    optimizer,
    anchors,
    batches=1,
    accumulation=1,
    scaling=None,
    inference=False,
    scale=1.0,
    keeps_float=False,
    model=None,
):
    made_model, loss = half_model(scale)
    model = model or made_model
    options = popart.SessionOptions()
    options.enableGradientAccumulation = accumulation > 1
    options.accumulationFactor = accumulation
    options.ensureFp32LossScaleTensor = keeps_float
    for name, value in (scaling or {}).items():
        setattr(options.automaticLossScalingSettings, name, value)
    flow = popart.DataFlow(batches, dict.fromkeys(anchors or [loss], ALL))
    device = popart.DeviceManager().createCpuDevice()
    if inference:
        return popart.InferenceSession(model, flow, device, userOptions=options)
    made = popart.TrainingSession(model, flow, loss, optimizer, device, userOptions=options)
    made.prepareDevice()
    made.weightsFromHost()
    return made


def run(made, batches, value=0.01):
    arrays = made.initAnchorArrays()
    made.run(popart.PyStepIO({"x": np.full((batches, 4, 4), value, np.float16)}, arrays))
    return arrays


def sgd(scaling=10.0):
    return popart.SGD({"defaultLearningRate": (0.125, False), "lossScaling": (scaling, False)})


@pytest.mark.parametrize("period, expected", [(1, [10, 20, 40, 80]), (2, [10, 20, 20, 40])])
@pytest.mark.shows("popart.AutomaticLossScalingSettings", "popart.SessionOptions.automaticLossScalingSettings")
def test_the_scale_doubles_while_gradients_are_small(period, expected):
    made = session(sgd(), ["finalLossScale"], batches=4, scaling={"enabled": True, "updatePeriod": period})
    assert run(made, 4)["finalLossScale"].tolist() == expected


def test_the_scale_halves_when_gradients_are_large():
    made = session(sgd(8192.0), ["finalLossScale"], batches=3, scaling={"enabled": True, "binEdgeLocation": 0.0625})
    assert run(made, 3, 1.0)["finalLossScale"].tolist() == [8192, 4096, 2048]


def test_updates_are_those_of_an_unscaled_loss():
    results = []
    for scaling in ({"enabled": True}, None):
        made = session(sgd(), None, batches=4, scaling=scaling)
        run(made, 4)
        made.weightsToHost()
        weights = {"w": np.empty((4, 4), np.float16)}
        made.readWeights(popart.PyWeightsIO(weights))
        results.append(weights["w"])
    assert np.array_equal(*results)


@pytest.mark.shows("popart.GradientTensorTrackingMethod")
@pytest.mark.parametrize(
    "method, names", [("ConvAndMatmulGradients", None), ("GradientsOfUserSpecifiedTensors", ["MatMul:0"])]
)
def test_tracked_gradients_can_be_chosen(method, names):
    settings = {
        "enabled": True,
        "gradientTensorTrackingMethod": popart.GradientTensorTrackingMethod[method],
        "toTrackTensors": names,
    }
    assert run(session(sgd(), ["finalLossScale"], 2, scaling=settings), 2)["finalLossScale"].tolist() == [10, 20]


@pytest.mark.parametrize(
    "optimizer, scaling, message",
    [
        (popart.ConstSGD(0.1), {"enabled": True}, "lossScaling is constant"),
        (sgd(), {"enabled": True, "toTrackTensors": ["MatMul:0"]}, "only then"),
        (
            sgd(),
            {
                "enabled": True,
                "toTrackTensors": ["nothing"],
                "gradientTensorTrackingMethod": popart.GradientTensorTrackingMethod["GradientsOfUserSpecifiedTensors"],
            },
            "'nothing'",
        ),
        (sgd(), {"enabled": True, "binEdgeLocation": 1.5}, "binEdgeLocation is 1.5"),
        (
            popart.Adam({"lossScaling": (2.0, False)}, scaled_optimizer_state=True),
            {"enabled": True},
            "scaled_optimizer_state",
        ),
    ],
)
def test_what_cannot_be_scaled_automatically_is_refused(optimizer, scaling, message):
    with pytest.raises(popart.popart_exception, match=message):
        session(optimizer, None, scaling=scaling)


def test_an_inference_session_has_no_loss_to_scale():
    with pytest.raises(popart.popart_exception, match="inference"):
        session(None, ["MatMul:0"], scaling={"enabled": True}, inference=True)


def test_runtime_scalars_are_anchors_with_the_values_of_the_optimizer_of_now():
    names = ["scaledLearningRate0___default___FLOAT16", "lossScaling_FLOAT16"]
    made = session(sgd(), names, batches=2)
    got = run(made, 2)
    assert got[names[0]].tolist() == [np.float32(0.125) / np.float32(10)] * 2 and got[names[1]].tolist() == [10, 10]
    made.updateOptimizerFromHost(sgd(20.0))
    assert run(made, 2)[names[1]].tolist() == [20, 20]


def test_a_constant_scalar_is_no_tensor():
    with pytest.raises(popart.popart_exception, match="lossScaling_FLOAT16"):
        session(popart.ConstSGD(0.1), ["lossScaling_FLOAT16"])


@pytest.mark.parametrize("accumulation", [1, 3])
def test_factor_and_statistics_are_anchors(accumulation):
    anchors = ["finalLossScale", "lossScaleUpdateFactor", "Accum___autoLossScaleStats", "Gradient___MatMul:0"]
    settings = {
        "enabled": True,
        "gradientTensorTrackingMethod": popart.GradientTensorTrackingMethod["GradientsOfUserSpecifiedTensors"],
        "toTrackTensors": ["MatMul:0"],
    }
    made = session(sgd(), anchors, batches=2, accumulation=accumulation, scaling=settings)
    got = run(made, 2 * accumulation)
    factor, statistics = got["lossScaleUpdateFactor"], got["Accum___autoLossScaleStats"]
    assert factor.dtype == np.float16 and statistics.dtype == np.float32
    np.testing.assert_array_equal(got["finalLossScale"], 10 * factor.astype(np.float32))
    steps = factor.reshape(2, -1)
    assert (steps[0] == 1).all() and (steps[1] == 2).all()
    # All 16 elements of a gradient are below an eighth of the largest f16; of each update they are counted anew.
    assert (np.abs(got["Gradient___MatMul:0"]) < 65504 / 8).all()
    expected = [[16 * (m + 1), 0] for _ in range(2) for m in range(accumulation)]
    assert statistics.reshape(-1, 2).tolist() == expected


def test_large_elements_are_counted_apart():
    settings = {"enabled": True, "binEdgeLocation": 0.0625}
    made = session(sgd(8192.0), ["Accum___autoLossScaleStats"], batches=1, scaling=settings)
    # The gradient of the loss, and those of the scaled and of the plain product.
    assert run(made, 1, 1.0)["Accum___autoLossScaleStats"].tolist() == [0, 1 + 16 + 16]


@pytest.mark.parametrize("keeps_float, dtype", [(False, np.float16), (True, np.float32)])
def test_the_scale_in_use_has_the_type_of_the_scale_tensor(keeps_float, dtype):
    made = session(sgd(), ["finalLossScale"], batches=2, scaling={"enabled": True}, keeps_float=keeps_float)
    assert made.getInfo("finalLossScale").data_type_lcase() == np.dtype(dtype).name
    got = run(made, 2)["finalLossScale"]
    assert got.dtype == dtype and got.tolist() == [10, 20]


def test_the_counter_of_a_period_goes_with_a_saved_model(tmp_path):
    settings, path = {"enabled": True, "updatePeriod": 3}, tmp_path / "saved.onnx"
    made = session(sgd(), ["finalLossScale"], batches=2, scaling=settings)
    assert run(made, 2)["finalLossScale"].tolist() == [10, 20]
    made.modelToHost(str(path))
    saved = {t.name: t for t in onnx.load(path).graph.initializer}
    (counter,) = (name for name in saved if name.endswith("_counter"))
    assert sorted(saved) == sorted([counter, "lossScaleUpdateFactor", "w"])
    counted = onnx.numpy_helper.to_array(saved[counter])
    assert counted.dtype == np.int32 and counted.shape == () and counted == 1
    again = session(sgd(), ["finalLossScale"], batches=4, scaling=settings, model=path.read_bytes())
    assert run(again, 4)["finalLossScale"].tolist() == [20, 20, 40, 40]
