"""What replicas add up or average: the gradient that enters an update, and what clipping measures of it."""

import numpy as np
import onnx
import onnx.numpy_helper
import optimizer_training
import pytest

import popart
from popart import SGDAccumulatorAndMomentum

SCALING = 4.0


def sgd(variant, momentum, clips=(), **more):
    values = {"defaultLearningRate": (0.125, False), "lossScaling": (SCALING, False), **more}
    if momentum:
        values["defaultMomentum"] = (momentum, False)
    return popart.SGD(values, list(clips), accumulatorAndMomentum=SGDAccumulatorAndMomentum[variant])


OPTIMIZERS = {
    "SGD": lambda: sgd("Combined", 0.0),
    "SGD separate": lambda: sgd("Separate", 0.75),
    "Adam": lambda: popart.Adam({"lossScaling": (SCALING, False)}),
    "RMSProp": lambda: popart.Adaptive({"lossScaling": (SCALING, False)}),
}


def norm(values):
    return np.sqrt(sum((np.asarray(v, np.float64) ** 2).sum() for v in values))


def starts():
    return {name: optimizer_training.start(name).astype(np.float64) for name in "ab"}


def expect_weights(training, weights):
    for name, value in training.read("a", "b").items():
        np.testing.assert_allclose(value, weights[name], rtol=2e-5, atol=2e-5)


