"""popart._internal.ir: every class that programs make by hand, by the names of its arguments and in their order."""

import dataclasses

import numpy
import pytest
from popart_ir_programs import Program, identifier, info

import popart
import popart._internal.ir as _ir
import popxl
from popxl import ops

F16, F32 = _ir.DataType.FLOAT16, _ir.DataType.FLOAT
op = _ir.op


def axes(*values):
    return _ir.OptionalInt64Vector(list(values))


def optimizer(value):
    return _ir.OptimizerValue(value)


def attributes():
    window = op.ReceptiveOpAttributes()
    window.strides, window.pads = [1, 1], [0, 0, 0, 0]
    return window


def options():
    return op.MultiConvOptions({}, {})


UNARY = "Abs Ceil Cos Detach Exp Floor Gelu GeluErf Identity Log Negate Relu Sign Sin Sqrt Swish Tanh".split()
BINARY = "Add Div Fmod Max Mul Pow Subtract Sum".split()
COMPARISONS = "Equal Greater".split()
IN_PLACE_UNARY = "Exp Relu Gelu GeluErf Swish Detach".split()
IN_PLACE_BINARY = "AddLhs AddRhs MulLhs MulRhs PowLhs".split()
REDUCTIONS = "L1 L2 LogSum LogSumExp Max Mean Median Min Prod Sum SumSquare".split()


@dataclasses.dataclass(frozen=True)
class Constant:
    """An input that is a constant integer."""

    value: int


