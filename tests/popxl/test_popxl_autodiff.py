"""popxl.transforms.autodiff: what gradient graphs consist of, what they need of the forward graph, and their values."""


import numpy as np
import pytest
from counting import python_events

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops
from popxl.transforms import (
    ExpectedConnection,
    ExpectedConnectionType,
    GradGraphInfo,
    autodiff,
)

FWD, FWD_GRAD = ExpectedConnectionType.Fwd, ExpectedConnectionType.FwdGrad
X, W = np.float32([[1, 2, 3], [4, 5, 6]]) / 8, np.float32(np.arange(12).reshape(3, 4)) / 16
S = np.float32([1, -2, 3, 0.5])


def types_of(graph):
    return [op.opType() for op in graph._pb_graph.getOps()]


def spec(*shape):
    return popxl.TensorSpec(shape, popxl.float32)


def connections(info):
    return [(c.connection_type, c.fwd_tensor.name) for c in info.expected_inputs]


def run(ir, *tensors):
    with ir.main_graph:
        streams = [popxl.d2h_stream(t.shape, t.dtype) for t in tensors]
        for stream, t in zip(streams, tensors):
            ops.host_store(stream, t)
    with popxl.Session(ir, "ipu_model") as session:
        results = session.run()
    return [results[stream] for stream in streams]


class Example:
    """tanh(x @ w) * s, called and differentiated for w."""

    def __init__(self):
        self.ir = popxl.Ir()
        with self.ir.main_graph:
            self.x, self.w, self.s = (popxl.variable(v, name=n) for v, n in ((X, "x"), (W, "w"), (S, "s")))
            self.graph = self.ir.create_graph(lambda x, w, s: ops.tanh(x @ w) * s, self.x, self.w, self.s)
            self.forward = ops.call_with_info(self.graph, self.x, self.w, self.s)
            self.before = len(self.forward.outputs)
            self.info = autodiff(self.graph, grads_required=[self.graph.inputs[1]])
            dy = popxl.constant(np.ones((2, 4)), popxl.float32)
            self.backward = ops.call_with_info(self.info.graph, dy, inputs_dict=self.info.inputs_dict(self.forward))


@pytest.mark.shows(
    "popxl.transforms.autodiff",
    "popxl.transforms.GradGraphInfo.inputs_dict",
    "popxl.transforms.GradGraphInfo.fwd_parent_ins_to_grad_parent_outs",
    "popxl.transforms.GradGraphInfo.expected_inputs",
    "popxl.transforms.GradGraphInfo.outputs",
    "popxl.transforms.GradGraphInfo.inputs",
    "popxl.transforms.GradGraphInfo.forward_graph",
    "popxl.transforms.GradGraphInfo.expected_outputs",
    "popxl.transforms.GradGraphInfo.fwd_graph_ins_to_grad_parent_outs",
    "popxl.ops.call_with_info",
    "popxl.ops.CallSiteInfo",
    "popxl.ops.CallSiteInfo.outputs",
    "popxl.transforms.GradGraphInfo.graph",
    "popxl.transforms.ExpectedConnectionType",
    "popxl.transforms.ExpectedConnection.connection_type",
    "popxl.transforms.ExpectedConnection.fwd_tensor",
)
def test_what_the_gradient_needs_becomes_outputs_of_the_forward_graph_and_of_its_calls():
    e = Example()
    assert (e.before, len(e.forward.outputs), len(e.graph.outputs)) == (1, 2, 2)
    assert e.graph.outputs[1].name == "tanh_out" and e.forward.outputs[1].name.startswith("autodiff_output__t")
    assert e.info.graph.name == e.graph.name + "_bwd" and e.info.forward_graph is e.graph
    assert connections(e.info)[0] == (FWD_GRAD, "mul_out")
    assert set(connections(e.info)[1:]) == {(FWD, n) for n in ("x", "s", "tanh_out", "mul_out")}
    assert [t.name for t in e.info.inputs] == [name for _, name in connections(e.info)]
    assert len(e.info.expected_inputs) == len(e.info.graph.inputs)
    needed = e.info.inputs_dict(e.forward)
    assert len(needed) == 4 and set(needed.values()) == {e.x, e.s, *e.forward.outputs}
    assert e.info.outputs == (e.graph.inputs[1],)
    assert [c.connection_type for c in e.info.expected_outputs] == [FWD_GRAD]
    assert e.info.fwd_parent_ins_to_grad_parent_outs(e.forward, e.backward) == {e.w: e.backward.outputs[0]}
    assert e.info.fwd_graph_ins_to_grad_parent_outs(e.backward) == {e.graph.inputs[1]: e.backward.outputs[0]}
    (gradient,) = run(e.ir, e.backward.outputs[0])
    wanted = X.T @ ((1 - np.tanh(X @ W) ** 2) * S)
    np.testing.assert_allclose(gradient, wanted, rtol=1e-5, atol=1e-6)


