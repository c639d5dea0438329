"""What a run returns: shapes and values of anchors of every kind."""

import numpy as np
import pytest
from popart_session_models import cpu, identity, inference, ipu_model, linear, options, step, training

import popart

A = popart.AnchorReturnType


@pytest.mark.shows("popart.AnchorReturnType", "popart.DataFlow", "popart.InferenceSession.initAnchorArrays")
@pytest.mark.parametrize(
    "batches, accumulation, replicas, kind, shape",
    [
        (1, 1, 1, ("All",), [4, 10]),
        (1, 1, 1, ("Final",), [4, 10]),
        (1, 1, 1, ("Sum",), [4, 10]),
        (5, 1, 1, ("All",), [5, 4, 10]),
        (5, 1, 1, ("Final",), [4, 10]),
        (5, 1, 1, ("Sum",), [4, 10]),
        (6, 1, 1, ("EveryN", 3), [2, 4, 10]),
        (3, 1, 1, ("EveryN", 3), [4, 10]),
        (5, 8, 1, ("All",), [5, 8, 4, 10]),
        (1, 8, 2, ("All",), [8, 2, 4, 10]),
        (5, 8, 2, ("Final",), [2, 4, 10]),
        (5, 8, 2, ("Sum",), [2, 4, 10]),
        (6, 2, 2, ("EveryN", 2), [3, 2, 2, 4, 10]),
    ],
)
def test_arrays_of_anchors(batches, accumulation, replicas, kind, shape):
    rng = np.random.default_rng(0)
    weight = rng.normal(size=(10, 10)).astype(np.float32)
    session = training(
        linear(weight, shape=(4, 10)),
        {"x": A(*kind)},
        batches,
        ipu_model(replicas),
        popart.SGD({"defaultLearningRate": (0.0, False)}),
        enableGradientAccumulation=accumulation > 1,
        accumulationFactor=accumulation,
        enableReplicatedGraphs=replicas > 1,
        replicatedGraphCount=replicas,
    )
    arrays = session.initAnchorArrays()
    assert list(arrays["x"].shape) == shape and arrays["x"].dtype == np.float32
    x = rng.integers(-8, 8, (batches * accumulation, replicas, 4, 10)).astype(np.float32)
    session.run(popart.PyStepIO({"x": x}, arrays))
    wanted = {"All": x, "Final": x[-1], "Sum": x.sum(0)}
    expected = wanted[kind[0]] if kind[0] != "EveryN" else x[kind[1] - 1 :: kind[1]]
    np.testing.assert_array_equal(arrays["x"].reshape(-1), expected.reshape(-1))


@pytest.mark.parametrize("period, message", [(2, "does not divide 5"), (6, "does not divide 5")])
def test_periods_that_do_not_divide_the_batches(period, message):
    with pytest.raises(popart.popart_exception, match=message):
        popart.DataFlow(5, {"y": A("EveryN", period)})


def test_arrays_of_a_period_that_no_longer_divides_the_batches():
    session = inference(identity([2]), {"y": A("EveryN", 3)}, 6)
    session.dataFlow.setBatchesPerStep(5)
    with pytest.raises(RuntimeError, match="does not divide"):
        session.initAnchorArrays()
    session.dataFlow.setBatchesPerStep(6)
    x = np.arange(12, dtype=np.float32).reshape(6, 2)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x[2::3])


def test_a_tensor_without_dimensions_gives_an_array_without_dimensions():
    session = inference(identity([]))
    arrays = step(session, x=np.float32(3).reshape(()))
    assert arrays["y"].shape == () and arrays["y"] == -3


def test_constants_and_inputs_can_be_anchored():
    weight = np.arange(12, dtype=np.float32).reshape(3, 4)
    session = inference(linear(weight), ["x", "y", "w"], 2)
    x = np.arange(12, dtype=np.float32).reshape(2, 2, 3)
    arrays = step(session, x=x)
    np.testing.assert_array_equal(arrays["w"], [weight, weight])
    np.testing.assert_array_equal(arrays["x"], x)
    np.testing.assert_array_equal(arrays["y"], x @ weight)


def test_an_anchor_that_is_nowhere():
    with pytest.raises(popart.popart_exception, match="nowhere"):
        inference(identity([2]), ["nowhere"])
    with pytest.raises(popart.popart_exception, match="needs anchors"):
        popart.InferenceSession(identity([2]), popart.DataFlow(1, []), cpu(), userOptions=options())


@pytest.mark.shows("popart.session.InferenceSession", "popart.session.TrainingSession")
def test_the_module_of_sessions(tmp_path):
    import popart.session

    assert popart.session.InferenceSession is popart.InferenceSession is popart._InferenceSessionCore
    assert popart.session.TrainingSession is popart.TrainingSession is popart._TrainingSessionCore
    session = inference(identity([2]))
    assert popart.session._initAnchorArrays(session)["y"].shape == (2,)
    trained = training(linear(np.ones((3, 2), np.float32)))
    assert popart.session._initAnchorArrays(trained).keys() == set(trained.dataFlow.anchors())
    popart.session.makedirsAndCheckWritable(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    assert session.getInfo("y").shape() == [2] and session.getAllTensorIds() >= {"x", "y"}
    assert session.replicationFactor == 1 and session.accumulationFactor == 1
    with pytest.raises(popart.popart_exception, match="'z' is no tensor"):
        session.getInfo("z")
