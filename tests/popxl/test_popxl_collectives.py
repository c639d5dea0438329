"""Collectives over groups of 4 and 8 replicas, shards, reductions over the IPUs of a replica, and their gradients."""

import numpy as np
import popart
import popxl
import pytest
from one_program import op_types
from popxl import ops
from popxl.ops import collectives

rng = np.random.default_rng(23)
REDUCTIONS = {
    "add": np.sum,
    "mean": np.mean,
    "mul": np.prod,
    "min": np.min,
    "max": np.max,
    "square_add": lambda x, axis: np.sum(x**2, axis),
}


class Replicas:
    """A program over replicas whose input differs on each; `run` gives every output as (replicas, ...)."""

    def __init__(self, replicas, data):
        self.ir = popxl.Ir(replication=replicas)
        self.data = np.asarray(data)
        self.outputs = {}
        self.main = self.ir.main_graph

    def __enter__(self):
        self.main.__enter__()
        self.stream = popxl.h2d_stream(self.data.shape[1:], popxl.dtype.as_dtype(self.data.dtype), name="x")
        self.x = ops.host_load(self.stream, name="x")
        return self

    def __exit__(self, *error):
        self.main.__exit__(*error)

    def out(self, name, t):
        self.outputs[name] = popxl.d2h_stream(t.shape, t.dtype, name=f"out {name}")
        ops.host_store(self.outputs[name], t)

    def run(self):
        with popxl.Session(self.ir, "ipu_model") as session:
            results = session.run({self.stream: self.data})
        return {name: np.asarray(results[stream]) for name, stream in self.outputs.items()}


def groups_of(ir):
    """All, neighbours, apart, alone."""
    half = ir.replication_factor // 2
    return {
        "all": None,
        "neighbours": ir.replica_grouping(stride=1, group_size=2),
        "apart": ir.replica_grouping(stride=half, group_size=2),
        "halves": ir.replica_grouping(stride=2, group_size=half),
        "alone": ir.replica_grouping(group_size=1),
    }


def members(group, replicas):
    """Returns for each replica the replicas of its group."""
    assignment = [0] * replicas if group is None else group.assignment
    return [[r for r in range(replicas) if assignment[r] == assignment[own]] for own in range(replicas)]


@pytest.mark.shows("popxl.ops.collectives.replicated_all_reduce")
@pytest.mark.shows("popxl.ops.collectives.replicated_all_reduce_")
@pytest.mark.edge("29.4")
@pytest.mark.parametrize("replicas", (4, 8))
def test_every_reduction_over_every_group(replicas):
    data = rng.uniform(0.5, 1.5, (replicas, 3)).astype(np.float32)
    want = {}
    with Replicas(replicas, data) as p:
        for name, group in groups_of(p.ir).items():
            places = members(group, replicas)
            for op, reduction in REDUCTIONS.items():
                p.out(f"{op} {name}", collectives.replicated_all_reduce(p.x, op, group))
                want[f"{op} {name}"] = np.stack([reduction(data[m], axis=0) for m in places])
        with popxl.in_sequence():
            own = p.x + 0.0
            collectives.replicated_all_reduce_(own, group=p.ir.replica_grouping(group_size=2))
            p.out("in place", own)
            want["in place"] = np.stack([data[m].sum(0) for m in members(groups_of(p.ir)["neighbours"], replicas)])
    for name, value in p.run().items():
        np.testing.assert_allclose(value, want[name], rtol=1e-6, err_msg=name)


@pytest.mark.shows("popxl.ops.collectives.replicated_all_reduce")
def test_reductions_of_bools_and_integers():
    data = np.array([[1, 0], [2, 0], [3, 0], [4, 5]], np.int32)
    with Replicas(4, data) as p:
        p.out("and of integers", collectives.replicated_all_reduce(p.x, "and"))
    with pytest.raises(popart.popart_exception, match="bool"):
        p.run()
    with Replicas(4, data) as p:
        p.out("sum", collectives.replicated_all_reduce(p.x))
        flags = ops.greater(p.x, popxl.constant(2, popxl.int32))
        for op in ("and", "or"):
            p.out(op, collectives.replicated_all_reduce(flags, op))
    values = p.run()
    np.testing.assert_array_equal(values["sum"], np.tile([10, 5], (4, 1)))
    assert not values["and"].any()
    np.testing.assert_array_equal(values["or"], np.ones((4, 2), bool))