def test_one_gradient_op_for_each_argument_and_one_sum_for_each_tensor():
    e = Example()
    assert types_of(e.info.graph) == ["MulArg0Grad", "Sum", "TanhGrad", "Sum", "MatMulRhsGrad", "Sum"]
    graph = e.info.graph._pb_graph
    kinds = [_ir.op.MulArg0GradOp, _ir.op.SumOp, _ir.op.TanhGradOp, _ir.op.SumOp, _ir.op.MatMulRhsGradOp, _ir.op.SumOp]
    assert [type(op) for op in graph.getOps()] == kinds
    assert graph.getOutputIds() == [f"{e.info.graph.name}/Gradient___w"]
    assert [op.id for op in graph.getOps()] == sorted(op.id for op in graph.getOps())


def test_the_example_of_a_product_and_a_sum():
    ir = popxl.Ir()
    g = ir.create_graph(lambda x, w, b: x * w + b, spec(2), spec(2), spec(2))
    info = autodiff(g, grads_required=[g.inputs[1], g.inputs[2]])
    assert sorted(types_of(info.graph)) == ["AddArg0Grad", "AddArg1Grad", "MulArg1Grad", "Sum", "Sum", "Sum"]
    assert [t.name for t in g.outputs] == ["add_out", "mul_out"]


@pytest.mark.edge("29.13")
def test_defaults_are_all_outputs_and_all_inputs():
    ir = popxl.Ir()
    g = ir.create_graph(lambda x, y: (x * y, ops.exp(x)), spec(2), spec(2))
    info = autodiff(g)
    assert connections(info)[:2] == [(FWD_GRAD, "mul_out"), (FWD_GRAD, "exp_out")]
    assert info.outputs == g.inputs and len(info.graph.outputs) == 2
    # The further outputs are among the defaults of a second call.
    before = len(g.outputs)
    again = autodiff(g, grads_provided=[g.outputs[0]], grads_required=[g.inputs[1]])
    assert again.graph.name == g.name + "_bwd_1" or again.graph.name.startswith(g.name + "_bwd")
    assert connections(again)[0] == (FWD_GRAD, "mul_out") and len(g.outputs) == before


def test_gradients_of_one_tensor_are_summed():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")
        g = ir.create_graph(lambda x: x * x + ops.exp(x), x)
        fwd = ops.call_with_info(g, x)
        info = autodiff(g)
        dy = popxl.constant(np.float32([1, 3]))
        bwd = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(fwd))
    sums = [op for op in info.graph._pb_graph.getOps() if op.opType() == "Sum" and op.outId(0).endswith("Gradient___x")]
    assert [op.inTensorCount() for op in sums] == [3]
    (dx,) = run(ir, bwd.outputs[0])
    value = np.float32([1, 2])
    np.testing.assert_allclose(dx, (2 * value + np.exp(value)) * np.float32([1, 3]), rtol=1e-5)


