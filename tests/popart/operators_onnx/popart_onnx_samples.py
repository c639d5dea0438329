"""One case or more for every operator of the table, with what it means in NumPy."""

import math

import numpy as np
import onnx
import onnx.helper as helper
import torch

from popart_onnx_cases import Case, Stated, ints, normal, uniform

X = normal(2, 3, 4)
POSITIVE = uniform(0.3, 2, 2, 3)
INSIDE = uniform(-0.9, 0.9, 2, 3)
SMALL = normal(2, 3)
IMAGE = normal(1, 2, 5, 4)
TRUTH = np.array([[True, False, True], [True, True, False]])
OTHER = np.array([[False, False, True], [True, False, False]])
erf = np.vectorize(math.erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


def t(function):
    """`function` of torch on arrays of NumPy, in float64."""

    def call(*arrays):
        results = function(*map(torch.from_numpy, arrays))
        return [r.numpy() for r in results] if isinstance(results, (list, tuple)) else results.numpy()

    return call


def away(x):
    return np.sign(x) * np.floor(np.abs(x) + 0.5)


def flat_softmax(x, axis, logarithm=False):
    lines = x.reshape(int(np.prod(x.shape[:axis])), -1)
    lines = lines - lines.max(1, keepdims=True)
    result = lines - np.log(np.exp(lines).sum(1, keepdims=True))
    return (result if logarithm else np.exp(result)).reshape(x.shape)


UNARY = [
    # type, x, function, first opset, attributes
    ("Abs", SMALL, np.abs, 6, {}),
    ("Acos", INSIDE, np.arccos, 7, {}),
    ("Acosh", POSITIVE + 1, np.arccosh, 9, {}),
    ("Asin", INSIDE, np.arcsin, 7, {}),
    ("Asinh", SMALL, np.arcsinh, 9, {}),
    ("Atan", SMALL, np.arctan, 7, {}),
    ("Atanh", INSIDE, np.arctanh, 9, {}),
    ("Ceil", SMALL, np.ceil, 6, {}),
    ("Cos", SMALL, np.cos, 7, {}),
    ("Cosh", SMALL, np.cosh, 9, {}),
    ("Elu", SMALL, lambda x: np.where(x > 0, x, 0.5 * (np.exp(x) - 1)), 6, {"alpha": 0.5}),
    ("Erf", SMALL, erf, 9, {}),
    ("Exp", SMALL, np.exp, 6, {}),
    ("Floor", SMALL, np.floor, 6, {}),
    ("HardSigmoid", SMALL, lambda x: np.clip(0.3 * x + 0.4, 0, 1), 6, {"alpha": 0.3, "beta": 0.4}),
    ("Identity", SMALL, lambda x: x, 6, {}),
    ("LeakyRelu", SMALL, lambda x: np.where(x > 0, x, 0.01 * x), 6, {}),
    ("Log", POSITIVE, np.log, 6, {}),
    ("Neg", SMALL, np.negative, 6, {}),
    ("Reciprocal", POSITIVE, np.reciprocal, 6, {}),
    ("Relu", SMALL, lambda x: np.maximum(x, 0), 6, {}),
    ("Round", np.float32([-2.5, -0.5, 0.4, 0.49999997, 0.5, 1.5, 2.5, 3.7]), away, 11, {}),
    ("Selu", SMALL, lambda x: 0.7 * np.where(x > 0, x, 1.5 * (np.exp(x) - 1)), 6, {"alpha": 1.5, "gamma": 0.7}),
    ("Shrink", SMALL, lambda x: np.where(np.abs(x) <= 0.3, 0, x - 0.2 * np.sign(x)), 9, {"lambd": 0.3, "bias": 0.2}),
    ("Sigmoid", SMALL, sigmoid, 6, {}),
    ("Sign", SMALL, np.sign, 9, {}),
    ("Sin", SMALL, np.sin, 7, {}),
    ("Sinh", SMALL, np.sinh, 9, {}),
    ("Softplus", SMALL, lambda x: np.log1p(np.exp(x)), 6, {}),
    ("Softsign", SMALL, lambda x: x / (1 + np.abs(x)), 6, {}),
    ("Sqrt", POSITIVE, np.sqrt, 6, {}),
    ("Tan", INSIDE, np.tan, 7, {}),
    ("Tanh", SMALL, np.tanh, 6, {}),
    ("ThresholdedRelu", SMALL, lambda x: np.where(x > 0.3, x, 0), 10, {"alpha": 0.3}),
]
_JUMPS = ("Round",)  # the sample has its halves; differences are taken elsewhere
ELEMENTWISE = [
    *(
        Case(kind, [x], function, (first, 11), () if kind in _JUMPS else (0,), f16=True, **attributes)
        for kind, x, function, first, attributes in UNARY
    ),
    Case("Round", [SMALL], away, (11, 11), (0,)),
    Case("Abs", [np.int32([-3, 2])], np.abs),
    Case("Identity", [TRUTH], lambda x: x),
    Case("Clip", [SMALL], lambda x: np.clip(x, -0.5, 0.4), (6, 10), (0,), f16=True, min=-0.5, max=0.4),
    Case(
        "Clip",
        [SMALL, Stated(np.float32(-0.5)), Stated(np.float32(0.4))],
        lambda x, a, b: np.clip(x, a, b),
        (11, 11),
        (0,),
    ),
    Case("Clip", [SMALL, None, Stated(np.float32(0.4))], np.minimum, (11, 11)),
    Case("IsInf", [np.float32([np.inf, -np.inf, 1, np.nan])], np.isinf, (10, 11)),
    Case("IsInf", [np.float32([np.inf, -np.inf, 1])], np.isneginf, (10, 11), detect_positive=0),
    Case("IsNaN", [np.float32([np.inf, np.nan, 1])], np.isnan, (9, 11), f16=True),
    Case("Not", [TRUTH], np.logical_not),
    *(
        Case(kind, [SMALL, POSITIVE + 0.5], function, (6, 11), (0, 1), f16=True)
        for kind, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide))
    ),
    *(
        Case(kind, [X, POSITIVE[0]], lambda a, b, f=function: f(a, b[:, None]), (6, 6), (0, 1), axis=1, broadcast=1)
        for kind, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply), ("Div", np.divide))
    ),
    *(
        Case(kind, [np.int32([7, -4]), np.int32([2, 3])], function)
        for kind, function in (("Add", np.add), ("Sub", np.subtract), ("Mul", np.multiply))
    ),
    Case("Pow", [POSITIVE, SMALL], np.power, (6, 11), (0, 1), f16=True, rtol=2e-5),
    Case(
        "Pow",
        [uniform(0.3, 2, 2, 3, 4), SMALL],
        lambda a, b: a ** b[..., None],
        (6, 6),
        (0, 1),
        axis=0,
        broadcast=1,
        rtol=2e-5,
    ),
    *(
        Case(kind, [np.array([1, 2, 3], dtype), np.array([2, 2, 2], dtype)], function)
        for dtype in (np.int32, np.float32)
        for kind, function in (("Equal", np.equal), ("Greater", np.greater), ("Less", np.less))
    ),
    Case(
        "Equal",
        [np.int32([[1, 2], [3, 3]]), np.int32([1, 3])],
        lambda a, b: a == b[:, None],
        (6, 6),
        axis=0,
        broadcast=1,
    ),
    *(Case(kind, [TRUTH, OTHER], function) for kind, function in (("And", np.logical_and), ("Or", np.logical_or))),
    Case("Mod", [np.int32([7, -7, 9]), np.int32([3, 3, -4])], np.mod, (10, 11)),
    Case("Mod", [np.float32([7, -7.5, 9]), np.float32([3, 3, -4])], np.fmod, (10, 11), (0,), fmod=1),
    *(
        Case(kind, [SMALL, POSITIVE, INSIDE], function, (6, 11), (0, 1, 2), f16=True)
        for kind, function in (
            ("Max", lambda *x: np.max(x, 0)),
            ("Min", lambda *x: np.min(x, 0)),
            ("Mean", lambda *x: np.mean(x, 0)),
            ("Sum", lambda *x: np.sum(x, 0)),
        )
    ),
    Case("Max", [X, normal(4, seed=4)], np.maximum, (8, 11), (0, 1)),
    Case("Sum", [SMALL], lambda x: x),
    Case("Min", [np.int32([3, -4]), np.int32([2, 5])], np.minimum),
    Case("PRelu", [X, normal(3, 1)], lambda x, s: np.where(x > 0, x, s * x), (9, 11), (0, 1), f16=True),
    Case("Where", [TRUTH, SMALL, INSIDE[:1]], np.where, (9, 11), (1, 2), f16=True),
]

