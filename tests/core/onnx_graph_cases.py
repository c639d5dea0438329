"""Cases of test_onnx_operators.py: indices, sequences of numbers, products by letters, and graphs inside nodes."""

import numpy
import onnx

from onnx_models import Case, Stated, normal, s

X = normal(2, 3, 4)
IMAGE = normal(2, 4, 7, 6)
BLOCKS = normal(1, 8, 4, 6)
PAIRS = numpy.int64([[0, 1], [1, -1], [0, 2]])


def graph(name, nodes, inputs, outputs):
    """A graph inside a node; inputs and outputs are (name, element type, shape)."""
    made = [onnx.helper.make_node(kind, operands, results) for kind, operands, results in nodes]
    infos = ([onnx.helper.make_tensor_value_info(*value) for value in values] for values in (inputs, outputs))
    return onnx.helper.make_graph(made, name, *infos)


FLOAT, INT64, BOOL = onnx.TensorProto.FLOAT, onnx.TensorProto.INT64, onnx.TensorProto.BOOL
VALUE = ("v", FLOAT, [3, 4])
LOOP = graph(
    "body",
    [("Identity", ["c"], ["c2"]), ("Add", ["v", "v"], ["v2"]), ("Neg", ["v"], ["each"])],
    [("i", INT64, []), ("c", BOOL, []), VALUE],
    [("c2", BOOL, []), ("v2", FLOAT, [3, 4]), ("each", FLOAT, [3, 4])],
)
SCAN = graph(
    "body",
    [("Add", ["state", "row"], ["next"]), ("Neg", ["row"], ["minus"])],
    [("state", FLOAT, [4]), ("row", FLOAT, [4])],
    [("next", FLOAT, [4]), ("minus", FLOAT, [4])],
)


def branches(*kinds):
    return [graph(kind, [(kind, ["x1"], ["y"])], [], [("y", FLOAT, None)]) for kind in kinds]


THEN, ELSE = branches("Neg", "Exp")