# class: (shapes of inputs, with their type where it is not FLOAT), arguments beside identifier and settings, outputs
CASES = {
    **{f"{name}Op": ([(2, 3)], {}, [info(2, 3)]) for name in UNARY},
    **{f"{name}Op": ([(2, 3), (3,)], {}, [info(2, 3)]) for name in BINARY if name != "Sum"},
    "SumOp": ([(2, 3), (2, 3), (2, 3)], {}, [info(2, 3)]),
    **{f"{name}Op": ([(2, 3), (3,)], {}, [info(2, 3, dtype="BOOL")]) for name in COMPARISONS},
    **{name: ([(2, 3)], {}, [info(2, 3, dtype="BOOL")]) for name in ("IsInf", "IsNaN")},
    **{f"{n}Op": ([((2,), "BOOL"), ((2,), "BOOL")], {}, [info(2, dtype="BOOL")]) for n in ("And", "Or")},
    "NotOp": ([((2,), "BOOL")], {}, [info(2, dtype="BOOL")]),
    "WhereOp": ([((2,), "BOOL"), (2,), (2,)], {}, [info(2)]),
    **{f"{name}InplaceOp": ([(2, 3)], {}, [info(2, 3)]) for name in IN_PLACE_UNARY},
    **{f"{name}InplaceOp": ([(2, 3), (2, 3)], {}, [info(2, 3)]) for name in IN_PLACE_BINARY},
    **{f"Reduce{name}Op": ([(2, 3)], {"axes": axes(1), "keepdims": True}, [info(2, 1)]) for name in REDUCTIONS},
    "CastOp": ([(2,)], {"_to": F16}, [info(2, dtype="FLOAT16")]),
    "Pow2ScaleThenCastOp": (
        [((2,), "FLOAT16"), ((), "INT32")],
        {"_to": _ir.DataType.FLOAT8_143},
        [info(2, dtype="FLOAT8_143")],
    ),
    "CastThenPow2ScaleOp": ([((2,), "FLOAT8_152"), ((), "INT32")], {"_to": F16}, [info(2, dtype="FLOAT16")]),
    "ClipOp": ([(2,)], {"min_": 0.0, "max_": 1.0}, [info(2)]),
    "SoftmaxOp": ([(2, 3)], {"axis_": 1}, [info(2, 3)]),
    "OnehotOp": ([((2,), "INT32"), Constant(4), (2,)], {"axis_": -1}, [info(2, 4)]),
    "CumSumOp": ([(2, 3), Constant(1)], {"exclusive_": False, "reverse_": True}, [info(2, 3)]),
    "HistogramOp": ([(9,)], {"levels_": [0.0, 1.0], "absoluteOfInput_": False}, [info(3, dtype="UINT32")]),
    "ArgMaxOp": ([(2, 3)], {"axis": 1, "keepdims": 0}, [info(2, dtype="INT32")]),
    "ArgMinOp": ([(2, 3)], {"axis": 0, "keepdims": 1}, [info(1, 3, dtype="INT32")]),
    "TransposeOp": ([(2, 3)], {"perm_": [1, 0]}, [info(3, 2)]),
    "TransposeInplaceOp": ([(2, 3)], {"perm_": [1, 0]}, [info(3, 2)]),
    "ReshapeOp": ([(2, 3)], {"s": [6], "handleZero": True}, [info(6)]),
    "ReshapeInplaceOp": ([(2, 3)], {"shape": [3, 2]}, [info(3, 2)]),
    "SliceOp": ([(4, 3)], {"starts_": [1], "ends_": [3], "axes_": [0], "steps_": [1]}, [info(2, 3)]),
    "SliceInplaceOp": ([(4, 3)], {"starts_": [1], "ends_": [3], "axes_": [0], "steps_": [1]}, [info(2, 3)]),
    "SubsampleOp": ([(4, 3)], {"strides_": [2, 1]}, [info(2, 3)]),
    "ConcatOp": ([(2, 3), (1, 3)], {"axis": 0}, [info(3, 3)]),
    "ConcatInplaceOp": ([(2, 3), (1, 3)], {"axis": 0}, [info(3, 3)]),
    "GatherOp": (
        [(5, 3), ((2,), "INT32")],
        {
            "axis_": 0,
            "group_size_": 1,
            "available_memory_proportion_": _ir.OptionalFloat(0.4),
            "zeroOutOfRangeIndices_": False,
        },
        [info(2, 3)],
    ),
    "TiedGatherOp": (
        [(5, 3), ((2,), "INT32")],
        {"axis_": 0, "available_memory_proportion_": _ir.OptionalFloat(), "zeroOutOfRangeIndices_": False},
        [info(2, 3)],
    ),
    "ScatterOp": (
        [(5, 3), ((2, 3), "INT32"), (2, 3)],
        {"axis_": 0, "available_memory_proportion_": _ir.OptionalFloat()},
        [info(5, 3)],
    ),
    "ScatterReduceOp": (
        [(2, 3), ((2, 3), "INT32")],
        {
            "axis_": 0,
            "axis_size_": 4,
            "reduction_": popart.ScatterReduction.Sum,
            "group_size_": 1,
            "enable_index_broadcast_": True,
            "available_memory_proportion_": _ir.OptionalFloat(),
        },
        [info(4, 3)],
    ),
    "DynamicSliceOp": (
        [(5, 3), ((1,), "UINT32")],
        {"axes_": [0], "sizes_": [2], "noOverlap_": True},
        [info(2, 3)],
    ),
    **{
        name: (
            [(5, 3), ((1,), "UINT32"), (2, 3)],
            {"axes_": [0], "sizes_": [2], "noOverlap_": True, "updateInInfo_": info(2, 3)},
            [info(5, 3)],
        )
        for name in ("DynamicUpdateOp", "DynamicUpdateInplaceOp")
    },
    "DropoutOp": ([(2, 3), ((2,), "UINT32")], {"ratio_": 0.5}, [info(2, 3)]),
    "ShapedDropoutOp": ([(2, 3), ((2,), "UINT32")], {"ratio_": 0.5, "shape_": [3]}, [info(2, 3)]),
    "RandomNormalOp": (
        [((2,), "UINT32")],
        {"shape_": [4], "dataType_": _ir.OptionalDataType(F16), "mean_": 0.0, "scale_": 1.0},
        [info(4, dtype="FLOAT16")],
    ),
    "RandomUniformOp": (
        [((2,), "UINT32")],
        {"shape_": [4], "dataType_": _ir.OptionalDataType(F32), "high_": 1.0, "low_": 0.0},
        [info(4)],
    ),
    "ModifyRandomSeedOp": ([((2,), "UINT32"), ((), "UINT32")], {}, [info(2, dtype="UINT32")]),
    "IncrementModOp": ([((2,), "INT32")], {"increment_": 1, "modulus_": 3}, [info(2, dtype="INT32")]),
    "IncrementModInplaceOp": ([((2,), "INT32")], {"increment_": 1, "modulus_": 3}, [info(2, dtype="INT32")]),
    "ScaledAddOp": ([(2,), (2,)], {"scale_0_": 0.5, "scale_1_": 2.0}, [info(2)]),
    "ScaledAddLhsInplaceOp": ([(2,), (2,)], {"scale_0_": 0.5, "scale_1_": 2.0}, [info(2)]),
    "MatMulOp": (
        [(2, 3), (3, 4)],
        {
            "availableMemoryProportion": _ir.OptionalFloat(0.3),
            "serialization": op.SerialiseSettings(),
            "outputType": _ir.OptionalDataType(F16),
            "partialsType": op.MatMulPartialsType.FLOAT,
        },
        [info(2, 4, dtype="FLOAT16")],
    ),
    "ConvOp": (
        [(1, 2, 5, 5), (3, 2, 3, 3)],
        {
            "strides": [1, 1],
            "pads": [1, 1, 1, 1],
            "dilations": [1, 1],
            "group": 1,
            "padType": op.AutoPad.NOTSET,
            "convOpts": options(),
        },
        [info(1, 3, 5, 5)],
    ),
    "ConvTransposeOp": (
        [(1, 2, 3, 3), (2, 3, 3, 3)],
        {
            "strides": [2, 2],
            "pads": [0, 0, 0, 0],
            "dilations": [1, 1],
            "group": 1,
            "padType": op.AutoPad.NOTSET,
            "outputPadding": [0, 0],
            "outputShape": [],
            "convOpts": options(),
        },
        [info(1, 3, 7, 7)],
    ),
    "AveragePoolOp": (
        [(1, 2, 4, 4)],
        {"countIncludePad": 0, "kernelShape": [2, 2], "attributes": attributes()},
        [info(1, 2, 3, 3)],
    ),
    "MaxPoolOp": (
        [(1, 2, 4, 4)],
        {"kernelShape": [2, 2], "storageOrder": 0, "attributes": attributes()},
        [info(1, 2, 3, 3)],
    ),
    "BatchNormOp": (
        [(2, 3, 4, 4), (3,), (3,), (3,), (3,)],
        {"_epsilon": 1e-5, "_momentum": 0.9, "_spatial": 1, "_unbiased_variance": False},
        [info(2, 3, 4, 4)],
    ),
    "ResizeOp": (
        [(1, 1, 2, 2)],
        {
            "mode": op.ResizeMode.Nearest,
            "scales": [1.0, 1.0, 2.0, 2.0],
            "nearestMode": op.ResizeNearestMode.RoundPreferFloor,
            "coordinateTransformationMode": op.ResizeCoordinateTransformationMode.HalfPixel,
        },
        [info(1, 1, 4, 4)],
    ),
    "RoiAlignOp": (
        [(1, 2, 8, 8), (3, 4), ((3,), "INT32")],
        {"spatialScale": 1.0, "samplingRatio": 2, "alignedHeight": 3, "alignedWidth": 4},
        [info(3, 2, 3, 4)],
    ),
    "NllOp": (
        [(2, 3), ((2,), "INT32")],
        {"ignoreIndex": _ir.OptionalInt(), "reduction": _ir.ReductionType.Mean, "inputIsLogProbability": True},
        [info()],
    ),
    "InitOp": (
        [],
        {
            "tensorInfo": info(2, 3),
            "tensorType": _ir.TensorType.ActGrad,
            "initType": _ir.InitType.Zero,
            "batchAxis": -1,
        },
        [info(2, 3)],
    ),
    "PrintTensorOp": (
        [(2,)],
        {"printSelf": True, "printGradient": False, "title": "t", "fmt": _ir.PrintTensorFmt()},
        [info(2)],
    ),
    "IoTileCopyOp": ([(2,)], {}, [info(2)]),
    "AllReduceOp": (
        [(2,), (2,)],
        {"op": _ir.CollectiveOperator.Add, "ipus": [0, 1], "identicalInputs": False, "identicalGradInputs": False},
        [info(2), info(2)],
    ),
    **{
        name: ([(2,)], {"op": _ir.CollectiveOperator.Add, "group": _ir.CommGroup()}, [info(2)])
        for name in ("ReplicatedAllReduceOp", "ReplicatedAllReduceInplaceOp")
    },
    "ReplicatedReduceScatterOp": (
        [(8,)],
        {
            "op": _ir.CollectiveOperator.Add,
            "grouping": _ir.ReplicaGrouping(4),
            "configureOutputForReplicatedTensorSharding": False,
        },
        [info(2)],
    ),
    "ReplicatedAllGatherOp": ([(2,)], {"group": _ir.ReplicaGrouping(4)}, [info(8)]),
    "AccumulateOp": (
        [(2,), (2,)],
        {"accumulationType": _ir.AccumulationType.DampenedAdd, "factor": optimizer(0.5)},
        [info(2)],
    ),
    "AccumulateBaseOp": (
        [(2,), (2,)],
        {"accumulationType": _ir.AccumulationType.Add, "optimizer_value": optimizer(1.0)},
        [info(2)],
    ),
    "AccumulatorScaleOp": ([(2,)], {"factor": optimizer(0.5)}, [info(2)]),
    "AccumulatorZeroOp": ([(2,)], {}, [info(2)]),
    "CopyVarUpdateOp": ([(2,), (2,)], {}, [info(2)]),
    "VarUpdateOp": ([(2,), (2,)], {}, [info(2)]),
    "VarUpdateWithUpdaterOp": ([(2,), (2,)], {}, [info(2)]),
    "LambSquareOp": ([(2, 3)], {}, [info()]),
    "AdamVarUpdateOp": (
        [(2,), (2,), (), ()],
        {"learningRate": optimizer(0.1), "maxWeightNorm": optimizer(10.0)},
        [info(2)],
    ),
}
# Several outputs, or inputs with gaps: (inputs by index, arguments, output indices, outputs)
OTHERS = {
    "TopKOp": (
        {0: (2, 5)},
        {"k": 2, "axis": 1, "largest": True, "sorted": True, "available_memory_proportion": _ir.OptionalFloat()},
        [info(2, 2), info(2, 2, dtype="INT32")],
    ),
    "SplitOp": ({0: (4, 3)}, {"axis_": 0, "split_": [1, 3]}, [info(1, 3), info(3, 3)]),
    "GroupNormOp": (
        {0: (2, 4), 1: (4,), 2: (4,)},
        {"num_groups_": 2, "epsilon_": 1e-5},
        [info(2, 4), info(4), info(4)],
    ),
    "NlllWithSoftmaxGradDirectOp": (
        {0: (2, 3), 1: ((2,), "INT32"), 2: ()},
        {"ignoreIndex": _ir.OptionalInt(1), "reduction": _ir.ReductionType.Sum},
        [info(), info(2, 3)],
    ),
    "SparseAccumulateOp": (
        {0: (5, 3), 1: (2, 3), 3: ((2,), "INT32")},
        {"accumulationType": _ir.AccumulationType.Add, "optimizer_value": optimizer(1.0), "axis": 0},
        [info(5, 3)],
    ),
    "AdamUpdaterOp": (
        {1: (2,), 2: (2,), 3: ()},
        {
            "mode_": _ir.AdamMode.Adam,
            "wd": optimizer(0.0),
            "b1": optimizer(0.9),
            "b2": optimizer(0.99),
            "eps": optimizer(1e-6),
        },
        [info(2)],
    ),
}


