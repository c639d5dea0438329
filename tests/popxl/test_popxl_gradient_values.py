"""Gradient graphs: the ops that stand for one forward op, and the forward values they take, which programs count."""

import numpy as np
import popart
import popxl
import pytest
from one_program import op_types
from popxl import ops
from popxl.transforms import autodiff

X = np.arange(1, 7, dtype=np.float32).reshape(2, 3)
AT = np.array([1, 0], np.int32)
A, B, I, M = X, X + 1, AT, X > 2  # noqa: E741
NOTHING = set()

# Inputs of the graph are 0, 1, ...; "out" is its first output, "out1" a hidden one.
CASES = {
    "add": (ops.add, [A, B], ["AddArg0Grad", "AddArg1Grad"], NOTHING),
    "sub lhs": (lambda a: ops.sub(a, popxl.constant(B)), [A], ["SubArg0Grad"], NOTHING),
    "sub": (ops.sub, [A, B], ["SubArg0Grad", "SubArg1Grad"], {0, 1, "out"}),
    "mul": (ops.mul, [A, B], ["MulArg0Grad", "MulArg1Grad"], {0, 1, "out"}),
    "div": (ops.div, [A, B], ["DivArg0Grad", "DivArg1Grad"], {0, 1, "out"}),
    "pow": (ops.pow, [A, B], ["PowArg0Grad", "PowArg1Grad"], {0, 1, "out"}),
    "fmod": (ops.fmod, [A, B], ["FmodArg0Grad"], {0, 1, "out"}),
    "maximum": (ops.maximum, [A, B], ["MaxArgGrad", "MaxArgGrad"], {0, 1, "out"}),
    "where": (lambda m, a, b: ops.where(m, a, b), [M, A, B], ["WhereXGrad", "WhereYGrad"], {0}),
    "abs": (ops.abs, [A], ["AbsGrad"], {0}),
    "log": (ops.log, [A], ["LogGrad"], {0}),
    "sin": (ops.sin, [A], ["SinGrad"], {0}),
    "cos": (ops.cos, [A], ["CosGrad"], {0}),
    "swish": (ops.swish, [A], ["SwishGrad"], {0}),
    "gelu": (ops.gelu, [A], ["GeluGrad"], {0}),
    "geluerf": (ops.geluerf, [A], ["GeluErfGrad"], {0}),
    "exp": (ops.exp, [A], ["ExpGrad"], {"out"}),
    "sqrt": (ops.sqrt, [A], ["SqrtGrad"], {"out"}),
    "tanh": (ops.tanh, [A], ["TanhGrad"], {"out"}),
    "relu": (ops.relu, [A], ["ReluGrad"], {"out"}),
    "clip": (lambda a: ops.clip(a, 1, 2), [A], ["ClipGrad"], {"out"}),
    "softmax": (lambda a: ops.softmax(a, 0), [A], ["SoftmaxGrad"], {"out"}),
    "negate": (ops.negate, [A], ["NegGrad"], NOTHING),
    "identity": (ops.identity, [A], ["IdentityGrad"], NOTHING),
    "cast": (lambda a: ops.cast(a, popxl.float16), [A], ["CastGrad"], NOTHING),
    "ceil": (ops.ceil, [A], ["UnaryZeroGrad"], NOTHING),
    "floor": (ops.floor, [A], ["UnaryZeroGrad"], NOTHING),
    "sign": (ops.sign, [A], ["UnaryZeroGrad"], NOTHING),
    "sum": (ops.sum, [A], ["ReduceSumGrad"], NOTHING),
    "mean": (ops.mean, [A], ["ReduceMeanGrad"], NOTHING),
    "prod": (ops.prod, [A], ["ReduceProdGrad"], {0}),
    "l1": (ops.l1, [A], ["ReduceL1Grad"], {0}),
    "sumsquare": (ops.sumsquare, [A], ["ReduceSumSquareGrad"], {0}),
    "logsum": (ops.logsum, [A], ["ReduceLogSumGrad"], {"out"}),
    "l2": (ops.l2, [A], ["ReduceL2Grad"], {0, "out"}),
    "max": (ops.max, [A], ["ReduceMaxGrad"], {0, "out"}),
    "min": (ops.min, [A], ["ReduceMinGrad"], {0, "out"}),
    "logsumexp": (ops.logsumexp, [A], ["ReduceLogSumExpGrad"], {0, "out"}),
    "median": (ops.median, [A], ["ReduceMedianGrad"], {"out1"}),
    "topk": (lambda a: ops.topk(a, 1, 0, True, True)[0], [A], ["TopKGrad"], {"out1"}),
    "cumsum": (ops.cumsum, [A], ["CumSumGrad"], {0}),
    "reshape": (ops.flatten, [A], ["ReshapeGrad"], NOTHING),
    "transpose": (ops.transpose, [A], ["TransposeGrad"], NOTHING),
    "concat": (lambda a, b: ops.concat([a, b]), [A, B], ["ConcatGrad", "ConcatGrad"], NOTHING),
    "split": (lambda a: ops.split(a, 2)[0], [A], ["SplitGrad"], NOTHING),
    "slice": (lambda a: ops.slice(a, 0, 1), [A], ["SliceGrad"], NOTHING),
    "subsample": (lambda a: ops.subsample(a, [2]), [A], ["SubsampleGrad"], NOTHING),
    "gather": (ops.gather, [A, I], ["GatherGrad"], {1}),
    "tied_gather": (ops.tied_gather, [A, I], ["PopartTiedGatherGrad"], {1}),
    "scatter": (ops.scatter, [A, I, B], ["ScatterDataGrad", "ScatterUpdateGrad"], {1}),
    "scatter_reduce": (lambda a, i: ops.scatter_reduce(a, i, "sum", axis_size=2), [A, I], ["ScatterReduceGrad"], {1}),
    "scatter_reduce max": (
        lambda a, i, s: ops.scatter_reduce(a, i, "max", s),
        [A, I, B],
        ["ScatterReduceGrad"],
        {0, 1, 2, "out"},
    ),
    "scatter_reduce none": (lambda a, i, s: ops.scatter_reduce(a, i, "none", s), [A, I, B], ["ScatterReduceGrad"], {0, 1}),
    "dynamic_slice": (lambda a, i: ops.dynamic_slice(a, i, [0, 1], [1, 1], True), [A, I], ["DynamicSlicePadGrad"], {1}),
    "dynamic_update": (
        lambda a, i, u: ops.dynamic_update(a, i, u, [0, 1], [1, 1], True),
        [A, I, X[:1, :1]],
        ["DynamicUpdateToUpdateGrad", "DynamicUpdateUpdaterGrad"],
        {1},
    ),
}  # fmt: skip


