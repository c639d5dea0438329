"""Graphs inside of nodes: what they read, when loops stop, what is refused."""

import numpy
import onnx
import onnx.helper
import pytest

import ipu_core
from popart_onnx_cases import normal, run, train

make = onnx.helper.make_node
X = normal(2, 3)
NUMBERS = {"float32": onnx.TensorProto.FLOAT, "bool": onnx.TensorProto.BOOL, "int64": onnx.TensorProto.INT64}


def body(inputs, nodes, outputs, name="body", constants=None):
    return onnx.helper.make_graph(
        nodes,
        name,
        [onnx.helper.make_empty_tensor_value_info(n) for n in inputs],
        [onnx.helper.make_empty_tensor_value_info(n) for n in outputs],
        [onnx.numpy_helper.from_array(a, n) for n, a in (constants or {}).items()],
    )


def model(nodes, inputs, outputs, constants=None, opset=11):
    graph = onnx.helper.make_graph(
        nodes,
        "g",
        [onnx.helper.make_tensor_value_info(n, NUMBERS[a.dtype.name], a.shape) for n, a in inputs.items()],
        [onnx.helper.make_tensor_value_info(n, onnx.TensorProto.UNDEFINED, None) for n in outputs],
        [onnx.numpy_helper.from_array(numpy.asarray(a), n) for n, a in (constants or {}).items()],
    )
    versions = [onnx.helper.make_opsetid("", opset), onnx.helper.make_opsetid("ai.graphcore", 1)]
    return onnx.helper.make_model(graph, opset_imports=versions, ir_version=4)


STOPS = [
    make("Add", ["v", "x"], ["w"]),
    make("ReduceSum", ["w"], ["r"], keepdims=0),
    make("Less", ["r", "limit"], ["on"]),
]


@pytest.mark.parametrize("enters", (True, False))
def test_a_loop_stops_when_its_condition_says_so(enters):
    one = numpy.ones((2, 3), numpy.float32)
    inputs = {"x": one, "v0": one, "go": numpy.array(enters)}
    loop = make(
        "Loop",
        ["count", "go", "v0"],
        ["y", "rounds"],
        body=body(["i", "c", "v"], [*STOPS, make("Identity", ["r"], ["s"])], ["on", "w", "s"]),
    )
    constants = {"count": numpy.int64(6), "limit": numpy.float32(20)}
    found = run(model([loop], inputs, ["y", "rounds"], constants), inputs)
    numpy.testing.assert_array_equal(found["y"], 4 * one if enters else one)
    numpy.testing.assert_array_equal(found["rounds"], [12, 18, 24, 0, 0, 0] if enters else numpy.zeros(6))


@pytest.mark.parametrize("constants", [{"count": numpy.int64(0)}, {"count": numpy.int32(4), "go": numpy.array(False)}])
def test_a_loop_without_rounds_gives_what_it_begins_with(constants):
    loop = make(
        "Loop",
        ["count", "go" if "go" in constants else "", "v0"],
        ["y"],
        body=body(["i", "c", "v"], [make("Add", ["v", "v"], ["w"])], ["c", "w"]),
    )
    found = run(model([loop], {"v0": X}, ["y"], constants), {"v0": X})
    numpy.testing.assert_array_equal(found["y"], X)


def test_the_index_of_a_loop_counts_its_rounds():
    nodes = [make("Cast", ["i"], ["f"], to=1), make("Add", ["v", "f"], ["w"])]
    loop = make("Loop", ["count", "", "v0"], ["y"], body=body(["i", "c", "v"], nodes, ["c", "w"]))
    found = run(model([loop], {"v0": X}, ["y"], {"count": numpy.int64(5)}), {"v0": X})
    numpy.testing.assert_allclose(found["y"], X + 10, rtol=1e-6)


def test_graphs_inside_of_each_other_read_values_around_all_of_them():
    inner = body(["j", "d", "u"], [make("Add", ["u", "x"], ["u2"])], ["d", "u2"], "inner")
    nodes = [make("Loop", ["two", "", "v"], ["w"], body=inner)]
    outer = make(
        "Loop",
        ["three", "", "x"],
        ["y"],
        body=body(["i", "c", "v"], nodes, ["c", "w"], "outer", {"two": numpy.array(2)}),
    )
    found = run(model([outer], {"x": X}, ["y"], {"three": numpy.int64(3)}), {"x": X})
    numpy.testing.assert_allclose(found["y"], 7 * X, rtol=1e-6)


def test_nothing_is_trained_through_a_loop_and_everything_through_a_branch():
    w = normal(2, 3, seed=1)
    loop = make(
        "Loop", ["count", "", "w"], ["a"], body=body(["i", "c", "v"], [make("Add", ["v", "u"], ["v2"])], ["c", "v2"])
    )
    branch = make(
        "If",
        ["go"],
        ["b"],
        then_branch=body([], [make("Mul", ["k", "k"], ["t"])], ["t"], "then"),
        else_branch=body([], [make("Add", ["k", "u"], ["e"])], ["e"], "else"),
    )
    nodes = [loop, branch, make("Add", ["a", "b"], ["s"]), make("ReduceSum", ["s"], ["loss"], keepdims=0)]
    constants = {"count": numpy.int64(2), "w": w, "u": X, "k": w + 1}
    for go in (True, False):
        inputs = {"go": numpy.array(go)}
        _, after = train(model(nodes, inputs, ["loss"], constants), inputs, ["w", "u", "k"])
        numpy.testing.assert_array_equal(after["w"], w)
        numpy.testing.assert_allclose(after["u"], X if go else X - 1, rtol=1e-6)
        numpy.testing.assert_allclose(after["k"], (w + 1) - (2 * (w + 1) if go else 1), rtol=1e-5)


