"""Elementwise ops: values, gradients, what they add to a graph, what they refuse."""

import math

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops


X = np.array([[-2.5, -0.75, -0.1], [0.3, 1.1, 2.25]], np.float32)
POSITIVE = np.abs(X) + np.float32(0.25)
erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x**3)))


def swish(x):
    return x / (1 + np.exp(-x))


UNARY = {
    "abs": (ops.abs, np.abs, X),
    "ceil": (ops.ceil, np.ceil, X),
    "floor": (ops.floor, np.floor, X),
    "cos": (ops.cos, np.cos, X),
    "sin": (ops.sin, np.sin, X),
    "exp": (ops.exp, np.exp, X),
    "log": (ops.log, np.log, POSITIVE),
    "sqrt": (ops.sqrt, np.sqrt, POSITIVE),
    "tanh": (ops.tanh, np.tanh, X),
    "negate": (ops.negate, np.negative, X),
    "relu": (ops.relu, lambda x: np.maximum(x, 0), X),
    "gelu": (ops.gelu, gelu, X),
    "geluerf": (ops.geluerf, lambda x: 0.5 * x * (1 + erf(x / math.sqrt(2))), X),
    "swish": (ops.swish, swish, X),
    "sign": (ops.sign, np.sign, X),
    "log2": (ops.log2, np.log2, POSITIVE),
    "clamp": (lambda t: ops.clamp(t, min=-0.5, max=1.75), lambda x: np.clip(x, -0.5, 1.75), X),
    "clip": (lambda t: ops.clip(t, -1.5, 1.25), lambda x: np.clip(x, -1.5, 1.25), X),
}
WITH_IDENTITY = {**UNARY, "identity": (ops.identity, np.array, X)}  # its values show nothing
IN_PLACE = {
    "exp_": (ops.exp_, np.exp),
    "relu_": (ops.relu_, lambda x: np.maximum(x, 0)),
    "gelu_": (ops.gelu_, gelu),
    "geluerf_": (ops.geluerf_, UNARY["geluerf"][1]),
    "swish_": (ops.swish_, swish),
    "increment_mod_": (lambda t: ops.increment_mod_(t, 3.5, 4), lambda x: np.mod(x + 3.5, 4)),
    "add_": (lambda t: ops.add_(t, popxl.constant([1.0, 2.0, 3.0])), lambda x: x + np.array([1.0, 2.0, 3.0])),
    "scaled_add_": (lambda t: ops.scaled_add_(t, popxl.constant(X), 2.0, 0.5), lambda x: 2 * x + 0.5 * X),
}


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in UNARY))
def test_unary_ops_have_the_values_of_numpy_in_both_float_types():
    check([(name, f, [x], np.asarray(g(x), x.dtype)) for name, (f, g, x) in WITH_IDENTITY.items()])
    halves = {name: (f, g, x.astype(np.float16)) for name, (f, g, x) in WITH_IDENTITY.items()}
    check([(name, f, [x], np.asarray(g(x.astype(np.float64)), np.float16)) for name, (f, g, x) in halves.items()])


@pytest.mark.shows("popxl.ops.abs", "popxl.ops.negate", "popxl.ops.sign", "popxl.ops.relu", "popxl.ops.increment_mod")
def test_unary_ops_of_integers():
    data = np.array([-3, 0, 7], np.int32)
    check(
        [
            ("abs", ops.abs, [data], np.abs(data)),
            ("negate", ops.negate, [data], -data),
            ("sign", ops.sign, [data], np.sign(data)),
            ("relu", ops.relu, [data], np.maximum(data, 0)),
            (
                "increment_mod",
                lambda t: ops.increment_mod(t, 1, 8),
                [np.array([0, 6, 7], np.uint32)],
                np.array([1, 7, 0], np.uint32),
            ),
        ]
    )


@pytest.mark.shows("popxl.ops.isnan", "popxl.ops.isinf", "popxl.ops.isfinite", "popxl.ops.sign")
def test_what_is_no_finite_number():
    odd = np.array([1.0, np.nan, np.inf, -np.inf], np.float32)
    whole = np.array([1, 2], np.int32)
    check(
        [
            ("isnan", ops.isnan, [odd], np.isnan(odd)),
            ("isinf", ops.isinf, [odd], np.isinf(odd)),
            ("isfinite", ops.isfinite, [odd], np.isfinite(odd)),
            ("isinf of halves", ops.isinf, [odd.astype(np.float16)], np.isinf(odd)),
            ("isinf of integers", ops.isinf, [whole], np.array([False, False])),
            ("sign", ops.sign, [odd], np.array([1, 0, 1, -1], np.float32)),
            ("ceil", ops.ceil, [odd], odd),
            ("clip", lambda t: ops.clip(t, -2, 2), [odd], np.array([1, np.nan, 2, -2], np.float32)),
        ]
    )


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in IN_PLACE))
def test_ops_in_place_overwrite_their_tensor():
    with OneProgram() as program:
        places = {}
        for name, (function, _) in IN_PLACE.items():
            t = program.of(X)
            with popxl.in_sequence():
                result = function(t)
                places[name] = program.out(result), program.out(t)
    values = program.run()
    for name, (_, in_numpy) in IN_PLACE.items():
        for place in places[name]:
            np.testing.assert_allclose(
                values[place], in_numpy(X.astype(np.float64)), rtol=1e-5, atol=1e-5, err_msg=name
            )


