"""Types, shapes and numbers of operands that PopART takes where the text of ONNX does not, and what it computes of them."""

import math

import numpy as np
import pytest

import popart

OPSETS = {"ai.onnx": 10, "ai.graphcore": 1}
TYPES = {
    np.dtype("float32"): "FLOAT",
    np.dtype("float16"): "FLOAT16",
    np.dtype("int32"): "INT32",
    np.dtype("bool"): "BOOL",
}


def made(build, arrays, opset=10, loss=False, gradients=(), prepare=True):
    """Results of build(builder, ids) as inference, or gradients under the sum of the first result."""
    builder = popart.Builder(opsets=OPSETS | {"ai.onnx": opset})
    arrays = {f"x{i}": array for i, array in enumerate(arrays)}
    ids = [builder.addInputTensor(TYPES[array.dtype], list(array.shape), name) for name, array in arrays.items()]
    results = build(builder, ids)
    results = [results] if isinstance(results, str) else list(results)
    device = popart.DeviceManager().createCpuDevice()
    if loss:
        total = builder.aiGraphcore.identityloss(results[:1], popart.ReductionType.Sum)
        anchors = [popart.reservedGradientPrefix() + ids[i] for i in gradients] or [total]
        flow = popart.DataFlow(1, anchors)
        session = popart.TrainingSession(builder.getModelProto(), flow, total, popart.ConstSGD(0.1), device)
    else:
        anchors = results
        session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, anchors), device)
    if not prepare:
        return session
    session.prepareDevice()
    session.weightsFromHost()
    out = session.initAnchorArrays()
    session.run(popart.PyStepIO(arrays, out))
    return [out[id] for id in anchors]


def refused(message, build, arrays, **more):
    with pytest.raises(popart.popart_exception, match=message):
        made(build, arrays, prepare=False, **more)


# --- products of two types
HALVES = np.float16([[1, 2], [3, -4]])


@pytest.mark.parametrize("number", [np.float32(2), np.float32([2]), np.full((1, 1, 1), 2, np.float32)])
@pytest.mark.parametrize("is_left", [False, True])
@pytest.mark.parametrize("opset", [7, 10, 11])
def test_halves_are_multiplied_by_one_number(number, is_left, opset):
    operands = [number, HALVES] if is_left else [HALVES, number]
    (got,) = made(lambda b, ids: b.aiOnnx.mul(ids), [np.asarray(array) for array in operands], opset=opset)
    assert got.dtype == np.float16 and got.shape == np.broadcast_shapes(HALVES.shape, np.shape(number))
    np.testing.assert_array_equal(got.reshape(2, 2), HALVES * 2)


@pytest.mark.parametrize("number", [np.float32(2), np.float32([2])])
def test_halves_are_multiplied_by_one_number_at_opset_6(number):
    (got,) = made(lambda b, ids: b.aiOnnx.mul(ids, broadcast=1), [HALVES, np.asarray(number)], opset=6)
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, HALVES * 2)


def test_a_number_that_no_half_holds_is_rounded_once():
    (got,) = made(lambda b, ids: b.aiOnnx.mul(ids), [np.float16([4096, -8192]), np.asarray(np.float32(1e-7))])
    np.testing.assert_array_equal(got, np.float16(np.float64([4096, -8192]) * np.float64(np.float32(1e-7))))


def test_halves_times_a_number_have_gradients():
    arrays = [HALVES, np.asarray(np.float32(2))]
    of_halves, of_number = made(lambda b, ids: b.aiOnnx.mul(ids), arrays, loss=True, gradients=[0, 1])
    np.testing.assert_array_equal(of_halves, np.full((2, 2), 2, np.float16))
    assert of_halves.dtype == np.float16 and of_number.dtype == np.float32 and of_number == 2


def test_other_mixtures_of_types_are_refused():
    refused("f16.*f32", lambda b, ids: b.aiOnnx.mul(ids), [HALVES, np.float32([1, 2])])
    for name in ("add", "sub", "div"):
        refused("f16.*f32", lambda b, ids, name=name: getattr(b.aiOnnx, name)(ids), [HALVES, np.asarray(np.float32(2))])


# --- one_hot, scale, logical_if
@pytest.mark.parametrize("opset", [9, 11])
@pytest.mark.parametrize("depth", [4.0, 4.75, [4.0]])
def test_a_depth_may_be_a_number_with_a_point(depth, opset):
    def build(b, ids):
        constants = [b.aiOnnx.constant(np.array(value, np.float32)) for value in (depth, [0, 1])]
        return b.aiOnnx.onehot([ids[0], *constants])

    (got,) = made(build, [np.int32([0, 3, 1])], opset=opset)
    np.testing.assert_array_equal(got, np.eye(4, dtype=np.float32)[[0, 3, 1]])


