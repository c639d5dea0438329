"""Calls, loops and branches: how inputs are wired, what their infos say, what is refused."""

import numpy as np
import pytest
from one_program import values

import popart
import popxl
from popxl import ops
from popxl.ops.call import CallSiteInfo
from popxl.ops.conditional import ConditionalSiteInfo


def lists(ir, *tensors):
    return [value.tolist() for value in values(ir, *tensors)]


@pytest.mark.shows("popxl.ops.call")
@pytest.mark.edge("29.7")
def test_what_feeds_an_input(ir):
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        g = ir.create_graph(lambda a, b: a - b, x, x)
        pairs = ir.create_graph(
            lambda a, b: a * b, popxl.TensorSpec((2,), popxl.float32), popxl.TensorSpec((2,), popxl.float32)
        )
        results = [
            ops.call(g, x, 3),
            ops.call(g, [x, 3.0]),
            ops.call(g, (t for t in (5, x))),
            ops.call(g, np.float64([7, 3])),
            ops.call(g, inputs_dict={g.inputs[1]: x, g.inputs[0]: True}),
            ops.call(g, np.array(2.0), x),
        ]
        (array,) = ops.call(pairs, np.float32([1, 2]), np.float32([3, 4]))
    assert lists(ir, *(r for (r,) in results), array) == [-2, -2, 4, 4, 0, 1, [3, 8]]


@pytest.mark.shows("popxl.ops.call_with_info")
def test_what_a_call_refuses(ir):
    with ir.main_graph as main:
        x = popxl.variable([1.0, 2.0], name="x")
        g = ir.create_graph(lambda a, b: a - b, x, x)
        with g:
            inner = g.inputs[0] + 1
        ops_before, tensors_before = len(main._pb_graph.getOps()), len(main.tensors)
        for none in (None, "text", object()):
            with pytest.raises(TypeError, match="input|Input"):
                ops.call(g, x, inputs_dict={g.inputs[1]: none})
            with pytest.raises(TypeError):
                ops.call(g, x, none)
        with pytest.raises(ValueError, match="2 inputs"):
            ops.call(g, x, x, x)
        with pytest.raises(ValueError, match="current graph"):
            ops.call(g, inner, x)
        with pytest.raises(ValueError, match="no input"):
            ops.call(g, x, inputs_dict={inner: x})
        with pytest.raises(TypeError, match="key"):
            ops.call(g, x, inputs_dict={"b": x})
        with pytest.raises(ValueError, match="twice"):
            ops.call(g, x, x, inputs_dict={g.inputs[1]: x})
        with pytest.raises(ValueError) as caught:
            ops.call(g, x)
        text = str(caught.value)
        assert f"{g.id}/b" in text and text.index("Missing") < text.index(f"{g.id}/b") < text.index(
            "Connected"
        ) < text.index(f"{g.id}/a")
        for wrong in (popxl.constant([1, 2]), popxl.constant([1.0])):
            with pytest.raises(
                popart.popart_exception, match=g.id.replace("<", ".").replace("(", r"\(").replace(")", r"\)")
            ):
                ops.call(g, x, wrong)
        assert len(main._pb_graph.getOps()) == ops_before
        made = len(main.tensors) - tensors_before
        assert made == 2  # the two constants
        incomplete = ops.call_with_info(g, x, check_inputs=False)
        assert incomplete.inputs == (x,)