@pytest.mark.shows("popxl.ops.detach", "popxl.ops.detach_")
def test_a_detached_view_sees_later_writes_and_a_copy_does_not():
    with OneProgram() as program:
        t = program.of(X)
        with popxl.in_sequence():
            view, copy = ops.detach_(t), ops.detach(t)
            assert t not in (view, copy)
            ops.add_(t, popxl.constant(1.0))
            places = program.out(view), program.out(copy)
    values = program.run()
    np.testing.assert_array_equal(values[places[0]], X + 1)
    np.testing.assert_array_equal(values[places[1]], X)


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in UNARY))
def test_gradients_of_unary_ops():
    check_gradients([(name, f, g, [x]) for name, (f, g, x) in WITH_IDENTITY.items()])


A = np.array([[-2.5, -0.75, 1.5], [0.5, 1.0, 2.25]], np.float32)
B = np.array([[1.5, -2.0, 0.25], [3.0, 1.25, -0.5]], np.float32)
ROW = np.array([2.0, -0.5, 4.0], np.float32)
COLUMN = np.array([[1.5], [-2.0]], np.float32)
BINARY = {
    "add": (ops.add, np.add),
    "sub": (ops.sub, np.subtract),
    "mul": (ops.mul, np.multiply),
    "div": (ops.div, np.divide),
    "fmod": (ops.fmod, np.fmod),
    "maximum": (ops.maximum, np.maximum),
}


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in BINARY))
def test_binary_ops_broadcast_as_numpy():
    pairs = [(A, B), (A, ROW), (COLUMN, A), (COLUMN, ROW), (A, np.float32(2.5))]
    check([(f"{name} {a.shape}", f, [a, b], g(a, b)) for name, (f, g) in BINARY.items() for a, b in pairs])
    halves = [(a.astype(np.float16), np.asarray(b, np.float16)) for a, b in pairs[:2]]
    check([(name, f, [a, b], np.asarray(g(a, b), np.float16)) for name, (f, g) in BINARY.items() for a, b in halves])


@pytest.mark.shows("popxl.ops.div", "popxl.ops.fmod", "popxl.ops.pow", "popxl.ops.add")
def test_binary_ops_of_integers():
    a, b = np.array([7, -7, 9], np.int32), np.array([2, 2, -4], np.int32)
    check(
        [
            ("div loses the fraction", ops.div, [a, b], np.array([3, -3, -2], np.int32)),
            ("fmod has the sign of lhs", ops.fmod, [a, b], np.fmod(a, b)),
            ("add", ops.add, [a, b], a + b),
            (
                "mul unsigned",
                ops.mul,
                [a.astype(np.uint32) % 99, np.full(3, 5, np.uint32)],
                a.astype(np.uint32) % 99 * 5,
            ),
            ("pow", lambda t: ops.pow(t, 3), [a], a**3),
        ]
    )


@pytest.mark.shows("popxl.ops.pow")
@pytest.mark.edge("29.5")
def test_powers_by_tensors_and_by_numbers():
    e = np.array([2.0, 0.5, -1.0], np.float32)
    base = np.abs(A)
    check(
        [
            ("tensor", ops.pow, [base, e], base**e),
            ("number", lambda t: ops.pow(t, 2.5), [base], base ** np.float32(2.5)),
            ("integer", lambda t: ops.pow(t, 2), [A], A**2),
        ]
    )


@pytest.mark.shows("popxl.ops.maximum")
@pytest.mark.edge("29.3")
def test_maximum_takes_any_number_of_tensors():
    check(
        [
            ("one", ops.maximum, [A], A),
            ("three", ops.maximum, [A, B, ROW], np.maximum(np.maximum(A, B), ROW)),
        ]
    )


@pytest.mark.shows("popxl.ops.scaled_add")
def test_scaled_add_takes_numbers_and_tensors_and_the_type_of_x():
    half = B.astype(np.float16)
    check(
        [
            ("plain", ops.scaled_add, [A, B], A + B),
            ("numbers", lambda x, y: ops.scaled_add(x, y, 2.0, -0.5), [A, B], 2 * A - np.float32(0.5) * B),
            ("tensors", ops.scaled_add, [A, B, np.float32(3.0), np.float32(0.25)], 3 * A + np.float32(0.25) * B),
            ("types", lambda x, y: ops.scaled_add(x, y, 1.0, 2.0), [A, half], A + 2 * B),
            ("other type", lambda x, y: ops.scaled_add(x, y, b=2.0), [half, A], (B + 2 * A).astype(np.float16)),
        ]
    )