def test_a_provided_gradient_is_added_to_what_arises_inside():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")

        def f(x):
            y = ops.exp(x)
            return y, y * 2

        g = ir.create_graph(f, x)
        fwd = ops.call_with_info(g, x)
        info = autodiff(g)
        ones = popxl.constant(np.float32([1, 1]))
        bwd = ops.call_with_info(info.graph, ones, ones, inputs_dict=info.inputs_dict(fwd))
    (first,) = [t.name for t in info.graph.inputs[:1]]
    assert first.startswith("Gradient___exp_out__t")
    total = next(op for op in info.graph._pb_graph.getOps() if op.opType() == "Sum" and op.inTensorCount() == 2)
    assert total.inId(0) == info.graph.inputs[0].id and total.outId(0) == f"{info.graph.name}/Gradient___exp_out"
    (dx,) = run(ir, bwd.outputs[0])
    np.testing.assert_allclose(dx, 3 * np.exp(np.float32([1, 2])), rtol=1e-5)


def test_a_constant_that_a_gradient_needs_is_an_output_of_the_forward_graph():
    ir = popxl.Ir()
    g = ir.create_graph(lambda x: x * popxl.constant(np.float32([3, 4]), name="c"), spec(2))
    info = autodiff(g)
    assert (FWD, "c") in connections(info) and "c" in [t.name for t in g.outputs]


@pytest.mark.edge("29.14")
def test_forward_values_are_inputs_in_order_of_their_ids():
    e = Example()
    names = [t.id for t in e.info.inputs[1:]]
    assert names == sorted(names)


@pytest.mark.shows("popxl.transforms.GradGraphInfo.graph")
def test_gradients_of_calls_come_with_those_of_the_callees():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")
        inner = ir.create_graph(lambda a: ops.exp(a), x)

        def f(x):
            (y,) = ops.call(inner, x)
            return y * y

        outer = ir.create_graph(f, x)
        fwd = ops.call_with_info(outer, x)
        graphs = len(ir._pb_ir.getAllGraphs())
        infos = autodiff(outer, return_all_grad_graphs=True)
        info = infos[outer]
        dy = popxl.constant(np.float32([1, 1]))
        bwd = ops.call_with_info(info.graph, dy, inputs_dict=info.inputs_dict(fwd))
    assert set(infos) == {outer, inner} and len(ir._pb_ir.getAllGraphs()) == graphs + 2
    assert infos[inner].graph.name == inner.name + "_bwd"
    call = next(op for op in info.graph._pb_graph.getOps() if op.opType() == "CallGrad")
    assert isinstance(call, _ir.op.CallGradOp) and call.getCalledGraph() is infos[inner].graph._pb_graph
    (dx,) = run(ir, bwd.outputs[0])
    np.testing.assert_allclose(dx, 2 * np.exp(2 * np.float32([1, 2])), rtol=1e-5)


@pytest.mark.shows("popxl.transforms.GradGraphInfo")
def test_gradient_graphs_of_callees_may_be_given():
    ir = popxl.Ir()
    inner = ir.create_graph(lambda a: ops.exp(a), spec(2))
    outer = ir.create_graph(lambda x: ops.call(inner, x)[0] * 2, spec(2))
    known = autodiff(inner)
    inner._pb_graph.setCanBeRecursivelyAutodiffed(False)
    infos = autodiff(outer, called_graphs_grad_info={inner: known}, return_all_grad_graphs=True)
    assert infos[inner].graph == known.graph and infos[inner].expected_inputs[0].fwd_tensor == known.inputs[0]
    assert "CallGrad" in types_of(infos[outer].graph)


def test_a_graph_that_a_loop_runs_gets_no_further_outputs():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")
        g = ir.create_graph(lambda a: ops.exp(a) * 0.25, x)
        ops.repeat(g, 2, x)
        outputs = len(g.outputs)
        info = autodiff(g)
    assert len(g.outputs) == outputs and "Exp" in types_of(info.graph)
    assert [name for kind, name in connections(info) if kind is FWD if name not in ("a", "mul_out")] == []


