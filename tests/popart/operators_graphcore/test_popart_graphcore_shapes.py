"""Operators of ai.graphcore that move elements: shapes, slices, blocks, gathers, sequences."""

import numpy as np
import pytest

import ipu_core
from graphcore_models import Gradients, Values, normal, refusal, run, train

X = normal(2, 4, 6)


def depth_to_space(x, block, mode):
    n, c, h, w = x.shape
    d = c // block**2
    if mode == "DCR":
        return x.reshape(n, block, block, d, h, w).transpose(0, 3, 4, 1, 5, 2).reshape(n, d, h * block, w * block)
    return x.reshape(n, d, block, block, h, w).transpose(0, 1, 4, 2, 5, 3).reshape(n, d, h * block, w * block)


SHAPES = [
    ("Reshape", {"shape": [-1, 0, 3]}, lambda x: x.reshape(4, 4, 3)),
    ("Reshape", {"shape": [48]}, lambda x: x.reshape(48)),
    ("Reshape", {"shape": [2, 4, 6]}, lambda x: x),
    ("Slice", {"starts": [1, -5], "ends": [99, -1], "axes": [1, 2]}, lambda x: x[:, 1:, -5:-1]),
    ("Slice", {"starts": [1], "ends": [-(2**40)], "axes": [-1]}, lambda x: x[:, :, 1:0]),
    ("Reverse", {"dimensions": [2, 0]}, lambda x: x[::-1, :, ::-1]),
    ("Reverse", {"dimensions": []}, lambda x: x),
    ("Subsample", {"strides": [1, 3, 4]}, lambda x: x[:, ::3, ::4]),
]


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint8, np.bool_])
def test_operators_that_only_move_elements_are_those_of_numpy(dtype):
    x, values = (X * 9).astype(dtype), Values()
    for kind, attributes, function in SHAPES:
        values.add(kind, [x], function(x), 0, **attributes)
    image = np.arange(2 * 8 * 2 * 3).reshape(2, 8, 2, 3).astype(dtype)
    for mode in ("DCR", "CRD"):
        values.add("DepthToSpace", [image], depth_to_space(image, 2, mode), 0, blocksize=2, mode=mode)
    values.check()


def test_gradients_of_shapes():
    gradients = Gradients()
    for kind, attributes, function in SHAPES:
        gradients.add(kind, {0: X[:, :, ::1]}, function, **attributes)
    gradients.add(
        "DepthToSpace", {0: normal(1, 4, 2, 1)}, lambda x: depth_to_space(x, 2, "CRD"), blocksize=2, mode="CRD"
    )
    gradients.check()


def test_init_gives_zeros_of_each_type_and_ends_gradients():
    nodes, expected = [], {}
    for number, dtype in {6: np.int32, 8: np.uint32, 11: np.float32, 12: np.float16}.items():
        for how in (0, 1):
            name = f"y{number}_{how}"
            nodes.append(
                ("Init", [], [name], {"shape": [2, 3], "data_type": number, "init_type": how, "batch_axis": -1})
            )
            expected[name] = np.zeros((2, 3), dtype)
    nodes.append(("onnx.Add", ["x", "y11_1"], ["sum"], {}))
    got = run(nodes, {"x": np.ones((2, 3), np.float32)}, [*expected, "sum"])
    for name, zeros in expected.items():
        assert got[name].dtype == zeros.dtype
        np.testing.assert_array_equal(got[name], zeros)
    np.testing.assert_array_equal(got["sum"], np.ones((2, 3)))


# --- blocks


def updated(x, offset, block, axes, how):
    x = x.copy()
    place = [slice(None)] * x.ndim
    for axis, start in zip(axes, np.ravel(offset)):
        place[axis] = slice(int(start), int(start) + block.shape[axis])
    place = tuple(place)
    if how == "slice":
        return x[place]
    x[place] = x[place] + block if how == "add" else block
    return x


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint32])
def test_blocks_whose_place_is_known_when_the_program_runs(dtype):
    x, values = (np.abs(normal(5, 4, 3)) * 9).astype(dtype), Values()
    for axes, sizes, offset in (
        ([0], [2], np.int32(3)),
        ([0], [2], np.uint32([1])),
        ([0, 2], [3, 1], np.uint32([[2, 1]])),
        ([2, 1], [2, 2], np.uint8([0, 2])),
    ):
        shape = list(x.shape)
        for axis, size in zip(axes, sizes):
            shape[axis] = size
        block = (np.abs(normal(*shape, seed=3)) * 9).astype(dtype)
        attributes = {"axes": axes, "sizes": sizes}
        part = updated(x, offset, block, axes, "slice")
        values.add("DynamicSlice", [x, offset], part, 0, noOverlap=1, **attributes)
        values.add("DynamicSlice", [x, offset, block], part, 0, **attributes)
        values.add("DynamicUpdate", [x, offset, block], updated(x, offset, block, axes, "assign"), 0, **attributes)
        values.add("DynamicAdd", [x, offset, block], updated(x, offset, block, axes, "add"), **attributes)
        values.add("DynamicZero", [x, offset], updated(x, offset, block * 0, axes, "assign"), 0, **attributes)
    values.check()