@pytest.mark.shows(
    "popxl.ops.CallSiteInfo", "popxl.ops.CallSiteInfo.graph_to_parent", "popxl.ops.CallSiteInfo.parent_to_graph"
)
@pytest.mark.shows(
    "popxl.ops.CallSiteInfo.called_graph",
    "popxl.ops.CallSiteInfo.inputs",
    "popxl.ops.CallSiteInfo.outputs",
    "popxl.ops.CallSiteInfo.parent_input",
    "popxl.ops.CallSiteInfo.parent_output",
    "popxl.ops.CallSiteInfo.graph_to_parent_input_index",
    "popxl.ops.CallSiteInfo.parent_to_graph_input_index",
)
def test_infos_of_calls(ir):
    with ir.main_graph:
        x, y = popxl.variable(1.0, name="x"), popxl.variable(2.0, name="y")
        g = ir.create_graph(lambda a, b, c: (a + b, c), x, y, x)
        info = ops.call_with_info(g, x, y, x)
    assert info.called_graph is g and info.inputs == (x, y, x) and len(info.outputs) == 2
    assert info.parent_input(1) == y and info.parent_output(0) == info.outputs[0]
    for wrong in (lambda: info.parent_input(3), lambda: info.parent_output(2)):
        with pytest.raises(IndexError):
            wrong()
    assert info.graph_to_parent(g.inputs[2]) == x and info.graph_to_parent(g.outputs[0]) == info.outputs[0]
    assert info.graph_to_parent(g.outputs[1]) == x  # input and output: the input goes first
    assert info.parent_to_graph(x) == g.inputs[0] and info.parent_to_graph(y) == g.inputs[1]
    for wrong in (lambda: info.graph_to_parent(x), lambda: info.parent_to_graph(info.outputs[0])):
        with pytest.raises(ValueError):
            wrong()
    for index in (0, 2):
        for same in ("graph_to_parent_input_index", "parent_to_graph_input_index"):
            assert getattr(info, same)(index) == index
    assert info.graph_to_parent_output_index(1) == info.parent_to_graph_output_index(1) == 1
    assert info._op.opType() == "Call" and CallSiteInfo(info._op).inputs == info.inputs
    with pytest.raises(popart.popart_exception, match="no input"):
        info.set_parent_input_modified(info.outputs[0])


def test_names_of_outputs(ir):
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        g = ir.create_graph(lambda a: a + 1, x)
        (first,), (second,) = ops.call(g, x), ops.call(g, x)
        (looped,) = ops.repeat(g, 2, x)
    assert first.id == "add_out" and second.id.startswith("add_out__t") and looped.id.startswith("add_out__t")


def add_to(c: popxl.TensorByRef, k):
    ops.add_(c, k)


def test_writes_go_back_where_they_are_marked(ir):
    with ir.main_graph, popxl.in_sequence():
        tensors = [popxl.variable(10.0, name=f"v{i}") for i in range(5)]
        copied = ir.create_graph(lambda c, k: (ops.add_(c, k), None)[1], tensors[0], tensors[0])
        reads = ir.create_graph(lambda c, k: c + k, tensors[0], tensors[0])
        by_ref = ir.create_graph(add_to, tensors[0], tensors[0])
        one = popxl.constant(1.0)
        ops.call(copied, tensors[0], one)
        ops.call_with_info(copied, tensors[1], one).set_parent_input_modified(tensors[1])
        ops.call_with_info(copied, tensors[2], one).set_parent_input_modified(tensors[2], infer_modified_regions=True)
        info = ops.call_with_info(reads, tensors[3], one)
        info.set_parent_input_modified(tensors[3], infer_modified_regions=True)
        assert not info._op.modifiesIndex(0)
        assert ops.call_with_info(by_ref, tensors[4], one)._op.modifiesIndex(0)
        assert lists(ir, *tensors) == [10, 11, 11, 10, 11]


def test_writes_by_reference_in_a_loop(ir):
    def outer(c: popxl.TensorByRef, k):
        ops.call(inner, c, k)

    with ir.main_graph, popxl.in_sequence():
        c, k = popxl.variable(10.0, name="c"), popxl.constant(1.0)
        inner = ir.create_graph(add_to, c, k)
        ops.repeat(inner, 4, c, k)
        nested = ir.create_graph(outer, c, k)
        ops.call(nested, c, k)
        assert lists(ir, c) == [15]