def class_of(name):
    return next(
        getattr(module, name) for module in (op, op.dynamic, op.exchange, op.collectives) if hasattr(module, name)
    )


def make(name, inputs, arguments, outputs, connected):
    p = Program((1,))
    p.ir.core.replicas = 4
    ids = {}
    for index, spec in inputs.items():
        if isinstance(spec, Constant):
            p.graph.addConstInit(f"g/in{index}", info(dtype="INT32"), numpy.int32(spec.value))
            ids[index] = f"g/in{index}"
            continue
        shape, dtype = spec if len(spec) == 2 and isinstance(spec[1], str) else (spec, "FLOAT")
        p.graph.addInput(f"g/in{index}", info(*shape, dtype=dtype))
        ids[index] = f"g/in{index}"
    settings = p.settings(name)
    published = list(arguments)
    named = {**arguments, "settings": settings}
    if takes_identifier(name):
        named["opid"] = identifier("MyType", "my.domain", 3)
    outs = {index: f"out{index}" for index in range(len(outputs) if outputs else 1)}
    if connected:
        return p, getattr(p.graph, f"createConnectedOp_{name}")(ids, outs, **named)
    made = getattr(p.graph, f"createOp_{name}")(**named)
    for index, id in ids.items():
        made.connectInTensor(index, id)
    for index, id in outs.items():
        made.createAndConnectOutTensor(index, id)
    made.setup()
    assert published == list(arguments)
    return p, made


