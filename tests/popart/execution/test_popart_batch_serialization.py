"""Operators on one part of the batch after another: the numbers of the whole, in less memory."""

import numpy as np
import pytest

import popart
from popart_execution_models import batches, device, layers, options_of, train, weights

MANUAL = popart.VirtualGraphMode.Manual


def factor(parts, **fields):
    settings = popart.BatchSerializationSettings(parts)
    for name, value in fields.items():
        setattr(settings, name, value)
    return {"batchSerializationSettings": settings}


def network(seed=5):
    """A convolution, a batch norm, a pooling, a reshape, attention-like products, a layer of 7."""
    rng = np.random.default_rng(seed)

    def array(*shape):
        return (rng.standard_normal(shape) / 3).astype(np.float32)

    builder = popart.Builder()
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [4, 3, 8, 8]), "x")
    label = builder.addInputTensor(popart.TensorInfo("INT32", [4]), "label")
    initial = {
        "kernel": array(6, 3, 3, 3),
        "bias": array(6),
        "scale": array(6) + 1,
        "shift": array(6),
        "w": array(16, 16),
    }
    initial |= {"mean": np.zeros(6, np.float32), "var": np.ones(6, np.float32), "out": array(96, 7)}
    id = {name: builder.addInitializedInputTensor(value, name) for name, value in initial.items()}
    ai = builder.aiOnnx
    h = ai.conv([x, id["kernel"], id["bias"]], pads=[1, 1, 1, 1])
    h = ai.batchnormalization([h, id["scale"], id["shift"], id["mean"], id["var"]], 5)[0]
    h = ai.maxpool([ai.relu([h])], 1, [2, 2], strides=[2, 2])[0]
    h = builder.reshape_const(ai, [h], [4, 6, 16])
    k = ai.transpose([ai.matmul([h, id["w"]])], [0, 2, 1])
    h = ai.matmul([ai.softmax([ai.matmul([h, k])], axis=2), h])
    y = ai.matmul([builder.reshape_const(ai, [h], [4, 96]), id["out"]])
    loss = builder.aiGraphcore.nllloss([ai.softmax([y], axis=1), label], popart.ReductionType.Sum)
    return builder, loss, {"hidden": h, "y": y}


def trained(parts, anchors=(), steps=3):
    builder, loss, names = network()
    flow = popart.DataFlow(steps, {id: popart.AnchorReturnType("All") for id in (loss, *(f(names) for f in anchors))})
    session = popart.TrainingSession(
        builder.getModelProto(),
        flow,
        loss,
        popart.SGD({"defaultLearningRate": (0.02, False)}),
        device(),
        userOptions=options_of(**factor(parts)),
    )
    session.prepareDevice()
    session.weightsFromHost()
    rng = np.random.default_rng(1)
    data = {
        "x": rng.standard_normal((steps, 4, 3, 8, 8)).astype(np.float32),
        "label": rng.integers(0, 7, (steps, 4)).astype(np.int32),
    }
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO(data, arrays))
    session.weightsToHost()
    after = {
        name: np.empty(session.getInfo(name).shape(), np.float32) for name in ("kernel", "scale", "w", "out", "mean")
    }
    session.readWeights(popart.PyWeightsIO(after))
    return {**arrays, **after}, session._program.text()


@pytest.mark.shows("popart.SessionOptions.batchSerializationSettings", "popart.BatchSerializationSettings")
@pytest.mark.parametrize("parts", [2, 4])
def test_a_network_trains_as_with_the_whole_batch(parts):
    # Gradients of tensors in the middle are of the whole batch, too.
    anchors = [lambda names: names["y"], lambda names: "Gradient___" + names["hidden"]]
    expected, plain = trained(0, anchors)
    got, text = trained(parts, anchors)
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-4, atol=2e-6, err_msg=name)
    for kind in ("conv(", "max_pool(", "softmax("):
        assert text.count(f" {kind}") == parts * plain.count(f" {kind}") > 0, kind
    assert text.count(" batch_norm(") == plain.count(" batch_norm(") == 1


@pytest.mark.parametrize("joins", [True, False])
@pytest.mark.parametrize("mode", ["sharded", "pipelined"])
def test_parts_go_on_to_another_ipu_joined_or_one_by_one(mode, joins):
    values = weights()
    places = [{"ipu": 0, "stage": 0}, {"ipu": 1, "stage": 1}, {"ipu": 1, "stage": 1}]
    x = batches(12, rows=4).reshape(2, 6, 4, 4)
    expected = train(layers(values, rows=4), list(values), x, steps=2, accumulationFactor=6)
    serial = factor(2, concatOnVirtualGraphChange=joins, concatOnPipelineStageChange=joins)
    got = train(
        layers(values, places, rows=4),
        list(values),
        x,
        steps=2,
        ipus=2,
        accumulationFactor=6,
        virtualGraphMode=MANUAL,
        enablePipelining=mode == "pipelined",
        **serial,
    )
    for name, value in expected.items():
        np.testing.assert_allclose(got[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


def wide(parts, rows=64, width=4096):
    builder = popart.Builder()
    rng = np.random.default_rng(0)
    x = builder.addInputTensor(popart.TensorInfo("FLOAT", [rows, 16]), "x")
    up = builder.addInitializedInputTensor((rng.standard_normal((16, width)) / 4).astype(np.float32), "up")
    down = builder.addInitializedInputTensor((rng.standard_normal((width, 16)) / 64).astype(np.float32), "down")
    h = builder.aiOnnx.sin([builder.aiOnnx.matmul([x, up])])
    y = builder.aiOnnx.matmul([h, down])
    session = popart.InferenceSession(
        builder.getModelProto(), popart.DataFlow(1, [y]), device(), userOptions=options_of(**factor(parts))
    )
    session.prepareDevice()
    arrays = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": rng.standard_normal((rows, 16)).astype(np.float32)}, arrays))
    return arrays[y], session._native.memory()[0]["values"]


def test_what_lies_between_is_alive_for_one_part_at_a_time():
    whole, memory = wide(0)
    parts, less = wide(8)
    np.testing.assert_allclose(parts, whole, rtol=1e-5, atol=1e-6)
    hidden = 64 * 4096 * 4
    assert memory >= hidden
    assert less <= memory - hidden * 3 // 4, (memory, less)


def test_a_batch_that_the_factor_does_not_divide_stays_whole():
    whole, memory = wide(0, rows=9, width=64)
    parts, same = wide(2, rows=9, width=64)
    np.testing.assert_array_equal(parts, whole)
    assert same == memory
