"""Reductions and statistics: values, gradients, what they add to a graph, what they refuse."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops

RNG = np.random.default_rng(5)
X = RNG.permutation(np.linspace(0.25, 6.25, 24)).reshape(2, 3, 4).astype(np.float32)  # no two are equal


def by_axis(numpy_function):
    return lambda x, axis, keepdims: numpy_function(
        x, axis=None if axis is None else tuple(np.atleast_1d(axis)), keepdims=keepdims
    )


def lower_median(x, axis=None, keepdims=False):
    axes = tuple(range(x.ndim)) if axis is None else tuple(a % x.ndim for a in axis)
    rest = [d for d in range(x.ndim) if d not in axes]
    rows = np.transpose(x, (*rest, *axes)).reshape(*(x.shape[d] for d in rest), -1)
    middle = np.sort(rows, axis=-1)[..., (rows.shape[-1] - 1) // 2]
    return middle.reshape([1 if d in axes else x.shape[d] for d in range(x.ndim)]) if keepdims else middle


REDUCTIONS = {
    "sum": (ops.sum, by_axis(np.sum)),
    "mean": (ops.mean, by_axis(np.mean)),
    "prod": (ops.prod, by_axis(np.prod)),
    "max": (ops.max, by_axis(np.max)),
    "min": (ops.min, by_axis(np.min)),
    "median": (ops.median, by_axis(lower_median)),
    "sumsquare": (ops.sumsquare, lambda x, axis, keep: by_axis(np.sum)(x * x, axis, keep)),
    "l1": (ops.l1, lambda x, axis, keep: by_axis(np.sum)(np.abs(x), axis, keep)),
    "l2": (ops.l2, lambda x, axis, keep: np.sqrt(by_axis(np.sum)(x * x, axis, keep))),
    "logsum": (ops.logsum, lambda x, axis, keep: np.log(by_axis(np.sum)(x, axis, keep))),
    "logsumexp": (ops.logsumexp, lambda x, axis, keep: np.log(by_axis(np.sum)(np.exp(x), axis, keep))),
}
AXES = [(None, False), (None, True), (1, False), ([0, 2], True), (-1, True), ((-3, 1), False)]


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in REDUCTIONS))
def test_reductions_over_any_axes():
    cases = []
    for name, (function, in_numpy) in REDUCTIONS.items():
        for axis, keep in AXES:
            want = np.asarray(in_numpy(X.astype(np.float64), axis, keep), np.float32)
            cases.append((f"{name} {axis}", lambda t, f=function, a=axis, k=keep: f(t, a, k), [X], want))
    check(cases)


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in REDUCTIONS))
def test_reductions_of_halves_and_integers():
    halves = (X / 4).astype(np.float16)
    whole = np.array([[5, -2, 4], [1, 8, -3]], np.int32)
    cases = [
        (name, lambda t, f=f: f(t, 1), [halves], np.asarray(g(halves.astype(np.float64), 1, False), np.float16))
        for name, (f, g) in REDUCTIONS.items()
    ]
    for name in ("sum", "prod", "max", "min", "median", "sumsquare", "l1"):
        function, in_numpy = REDUCTIONS[name]
        cases.append(
            (f"{name} i32", lambda t, f=function: f(t, 1), [whole], in_numpy(whole, 1, False).astype(np.int32))
        )
    cases.append(("mean i32", lambda t: ops.mean(t, 1), [whole], np.array([2, 2], np.int32)))
    large = np.full((2, 500), 30, np.float16)
    cases.append(("l2 does not overflow", lambda t: ops.l2(t, 1), [large], np.full(2, 30 * 500**0.5, np.float16)))
    cases.append(("logsumexp does not overflow", ops.logsumexp, [np.array([500, 500], np.float32)],
                  np.asarray(500 + np.log(2), np.float32)))  # fmt: skip
    check(cases)


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in REDUCTIONS))
def test_gradients_of_reductions():
    cases = []
    for name, (function, in_numpy) in REDUCTIONS.items():
        for axis, keep in ((None, False), (1, True), ([0, 2], False)):
            if name == "prod" and axis is None:
                continue  # the product of all is too large for differences
            cases.append(
                (
                    f"{name} {axis}",
                    lambda t, f=function, a=axis, k=keep: f(t, a, k),
                    lambda x, f=in_numpy, a=axis, k=keep: f(x, a, k),
                    [X],
                )
            )
    check_gradients(cases, rtol=1e-3)


@pytest.mark.shows("popxl.ops.max", "popxl.ops.l2", "popxl.ops.median")
def test_gradients_at_ties_and_at_zero():
    ties = np.array([2.0, 5.0, 5.0], np.float32)
    with OneProgram() as program:
        places = []
        for function, data in ((ops.max, ties), (ops.l2, np.zeros(3, np.float32)), (ops.median, ties)):
            x = program.of(data)
            graph = program.ir.create_graph(function, x)
            info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
            call = ops.call_with_info(graph, x)
            (dx,) = ops.call(info.graph, popxl.constant(1.0), inputs_dict=info.inputs_dict(call))
            places.append(program.out(dx))
    largest, norm, middle = (program.run()[place] for place in places)
    np.testing.assert_array_equal(largest, [0, 0.5, 0.5])
    np.testing.assert_array_equal(norm, [0, 0, 0])
    assert middle.sum() == 1 and middle[0] == 0


@pytest.mark.shows("popxl.ops.argmax", "popxl.ops.argmin")
def test_places_of_extremes():
    ties = np.array([[1, 3, 3], [0, 0, 2]], np.int32)
    i32 = np.int32
    check(
        [
            ("default", ops.argmax, [X], np.argmax(X, 0).astype(i32)),
            ("last", lambda t: ops.argmin(t, -1), [X], np.argmin(X, -1).astype(i32)),
            ("kept", lambda t: ops.argmax(t, 1, True), [X], np.argmax(X, 1).astype(i32)[:, None]),
            ("first of equal ones", lambda t: ops.argmax(t, dim=1), [ties], np.array([1, 2], i32)),
            ("first of equal ones", lambda t: ops.argmin(t, dim=1), [ties], np.array([0, 0], i32)),
        ]
    )


@pytest.mark.shows("popxl.ops.topk")
def test_topk_gives_values_and_places():
    def largest(x, k, axis, sign=-1):
        order = np.argsort(sign * x, axis=axis, kind="stable").take(np.arange(k), axis=axis)
        return np.take_along_axis(x, order, axis), order.astype(np.int32)

    check(
        [
            ("largest", lambda t: ops.topk(t, 2, 1, True, True), [X], largest(X, 2, 1)),
            ("smallest", lambda t: ops.topk(t, 3, -1, False, True), [X], largest(X, 3, 2, 1)),
            ("hint", lambda t: ops.topk(t, 1, 0, True, False, 0.3), [X], largest(X, 1, 0)),
        ]
    )
    check_gradients(
        [("topk", lambda t: ops.topk(t, 2, 1, True, True)[0], lambda x: largest(x, 2, 1)[0], [X])],
    )


@pytest.mark.shows("popxl.ops.cumsum", "popxl.ops.softmax", "popxl.ops.lamb_square")
def test_sums_and_softmax():
    def softmax(x, axis):
        rows = x.reshape(*x.shape[:axis], -1)
        e = np.exp(rows - rows.max(-1, keepdims=True))
        return (e / e.sum(-1, keepdims=True)).reshape(x.shape)

    whole = np.array([[1, 2], [3, 4]], np.int32)
    check(
        [
            ("cumsum", ops.cumsum, [X], np.cumsum(X, 0)),
            ("cumsum 2", lambda t: ops.cumsum(t, -1), [X], np.cumsum(X, -1)),
            ("cumsum integers", lambda t: ops.cumsum(t, 1), [whole], np.cumsum(whole, 1).astype(np.int32)),
            ("softmax", lambda t: ops.softmax(t, -1), [X], softmax(X, 2)),
            (
                "softmax large",
                lambda t: ops.softmax(t, 0),
                [np.array([500, 500], np.float32)],
                np.array([0.5, 0.5], np.float32),
            ),
            ("lamb_square", ops.lamb_square, [X], np.asarray(np.sum(X.astype(np.float64) ** 2), np.float32)),
            ("lamb_square half", ops.lamb_square, [np.full(900, 30, np.float16)], np.asarray(810000, np.float32)),
        ]
    )
    check_gradients(
        [
            ("cumsum", lambda t: ops.cumsum(t, 1), lambda x: np.cumsum(x, 1), [X]),
            ("softmax", lambda t: ops.softmax(t, 2), lambda x: softmax(x, 2), [X]),
            ("softmax of two axes", lambda t: ops.softmax(t, 1), lambda x: softmax(x, 1), [X]),
        ]
    )


@pytest.mark.shows("popxl.ops.softmax")
@pytest.mark.edge("29.1")
def test_softmax_takes_all_axes_from_its_own_on_as_one():
    e = np.exp(X - X.max(axis=(1, 2), keepdims=True))
    check([("softmax", lambda t: ops.softmax(t, 1), [X], e / e.sum(axis=(1, 2), keepdims=True))])


@pytest.mark.shows("popxl.ops.histogram")
@pytest.mark.edge("29.21")
def test_histograms_have_a_bin_below_and_one_above_their_levels():
    data = np.array([[-3.0, -1.0, -0.5], [0.1, 1.0, 7.0]], np.float32)
    levels = [-1.0, 0.1, 1.0]
    counts = np.array([1, 2, 1, 2], np.uint32)
    check(
        [
            ("float32", lambda t: ops.histogram(t, levels, False), [data], counts),
            ("float16", lambda t: ops.histogram(t, levels, False), [data.astype(np.float16)], counts),
            ("magnitudes", lambda t: ops.histogram(t, [1, 3], True), [data], np.array([2, 2, 2], np.uint32)),
        ]
    )


@pytest.mark.shows("popxl.ops.median", "popxl.ops.cumsum", "popxl.ops.topk")
def test_what_reductions_add_to_a_graph():
    ir = popxl.Ir()
    graph = ir.main_graph
    with graph:
        x = popxl.variable(X, name="x")
        for function, types, tensors in (
            (ops.median, ["ReduceMedian"], 2),
            (ops.cumsum, ["CumSum"], 2),
            (lambda t: ops.topk(t, 1, 0, True, True), ["TopK"], 2),
            (lambda t: ops.softmax(t, 0), ["Softmax"], 1),
            (lambda t: ops.sum(t, 0), ["ReduceSum"], 1),
        ):
            ops_before, before = len(op_types(graph)), len(graph.tensors)
            function(x)
            assert op_types(graph)[ops_before:] == types
            assert len(graph.tensors) - before == tensors
        names = {t.name for t in graph.tensors}
        assert {"median_out", "cumsum_out", "dim", "topk_out_value", "topk_out_indices", "softmax_out"} <= names
        assert ops.logsumexp(x).name == "logsumexp_out"
        assert ops.sum(x).shape == () and ops.sum(x, keepdims=True).shape == (1, 1, 1)


@pytest.mark.shows("popxl.ops.sum", "popxl.ops.topk", "popxl.ops.histogram", "popxl.ops.argmax", "popxl.ops.cumsum")
def test_reductions_refuse_what_does_not_fit():
    ir = popxl.Ir()
    graph = ir.main_graph
    with graph:
        x, number = popxl.variable(X), popxl.variable(1.0)
        with pytest.raises(popart.popart_exception, match="axis 3"):
            ops.sum(x, 3)
        with pytest.raises(popart.popart_exception, match="axis -4"):
            ops.softmax(x, -4)
        with pytest.raises(popart.popart_exception, match="k is 4"):
            ops.topk(x, 4, 1, True, True)
        with pytest.raises(popart.popart_exception, match="without dimensions"):
            ops.argmax(number)
        with pytest.raises(ValueError, match="strictly"):
            ops.histogram(x, [1.0, 1.0], False)
        with pytest.raises(popart.popart_exception, match="float32 or float16"):
            ops.histogram(popxl.variable(np.array([1, 2], np.int32)), [1.0], False)
        with pytest.raises(TypeError):
            ops.cumsum(x, popxl.constant(1))
        with pytest.raises(TypeError, match="t must be"):
            ops.mean(3.0)
        assert op_types(graph) == []