_SUMS = {
    "L1": lambda x, **k: np.abs(x).sum(**k),
    "L2": lambda x, **k: np.sqrt((x * x).sum(**k)),
    "LogSum": lambda x, **k: np.log(x.sum(**k)),
    "LogSumExp": lambda x, **k: np.log(np.exp(x).sum(**k)),
    "Max": np.max,
    "Mean": np.mean,
    "Min": np.min,
    "Prod": np.prod,
    "Sum": np.sum,
    "SumSquare": lambda x, **k: (x * x).sum(**k),
}
DATA = uniform(0.5, 2, 2, 3, 2)


def topk(k, largest=True):
    def expect(x, *_):
        order = np.argsort(-x if largest else x, axis=1, kind="stable")[:, :k]
        return [np.take_along_axis(x, order, 1), order]

    return expect


SELECTION = [
    *(
        case
        for word, function in _SUMS.items()
        for case in (
            Case(
                "Reduce" + word,
                [DATA],
                lambda x, f=function: f(x, axis=(0, 2), keepdims=True),
                trained=(0,),
                f16=True,
                axes=[0, 2],
            ),
            Case("Reduce" + word, [DATA], lambda x, f=function: f(x, axis=1), axes=[1], keepdims=0),
            Case("Reduce" + word, [DATA], lambda x, f=function: f(x, axis=None, keepdims=True)),
        )
    ),
    *(
        Case("Reduce" + word, [DATA], lambda x: x, trained=(0,), axes=[])
        for word in ("Sum", "Mean", "Max", "Prod", "L1", "LogSumExp")
    ),
    Case("ReduceSumSquare", [DATA], np.square, axes=[]),
    Case("ReduceSum", [np.int32([[1, 2], [3, 4]])], lambda x: x.sum(0), axes=[0], keepdims=0),
    Case("ReduceSum", [DATA], lambda x: x.sum(2), (11, 11), axes=[-1], keepdims=0),
    Case("ArgMax", [SMALL], lambda x: x.argmax(1)[:, None], axis=1, f16=True),
    Case("ArgMin", [SMALL], lambda x: x.argmin(0), keepdims=0),
    Case("TopK", [normal(2, 5)], topk(3), (6, 9), (0,), 2, k=3, axis=1),
    Case("TopK", [normal(2, 5), ints(2)], topk(2), (10, 11), (0,), 2, f16=True),
    Case("TopK", [normal(2, 5), ints(2)], topk(2, False), (11, 11), (), 2, largest=0, axis=1),
    Case("CumSum", [SMALL, Stated(np.int32(1))], lambda x, _: x.cumsum(1), (11, 11), (0,), f16=True),
    Case("CumSum", [SMALL, ints(-2)], lambda x, _: x[::-1].cumsum(0)[::-1], (11, 11), (0,), reverse=1),
    Case("CumSum", [SMALL, ints(1)], lambda x, _: x.cumsum(1) - x, (11, 11), (0,), exclusive=1),
    Case("CumSum", [SMALL, ints(1)], lambda x, _: x[:, ::-1].cumsum(1)[:, ::-1] - x, (11, 11), exclusive=1, reverse=1),
]