NO_IDENTIFIER = {f"{n}InplaceOp" for n in (*IN_PLACE_UNARY, *IN_PLACE_BINARY, "IncrementMod", "ScaledAddLhs")} | set(
    """CopyVarUpdateOp AccumulatorZeroOp LambSquareOp ConcatInplaceOp TiedGatherOp NlllWithSoftmaxGradDirectOp AccumulateOp
    SparseAccumulateOp AccumulatorScaleOp AdamUpdaterOp AdamVarUpdateOp""".split()
)


def takes_identifier(name):
    return name not in NO_IDENTIFIER


ALL = {
    **{name: (dict(enumerate(ins)), arguments, outs) for name, (ins, arguments, outs) in CASES.items()},
    **OTHERS,
}


@pytest.mark.parametrize("connected", [True, False])
def test_every_class_is_made_by_names(connected):
    for name, (inputs, arguments, outputs) in ALL.items():
        if outputs is None:
            continue
        p, made = make(name, inputs, arguments, outputs, connected)
        assert isinstance(made, class_of(name)) and type(made) is class_of(name), name
        assert [t.info for t in made.getOutputTensors()] == outputs, name
        assert [t.id for t in made.getOutputTensors()] == [f"g/out{i}" for i in range(len(outputs))]
        if takes_identifier(name):
            assert str(made.opid) == "my.domain.MyType:3" and made.opType() == "MyType", name
        assert p.graph.getOps() == [made] and made.getName() == name