def test_gradients_of_blocks():
    x, offset, block = normal(4, 5), np.uint32([1, 2]), normal(2, 3, seed=1)
    attributes, axes = {"axes": [0, 1], "sizes": [2, 3]}, [0, 1]
    gradients = Gradients()
    gradients.add("DynamicSlice", {0: x}, lambda x: updated(x, offset, block, axes, "slice"), {1: offset}, **attributes)
    for kind, how in (("DynamicUpdate", "assign"), ("DynamicAdd", "add")):
        gradients.add(
            kind, {0: x, 2: block}, lambda x, b, how=how: updated(x, offset, b, axes, how), {1: offset}, **attributes
        )
    gradients.add(
        "DynamicZero", {0: x}, lambda x: updated(x, offset, block * 0, axes, "assign"), {1: offset}, **attributes
    )
    gradients.check()


# --- gathers


def grouped_gather(x, index, axis):
    return np.stack([np.take(x[g], index[g], axis=axis - 1) for g in range(len(x))])


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.int8, np.bool_])
def test_gathers_in_groups(dtype):
    x = (normal(3, 4, 5) * 9).astype(dtype)
    one, each = np.int32([[3, 0], [1, 1]]), np.int64([[3, 0], [1, 2], [0, 0]])
    values = Values()
    values.add("GroupedGather", [x, one], np.take(x, one, axis=1), 0, axis=1)
    values.add("GroupedGather", [x, one], np.take(x, one, axis=2), 0, axis=-1, group_size=1)
    values.add("GroupedGather", [x, each], grouped_gather(x, each, 1), 0, axis=1, group_size=3)
    values.add("GroupedGather", [x, each[..., None]], grouped_gather(x, each[..., None], 2), 0, axis=2, group_size=3)
    values.check()


def test_gradients_of_gathers_and_indices_that_are_not_wrapped():
    x, each = normal(2, 4, 3), np.int32([[3, 0, 3], [1, 2, 0]])
    gradients = Gradients()
    gradients.add("GroupedGather", {0: x}, lambda x: np.take(x, each, axis=1), {1: each}, axis=1)
    gradients.add("GroupedGather", {0: x}, lambda x: grouped_gather(x, each, 1), {1: each}, axis=1, group_size=2)
    gradients.check()
    nodes = [("GroupedGather", ["x", "i"], ["y"], {"axis": 1})]
    with pytest.raises(ipu_core.Error, match="index -1"):
        run(nodes, {"x": x, "i": np.int32([-1])}, ["y"])


# --- values without gradients


@pytest.mark.parametrize("dtype", [np.float32, np.float16, np.int32, np.uint32])
def test_buckets_sorted_values_and_pieces_of_sequences(dtype):
    x = np.asarray([[0, 3, 1, 1], [9, 5, 2, 4]], dtype)
    edges = np.asarray([1, 1, 2, 4, 8], dtype)
    values = Values()
    values.add("Bucketize", [x, edges], np.searchsorted(edges, x, "left").astype(np.int32))
    values.add("Bucketize", [x, edges], np.searchsorted(edges, x, "right").astype(np.int32), right=1)
    values.add("Bucketize", [x[0], edges], np.searchsorted(edges, x[0]).astype(np.int32))
    for axis in (-1, 0):
        order = np.argsort(x, axis, kind="stable").astype(np.int32)
        values.add("Sort", [x], [np.sort(x, axis), order], 0, axis=axis, stable=1)
    order = np.argsort(-x.astype(np.float64), 1, kind="stable").astype(np.int32)
    values.add("Sort", [x], [np.take_along_axis(x, order, 1), order], 0, descending=1)
    source, into = np.arange(12).reshape(6, 2).astype(dtype), np.full((5, 2), 50, dtype)
    n, start, to = np.uint32([2, 1]), np.uint32([1, 5]), np.uint32([3, 0])
    result = into.copy()
    result[3:5], result[0] = source[1:3], source[5]
    values.add("SequenceSlice", [source, into, n, start, to], result, 0)
    result = result * (result != 50)
    values.add("SequenceSlice", [source, into, n, start, to], result.astype(dtype), 0, zeroUnused=1)
    values.check()