def scatter(x, index, updates, axis):
    y = x.copy()
    np.put_along_axis(y, index, updates, axis)
    return y


def one_hot(index, depth, values):
    return np.where(index[..., None] == np.arange(depth[0]), values[1], values[0])


def depth_to_space(x, mode):
    n, c, h, w = x.shape
    if mode == "DCR":
        parts = x.reshape(n, 2, 2, c // 4, h, w).transpose(0, 3, 4, 1, 5, 2)
    else:
        parts = x.reshape(n, c // 4, 2, 2, h, w).transpose(0, 1, 4, 2, 5, 3)
    return parts.reshape(n, c // 4, 2 * h, 2 * w)


def space_to_depth(x):
    n, c, h, w = x.shape
    return x.reshape(n, c, h // 2, 2, w // 2, 2).transpose(0, 3, 5, 1, 2, 4).reshape(n, 4 * c, h // 2, w // 2)


def pads(*pairs, **options):
    return lambda x, *_: np.pad(x, pairs, **options)


MOVES = [
    Case("Reshape", [X, ints(0, -1)], lambda x, _: x.reshape(2, -1), trained=(0,), f16=True),
    *(
        Case("Flatten", [X], lambda x, a=a: x.reshape(int(np.prod(x.shape[:a])), -1), trained=(0,), axis=a)
        for a in (0, 1, 3)
    ),
    Case("Flatten", [X], lambda x: x.reshape(6, 4), (11, 11), axis=-1),
    Case("Squeeze", [X[:, :1]], lambda x: x[:, 0], trained=(0,), axes=[1]),
    Case("Squeeze", [X[:1, :1]], lambda x: x[0, 0]),
    Case("Unsqueeze", [SMALL], lambda x: x[None, :, :, None], trained=(0,), axes=[0, 3]),
    Case("Transpose", [X], lambda x: x.T, trained=(0,)),
    Case("Transpose", [X], lambda x: x.transpose(1, 2, 0), perm=[1, 2, 0]),
    Case("Concat", [SMALL, INSIDE], lambda a, b: np.concatenate([a, b], 1), trained=(0, 1), axis=1),
    Case("Split", [X], lambda x: [x[..., :2], x[..., 2:]], (6, 11), (0,), 2, axis=2),
    Case("Split", [X], lambda x: [x[:, :1], x[:, 1:]], (6, 11), (), 2, axis=1, split=[1, 2]),
    Case("Slice", [X], lambda x: x[1:, :, -3:-1], (6, 9), (0,), starts=[1, -3], ends=[1000, -1], axes=[0, 2]),
    Case("Slice", [X, ints(1, -3), ints(1000, -1), ints(0, 2)], lambda x, *_: x[1:, :, -3:-1], (10, 11), (0,)),
    Case(
        "Slice",
        [X, ints(3, -1), ints(0, -1000), ints(2, 1), ints(-2, -1)],
        lambda x, *_: x[:, ::-1, 3:0:-2],
        (10, 11),
        (0,),
    ),
    Case("Pad", [SMALL], pads((1, 0), (2, 1), constant_values=1.5), (6, 10), (0,), pads=[1, 2, 0, 1], value=1.5),
    Case("Pad", [SMALL], lambda x: np.pad(x[:, 1:], ((1, 0), (0, 1))), (6, 10), (0,), pads=[1, -1, 0, 1]),
    *(
        case
        for mode in ("edge", "reflect")
        for case in (
            Case("Pad", [X], pads((0, 0), (1, 1), (2, 1), mode=mode), (6, 10), pads=[0, 1, 2, 0, 1, 1], mode=mode),
            Case("Pad", [X, ints(0, 1, 2, 0, 1, 1)], pads((0, 0), (1, 1), (2, 1), mode=mode), (11, 11), mode=mode),
            Case(
                "Pad",
                [X, ints(0, -1, 2, 0, 1, 0)],
                lambda x, _, mode=mode: np.pad(x, ((0, 0), (0, 1), (2, 0)), mode=mode)[:, 1:],
                (11, 11),
                mode=mode,
            ),
        )
    ),
    Case(
        "Pad",
        [SMALL, ints(1, 2, 0, 1), Stated(np.float32(1.5))],
        pads((1, 0), (2, 1), constant_values=1.5),
        (11, 11),
        (0,),
    ),
    Case("Pad", [SMALL, ints(1, -1, 0, 1)], lambda x, _: np.pad(x[:, 1:], ((1, 0), (0, 1))), (11, 11), (0,)),
    Case("Tile", [SMALL, ints(2, 3)], lambda x, r: np.tile(x, r), trained=(0,)),
    Case("Expand", [SMALL[:, :1], ints(2, 1, 3)], lambda x, s: np.broadcast_to(x, (2, 2, 3)), (8, 11), (0,)),
    Case("Gather", [X, np.int32([[0, 2], [1, 1]])], lambda x, i: np.take(x, i, 1), trained=(0,), f16=True, axis=1),
    Case("Gather", [X, np.int64(1)], lambda x, i: x[1]),
    Case("Gather", [X, Stated(np.int64([[-1, 0], [3, -4]]))], lambda x, i: np.take(x, i, 2), trained=(0,), axis=2),
    *(
        Case(
            kind,
            [X, np.int64([[[0, 1, 0, 1]], [[1, 0, 1, 0]]]), normal(2, 1, 4)],
            lambda *a: scatter(*a, 1),
            (9, 11),
            (0, 2),
            axis=1,
        )
        for kind in ("Scatter", "ScatterElements")
    ),
    Case("OneHot", [np.int64([0, 2, 1]), ints(3), np.float32([0.5, 2])], one_hot, (9, 11), (2,)),
    Case(
        "OneHot",
        [np.int64([[0, 2], [1, 1]]), ints(3), np.float32([0, 1])],
        lambda *a: np.moveaxis(one_hot(*a), -1, 1),
        (9, 11),
        axis=1,
    ),
    Case("DepthToSpace", [normal(1, 8, 2, 3)], lambda x: depth_to_space(x, "DCR"), trained=(0,), blocksize=2),
    Case(
        "DepthToSpace",
        [normal(1, 8, 2, 3)],
        lambda x: depth_to_space(x, "CRD"),
        (11, 11),
        (0,),
        blocksize=2,
        mode="CRD",
    ),
    Case("SpaceToDepth", [normal(1, 2, 4, 2)], space_to_depth, trained=(0,), blocksize=2),
    Case(
        "Upsample", [IMAGE, Stated(np.float32([1, 1, 2, 3]))], lambda x, _: x.repeat(2, 2).repeat(3, 3), (9, 11), (0,)
    ),
    Case("Resize", [IMAGE, Stated(np.float32([1, 1, 2, 3]))], lambda x, _: x.repeat(2, 2).repeat(3, 3), (10, 10), (0,)),
    Case(
        "Resize",
        [IMAGE, None, Stated(np.float32([1, 1, 2, 3]))],
        lambda x, _: x.repeat(2, 2).repeat(3, 3),
        (11, 11),
        (0,),
    ),
    Case("Shape", [X], lambda x: np.array(x.shape)),
    Case("Constant", [], lambda: SMALL, value=onnx.numpy_helper.from_array(SMALL)),
    Case(
        "ConstantOfShape",
        [ints(2, 3)],
        lambda s: np.full(s, 7),
        (9, 11),
        value=onnx.numpy_helper.from_array(np.int64([7])),
    ),
    *(
        Case(
            "Cast",
            [3 * SMALL],
            lambda x, d=dtype: x if d is np.float16 else x.astype(d),
            trained=(0,) if dtype is np.float16 else (),
            rtol=1e-3,
            to=number,
        )
        for dtype, number in (
            (np.int32, onnx.TensorProto.INT32),
            (np.float16, onnx.TensorProto.FLOAT16),
            (bool, onnx.TensorProto.BOOL),
            (np.int8, onnx.TensorProto.INT8),
            (np.int16, onnx.TensorProto.INT16),
        )
    ),
    Case("Cast", [TRUTH], lambda x: x.astype(float), to=onnx.TensorProto.FLOAT),
]


# --- networks


def conv(**options):
    return t(lambda x, w, *b: torch.nn.functional.conv2d(x, w, *b, **options))


def conv_transpose(**options):
    return t(lambda x, w, *b: torch.nn.functional.conv_transpose2d(x, w, *b, **options))


def norm(x, scale, bias, mean, var, eps=1e-5):
    shape = (1, -1) + (1,) * (x.ndim - 2)
    return (x - mean.reshape(shape)) / np.sqrt(var.reshape(shape) + eps) * scale.reshape(shape) + bias.reshape(shape)


def batch_norm(x, scale, bias, mean, var, momentum=0.9):
    dims = (0, *range(2, x.ndim))
    m, v = x.mean(dims), x.var(dims)
    blend = [momentum * old + (1 - momentum) * new for old, new in ((mean, m), (var, v))]
    return [norm(x, scale, bias, m, v), *blend, m, v]


def each_element(x, scale, bias, mean, var):
    m, v = x.mean(0), x.var(0)
    blend = [0.9 * old + 0.1 * new for old, new in ((mean, m), (var, v))]
    return [(x - m) / np.sqrt(v + 1e-5) * scale + bias, *blend, m, v]


def lrn(x, alpha, beta, bias, size):
    low, high = (size - 1) // 2, size // 2
    c = x.shape[1]
    sums = np.stack([(x[:, max(0, i - low) : i + high + 1] ** 2).sum(1) for i in range(c)], 1)
    return x / (bias + alpha / size * sums) ** beta


def roi_align(x, rois, batch, size, ratio, scale):
    rows, columns = size
    y = np.zeros((len(rois), x.shape[1], rows, columns))
    height, width = x.shape[2:]

    def sample(image, at_y, at_x):
        if at_y < -1 or at_y > height or at_x < -1 or at_x > width:
            return 0
        at_y, at_x = min(max(at_y, 0), height - 1), min(max(at_x, 0), width - 1)
        y0, x0 = int(at_y), int(at_x)
        y1, x1 = min(y0 + 1, height - 1), min(x0 + 1, width - 1)
        fy, fx = at_y - y0, at_x - x0
        return (1 - fy) * ((1 - fx) * image[:, y0, x0] + fx * image[:, y0, x1]) + fy * (
            (1 - fx) * image[:, y1, x0] + fx * image[:, y1, x1]
        )

    for r, (x1, y1, x2, y2) in enumerate(rois * scale):
        cell = max(y2 - y1, 1) / rows, max(x2 - x1, 1) / columns
        counts = [ratio or int(np.ceil(c)) for c in cell]
        for i, j in np.ndindex(rows, columns):
            y[r, :, i, j] = sum(
                sample(
                    x[batch[r]],
                    y1 + i * cell[0] + (a + 0.5) * cell[0] / counts[0],
                    x1 + j * cell[1] + (b + 0.5) * cell[1] / counts[1],
                )
                for a, b in np.ndindex(*counts)
            ) / (counts[0] * counts[1])
    return y


def cells(kind, activations=None, lengths=None):
    """Layers of ONNX by their equations."""
    functions = {
        "Sigmoid": sigmoid,
        "Tanh": np.tanh,
        "Relu": lambda x: np.maximum(x, 0),
        "Swish": lambda x: x * sigmoid(x),
    }

    def expect(x, w, r, b=None, *rest):
        if lengths is not None:
            rest = rest[1:]
        hidden = r.shape[2]
        w, r, b = w[0], r[0], np.zeros(2 * len(w[0])) if b is None else b[0]
        own, other = b[: len(w)], b[len(w) :]
        h = rest[0][0] if rest else np.zeros((x.shape[1], hidden))
        c = rest[1][0] if len(rest) > 1 else np.zeros_like(h)
        names = activations or {"LSTM": ["Sigmoid", "Tanh", "Tanh"], "RNN": ["Tanh"]}.get(kind, ["Sigmoid", "Tanh"])
        f = [functions[name] for name in names]
        rows = []
        for step, part in enumerate(x):
            a, s = part @ w.T + own, h @ r.T + other
            gate = [
                (a[:, i * hidden : (i + 1) * hidden], s[:, i * hidden : (i + 1) * hidden])
                for i in range(len(w) // hidden)
            ]
            next_c = c
            if kind == "LSTM":
                i, o, g, d = (p + q for p, q in gate)
                next_c = f[0](g) * c + f[0](i) * f[1](d)
                next_h = f[0](o) * f[2](next_c)
            elif kind == "RNN":
                next_h = f[0](a + s)
            else:
                z, reset = (f[0](p + q) for p, q in gate[:2])
                after = reset * gate[2][1]
                before = (reset * h) @ r[2 * hidden :].T + other[2 * hidden :]
                last = after if kind == "GRU1" else before
                made = f[1](gate[2][0] + last)
                next_h = (1 - z) * made + z * h
            row = next_h
            if lengths is not None:
                runs = (lengths > step)[:, None]
                row, next_h, next_c = np.where(runs, next_h, 0), np.where(runs, next_h, h), np.where(runs, next_c, c)
            rows.append(row)
            h, c = next_h, next_c
        y = np.stack(rows)[:, None]
        return [y, h[None], c[None]] if kind == "LSTM" else [y, h[None]]

    return expect


def layer(gates, hidden=2, state=0):
    weights = [0.5 * normal(1, gates * hidden, n, seed=i) for i, n in enumerate((3, hidden))]
    states = [None] + [normal(1, 2, hidden, seed=i + 5) for i in range(state)] if state else []
    return [normal(3, 2, 3), *weights, normal(1, 2 * gates * hidden, seed=3), *states]


LENGTHS = np.int32([3, 1])
CHANNELS = [uniform(0.5, 1.5, 2), normal(2), normal(2, seed=2), uniform(0.5, 2, 2, seed=1)]
ELEMENTS = [uniform(0.5, 1.5, 2, 3), normal(2, 3), normal(2, 3, seed=2), uniform(0.5, 2, 2, 3, seed=1)]
FILTER, BIAS = normal(3, 2, 3, 2), normal(3)

NETWORKS = [
    Case("MatMul", [X, normal(2, 4, 2)], np.matmul, trained=(0, 1), f16=True),
    Case("MatMul", [SMALL, normal(3)], np.matmul, trained=(0, 1)),
    Case("MatMul", [normal(2), SMALL], np.matmul),
    Case(
        "Gemm",
        [normal(3, 2), normal(3, 4), normal(2, 4)],
        lambda a, b, c: 0.5 * a.T @ b + 2 * c,
        trained=(0, 1, 2),
        alpha=0.5,
        beta=2.0,
        transA=1,
    ),
    Case(
        "Gemm", [normal(2, 3), normal(4, 3), normal(4)], lambda a, b, c: a @ b.T + c, (7, 11), (2,), f16=True, transB=1
    ),
    Case(
        "Gemm",
        [normal(2, 3), normal(4, 3), normal(4)],
        lambda a, b, c: a @ b.T + c,
        (6, 6),
        (2,),
        transB=1,
        broadcast=1,
    ),
    Case(
        "Conv",
        [IMAGE, FILTER, BIAS],
        conv(stride=(2, 1), padding=1),
        trained=(0, 1, 2),
        pads=[1, 1, 1, 1],
        strides=[2, 1],
        f16=True,
    ),
    Case(
        "Conv",
        [IMAGE, normal(4, 1, 2, 2)],
        conv(groups=2, dilation=(2, 1)),
        trained=(1,),
        group=2,
        dilations=[2, 1],
        kernel_shape=[2, 2],
    ),
    Case(
        "Conv",
        [normal(1, 2, 6), normal(3, 2, 3)],
        t(lambda x, w: torch.nn.functional.conv1d(x, w, padding=1)),
        auto_pad="SAME_UPPER",
    ),
    Case(
        "ConvTranspose",
        [IMAGE, normal(2, 3, 3, 2), BIAS],
        conv_transpose(stride=2, padding=1, output_padding=1),
        trained=(0, 1, 2),
        strides=[2, 2],
        pads=[1, 1, 1, 1],
        output_padding=[1, 1],
    ),
    Case("ConvTranspose", [IMAGE, normal(2, 2, 3, 3)], conv_transpose(groups=2), trained=(0,), group=2),
    *(
        Case(
            "ConvTranspose",
            [IMAGE, normal(2, 3, 3, 3)],
            t(
                lambda x, w, cut=cut: torch.nn.functional.conv_transpose2d(x, w, stride=2)[
                    :, :, cut : cut + 10, cut : cut + 8
                ]
            ),
            strides=[2, 2],
            output_shape=[10, 8],
            auto_pad=word,
        )
        for word, cut in (("SAME_UPPER", 1), ("SAME_LOWER", 0), ("NOTSET", 0))
    ),
    Case(
        "AveragePool",
        [IMAGE],
        t(lambda x: torch.nn.functional.avg_pool2d(x, 2, 1, 1, count_include_pad=False)),
        trained=(0,),
        kernel_shape=[2, 2],
        pads=[1, 1, 1, 1],
    ),
    *(
        Case(
            "AveragePool",
            [IMAGE],
            t(lambda x, p=pad: torch.nn.functional.avg_pool2d(x, 2, 1, p)),
            (7, 11),
            (0,),
            kernel_shape=[2, 2],
            pads=[pad] * 4,
            count_include_pad=1,
        )
        for pad in (0, 1)
    ),
    Case(
        "AveragePool",
        [IMAGE],
        t(lambda x: torch.nn.functional.avg_pool2d(x, 2, 2, ceil_mode=True)),
        (10, 11),
        (0,),
        kernel_shape=[2, 2],
        strides=[2, 2],
        ceil_mode=1,
    ),
    Case(
        "MaxPool",
        [IMAGE],
        t(lambda x: torch.nn.functional.max_pool2d(x, 2, 2)),
        trained=(0,),
        kernel_shape=[2, 2],
        strides=[2, 2],
    ),
    Case(
        "MaxPool",
        [IMAGE],
        t(lambda x: torch.nn.functional.max_pool2d(x, 2, 2, ceil_mode=True)),
        (10, 11),
        (0,),
        kernel_shape=[2, 2],
        strides=[2, 2],
        ceil_mode=1,
    ),
    Case("GlobalAveragePool", [IMAGE], lambda x: x.mean((2, 3), keepdims=True), trained=(0,)),
    Case("GlobalMaxPool", [IMAGE], lambda x: x.max((2, 3), keepdims=True), trained=(0,)),
    *(
        Case(
            "RoiAlign",
            [
                normal(2, 2, 6, 5),
                Stated(np.float32([[0.5, 1, 4, 5], [-1, -2, 3, 2.5], [2, 2, 2.2, 2.4]])),
                Stated(np.int32([0, 1, 1])),
            ],
            lambda x, r, b, ratio=ratio, scale=scale: roi_align(x, r, b, (2, 3), ratio, scale),
            (10, 11),
            (0,) if ratio else (),
            rtol=1e-4,
            output_height=2,
            output_width=3,
            sampling_ratio=ratio,
            spatial_scale=scale,
        )
        for ratio, scale in ((2, 1.0), (0, 0.8))
    ),
    Case("BatchNormalization", [normal(2, 2, 3), *CHANNELS], norm),
    Case(
        "BatchNormalization",
        [normal(2, 2, 3), CHANNELS[0], CHANNELS[1], *map(Stated, CHANNELS[2:])],
        batch_norm,
        trained=(0, 1, 2),
        results=5,
        rtol=1e-4,
    ),
    Case(
        "BatchNormalization",
        [normal(3, 2, 3), ELEMENTS[0], ELEMENTS[1], *map(Stated, ELEMENTS[2:])],
        each_element,
        (6, 8),
        (0, 1),
        results=5,
        spatial=0,
        rtol=1e-4,
    ),
    Case(
        "InstanceNormalization",
        [IMAGE, *CHANNELS[:2]],
        lambda x, s, b: norm(x, s, b, x.mean((2, 3))[0], x.var((2, 3))[0]),
        trained=(0, 1, 2),
        rtol=1e-4,
    ),
    *(
        Case(
            "LRN",
            [normal(1, 5, 2, 2)],
            lambda x, n=n: lrn(x, 0.4, 0.6, 1.5, n),
            trained=(0,),
            alpha=0.4,
            beta=0.6,
            bias=1.5,
            size=n,
        )
        for n in (3, 4)
    ),
    *(
        Case(
            kind,
            [X],
            lambda x, a=axis, log=kind == "LogSoftmax": flat_softmax(x, a, log),
            trained=(0,),
            f16=True,
            axis=axis,
        )
        for kind in ("Softmax", "LogSoftmax")
        for axis in (1, 2)
    ),
    Case("Dropout", [SMALL], lambda x: x, trained=(0,), ratio=0.0),
    Case("LSTM", layer(4), cells("LSTM"), trained=(0, 1, 2, 3), results=3, hidden_size=2),
    Case("LSTM", layer(4, state=2), cells("LSTM"), trained=(5, 6), results=3, hidden_size=2),
    Case(
        "LSTM",
        layer(4),
        cells("LSTM", ["Sigmoid", "Relu", "Relu"]),
        trained=(1,),
        results=["y"],
        activations=["Sigmoid", "Relu", "Relu"],
    ),
    Case("LSTM", [*layer(4), Stated(LENGTHS)], cells("LSTM", lengths=LENGTHS), trained=(0, 2), results=3),
    Case("GRU", layer(3), cells("GRU1"), trained=(0, 1, 2, 3), results=2, linear_before_reset=1),
    Case("GRU", layer(3, state=1), cells("GRU"), trained=(0, 1, 2, 3, 5), results=2),
    Case("RNN", layer(1, state=1), cells("RNN"), (7, 11), (0, 1, 2, 3, 5), results=2),
    Case("RNN", layer(1), cells("RNN", ["Swish"]), (7, 11), (1,), results=2, activations=["Swish"]),
]


# --- graphs inside of nodes


def graph(prefix, name, inputs, nodes, outputs):
    def named(list_):
        return [n and prefix + n for n in list_]

    made = [helper.make_node(kind, named(x), named(y), **attributes) for kind, x, y, attributes in nodes]
    infos = [helper.make_empty_tensor_value_info(prefix + n) for n in inputs]
    return helper.make_graph(
        made, prefix + name, infos, [helper.make_empty_tensor_value_info(prefix + n) for n in outputs]
    )


def branches():
    return {
        "then_branch": lambda p: graph(
            p, "then", [], [("Tanh", ["x1"], ["t0"], {}), ("Sum", ["t0", "x2"], ["t1"], {})], ["t1"]
        ),
        "else_branch": lambda p: graph(p, "else", [], [("Sum", ["x2", "x2"], ["e0"], {})], ["e0"]),
    }


class Captured(Case):
    """A case whose operands from `taken` on are read by its graphs alone."""

    def __init__(self, taken, *arguments, **options):
        super().__init__(*arguments, **options)
        self.taken = taken


LOOP = [("Sum", ["v", "x3"], ["w"], {}), ("Tanh", ["w"], ["s"], {}), ("Identity", ["go"], ["on"], {})]
SCAN = [("Sum", ["v", "e"], ["w"], {}), ("Tanh", ["w"], ["s"], {})]


def loop(count, _, start, step):
    values = [start + (i + 1) * step for i in range(int(count))]
    return [values[-1], np.tanh(np.stack(values))]


def scan(start, entries):
    values = start + entries.cumsum(0)
    return [values[-1], np.concatenate(np.tanh(values))]  # one behind another, along a dimension of the body's result


CONTROL = [
    *(
        Captured(
            1,
            "If",
            [condition, SMALL, INSIDE],
            lambda c, a, b: np.tanh(a) + b if c else b + b,
            trained=(1, 2),
            graphs=branches(),
        )
        for condition in (np.array(True), np.array(False), Stated(np.array(True)))
    ),
    Captured(
        3,
        "Loop",
        [Stated(np.int64(3)), Stated(np.array(True)), SMALL, INSIDE],
        loop,
        results=2,
        graphs={"body": lambda p: graph(p, "loop", ["i", "go", "v"], LOOP, ["on", "w", "s"])},
    ),
    Captured(
        2,
        "Scan",
        [SMALL, X[:, :2, :3].copy()],
        scan,
        (9, 11),
        results=2,
        graphs={"body": lambda p: graph(p, "scan", ["v", "e"], SCAN, ["w", "s"])},
        num_scan_inputs=1,
    ),
]

CASES = [*ELEMENTWISE, *SELECTION, *MOVES, *NETWORKS, *CONTROL]
