"""What may be anchored, and which value of it a run returns."""

import numpy
import popart
import pytest
from popart_execution_models import MOMENTUM, SGD, batches, infer, layers, model, node, train, weights

ALL = popart.AnchorReturnType("All")
STEPS, ACCUMULATION = 3, 4
SEPARATE = popart.SGDAccumulatorAndMomentum.Separate


def anchored(*names):
    return dict.fromkeys(names, ALL)


def one_product():
    """loss = mean(x @ w): the gradient of w is known at once."""
    values = {"w": weights()["w0"]}
    nodes = [node("MatMul", ["x", "w"], "y"), node("ReduceMean", ["y"], "loss", axes=[0, 1], keepdims=0)]
    return model(nodes, {"x": (2, 4)}, values), values["w"].astype(numpy.float64)


def gradient(x):
    return x.astype(numpy.float64).T @ numpy.full((2, 4), 1 / 8)


@pytest.mark.shows("popart.DataFlow", "popart.AnchorReturnType")
def test_a_weight_is_that_before_the_update_of_its_batch_with_accumulation():
    proto, w = one_product()
    x = batches(STEPS * ACCUMULATION).reshape(STEPS, ACCUMULATION, 2, 4)
    got = train(proto, [], x, steps=STEPS, anchors=anchored("w", "UpdatedVar___w"), accumulationFactor=ACCUMULATION)
    updated = got["UpdatedVar___w"]
    for batch in range(STEPS):
        after = w - 0.05 * sum(gradient(x[batch, i]) for i in range(ACCUMULATION))
        for i in range(ACCUMULATION):
            numpy.testing.assert_allclose(got["w"][batch, i], w, rtol=1e-5, atol=1e-6)
            numpy.testing.assert_allclose(updated[batch, i], after, rtol=1e-5, atol=1e-6)
        w = after


def test_a_weight_is_that_after_the_update_without_accumulation():
    proto, w = one_product()
    x = batches(STEPS)
    session_values = train(proto, [], x, steps=STEPS, anchors=anchored("w", "UpdatedVar___w"))
    for batch in range(STEPS):
        w = w - 0.05 * gradient(x[batch])
        numpy.testing.assert_allclose(session_values["w"][batch], w, rtol=1e-5, atol=1e-6)
        numpy.testing.assert_array_equal(session_values["UpdatedVar___w"][batch], session_values["w"][batch])


@pytest.mark.shows("popart.SessionOptions.enableGradientAccumulation", "popart.SessionOptions.accumulationFactor")
def test_sums_of_gradients_grow_over_the_micro_batches_and_begin_again():
    proto, _ = one_product()
    x = batches(STEPS * ACCUMULATION).reshape(STEPS, ACCUMULATION, 2, 4)
    got = train(
        proto,
        [],
        x,
        steps=STEPS,
        optimizer=popart.SGD(SGD, accumulatorAndMomentum=SEPARATE),
        anchors=anchored("Accum___w", "FinalReducedGradient___w"),
        accumulationFactor=ACCUMULATION,
    )
    for batch in range(STEPS):
        total = 0
        for i in range(ACCUMULATION):
            total = total + gradient(x[batch, i])
            numpy.testing.assert_allclose(got["Accum___w"][batch, i], total, rtol=1e-5, atol=1e-6)
        for i in range(ACCUMULATION):
            numpy.testing.assert_allclose(got["FinalReducedGradient___w"][batch, i], total, rtol=1e-5, atol=1e-6)


@pytest.mark.shows("popart.SessionOptions.enableReplicatedGraphs", "popart.SessionOptions.replicatedGraphCount")
def test_the_final_gradient_is_the_sum_over_replicas_and_gradients_are_of_one():
    proto, _ = one_product()
    x = batches(4).reshape(2, 2, 2, 4)
    got = train(
        proto,
        [],
        x,
        ipus=2,
        optimizer=popart.SGD(SGD, accumulatorAndMomentum=SEPARATE),
        anchors=anchored("FinalReducedGradient___w", "Gradient___w", "Accum___w"),
        replicatedGraphCount=2,
        accumulationFactor=2,
    )
    total = sum(gradient(x[i, r]) for i in range(2) for r in range(2))
    for replica in range(2):
        numpy.testing.assert_allclose(got["FinalReducedGradient___w"][-1, replica], total, rtol=1e-5, atol=1e-6)
        own = sum(gradient(x[i, replica]) for i in range(2))
        numpy.testing.assert_allclose(got["Accum___w"][-1, replica], own, rtol=1e-5, atol=1e-6)
        for i in range(2):
            numpy.testing.assert_allclose(
                got["Gradient___w"][i, replica], gradient(x[i, replica]), rtol=1e-5, atol=1e-6
            )


@pytest.mark.parametrize("accumulation", [1, 2])
def test_state_of_the_optimizer_is_that_after_the_update(accumulation):
    proto, _ = one_product()
    x = batches(STEPS * accumulation).reshape(STEPS, accumulation, 2, 4)
    optimizer = popart.SGD(MOMENTUM, accumulatorAndMomentum=SEPARATE)
    options = {"accumulationFactor": accumulation} if accumulation > 1 else {}
    got = train(proto, [], x, steps=STEPS, optimizer=optimizer, anchors=anchored("Accl1___w"), **options)["Accl1___w"]
    velocity = 0
    for batch in range(STEPS):
        velocity = 0.9 * velocity + sum(gradient(x[batch, i]) for i in range(accumulation))
        for value in got[batch].reshape(accumulation, 4, 4):
            numpy.testing.assert_allclose(value, velocity, rtol=1e-5, atol=1e-6)