def local_response(x, size=3, alpha=0.1, beta=0.5, bias=1.5):
    """The reference of onnx sums over fewer channels than the text of the standard."""
    squares = numpy.pad(x * x, ((0, 0), (size // 2, size // 2), (0, 0), (0, 0)))
    sums = sum(squares[:, i : i + x.shape[1]] for i in range(size))
    return x / (bias + alpha / size * sums) ** beta


GRAPH_CASES = [
    # lookups
    Case("GatherND", X, PAIRS),
    Case("GatherND", X, Stated(PAIRS)),
    Case("GatherND", X, numpy.int64([[[1]], [[-1]]])),
    Case("GatherND", X, numpy.int64([[[1]], [[-1]]]), since=12, batch_dims=1),
    Case("GatherND", X, numpy.int64([[[0], [1], [-1]]] * 2), since=12, batch_dims=2),
    Case("ScatterND", X, PAIRS, normal(3, 4, seed=1)),
    Case("ScatterND", X, s([0, 0, 0], [-1, -1, -1]), normal(2)),
    *(
        Case("ScatterND", X, numpy.int64([[0, 1], [1, 1], [0, 1]]), normal(3, 4, seed=1), since=since, reduction=word)
        for word, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
    ),
    Case("ScatterElements", X, numpy.int64([[[1, 0, 1, -2]]]), normal(1, 1, 4)),
    Case("ScatterElements", X, Stated(numpy.int64([[[2, -1]], [[0, 1]]])), normal(2, 1, 2), axis=-2),
    *(
        Case("ScatterElements", X, numpy.int64([[[1, 1, 1, 0]]]), normal(1, 1, 4), since=since, axis=2, reduction=word)
        for word, since in (("add", 16), ("mul", 16), ("max", 18), ("min", 18))
    ),
    Case("GatherElements", X, Stated(numpy.int64([[[-1, 0, 1, -2]]] * 2)), axis=1),
    Case("OneHot", numpy.int64([0, 2, 1]), Stated(numpy.int64(3)), numpy.float32([-1, 2])),
    Case("OneHot", s([0, 2], [1, -1]), Stated(numpy.int64(3)), numpy.float32([0, 1]), since=11, axis=1),
    Case("TopK", X, until=9, results=2, k=2, expect=lambda x: [-numpy.sort(-x)[..., :2], numpy.argsort(-x)[..., :2]]),
    Case("TopK", X, s(2), since=10, results=2, axis=1),
    Case("TopK", X, s(3), since=11, results=2, axis=-1, largest=0),
    # numbers in order
    *(Case("CumSum", X, Stated(numpy.int64(axis)), rtol=1e-5) for axis in (0, 2, -2)),
    Case("CumSum", X, Stated(numpy.int64(1)), reverse=1, exclusive=1, rtol=1e-5),
    Case("Range", *(Stated(numpy.int64(n)) for n in (2, 11, 3))),
    Case("Range", *(Stated(numpy.int64(n)) for n in (3, -5, -2))),
    Case("Range", *(Stated(numpy.float32(n)) for n in (0.5, 2.6, 0.25))),
    Case("NonZero", Stated(numpy.float32([[0, 1, 2], [3, 0, 0]]))),
    Case("NonZero", Stated(numpy.array([True, False, True]))),
    Case("CastLike", X * 3, numpy.int32([1])),
    Case("CastLike", X, Stated(numpy.float16(1))),
    *(Case("Trilu", X, upper=upper) for upper in (0, 1)),
    *(Case("Trilu", X, Stated(numpy.int64(k)), upper=upper) for k in (1, -1, 7) for upper in (0, 1)),
    # blocks and windows
    Case("DepthToSpace", BLOCKS, blocksize=2),
    Case("DepthToSpace", BLOCKS, since=11, blocksize=2, mode="CRD"),
    Case("SpaceToDepth", BLOCKS, blocksize=2),
    Case("ConvTranspose", IMAGE, normal(4, 3, 3, 2), normal(3), strides=[2, 1], pads=[1, 0, 1, 1], rtol=1e-5),
    Case("ConvTranspose", IMAGE, normal(4, 3, 2, 2), output_padding=[1, 0], strides=[2, 2], rtol=1e-5),
    Case("LRN", IMAGE, size=3, alpha=0.1, beta=0.5, bias=1.5, rtol=1e-5, expect=local_response),
    Case("Shrink", X, lambd=0.3, bias=0.1),
    Case("IsInf", numpy.float32([1, numpy.inf, -numpy.inf, numpy.nan])),
    Case("IsInf", numpy.float32([1, numpy.inf, -numpy.inf]), detect_negative=0),
    # products by letters
    Case("Einsum", X, normal(2, 4, 5), equation="bij,bjk->bik", rtol=1e-5),
    Case("Einsum", X, equation="abc->ca", rtol=1e-5),
    Case("Einsum", X, X, equation="...i, ...i", rtol=1e-5),
    Case("Einsum", normal(3, 3), equation="ii", rtol=1e-5),
    Case("Einsum", numpy.int32([[1, 2], [3, 4]]), numpy.int32([[5, 6], [7, 8]]), equation="ij,jk->ik"),
    # graphs
    Case("If", numpy.array(True), then_branch=THEN, else_branch=ELSE, around=[X]),
    Case("If", numpy.array(False), then_branch=THEN, else_branch=ELSE, around=[X]),
    Case("If", Stated(numpy.array([True])), then_branch=THEN, else_branch=ELSE, around=[X]),
    # The reference puts what each round gives behind that of the last one, without a dimension of its own.
    Case(
        "Loop",
        Stated(numpy.int64(3)),
        Stated(numpy.array(True)),
        X[0],
        results=2,
        body=LOOP,
        expect=lambda v: [8 * v, numpy.stack([-v, -2 * v, -4 * v])],
    ),
    Case("Scan", normal(4), X[0], results=2, body=SCAN, num_scan_inputs=1),
    Case(
        "Scan",
        normal(4),
        X[0],
        results=2,
        body=SCAN,
        num_scan_inputs=1,
        scan_input_directions=[1],
        scan_output_axes=[1],
        rtol=1e-5,
        expect=lambda state, rows: [state + rows.sum(0), -rows[::-1].T],
    ),
]