def test_each_round_and_each_branch_draws_numbers_of_its_own():
    draw = make("RandomUniformLike", ["v"], ["n"])
    loop = make(
        "Loop",
        ["count", "", "x"],
        ["y", "all"],
        body=body(["i", "c", "v"], [draw, make("Identity", ["n"], ["s"])], ["c", "v", "s"]),
    )
    branch = make(
        "If",
        ["go"],
        ["z"],
        then_branch=body([], [make("RandomUniformLike", ["x"], ["t"])], ["t"], "then"),
        else_branch=body([], [make("Identity", ["x"], ["e"])], ["e"], "else"),
    )
    inputs = {"x": X, "go": numpy.array(True)}
    found = run(model([loop, branch], inputs, ["all", "z"], {"count": numpy.int64(3)}), inputs)
    drawn = [*found["all"], found["z"]]
    for i, a in enumerate(drawn):
        assert ((a >= 0) & (a < 1)).all()
        assert all(not (a == b).any() for b in drawn[:i])


def test_a_call_hands_its_arguments_to_the_inputs_of_the_graph():
    callee = body(["a", "b"], [make("Sub", ["a", "b"], ["d"]), make("Tanh", ["d"], ["e"])], ["d", "e"], "callee")
    nodes = [
        make("Call", ["x", "w"], ["y", "z"], domain="ai.graphcore", callee=callee),
        make("ReduceSum", ["z"], ["loss"], keepdims=0),
    ]
    w = normal(2, 3, seed=1)
    found, after = train(model(nodes, {"x": X}, ["loss", "y", "z"], {"w": w}), {"x": X}, ["w"])
    numpy.testing.assert_allclose(found["y"], X - w, rtol=1e-6)
    numpy.testing.assert_allclose(after["w"], w + (1 - numpy.tanh(X - w) ** 2), rtol=1e-5)


def one(kind, operands, results=1, **graphs):
    domain = "ai.graphcore" if kind == "Call" else ""
    return make(kind, operands, [f"y{i}" for i in range(results)], domain=domain, **graphs)


PASS = body(["i", "c", "v"], [make("Identity", ["v"], ["w"])], ["c", "w"])
SHAPES = body([], [make("ReduceSum", ["x"], ["t"])], ["t"], "then")
SAME = body([], [make("Identity", ["x"], ["e"])], ["e"], "else")
WRONG = [
    (one("Loop", ["n", "", "x"], body=PASS), "'trip count', is computed when the program runs"),
    (one("Loop", ["", "", "x"], body=PASS), "no trip count"),
    (one("Loop", ["minus", "", "x"], body=PASS), "the trip count of .*Loop.* is \\[-1\\]"),
    (
        one("Loop", ["three", "", "x"], body=PASS, __expected_iterations=4),
        "__expected_iterations of .*Loop.* is 4; it is from 0 to the trip count, 3",
    ),
    (one("Loop", ["three", "", "x", "x"], 2, body=PASS), "declares 3 and is given 4"),
    (one("Loop", ["three", "", "x"], 2, body=PASS), "wrong number of outputs.*Loop.* has 2, and its graph gives 1"),
    (
        one(
            "Loop",
            ["three", "", "x"],
            body=body(["i", "c", "v"], [make("Unsqueeze", ["v"], ["w"], axes=[0])], ["c", "w"]),
        ),
        "loop body changes a type",
    ),
    (one("If", ["go"], then_branch=SHAPES, else_branch=SAME), "branches of different types"),
    (one("If", ["x"], then_branch=SAME, else_branch=SAME), "the condition of .*If"),
    (
        one("If", ["go"], then_branch=body([], [make("Tanh", ["later"], ["t"])], ["t"]), else_branch=SAME),
        "reads 'later', which neither it nor a graph around it",
    ),
    (
        one("If", ["go"], then_branch=body([], [make("Hardmax", ["x"], ["t"])], ["t"]), else_branch=SAME),
        "Hardmax",
    ),
    (one("Call", ["x", "x"], callee=body(["a"], [], ["a"])), "the CallOp .* has 2, and its callee 1"),
    (one("Call", ["x"], 2, callee=body(["a"], [], ["a"])), "wrong number of outputs.*Call.* has 2"),
]


@pytest.mark.parametrize("node, message", WRONG)
def test_what_does_not_fit_together_is_refused_with_its_place(node, message):
    inputs = {"x": X, "go": numpy.array(True), "n": numpy.array(3)}
    constants = {"three": numpy.int64(3), "minus": numpy.int64(-1)}
    with pytest.raises(ipu_core.Error, match=message):
        run(model([node], inputs, ["y0"], constants), inputs)
