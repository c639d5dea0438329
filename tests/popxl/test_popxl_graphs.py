"""The Ir and its graphs: making, tracing, looking at them."""

import functools
import gc
import os
from typing import List, Tuple  # noqa: UP035

import numpy as np
import pytest

import popart
import popxl
from popxl import ops

SPEC = popxl.TensorSpec((2,), popxl.float32)


@pytest.mark.shows("popxl.Ir", "popxl.Ir.main_graph", "popxl.Ir.id")
def test_an_ir_is_compared_and_found_by_its_id(ir):
    other = popxl.Ir()
    assert ir == ir and ir != other and ir.id != other.id and hash(ir) == hash(ir.id)
    assert repr(ir) == f"Ir[id={ir.id}]"
    with pytest.raises(TypeError):
        bool(ir == 1)
    assert ir.main_graph is ir.main_graph and ir.main_graph.id == ir.main_graph.name == ""
    assert popxl.Ir._from_pb(ir._pb_ir) is ir and popxl.Graph._from_pb(ir.main_graph._pb_graph) is ir.main_graph
    pb = other._pb_ir
    del other
    gc.collect()
    with pytest.raises(RuntimeError, match="gone"):
        popxl.Ir._from_pb(pb)


@pytest.mark.shows("popxl.Ir.replication_factor", "popxl.Ir.instance_replication_factor", "popxl.Ir.num_host_transfers")
def test_replication_and_options(ir):
    assert (ir.replication_factor, ir.instance_replication_factor, ir.num_host_transfers) == (1, 1, 1)
    ir.replication_factor = 4
    ir.replication_factor = 2
    ir.num_host_transfers = 3
    assert (ir.replication_factor, ir.instance_replication_factor, ir.num_host_transfers) == (2, 2, 3)
    options = ir._pb_ir.getSessionOptions()
    assert options.enableReplicatedGraphs and options.replicatedGraphCount == 2
    assert options.useHostCopyOps and options.enableExplicitMainLoops and options.explicitRecomputation
    assert options.virtualGraphMode == popart.VirtualGraphMode.Manual and options.aliasZeroCopy
    options.enableDistributedReplicatedGraphs = True
    options.globalReplicationFactor = 8
    assert (ir.replication_factor, ir.instance_replication_factor) == (8, 2)
    assert popxl.Ir("popdist").replication_factor == 1
    for wrong in (0, "some"):
        with pytest.raises(ValueError):
            popxl.Ir(wrong)


@pytest.mark.shows("popxl.Graph", "popxl.Ir.create_empty_graph", "popxl.graph_input", "popxl.graph_output")
@pytest.mark.shows(
    "popxl.Graph.name",
    "popxl.Graph.id",
    "popxl.Graph.ir",
    "popxl.Graph.main_graph",
    "popxl.Graph.inputs_by_name",
    "popxl.Graph.outputs",
)
def test_empty_graphs(ir):
    g, h = ir.create_empty_graph(), ir.create_empty_graph("mine")
    assert (g.id, h.name) == ("graph_subgraph(0)", "mine_subgraph(1)")
    with h, popxl.name_scope("layer"):
        w = popxl.graph_input((2,), popxl.float16, "w")
        t = popxl.graph_input((), popxl.int32, meta_shape=(3,))
        popxl.graph_output(w)
        popxl.graph_output(w)
    assert h.inputs == (w, t) and h.outputs == (w, w) and h.inputs_by_name == {"layer/w": w, "layer/t": t}
    assert t.meta_shape == (3,) and len(h.tensors) == 2 and ir._pb_ir.getGraph(h.id).getOps() == []
    with g:
        with pytest.raises(ValueError, match="current graph"):
            popxl.graph_output(w)
    assert repr(h) == "Graph[id=mine_subgraph(1) name=mine_subgraph(1)]"
    assert g == g and g != h and len({g, h, g}) == 2 and g.main_graph is ir.main_graph and g.ir is ir
    with pytest.raises(TypeError):
        bool(g == 1)
    with pytest.raises(TypeError):
        popxl.Graph()
    assert w in h and w not in g
    with pytest.raises(TypeError):
        bool("w" in g)