@pytest.mark.parametrize("accumulation", [1, 3])
@pytest.mark.parametrize("reduction", ["Sum", "Post", "Running"])
@pytest.mark.parametrize("optimizer", OPTIMIZERS)
def test_replicas_of_a_running_mean_are_reduced_to_their_mean(optimizer, reduction, accumulation):
    """The others are added up, and a mean is divided in the update."""
    training = optimizer_training.Training(
        OPTIMIZERS[optimizer](),
        accumulation=accumulation,
        replicas=2,
        reduction=reduction,
        anchors=("FinalReducedGradient___a",),
    )
    for _ in range(2):
        scaled = SCALING * training.step()["a"]
        expected = scaled.mean(0) if reduction == "Running" else scaled.sum(0)
        got = training.anchors["FinalReducedGradient___a"]
        assert got.shape == (2, optimizer_training.SIZE)
        np.testing.assert_allclose(got, [expected] * 2, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("bound", [0.5, 100.0])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("reduction", ["Sum", "Post", "Running"])
def test_without_momentum_the_reduced_gradient_is_clipped(reduction, accumulation, bound):
    """With the loss scaling in it, and before a division that the update makes."""
    optimizer = sgd("Combined", 0.0, [popart.ClipNormSettings.clipAllWeights(bound)])
    training = optimizer_training.Training(
        optimizer, accumulation=accumulation, replicas=4, reduction=reduction, anchors=("GlobalNorm___0",)
    )
    weights, divisor = starts(), SCALING * (4 * accumulation if reduction == "Post" else 1)
    for _ in range(5):
        reduced = {
            name: SCALING * (g.mean(0) if reduction == "Running" else g.sum(0)) for name, g in training.step().items()
        }
        size = norm(reduced.values())
        np.testing.assert_allclose(training.anchors["GlobalNorm___0"], [size] * 4, rtol=1e-5)
        for name, value in reduced.items():
            weights[name] -= 0.125 / divisor * value * bound / max(size, bound)
    expect_weights(training, weights)


@pytest.mark.parametrize("bound", [0.5, 8.0, 100.0])
@pytest.mark.parametrize("nesterov", [False, True])
@pytest.mark.parametrize("reduction", ["Sum", "Post", "Running"])
@pytest.mark.parametrize("accumulation, replicas", [(1, 2), (2, 1), (2, 4)])
def test_with_the_combined_velocity_its_sum_over_replicas_is_clipped(
    accumulation, replicas, reduction, nesterov, bound
):
    """With accumulation every replica has the velocity in its sum, and the rate is as much smaller."""
    momentum, decay, scale, rate = 0.75, 0.25, 2.0, 0.125
    values = {"defaultWeightDecay": (decay, False), "defaultVelocityScaling": (scale, False)}
    if nesterov:
        values["nesterov"] = (1, True)
    optimizer = sgd("Combined", momentum, [popart.ClipNormSettings.clipAllWeights(bound)], **values)
    training = optimizer_training.Training(
        optimizer, accumulation=accumulation, replicas=replicas, reduction=reduction, anchors=("GlobalNorm___0",)
    )
    counted = replicas if accumulation > 1 else 1  # R of the published scalars
    if reduction == "Sum":
        share = scale * counted / SCALING
    else:
        share = scale * (1 if accumulation > 1 else 1 / replicas) / (SCALING * accumulation)
    weights = starts()
    velocity = {name: decay * scale * weight for name, weight in weights.items()}
    for _ in range(5):
        measured, sums = {}, {name: SCALING * g.sum(0) for name, g in training.step().items()}
        for name, total in sums.items():
            measured[name] = reduced = counted * velocity[name] + share * total
            velocity[name] = momentum / counted * reduced
            if nesterov:
                unscaled = share / (scale * counted) * total
                measured[name] = scale * counted * (unscaled + decay * weights[name]) + momentum * reduced
        size = norm(measured.values())
        np.testing.assert_allclose(training.anchors["GlobalNorm___0"].reshape(-1), [size] * replicas, rtol=1e-5)
        for name, direction in measured.items():
            weights[name] -= rate / (scale * counted) * direction * bound / max(size, bound)
            velocity[name] += decay * scale * weights[name]
    expect_weights(training, weights)


@pytest.mark.parametrize("sharded", [False, True])
@pytest.mark.parametrize("mode", ["OnePerGroup", "AllReplicas"])
@pytest.mark.parametrize("given", [False, True])
def test_the_combined_velocity_of_groups_starts_from_the_weight_of_each(given, mode, sharded):
    """Or as the model says."""
    momentum, decay, replicas, groups = 0.5, 0.25, 4, [0, 0, 1, 1]
    start = np.random.default_rng(4).uniform(-1, 1, (2, optimizer_training.SIZE)).astype(np.float32)
    settings = popart.VariableSettings(
        popart.CommGroup(popart.CommGroupType.Consecutive, 2), popart.VariableRetrievalMode[mode]
    )
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [optimizer_training.SIZE], "x")
    w = builder.addInitializedInputTensor(start, settings, "w")
    loss = builder.aiOnnx.reducesum([builder.aiOnnx.mul([x, w])], [0], 0)
    model = onnx.load_from_string(builder.getModelProto())
    velocity, weight = decay * start, start
    if given:
        velocity = start[::-1].copy()
        model.graph.initializer.append(onnx.numpy_helper.from_array(velocity, "Accl___w"))
    options = popart.SessionOptions()
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, replicas
    if sharded:
        sharding = popart.TensorLocation(popart.TensorStorage.OnChip, popart.ReplicatedTensorSharding.On)
        options.weightTensorLocationSettings = popart.TensorLocationSettings(sharding, 0, 0)
        options.optimizerStateTensorLocationSettings = popart.TensorLocationSettings(sharding, 0, 0)
    session = popart.TrainingSession(
        model.SerializeToString(),
        popart.DataFlow(1, [loss]),
        loss,
        sgd("Combined", momentum, defaultWeightDecay=(decay, False)),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": replicas}),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    for seed in range(3):
        data = np.random.default_rng(seed).uniform(-1, 1, (replicas, optimizer_training.SIZE)).astype(np.float32)
        session.run(popart.PyStepIO({"x": data}, session.initAnchorArrays()))
        velocity = velocity + data.reshape(2, 2, -1).sum(1)
        weight = weight - 0.125 * velocity
        velocity = momentum * velocity + decay * weight
    rows = groups if mode == "AllReplicas" else [0, 1]
    got = {"w": np.zeros_like(weight[rows]), "Accl___w": np.zeros_like(velocity[rows])}
    session.weightsToHost()
    session.readWeights(popart.PyWeightsIO(got))
    np.testing.assert_allclose(got["w"], weight[rows], rtol=1e-5, atol=1e-6)
    np.testing.assert_allclose(got["Accl___w"], velocity[rows], rtol=1e-5, atol=1e-6)