def test_gradients_of_branches():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.float32([1, 2]), name="x")
        double, square = ir.create_graph(lambda a: a * 2, x), ir.create_graph(lambda a: a * a, x)

        def f(x, which):
            return ops.conditional(which, double, square, [x], [x])[0]

        gradients = []
        for value in (True, False):
            which = popxl.variable(value, popxl.bool)
            g = ir.create_graph(f, x, which)
            fwd = ops.call_with_info(g, x, which)
            info = autodiff(g, grads_required=[g.inputs[0]])
            dy = popxl.constant(np.float32([1, 1]))
            gradients.append(ops.call(info.graph, dy, inputs_dict=info.inputs_dict(fwd))[0])
    assert any(isinstance(op, _ir.op.IfGradOp) for op in info.graph._pb_graph.getOps())
    then, other = run(ir, *gradients)
    np.testing.assert_allclose(then, [2, 2])
    np.testing.assert_allclose(other, [2, 4])


# Forward values that a gradient op consumes: (function of inputs of shape (2, 3), gradient types, forward values).
CONSUMED = {
    "add": (lambda a, b: a + b, ["AddArg0Grad", "AddArg1Grad"], []),
    "sub": (lambda a, b: a - b, ["SubArg0Grad", "SubArg1Grad"], ["a", "b", "sub_out"]),
    "mul": (lambda a, b: a * b, ["MulArg0Grad", "MulArg1Grad"], ["a", "b", "mul_out"]),
    "div": (lambda a, b: a / b, ["DivArg0Grad", "DivArg1Grad"], ["a", "b", "div_out"]),
    "matmul": (lambda a, b: a @ b.T, ["MatMulLhsGrad", "MatMulRhsGrad", "TransposeGrad"], ["a", "b_T"]),
    "exp": (lambda a, b: ops.exp(a) + b, ["AddArg0Grad", "AddArg1Grad", "ExpGrad"], ["exp_out"]),
    "log": (lambda a, b: ops.log(a) + b, ["AddArg0Grad", "AddArg1Grad", "LogGrad"], ["a"]),
    "sum": (lambda a, b: ops.sum(a + b), ["AddArg0Grad", "AddArg1Grad", "ReduceSumGrad"], []),
    "max": (lambda a, b: ops.maximum(a, b), ["MaxArgGrad", "MaxArgGrad"], ["a", "b", "maximum_out"]),
    "softmax": (lambda a, b: ops.softmax(a, 1) + b, ["AddArg0Grad", "AddArg1Grad", "SoftmaxGrad"], ["softmax_out"]),
    "concat": (lambda a, b: ops.concat([a, b]), ["ConcatGrad", "ConcatGrad"], []),
    "where": (lambda a, b: ops.where(ops.greater(a, b), a, b), ["WhereXGrad", "WhereYGrad"], ["greater_out"]),
    "split": (lambda a, b: ops.split(a + b, 2, 0), ["AddArg0Grad", "AddArg1Grad", "SplitGrad"], []),
}


@pytest.mark.parametrize("name", list(CONSUMED))
def test_forward_values_of_gradient_ops(name):
    function, kinds, values = CONSUMED[name]
    ir = popxl.Ir()
    g = ir.create_graph(lambda a, b: function(a, b), spec(2, 3), spec(2, 3))
    info = autodiff(g)
    assert sorted(kind for kind in types_of(info.graph) if kind != "Sum") == kinds
    assert sorted(name for kind, name in connections(info) if kind is FWD) == values


def test_values_without_a_gradient_block_the_way():
    ir = popxl.Ir()
    g = ir.create_graph(lambda a, b: ops.detach(a) * b, spec(2), spec(2))
    with pytest.raises(popart.popart_exception, match="no gradient arises.*/a'"):
        autodiff(g)
    assert not ir._pb_ir.hasGraph(g.name + "_bwd")
    info = autodiff(g, grads_required=[g.inputs[1]])
    assert types_of(info.graph) == ["MulArg1Grad", "Sum"]


