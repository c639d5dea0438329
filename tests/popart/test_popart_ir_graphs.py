"""popart._internal.ir: programs, graphs, their inputs and outputs, order, and what is the same object."""

import gc
import json
import weakref

import numpy
import pytest
from popart_ir_programs import Program, identifier, info

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops


def test_an_empty_program_has_a_main_graph():
    ir = _ir.Ir()
    assert [str(graph.id) for graph in ir.getAllGraphs()] == [""]
    assert ir.getMainGraph().getGraphString() == "the main graph"
    assert ir.getId() != _ir.Ir().getId()


def test_graphs_are_listed_by_id_and_found_by_text_or_id():
    ir = _ir.Ir()
    b, a = ir.createGraph("b"), ir.createGraph(_ir.GraphId("a"))
    assert ir.getAllGraphs() == [ir.getMainGraph(), a, b]
    assert ir.getGraph("a") is a and ir.getGraph(_ir.GraphId("b")) is b
    assert a.getGraphString() == "subgraph 'a'" and a.getScope().str() == "a"
    ir.removeGraph("a")
    assert not ir.hasGraph("a")
    with pytest.raises(popart.popart_exception, match="no graph 'a'"):
        ir.getGraph("a")


def test_one_graph_has_an_id():
    ir = _ir.Ir()
    ir.createGraph("a")
    with pytest.raises(popart.popart_exception, match="a"):
        ir.createGraph("a")


def test_a_scratch_graph_is_not_listed_and_may_have_the_id_of_a_listed_one():
    ir = _ir.Ir()
    scratch = _ir.Graph(ir, _ir.GraphId("s"))
    assert scratch.id == "s" and not ir.hasGraph("s") and len(ir.getAllGraphs()) == 1
    again = _ir.Graph(ir, _ir.GraphId("s"))
    assert again.id == "s" and again is not scratch and again.getIr() is ir


def test_ids_count_in_the_program():
    ir = _ir.Ir()
    assert [ir.createUniqueSubgraphId(base) for base in ("f", "g")] == ["f_subgraph(0)", "g_subgraph(1)"]
    first, second = (ir.createIntermediateTensorId("t") for _ in range(2))
    assert first.startswith("t__t") and first != second


def test_objects_of_one_number_are_one_object():
    p = Program()
    op = p.op("Add", ["g/x", "g/y"], "g/z")
    assert op is p.graph.getOps()[0] is p.graph.getOp(op.id)
    assert op.getGraph() is p.graph and op.getIr() is p.ir and op.getSettings().getIr() is p.ir
    x = p.graph.getTensor("g/x")
    assert op.inTensor(0) is x is p.ir.getTensor("g/x") is p.graph.getInputTensor(0)
    assert {x: 1}[op.inTensor(0)] == 1 and x in [p.graph.getInputTensor(0)]


def test_a_program_is_freed_with_all_its_objects():
    p = Program()
    p.op("Add", ["g/x", "g/y"], "g/z").getSettings()
    kept = weakref.ref(p.ir)
    p.graph.getTensors()
    del p
    gc.collect()
    assert kept() is None


def test_inputs_are_appended_inserted_and_replaced():
    p = Program()
    p.graph.addInput(0, "g/first", info(1), False)
    assert p.graph.getInputIds() == ["g/first", "g/x", "g/y"]
    p.graph.addInput(1, "g/instead", info(2), overwrite=True)
    assert p.graph.getInputIds() == ["g/first", "g/instead", "g/y"]
    assert p.graph.getInputIndex("g/y") == 2 and p.graph.hasInputId("g/y") and not p.graph.hasInputId("g/x")
    p.graph.removeInput("g/y")
    p.graph.removeInput(0)
    assert p.graph.getInputIds() == ["g/instead"]
    assert "g/x" in p.graph and "g/y" in p.graph  # tensors stay
    with pytest.raises(popart.popart_exception, match="'g/y' is no input of subgraph 'g'"):
        p.graph.getInputIndex("g/y")
    with pytest.raises(popart.popart_exception, match="1 inputs; there is no input 4"):
        p.graph.getInputTensor(4)