def test_counters_of_loops_are_scaled():
    def build(b, ids):
        trips, go = b.aiOnnx.constant(np.array(3, np.int64)), b.aiOnnx.constant(np.array(True))
        body = b.createSubgraphBuilder()
        i = body.addInputTensor("INT64", [], "i")
        again, total = body.addUntypedInputTensor("go"), body.addUntypedInputTensor("v")
        twice = body.aiOnnx.cast([body.aiGraphcore.scale([i], 2.5)], "INT32")
        for id in (again, body.aiOnnx.add([total, twice])):
            body.addOutputTensor(id)
        return b.aiOnnx.loop([trips, go, ids[0]], 1, body)

    (got,) = made(build, [np.int32([10])])
    np.testing.assert_array_equal(got, [16])  # 2 * (0 + 1 + 2) more


def condition(kind):
    def build(b, ids):
        branches = []
        for method in ("neg", "relu"):
            branch = b.createSubgraphBuilder()
            branch.addOutputTensor(getattr(branch.aiOnnx, method)([ids[1]]))
            branches.append(branch)
        return b.aiOnnx.logical_if([ids[0]], 1, *branches)

    return build, [np.ones(kind[1], kind[0]), np.float32([1, -2])]


@pytest.mark.parametrize("kind", [(bool, ()), (bool, (1,)), (bool, (1, 1))])
def test_a_condition_is_one_boolean(kind):
    (got,) = made(*condition(kind))
    np.testing.assert_array_equal(got, [1, 0])


@pytest.mark.parametrize(
    "kind", [(np.float32, (1,)), (np.float32, ()), (np.int32, (1,)), (bool, (2,)), (np.float32, (3, 2))]
)
def test_another_condition_is_refused_when_the_device_is_prepared(kind):
    session = made(*condition(kind), prepare=False)
    assert "If" in session._serializeIr()
    with pytest.raises(popart.popart_exception, match="the condition of .*If.* is .*; it is one boolean"):
        session.prepareDevice()


# --- shapes
BLOCKS = np.arange(48, dtype=np.float32).reshape(4, 6, 2)


@pytest.mark.parametrize("into", [(6, 2), (1, 6, 2), (12,), (3, 4)])
def test_a_slice_has_the_shape_of_what_it_lies_in(into):
    def build(b, ids):
        return b.aiGraphcore.dynamicslice(ids, axes=[0], sizes=[1])

    arrays = [BLOCKS, np.int32([2]), np.zeros(into, np.float32)]
    (got,) = made(build, arrays)
    np.testing.assert_array_equal(got, BLOCKS[2].reshape(into))
    (gradient,) = made(build, arrays, loss=True, gradients=[0])
    assert (gradient[2] == 1).all() and gradient.sum() == 12
    refused("has 12 elements", build, [BLOCKS, np.int32([2]), np.zeros((5, 2), np.float32)])


@pytest.mark.parametrize("block", [(3,), (1, 3), (3, 1), (1, 1, 3)])
def test_a_block_that_is_put_has_as_many_elements(block):
    def build(b, ids):
        return b.aiGraphcore.dynamicupdate(ids, axes=[0], sizes=[1])

    arrays = [np.zeros((5, 3), np.float32), np.int32([4]), np.float32([1, 2, 3]).reshape(block)]
    (got,) = made(build, arrays)
    np.testing.assert_array_equal(got[4], [1, 2, 3])
    assert got.sum() == 6
    (gradient,) = made(build, arrays, loss=True, gradients=[2])
    np.testing.assert_array_equal(gradient, np.ones(block))
    refused("has 3 elements", build, [arrays[0], arrays[1], np.zeros(4, np.float32)])


@pytest.mark.parametrize("method, opset", [("scatter", 9), ("scatter", 10), ("scatter", 11), ("scatterelements", 11)])
def test_updates_may_be_larger_than_indices(method, opset):
    def build(b, ids):
        return getattr(b.aiOnnx, method)(ids, axis=0)

    updates = np.float32([[5, 6, 7], [8, 9, 10]])
    arrays = [np.zeros((2, 3), np.float32), np.int32([[1, 0]]), updates]
    (got,) = made(build, arrays, opset=opset)
    np.testing.assert_array_equal(got, [[0, 6, 0], [5, 0, 0]])
    (gradient,) = made(build, arrays, opset=opset, loss=True, gradients=[2])
    np.testing.assert_array_equal(gradient, [[1, 1, 0], [0, 0, 0]])
    refused("updates are as large or larger", build, [arrays[0], np.int32([[1, 0]]), updates[:, :1]], opset=opset)
    refused("updates are as large or larger", build, [arrays[0], np.int32([[1, 0]]), updates[0]], opset=opset)


