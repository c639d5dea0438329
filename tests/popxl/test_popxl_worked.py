"""The worked behaviours of PopXL: small programs with all that they show."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops


def run(ir, inputs=None, device="ipu_model"):
    """Outputs of one run by name of the stream, and the session."""
    session = popxl.Session(ir, device)
    with session:
        outputs = session.run(inputs or {})
    return {stream.tensor_id: array for stream, array in outputs.items()}, session


def show(t, name="out"):
    """A stream that shows a tensor."""
    ops.host_store(popxl.d2h_stream(t.shape, t.dtype, name), t)


class Dense(popxl.Module):
    def build(self, x, width):
        self.w = popxl.graph_input((x.shape[-1], width), x.dtype, "w")
        return x @ self.w


@pytest.mark.shows("popxl.Module", "popxl.name_scope", "popxl.Graph.inputs", "popxl.Tensor.id")
def test_names_graph_inputs_and_calls():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.ones((2, 3)), name="x")
        dup = popxl.variable(0.0, name="x")
        net = Dense()
        g = ir.create_graph(net, x, width=4)
        w = popxl.variable(np.ones((3, 4)), name="w")
        with popxl.name_scope("head"):
            (y,) = ops.call(g, x, inputs_dict={net.w: w})
            z = y + 1
        assert g.name.endswith("Dense_subgraph(0)")
        assert [t.name for t in g.inputs] == ["x", "w"]
        assert g.inputs[0].id == g.name + "/x"
        assert x.id == "x" and dup.id.startswith("x__t")
        assert z.id == "head/add_out"
        assert (y.shape, y.dtype) == ((2, 4), popxl.float32)
        with pytest.raises(ValueError, match="w"):
            ops.call(g, x)
        with pytest.raises(ValueError, match="twice"):
            ops.call(g, x, w, inputs_dict={net.w: w})
        with pytest.raises(popart.popart_exception, match=r"\(?3, ?4"):
            ops.call(g, w, inputs_dict={net.w: w})


def step(total, inc):
    return total + inc


@pytest.mark.shows("popxl.ops.repeat")
@pytest.mark.parametrize("count,result", [(5, 11), (1, 3), (0, 1)])
def test_loop_carried_and_constant_inputs(count, result):
    ir = popxl.Ir()
    with ir.main_graph:
        t, i = popxl.variable(1, popxl.int32, "t"), popxl.variable(2, popxl.int32, "i")
        g = ir.create_graph(step, t, i)
        (r,) = ops.repeat(g, count, t, i)
        show(r)
    outputs, session = run(ir)
    assert outputs["out"] == result
    assert session.get_tensor_data(t) == 1


def test_repeat_refuses_negative_counts_and_more_outputs_than_inputs():
    ir = popxl.Ir()
    with ir.main_graph:
        t, i = popxl.variable(1, popxl.int32), popxl.variable(2, popxl.int32)
        g = ir.create_graph(step, t, i)
        with pytest.raises(ValueError, match="-1"):
            ops.repeat(g, -1, t, i)
        three = ir.create_graph(lambda a, b: (a, b, a + b), t, i)
        with pytest.raises(ValueError, match="3 outputs and 2 inputs"):
            ops.repeat(three, 2, t, i)


def bump(c: popxl.TensorByRef, k: popxl.Tensor):
    ops.add_(c, k)


def bump_a_copy(c, k):
    ops.add_(c, k)


@pytest.mark.shows("popxl.TensorByRef", "popxl.in_sequence", "popxl.ops.CallSiteInfo.set_parent_input_modified")
@pytest.mark.parametrize("how,expected", [("by_ref", (16, 22, 22)), ("copy", (10, 10, 10)), ("second", (13, 16, 16))])
def test_calls_by_reference(how, expected):
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        c, k = popxl.variable(10, popxl.int32, "c"), popxl.constant(3, popxl.int32)
        g = ir.create_graph(bump if how == "by_ref" else bump_a_copy, c, k)
        out = popxl.d2h_stream((), popxl.int32)
        ops.call(g, c, k)
        info = ops.call_with_info(g, c, k)
        if how == "second":
            info.set_parent_input_modified(c)
        ops.host_store(out, c)
    with popxl.Session(ir, "ipu_model") as session:
        assert session.run()[out] == expected[0]
        assert session.run()[out] == expected[1]
        assert session.get_tensor_data(c) == expected[2]


def test_a_gradient_graph_and_the_output_it_appends():
    def f(x, w, s):
        return ops.tanh(x @ w) * s

    generator = np.random.default_rng(3)
    values = [generator.standard_normal(n).astype(np.float32) for n in ((2, 3), (3, 4), (4,))]
    ir = popxl.Ir()
    with ir.main_graph:
        x, w, s = (popxl.variable(v, name=m) for v, m in zip(values, "xws"))
        g = ir.create_graph(f, x, w, s)
        fwd = ops.call_with_info(g, x, w, s)
        before = len(fwd.outputs)
        grad = popxl.transforms.autodiff(g, grads_required=[g.inputs[1]])
        dy = popxl.constant(np.ones((2, 4)), popxl.float32)
        bwd = ops.call_with_info(grad.graph, dy, inputs_dict=grad.inputs_dict(fwd))
        assert (before, len(fwd.outputs), len(g.outputs)) == (1, 2, 2)
        assert g.outputs[1].name == "tanh_out"
        assert grad.graph.name == g.name + "_bwd"
        first, *rest = grad.expected_inputs
        kind = popxl.transforms.ExpectedConnectionType
        assert (first.fwd_tensor, first.connection_type) == (g.outputs[0], kind.FwdGrad)
        assert {e.fwd_tensor.name for e in rest} == {"x", "s", "tanh_out", "mul_out"}
        assert {e.connection_type for e in rest} == {kind.Fwd}
        assert set(grad.inputs_dict(fwd).values()) == {x, s, fwd.outputs[1], fwd.outputs[0]}
        assert grad.outputs == (g.inputs[1],)
        assert grad.fwd_parent_ins_to_grad_parent_outs(fwd, bwd) == {w: bwd.outputs[0]}
        show(bwd.outputs[0])
    outputs, _ = run(ir)
    vx, vw, vs = values
    expected = vx.T @ ((1 - np.tanh(vx @ vw) ** 2) * vs)
    np.testing.assert_allclose(outputs["out"], expected, rtol=1e-5, atol=1e-5)


def test_a_graph_that_overwrites_has_no_gradient():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        g = ir.create_graph(bump_a_copy, x, x)
        with pytest.raises(popart.popart_exception):
            popxl.transforms.autodiff(g)


@pytest.mark.shows("popxl.Ir.replica_grouping", "popxl.ReplicaGrouping.transpose")
def test_groups_of_replicas():
    ir = popxl.Ir(replication=4)
    pair = ir.replica_grouping(stride=1, group_size=2)
    with ir.main_graph:
        v = popxl.variable(np.array([1.0, 10.0]), name="v", replica_grouping=pair)
        every = popxl.variable(
            np.array([1.0, 10.0]), name="every", replica_grouping=pair, retrieval_mode="all_replicas"
        )
        show(v, "v_")
        show(every, "every_")
        show(ops.collectives.replicated_all_reduce(v), "a")
        show(ops.collectives.replicated_all_reduce(v, group=pair), "b")
        show(ops.collectives.replicated_all_reduce(v, group=pair.transpose()), "c")
        show(ops.collectives.replicated_all_gather(v.reshape((1,)), group=pair.transpose()), "d")
        assert (v.shape, v.shape_on_host) == ((), (2,))
    outputs, session = run(ir)
    np.testing.assert_array_equal(outputs["v_"], [1, 1, 10, 10])
    np.testing.assert_array_equal(outputs["a"], [22] * 4)
    np.testing.assert_array_equal(outputs["b"], [2, 2, 20, 20])
    np.testing.assert_array_equal(outputs["c"], [11] * 4)
    np.testing.assert_array_equal(outputs["d"], [[1, 10]] * 4)
    np.testing.assert_array_equal(session.get_tensor_data(v), [1, 10])
    np.testing.assert_array_equal(session.get_tensor_data(every), [1, 1, 10, 10])


@pytest.mark.shows("popxl.replica_sharded_variable", "popxl.Tensor.meta_shape")
def test_a_sharded_variable_is_updated_by_its_shards():
    ir = popxl.Ir(replication=4)
    with ir.main_graph, popxl.in_sequence():
        handle, shard = popxl.replica_sharded_variable(np.arange(5, dtype=np.float32), name="w")
        whole = ops.collectives.replicated_all_gather(shard)
        ones = popxl.variable(np.ones(5, np.float32), name="ones")
        half = ops.collectives.replica_sharded_slice(ones)
        ops.scaled_add_(shard, half, b=2.0)
        show(whole)
        assert (shard.shape, shard.meta_shape, whole.shape, half.meta_shape) == ((2,), (5,), (5,), (5,))
    outputs, session = run(ir)
    np.testing.assert_array_equal(outputs["out"], [np.arange(5)] * 4)
    np.testing.assert_array_equal(session.get_tensor_data(handle), [2, 3, 4, 5, 6])


def test_a_stored_tensor_must_fit_the_buffer():
    ir = popxl.Ir()
    with ir.main_graph:
        buf = popxl.remote_buffer((2,), popxl.float32, entries=3)
        popxl.remote_variable(np.zeros(3, np.float32), buf, 0)  # is not checked
        t = popxl.variable(np.zeros(3, np.float32))
        with pytest.raises(ValueError, match=r"\(3,\)"):
            ops.remote_store(buf, 0, t)


@pytest.mark.shows("popxl.remote_buffer", "popxl.remote_variable", "popxl.ops.remote_load")
def test_remote_entries_are_read_in_a_loop():
    ir = popxl.Ir()
    with ir.main_graph:
        buf = popxl.remote_buffer((2,), popxl.float32, entries=3)
        for n in range(3):
            popxl.remote_variable(np.full(2, n, np.float32), buf, n)
        acc, n = popxl.constant(np.zeros(2), popxl.float32), popxl.constant(0, popxl.uint32)
        g = ir.create_graph(lambda acc, n: (acc + ops.remote_load(buf, n), n + 1), acc, n)
        acc, n = ops.repeat(g, 3, acc, n)
        show(acc, "acc")
        show(n, "n")
    outputs, _ = run(ir)
    np.testing.assert_array_equal(outputs["acc"], [3, 3])
    assert outputs["n"] == 3


@pytest.mark.shows("popxl.ops.conditional")
@pytest.mark.parametrize("flag,expected", [(True, 6), (False, 4)])
def test_a_branch(flag, expected):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(5.0, name="x")
        cond = popxl.variable(flag, name="flag")
        up, down = ir.create_graph(lambda x: x + 1, x), ir.create_graph(lambda x: x - 1, x)
        (y,) = ops.conditional(cond, up, down, then_inputs=[x], else_inputs=[x])
        show(y)
        assert y.name == "add_out_or_sub_out"
        two = ir.create_graph(lambda x: (x, x), x)
        with pytest.raises(ValueError, match="same number"):
            ops.conditional(cond, up, two, then_inputs=[x], else_inputs=[x])
        other = ir.create_graph(lambda x: x.reshape((1,)), x)
        with pytest.raises(popart.popart_exception):
            ops.conditional(cond, up, other, then_inputs=[x], else_inputs=[x])
    outputs, _ = run(ir)
    assert outputs["out"] == expected


@pytest.mark.shows("popxl.Ir.num_host_transfers", "popxl.h2d_stream", "popxl.ops.host_load", "popxl.ops.host_store")
@pytest.mark.parametrize("replicas", [1, 2])
def test_a_stream_that_is_loaded_once_before_a_loop_and_in_each_iteration(replicas):
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph, popxl.in_sequence():
        x = popxl.h2d_stream((2,), popxl.float32, "x")
        first = ops.host_load(x)
        g = ir.create_graph(lambda total: total + ops.host_load(x), first)
        (total,) = ops.repeat(g, 3, first)
        show(total)
    ir.num_host_transfers = 4
    middle = (replicas,) if replicas > 1 else ()
    data = np.arange(8 * replicas, dtype=np.float32).reshape(4, *middle, 2)
    outputs, _ = run(ir, {x: data})
    assert outputs["out"].shape == (4, *middle, 2)
    np.testing.assert_array_equal(outputs["out"][0], data.sum(axis=0))


@pytest.mark.shows("popxl.ops.remote_code_load")
def test_code_loads_change_no_result():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(5.0, name="x")
        g = ir.create_graph(lambda x: x * 2, x)
        ops.remote_code_load(g, "executable")
        (y,) = ops.call(g, x)
        ops.remote_code_load(g, "executable")
        (y,) = ops.call(g, y)
        show(y)
        with pytest.raises(NotImplementedError):
            ops.remote_code_load(g, "compute_buffer")
        with pytest.raises(ValueError, match="current graph"):
            ops.remote_code_load(ir.main_graph, "executable")
        with pytest.raises(ValueError, match="nowhere"):
            ops.remote_code_load(g, "nowhere")
        with popxl.io_tiles(), pytest.raises(popart.popart_exception):
            ops.remote_code_load(g, "executable")
    outputs, _ = run(ir)
    assert outputs["out"] == 20


@pytest.mark.shows("popxl.fp8_utils.host_pow2scale_cast_to_fp8", "popxl.fp8_utils.host_pow2scale_cast_from_fp8")
def test_float8_on_the_host():
    source = np.float32([0.75, 1000.0])
    to, back = popxl.fp8_utils.host_pow2scale_cast_to_fp8, popxl.fp8_utils.host_pow2scale_cast_from_fp8
    assert to(source, popxl.float8_143, 1)["float8_143"].tolist() == [0x44, 0x80]
    saturated = to(source, popxl.float8_143, 1, nan_on_overflow=False)
    assert saturated["float8_143"].tolist() == [0x44, 0x7F]
    assert back(saturated, popxl.float32, -1).tolist() == [0.75, 120.0]
