"""Programs look at the types, classes and identifiers of ops, at what they modify, and at types that the device narrows."""

import numpy as np
import popart._internal.ir as core
import popxl
import pytest
from popxl import ops

ONNX, GC = "ai.onnx", "ai.graphcore"
X = np.ones((2, 3), np.float32)
# call, opType, class when different, domain and version of the identifier
CALLS = [
    (lambda x, i, b: ops.abs(x), "Abs", None, None),
    (lambda x, i, b: ops.ceil(x), "Ceil", None, None),
    (lambda x, i, b: ops.floor(x), "Floor", None, None),
    (lambda x, i, b: ops.cos(x), "Cos", None, None),
    (lambda x, i, b: ops.sin(x), "Sin", None, None),
    (lambda x, i, b: ops.exp(x), "Exp", None, None),
    (lambda x, i, b: ops.log(x), "Log", None, None),
    (lambda x, i, b: ops.sqrt(x), "Sqrt", None, None),
    (lambda x, i, b: ops.tanh(x), "Tanh", None, None),
    (lambda x, i, b: ops.sign(x), "Sign", None, (ONNX, 9)),
    (lambda x, i, b: ops.clip(x), "Clip", None, (ONNX, 6)),
    (lambda x, i, b: ops.identity(x), "Identity", None, (ONNX, 1)),
    (lambda x, i, b: ops.isnan(x), "IsNaN", "IsNaN", (ONNX, 9)),
    (lambda x, i, b: ops.isinf(x), "IsInf", "IsInf", (ONNX, 10)),
    (lambda x, i, b: ops.negate(x), "Neg", "NegateOp", (ONNX, 6)),
    (lambda x, i, b: ops.relu(x), "Relu", None, None),
    (lambda x, i, b: ops.gelu(x), "Gelu", None, (GC, 1)),
    (lambda x, i, b: ops.geluerf(x), "GeluErf", None, (GC, 1)),
    (lambda x, i, b: ops.swish(x), "Swish", None, (GC, 1)),
    (lambda x, i, b: ops.add(x, x), "Add", None, (ONNX, 6)),
    (lambda x, i, b: ops.sub(x, x), "Sub", "SubtractOp", (ONNX, 7)),
    (lambda x, i, b: ops.mul(x, x), "Mul", None, (ONNX, 7)),
    (lambda x, i, b: ops.div(x, x), "Div", None, (ONNX, 7)),
    (lambda x, i, b: ops.pow(x, x), "Pow", None, (ONNX, 7)),
    (lambda x, i, b: ops.fmod(x, x), "Fmod", None, (GC, 1)),
    (lambda x, i, b: ops.maximum(x, x), "Max", None, None),
    (lambda x, i, b: ops.equal(x, x), "Equal", None, None),
    (lambda x, i, b: ops.greater(x, x), "Greater", None, (ONNX, 9)),
    (lambda x, i, b: ops.logical_and(b, b), "And", None, (ONNX, 7)),
    (lambda x, i, b: ops.logical_or(b, b), "Or", None, (ONNX, 7)),
    (lambda x, i, b: ops.logical_not(b), "Not", None, (ONNX, 1)),
    (lambda x, i, b: ops.where(b, x, x), "Where", None, (ONNX, 9)),
    (lambda x, i, b: ops.scaled_add(x, x), "ScaledAdd", None, (GC, 1)),
    (lambda x, i, b: ops.cast(x, popxl.int32), "Cast", None, (ONNX, 9)),
    (lambda x, i, b: ops.pow2scale_cast_to_fp8(x, popxl.constant(0), popxl.float8_143), "Pow2ScaleThenCast", None, (GC, 1)),
    (lambda x, i, b: ops.detach(x), "Detach", None, (GC, 1)),
    (lambda x, i, b: ops.increment_mod(x, 1, 2), "IncrementMod", None, (GC, 1)),
    *(
        (lambda x, i, b, f=getattr(ops, name): f(x), "Reduce" + kind, None, (GC if name == "median" else ONNX, 1))
        for name, kind in zip(
            ["sum", "mean", "prod", "max", "min", "l1", "l2", "logsum", "logsumexp", "sumsquare", "median"],
            ["Sum", "Mean", "Prod", "Max", "Min", "L1", "L2", "LogSum", "LogSumExp", "SumSquare", "Median"],
        )
    ),
    (lambda x, i, b: ops.argmax(x), "ArgMax", None, (ONNX, 11)),
    (lambda x, i, b: ops.argmin(x), "ArgMin", None, (ONNX, 11)),
    (lambda x, i, b: ops.topk(x, 1, 0, True, True), "TopK", None, (ONNX, 1)),
    (lambda x, i, b: ops.cumsum(x), "CumSum", None, (ONNX, 11)),
    (lambda x, i, b: ops.histogram(x, [1.0], False), "Histogram", None, (GC, 1)),
    (lambda x, i, b: ops.lamb_square(x), "LambSquare", None, (GC, 1)),
    (lambda x, i, b: ops.softmax(x, 1), "Softmax", None, (ONNX, 11)),
    (lambda x, i, b: ops.reshape(x, (6,)), "Reshape", None, (ONNX, 5)),
    (lambda x, i, b: ops.transpose(x), "Transpose", None, (ONNX, 1)),
    (lambda x, i, b: ops.concat([x, x]), "Concat", None, (ONNX, 11)),
    (lambda x, i, b: ops.slice(x, 0, 1), "Slice", None, (ONNX, 11)),
    (lambda x, i, b: ops.split(x, 2), "Split", None, (ONNX, 2)),
    (lambda x, i, b: ops.subsample(x, 2), "Subsample", None, (GC, 1)),
    (lambda x, i, b: ops.onehot(i, popxl.constant(2), popxl.constant([0.0, 1.0]), 0), "OneHot", "OnehotOp", None),
    (lambda x, i, b: ops.gather(x, i), "Gather", None, (ONNX, 1)),
    (lambda x, i, b: ops.groupedgather(x, i), "Gather", None, (ONNX, 1)),
    (lambda x, i, b: ops.tied_gather(x, i), "PopartTiedGather", "TiedGatherOp", (GC, 1)),
    (lambda x, i, b: ops.scatter(x, i, x), "Scatter", None, (ONNX, 11)),
    (lambda x, i, b: ops.scatter_reduce(x, i, "sum", axis_size=2), "ScatterReduce", None, (GC, 1)),
    (lambda x, i, b: ops.dynamic_slice(x, i, [0, 1], [1, 1], True), "DynamicSlice", "dynamic.DynamicSliceOp", (GC, 1)),
    (lambda x, i, b: ops.dynamic_update(x, i, x, [0, 1], [2, 3], True), "DynamicUpdate", "dynamic.DynamicUpdateOp", (GC, 1)),
]  # fmt: skip
WRITES = [
    (lambda x, i: ops.exp_(x), "ExpInplace"),
    (lambda x, i: ops.relu_(x), "ReluInplace"),
    (lambda x, i: ops.gelu_(x), "GeluInplace"),
    (lambda x, i: ops.geluerf_(x), "GeluErfInplace"),
    (lambda x, i: ops.swish_(x), "SwishInplace"),
    (lambda x, i: ops.increment_mod_(x, 1, 2), "IncrementModInplace"),
    (lambda x, i: ops.add_(x, x), "AddLhsInplace"),
    (lambda x, i: ops.scaled_add_(x, x), "ScaledAddLhsInplace"),
    (lambda x, i: ops.dynamic_update_(x, i, x, [0, 1], [2, 3], True), "DynamicUpdateInplace"),
]
VIEWS = [
    (lambda x: ops.detach_(x), "DetachInplace"),
    (lambda x: ops.reshape_(x, (6,)), "ReshapeInplace"),
    (lambda x: ops.transpose_(x), "TransposeInplace"),
    (lambda x: ops.concat_([x, x]), "ConcatInplace"),
    (lambda x: ops.slice_(x, 0, 1), "SliceInplace"),
]


