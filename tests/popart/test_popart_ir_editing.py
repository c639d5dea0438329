"""Programs that were taken apart and put together again run as if they had been written so."""

import gc

import numpy as np
from popart_ir_programs import identifier

import popart._internal.ir as _ir
import popxl
from popxl import ops

X = np.float32([1, 2])


def run(ir, t):
    with ir.main_graph:
        out = popxl.d2h_stream(t.shape, t.dtype)
        ops.host_store(out, t)
    with popxl.Session(ir, "ipu_model") as session:
        return session.run()[out].tolist()


def test_ops_of_main_move_into_a_graph_that_is_called():
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(X, name="x")
        y = x * 3
        z = y + y
        out = z - 1
    main, body = ir.main_graph._pb_graph, ir._pb_ir.createGraph(ir._pb_ir.createUniqueSubgraphId("part"))
    scope = str(body.id)
    body.addInput(f"{scope}/x", x._pb_tensor.info)
    body.addConstInit(f"{scope}/three", _ir.TensorInfo("FLOAT", []), np.float32(3))
    old = [t._pb_tensor.getProducer() for t in (y, z)]
    new = [op.cloneIntoGraph(body) for op in old]
    for index, id in enumerate(("x", "three")):
        new[0].connectInTensor(index, f"{scope}/{id}")
    new[0].createAndConnectOutTensor(0, "y")
    new[0].setup()
    for index in (0, 1):
        new[1].connectInTensor(index, f"{scope}/y")
    new[1].createAndConnectOutTensor(0, "z")
    new[1].setup()
    body.markAsOutput(f"{scope}/z")
    call = main.createOp_CallOp(identifier("Call"), body, _ir.Settings(main, "call"))
    _ir.TopoCons.transferToSubgraph(call, {a: [b] for a, b in zip(old, new)}, True)
    for op in old:
        op.disconnectAllInputs()
        op.disconnectAllOutputs()
        main.eraseOp(op.id)
    call.connectInTensor(0, "x")
    call.connectOutTensor(0, z.id)
    call.setup()
    assert [op.opType() for op in main.getOps()] == ["Sub", "Call"]
    assert main.getOpSchedule()[0] is call and body.topoCons().contains(*new)
    assert run(ir, out) == [5, 11]


def test_a_value_is_added_to_a_loop():
    ir = popxl.Ir()
    with ir.main_graph:
        x, step = popxl.variable(X, name="x"), popxl.variable(np.float32([10, 20]), name="step")
        g = ir.create_graph(lambda a: a + 1, x)
        info = ops.repeat_with_info(g, 3, x)
    loop = info._op
    wrapper, core = loop.getCalledGraph(), g._pb_graph
    inner = next(op for op in wrapper.getOps() if op.opType() == "Call")
    core.addInput(f"{g.id}/step", step._pb_tensor.info)
    loop.addLoopInput(3, step.id, f"{wrapper.id}/step", False)
    inner.connectInTensor(1, f"{wrapper.id}/step")
    add = core.getOps()[0]
    add.disconnectInTensor(1)
    add.connectInTensor(1, f"{g.id}/step")
    add.setup()
    assert loop.getNumExplicitInputs() == 3 and [t.id for t in loop.getInputTensors()] == ["x", "step"]
    assert run(ir, info.outputs[0]) == [31, 62]


def test_editing_keeps_no_program_alive():
    gc.collect()
    before = len(popxl.Ir._ir_cache)
    ir = popxl.Ir()
    g = ir.create_graph(lambda a: ops.exp(a), popxl.TensorSpec((2,), popxl.float32))
    popxl.transforms.autodiff(g)
    assert g._pb_graph.getOps()[0].getSettings().getIr() is ir._pb_ir and len(popxl.Ir._ir_cache) == before + 1
    del ir, g
    gc.collect()
    assert len(popxl.Ir._ir_cache) == before