@pytest.mark.shows("popxl.ops.equal", "popxl.ops.greater", "popxl.ops.logical_and", "popxl.ops.logical_or",
                   "popxl.ops.logical_not", "popxl.ops.where")  # fmt: skip
def test_comparisons_and_choices():
    p, q = np.array([True, True, False]), np.array([[True], [False]])
    numbers = np.array([0.0, 2.0, -1.0], np.float32)
    check(
        [
            ("equal", ops.equal, [A, ROW], A == ROW),
            (
                "equal integers",
                ops.equal,
                [np.array([1, 2], np.int32), np.array([1, 3], np.int32)],
                np.array([True, False]),
            ),
            ("greater", ops.greater, [A, B], A > B),
            ("and", ops.logical_and, [p, q], p & q),
            ("or", ops.logical_or, [p, q], p | q),
            ("not", ops.logical_not, [p], ~p),
            ("and of numbers", ops.logical_and, [numbers, p], (numbers != 0) & p),
            ("not of numbers", ops.logical_not, [numbers], numbers == 0),
            ("where", ops.where, [p, A, COLUMN], np.where(p, A, COLUMN)),
            ("where of numbers", ops.where, [numbers, A, np.float32(9.0)], np.where(numbers != 0, A, np.float32(9.0))),
        ]
    )


@pytest.mark.shows(*(f"popxl.ops.{name}" for name in ("add", "sub", "mul", "div", "pow", "where", "maximum")))
def test_gradients_of_ops_with_several_inputs():
    base = np.abs(A) + np.float32(0.5)
    mask = np.array([True, False, True])
    check_gradients(
        [
            *((name, f, g, [A, B]) for name, (f, g) in BINARY.items() if name != "fmod"),
            *((f"{name} row", f, g, [A, ROW]) for name, (f, g) in BINARY.items() if name != "fmod"),
            ("pow", ops.pow, np.power, [base, B]),
            ("pow row", ops.pow, np.power, [base, ROW]),
            ("where", lambda a, b, m: ops.where(m, a, b), lambda a, b, m: np.where(m, a, b), [A, COLUMN, mask]),
            ("square", lambda a: ops.mul(a, a), np.square, [A]),
        ]
    )


@pytest.mark.shows("popxl.ops.identity", "popxl.ops.isfinite", "popxl.ops.log2", "popxl.ops.logical_and")
def test_what_calls_add_to_a_graph():
    def added(function, *arguments):
        ops_before, tensors_before = len(op_types(graph)), len(graph.tensors)
        function(*arguments)
        return op_types(graph)[ops_before:], len(graph.tensors) - tensors_before

    ir = popxl.Ir()
    graph = ir.main_graph
    with graph:
        x, flag = popxl.variable(X, name="x"), popxl.variable([True, False, True])
        assert added(ops.isfinite, x) == (["IsNaN", "IsInf", "Or", "Not", "Identity"], 5)
        assert added(ops.log2, x) == (["Log", "Log", "Div"], 4)
        assert added(ops.pow, x, 2.0) == (["Pow"], 2)
        assert added(ops.logical_and, flag, flag) == (["And"], 1)
        assert added(ops.logical_or, x, flag) == (["Cast", "Or"], 2)
        assert added(ops.logical_not, x) == (["Cast", "Not"], 2)
        assert added(ops.where, x, x, x) == (["Cast", "Where"], 2)
        assert added(ops.scaled_add, x, x, 2.0, 3.0) == (["ScaledAdd"], 1)
        assert added(ops.add_, x, x) == (["AddLhsInplace"], 1)
        assert added(ops.maximum, x, x, x) == (["Max"], 1)
        assert added(ops.cast, x, popxl.float16) == (["Cast"], 1)


@pytest.mark.shows("popxl.ops.rename", "popxl.ops.identity", "popxl.ops.scaled_add_")
def test_names_of_results():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(X, name="x")
        assert ops.add(x, x).name == "add_out"
        assert ops.add(x, x).name.startswith("add_out__t")
        assert ops.identity(x).name == "identity_x"
        assert ops.rename(x, "hidden").name == "hidden"
        assert ops.clamp is ops.clip
        assert ops.negate(x).name == "negate_out"
        assert ops.logical_not(x).name == "not_out"
        assert ops.scaled_add_(x, x).name == "scaled_add__x"
        assert ops.exp_(x).name == "exp_inplace_out"
        with popxl.name_scope("head"):
            assert ops.tanh(x).name == "head/tanh_out"


