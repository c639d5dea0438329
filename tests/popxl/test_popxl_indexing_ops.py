"""Gathers, scatters and blocks at places known at run time: values, gradients, what they add, what they refuse."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops
from popxl.ops.scatter_reduce import grouped_scatter_reduce

X = np.linspace(-3, 4, 24, dtype=np.float32).reshape(4, 3, 2)
AT = np.array([[3, 0], [1, 1]], np.int32)


@pytest.mark.shows("popxl.ops.gather", "popxl.ops.tied_gather")
def test_gathers_take_slices_as_numpy():
    cases = [
        ("axis 0", lambda t, i: ops.gather(t, i), [X, AT], X[AT]),
        ("axis 1", lambda t, i: ops.gather(t, i, 1), [X, AT % 3], np.take(X, AT % 3, 1)),
        ("last", lambda t, i: ops.gather(t, i, -1, 0.5), [X, AT % 2], np.take(X, AT % 2, -1)),
        ("one", lambda t, i: ops.gather(t, i), [X, np.int32(2)], X[2]),
        ("tied", lambda t, i: ops.tied_gather(t, i, 1), [X, AT % 3], np.take(X, AT % 3, 1)),
        ("integers", lambda t, i: ops.gather(t, i), [X.astype(np.int32), AT], X.astype(np.int32)[AT]),
        *(
            (f"{kind}", lambda t, i: ops.gather(t, i), [X, AT.astype(kind)], X[AT])
            for kind in (np.uint32, np.uint8, np.float32)
        ),
    ]
    check(cases)


@pytest.mark.shows("popxl.ops.gather", "popxl.ops.groupedgather")
def test_indices_outside_give_zeros_where_asked_for():
    outside = np.array([1, 4, -1], np.int32)
    rows = np.stack([X[1], np.zeros_like(X[0]), np.zeros_like(X[0])])
    check(
        [
            ("rows", lambda t, i: ops.gather(t, i, zero_OOR=True), [X, outside], rows),
            ("unsigned", lambda t, i: ops.gather(t, i, zero_OOR=True), [X, outside.astype(np.uint32)], rows),
            (
                "groups",
                lambda t, i: ops.groupedgather(t, i, 1, 2, zero_OOR=True),
                [X[:2], np.array([[0, 3], [2, 9]], np.int32)],
                np.stack([[X[0, 0], 0 * X[0, 0]], [X[1, 2], 0 * X[0, 0]]]),
            ),
        ]
    )
    with OneProgram() as program:  # without zeros the row is not specified, and the run goes on
        program.out(ops.gather(program.of(X), program.of(outside)))
        program.out(ops.gather(program.of(X), program.of(AT)))
    np.testing.assert_array_equal(program.run()[1], X[AT])


@pytest.mark.shows("popxl.ops.groupedgather")
def test_grouped_gathers_stay_in_their_group():
    index = np.array([[2, 0], [1, 1], [0, 2], [2, 2]], np.int32)
    want = np.stack([x[i] for x, i in zip(X, index)])
    behind = np.stack([x[:, i] for x, i in zip(X, index % 2)])
    check(
        [
            ("axis 1", lambda t, i: ops.groupedgather(t, i, 1, 4), [X, index], want),
            ("axis 2", lambda t, i: ops.groupedgather(t, i, 2, 4), [X, index % 2], behind),
            ("one group", lambda t, i: ops.groupedgather(t, i, 0, 1), [X, AT], X[AT]),
        ]
    )
    check_gradients(
        [
            (
                "axis 1",
                lambda t, i: ops.groupedgather(t, i, 1, 4),
                lambda x, i: np.stack([a[b] for a, b in zip(x, i)]),
                [X, index],
            ),
        ]
    )


@pytest.mark.shows("popxl.ops.gather", "popxl.ops.tied_gather")
def test_gradients_of_gathers():
    def zeroed(x, i):
        return np.where((i < 4)[:, None, None], x[np.minimum(i, 3)], 0)

    check_gradients(
        [
            ("gather", ops.gather, lambda x, i: x[i], [X, AT]),
            ("axis 1", lambda t, i: ops.gather(t, i, 1), lambda x, i: np.take(x, i, 1), [X, AT % 3]),
            ("tied", ops.tied_gather, lambda x, i: x[i], [X, AT]),
            ("zeros", lambda t, i: ops.gather(t, i, zero_OOR=True), zeroed, [X, np.array([2, 9, 0], np.int32)]),
        ]
    )


def put(x, index, values, axis=0):
    y = np.array(x)
    np.put_along_axis(y, index, values, axis)
    return y


UNIQUE = np.argsort(np.random.default_rng(1).random((4, 3, 2)), axis=0).astype(np.int32)


@pytest.mark.shows("popxl.ops.scatter")
def test_scatter_puts_values_at_places_along_an_axis():
    values = X[::-1] * 2
    few = UNIQUE[:2]
    rows = X.copy()
    rows[[2, 0]] = values[:2]
    columns = X.copy()
    columns[:, [2, 0]] = values[:, :2]
    check(
        [
            ("axis 0", ops.scatter, [X, UNIQUE, values], put(X, UNIQUE, values)),
            ("fewer", ops.scatter, [X, few, values[:2]], put(X, few, values[:2])),
            ("smaller index", ops.scatter, [X, few, values], put(X, few, values[:2])),
            ("vector", ops.scatter, [X, np.array([2, 0], np.int32), values[:2]], rows),
            (
                "vector of axis 1",
                lambda *a: ops.scatter(*a, axis=-2),
                [X, np.array([2, 0], np.uint32), values[:, :2]],
                columns,
            ),
            (
                "integers",
                ops.scatter,
                [X.astype(np.int32), UNIQUE, values.astype(np.int32)],
                put(X.astype(np.int32), UNIQUE, values.astype(np.int32)),
            ),
        ]
    )
    check_gradients(
        [
            ("scatter", lambda t, v, i: ops.scatter(t, i, v), lambda x, v, i: put(x, i, v), [X, values[:2], few]),
        ]
    )


def reduced(data, index, reduction, start, axis):
    """One element after the other."""
    out = np.array(start)
    index = np.broadcast_to(index, data.shape)
    for place in np.ndindex(data.shape):
        to = list(place)
        to[axis] = index[place]
        at = tuple(to)
        old, new = out[at], data[place]
        out[at] = {"sum": old + new, "max": max(old, new), "min": min(old, new), "none": new}[reduction]
    return out


NEUTRAL = {"sum": 0.0, "none": 0.0, "max": -np.inf, "min": np.inf}
ROWS = np.array([1, 0, 1, 4], np.int32)


@pytest.mark.shows("popxl.ops.scatter_reduce")
def test_scatter_reduce_combines_slices_and_elements():
    start = np.linspace(-1, 1, 30, dtype=np.float32).reshape(5, 3, 2)
    places = np.random.default_rng(2).integers(0, 5, X.shape).astype(np.int32)
    column = ROWS[:, None, None]
    cases = []
    for reduction, value in NEUTRAL.items():
        empty = np.full((5, 3, 2), value, np.float32)

        def plain(t, i, r=reduction):
            return ops.scatter_reduce(t, i, r, axis_size=5)

        def started(t, i, s, r=reduction):
            return ops.scatter_reduce(t, i, r, s)

        cases += [
            (f"{reduction} vector", plain, [X, ROWS], reduced(X, column, reduction, empty, 0)),
            (f"{reduction} elements", plain, [X, places], reduced(X, places, reduction, empty, 0)),
            (f"{reduction} vector from", started, [X, ROWS, start], reduced(X, column, reduction, start, 0)),
            (f"{reduction} elements from", started, [X, places, start], reduced(X, places, reduction, start, 0)),
        ]
    at = np.array([1, 1, 0], np.int32)
    wide = reduced(X, at[None, :, None], "sum", np.zeros((4, 2, 2), np.float32), 1)
    cases.append(("axis 1", lambda t, i: ops.scatter_reduce(t, i, "sum", axis=-2, axis_size=2), [X, at], wide))
    part = reduced(X[:2, :1, :1], places[:2, :1, :1], "sum", np.zeros((5, 1, 1), np.float32), 0)
    cases.append(("as it is", lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=5, enable_index_broadcast=False),
                  [X, places[:2, :1, :1]], part))  # fmt: skip
    check(cases)


@pytest.mark.shows("popxl.ops.scatter_reduce.grouped_scatter_reduce")
def test_grouped_scatter_reduce_stays_in_its_group():
    index = np.array([[0, 1, 1], [4, 0, 0], [2, 2, 2], [1, 3, 1]], np.int32)
    wide = np.broadcast_to(index[:, :, None], X.shape).copy()
    want = np.stack([reduced(x, i[:, None], "sum", np.zeros((5, 2), np.float32), 0) for x, i in zip(X, index)])
    largest = np.stack(
        [reduced(x, i[:, None], "max", np.full((5, 2), -np.inf, np.float32), 0) for x, i in zip(X, index)]
    )
    check(
        [
            (
                "sum",
                lambda t, i: grouped_scatter_reduce(t, i, "sum", axis=1, axis_size=5, group_size=4),
                [X, wide],
                want,
            ),
            (
                "max",
                lambda t, i: grouped_scatter_reduce(t, i, "max", axis=1, axis_size=5, group_size=4),
                [X, wide],
                largest,
            ),
        ]
    )


@pytest.mark.shows("popxl.ops.scatter_reduce")
def test_gradients_of_scatter_reduce():
    start = np.linspace(-5, 5, 30, dtype=np.float32).reshape(5, 3, 2)
    column = ROWS[:, None, None]
    cases = [
        (
            reduction,
            lambda t, s, i, r=reduction: ops.scatter_reduce(t, i, r, s),
            lambda x, s, i, r=reduction: reduced(x, column, r, s, 0),
            [X, start, ROWS],
        )
        for reduction in ("sum", "max", "min")
    ]
    cases.append(
        (
            "none",
            lambda t, s, i: ops.scatter_reduce(t, i, "none", s),
            lambda x, s, i: reduced(x, np.array([2, 0, 1, 4])[:, None, None], "none", s, 0),
            [X, start, np.array([2, 0, 1, 4], np.int32)],
        )
    )
    cases.append(
        (
            "sum without start",
            lambda t, i: ops.scatter_reduce(t, i, "sum", axis_size=5),
            lambda x, i: reduced(x, column, "sum", np.zeros((5, 3, 2)), 0),
            [X, ROWS],
        )
    )
    check_gradients(cases)


@pytest.mark.shows("popxl.ops.dynamic_slice", "popxl.ops.dynamic_update", "popxl.ops.dynamic_update_")
def test_blocks_at_places_known_at_run_time():
    block = np.full((2, 3, 1), 9, np.float32)
    want = X.copy()
    want[1:3, :, 1:2] = 9
    row = np.full((1, 3, 2), 5, np.float32)
    rows = X.copy()
    rows[3:] = 5
    u32 = np.uint32
    check(
        [
            ("one axis", lambda t, i: ops.dynamic_slice(t, i, [0], [2], True), [X, np.array([1], u32)], X[1:3]),
            (
                "two axes",
                lambda t, i: ops.dynamic_slice(t, i, [0, -1], [2, 1], False),
                [X, np.array([1, 1], u32)],
                X[1:3, :, 1:2],
            ),
            ("int32", lambda t, i: ops.dynamic_slice(t, i, [1], [1], True), [X, np.array([2], np.int32)], X[:, 2:]),
            (
                "update",
                lambda t, i, u: ops.dynamic_update(t, i, u, [0, 2], [2, 1], True),
                [X, np.array([1, 1], u32), block],
                want,
            ),
            (
                "update of another shape",
                lambda t, i, u: ops.dynamic_update(t, i, u, [0], [1], True),
                [X, np.array([3], u32), row[0]],
                rows,
            ),
            (
                "update in place",
                lambda t, i, u: ops.dynamic_update_(t, i, u, [0], [1], True),
                [X, np.array([3], u32), row],
                rows,
            ),
        ]
    )

    def updated(x, u):
        y = x.copy()
        y[1:3, :, 1:2] = u
        return y

    at = np.array([1, 1], np.int32)
    check_gradients(
        [
            ("slice", lambda t, i: ops.dynamic_slice(t, i, [0, 2], [2, 1], True), lambda x, i: x[1:3, :, 1:2], [X, at]),
            (
                "update",
                lambda t, u, i: ops.dynamic_update(t, i, u, [0, 2], [2, 1], True),
                lambda x, u, i: updated(x, u),
                [X, block, at],
            ),
        ]
    )


@pytest.mark.shows("popxl.ops.dynamic_update_")
def test_an_update_in_place_changes_its_tensor():
    with OneProgram() as program:
        t, at = program.of(X), program.of(np.array([2], np.uint32))
        with popxl.in_sequence():
            ops.dynamic_update_(t, at, popxl.constant(np.zeros((1, 3, 2), np.float32)), [0], [1], True)
            place = program.out(t)
    want = X.copy()
    want[2] = 0
    np.testing.assert_array_equal(program.run()[place], want)


@pytest.mark.shows("popxl.ops.gather", "popxl.ops.scatter_reduce", "popxl.ops.dynamic_slice")
@pytest.mark.edge("29.38")
def test_indexing_ops_refuse_what_does_not_fit():
    ir = popxl.Ir()
    graph = ir.main_graph
    px = popart.popart_exception
    with graph:
        x, at = popxl.variable(X, name="x"), popxl.variable(ROWS, name="at")
        two = popxl.variable(np.array([0, 1], np.uint32))
        mistakes = [
            (px, lambda: ops.gather(x, at, 3), "axis 3"),
            (px, lambda: ops.gather(popxl.variable(1.0), at), "without dimensions"),
            (px, lambda: ops.groupedgather(x, at, 0, 4), "group"),
            (px, lambda: ops.groupedgather(x, two, 1, 4), "group"),
            (px, lambda: ops.scatter(x, at, x, 3), "axis 3"),
            (px, lambda: ops.scatter(x, x, at), "values of shape"),
            (ValueError, lambda: ops.scatter_reduce(x, at, "mean", axis_size=5), "reduction is one of"),
            (ValueError, lambda: ops.scatter_reduce(x, at, "sum"), "axis_size"),
            (TypeError, lambda: ops.scatter_reduce(x, at, "sum", None, 0, 5, 0.5), "enable_index_broadcast"),
            (px, lambda: ops.scatter_reduce(x, two, "sum", axis_size=5), "vector"),
            (px, lambda: ops.dynamic_slice(x, two, [0], [1], True), "2 elements"),
            (px, lambda: ops.dynamic_slice(x, two, [0, 1], [1, 4], True), "block of 4"),
            (px, lambda: ops.dynamic_slice(x, two, [0, 1], [1], True), "2 axes and 1 sizes"),
            (TypeError, lambda: ops.gather(x, [1, 2]), "indices"),
        ]
        for error, make, key in mistakes:
            with pytest.raises(error, match=key):
                make()
        assert op_types(graph) == []
        assert ops.gather(x, at).name == "gather_out"
        assert ops.tied_gather(x, at).name == "tiedgather_out"
        assert ops.groupedgather(x, at, 0).name.startswith("gather_out__t")
        assert ops.scatter(x, at, x).name == "scatter_out"
        assert ops.scatter_reduce(x, at, "sum", axis_size=2).name == "scatterreduce_out"
        assert ops.dynamic_slice(x, two, [0, 1], [1, 1], True).name == "dynamic_slice_out"
        assert op_types(graph) == ["Gather", "PopartTiedGather", "Gather", "Scatter", "ScatterReduce", "DynamicSlice"]