def test_outputs_are_appended_inserted_and_replaced():
    p = Program()
    p.graph.markAsOutput("g/x")
    p.graph.markAsOutput(0, "g/y", False)
    assert p.graph.getOutputIds() == ["g/y", "g/x"] and p.graph.getOutputTensor(1).id == "g/x"
    p.graph.markAsOutput(1, "g/y", True)
    assert p.graph.getOutputIds() == ["g/y", "g/y"] and not p.graph.hasOutputId("g/x")
    p.graph.removeOutput(0)
    p.graph.removeOutput("g/y")
    assert p.graph.getOutputIds() == []
    with pytest.raises(popart.popart_exception, match="no output"):
        p.graph.getOutputIndex("g/x")
    with pytest.raises(popart.popart_exception, match="no tensor 'g/absent'"):
        p.graph.markAsOutput("g/absent")


def test_op_ids_count_from_100_over_all_graphs_and_are_not_used_again():
    p = Program()
    other = p.ir.createGraph("h")
    other.addInput("h/x", info(2))
    first = p.op("Add", ["g/x", "g/y"], "g/z")
    second = p.op("Exp", ["h/x"], "h/y", graph=other)
    assert (first.id, second.id) == (100, 101)
    first.disconnectAllInputs()
    first.disconnectAllOutputs()
    p.graph.eraseOp(100)
    assert p.op("Mul", ["g/x", "g/y"], "g/w").id == 102
    assert p.graph.getOpIds() == [102] and "g/z" in p.graph
    with pytest.raises(popart.popart_internal_exception, match="no op 100"):
        p.graph.eraseOp(100)
    with pytest.raises(popart.popart_internal_exception, match="subgraph 'g' has no op 101"):
        p.graph.getOp(101)


def test_order_follows_operands_and_edges():
    p = Program()
    a = p.op("Exp", ["g/x"], "g/a")
    b = p.op("Exp", ["g/y"], "g/b")
    c = p.op("Add", ["g/a", "g/b"], "g/c")
    p.graph.topoCons().insert(b, a)
    assert p.graph.getOpSchedule() == [b, a, c] == p.graph.getOpSchedule(False)
    assert p.graph.topoCons().getAfters(b) == [a] and p.graph.topoCons().contains(b, a)
    p.graph.topoCons().insert(c, b)
    with pytest.raises(popart.popart_exception, match="in a circle .* 100 Exp, 101 Exp, 102 Add"):
        p.graph.getOpSchedule()


def test_edges_of_moved_ops_go_to_the_op_that_calls_them():
    p = Program()
    a, b, c, d = (p.op("Exp", ["g/x"], f"g/{name}") for name in "abcd")
    cons = p.graph.topoCons()
    for before, after in ((a, b), (b, c), (c, d)):
        cons.insert(before, after)
    body = p.ir.createGraph("body")
    b2, c2 = b.cloneIntoGraph(body), c.cloneIntoGraph(body)
    call = p.op("Exp", ["g/y"], "g/call")
    _ir.TopoCons.transferToSubgraph(call, {b: [b2], c: [c2]}, True)
    assert cons.contains(a, call) and cons.contains(call, d)
    assert body.topoCons().contains(b2, c2)
    assert cons.getAfters(b) == [] and not cons.contains(a, b) and not cons.contains(c, d)


def test_tensors_without_ops_are_isolated():
    p = Program()
    p.graph.addActGrad("g/alone")
    p.variable("w", [1.0, 2.0])
    p.op("Exp", ["g/x"], "g/e")
    p.ir.removeIsolatedTensors(retainVarTensors=True)
    assert sorted(t.id for t in p.graph.getTensors()) == ["g/e", "g/x", "g/y"] and "w" in p.main
    p.ir.removeIsolatedTensors()
    assert "w" not in p.main


@pytest.mark.parametrize("merged", [False, True])
def test_streams_that_ops_name_are_not_isolated(merged):
    ir = popxl.Ir()
    with ir.main_graph:
        x, _, z = (popxl.h2d_stream((), popxl.float32, n) for n in ("x", "unused_in", "z"))
        a, _ = (popxl.d2h_stream((), popxl.float32, n) for n in ("a", "unused_out"))
        ops.host_store(a, ops.host_load(x) + ops.host_load(z))
    core = ir._pb_ir
    if merged:
        core.applyTransform("MergeExchange", core.getMainGraph())
    core.removeIsolatedTensors()
    assert sorted(t.id for t in core.dataStreamTensors()) == sorted(s.tensor_id for s in (x, z, a))
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run({x: 1.0, z: 2.0})[a] == 3


def test_graphs_that_main_does_not_reach_are_isolated():
    p = Program()
    p.graph.markAsOutput("g/x")
    used = p.ir.createGraph("used")
    p.main.createConnectedOp_CallOp({}, {}, identifier("Call"), used, p.settings("call", p.main))
    p.ir.removeIsolatedGraphs()
    assert [str(g.id) for g in p.ir.getAllGraphs()] == ["", "used"] and p.main.getCalledGraphs() == [used]