@pytest.mark.shows("popxl.ops.add", "popxl.ops.exp", "popxl.ops.scaled_add", "popxl.ops.maximum")
def test_mistakes_add_nothing():
    ir = popxl.Ir()
    graph = ir.main_graph
    with graph:
        x, whole = popxl.variable(X), popxl.variable(np.array([1, 2, 3], np.int32))
        other = ir.create_empty_graph("other")
        with other:
            inside = popxl.graph_input((2, 3), popxl.float32)
        before = len(graph.tensors)
        with pytest.raises(TypeError, match="lhs"):
            ops.add(1.0, x)
        with pytest.raises(ValueError, match="rhs"):
            ops.add(x, inside)
        with pytest.raises(popart.popart_exception, match="dtype|type"):
            ops.add(x, whole)
        with pytest.raises(popart.popart_exception, match="shape"):
            ops.add(x, popxl.variable(np.zeros((2, 2), np.float32), name="square"))
        with pytest.raises(popart.popart_exception, match="Histogram"):
            ops.histogram(whole, [1.0, 2.0], False)
        with pytest.raises(popart.popart_exception, match="AddLhsInplace"):
            ops.add_(popxl.variable(ROW, name="row"), x)
        with pytest.raises(ValueError, match="rank 0"):
            ops.scaled_add(x, x, popxl.variable(ROW, name="factor"))
        with pytest.raises(popart.popart_exception, match="broadcast"):
            ops.scaled_add(x, popxl.variable(ROW, name="small"))
        with pytest.raises(ValueError, match="at least one"):
            ops.maximum()
        assert len(graph.tensors) - before == 4  # the variables
        assert op_types(graph) == []
    with pytest.raises(RuntimeError, match="current graph"):
        ops.abs(x)
    with graph, popxl.ipu(0):
        a = ops.abs(x)
        with popxl.ipu(1):
            b = ops.abs(popxl.variable(X, name="on_1"))
        with pytest.raises(ValueError, match="different IPUs"):
            ops.mul(a, b)


OF_FLOATS = [
    *(
        getattr(ops, name)
        for name in ("exp", "log", "sqrt", "tanh", "sin", "cos", "gelu", "geluerf", "swish", "logsum", "logsumexp")
    ),
    *(getattr(ops, name) for name in ("exp_", "gelu_", "geluerf_", "swish_", "lamb_square")),
    lambda x: ops.softmax(x, 1),
    lambda x: ops.dropout(x, popxl.constant([1, 2], popxl.uint32), 0.5),
]


@pytest.mark.parametrize("number", range(len(OF_FLOATS)))
@pytest.mark.parametrize("dtype", [popxl.int32, popxl.uint8])
def test_ops_of_floats_are_made_on_integers_and_refused_by_the_session(number, dtype):
    function, ir = OF_FLOATS[number], popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 2)), dtype, "x")
        y = function(x)
        assert y.dtype is (popxl.float32 if function is ops.lamb_square else dtype)
        assert y.shape == function(popxl.variable(np.ones((2, 2)), popxl.float32)).shape
    with pytest.raises(popart.popart_exception, match="must be floating.*\n.*inputs: .*'x'"):
        popxl.Session(ir, "ipu_model")
    with ir.main_graph:
        graph = ir.create_graph(lambda x: function(x), x)
    other = popxl.Ir()  # a graph that does not run is nobody's concern
    graph = other.create_graph(lambda x: function(x), popxl.TensorSpec((2, 2), dtype))
    with other.main_graph:
        popxl.variable(1.0) + 1
    popxl.Session(other, "ipu_model")
    if function in (ops.exp_, ops.gelu_, ops.geluerf_, ops.swish_):
        with pytest.raises(popart.popart_exception, match="overwrites"):
            popxl.transforms.autodiff(graph)
    elif function is not ops.lamb_square:
        assert popxl.transforms.autodiff(graph).graph.outputs[0].dtype is dtype


def test_products_of_two_dtypes_are_made_with_that_of_the_left_and_refused_by_the_session():
    ir = popxl.Ir()
    with ir.main_graph:
        x, w = (popxl.variable(np.ones((2, 2)), dtype) for dtype in (popxl.float32, popxl.float16))
        assert (x @ w).dtype is popxl.float32 and (w @ x).dtype is popxl.float16
        assert ops.matmul(w, x, output_type=popxl.float32).dtype is popxl.float32
        graph = ir.create_graph(lambda x, w: x @ w, x, w)
    assert [t.dtype for t in popxl.transforms.autodiff(graph).graph.outputs] == [popxl.float32, popxl.float16]
    with pytest.raises(popart.popart_exception, match="of one dtype.*\n.*MatMul"):
        popxl.Session(ir, "ipu_model")