@pytest.mark.shows("popxl.ops.collectives.replicated_all_gather")
@pytest.mark.shows("popxl.ops.collectives.replicated_slice")
@pytest.mark.edge("29.24")
@pytest.mark.parametrize("replicas", (4, 8))
def test_gathering_puts_replicas_together_and_slicing_takes_them_apart(replicas):
    data = rng.uniform(-1, 1, (replicas, 2, 8, 3)).astype(np.float32)
    want = {}
    with Replicas(replicas, data) as p:
        for name, group in groups_of(p.ir).items():
            places = members(group, replicas)
            size = len(places[0])
            for axis in (0, 1, 2, -1):
                p.out(f"gather {name} {axis}", collectives.replicated_all_gather(p.x, axis, group))
                want[f"gather {name} {axis}"] = np.stack([np.concatenate(data[m], axis) for m in places])
            p.out(f"stack {name}", collectives.replicated_all_gather(p.x, 0, group, "new_axis"))
            want[f"stack {name}"] = data[places]
            p.out(f"slice {name}", collectives.replicated_slice(p.x, 1, group))
            pieces = [np.split(data[r], size, 1)[places[r].index(r)] for r in range(replicas)]
            want[f"slice {name}"] = np.stack(pieces)[:, :, 0] if size == 8 else np.stack(pieces)
        pair = p.ir.replica_grouping(group_size=2)
        p.out("first axis", collectives.replicated_slice(p.x, 0, pair))
        want["first axis"] = np.stack([data[r][r % 2] for r in range(replicas)])  # one element left: the axis goes
        p.out("first axis again", collectives.replicated_all_gather(collectives.replicated_slice(p.x, 0, pair), 0, pair))
        want["first axis again"] = np.repeat(data.reshape(replicas // 2, 2, 2, 8, 3)[:, [0, 1], [0, 1]].reshape(-1, 16, 3), 2, 0)
    for name, value in p.run().items():
        np.testing.assert_array_equal(value, want[name], err_msg=name)


@pytest.mark.shows("popxl.ops.collectives.replicated_reduce_scatter")
@pytest.mark.shows("popxl.ops.collectives.replica_sharded_slice")
def test_scattering_keeps_a_padded_piece_on_each_replica():
    data = rng.uniform(-1, 1, (4, 2, 5)).astype(np.float32)
    want = {}
    with Replicas(4, data) as p:
        for name, group in groups_of(p.ir).items():
            places = members(group, 4)
            size = len(places[0])
            length = -(-10 // size)

            def piece(value, r, length=length, size=size, places=places):
                flat = np.zeros(length * size, np.float32)
                flat[:10] = value.reshape(-1)
                return flat.reshape(size, length)[places[r].index(r)]

            for op in ("add", "mean"):
                t = collectives.replicated_reduce_scatter(p.x, op, group)
                assert t.shape == (length,) and t.meta_shape == ()
                p.out(f"{op} {name}", t)
                want[f"{op} {name}"] = np.stack(
                    [piece(REDUCTIONS[op](data[places[r]], axis=0), r) for r in range(4)]
                )
            shard = collectives.replica_sharded_slice(p.x, group)
            flagged = collectives.replicated_reduce_scatter(p.x, "max", group, True)
            assert shard.meta_shape == flagged.meta_shape == (2, 5)
            # Shards go back through a gather; a shard of one may meet the other.
            p.out(f"own {name}", collectives.replicated_all_gather(shard, group=group))
            want[f"own {name}"] = np.stack(
                [np.concatenate([piece(data[m], m) for m in places[r]])[:10].reshape(2, 5) for r in range(4)]
            )
            both = shard + flagged
            assert both.meta_shape == (2, 5)
            p.out(f"both {name}", collectives.replicated_all_gather(both, group=group))
            want[f"both {name}"] = want[f"own {name}"] + np.stack([data[places[r]].max(0) for r in range(4)])
    for name, value in p.run().items():
        np.testing.assert_allclose(value, want[name], rtol=1e-6, atol=1e-7, err_msg=name)


@pytest.mark.shows("popxl.ops.collectives.replicated_all_reduce")
def test_groups_of_replicas_hold_what_the_guide_says():
    ir = popxl.Ir(replication=4)
    pair = ir.replica_grouping(stride=1, group_size=2)
    outputs = {}
    with ir.main_graph:
        v = popxl.variable(np.array([1.0, 10.0]), name="v", replica_grouping=pair)
        results = {
            "a": collectives.replicated_all_reduce(v),
            "b": collectives.replicated_all_reduce(v, group=pair),
            "c": collectives.replicated_all_reduce(v, group=pair.transpose()),
            "d": collectives.replicated_all_gather(v.reshape((1,)), group=pair.transpose()),
        }
        for name, t in results.items():
            outputs[name] = popxl.d2h_stream(t.shape, t.dtype, name=name)
            ops.host_store(outputs[name], t)
    with popxl.Session(ir, "ipu_model") as session:
        values = session.run()
    want = {"a": [22] * 4, "b": [2, 2, 20, 20], "c": [11] * 4, "d": [[1, 10]] * 4}
    for name, value in want.items():
        np.testing.assert_array_equal(np.asarray(values[outputs[name]]), value, err_msg=name)


@pytest.mark.shows("popxl.replica_sharded_variable")
@pytest.mark.parametrize("shard_over", (None, 2))
def test_a_sharded_variable_makes_the_round_trip(shard_over):
    ir = popxl.Ir(replication=4)
    group = ir.replica_grouping(group_size=shard_over or 4)
    with ir.main_graph, popxl.in_sequence():
        handle, shard = popxl.replica_sharded_variable(
            np.arange(5, dtype=np.float32), name="w", shard_over=shard_over
        )
        whole = collectives.replicated_all_gather(shard, group=group)
        stream = popxl.d2h_stream(whole.shape, whole.dtype)
        ops.host_store(stream, whole)
        ones = popxl.variable(np.ones(5, np.float32), name="ones")
        half = collectives.replica_sharded_slice(ones, group)
        ops.scaled_add_(shard, half, b=2.0)
        # Updates take shards as other tensors.
        ops.var_updates.accumulate_(shard, half, 0.5)
    assert shard.shape == ((3,) if shard_over else (2,)) and shard.meta_shape == half.meta_shape == (5,)
    assert whole.shape == (5,)
    with popxl.Session(ir, "ipu_model") as session:
        values = session.run()
    np.testing.assert_array_equal(np.asarray(values[stream]), np.tile(np.arange(5), (4, 1)))
    np.testing.assert_array_equal(session.get_tensor_data(handle), np.arange(5) + 2.5)


def differentiated(p, function, inputs, seeds):
    """Gradient of each float input, from `seeds` for the outputs."""
    graph = p.ir.create_graph(function, *inputs)
    info = popxl.transforms.autodiff(graph, grads_required=list(graph.inputs))
    call = ops.call_with_info(graph, *inputs)
    return info.graph, ops.call_with_info(info.graph, *seeds, inputs_dict=info.inputs_dict(call)).outputs


@pytest.mark.shows("popxl.ops.collectives.replicated_all_gather")
@pytest.mark.shows("popxl.ops.collectives.replica_sharded_slice")
def test_gradients_of_gathers_are_slices_and_of_slices_gathers():
    data = rng.uniform(-1, 1, (4, 4)).astype(np.float32)
    with Replicas(4, data) as p:
        pair = p.ir.replica_grouping(group_size=2)
        seed = popxl.constant(np.arange(8, dtype=np.float32))
        graph, (dx,) = differentiated(p, lambda t: collectives.replicated_all_gather(t, group=pair), [p.x], [seed])
        assert "ReplicatedReduceScatter" in op_types(graph)
        p.out("gather", dx)
        own = p.x * 2.0
        _, (dx,) = differentiated(p, lambda t: collectives.replica_sharded_slice(t, pair), [p.x], [
            collectives.replica_sharded_slice(own, pair)
        ])
        p.out("shard", dx)
        _, (dx,) = differentiated(p, lambda t: collectives.replicated_slice(t, 0, pair), [p.x], [
            collectives.replicated_slice(own, 0, pair)
        ])
        p.out("slice", dx)
        # The gradient of a whole tensor comes back as a plain tensor: the elements of the flat shard.
        shard = collectives.replica_sharded_slice(p.x, pair)
        _, (dx,) = differentiated(
            p, lambda t: collectives.replicated_all_gather(t, group=pair), [shard], [p.x * 3.0]
        )
        assert dx.shape == (2,) and dx.meta_shape == ()
        p.out("whole", collectives.replicated_all_gather(dx, group=pair))

        def reduced(t):
            return collectives.replicated_reduce_scatter(t, group=pair)

        graph = p.ir.create_graph(reduced, p.x)
        with pytest.raises(popart.popart_exception, match="ReplicatedReduceScatter.*reduction"):
            popxl.transforms.autodiff(graph)
    values = p.run()
    for r in range(4):
        mates = [r - r % 2, r - r % 2 + 1]
        np.testing.assert_array_equal(values["gather"][r], np.arange(8)[4 * (r % 2) :][:4])
        joined = np.concatenate([data[m][2 * (m % 2) :][:2] for m in mates])
        np.testing.assert_array_equal(values["shard"][r], 2 * joined)
        np.testing.assert_array_equal(values["slice"][r], 2 * joined)
        np.testing.assert_allclose(values["whole"][r], 3 * joined, rtol=1e-6)


@pytest.mark.shows("popxl.ops.collectives.all_reduce")
@pytest.mark.shows("popxl.ops.collectives.all_reduce_identical_inputs")
@pytest.mark.shows("popxl.ops.collectives.all_reduce_identical_grad_inputs")
def test_reductions_over_ipus_and_their_gradients():
    a, b = (rng.uniform(-1, 1, (3,)).astype(np.float32) for _ in range(2))
    ga, gb = (rng.uniform(-1, 1, (3,)).astype(np.float32) for _ in range(2))
    forms = {
        "all_reduce": (collectives.all_reduce, (a + b, a + b), (ga + gb, ga + gb)),
        "identical inputs": (collectives.all_reduce_identical_inputs, (a, b), (ga + gb, ga + gb)),
        "identical gradients": (collectives.all_reduce_identical_grad_inputs, (a + b, a + b), (ga, gb)),
    }
    ir = popxl.Ir()
    outputs = {}

    def out(name, t, ipu):
        with popxl.ipu(ipu):
            outputs[name] = popxl.d2h_stream(t.shape, t.dtype)
            ops.host_store(outputs[name], t)

    with ir.main_graph:
        given = []
        for ipu, value in ((0, a), (1, b), (0, ga), (1, gb)):
            with popxl.ipu(ipu):
                given.append(popxl.variable(value) + 0.0)
        for name, (form, _, _) in forms.items():
            def function(x, y, form=form):
                return tuple(form([x, y], ipus=[0, 1]))

            graph = ir.create_graph(function, *given[:2])
            info = popxl.transforms.autodiff(graph)
            assert op_types(info.graph) == ["AllReduceGrad", "Sum", "Sum"]
            call = ops.call_with_info(graph, *given[:2])
            gradients = ops.call(info.graph, *given[2:], inputs_dict=info.inputs_dict(call))
            for i in (0, 1):
                assert graph.outputs[i].name == f"all_reduce_out_{i}"
                out(f"{name} {i}", call.outputs[i], i)
                out(f"{name} gradient {i}", gradients[i], i)
        sums = collectives.all_reduce(given[:2])  # the IPUs are known
        assert [t.ipu for t in sums] == [0, 1]
        with popxl.ipu(1):
            out("behind", sums[1] + given[3], 1)  # on one IPU
        for op in REDUCTIONS:
            out(f"{op} 0", collectives.all_reduce(given[:2], op=op)[0], 0)
    with popxl.Session(ir, "ipu_model") as session:
        results = session.run()
    values = {name: np.asarray(results[stream]) for name, stream in outputs.items()}
    np.testing.assert_allclose(values["behind"], a + b + gb, rtol=1e-6)
    for name, (_, sums, gradients) in forms.items():
        for i in (0, 1):
            np.testing.assert_allclose(values[f"{name} {i}"], sums[i], rtol=1e-6, err_msg=name)
            np.testing.assert_allclose(values[f"{name} gradient {i}"], gradients[i], rtol=1e-6, err_msg=name)
    for op, reduction in REDUCTIONS.items():
        np.testing.assert_allclose(values[f"{op} 0"], reduction(np.stack([a, b]), axis=0), rtol=1e-6, err_msg=op)


@pytest.mark.shows("popxl.ops.collectives.replicated_all_gather")
def test_ops_that_collectives_add_and_their_names():
    ir = popxl.Ir(replication=2)
    with ir.main_graph as main:
        t = popxl.variable(np.zeros((2, 4), np.float32), name="t")

        def added(function):
            before = len(main.tensors), len(op_types(main))
            y = function()
            return y, op_types(main)[before[1] :], len(main.tensors) - before[0]

        y, kinds, count = added(lambda: collectives.replicated_all_gather(t))
        assert kinds == ["Reshape", "ReplicatedAllGather", "Reshape"] and count == 3
        y, kinds, count = added(lambda: collectives.replicated_all_gather(t, 1))
        assert kinds == ["Transpose", "Reshape", "ReplicatedAllGather", "Reshape", "Transpose"] and count == 5
        y, kinds, count = added(lambda: collectives.replicated_slice(t))
        assert kinds == ["Reshape", "ReplicatedReduceScatter", "Reshape"] and y.shape == (4,)
        y, kinds, count = added(lambda: collectives.replicated_slice(t, 1))
        assert kinds == ["Transpose", "Reshape", "ReplicatedReduceScatter", "Reshape", "Transpose"] and count == 5
        shard, kinds, count = added(lambda: collectives.replica_sharded_slice(t))
        assert kinds == ["ReplicatedReduceScatter"] and shard.id == "t_sharded_slice"
        y, kinds, count = added(lambda: collectives.replicated_all_gather(shard))
        assert kinds == ["ReplicatedAllGather"] and y.name == "t_sharded_slice_all_gathered"
        y, kinds, count = added(lambda: collectives.replicated_reduce_scatter(t))
        assert kinds == ["ReplicatedReduceScatter"] and y.id == "t_reduce_scattered"
        y, kinds, count = added(lambda: collectives.replicated_all_reduce(t))
        assert kinds == ["ReplicatedAllReduce"] and y.id == "t_all_reduce"
        y, kinds, count = added(lambda: collectives.replicated_all_reduce_(t))
        assert kinds == ["ReplicatedAllReduceInplace"]
        last = main._pb_graph.getOps()[-1]
        assert last.modifiesIndex(0) and not last.isOptimizerOp()


@pytest.mark.shows("popxl.ops.collectives.replicated_all_reduce")
def test_collectives_refuse_what_does_not_fit():
    ir, other = popxl.Ir(replication=8), popxl.Ir(replication=8)
    uneven = ir.replica_grouping(stride=2, group_size=2).transpose()
    with ir.main_graph as main:
        t = popxl.variable(np.zeros((2, 12), np.float32))
        failures = [
            (lambda: collectives.replicated_all_reduce(t, "sum"), ValueError, "'sum'"),
            (lambda: collectives.replicated_reduce_scatter(t, "local"), ValueError, "'local'"),
            (lambda: collectives.replicated_all_reduce(t, group=uneven), NotImplementedError, "stride"),
            (lambda: collectives.replicated_all_gather(t, group=other.replica_grouping()), ValueError, "8 replicas"),
            (lambda: collectives.replicated_all_gather(t, 1.5), ValueError, "integer"),
            (lambda: collectives.replicated_all_gather(t, 2), ValueError, "2 axes"),
            (lambda: collectives.replicated_all_gather(t, 0, None, "stack"), ValueError, "'stack'"),
            (lambda: collectives.replicated_slice(t, 1), ValueError, "8 replicas"),
            (lambda: collectives.replicated_slice(t, 2), ValueError, "2 axes"),
            (lambda: collectives.all_reduce([t, t], ipus=[0]), ValueError, "2 tensors and 1 ipus"),
            (lambda: collectives.all_reduce([t], op="local"), ValueError, "'local'"),
            (lambda: collectives.all_reduce([t, t]), ValueError, "not known"),
            (lambda: collectives.replicated_all_reduce(np.zeros(2)), TypeError, "t must be"),
        ]
        for call, error, message in failures:
            with pytest.raises(error, match=message):
                call()
        assert len(main.tensors) == 1 and op_types(main) == []
        with pytest.raises(popart.popart_exception, match="shape"):
            collectives.all_reduce([t, popxl.constant(np.zeros(3, np.float32))], ipus=[0, 1])
        graph = ir.create_graph(lambda x, y: tuple(collectives.all_reduce([x, y], [0, 1], "max")), t, t)
        with pytest.raises(popart.popart_exception, match='op="max"'):
            popxl.transforms.autodiff(graph)


def test_older_names_of_groups_and_the_enum_of_reductions():
    import popart._internal.ir as _ir
    from popxl.ops.collectives.collectives import to_collective_op

    assert collectives.CommGroupType.All.name == "All"
    assert collectives.CommGroup().type == collectives.CommGroupType.All
    assert collectives.CommGroup().replicaGroupSize == 0
    assert to_collective_op("mul") == _ir.CollectiveOperator.Mul
    assert to_collective_op("and") == _ir.CollectiveOperator.LogicalAnd
    with pytest.raises(ValueError, match="'xor'"):
        to_collective_op("xor")