def test_a_copied_value_is_that_of_the_variable_from_then_on():
    nodes = [("CopyVarUpdate", ["v", "x"], ["y"], {}), ("onnx.Mul", ["y", "w"], ["m"], {})]
    nodes.append(("IdentityLoss", ["m"], ["loss"], {"reduction": "Sum"}))
    x, v = normal(3), np.zeros(3, np.float32)
    from graphcore_models import make_model

    for trained in (["w"], []):
        model = make_model(nodes, {"x": x}, ["loss"], {"v": v, "w": np.ones(3, np.float32)})
        program = ipu_core.Program(loss="loss", optimizer={"lr": 0.5}) if trained else ipu_core.Program()
        session = ipu_core.compile_model(ipu_core.read_onnx(model, trained=trained), program)
        np.testing.assert_allclose(session.run({"x": x})["loss"], x.sum(), rtol=1e-5)
        np.testing.assert_array_equal(session.read("v"), x)
        session.detach()
    assert "'x0'" in refusal("CopyVarUpdate", [x, x], {})
    assert "has 1 operands" in refusal("CopyVarUpdate", [x], {})


# --- refusals


def test_shapes_that_cannot_be_are_refused_with_their_numbers():
    assert "[5,-1]" in refusal("Reshape", [X], {"shape": [5, -1]})
    assert "[-1,-1]" in refusal("Reshape", [X], {"shape": [-1, -1]})
    assert "[7]" in refusal("Reshape", [X], {"shape": [7]})
    for dims in ([-1], [1, 1], [3]):
        assert str(dims).replace(" ", "") in refusal("Reverse", [X], {"dimensions": dims})
    assert "[1,0,1]" in refusal("Subsample", [X], {"strides": [1, 0, 1]})
    assert "2 strides for 3" in refusal("Subsample", [X], {"strides": [1, 1]})
    assert "2 starts, 1 ends" in refusal("Slice", [X], {"starts": [0, 1], "ends": [2], "axes": [0]})
    assert "axis 1 twice" in refusal("Slice", [X], {"starts": [0, 1], "ends": [2, 2], "axes": [1, -2]})
    assert "[2,4,6]" in refusal("DepthToSpace", [X], {"blocksize": 2, "mode": "DCR"})
    assert "blocksize 3" in refusal("DepthToSpace", [normal(1, 4, 2, 2)], {"blocksize": 3, "mode": "DCR"})
    assert '"DRC"' in refusal("DepthToSpace", [normal(1, 4, 2, 2)], {"blocksize": 2, "mode": "DRC"})
    assert "data_type 13" in refusal("Init", [], {"shape": [2], "data_type": 13, "init_type": 0})
    assert "init_type 2" in refusal("Init", [], {"shape": [2], "data_type": 11, "init_type": 2})


def test_blocks_and_indices_that_cannot_be_are_refused_with_their_numbers():
    x, at = normal(4, 5), np.uint32([0])
    assert "2 axes, 1 sizes" in refusal("DynamicSlice", [x, at], {"axes": [0, 1], "sizes": [1]})
    assert "takes 6 elements along axis 1" in refusal("DynamicZero", [x, at], {"axes": [1], "sizes": [6]})
    assert "dimension 2" in refusal("DynamicSlice", [x, at], {"axes": [2], "sizes": [1]})
    assert "f32" in refusal("DynamicSlice", [x, np.float32([0])], {"axes": [0], "sizes": [1]})
    assert "[2,4]" in refusal("DynamicUpdate", [x, at, normal(2, 4)], {"axes": [0], "sizes": [2]})
    assert "f16" in refusal("DynamicAdd", [x, at, normal(2, 5).astype(np.float16)], {"axes": [0], "sizes": [2]})
    assert "axis 0 with 4 groups" in refusal("GroupedGather", [x, np.int32([[0]] * 4)], {"axis": 0, "group_size": 4})
    assert "3 groups" in refusal("GroupedGather", [x, np.int32([[0]] * 3)], {"axis": 1, "group_size": 3})
    assert "dimension 2" in refusal("GroupedGather", [x, np.int32([0])], {"axis": 2})
    assert "[4,5]" in refusal("Bucketize", [x, x], {})
    assert "dimension 2" in refusal("Sort", [x], {"axis": 2}, results=2)
    one = np.uint32([1])
    assert "[3,4]" in refusal("SequenceSlice", [x, normal(3, 4), one, one, one], {})
    assert "[2]" in refusal("SequenceSlice", [x, x, one, np.uint32([1, 2]), one], {})


def test_a_block_of_the_gradient_is_added_once_for_each_time_it_was_read():
    nodes = [("DynamicSlice", ["w", f"o{i}"], [f"y{i}"], {"axes": [0], "sizes": [2]}) for i in range(2)]
    nodes += [("onnx.Add", ["y0", "y1"], ["y"], {}), ("IdentityLoss", ["y"], ["loss"], {"reduction": "Sum"})]
    got = train(nodes, {"o0": np.uint32([0]), "o1": np.uint32([1])}, {"w": normal(4)}, ["loss"])["w"]
    np.testing.assert_allclose(got, [1, 2, 1, 0], atol=1e-6)