def test_ipus_of_a_graph():
    p = Program()
    p.op("Exp", ["g/x"], "g/e").setVirtualGraphId(_ir.OptionalVGraphId(3))
    p.op("Exp", ["g/x"], "g/f")
    assert p.graph.getAllVirtualGraphIds(False) == {3}
    assert p.graph.getAllVirtualGraphIds(True) == {-1, 3}


def test_recursive_differentiation_can_be_switched_off():
    p = Program()
    assert p.graph.canBeRecursivelyAutodiffed()
    p.graph.setCanBeRecursivelyAutodiffed(False)
    assert not p.graph.canBeRecursivelyAutodiffed()


def test_a_graph_is_copied():
    p = Program()
    p.graph.addConstInit("g/c", info(2, 3), numpy.ones((2, 3), numpy.float32))
    a = p.op("Exp", ["g/x"], "g/a")
    b = p.op("Add", ["g/a", "g/c"], "g/b")
    p.graph.markAsOutput("g/b")
    p.graph.topoCons().insert(a, b)
    copy = p.ir.createGraph("h")
    copy.copyFrom(p.graph)
    assert copy.getInputIds() == ["h/x", "h/y"] and copy.getOutputIds() == ["h/b"]
    assert [type(op) for op in copy.getOps()] == [_ir.op.ExpOp, _ir.op.AddOp]
    assert copy.getOps()[1].inId(1) == "h/c" and copy.topoCons().contains(*copy.getOps())
    assert copy.getTensor("h/c").dataAsFloat32().tolist() == [[1.0] * 3] * 2


def test_a_program_as_json():
    p = Program()
    p.op("Cast", ["g/x"], "g/z", _ir.DataType.FLOAT16)
    graph = json.loads(p.ir.serializeToJSON())["g"]
    assert graph["inputs"] == ["g/x", "g/y"]
    assert graph["ops"][0]["type"] == "Cast" and graph["ops"][0]["outputs"][0]["type"] == "FLOAT16"


def test_dot_files_have_the_names_of_their_graphs(tmp_path, monkeypatch):
    monkeypatch.delenv("POPART_DOT_CHECKS", raising=False)
    p = Program()
    p.op("Exp", ["g/x"], "g/e")
    p.ir.createGraph("f_subgraph(7)")
    options = p.ir.getSessionOptions()
    options.logDir = str(tmp_path)
    p.ir.dotCheckpoint(p.ir, "Fwd")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.setenv("POPART_DOT_CHECKS", "other:fwd")
    p.ir.dotCheckpoint(p.ir, "Fwd")
    assert sorted(path.name for path in tmp_path.iterdir()) == ["Fwd_7.dot", "Fwd_g.dot", "Fwd_r.dot"]
    assert '"g/x" -> 100;' in (tmp_path / "Fwd_g.dot").read_text()
    options.separateCallOpPdfs = False
    p.ir.dotCheckpoint(p.ir, "fwd")
    assert (tmp_path / "fwd_all.dot").exists()


def test_remote_buffers_are_found_by_id():
    ir = _ir.Ir()
    ir.setRemoteBufferInfo(4, _ir.RemoteBufferInfo(info(2, 2, dtype="FLOAT16"), 5))
    found = ir.getRemoteBufferInfo(4)
    assert found.TensorInfo == info(2, 2, dtype="FLOAT16") and found.repeats == 5
    assert list(ir.getAllRemoteBufferInfos()) == [4]
    with pytest.raises(popart.popart_exception, match="no remote buffer 1"):
        ir.getRemoteBufferInfo(1)


def test_options_data_flow_and_flags_are_those_of_the_program():
    ir = _ir.Ir()
    ir.getSessionOptions().numIOTiles = 32
    assert int(ir.getSessionOptions().numIOTiles) == 32
    assert not ir.getDataFlow().isAnchored("y")
    with pytest.raises(popart.popart_exception, match="'y' is not anchored"):
        ir.getDataFlow().art("y")
    ir.setDataFlow(popart.DataFlow(3, {"y": popart.AnchorReturnType("All")}))
    ir.addAnchor("z")
    assert ir.getDataFlow().anchors() == ["y", "z"] and ir.getDataFlow().batchesPerStep() == 3
    assert not ir.isPrepared()
    ir.setIsPrepared()
    assert ir.isPrepared()