def scanned(x, axis, exclusive, reverse):
    """Sums of what comes before, and of the element itself unless `exclusive`."""
    turned = numpy.flip(x, axis) if reverse else x
    sums = numpy.cumsum(turned, axis) - (turned if exclusive else 0)
    return numpy.flip(sums, axis) if reverse else sums


@pytest.mark.parametrize(
    "axis, exclusive, reverse", [(0, False, False), (1, True, False), (-1, False, True), (0, True, True)]
)
def test_sums_along_a_constant_axis_and_their_gradient(axis, exclusive, reverse):
    ir = popxl.Ir()
    x = numpy.arange(6, dtype=numpy.float32).reshape(2, 3)
    dy = numpy.float32([[1, -2, 3], [4, 5, -6]])
    with ir.main_graph, popxl.in_sequence():
        graph = ir.create_graph(lambda t: ops.identity(t), popxl.TensorSpec((2, 3), popxl.float32))
        inner = graph._pb_graph
        inner.addConstInit(f"{inner.id}/axis", info(dtype="INT32"), numpy.int32(axis))
        made = inner.createConnectedOp_CumSumOp(
            {0: graph.outputs[0].id, 1: f"{inner.id}/axis"},
            {0: f"{inner.id}/sums"},
            identifier("CumSum", version=11),
            exclusive,
            reverse,
            _ir.Settings(inner, "sums"),
        )
        assert "axis" not in made.attributes()
        inner.markAsOutput(0, f"{inner.id}/sums", True)
        backward = popxl.transforms.autodiff(graph)
        info_of_call = ops.call_with_info(graph, popxl.constant(x))
        (dx,) = ops.call(backward.graph, popxl.constant(dy), inputs_dict=backward.inputs_dict(info_of_call))
        streams = [popxl.d2h_stream((2, 3), popxl.float32) for _ in range(2)]
        for stream, tensor in zip(streams, (info_of_call.outputs[0], dx)):
            ops.host_store(stream, tensor)
    with popxl.Session(ir, "ipu_model") as s:
        got = s.run()
    numpy.testing.assert_allclose(got[streams[0]], scanned(x, axis, exclusive, reverse))
    numpy.testing.assert_allclose(got[streams[1]], scanned(dy, axis, exclusive, not reverse))