@pytest.mark.shows("popxl.ops.repeat_with_info")
@pytest.mark.shows(
    "popxl.ops.CallSiteInfo.graph_to_parent_output_index", "popxl.ops.CallSiteInfo.parent_to_graph_output_index"
)
def test_infos_of_loops(ir):
    with ir.main_graph:
        x, y = popxl.variable(1.0, name="x"), popxl.variable(2.0, name="y")
        g = ir.create_graph(lambda a, b: a + b, x, y)
        info = ops.repeat_with_info(g, 3, x, inputs_dict={g.inputs[1]: y})
    wrapper = info.called_graph
    assert wrapper.name.startswith(f"{g.name}__loop_wrapper_subgraph(") and wrapper.called_graphs == (g,)
    assert [t.name for t in wrapper.inputs[:2]] == ["Iterator___", "LoopCond___"]
    assert wrapper.inputs[0].dtype is popxl.int32 and wrapper.outputs[0] == wrapper.inputs[1]
    assert info._op.getTripCountValue() == 3 and info.inputs == (x, y)
    assert info.parent_input(2) == x and info.graph_to_parent(wrapper.inputs[3]) == y
    assert info.graph_to_parent(wrapper.outputs[1]) == info.outputs[0] and info.parent_to_graph(x) == wrapper.inputs[2]
    assert (info.graph_to_parent_output_index(1), info.parent_to_graph_output_index(0)) == (0, 1)
    with pytest.raises(ValueError):
        info.graph_to_parent(g.inputs[0])
    with ir.main_graph, pytest.raises(popart.popart_exception, match="carried"):
        ops.repeat(ir.create_graph(lambda a: a.reshape((1,)), x), 2, x)
    graphs = len(ir._pb_ir.getAllGraphs())
    with ir.main_graph, pytest.raises(TypeError):
        ops.repeat(g, 2.5, x, y)
    with ir.main_graph, pytest.raises(popart.popart_exception):
        ops.repeat(g, 2, popxl.constant([1.0]), y)
    assert len(ir._pb_ir.getAllGraphs()) == graphs


@pytest.mark.shows("popxl.ops.conditional_with_info")
def test_infos_of_branches(ir):
    with ir.main_graph:
        cond, x, y = popxl.variable([True], name="cond"), popxl.variable(1.0, name="x"), popxl.variable(2.0, name="y")
        then, other = ir.create_graph(lambda a, b: a + b, x, y), ir.create_graph(lambda a: a * 2, x)
        info = ops.conditional_with_info(cond, then, other, [x], [x], {then.inputs[1]: y})
        assert isinstance(info, ConditionalSiteInfo) and info.called_graph == (then, other)
        assert info.inputs == (cond, x, y, x) and info._op.opType() == "If"
        assert [info.graph_to_parent_input_index(i) for i in (0, 1)] == [1, 2]
        assert info.graph_to_parent_input_index(0, then_branch=False) == 3
        assert [info.parent_to_graph_input_index(i) for i in (1, 2, 3)] == [0, 1, 0]
        assert [info.is_parent_index_in_then_branch(i) for i in (0, 1, 2, 3)] == [False, True, True, False]
        assert info.graph_to_parent_output_index(0) == info.parent_to_graph_output_index(0, then_branch=False) == 0
        for wrong in (
            lambda: info.graph_to_parent_input_index(2),
            lambda: info.parent_to_graph_input_index(0),
            lambda: info.parent_to_graph_input_index(4),
            lambda: info.graph_to_parent_output_index(1),
            lambda: info.parent_to_graph_output_index(1),
        ):
            with pytest.raises(IndexError):
                wrong()
        assert info.graph_to_parent(other.inputs[0]) == x and info.graph_to_parent(other.outputs[0]) == info.outputs[0]
        assert info.parent_to_graph(x) == then.inputs[0]
        with pytest.raises(NotImplementedError):
            info.set_parent_input_modified(x)
        for inputs in ((None, [x]), ([x, y], None)):
            with pytest.raises(ValueError, match="missing"):
                ops.conditional(cond, then, other, *inputs)
        by_ref = ir.create_graph(add_to, x, y)
        with pytest.raises(NotImplementedError, match="c"):
            ops.conditional(cond, by_ref, by_ref, [x, y], [x, y])
        for wrong in (popxl.constant(1.0), popxl.constant([True, False])):
            with pytest.raises(popart.popart_exception):
                ops.conditional(wrong, other, other, [x], [x])
    assert lists(ir, info.outputs[0]) == [3]


