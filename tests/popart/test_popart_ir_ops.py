"""popart._internal.ir: what ops say of themselves, rewiring, cloning, and members of particular classes."""

import numpy as np
import pytest
from popart_ir_programs import Program, identifier, info

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops


def plain(p, kind="Identity"):
    return _ir.Op(_ir.OperatorIdentifier("ai.onnx", kind, 1, _ir.NumInputs(1, 1), 1), p.settings("plain"))


def test_a_plain_op_takes_an_id_and_is_not_listed():
    p = Program()
    op = plain(p, "Foo")
    assert (op.id, str(op), op.opType()) == (100, "100 (ai.onnx.Foo:1)", "Foo")
    assert op.debugName() == "Op(plain (ai.onnx.Foo:1), inputs=[], outputs=[])"
    assert op.getGraph() is p.graph and p.graph.getOps() == [] and p.graph.getOpSchedule() == []
    assert op.getSubgraphEquivId({}) == "ai.onnx::Foo::1___NO_none_0_"
    with pytest.raises(RuntimeError):
        op.clone()
    op.createAndConnectOutTensor(0, "out")
    assert (op.outId(0), op.outShape(0), op.outRank(0), op.outTensorCount()) == ("g/out", [], 0, 1)


def op_of(kind):
    """An op of a kind, in a program of popxl."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.ipu(0):
        x, scale = popxl.variable(np.ones((2, 4), np.float32)), popxl.variable(np.ones(4, np.float32))
        label = popxl.constant(np.zeros(2, np.int32))
        made = {
            "Exp": lambda: ops.exp(x),
            "MatMul": lambda: ops.matmul(x, ops.transpose(x)),
            "Transpose": lambda: ops.transpose(x),
            "TransposeInplace": lambda: ops.transpose_(x),
            "Nll": lambda: ops.nll_loss(ops.softmax(x, -1), label),
            "IpuCopy": lambda: ops.ipu_copy(x, 1, 0),
            "Accumulate": lambda: ops.var_updates.accumulate_(x, ops.exp(x)),
            "Dropout": lambda: ops.dropout(x, popxl.constant(np.zeros(2, np.uint32)), 0.5),
            "PrintTensor": lambda: ops.print_tensor(x),
            "GroupNormalization": lambda: ops.group_norm(x, scale, scale, 2),
        }[kind]()
    return made._pb_tensor.getProducer()


@pytest.mark.parametrize(
    "query, kind",
    [
        ("isInplaceViewChange", "TransposeInplace"),
        ("isOutplaceViewChange", "Transpose"),
        ("isLossOp", "Nll"),
        ("isIpuCopyOp", "IpuCopy"),
        ("isOptimizerOp", "Accumulate"),
        ("requiresRandomSeed", "Dropout"),
        ("hasSideEffect", "PrintTensor"),
        ("isNorm", "GroupNormalization"),
        ("isElementWiseUnary", "Exp"),
    ],
)
def test_queries_tell_kinds_of_ops_apart(query, kind):
    assert getattr(op_of(kind), query)() is True
    assert getattr(op_of("MatMul"), query)() is False and getattr(plain(Program()), query)() is False


@pytest.mark.parametrize("kind", ["MatMul", "Nll", "Accumulate", "PrintTensor"])
def test_some_queries_have_one_answer_for_every_op(kind):
    op = op_of(kind)
    assert op.isOutlineable() and op.optionalInputs() == set()
    assert not (op.canBeReplacedByIdentity() or op.copiesOptimizerTensors() or op.inputsUnmodifiable())
    assert op.getInBatchAxis(0) == op.getOutBatchAxis(0) == 0
    assert op.getHighSubgraphValue() == 1000.0 and op.getLowSubgraphValue() == 0.1
    assert op.calcAutoVirtualGraphCost(set()) == 0.0 and op.inplacePriorityDefault() == []
    assert op.getSubgraphInputs() == op.getSubgraphOutputs() == {}


def test_a_plain_op_has_no_tensors_gradients_or_graphs():
    op = plain(Program())
    assert not op.hasInput(0) and not op.hasOutput(0) and op.getGradOps() == []
    assert op.getCalledGraphs() == op.getCalledGraphIds() == []
    for method in ("gradInputInfo", "gradOutToNonGradIn"):
        with pytest.raises(popart.popart_exception, match="no gradient op"):
            getattr(op, method)()
    for method in "opInToSubgraphInIndex subgraphInToOpInIndex opOutToSubgraphOutIndex subgraphOutToOpOutIndex".split():
        with pytest.raises(popart.popart_exception, match="calls no graph"):
            getattr(op, method)(0, 0)


@pytest.mark.parametrize(
    "name, optional, getter",
    [
        ("VirtualGraphId", "OptionalVGraphId", "getOptionalVGraphId"),
        ("PipelineStage", "OptionalPipelineStage", "getOptionalPipelineStage"),
        ("ExecutionPhase", "OptionalExecutionPhase", "getOptionalExecutionPhase"),
        ("BatchSerializedPhase", "OptionalBatchSerializedPhase", "getOptionalBatchSerializedPhase"),
    ],
)
def test_optional_attributes(name, optional, getter):
    op = Program().op("Exp", ["g/x"], "g/e")
    kind = getattr(_ir, optional)
    assert not getattr(op, f"has{name}")() and getattr(op, getter)() == kind()
    with pytest.raises(popart.popart_exception, match=f"the {name} of 100 .* is not set"):
        getattr(op, f"get{name}")()
    getattr(op, f"set{name}")(kind(0))
    assert getattr(op, f"has{name}")() and getattr(op, f"get{name}")() == 0 and getattr(op, getter)() == kind(0)
    getattr(op, f"set{name}")(kind())
    assert not getattr(op, f"has{name}")()


def test_settings_of_an_op_are_live():
    p = Program()
    settings = p.settings("first")
    settings.vgraphId, settings.tileSet = _ir.OptionalVGraphId(4), _ir.TileSet.IO
    settings.executionContext = _ir.ExecutionContext.WeightsFromHostFragment
    settings.pipelineStage = _ir.OptionalPipelineStage(2)
    op = p.graph.createConnectedOp_ExpOp({0: "g/x"}, {0: "g/e"}, identifier("Exp"), settings)
    live = op.getSettings()
    assert (live.name, int(live.vgraphId), live.tileSet) == ("first", 4, _ir.TileSet.IO)
    assert live.executionContext is _ir.ExecutionContext.WeightsFromHostFragment and op.getPipelineStage() == 2
    live.vgraphId, live.name = _ir.OptionalVGraphId(1), "second"
    assert op.getVirtualGraphId() == 1 and op.getName() == op.name() == "second" and live is op.getSettings()
    op.setName("third")
    copy = live.copy("fourth")
    copy.vgraphId = _ir.OptionalVGraphId(9)
    assert (live.name, copy.name, op.getVirtualGraphId()) == ("third", "fourth", 1)


def test_scope_of_an_op():
    p = Program()
    op = p.op("Exp", ["g/x"], "g/e")
    assert op.getScope().str() == "g"
    op.setScope(_ir.Scope() / "g" / "layer")
    assert op.getScope().str() == "g/layer"


def test_what_an_op_says_of_its_tensors():
    p = Program()
    op = p.op("Add", ["g/x", "g/y"], "g/z")
    x, y, z = (p.graph.getTensor(f"g/{name}") for name in "xyz")
    assert op.getInputTensors() == [x, y] and op.getOutputTensors() == [z]
    assert op.getInputIndexMap() == {0: x, 1: y} and op.getOutputIndexMap() == {0: z}
    assert (op.inId(1), op.inShape(0), op.inRank(0), op.inTensorCount(), op.outTensorCount()) == (
        "g/y",
        [2, 3],
        2,
        2,
        1,
    )
    assert op.inInfo(0) == info(2, 3) and op.inIndex(y) == op.firstInIndex(y) == 1 and op.outIndex(z) == 0
    assert op.hasInputTensor(x) and not op.hasInputTensor(z)
    assert op.debugName() == "Op(Add (ai.onnx.Add:1), inputs=[g/x, g/y], outputs=[g/z])"
    with pytest.raises(IndexError):
        op.inTensor(2)
    with pytest.raises(IndexError):
        op.outTensor(1)
    with pytest.raises(popart.popart_exception, match="'g/z' is no input"):
        op.firstInIndex(z)


def test_rewiring():
    p = Program()
    op = p.op("Add", ["g/x", "g/x"], "g/z")
    x, z = p.graph.getTensor("g/x"), p.graph.getTensor("g/z")
    op.disconnectInTensor(1)
    op.connectInTensor(1, "g/y")
    assert [t.id for t in op.getInputTensors()] == ["g/x", "g/y"]
    op.disconnectInTensor(x)
    assert list(op.getInputIndexMap()) == [1]
    op.connectInTensor(0, "y")  # a bare name gets the scope of the graph
    op.disconnectOutTensor(z)
    assert not z.hasProducer() and "g/z" in p.graph
    op.connectOutTensor(0, "g/z")
    op.disconnectAllOutputs()
    op.createAndConnectOutTensor(0, "fresh")
    op.setup()
    assert op.outId(0) == "g/fresh" and op.outInfo(0) == info(2, 3)
    op.disconnectAllInputs()
    assert op.inTensorCount() == 0
    with pytest.raises(popart.popart_exception, match="Add"):
        op.setup()


def test_setup_writes_over_the_type():
    p = Program()
    op = p.op("Exp", ["g/x"], "g/e")
    p.graph.getTensor("g/x").info = info(7, dtype="FLOAT16")
    op.setup()
    assert op.outInfo(0) == info(7, dtype="FLOAT16")


def test_a_clone_is_of_the_class_and_not_connected():
    p = Program()
    op = p.op("ReduceSum", ["g/x"], "g/s", _ir.OptionalInt64Vector([1]), True)
    op.setVirtualGraphId(_ir.OptionalVGraphId(3))
    other = p.ir.createGraph("h")
    clone = op.cloneIntoGraph(other)
    assert type(clone) is _ir.op.ReduceSumOp and clone.id == 101 and clone.getGraph() is other
    assert clone.inTensorCount() == clone.outTensorCount() == 0 and clone.getVirtualGraphId() == 3
    assert clone.attributes() == op.attributes() and other.getOps() == [clone]


def test_effects_of_ops():
    p = Program()
    inplace = p.op_in_place("AddLhsInplace", ["g/x", "g/y"], "g/z")
    assert inplace.modifiesIndex(0) and not inplace.modifiesIndex(1)
    assert inplace.overwritesTensor(p.graph.getTensor("g/x")) and not inplace.overwritesTensor(p.graph.getTensor("g/y"))
    assert not isinstance(inplace, _ir.op.AddOp)
    view = p.op("TransposeInplace", ["g/y"], "g/t", [1, 0])
    assert view.isInplaceViewChange() and not view.modifiesIndex(0)
    assert p.op("Transpose", ["g/y"], "g/u", [1, 0]).isOutplaceViewChange()
    assert p.op("Exp", ["g/y"], "g/e").isElementWiseUnary()
    update = p.op_in_place("Accumulate", ["g/x", "g/y"], "g/a", _ir.AccumulationType.Add, _ir.OptimizerValue(1.0))
    assert update.isOptimizerOp() and update.modifiesIndex(0) and not inplace.isOptimizerOp()


def test_bases_of_classes():
    op = _ir.op
    bases = {op.MatMulOp: op.MatMulBaseOp, op.ConvOp: op.MultiConvBaseOp, op.MaxPoolOp: op.HasReceptiveFieldOp}
    for kind in (
        op.AddOp,
        op.AddLhsInplaceOp,
        op.IsNaN,
        op.SubtractOp,
        op.exchange.HostLoadOp,
        op.ConvDataGradOp,
        *bases,
    ):
        assert kind.__bases__ == (bases.get(kind, op.MultiConvBaseOp if kind is op.ConvDataGradOp else _ir.Op),), kind
    gradients = """SubtractArg0GradOp SubtractArg1GradOp MulArg0GradOp MatMulLhsGradOp ConvWeightsGradOp WhereXGradOp
        ScatterDataGradOp MaxArgGradOp SumArgGradOp ConcatGradOp SplitGradOp DynamicSlicePadGradOp DynamicUpdateToUpdateGradOp
        DynamicUpdateUpdaterGradOp GroupNormGradOp UnaryZeroGradOp ReshapeGradOp NegateGradOp"""
    assert all(issubclass(getattr(op, name), _ir.Op) for name in gradients.split())


def test_shapes_broadcast():
    op = plain(Program())
    assert op.prettyNpOut([2, 1], [3]) == [2, 3]
    assert op.prettyNpOut(info(2, 1), info(3)) == info(2, 3)
    assert op.prettyNpOut(info(2), info(1, dtype="INT32"), False) == info(2)
    with pytest.raises(popart.popart_exception, match=r"\[2\] and \[3\] are not aligned"):
        op.prettyNpOut([2], [3])
    with pytest.raises(popart.popart_exception, match="incompatible types FLOAT and INT32"):
        op.prettyNpOut(info(2), info(2, dtype="INT32"))


# --- members of particular classes
def called(p, kind="Call", *, inputs=("a",), outputs=("b",)):
    """A graph "f" of inputs and what Exp makes of them, and an op of main that calls it."""
    body = p.ir.createGraph("f")
    for name in inputs:
        body.addInput(f"f/{name}", info(2))
        p.main.addInput(name, info(2))
    for source, name in zip(inputs, outputs):
        p.op("Exp", [f"f/{source}"], f"f/{name}", graph=body)
        body.markAsOutput(f"f/{name}")
    return body


def test_a_call_knows_its_graph():
    p = Program()
    body = called(p)
    call = p.main.createConnectedOp_CallOp({0: "a"}, {0: "r"}, identifier("Call"), body, p.settings("call", p.main))
    assert call.getCalledGraph() is body and call.getCalledGraphs() == [body] and call.getCalledGraphIds() == ["f"]
    assert call.getCalledGraphIndex("f") == 0 and call.outInfo(0) == info(2) and "callee=f" in call.debugName()
    assert call.subgraphInToOpInIndex(0) == call.opInToSubgraphInIndex(0, 0) == call.opOutToSubgraphOutIndex(0) == 0
    assert not call.modifiesIndex(0)
    call.addModified(0, [_ir.view.Region.getEmpty(1)])
    assert not call.modifiesIndex(0)
    call.addModified(0, [_ir.view.Region.getFull([2])])
    assert call.modifiesIndex(0)
    with pytest.raises(popart.popart_exception, match="no input 4 that it could modify"):
        call.addModified(4, [_ir.view.Region.getFull([2])])
    with pytest.raises(popart.popart_exception, match="does not call 'q'"):
        call.getCalledGraphIndex("q")
    assert not hasattr(p.op("Exp", ["g/x"], "g/e"), "getCalledGraph")


def loop(p, values=("a", "c")):
    """A loop over a graph with iterator, condition and values, of which it returns the first changed."""
    body = p.ir.createGraph("f")
    body.addInput("f/i", info(dtype="INT32"))
    body.addInput("f/cond", info(dtype="BOOL"))
    body.markAsOutput("f/cond")
    for name in values:
        body.addInput(f"f/{name}", info(2))
        p.main.addInput(name, info(2))
    p.op("Exp", [f"f/{values[0]}"], "f/next", graph=body)
    body.markAsOutput("f/next")
    ins = {2 + k: name for k, name in enumerate(values)}
    return p.main.createConnectedOp_LoopOp(ins, {0: "r"}, identifier("Loop"), p.settings("loop", p.main), body)


def test_a_loop_counts_and_maps_its_indices():
    p = Program()
    op = loop(p)
    op.setTripCountValue(5)
    assert op.getTripCountValue() == 5 and op.outInfo(0) == info(2) and op.getNumExplicitInputs() == 3
    assert op.subgraphInToOpInIndex(3) == op.opInToSubgraphInIndex(3) == 3
    assert op.opOutToSubgraphOutIndex(0) == 1 and op.subgraphOutToOpOutIndex(1) == 0


def test_inputs_and_outputs_of_a_loop_are_inserted_and_removed():
    p = Program()
    op = loop(p)
    body = op.getCalledGraph()
    op.addModified(3, [_ir.view.Region.getFull([2])])
    p.main.addInput("new", info(4))
    op.addLoopInput(2, "new", "inner", False)
    assert body.getInputIds() == ["f/i", "f/cond", "f/inner", "f/a", "f/c"]
    assert {i: t.id for i, t in op.getInputIndexMap().items()} == {2: "new", 3: "a", 4: "c"}
    assert op.modifiesIndex(4) and not op.modifiesIndex(3)
    op.addLoopInput(4, "new", "over", True)
    assert op.inId(4) == "new" and body.getInputIds()[4] == "f/over"
    op.addLoopOutput(0, "first", "f/inner", False)
    assert body.getOutputIds() == ["f/cond", "f/inner", "f/next"]
    assert {i: t.id for i, t in op.getOutputIndexMap().items()} == {0: "first", 1: "r"}
    assert p.main.getTensor("first").info == info(4)
    op.removeLoopOutput(0)
    op.removeLoopInput(2)
    assert {i: t.id for i, t in op.getInputIndexMap().items()} == {2: "a", 3: "new"}
    assert {i: t.id for i, t in op.getOutputIndexMap().items()} == {0: "r"}
    assert body.getInputIds() == ["f/i", "f/cond", "f/a", "f/over"] and body.getOutputIds() == ["f/cond", "f/next"]


def test_branches_map_their_indices():
    p = Program()
    for name in ("then", "else"):
        graph = p.ir.createGraph(name)
        graph.addInput(f"{name}/in", info(2))
        p.op("Exp", [f"{name}/in"], f"{name}/out", graph=graph)
        graph.markAsOutput(f"{name}/out")
    p.main.addInput("c", info(dtype="BOOL"))
    p.main.addInput("a", info(2))
    branches = [_ir.op.BranchInfo(_ir.GraphId(name), {0: index}, {0: 0}) for name, index in (("then", 1), ("else", 2))]
    op = p.main.createConnectedOp_IfOp(
        {0: "c", 1: "a", 2: "a"}, {0: "r"}, identifier("If"), *branches, p.settings("if", p.main)
    )
    assert op.getConditionInIndex() == _ir.op.IfOp.getConditionInIndex() == 0 and op.outInfo(0) == info(2)
    assert (op.subgraphInToOpInIndex(0, 0), op.subgraphInToOpInIndex(1, 0)) == (1, 2)
    assert (op.opInToSubgraphInIndex(0, 1), op.opInToSubgraphInIndex(0, 2), op.opInToSubgraphInIndex(1, 2)) == (
        0,
        -1,
        0,
    )
    assert op.opOutToSubgraphOutIndex(1, 0) == 0 and not hasattr(op, "getCalledGraph")


def test_options_of_products_and_convolutions():
    p = Program((2, 3), (3, 4))
    none = (_ir.OptionalFloat(), _ir.op.SerialiseSettings(), _ir.OptionalDataType(), _ir.op.MatMulPartialsType.FLOAT)
    matmul = p.graph.createConnectedOp_MatMulOp(
        {0: "g/x", 1: "g/y"}, {0: "g/m"}, identifier("MatMul"), p.settings(), *none
    )
    assert matmul.getAvailableMemoryProportion() is None and matmul.useFullyConnectedPass()
    matmul.setAvailableMemoryProportion(_ir.OptionalFloat(0.25))
    matmul.setPartialsType(_ir.op.MatMulPartialsType.HALF)
    matmul.setUseFullyConnectedPass(False)
    assert matmul.getAvailableMemoryProportion() == 0.25 and not matmul.useFullyConnectedPass()
    assert matmul.getPartialsType() is _ir.op.MatMulPartialsType.HALF
    conv = p.graph.createOp_ConvOp(
        identifier("Conv"), p.settings(), [1], [0, 0], [1], 1, _ir.op.AutoPad.NOTSET, _ir.op.MultiConvOptions({}, {})
    )
    options = conv.getConvOptions()
    assert options.availableMemoryProportions == []
    options.availableMemoryProportions = [0.5]
    assert conv.getConvOptions().availableMemoryProportions == []  # a copy
    conv.setConvOptions(options)
    assert conv.getConvOptions().availableMemoryProportions == [0.5]


def test_factors_titles_and_axes():
    p = Program()
    update = p.op_in_place(
        "Accumulate", ["g/x", "g/y"], "g/a", _ir.AccumulationType.MovingAverage, _ir.OptimizerValue(0.75)
    )
    assert update.getFactor().val() == 0.75 and update.getFactor().isConst()
    p.graph.addInput("g/f", info())
    update.connectInTensor(2, "g/f")
    assert update.getFactor().val() == 0.0 and not update.getFactor().isConst()
    shown = p.op("PrintTensor", ["g/x"], "g/p", True, False, "first", _ir.PrintTensorFmt())
    assert shown.getTitle() == "first"
    shown.setTitle("second")
    assert shown.getTitle() == "second"
    sparse = p.graph.createOp_SparseAccumulateOp(_ir.AccumulationType.Add, _ir.OptimizerValue(2.0), 1, p.settings())
    assert sparse.getAxis() == 1 and sparse.getFactor().val() == 2.0
    gather = p.graph.createOp_GatherOp(identifier("Gather"), 0, 1, p.settings(), _ir.OptionalFloat(0.5), True)
    assert gather.getAvailableMemoryProportion() == 0.5
    gather.setAvailableMemoryProportion(_ir.OptionalFloat())
    assert gather.getAvailableMemoryProportion() is None
    for name in ("getFactor", "getTitle", "getConvOptions", "getTripCountValue", "setAvailableMemoryProportion"):
        assert not hasattr(_ir.op.ExpOp, name)


def structure(ops):
    """Type, inputs and outputs of gradient ops."""
    return [
        (op.opType(), [(m.iGrad, m.iNonGrad, m.type.name) for m in op.gradInputInfo()], op.gradOutToNonGradIn())
        for op in ops
    ]


def test_gradient_ops_of_an_op():
    p = Program()
    product = p.op("Mul", ["g/x", "g/y"], "g/m")
    before = [t.id for t in p.graph.getTensors()]
    made = product.getGradOps()
    consumed = [(0, 0, "GradOut"), (1, 0, "In"), (2, 1, "In"), (3, 0, "Out")]
    assert structure(made) == [("MulArg0Grad", consumed, {0: 0}), ("MulArg1Grad", consumed, {0: 1})]
    assert [type(op) for op in made] == [_ir.op.MulArg0GradOp, _ir.op.MulArg1GradOp]
    assert all(op.inTensorCount() == op.outTensorCount() == 0 for op in made)
    assert structure(p.op("Exp", ["g/m"], "g/e").getGradOps())[0][1][1] == (1, 0, "Out")
    # Nothing of it is left in the program.
    assert p.graph.getOps()[0] is product and {t.id for t in p.graph.getTensors()} == {*before, "g/e"}
    assert [str(g.id) for g in p.ir.getAllGraphs()] == ["", "g"]


def test_gradient_ops_are_those_of_autodiff():
    p = Program((2, 4))
    p.graph.addInput("g/s", info(4))
    p.graph.addInput("g/i", info(2, dtype="INT32"))
    ins = {0: "g/x", 1: "g/s", 2: "g/s"}
    outs = {i: f"g/n{i}" for i in range(3)}
    p.graph.createConnectedOp_GroupNormOp(ins, outs, identifier("GroupNormalization"), 2, 1e-5, p.settings("n"))
    p.graph.createConnectedOp_GatherOp({0: "g/n0", 1: "g/i"}, {0: "g/r"}, identifier("Gather"), 0, 1, p.settings("r"))
    p.op("Subtract", ["g/r", "g/y"], "g/d")
    forward = p.graph.getOps()
    alone = [op for each in forward for op in each.getGradOps()]
    p.graph.markAsOutput("g/d")
    required = _ir.OptionalTensors(["g/x", "g/s", "g/y"])
    found = _ir.transforms.Autodiff().apply(p.ir, p.graph.id, ["g/d"], required)
    whole = [op for op in p.ir.getGraph(found[p.graph.id].bwdGraphId).getOps() if op.opType() != "Sum"]

    def outputs(ops):
        return sorted((op.opType(), tuple(op.gradOutToNonGradIn().items())) for op in ops)

    assert outputs(alone) == outputs(whole) and len(alone) == 4


@pytest.mark.parametrize("kind", ["Floor", "Equal"])
def test_ops_without_a_gradient_have_no_gradient_ops(kind):
    p = Program()
    inputs = ["g/x", "g/y"] if kind == "Equal" else ["g/x"]
    made = p.op(kind, inputs, "g/o").getGradOps()
    assert [op.opType() for op in made] == ([] if kind == "Equal" else ["UnaryZeroGrad"])


def test_a_program_with_gradient_ops_of_its_ops_runs():
    ir = popxl.Ir()
    with ir.main_graph:
        y = popxl.d2h_stream((2,), popxl.float32)
        product = popxl.variable([1.0, 2.0]) * 3.0
        ops.host_store(y, product)
    assert len(product._pb_tensor.getProducer().getGradOps()) == 2
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run()[y].tolist() == [3, 6]