@pytest.mark.shows(
    "popxl.Graph.tensors",
    "popxl.Graph.variables",
    "popxl.Graph.constants",
    "popxl.Graph.get_tensor",
    "popxl.Graph.called_graphs",
)
def test_what_a_graph_holds(ir):
    main = ir.main_graph
    with main:
        b, a = popxl.variable(1.0, name="b"), popxl.variable(1.0, name="a")
        c = popxl.constant(2, name="c")
        stream = popxl.h2d_stream((), popxl.float32)
        x = a + b
        g = ir.create_graph(lambda t: t, a)
        ops.call(g, a)
        ops.call(g, b)
    assert main.variables == (a, b) and main.constants == (c,) and main.called_graphs == (g,)
    assert [t.id for t in main.tensors] == sorted(t.id for t in main.tensors)
    assert stream._stream_tensor in main.tensors and main.get_tensor("add_out") is x
    with pytest.raises(popart.popart_exception, match="nothing"):
        main.get_tensor("nothing")
    assert popxl.Tensor._from_pb_tensor(a._pb_tensor) is a
    assert g.get_tensor(f"{g.id}/t") is g.inputs[0]
    with g:
        assert g._create_tensor_id("t").startswith(f"{g.id}/t__t") and g._create_tensor_id("u") == f"{g.id}/u"


@pytest.mark.shows("popxl.Ir.create_graph", "popxl.TensorSpec")
def test_tracing_of_arguments(ir):
    seen = {}

    def f(x, y: popxl.TensorByRef, n, several, refs: List[popxl.TensorByRef], table, *rest, scale=2, **named):  # noqa: UP006
        seen.update(n=n, several=several, refs=refs, table=table, rest=rest, scale=scale, named=named)
        return x

    with ir.main_graph:
        t = popxl.variable(np.zeros(3), name="t")
    table = {"t": t}
    g = ir.create_graph(f, t, SPEC, 5, [t, SPEC], (SPEC, SPEC), table, SPEC, t, key=SPEC)
    assert [i.name for i in g.inputs] == [
        "x",
        "y",
        "several_0",
        "several_1",
        "refs_0",
        "refs_1",
        "rest_0",
        "rest_1",
        "key",
    ]
    assert {i.name for i in g._by_ref_inputs} == {"y", "refs_0", "refs_1"}
    assert seen["n"] == 5 and seen["scale"] == 2 and seen["table"] is table
    assert isinstance(seen["several"], list) and isinstance(seen["refs"], list)
    assert [s.shape for s in seen["several"]] == [(3,), (2,)] and seen["named"] == {"key": g.inputs[-1]}
    assert g.inputs[0].spec == t.spec and g.outputs == (g.inputs[0],)


@pytest.mark.edge("29.17")
def test_tracing_by_reference_of_starred_arguments(ir):
    def starred(*ts: popxl.TensorByRef, **named: popxl.TensorByRef):
        pass

    def pair(ts: Tuple[popxl.TensorByRef]):  # noqa: UP006
        pass

    def text(t: "popxl.TensorByRef", ts: "List[popxl.TensorByRef]"):  # noqa: UP006
        pass

    assert len(ir.create_graph(starred, SPEC, SPEC, a=SPEC)._by_ref_inputs) == 3
    assert len(ir.create_graph(pair, (SPEC, SPEC))._by_ref_inputs) == 2
    assert len(ir.create_graph(text, SPEC, [SPEC])._by_ref_inputs) == 2


def test_names_of_traced_graphs(ir):
    def inner(x):
        return x

    class Layer(popxl.Module):
        def build(self, x):
            return x

    names = [ir.create_graph(fn, SPEC).name for fn in (inner, inner, lambda x: x, Layer())]
    stem = "test_names_of_traced_graphs"
    assert names == [
        f"{stem}.inner_subgraph(0)",
        f"{stem}.inner_subgraph(1)",
        f"{stem}.<lambda>_subgraph(2)",
        f"{stem}.Layer_subgraph(3)",
    ]