@pytest.mark.parametrize("kind, index, arguments", [("CumSum", 1, (False, False)), ("Onehot", 1, (-1,))])
def test_an_axis_or_number_of_classes_that_is_no_constant_is_refused(kind, index, arguments):
    p = Program((2,))
    p.graph.addInput("g/n", info(dtype="INT32"))
    p.graph.addInput("g/i", info(2, dtype="INT32"))
    inputs = ["g/x", "g/n"] if kind == "CumSum" else ["g/i", "g/n", "g/x"]
    with pytest.raises(
        popart.popart_exception, match=rf"\(input {index}\) has to be known|constant integer \(input {index}\)"
    ):
        p.op(kind, inputs, "g/o", *arguments)


def test_arguments_may_stand_in_their_order():
    p = Program()
    settings, opid = p.settings(), identifier("Cast")
    cast = p.graph.createConnectedOp_CastOp({0: "g/x"}, {0: "g/a"}, opid, F16, settings)
    assert cast.outInfo(0) == info(2, 3, dtype="FLOAT16")
    reduced = p.graph.createConnectedOp_ReduceSumOp(
        {0: "g/x"}, {0: "g/b"}, opid, _ir.OptionalInt64Vector(), False, settings
    )
    assert reduced.outShape(0) == []
    init = p.graph.createConnectedOp_InitOp(
        {}, {0: "g/c"}, opid, info(4), _ir.TensorType.ActGrad, _ir.InitType.NoInit, settings, -1
    )
    assert init.outShape(0) == [4] and isinstance(init, op.InitOp)
    summed = p.graph.createConnectedOp_AllReduceOp(
        {0: "g/x"}, {0: "g/d"}, opid, _ir.CollectiveOperator.Add, [0], settings
    )
    assert isinstance(summed, op.collectives.AllReduceOp)


def test_numbers_in_attributes_reach_the_op():
    p = Program()
    clipped = p.op("Clip", ["g/x"], "g/c", 0.25, 4)
    assert clipped.attributes() == {"min": 0.25, "max": 4.0}
    assert p.op("ReduceSum", ["g/x"], "g/s", axes(0), True).attributes() == {"axes": [0], "keepdims": True}


@pytest.mark.parametrize(
    "arguments, message",
    [({"axes": []}, "'opid' is missing"), ({"opid": 1, "axis": 2}, r"takes \(opid, axes, keepdims, settings\)")],
)
def test_wrong_arguments_are_type_errors(arguments, message):
    p = Program()
    with pytest.raises(TypeError, match=message):
        p.graph.createOp_ReduceSumOp(**arguments)
    with pytest.raises(AttributeError, match="createOp_NoSuchOp"):
        p.graph.createOp_NoSuchOp()


def test_nothing_is_left_of_an_op_that_does_not_fit():
    p = Program((2, 3), (4,))
    p.graph.addActGrad("g/there")
    with pytest.raises(popart.popart_exception, match="Add"):
        p.op("Add", ["g/x", "g/y"], "g/z")
    with pytest.raises(popart.popart_exception, match="no tensor 'g/absent'"):
        p.op("Add", ["g/x", "g/absent"], "g/z")
    assert p.graph.getOps() == [] and "g/z" not in p.graph and "g/there" in p.graph