def test_graphs_that_write_are_refused_with_their_id():
    ir = popxl.Ir()
    x = spec(2)
    writes = ir.create_graph(lambda a: ops.relu_(a), x)
    calls = ir.create_graph(lambda a: ops.call(writes, a)[0], x)
    for graph in (writes, calls):
        with pytest.raises(popart.popart_exception) as caught:
            autodiff(graph)
        assert writes.id in str(caught.value)
    view = ir.create_graph(lambda a: ops.concat_([a, a * 2]), x)
    assert types_of(autodiff(view).graph).count("ConcatGrad") == 2


def test_callees_that_must_not_be_differentiated():
    ir = popxl.Ir()
    inner = ir.create_graph(lambda a: ops.exp(a), spec(2))
    outer = ir.create_graph(lambda a: ops.call(inner, a)[0], spec(2))
    inner._pb_graph.setCanBeRecursivelyAutodiffed(False)
    with pytest.raises(popart.popart_exception) as caught:
        autodiff(outer)
    assert inner.id in str(caught.value)


def test_tensors_of_other_graphs_and_no_tensors_are_refused():
    ir = popxl.Ir()
    g, other = (ir.create_graph(lambda a: ops.exp(a), spec(2)) for _ in range(2))
    with pytest.raises(popart.popart_exception, match="grads_required has .*no tensor of"):
        autodiff(g, grads_required=other.inputs)
    with pytest.raises(popart.popart_exception, match="grads_provided has"):
        autodiff(g, grads_provided=other.outputs)
    with pytest.raises(popart.popart_exception, match="grads_required is empty"):
        autodiff(g, grads_required=[])


def test_the_forward_call_must_be_of_the_forward_graph():
    e = Example()
    with e.ir.main_graph:
        other = ops.call_with_info(e.ir.create_graph(lambda a: ops.exp(a), e.x), e.x)
        repeated = ops.repeat_with_info(e.ir.create_graph(lambda a: ops.exp(a), e.x), 2, e.x)
    for call in (other, repeated):
        with pytest.raises(TypeError, match="The call is of"):
            e.info.inputs_dict(call)


@pytest.mark.shows("popxl.transforms.ExpectedConnection")
def test_classes_of_gradient_information():
    for kind in (GradGraphInfo, ExpectedConnection):
        with pytest.raises(TypeError, match="cannot be made"):
            kind()
    assert [(k.name, k.value) for k in ExpectedConnectionType] == [("Fwd", "Fwd"), ("FwdGrad", "FwdGrad")]
    e = Example()
    assert repr(e.info.expected_inputs[0]) == f"(ExpectedConnectionType.FwdGrad, {e.graph.outputs[0]})"
    assert "expected_inputs=[" in repr(e.info) and e.info.graph.name in repr(e.info)


def test_gradient_information_can_be_edited_and_wrapped_again():
    e = Example()
    core = e.info._pb_bwd_info
    edited = _ir.BwdGraphInfo(core.bwdGraphId, core.expectedInputs[1:], core.expectedOutputs)
    again = GradGraphInfo._from_pb(e.ir._pb_ir, e.graph._pb_graph, edited)
    assert again.graph == e.info.graph and len(again.expected_inputs) == len(e.info.expected_inputs) - 1
    single = ExpectedConnection._from_pb(e.graph._pb_graph, core.expectedInputs[0])
    assert single.fwd_tensor == e.graph.outputs[0] and single._pb_ec is core.expectedInputs[0]


def test_no_hook_fires_and_no_order_is_made():
    ir = popxl.Ir()
    g = ir.create_graph(lambda a: ops.exp(a) * a, spec(2))
    seen = []
    for graph in (g, ir.main_graph):
        graph.register_op_created_hook(seen.append)
    with ir.main_graph, popxl.in_sequence():
        info = autodiff(g)
    assert seen == []
    cons = info.graph._pb_graph.topoCons()
    assert all(cons.getAfters(op) == [] for op in info.graph._pb_graph.getOps())