def test_what_tracing_refuses(ir):
    for wrong in (functools.partial(lambda x: x), 3):
        with pytest.raises(TypeError, match="create_graph"):
            ir.create_graph(wrong, SPEC)
    with pytest.raises(ValueError, match="arguments"):
        ir.create_graph(lambda x: x)
    for mixed in ([SPEC, 1], (1, SPEC)):
        with pytest.raises(TypeError, match="'x'"):
            ir.create_graph(lambda x: None, mixed)
    with pytest.raises(TypeError, match="'xs'"):
        ir.create_graph(lambda *xs: None, SPEC, 1)
    with pytest.raises(TypeError, match="'xs'"):
        ir.create_graph(lambda **xs: None, a=SPEC, b=1)
    for result in (3, [3]):
        with pytest.raises(ValueError, match="returned"):
            ir.create_graph(lambda x: result, SPEC)
    with ir.main_graph:
        t = popxl.variable(1.0)
    with pytest.raises(ValueError, match="current graph"):
        ir.create_graph(lambda x: t, SPEC)
    with pytest.raises(NotImplementedError, match="build"):
        popxl.Module()()
    with pytest.raises(RuntimeError, match="current graph"):
        popxl.gcg()  # no failed trace left its graph current


@pytest.mark.edge("29.28")
def test_results_of_tracing(ir):
    explicit = ir.create_graph(lambda x: (popxl.graph_output(x), x + 1)[1], SPEC)
    assert explicit.outputs[0] is explicit.inputs[0] and len(explicit.outputs) == 2
    assert ir.create_graph(lambda x: None, SPEC).outputs == ()
    assert len(ir.create_graph(lambda x: (t for t in (x, x)), SPEC).outputs) == 2


@pytest.mark.shows("popxl.Module", "popxl.Module.build")
def test_modules_are_traced_and_called_through_build(ir):
    class Twice(popxl.Module):
        def build(self, x, times=2):
            return x * times

    with ir.main_graph:
        inlined = Twice()(popxl.variable([1.0, 2.0]), times=3)
        y = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(y, ops.call(ir.create_graph(Twice(), inlined), inlined)[0])
        for use in (lambda: popxl.Module()(inlined), lambda: ir.create_graph(popxl.Module()), popxl.Module().build):
            with pytest.raises(NotImplementedError, match="Module has no build"):
                use()
    with popxl.Session(ir, "ipu_model") as session:
        assert session.run()[y].tolist() == [6, 12]


@pytest.mark.shows(*(f"popxl.TensorSpec.{name}" for name in ("shape", "dtype", "meta_shape", "to_dict", "to_tuple")))
def test_a_tensor_spec_is_a_mapping_of_shape_dtype_and_meta_shape(ir):
    spec = popxl.TensorSpec([2, 3], popxl.float16)
    assert spec == {"shape": (2, 3), "dtype": popxl.float16, "meta_shape": ()} and len(spec) == 3
    assert spec.to_tuple() == ((2, 3), popxl.float16, ()) and spec.to_dict() == dict(spec)
    assert hash(spec) == hash(spec.to_tuple()) and spec["shape"] == spec.shape
    assert repr(spec) == "TensorSpec(shape=(2, 3), dtype=popxl.dtypes.float16, meta_shape=())"
    shard = popxl.TensorSpec((2,), popxl.int32, meta_shape=(3,))
    assert (shard.shape, shard.dtype, shard.meta_shape) == ((2,), popxl.int32, (3,)) and spec.meta_shape == ()
    assert shard.to_dict() == {"shape": (2,), "dtype": popxl.int32, "meta_shape": (3,)}
    assert shard.to_tuple() == ((2,), popxl.int32, (3,)) and type(shard.to_dict()) is dict
    with ir.create_empty_graph():
        assert popxl.graph_input(**shard, name="w").spec == popxl.graph_input(**shard.to_dict()).spec == shard