def test_an_existing_tensor_is_taken_as_output_and_gets_the_type():
    p = Program()
    p.graph.addActGrad("g/z")
    p.op("Add", ["g/x", "g/y"], "g/z")
    assert p.graph.getTensor("g/z").info == info(2, 3)


def test_streams_and_remote_buffers():
    p = Program()
    for name in ("in", "out"):
        p.main.addStream(name, info(2), name)
    s = p.settings("io", p.main)
    init = p.main.createConnectedOp_InitOp(
        {}, {0: "a"}, identifier("Init"), info(2), _ir.TensorType.ActGrad, _ir.InitType.Zero, s, -1
    )
    load = p.main.createConnectedOp_HostLoadOp({0: "a"}, {0: "b"}, identifier("HostLoad"), s, "in")
    store = p.main.createConnectedOp_HostStoreOp({0: "b"}, {}, opid=identifier("HostStore"), settings=s, sid_="out")
    assert isinstance(load, op.exchange.HostLoadOp) and isinstance(store, op.exchange.HostStoreOp)
    assert {k: [t.id for t in v] for k, v in p.ir.getHostLoadTensors().items()} == {"in": ["b"]}
    assert {k: [t.id for t in v] for k, v in p.ir.getHostStoreTensors().items()} == {"out": ["b"]}
    p.ir.setRemoteBufferInfo(1, _ir.RemoteBufferInfo(info(2), 4))
    for kind in ("RemoteLoad", "RemoteLoadInplace"):
        create = getattr(p.main, f"createConnectedOp_{kind}Op")
        loaded = create({0: "b"}, {0: kind}, identifier(kind), s, 1)
        assert loaded.outInfo(0) == info(2) and loaded.modifiesIndex(0) == (kind == "RemoteLoadInplace")
    p.main.createConnectedOp_RemoteStoreOp({0: "b"}, {}, identifier("RemoteStore"), s, 1)
    with pytest.raises(popart.popart_exception, match="unknown remote buffer"):
        p.main.createConnectedOp_RemoteLoadOp({0: "b"}, {0: "q"}, identifier("RemoteLoad"), s, 9)
    assert init.id == 100


def test_copies_between_ipus():
    p = Program()
    s = p.settings()
    made = p.graph.createOp_IpuCopyOp(identifier("IpuCopy"), 3, s)
    made.connectInTensor(0, "g/x", 1)
    made.createAndConnectOutTensor(0, "g/c")
    made.setup()
    assert (made.getSourceIpu(), made.getSourceIpu("g/x"), made.getDestIpu()) == (1, 1, 3)
    assert (made.getMinSourceIpu(), made.getMaxSourceIpu()) == (1, 1) and made.isIpuCopyOp()
    other = p.graph.createConnectedOp_IpuCopyOp({0: "g/y"}, {0: "g/d"}, identifier("IpuCopy"), 2, 0, s)
    assert (other.getSourceIpu(), other.getDestIpu()) == (2, 0) and other.outInfo(0) == info(2, 3)


def test_code_is_loaded_by_the_id_of_its_graph():
    p = Program()
    made = p.main.createConnectedOp_RemoteCodeLoadOp(
        {},
        {},
        identifier("RemoteCodeLoad"),
        _ir.GraphId("g"),
        _ir.CodeLocation.ExecutableMemory,
        p.settings("l", p.main),
    )
    assert isinstance(made, op.exchange.RemoteCodeLoadOp) and made.attribute("graph") == "g"


def test_hooks_see_what_is_made_by_hand():
    popxl = pytest.importorskip("popxl")
    ir = popxl.Ir()
    seen = []
    ir.main_graph.register_op_created_hook(seen.append)
    graph = ir.main_graph._pb_graph
    graph.addInput("x", info(2))
    made = graph.createConnectedOp_ExpOp({0: "x"}, {0: "y"}, identifier("Exp"), _ir.Settings(graph, "e"))
    assert seen == [made]
