"""Every operator of ONNX that can be imported, at every version at which the standard changed it, against the
reference evaluator of onnx, or against NumPy where that has the operator only as a later version means it."""

import numpy
import onnx
import pytest

import ipu_core
from onnx_graph_cases import GRAPH_CASES
from onnx_models import CHANGES, Case, Stated, f, ints, make_model, normal, reference, s, uniform

X = normal(2, 3, 4)
POSITIVE = uniform(0.1, 3, 2, 3)
INSIDE = uniform(-0.9, 0.9, 2, 3)
IMAGE = normal(2, 4, 7, 6)
FILTER = normal(6, 4, 3, 2, seed=1)
LABELS = numpy.array([2, 0, 3, 1], numpy.int64)
SCORES = normal(4, 5)
BOOLEANS = numpy.array([[True, False], [True, True]])
OTHER = numpy.array([[False, False], [True, False]])


def sigmoid(x):
    return 1 / (1 + numpy.exp(-x))


def flat_softmax(x, axis, logarithm=False):
    lines = x.reshape(int(numpy.prod(x.shape[:axis])), -1)
    shifted = lines - lines.max(1, keepdims=True)
    result = shifted - numpy.log(numpy.exp(shifted).sum(1, keepdims=True))
    return (result if logarithm else numpy.exp(result)).reshape(x.shape)


def batch_statistics(x, scale, bias, mean, variance, momentum=0.9, eps=1e-5):
    dims = (0, *range(2, x.ndim))
    m, v = x.mean(dims), x.var(dims)
    shape = (1, -1) + (1,) * (x.ndim - 2)
    y = (x - m.reshape(shape)) / numpy.sqrt(v.reshape(shape) + eps) * scale.reshape(shape) + bias.reshape(shape)
    return [y, mean * momentum + m * (1 - momentum), variance * momentum + v * (1 - momentum)]


def by_state(x, scale, bias, mean, variance, eps=1e-5):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    slope = scale / numpy.sqrt(variance + eps)
    return x * slope.reshape(shape) + (bias - mean * slope).reshape(shape)


CHANNELS = [uniform(0.5, 1.5, 4), normal(4), normal(4, seed=2), uniform(0.5, 2, 4)]

SEQUENCE = normal(5, 3, 4)


def layer_weights(gates, directions=1, hidden=6, state=False):
    """W, R and B, then no lengths and the initial states."""
    rows = gates * hidden
    weights = [normal(directions, rows, n, scale=0.4, seed=i) for i, n in enumerate((4, hidden))]
    states = [None] + [normal(directions, 3, hidden, seed=i) for i in range(2 if gates == 4 else 1)]
    return [*weights, normal(directions, 2 * rows, seed=3), *(states if state else [])]


def both_ways(kind, **attributes):
    """A bidirectional node by two of the reference, the second on the sequence turned round."""

    def expect(x, w, r, b, *states):
        names = ["x", "w", "r", "b", "", *(f"s{i}" for i in range(len(states)))]
        results = ["y", "h", "c"] if kind == "LSTM" else ["y", "h"]
        found = []
        for d, sequence in enumerate((x, x[::-1].copy())):
            values = [sequence, *(array[d : d + 1] for array in (w, r, b, *states))]
            inputs = dict(zip([name for name in names if name], values))
            y, *last = reference(
                make_model([(kind, names[: 4 + bool(states) + len(states)], results, attributes)], inputs, results, 14),
                inputs,
            )
            found.append([y if d == 0 else y[::-1], *last])
        return [numpy.concatenate(pair, axis=1 if i == 0 else 0) for i, pair in enumerate(zip(*found))]

    return expect