@pytest.mark.shows(
    "popxl.Ir.get_all_h2d_streams",
    "popxl.Ir.get_all_d2h_streams",
    "popxl.HostToDeviceStream",
    "popxl.DeviceToHostStream",
    "popxl.d2h_stream",
)
@pytest.mark.shows(
    "popxl.streams.Stream",
    "popxl.HostToDeviceStream.dtype",
    "popxl.HostToDeviceStream.shape",
    "popxl.HostToDeviceStream.spec",
    "popxl.HostToDeviceStream.tensor_id",
    "popxl.DeviceToHostStream.tensor_id",
    "popxl.DeviceToHostStream.dtype",
    "popxl.DeviceToHostStream.shape",
    "popxl.DeviceToHostStream.spec",
)
def test_an_ir_lists_the_streams_that_its_graphs_use(ir):
    with ir.main_graph:
        unused = popxl.h2d_stream((2,), popxl.float32)
        x, y = popxl.h2d_stream((2,), popxl.float32, "x"), popxl.d2h_stream((2,), popxl.float32)

        def f():
            z = popxl.h2d_stream((2,), popxl.float32, "z")
            ops.host_store(y, ops.host_load(x) + ops.host_load(z, "named"))
            return ()

        g = ir.create_graph(f)
    names = {t.name for t in g.tensors}
    assert {"x_hostload", "x_hostload_init", "named_hostload"} <= names
    assert {s.tensor_id for s in ir.get_all_h2d_streams()} == {"x", "z"} and ir.get_all_d2h_streams() == {y}
    assert unused.tensor_id == "h2d_stream" and y.tensor_id == "d2h_stream" and x.spec == SPEC
    assert (y.shape, y.dtype, y.spec) == ((2,), popxl.float32, SPEC)
    assert (x.shape, x.dtype) == ((2,), popxl.float32) and x != unused and hash(x) != hash(unused)
    assert popxl.HostToDeviceStream._from_tensor(x._stream_tensor) == x and str(x).startswith(
        "HostToDeviceStream Tensor[x "
    )
    for cls in (popxl.HostToDeviceStream, popxl.DeviceToHostStream, popxl.streams.Stream):
        with pytest.raises(NotImplementedError):
            cls()
    with pytest.raises(RuntimeError):
        popxl.h2d_stream((), popxl.float32)
    with ir.main_graph:
        for wrong in (popxl.variable(np.ones(3)), popxl.variable(np.ones(2), popxl.float16)):
            with pytest.raises(ValueError, match="takes"):
                ops.host_store(y, wrong)


@pytest.mark.shows("popxl.Ir.dot_checkpoint")
def test_dot_files(ir, tmp_path, monkeypatch):
    monkeypatch.delenv("POPART_DOT_CHECKS", raising=False)
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        g = ir.create_graph(lambda t: t + t, x)
        ops.call(g, x)
    ir.dot_checkpoint("MyCheck", str(tmp_path / "dots"))
    assert set(os.listdir(tmp_path / "dots")) == {"MyCheck_r.dot", "MyCheck_0.dot"}
    assert ir._pb_ir.getSessionOptions().dotChecks == {"ALL"}
    monkeypatch.setenv("POPART_DOT_CHECKS", "Other")
    second = popxl.Ir()
    second.dot_checkpoint("Mine", str(tmp_path / "none"))
    assert os.listdir(tmp_path / "none") == []


@pytest.mark.parametrize("end", ["input", "output"])
def test_removing_at_or_past_the_end_removes_the_last_one(ir, end):
    """Programs note the places of several outputs and remove one after the other without correcting the places."""
    graph = ir.create_empty_graph("g")
    with graph:
        for i in range(4):
            popxl.graph_output(popxl.graph_input((1,), popxl.float32, name=f"x{i}"))
    core = graph._pb_graph
    remove = core.removeInput if end == "input" else core.removeOutput
    for place in (1, 2, 3):
        remove(place)
    assert [t.name for t in (graph.inputs if end == "input" else graph.outputs)] == ["x0"]
    with pytest.raises(popart.popart_exception, match="'y' is no"):
        remove("y")
    with pytest.raises(popart.popart_exception, match=f"no such {end}.*: -1 of graph 'g_subgraph.*which has 1"):
        remove(-1)
    remove(10**9)
    with pytest.raises(popart.popart_exception, match=f"no such {end}.*: 0 of graph.*which has 0"):
        remove(0)