@pytest.mark.shows("popart.AutodiffStitchStrategy")
@pytest.mark.parametrize(
    "strategy, ops_there, inputs_there",
    [("RecomputeAllNonInputs", 8, 3), ("RecomputeMinimal", 6, 2), ("AddFwdOutputs", 6, 2), ("SafeAddFwdOutputs", 6, 2)],
)
def test_forward_values_can_be_computed_again(strategy, ops_there, inputs_there):
    ir = popxl.Ir()
    g = ir.create_graph(lambda a, b: ops.softmax(a + b, 0), spec(2), spec(2))
    core = ir._pb_ir
    made = _ir.transforms.Autodiff().apply(
        core, g._pb_graph.id, [g.outputs[0].id], _ir.OptionalTensors(), {}, popart.AutodiffStitchStrategy[strategy]
    )
    info = made[_ir.GraphId(g.id)]
    graph = core.getGraph(info.bwdGraphId)
    assert len(graph.getOps()) == ops_there and len(info.expectedInputs) == inputs_there
    assert len(info.expectedOutputs) == 2 == len(graph.getOutputIds())


def test_given_gradient_information_is_returned_too():
    ir = popxl.Ir()
    a, b = (ir.create_graph(lambda x: ops.exp(x), spec(2)) for _ in range(2))
    transform = _ir.transforms.Autodiff()
    first = transform.apply(ir._pb_ir, a.id)
    both = transform.apply(ir._pb_ir, b.id, [], _ir.OptionalTensors([b.inputs[0].id]), first)
    assert set(both) == {a.id, b.id} and both[_ir.GraphId(a.id)].bwdGraphId == first[_ir.GraphId(a.id)].bwdGraphId


@pytest.mark.parametrize("is_looped", [False, True], ids=["more outputs", "computed again"])
@pytest.mark.shows("popxl.transforms.GradGraphInfo.inputs_dict", "popxl.transforms.autodiff")
def test_cost_of_a_gradient_grows_linearly(is_looped):
    def costs(length):
        """Calls of Python functions, and ops of the gradient."""
        def chain(x):
            for _ in range(length):
                x = ops.tanh(x) * 1.0
            return x

        ir = popxl.Ir()
        with ir.main_graph:
            x = popxl.variable(S)
            graph = ir.create_graph(chain, x)
            if is_looped:
                ops.repeat(graph, 2, x)
            call = ops.call_with_info(graph, x)
            made = []
            calls = python_events(lambda: made.append(autodiff(graph)))
            (grad,) = made
            assert (len(grad.inputs_dict(call)) <= 2) == is_looped  # made again: all but input and output of the graph
            return calls, len(types_of(grad.graph))

    (few_calls, few_ops), (many_calls, many_ops) = costs(100), costs(800)
    assert many_calls <= 8.1 * few_calls and many_ops <= 8.1 * few_ops  # 64 if quadratic


@pytest.mark.shows("popxl.ops.conditional_with_info")
def test_indices_and_tensors_that_a_conditional_does_not_have():
    ir, other = popxl.Ir(), popxl.Ir()
    with other.main_graph:
        strangers = [popxl.variable(0.0) for _ in range(20)]
    with ir.main_graph:
        flag, x = popxl.variable(True), popxl.variable(1.0)
        up, down = ir.create_graph(lambda t: t + 1.0, x), ir.create_graph(lambda t: t - 1.0, x)
        site = ops.conditional_with_info(flag, up, down, [x], [x])
    assert [site.is_parent_index_in_then_branch(i) for i in range(3)] == [False, True, False]
    with pytest.raises(IndexError, match="no input 3"):
        site.is_parent_index_in_then_branch(3)
    with pytest.raises(IndexError, match="no input 3"):
        site.parent_to_graph_input_index(3)
    for stranger in strangers:  # tensors of another Ir have the same numbers
        with pytest.raises(ValueError, match="neither an input nor an output"):
            site.graph_to_parent(stranger)
        with pytest.raises(ValueError, match="feeds no input"):
            site.parent_to_graph(stranger)