def test_a_graph_that_calls_itself_is_refused_by_the_session(ir):
    with ir.main_graph:
        x = popxl.variable(1.0)
        g = ir.create_graph(lambda a: a + 1, x)
        with g:
            ops.call(g, g.inputs[0])
        ops.call(g, x)
    with pytest.raises(popart.popart_exception, match="calls itself"):
        popxl.Session(ir, "ipu_model")


@pytest.mark.shows("popxl.ops.code_copy.code_copy")
def test_code_is_not_copied(ir):
    from popxl.ops.code_copy import code_copy

    with pytest.raises(NotImplementedError):
        code_copy(ir.main_graph, "executable", "executable")


def on_ipu_1(ir, w, by_reference=False):
    """A graph of one input whose op stands on IPU 1."""

    def by_value(w):
        with popxl.ipu(1):
            return w + 1

    def in_place(w: popxl.TensorByRef):
        with popxl.ipu(1):
            ops.add_(w, w)
            return w + 1

    return ir.create_graph(in_place if by_reference else by_value, w.spec)


def through(ir, w, run):
    return ir.create_graph(lambda w: run(w), w.spec)


def called(ir, w):
    return ops.call_with_info(on_ipu_1(ir, w), w).outputs


def called_by_reference(ir, w):
    return ops.call_with_info(on_ipu_1(ir, w, True), w).outputs


def repeated(ir, w):
    return ops.repeat_with_info(on_ipu_1(ir, w), 2, w).outputs


def nested(ir, w):
    inner = on_ipu_1(ir, w)
    return ops.call_with_info(through(ir, w, lambda w: ops.call(inner, w)), w).outputs


def repeated_in_a_call(ir, w):
    inner = on_ipu_1(ir, w)
    outer = through(ir, w, lambda w: ops.repeat(inner, 2, w))
    assert outer.inputs[0].ipu == 1  # before there is a call site
    outputs = ops.call_with_info(outer, w).outputs
    assert outer.inputs[0].ipu == 1  # and then
    return outputs


def in_a_branch(ir, w):
    condition = popxl.variable(True)
    return ops.conditional_with_info(condition, on_ipu_1(ir, w), on_ipu_1(ir, w), [w], [w]).outputs


def in_one_branch(ir, w):
    condition, other = popxl.variable(False), ir.create_graph(lambda: popxl.constant(np.zeros(2, np.float32)))
    return ops.conditional_with_info(condition, other, on_ipu_1(ir, w), [], [w]).outputs


def nested_in_a_branch(ir, w):
    inner = on_ipu_1(ir, w)
    outer = through(ir, w, lambda w: ops.call(inner, w))
    return ops.conditional_with_info(popxl.variable(True), outer, outer, [w], [w]).outputs


PLACED = [
    called,
    called_by_reference,
    repeated,
    nested,
    repeated_in_a_call,
    in_a_branch,
    in_one_branch,
    nested_in_a_branch,
]


@pytest.mark.shows("popxl.Tensor.ipu")
@pytest.mark.parametrize("program", PLACED)
@pytest.mark.parametrize("reads_first", [False, True])
def test_the_callee_says_where_a_variable_lies(program, reads_first):
    """Its call site stands on another IPU."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        with popxl.ipu(1):
            w = popxl.variable(np.ones(2, np.float32), name="w")
            if reads_first:
                ops.relu(w)
        with popxl.ipu(0):
            (y,) = program(ir, w)
        assert w.ipu == 1
        if program is not in_one_branch:
            assert y.ipu == 1
            with popxl.ipu(1):
                assert (y + w).ipu == 1
    popxl.Session(ir, "ipu_model")
