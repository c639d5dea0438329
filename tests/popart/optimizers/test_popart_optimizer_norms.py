"""Norms of clipping groups as anchors: GlobalNorm___ and the number of the group."""

import numpy as np
import optimizer_training
import pytest

import popart

CLIP = popart.ClipNormSettings


def norm(values):
    return np.sqrt(sum((np.asarray(v, np.float64) ** 2).sum() for v in values))


@pytest.mark.shows("popart.ClipNormSettings")
@pytest.mark.parametrize("accumulation, replicas", [(1, 1), (3, 1), (2, 2)])
def test_the_norm_is_of_the_summed_gradients_with_the_loss_scaling_in_them(accumulation, replicas):
    optimizer = popart.SGD(
        {"defaultLearningRate": (0.1, True), "lossScaling": (4.0, False)},
        [CLIP.clipWeights(["a"], 0.5), CLIP.clipWeights(["b"], 100.0)],
    )
    training = optimizer_training.Training(
        optimizer, accumulation=accumulation, replicas=replicas, anchors=("GlobalNorm___0", "GlobalNorm___1")
    )
    for _ in range(3):
        gradients = training.step()
        for group, weight in enumerate("ab"):
            got = training.anchors[f"GlobalNorm___{group}"]
            assert got.shape == ((replicas,) if replicas > 1 else ()) and got.dtype == np.float32
            np.testing.assert_allclose(got, norm([4.0 * gradients[weight].sum(0)]), rtol=1e-5)


def test_with_momentum_the_norm_is_of_the_velocities():
    optimizer = popart.SGD(
        {"defaultLearningRate": (0.1, True), "defaultMomentum": (0.75, True)}, [CLIP.clipAllWeights(0.5)]
    )
    training = optimizer_training.Training(optimizer, anchors=("GlobalNorm___0",))
    velocities = [np.zeros(optimizer_training.SIZE)] * 2
    for _ in range(3):
        velocities = [0.75 * v + g.sum(0) for v, g in zip(velocities, training.step().values())]
        np.testing.assert_allclose(training.anchors["GlobalNorm___0"], norm(velocities), rtol=1e-5)


def test_every_micro_batch_of_an_update_has_the_norm_of_the_update():
    options = popart.SessionOptions()
    options.enableGradientAccumulation, options.accumulationFactor = True, 3
    session = popart.TrainingSession(
        optimizer_training.model(),
        popart.DataFlow(2, ["GlobalNorm___0"]),
        "loss",
        popart.Adam({"defaultLearningRate": (0.1, False)}, clip_norm_settings=[CLIP.clipAllWeights(0.5)]),
        popart.DeviceManager().createIpuModelDevice({}),
        userOptions=options,
    )
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    data = {
        name: np.random.default_rng(5).uniform(-1, 1, (2, 3, optimizer_training.SIZE)).astype(np.float32)
        for name in "xy"
    }
    session.run(popart.PyStepIO(data, anchors))
    expected = [norm([data[name][batch].sum(0) for name in "xy"]) for batch in (0, 1)]
    np.testing.assert_allclose(anchors["GlobalNorm___0"], np.repeat(expected, 3).reshape(2, 3), rtol=1e-5)


def test_there_is_no_norm_without_its_group():
    with pytest.raises(popart.popart_exception, match="keeps nothing called 'GlobalNorm___1'"):
        optimizer_training.Training(
            popart.SGD({"defaultLearningRate": (0.1, True)}, [CLIP.clipAllWeights(1.0)]), anchors=("GlobalNorm___1",)
        )
