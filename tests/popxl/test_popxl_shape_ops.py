"""Ops that say where elements stand: values, views, gradients, what they add to a graph, what they refuse."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops

X = np.arange(24, dtype=np.float32).reshape(2, 3, 4) - 7.5
FLOAT8 = np.arange(12, dtype=np.uint8).reshape(3, 4).view(popxl.dtypes.np_dtype_float8_143)
COPIES = {
    "reshape": (lambda t: ops.reshape(t, (4, -1)), lambda x: x.reshape(4, -1)),
    "flatten": (ops.flatten, np.ravel),
    "transpose": (ops.transpose, np.transpose),
    "permutation": (lambda t: ops.transpose(t, (1, 0, -1)), lambda x: x.transpose(1, 0, 2)),
    "squeeze": (lambda t: ops.squeeze(ops.slice(t, 0, 1)), lambda x: x[0]),
    "squeeze one": (lambda t: ops.squeeze(ops.slice(t, [0, 1], [1, 2]), [-2]), lambda x: x[:1, 1]),
    "concat": (lambda t: ops.concat([t, t, t], -1), lambda x: np.concatenate([x, x, x], -1)),
    "slice": (lambda t: ops.slice(t, [None, 1], [None, 3], axis=[0, 2]), lambda x: x[:, :, 1:3]),
    "slice clamps": (lambda t: ops.slice(t, 1, 99), lambda x: x[1:99]),
    "slice from the end": (lambda t: ops.slice(t, [0, -2], [2, -1]), lambda x: x[:, -2:-1]),
    "slice backwards": (lambda t: ops.slice(t, [None, 2], [None, 0], [-1, -1], [0, 2]), lambda x: x[::-1, :, 2:0:-1]),
    "slice of nothing": (lambda t: ops.slice(t, [], [], []), np.array),
    "subsample": (lambda t: ops.subsample(t, [1, 2, 3]), lambda x: x[:, ::2, ::3]),
    "subsample one": (lambda t: ops.subsample(t, 2), lambda x: x[::2]),
}


@pytest.mark.shows("popxl.ops.reshape", "popxl.ops.flatten", "popxl.ops.transpose", "popxl.ops.squeeze",
                   "popxl.ops.concat", "popxl.ops.slice", "popxl.ops.subsample")  # fmt: skip
def test_shape_ops_have_the_values_of_numpy():
    whole = X.astype(np.int32)
    check([(name, f, [x], g(x)) for name, (f, g) in COPIES.items() for x in (X, X.astype(np.float16), whole)])


@pytest.mark.shows("popxl.ops.reshape", "popxl.ops.transpose", "popxl.ops.concat", "popxl.ops.slice",
                   "popxl.ops.subsample", "popxl.ops.split")  # fmt: skip
def test_gradients_of_shape_ops():
    check_gradients(
        [
            *((name, f, g, [X]) for name, (f, g) in COPIES.items()),
            (
                "concat of two",
                lambda a, b: ops.concat([a, b], 1),
                lambda a, b: np.concatenate([a, b], 1),
                [X, X[:, :1]],
            ),
            (
                "concat in place",
                lambda a, b: ops.concat_([a, b], 1),
                lambda a, b: np.concatenate([a, b], 1),
                [X, X[:, :1]],
            ),
            ("a part", lambda t: ops.split(t, [1, 2], 1)[1], lambda x: x[:, 1:], [X]),
        ]
    )


@pytest.mark.shows("popxl.ops.split")
def test_split_into_equal_parts_and_into_lengths():
    check(
        [
            ("equal", lambda t: ops.split(t, 2, -1), [X], [X[:, :, :2], X[:, :, 2:]]),
            ("lengths", lambda t: ops.split(t, [2, 1], 1), [X], [X[:, :2], X[:, 2:]]),
        ]
    )


@pytest.mark.shows("popxl.ops.reshape_", "popxl.ops.flatten_", "popxl.ops.transpose_", "popxl.ops.slice_",
                   "popxl.ops.concat_")  # fmt: skip
def test_views_see_later_writes_and_copies_do_not():
    views = {
        "reshape_": (lambda t: ops.reshape_(t, (6, 4)), lambda x: x.reshape(6, 4)),
        "flatten_": (ops.flatten_, np.ravel),
        "transpose_": (ops.transpose_, np.transpose),
        "slice_": (lambda t: ops.slice_(t, 1, 2, axis=1), lambda x: x[:, 1:2]),
        "concat_": (lambda t: ops.concat_([t, t]), lambda x: np.concatenate([x, x])),
    }
    with OneProgram() as program:
        t, one = program.of(X), popxl.constant(1.0)
        with popxl.in_sequence():
            seen = {name: f(t) for name, (f, _) in views.items()}
            copy = ops.reshape(t, (24,))
            ops.add_(t, one)
            places = {name: program.out(view) for name, view in seen.items()}
            copied = program.out(copy)
    values = program.run()
    for name, (_, in_numpy) in views.items():
        np.testing.assert_array_equal(values[places[name]], in_numpy(X + 1), err_msg=name)
    np.testing.assert_array_equal(values[copied], X.ravel())


@pytest.mark.shows("popxl.ops.slice_")
def test_writing_to_a_view_writes_to_its_tensor():
    with OneProgram() as program:
        t = program.of(X)
        with popxl.in_sequence():
            ops.add_(ops.slice_(t, 1, 2), popxl.constant(10.0))
            place = program.out(t)
    want = X.copy()
    want[1:2] += 10
    np.testing.assert_array_equal(program.run()[place], want)


@pytest.mark.shows("popxl.ops.slice", "popxl.ops.concat", "popxl.ops.reshape", "popxl.ops.transpose",
                   "popxl.ops.subsample", "popxl.ops.gather", "popxl.ops.dynamic_slice")  # fmt: skip
def test_ops_that_move_elements_take_8_bit_floats():
    places, wanted = [], []
    with OneProgram() as program:
        t = popxl.variable(FLOAT8, popxl.float8_143)
        at = popxl.variable(np.array([2, 9], np.uint32))
        start = popxl.variable(np.array([1], np.uint32))
        for result, want in (
            (ops.slice(t, 1, 2), FLOAT8[1:2]),
            (ops.concat([t, t], 1), np.concatenate([FLOAT8, FLOAT8], 1)),
            (ops.reshape(t, (12,)), FLOAT8.reshape(12)),
            (ops.transpose(t), FLOAT8.T),
            (ops.subsample(t, [2, 3]), FLOAT8[::2, ::3]),
            (ops.gather(t, at, zero_OOR=True), np.stack([FLOAT8[2], np.zeros(4, FLOAT8.dtype)])),
            (ops.dynamic_slice(t, start, [0], [2], True), FLOAT8[1:3]),
        ):
            assert result.shape == want.shape
            places.append(program.out(result))
            wanted.append(want)
        with pytest.raises(popart.popart_exception):
            ops.add(t, t)
    values = program.run()
    for place, want in zip(places, wanted):
        np.testing.assert_array_equal(
            values[place].view(np.uint8).reshape(want.shape), np.ascontiguousarray(want).view(np.uint8)
        )


@pytest.mark.shows("popxl.ops.onehot")
def test_onehot_puts_values_along_a_new_axis():
    labels = np.array([[0, 2], [1, 7]], np.int32)
    row = np.eye(3, dtype=np.float32)
    want = np.where(np.pad(row, ((0, 5), (0, 0)))[labels] != 0, np.float32(5.0), np.float32(-1.0))
    values = np.array([-1.0, 5.0], np.float32)
    check(
        [
            ("last", lambda t, v: ops.onehot(t, popxl.constant(3), v, -1), [labels, values], want),
            ("first", lambda t, v: ops.onehot(t, popxl.constant(3), v, 0), [labels, values], np.moveaxis(want, -1, 0)),
            (
                "variable",
                lambda t, n, v: ops.onehot(t, n, v, 1),
                [labels, np.array([3], np.int32), values],
                np.moveaxis(want, -1, 1),
            ),
            (
                "integers",
                lambda t, v: ops.onehot(t, popxl.constant(3), v, 2),
                [labels, values.astype(np.int32)],
                want.astype(np.int32),
            ),
        ]
    )
    hot = np.eye(3)[labels % 3]
    check_gradients(
        [
            (
                "onehot",
                lambda v, t: ops.onehot(t, popxl.constant(3), v, -1),
                lambda v, t: np.where(hot != 0, v[1], v[0]),
                [values, labels % 3],
            )
        ]
    )


@pytest.mark.shows("popxl.Tensor.__getitem__")
@pytest.mark.edge("29.2")
def test_indexing_by_numbers_and_slices_is_that_of_numpy():
    keys = [
        0,
        -1,
        (1, -2),
        slice(None, None, -1),
        (slice(None), slice(None, None, 2), slice(3, 0, -2)),
        (0, slice(1, 3), 2),
    ]
    check([(str(key), lambda t, k=key: t[k], [X], X[key]) for key in keys])


@pytest.mark.shows("popxl.ops.subsample")
@pytest.mark.edge("29.10")
def test_subsample_leaves_the_list_of_its_caller_alone_and_takes_tuples():
    strides = [2]
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X)
        assert ops.subsample(x, strides).shape == (1, 3, 4) and strides == [2]
        assert ops.subsample(x, (1, 2)).shape == (2, 2, 4)
        assert ops.subsample(x, np.array([1, 1, 2])).shape == (2, 3, 2)


@pytest.mark.shows("popxl.ops.split", "popxl.ops.squeeze", "popxl.ops.slice")
def test_what_shape_ops_add_to_a_graph():
    ir = popxl.Ir()
    graph = ir.main_graph
    with graph:
        x = popxl.variable(X, name="x")
        square = popxl.variable(X[0, :, :3], name="square")
        values = popxl.variable([1.0, 2.0], name="values")
        cases = [
            (lambda: ops.split(x, 3, 1), ["Split"], 3),
            (lambda: ops.squeeze(x), ["Reshape"], 1),
            (lambda: ops.flatten_(x), ["ReshapeInplace"], 1),
            (lambda: ops.transpose_(x), ["TransposeInplace"], 1),
            (lambda: ops.slice(x, [], [], []), ["Slice"], 1),
            (lambda: ops.slice(x, axis=[0]), [], 0),
            (lambda: ops.concat_([x, x]), ["ConcatInplace"], 1),
            (lambda: square.diag(), ["Reshape", "Slice", "Subsample"], 3),
            (lambda: x[0, ::2], ["Slice", "Subsample", "Reshape"], 3),
            (lambda: x[[0, 1]], ["Gather"], 2),
            (lambda: x[np.array([True, False, True, True])], ["Where"], 3),
        ]
        for make, types, tensors in cases:
            ops_before, before = len(op_types(graph)), len(graph.tensors)
            make()
            assert op_types(graph)[ops_before:] == types
            assert len(graph.tensors) - before == tensors
        assert ops.slice(x, axis=[0]) is x
        assert [t.name for t in ops.split(square, 3)] == ["square_split_0", "square_split_1", "square_split_2"]
        assert ops.transpose(square).name == "square_T" and ops.reshape(values, (1, 2)).name == "values_reshaped"


@pytest.mark.shows("popxl.ops.reshape", "popxl.ops.transpose", "popxl.ops.squeeze", "popxl.ops.concat", "popxl.ops.split",
                   "popxl.ops.slice", "popxl.ops.subsample", "popxl.ops.onehot")  # fmt: skip
def test_shape_ops_refuse_what_does_not_fit():
    ir = popxl.Ir()
    graph = ir.main_graph
    px = popart.popart_exception
    with graph:
        x, whole = popxl.variable(X), popxl.variable(np.zeros((2, 3, 4), np.int32))
        values = popxl.variable(np.array([0.0, 1.0], np.float32))
        two = popxl.constant([2, 2])
        mistakes = [
            (ValueError, lambda: ops.reshape(x, (0, 4)), "no shape"),
            (ValueError, lambda: ops.reshape(x, (-1, -1)), "no shape"),
            (ValueError, lambda: ops.reshape_(x, (-2, 4)), "no shape"),
            (px, lambda: ops.reshape(x, (5, 5)), "24 elements"),
            (px, lambda: ops.reshape(x, (-1, 5)), "24 elements"),
            (ValueError, lambda: ops.transpose(x, (0, 1, 3)), "axis"),
            (px, lambda: ops.transpose(x, (0, 1)), "permutation"),
            (px, lambda: ops.transpose(x, (0, 1, 1)), "perm"),
            (ValueError, lambda: ops.squeeze(x, [0]), "size 2"),
            (ValueError, lambda: ops.squeeze(x, [3]), "axes"),
            (ValueError, lambda: ops.squeeze(x, [0, -3]), "twice"),
            (TypeError, lambda: ops.concat([x, whole]), "dtype"),
            (ValueError, lambda: ops.concat([]), "at least one"),
            (px, lambda: ops.concat([x, values]), "Concat"),
            (px, lambda: ops.concat([x, x], 3), "axis 3"),
            (ValueError, lambda: ops.split(x, 2, 1), "multiple of 2"),
            (px, lambda: ops.split(x, [1, 1], 1), "of the 3"),
            (ValueError, lambda: ops.slice(x, [0, 1], [1]), "differ in length"),
            (px, lambda: ops.slice(x, 0, 2, 2), "1 or -1"),
            (px, lambda: ops.slice(x, 0, 2, axis=3), "axis 3"),
            (ValueError, lambda: ops.subsample(x, [1, 1, 1, 1]), "4 strides"),
            (px, lambda: ops.subsample(x, [0]), "at least 1"),
            (ValueError, lambda: ops.onehot(whole, two, values, -1), "one element"),
            (px, lambda: ops.onehot(whole, popxl.constant(2), x, -1), "off, on"),
        ]  # fmt: skip
        for error, make, key in mistakes:
            with pytest.raises(error, match=key):
                make()
        assert op_types(graph) == []