@pytest.mark.shows("popxl.transforms.autodiff")
@pytest.mark.parametrize("name", CASES)
def test_one_op_for_each_gradient_and_the_forward_values_that_popart_takes(name):
    function, data, types, consumed = CASES[name]
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(function, *(popxl.variable(d) for d in data))
        output = graph.outputs[0]
        hidden = {t.id for t in graph.tensors if t.name in ("topk_out_indices", "median_indices")}
        floats = [t for t in graph.inputs if t.dtype.is_floating_point]
        floats = floats[:1] if name == "fmod" else floats
        info = autodiff(graph, grads_required=floats)
    taken = {c.fwd_tensor.id for c in info.expected_inputs if c.connection_type == popxl.transforms.ExpectedConnectionType.Fwd}
    names = {t.id: i for i, t in enumerate(graph.inputs)} | {output.id: "out"} | dict.fromkeys(hidden, "out1")
    assert {names[t] for t in taken} == consumed
    made = op_types(info.graph)
    assert sorted(t for t in made if t != "Sum") == sorted(types)
    assert made.count("Sum") == len(floats)


@pytest.mark.shows("popxl.transforms.autodiff")
@pytest.mark.parametrize("name", ["equal", "greater", "isfinite", "slice_", "fp8", "scaled_add", "relu_", "isnan", "argmax"])
def test_ops_without_a_gradient_refuse_or_give_none(name):
    functions = {
        "equal": lambda t: ops.cast(ops.equal(t, t), popxl.float32),
        "greater": lambda t: ops.cast(ops.greater(t, t), popxl.float32),
        "isfinite": lambda t: ops.cast(ops.isfinite(t), popxl.float32),
        "slice_": lambda t: ops.slice_(t, 0, 1),
        "fp8": lambda t: ops.pow2scale_cast_to_fp8(t, popxl.constant(0), popxl.float8_143),
        "scaled_add": lambda t: ops.scaled_add(t, t),
        "relu_": ops.relu_,
        "isnan": lambda t: ops.cast(ops.isnan(t), popxl.float32),
        "argmax": lambda t: ops.cast(ops.argmax(t), popxl.float32),
    }
    ir = popxl.Ir()
    with ir.main_graph:
        graph = ir.create_graph(functions[name], popxl.variable(X))
        with pytest.raises(popart.popart_exception):
            autodiff(graph)