@pytest.mark.parametrize("opset", [6, 7, 8, 11])
@pytest.mark.parametrize("method", ["max", "min", "mean", "sum"])
def test_operands_of_one_shape_before_opset_8(method, opset):
    def build(b, ids):
        return getattr(b.aiOnnx, method)(ids)

    a, row = np.float32([[1, 2], [5, -4]]), np.float32([3, 0])
    of = {"max": np.maximum, "min": np.minimum, "sum": np.add, "mean": lambda x, y: (x + y) / 2}[method]
    np.testing.assert_allclose(made(build, [a, a[::-1].copy()], opset=opset)[0], of(a, a[::-1]))
    if opset < 8:
        refused("nothing is broadcast before opset 8", build, [a, row], opset=opset)
        refused("nothing is broadcast before opset 8", build, [a, a.astype(np.float16)], opset=opset)
    else:
        np.testing.assert_allclose(made(build, [a, row], opset=opset)[0], of(a, row))


# --- numbers
@pytest.mark.parametrize("is_stated", [False, True])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_powers_of_infinities_are_those_of_c(dtype, is_stated):
    bases, exponents = [-math.inf, math.inf], [0.5, -0.5, 1.5, 3, -3, 2, -2, 0, 1, -1]
    for exponent in exponents:
        arrays = [np.array(bases, dtype)] + ([] if is_stated else [np.array(exponent, dtype)])

        def build(b, ids, exponent=exponent):
            return b.aiOnnx.pow([ids[0], b.aiOnnx.constant(np.array(exponent, dtype)) if is_stated else ids[1]])

        (got,) = made(build, arrays)
        wanted = np.array([math.pow(base, exponent) for base in bases], dtype)
        np.testing.assert_array_equal(got, wanted)
        np.testing.assert_array_equal(np.signbit(got), np.signbit(wanted))


def cut(x, w, out, word, strides):
    """The full result without what is too much: floor and ceil of half at start and end, the other way round for SAME_UPPER."""
    full = np.zeros([s * (n - 1) + k for s, n, k in zip(strides, x.shape, w.shape)], np.float32)
    for (i, j), value in np.ndenumerate(x):
        full[i * strides[0] : i * strides[0] + w.shape[0], j * strides[1] : j * strides[1] + w.shape[1]] += value * w
    for axis, size in enumerate(out):
        total = full.shape[axis] - size
        start = math.ceil(total / 2) if word == "SAME_UPPER" else math.floor(total / 2)
        padding = [(0, 0), (0, 0)]
        padding[axis] = (max(0, -start), max(0, start - total))
        full = np.pad(full, padding)
        full = np.take(full, range(max(0, start), max(0, start) + size), axis)
    return full


@pytest.mark.parametrize("word", ["NOTSET", "SAME_UPPER", "SAME_LOWER"])
@pytest.mark.parametrize("strides", [[1, 1], [2, 3]])
@pytest.mark.parametrize("out", [[2, 2], [3, 2], [1, 1], [4, 5], [7, 8]])
def test_stated_sizes_of_a_transposed_convolution(out, strides, word):
    x, w = np.ones((2, 2), np.float32), np.float32([[1, 2], [3, 4]])

    def build(b, ids):
        y = b.aiOnnx.convtranspose(ids, output_shape=out, strides=strides)
        b.addNodeAttribute("auto_pad", word, {y})
        return y

    for opset in (6, 11):
        (got,) = made(build, [x[None, None], w[None, None]], opset=opset)
        np.testing.assert_array_equal(got[0, 0], cut(x, w, out, word, strides))
    if out == [2, 2] and strides == [1, 1]:
        np.testing.assert_array_equal(got[0, 0], [[10, 6], [7, 4]] if word == "SAME_UPPER" else [[1, 3], [4, 10]])


def test_stated_sizes_need_padding_and_two_dimensions():
    image, weight = np.ones((1, 1, 2, 2), np.float32), np.ones((1, 1, 2, 2), np.float32)

    def valid(b, ids):
        y = b.aiOnnx.convtranspose(ids, output_shape=[2, 2])
        b.addNodeAttribute("auto_pad", "VALID", {y})
        return y

    refused("auto_pad VALID", valid, [image, weight])
    for rank in (1, 3):
        arrays = [np.ones([1, 1] + [2] * rank, np.float32)] * 2
        build = lambda b, i, rank=rank: b.aiOnnx.convtranspose(i, output_shape=[2] * rank)  # noqa: E731
        refused(f"{rank} spatial dimensions", build, arrays)