RECURRENT = [
    case
    for kind, gates, options in (("LSTM", 4, {}), ("GRU", 3, {"linear_before_reset": 1}), ("RNN", 1, {}))
    for case in (
        Case(kind, SEQUENCE, *layer_weights(gates), since=6, results=2, hidden_size=6, rtol=1e-5, **options),
        Case(
            kind, SEQUENCE, *layer_weights(gates, state=True), since=7, results=2, hidden_size=6, rtol=1e-5, **options
        ),
        Case(kind, SEQUENCE, *layer_weights(gates)[:2], since=7, hidden_size=6, rtol=1e-5, **options),
        Case(
            kind,
            SEQUENCE,
            *layer_weights(gates, directions=2, state=True),
            since=7,
            results=3 if kind == "LSTM" else 2,
            direction="bidirectional",
            hidden_size=6,
            rtol=1e-5,
            expect=both_ways(kind, hidden_size=6, **options),
            **options,
        ),
    )
]

CASES = [
    *RECURRENT,
    *GRAPH_CASES,
    *(
        Case(kind, X)
        for kind in [
            "Exp",
            "Tanh",
            "Sigmoid",
            "Relu",
            "Neg",
            "Abs",
            "Floor",
            "Ceil",
            "Erf",
            "Sin",
            "Cos",
            "Sinh",
            "Cosh",
            "Asinh",
            "Sign",
        ]
    ),
    *(
        Case(kind, X)
        for kind in [
            "Elu",
            "Selu",
            "Softplus",
            "Softsign",
            "HardSigmoid",
            "HardSwish",
            "Mish",
            "ThresholdedRelu",
            "Atan",
        ]
    ),
    *(Case(kind, POSITIVE) for kind in ("Log", "Sqrt", "Reciprocal")),
    *(Case(kind, INSIDE) for kind in ("Asin", "Acos", "Atanh", "Tan")),
    Case("Acosh", POSITIVE + 1),
    Case("Round", numpy.float32([-2.5, -1.5, -0.4, 0.5, 1.5, 2.5, 3.7])),
    Case("Elu", X, alpha=0.5),
    Case("LeakyRelu", X),
    Case("LeakyRelu", X, alpha=0.3),
    Case("ThresholdedRelu", X, alpha=0.3),
    Case("HardSigmoid", X, alpha=0.4, beta=0.3),
    Case("Selu", X, alpha=1.5, gamma=0.7),
    Case("PRelu", X, normal(3, 1)),
    Case("Gelu", X, rtol=1e-5),
    Case("Gelu", X, approximate="tanh", rtol=1e-5),
    Case("IsNaN", numpy.float32([1, numpy.nan, 2])),
    Case("Not", BOOLEANS),
    *(Case(kind, BOOLEANS, OTHER) for kind in ("And", "Or", "Xor")),
    *(Case(kind, X, normal(3, 1, seed=3), since=7) for kind in ("Add", "Sub", "Mul", "Div")),
    *(Case(kind, X, X, until=6, expect=fn) for kind, fn in (("Add", numpy.add), ("Sub", numpy.subtract))),
    Case("Mul", X, normal(3, 4), until=6, broadcast=1, expect=numpy.multiply),
    Case("Div", X, POSITIVE, until=6, broadcast=1, axis=0, expect=lambda a, b: a / b[:, :, None]),
    Case(
        "Div", numpy.int32([7, -7, 9]), numpy.int32([2, 2, -4]), since=7, expect=lambda a, b: numpy.int32([3, -3, -2])
    ),
    Case("Pow", POSITIVE, normal(3), since=7),
    Case("Pow", POSITIVE, numpy.int32([1, 2, 3]), since=12),
    Case("Mod", numpy.int32([7, -7, 9]), numpy.int32([3, 3, -4])),
    Case("Mod", numpy.float32([7, -7.5, 9]), numpy.float32([3, 3, -4]), fmod=1),
    *(Case(kind, numpy.int32([1, 2, 3]), numpy.int32([2, 2, 2]), since=9) for kind in ("Less", "Greater", "Equal")),
    *(Case(kind, X, X[::-1].copy()) for kind in ("LessOrEqual", "GreaterOrEqual")),
    *(Case(kind, X, X[::-1].copy(), until=8) for kind in ("Less", "Greater")),
    Case("Equal", numpy.int32([1, 2, 3]), numpy.int32([2, 2, 2]), until=8),
    Case("Where", BOOLEANS, normal(2, 2), normal(1, 2, seed=4)),
    *(Case(kind, X, normal(3, 1, seed=5), normal(4), since=8) for kind in ("Sum", "Mean", "Max", "Min")),
    *(Case(kind, X, X[::-1].copy(), until=7) for kind in ("Sum", "Mean", "Max", "Min")),
    *(Case(kind, X) for kind in ("Sum", "Max")),
    Case("Clip", X, until=10, min=-0.5, max=0.7, expect=lambda x: numpy.clip(x, -0.5, 0.7)),
    Case("Clip", X, until=10, max=0.7, expect=lambda x: numpy.minimum(x, numpy.float32(0.7))),
    Case("Clip", X, f(-0.5), f(0.7), since=11),
    Case("Clip", X, None, f(0.7), since=11),
    Case("Clip", X, numpy.float32(-0.5), f(0.7), since=11),
    Case("Clip", X, f(-0.5), numpy.float32(0.7), since=11),
    *(
        Case("Clip", ints(-5, 7, 9), low, high, since=12, expect=lambda x, a=low, b=high: x.clip(a.array, b.array))
        for low, high in (
            (Stated(numpy.int64(-(2**63))), Stated(numpy.int64(8))),
            (Stated(numpy.int64(0)), Stated(numpy.int64(2**63 - 1))),
        )
    ),
    Case("Identity", X),
    *(Case("Cast", X * 3, to=to) for to in (onnx.TensorProto.INT32, onnx.TensorProto.FLOAT16, onnx.TensorProto.BOOL)),
    Case("Cast", X * 3, to=onnx.TensorProto.INT64),
    Case("Cast", BOOLEANS, to=onnx.TensorProto.FLOAT),
    # shapes
    Case("Reshape", X, s(4, -1)),
    Case("Reshape", X, s(0, -1, 2)),
    Case("Reshape", numpy.zeros((0, 3), numpy.float32), s(3, 0), since=14, allowzero=1),
    *(Case("Flatten", X, axis=axis) for axis in (0, 1, 2, 3)),
    Case("Flatten", X, axis=-1, since=11),
    Case("Squeeze", X[:, :1], until=12, axes=[1], expect=lambda x: x[:, 0]),
    Case("Squeeze", X[:1, :1], until=12, expect=lambda x: x[0, 0]),
    Case("Squeeze", X[:, :1], s(-2), since=13),
    Case("Squeeze", X[:1, :1], since=13),
    Case("Unsqueeze", X, until=12, axes=[0, 4], expect=lambda x: x[None, :, :, :, None]),
    Case("Unsqueeze", X, s(0, -1), since=13),
    Case("Transpose", X),
    Case("Transpose", X, perm=[1, 2, 0]),
    Case("Concat", X, X[:, :1], X, axis=1),
    Case("Concat", X, X, axis=-1, since=11),
    Case("Split", X, until=12, results=2, axis=1, split=[1, 2], expect=lambda x: [x[:, :1], x[:, 1:]]),
    Case("Split", X, until=12, results=2, axis=2, expect=lambda x: [x[:, :, :2], x[:, :, 2:]]),
    Case("Split", X, s(1, 2), since=13, results=2, axis=-2),
    Case("Split", X, since=13, until=17, results=2, axis=2),
    Case("Split", X, since=18, results=2, axis=1, num_outputs=2),
    Case("Slice", X, until=9, starts=[1, -3], ends=[2**62, -1], axes=[0, 2], expect=lambda x: x[1:, :, -3:-1]),
    Case("Slice", X, until=9, starts=[0, 1], ends=[1, 3], expect=lambda x: x[:1, 1:3]),
    Case("Slice", X, s(1, -3), s(2**62, -1), s(0, 2), since=10),
    Case("Slice", X, s(0, 1), s(2, 3), since=10),
    Case("Slice", X, s(0, 3), s(3, 0), s(1, 2), s(2, -2), since=10),
    Case("Slice", X, s(-1), s(-(2**62)), s(2), s(-1), since=10),
    Case("Slice", X, s(-1), s(0), s(2), s(-(2**62)), since=10),
    *(
        Case("Pad", X, until=10, pads=[0, 1, 2, 1, 0, 1], mode=mode, value=value, expect=expect)
        for mode, value, expect in (
            ("constant", 1.5, lambda x: numpy.pad(x, ((0, 1), (1, 0), (2, 1)), constant_values=1.5)),
            ("reflect", 0.0, lambda x: numpy.pad(x, ((0, 1), (1, 0), (2, 1)), mode="reflect")),
            ("edge", 0.0, lambda x: numpy.pad(x, ((0, 1), (1, 0), (2, 1)), mode="edge")),
        )
    ),
    Case("Pad", X, s(0, 1, 2, 1, 0, 1), f(1.5), since=11),
    Case("Pad", X, s(0, 1, 2, 1, 0, 1), since=11, mode="edge"),
    Case(
        "Pad",
        X,
        s(0, -1, 2, 0, 0, -1),
        f(2),
        since=11,
        expect=lambda x: numpy.pad(x[:, 1:, :-1], ((0, 0), (0, 0), (2, 0)), constant_values=2),
    ),
    Case("Pad", X, s(1, 2), f(0.5), s(-1), since=18),
    Case("Pad", X, s(0, 0, 2, 0, 0, 1), since=19, mode="wrap"),
    Case("Expand", normal(3, 1), s(2, 1, 4)),
    Case("Expand", X, s(1, 1)),
    Case("Tile", X, s(2, 1, 3)),
    Case("Gather", X, numpy.int64([[0, 2], [1, 1]]), axis=1),
    Case("Gather", X, numpy.int64([-1, 0]), axis=2, since=11),
    Case("Gather", X, numpy.int64(1)),
    Case("GatherElements", X, numpy.int64([[[0, 1, 0, 1]] * 3]), axis=0),
    Case("Shape", X),
    Case("Shape", X, since=15, start=1, end=-1),
    Case("Size", X),
    Case("Constant", value=onnx.numpy_helper.from_array(X)),
    *(
        Case("Constant", since=12, **{name: value})
        for name, value in (
            ("value_int", 5),
            ("value_float", 0.5),
            ("value_ints", [1, 2]),
            ("value_floats", [0.5, 2.0]),
        )
    ),
    Case("ConstantOfShape", s(2, 3)),
    Case("ConstantOfShape", s(2, 3), value=onnx.numpy_helper.from_array(numpy.int64([7]))),
    Case("ConstantOfShape", s(40, 40), value=onnx.numpy_helper.from_array(numpy.float32([7.5]))),
    # reductions
    *(
        Case(kind, X + 2, until=12 if kind == "ReduceSum" else 17, axes=[0, 2], rtol=1e-5, keepdims=keep)
        for kind in [
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceSumSquare",
            "ReduceL1",
            "ReduceL2",
        ]
        for keep in (0, 1)
    ),
    *(Case(kind, POSITIVE, until=17, axes=[1], rtol=1e-5, keepdims=0) for kind in ("ReduceLogSum", "ReduceLogSumExp")),
    *(
        Case(kind, POSITIVE + 1, *axes, since=13 if kind == "ReduceSum" else 18, rtol=1e-5, **options)
        for kind in [
            "ReduceSum",
            "ReduceMean",
            "ReduceMax",
            "ReduceMin",
            "ReduceProd",
            "ReduceSumSquare",
            "ReduceL1",
            "ReduceL2",
        ]
        + ["ReduceLogSum", "ReduceLogSumExp"]
        for axes, options in (([s(-1)], {}), ([s(0, 1)], {"keepdims": 0}), ([], {"keepdims": 0}))
    ),
    Case("ReduceSum", X, since=13, noop_with_empty_axes=1),
    *(Case(kind, X, axis=1, keepdims=keep) for kind in ("ArgMax", "ArgMin") for keep in (0, 1)),
    # products, windows
    Case("MatMul", X, normal(4, 5), rtol=1e-5),
    Case("MatMul", X, normal(2, 4, 3), rtol=1e-5),
    Case("MatMul", X, normal(4), rtol=1e-5),
    Case("Gemm", normal(3, 4), normal(5, 4), normal(5), since=7, transB=1, rtol=1e-5),
    Case("Gemm", normal(4, 3), normal(4, 5), normal(3, 1), since=7, transA=1, alpha=0.5, beta=2.0, rtol=1e-5),
    Case("Gemm", normal(3, 4), normal(5, 4), normal(5), until=6, transB=1, broadcast=1, rtol=1e-5),
    Case(
        "Gemm",
        normal(3, 4),
        normal(4, 5),
        normal(3, 5),
        until=6,
        beta=2.0,
        rtol=1e-5,
        expect=lambda a, b, c: a @ b + 2 * c,
    ),
    Case("Gemm", normal(3, 4), normal(4, 5), since=11, alpha=2.0, rtol=1e-5),
    Case("Conv", IMAGE, FILTER, normal(6), pads=[1, 0, 2, 1], strides=[2, 1], rtol=1e-5),
    Case("Conv", IMAGE, FILTER[:, :2], group=2, dilations=[2, 1], kernel_shape=[3, 2], rtol=1e-5),
    Case("Conv", IMAGE, FILTER, auto_pad="SAME_UPPER", strides=[2, 2], rtol=1e-5),
    Case("Conv", IMAGE, FILTER, auto_pad="SAME_LOWER", rtol=1e-5),
    Case("Conv", IMAGE, FILTER, auto_pad="VALID", rtol=1e-5),
    Case("Conv", normal(2, 3, 8), normal(4, 3, 3), pads=[1, 1], rtol=1e-5),
    Case("Conv", normal(1, 2, 4, 5, 4), normal(3, 2, 2, 3, 2), normal(3), rtol=1e-5),
    Case("MaxPool", IMAGE, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    Case("MaxPool", IMAGE, since=10, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1, dilations=[2, 1]),
    Case("AveragePool", IMAGE, since=7, kernel_shape=[3, 2], strides=[2, 2], pads=[1, 0, 1, 1]),
    # The reference counts the padding here too, which the text of the standard excludes.
    Case(
        "AveragePool",
        numpy.ones((1, 1, 3, 3), numpy.float32),
        until=6,
        kernel_shape=[2, 2],
        pads=[1, 1, 1, 1],
        expect=lambda x: numpy.ones((1, 1, 4, 4), numpy.float32),
    ),
    Case("AveragePool", IMAGE, since=7, kernel_shape=[3, 2], pads=[1, 0, 1, 1], count_include_pad=1),
    Case("AveragePool", IMAGE, since=10, kernel_shape=[2, 2], strides=[2, 2], ceil_mode=1),
    Case("GlobalAveragePool", IMAGE),
    Case("GlobalMaxPool", IMAGE),
    # normalisations, classes
    Case("BatchNormalization", IMAGE, *CHANNELS, expect=by_state, until=6, is_test=1, rtol=1e-5),
    Case("BatchNormalization", IMAGE, *CHANNELS, expect=by_state, since=7, rtol=1e-5),
    Case(
        "BatchNormalization",
        IMAGE,
        *map(Stated, CHANNELS),
        since=14,
        training_mode=1,
        results=3,
        rtol=1e-5,
        expect=lambda x: batch_statistics(x, *CHANNELS),
    ),
    Case(
        "BatchNormalization",
        IMAGE,
        *map(Stated, CHANNELS),
        until=13,
        results=3,
        rtol=1e-5,
        expect=lambda x: batch_statistics(x, *CHANNELS),
    ),
    Case(
        "BatchNormalization",
        IMAGE,
        *map(Stated, CHANNELS),
        since=9,
        until=13,
        results=3,
        momentum=0.5,
        epsilon=0.1,
        rtol=1e-5,
        expect=lambda x: batch_statistics(x, *CHANNELS, 0.5, 0.1),
    ),
    Case("LayerNormalization", X, normal(4), normal(4, seed=1), rtol=1e-5),
    Case("LayerNormalization", X, normal(3, 4), axis=1, epsilon=0.1, rtol=1e-5),
    Case("LayerNormalization", X, normal(4), normal(4, seed=1), results=3, rtol=1e-5),
    Case("InstanceNormalization", IMAGE, *CHANNELS[:2], rtol=1e-5),
    Case("GroupNormalization", IMAGE, *CHANNELS[:2], num_groups=2, rtol=1e-5),
    *(
        Case("Resize", IMAGE, None, *given, **options, since=11, rtol=1e-5)
        for given in (
            [f((1, 1, 2, 1.5))],
            [f((1, 1, 0.55, 2))],
            [None, s(2, 4, 9, 4)],
        )
        for options in (
            {"mode": "nearest", "coordinate_transformation_mode": "asymmetric", "nearest_mode": "floor"},
            {"mode": "nearest", "nearest_mode": "round_prefer_ceil"},
            {"mode": "linear"},
            {"mode": "linear", "coordinate_transformation_mode": "align_corners"},
            {"mode": "cubic"},
        )
        if "align_corners" not in options.values() or given[0] is None
    ),
    *(
        Case(kind, X, until=12, **options, expect=lambda x, a=axis, lg=kind == "LogSoftmax": flat_softmax(x, a, lg))
        for kind in ("Softmax", "LogSoftmax")
        for axis, options in ((1, {}), (0, {"axis": 0}), (2, {"axis": 2}))
    ),
    *(Case(kind, X, since=13, **options) for kind in ("Softmax", "LogSoftmax") for options in ({}, {"axis": 1})),
    *(Case("NegativeLogLikelihoodLoss", SCORES, LABELS, reduction=word) for word in ("mean", "sum", "none")),
    Case("NegativeLogLikelihoodLoss", SCORES, LABELS, ignore_index=3),
    Case("NegativeLogLikelihoodLoss", normal(2, 3, 4), numpy.int64([[0, 1, 2, 0], [2, 2, 0, 1]])),
    *(Case("SoftmaxCrossEntropyLoss", SCORES, LABELS, reduction=word, rtol=1e-5) for word in ("mean", "sum", "none")),
    Case("SoftmaxCrossEntropyLoss", SCORES, LABELS, results=2, rtol=1e-5),
    Case("Dropout", X, until=11, ratio=0.4, expect=lambda x: x),
    Case("Dropout", X, f(0.4), since=12, expect=lambda x: x),
    Case("Dropout", X, f(0.4), since=12, results=2, expect=lambda x: [x, numpy.ones_like(x, bool)]),
]
TESTS = [
    pytest.param(case, version, id=f"{case.kind}-{version}-{number}")
    for number, case in enumerate(CASES)
    for version in case.versions
]


@pytest.mark.parametrize("case, version", TESTS)
def test_the_operator_computes_what_its_version_means(case, version):
    case.run(version)


def test_every_version_that_is_claimed_is_tested():
    tested = {}
    for case in CASES:
        tested.setdefault(case.kind, set()).update(case.versions)
    missing = []
    for kind, first, last in ipu_core.importers():
        if last <= 11:
            continue  # of models of PopART: tests/popart/operators_onnx has every version of every one
        wanted = {version for version in CHANGES.get(kind, ()) if first < version <= last} | {first, last}
        missing += [(kind, version) for version in sorted(wanted - tested.get(kind, set()))]
    assert missing == []
    assert len(tested) >= 90