I = np.array([[1, -2], [3, 4]], np.int32)
# Functions of an integer matrix, and the gradient of the sum of their results; exact beyond what float32 holds.
INTEGERS = {
    "sum of both": (lambda x: x + x, np.full((2, 2), 2)),
    "product": (lambda x: x * x, 2 * I),
    "large product": (lambda x: x * popxl.constant(2**24 + 1, popxl.int32), np.full((2, 2), 2**24 + 1)),
    "difference": (lambda x: x - 3 * x, np.full((2, 2), -2)),
    "negated": (lambda x: -x, np.full((2, 2), -1)),
    "concatenation": (lambda x: ops.concat([x, x], 0), np.full((2, 2), 2)),
    "view": (lambda x: ops.concat_([x, x * 2], 0), np.full((2, 2), 3)),
    "transposed": (lambda x: x.T * popxl.constant(I), I.T),
    "row": (lambda x: x[0], np.array([[1, 1], [0, 0]])),
    "rows by number": (lambda x: ops.gather(x, popxl.constant([1, 0, 1])), np.array([[1, 1], [2, 2]])),
    "total": (lambda x: ops.sum(x), np.ones((2, 2))),
    "largest": (lambda x: ops.max(x), I == 4),
    "absolute": (lambda x: ops.abs(x), np.sign(I)),
    "positive": (lambda x: ops.relu(x), I > 0),
    "chosen": (lambda x: ops.where(popxl.constant(I > 1), x, x * 5), np.where(I > 1, 1, 5)),
    "part": (lambda x: ops.split(x, 2)[1], np.array([[0, 0], [1, 1]])),
    "running sum": (lambda x: ops.cumsum(x, 0), np.array([[2, 2], [1, 1]])),
}


@pytest.mark.shows("popxl.transforms.autodiff")
def test_integers_have_gradients_of_their_type():
    streams = {}
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(I)
        for name, (function, _) in INTEGERS.items():
            graph = ir.create_graph(function, x)
            info = autodiff(graph)
            assert [t.dtype for t in info.graph.outputs] == [popxl.int32], name
            site = ops.call_with_info(graph, x)
            seed = popxl.constant(np.ones(site.outputs[0].shape, np.int32))
            (dx,) = ops.call_with_info(info.graph, seed, inputs_dict=info.inputs_dict(site)).outputs
            streams[name] = popxl.d2h_stream(dx.shape, dx.dtype)
            ops.host_store(streams[name], dx)
    with popxl.Session(ir, "ipu_model") as session:
        results = session.run()
    for name, (_, want) in INTEGERS.items():
        np.testing.assert_array_equal(results[streams[name]], want, err_msg=name)


def test_gradients_pass_integers_in_calls_and_stop_at_casts_and_indices():
    ir = popxl.Ir()
    ints, floats = popxl.TensorSpec((2,), popxl.int32), spec(2)
    inner = ir.create_graph(lambda x, y: x * y, ints, ints)
    outer = ir.create_graph(lambda x, y: ops.call(inner, x, y)[0] + x, ints, ints)
    assert [t.dtype for t in autodiff(outer).graph.outputs] == [popxl.int32] * 2
    for function, of in (
        (lambda x: ops.cast(x, popxl.float32), ints),
        (lambda x: ops.cast(ops.cast(x, popxl.int32), popxl.float32), floats),
        (lambda x: ops.gather(popxl.constant([1.0, 2.0]), x), ints),
        (lambda x: ops.topk(x, 1, 0, True, True)[1] * 2, floats),
        (lambda x: ops.topk(x, 1, 0, True, True)[1] * 2, ints),
        (lambda x: ops.detach(x) * 1, ints),
    ):
        with pytest.raises(popart.popart_exception, match="no gradient arises"):
            autodiff(ir.create_graph(function, of))
    # What a graph gives besides, and nobody differentiates, is in nobody's way.
    besides = ir.create_graph(lambda x: (x * 2, ops.argmax(x, 0), ops.isnan(x)), floats)
    info = autodiff(besides, grads_provided=[besides.outputs[0]])
    assert [t.dtype for t in info.graph.outputs] == [popxl.float32]
    called = ir.create_graph(lambda x: ops.call(besides, x)[0], floats)
    assert len(autodiff(called).graph.outputs) == 1