def graph_of(function, *data):
    ir = popxl.Ir()
    with ir.main_graph:
        function(*(popxl.variable(d) for d in data))
    return ir


@pytest.mark.shows("popxl.ops.add", "popxl.ops.gather", "popxl.ops.sum", "popxl.ops.reshape")
@pytest.mark.parametrize("case", CALLS, ids=[f"{n}-{c[1]}" for n, c in enumerate(CALLS)])
def test_each_call_makes_an_op_of_the_published_type_and_class(case):
    function, op_type, class_name, identifier = case
    ir = graph_of(function, X, np.array([1, 0], np.int32), np.array([True]))
    (op,) = ir.main_graph._pb_graph.getOps()
    assert op.opType() == op_type and op.id == 100
    cls = core.op
    for part in (class_name or f"{op_type}Op").split("."):
        cls = getattr(cls, part)
    assert isinstance(op, cls)
    if identifier is not None:
        assert (op.opid.domain, op.opid.version) == identifier
    assert not any(op.modifiesIndex(i) for i in op.getInputIndexMap())


@pytest.mark.shows("popxl.ops.add_", "popxl.ops.relu_", "popxl.ops.dynamic_update_")
@pytest.mark.parametrize("function, op_type", WRITES, ids=[c[1] for c in WRITES])
def test_ops_in_place_modify_their_first_input(function, op_type):
    ir = graph_of(function, X, np.array([0, 0], np.uint32))
    (op,) = ir.main_graph._pb_graph.getOps()
    assert op.opType() == op_type
    assert op.modifiesIndex(0) and not op.modifiesIndex(1)


@pytest.mark.shows("popxl.ops.detach_", "popxl.ops.reshape_", "popxl.ops.transpose_", "popxl.ops.concat_", "popxl.ops.slice_")
@pytest.mark.parametrize("function, op_type", VIEWS, ids=[c[1] for c in VIEWS])
def test_views_modify_nothing(function, op_type):
    ir = graph_of(function, X)
    (op,) = ir.main_graph._pb_graph.getOps()
    assert op.opType() == op_type
    assert not op.modifiesIndex(0)


@pytest.mark.shows("popxl.ops.argmax", "popxl.ops.topk", "popxl.ops.onehot", "popxl.ops.cast")
def test_results_of_64_bit_types_keep_them_and_indices_do_not_get_them():
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(np.arange(6).reshape(2, 3), popxl.int64, downcast=False)
        wide = popxl.variable(X, popxl.float64, downcast=False)
        small = popxl.variable(np.array([0, 1], np.int32))
        assert ops.add(x, x).dtype is popxl.int64 and ops.sum(x).dtype is popxl.int64
        assert ops.tanh(wide).dtype is popxl.float64
        assert ops.argmax(x).dtype is popxl.int32
        assert [t.dtype for t in ops.topk(x, 1, 0, True, True)] == [popxl.int64, popxl.int32]
        assert ops.onehot(x, popxl.constant(6), small, -1).dtype is popxl.int32
        assert ops.cast(wide, popxl.int64).dtype is popxl.int64 and ops.cast(x, popxl.int32).dtype is popxl.int32
        assert ops.equal(x, x).dtype is popxl.bool
        assert ops.gather(wide, small).dtype is popxl.float64