def test_inputs_weights_constants_and_what_is_folded_are_returned_in_inference():
    from onnx import helper, numpy_helper

    half = numpy.full((2, 4), 0.5, numpy.float32)
    nodes = [
        helper.make_node("Constant", [], ["half"], value=numpy_helper.from_array(half)),
        node("Add", ["half", "half"], "one"),
        node("Add", ["x", "one"], "more"),
        node("MatMul", ["more", "w"], "y"),
    ]
    w = weights()["w0"]
    x = batches(3)
    for constant in (True, False):
        proto = model(nodes, {"x": (2, 4)}, {"w": w})
        got = infer(proto, x, anchored("x", "w", "half", "one", "y"), steps=3, constantWeights=constant)
        numpy.testing.assert_array_equal(got["x"], x)
        for batch in range(3):
            numpy.testing.assert_array_equal(got["w"][batch], w)
            numpy.testing.assert_array_equal(got["half"][batch], half)
            numpy.testing.assert_array_equal(got["one"][batch], 2 * half)
        numpy.testing.assert_allclose(got["y"], (x + 1) @ w, rtol=1e-5, atol=1e-6)


def test_what_a_later_stage_reads_again_is_the_activation():
    values = weights()
    x = batches(4).reshape(1, 4, 2, 4)
    places = [{"ipu": 0}, {"ipu": 1}, {"ipu": 1}]
    got = train(
        layers(values, places),
        [],
        x,
        ipus=2,
        anchors=anchored("Restored___h0", "h0"),
        accumulationFactor=4,
        virtualGraphMode=popart.VirtualGraphMode.Manual,
        enablePipelining=True,
    )
    numpy.testing.assert_array_equal(got["Restored___h0"], got["h0"])
    numpy.testing.assert_allclose(got["h0"], numpy.maximum(x[0] @ values["w0"], 0), rtol=1e-5, atol=1e-6)


# Scalar weight 1, learning rate 0.5, gradients 1 and 2 on replica 0, 3 and 4 on replica 1.
@pytest.mark.shows("popart.SessionOptions.accumulationAndReplicationReductionType")
@pytest.mark.parametrize(
    ("reduction", "strategy", "expected"), [("Sum", "Post", -4.0), ("Mean", "Post", -0.25), ("Mean", "Running", -0.25)]
)
def test_worked_numbers_of_gradient_scaling(reduction, strategy, expected):
    nodes = [node("Mul", ["x", "w"], "loss")]
    got = train(
        model(nodes, {"x": (1,)}, {"w": numpy.ones(1, numpy.float32)}),
        ["w"],
        numpy.array([[[1], [3]], [[2], [4]]], numpy.float32),
        ipus=2,
        optimizer=popart.SGD({"defaultLearningRate": (0.5, False), "lossScaling": (4.0, False)}),
        replicatedGraphCount=2,
        accumulationFactor=2,
        accumulationAndReplicationReductionType=popart.ReductionType[reduction],
        meanAccumulationAndReplicationReductionStrategy=popart.MeanReductionStrategy[strategy],
    )
    assert got["w"].tolist() == [expected]


def test_worked_numbers_of_momentum():
    optimizer = popart.SGD(
        {
            "defaultLearningRate": (0.5, False),
            "defaultMomentum": (0.9, False),
            "defaultDampening": (0.1, False),
            "defaultVelocityScaling": (2.0, False),
            "lossScaling": (4.0, False),
        },
        accumulatorAndMomentum=SEPARATE,
    )
    proto = model([node("Mul", ["x", "w"], "loss")], {"x": (1,)}, {"w": numpy.ones(1, numpy.float32)})
    got = train(proto, ["w"], numpy.ones((1, 1), numpy.float32), optimizer=optimizer)
    numpy.testing.assert_allclose(got["w"], [0.55], rtol=1e-6)


def test_plain_sgd_keeps_no_state():
    proto, _ = one_product()
    with pytest.raises(popart.popart_exception, match="Accl1___w"):
        train(proto, [], batches(1), optimizer=popart.SGD(SGD), anchors=anchored("Accl1___w"))


@pytest.mark.parametrize("accumulation", [1, 2])
def test_a_weight_that_the_loss_does_not_depend_on_stays_as_it_is(accumulation):
    values = weights()
    nodes = [
        node("MatMul", ["x", "w0"], "y"),
        node("MatMul", ["x", "w1"], "beside"),
        node("ReduceMean", ["y"], "loss", axes=[0, 1], keepdims=0),
    ]
    anchors = anchored("loss", "w0", "w1", "beside")
    x = batches(3 * accumulation)
    proto = model(nodes, {"x": (2, 4)}, {name: values[name] for name in ("w0", "w1")})
    got = train(proto, [], x, 3, anchors=anchors, accumulationFactor=accumulation)
    shape = (3, 4, 4) if accumulation == 1 else (3, accumulation, 4, 4)
    numpy.testing.assert_array_equal(got["w1"], numpy.broadcast_to(values["w1"], shape))
    assert (got["w0"][-1] != values["w0"]).any()
    numpy.testing.assert_allclose(got["beside"].reshape(-1, 2, 4), x @ values["w1"], rtol=1e-5, atol=1e-6)
