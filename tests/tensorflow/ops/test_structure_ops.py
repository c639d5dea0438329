"""Op types on shapes, reductions, scans, lookups and scatters."""

import numpy as np
import pytest
from raw_ops import ALL, INTEGERS, Const, Given, Same, Table, V, X, case

L = np.int64


def masks_of(masks):
    names = {"shrink": "shrink_axis", "new": "new_axis"}
    return {f"{names.get(name, name)}_mask": mask for name, mask in masks.items()}


def slices(shape, begin, end, strides, /, **masks):
    places = [Const(value) for value in (begin, end, strides)]
    return case("StridedSlice", X(shape), *places, dtypes=ALL, **masks_of(masks))


def slice_gradient(shape, begin, end, strides, dy, /, **masks):
    places = [Const(value) for value in (shape, begin, end, strides)]
    return case("StridedSliceGrad", *places, X(dy), **masks_of(masks))


REGIONS = [
    ((5, 4), [1, 0], [4, 3], [1, 2], {}),
    ((5, 4), [0, 3], [0, -9], [1, -1], {"end": 1}),
    ((5, 4, 3), [2, 0], [3, 9], [1, 1], {"shrink": 1}),
    ((5, 4, 3), [0, 1], [0, 2], [1, 1], {"ellipsis": 1, "shrink": 2}),
    ((5, 4), [0, 0, -2], [0, 0, 9], [1, 1, 1], {"new": 1, "begin": 2, "end": 2}),
    ((6,), [-1], [-7], [-2], {}),
    ((6,), [4], [2], [1], {}),
]

CASES = [
    *[
        case("Reshape", X((2, 6)), Const(to, t), dtypes=ALL)
        for to in ([3, 4], [-1, 2], [12], [2, 1, 6])
        for t in (np.int32, L)
    ],
    *[case("ExpandDims", X((2, 3)), Const(axis), dtypes=ALL) for axis in (0, 1, 2, -1)],
    *[case("Squeeze", X((1, 3, 1)), axis=axis, dtypes=ALL) for axis in ([], [0], [-1])],
    *[case("Transpose", X((2, 3, 4)), Const(perm), dtypes=ALL) for perm in ([0, 2, 1], [2, 1, 0], [0, 1, 2])],
    *[case("Pack", [X((2, 3)), X((2, 3))], axis=axis, dtypes=ALL) for axis in (0, 1, -1)],
    *[case("Unpack", X((2, 3)), num=count, axis=axis, dtypes=ALL) for axis, count in ((0, 2), (1, 3), (-1, 3))],
    *[case("ConcatV2", [X((2, 1)), X((2, 3))], Const(axis), dtypes=ALL) for axis in (1, -1)],
    case("ConcatV2", [X((2, 3)), X((4, 3)), X((0, 3))], Const(0)),
    *[case("Split", Const(axis), X((4, 6)), num_split=count, dtypes=ALL) for axis, count in ((0, 2), (1, 3), (-1, 2))],
    *[case("SplitV", X((4, 6)), Const(sizes), Const(1), num_split=3) for sizes in ([1, 2, 3], [1, -1, 3])],
    *[
        case("Slice", X((4, 5)), Const(begin), Const(size), dtypes=ALL)
        for begin, size in (([1, 2], [2, 3]), ([0, 1], [-1, -1]))
    ],
    case("Slice", X((4, 5)), Given([1, 0]), Const([2, 5])),
    *[slices(shape, *places, **masks) for shape, *places, masks in REGIONS],
    case("StridedSlice", X((4, 5)), Given([2]), Given([3]), Const([1]), shrink_axis_mask=1),
    case(
        "StridedSlice",
        X((4, 5)),
        Given([0, -2]),
        Given([0, 0]),
        Const([1, 1]),
        shrink_axis_mask=2,
        begin_mask=1,
        end_mask=1,
    ),
    slice_gradient([5, 4], [1, 0], [4, 3], [1, 2], (3, 2)),
    slice_gradient([5, 4], [1, 1], [4, 3], [1, 1], (3, 2)),
    slice_gradient([5, 4], [0, 3], [0, -9], [1, -1], (5, 4), end=1),
    slice_gradient([5, 4, 3], [2, 0], [3, 9], [1, 1], (4, 3), shrink=1),
    slice_gradient([5, 4], [0, 0, -2], [0, 0, 9], [1, 1, 1], (1, 5, 2), new=1, begin=2, end=2),
    case("StridedSliceGrad", Const([4, 5]), Given([2]), Given([3]), Const([1]), X((5,)), shrink_axis_mask=1),
    *[case("Tile", X((2, 3)), Const(repeats), dtypes=ALL) for repeats in ([1, 2], [3, 1], [2, 2])],
    *[case("BroadcastTo", X((2, 1)), Const(shape), dtypes=ALL) for shape in ([2, 3], [4, 2, 1])],
    *[case("Pad", X((2, 3)), Const(pads), dtypes=ALL) for pads in ([[1, 0], [0, 2]], [[0, 0], [1, 1]])],
    case("PadV2", X((2, 3)), Const([[1, 0], [0, 2]]), Same(7), dtypes=ALL),
    *[case("MirrorPad", X((3, 4)), Const([[1, 2], [0, 2]]), mode=mode) for mode in ("REFLECT", "SYMMETRIC")],
    *[case("MirrorPadGrad", X((6, 6)), Const([[1, 2], [0, 2]]), mode=mode) for mode in ("REFLECT", "SYMMETRIC")],
    *[case("ReverseV2", X((2, 3)), Const(axes), dtypes=ALL) for axes in ([0], [1, 0], [-1])],
    *[
        case("Roll", X((2, 5)), Const(shift), Const(axis), dtypes=ALL)
        for shift, axis in (([1], [1]), ([-2, 1], [1, 0]), (3, 1))
    ],
    case("SpaceToDepth", X((1, 4, 6, 3)), block_size=2, dtypes=("float32",)),
    case("DepthToSpace", X((1, 2, 3, 8)), block_size=2, dtypes=("float32",)),
    case("SpaceToBatchND", X((2, 3, 4, 2)), Const([2, 2]), Const([[1, 0], [0, 0]])),
    case("BatchToSpaceND", X((8, 2, 3, 2)), Const([2, 2]), Const([[1, 0], [0, 1]])),
    *[
        case(type, X((2, 3, 4), whole=type in ("Max", "Min")), Const(axes), keep_dims=keeps, slack=2.0)
        for type in ("Sum", "Mean", "Max", "Min", "Prod")
        for axes, keeps in (([0], False), ([1, 2], True), ([-1], False), ([0, 1, 2], False), ([], False))
    ],
    *[case(type, X((2, 3), -9, 9), Const([1]), dtypes=INTEGERS) for type in ("Sum", "Max", "Min", "Prod")],
    *[
        case(type, Given([[True, False], [True, True]], bool), Const(axes), dtypes=("float32",))
        for type in ("All", "Any")
        for axes in ([0], [1], [0, 1])
    ],
    case("EuclideanNorm", X((2, 3)), Const([1]), dtypes=("float32",)),
    *[
        case(type, X((3, 4), whole=True), Const(axis), output_type=wanted, dtypes=ALL)
        for type in ("ArgMax", "ArgMin")
        for axis in (0, -1)
        for wanted in ("int32", "int64")
    ],
    *[case("L2Loss", X(shape)) for shape in ((2, 3), (50,), ())],
    *[
        case(type, X((3, 4)), Const(axis), exclusive=exclusive, reverse=reverse)
        for type in ("Cumsum", "Cumprod")
        for axis, exclusive, reverse in ((0, False, False), (1, True, False), (-1, False, True), (1, True, True))
    ],
    *[case("TopKV2", X((2, 7)), Const(k), sorted=True, dtypes=ALL) for k in (1, 3, 7)],
    case("InTopKV2", X((3, 5)), Given([0, 4, 2]), Const(2), dtypes=("float32",), wider=False),
    *[
        case("GatherV2", X((4, 3, 2)), Given(ids, t), Const(axis), dtypes=ALL)
        for ids in ([1, 0, 3], [[2, 1], [0, 0]])
        for t, axis in ((np.int32, 0), (L, 0))
    ],
    case("GatherV2", X((4, 3, 2)), Given([2, 0]), Const(1)),
    case("GatherV2", X((2, 3, 4)), Given([[2, 0], [1, 1]]), Const(1), batch_dims=1),
    case("GatherV2", X((2, 3, 4)), Given([[2, 0], [1, 1]]), Const(2), batch_dims=1),
    case("ResourceGather", V((5, 3)), Given([[1, 4], [0, 0]]), dtype="float32", dtypes=("float32",), wider=False),
    case("ResourceGather", V((5, 3)), Given([1, 4]), dtype="float16", dtypes=("float16",), wider=False),
    case("GatherNd", X((4, 3, 2)), Given([[1, 2], [3, 0]]), dtypes=ALL),
    case("GatherNd", X((4, 3)), Given([[[1], [3]]])),
    *[
        # The largest number of a type stands for no rows.
        case(type, X((4, 2, 3)), Given(ids, t), Const(5), wider=type in ("UnsortedSegmentSum", "UnsortedSegmentProd"))
        for type in ("UnsortedSegmentSum", "UnsortedSegmentMax", "UnsortedSegmentMin", "UnsortedSegmentProd")
        for ids, t in (([0, 3, 0, -1], np.int32), ([[0, 1], [2, 3], [4, 0], [0, 0]], L))
    ],
    case("UnsortedSegmentSum", X((4, 2), -9, 9), Given([0, 3, 0, -1]), Const(5), dtypes=INTEGERS),
    case("UnsortedSegmentSum", X((3,)), Const([1, 1, 0]), Const(2)),
    case("SegmentSum", X((4, 2)), Const([0, 0, 1, 3])),
    case("ScatterNd", Given([[1], [3], [1]]), X((3, 2)), Const([4, 2]), dtypes=ALL),
    case("TensorScatterUpdate", X((4, 2)), Given([[1], [3]]), X((2, 2)), dtypes=ALL),
    *[
        case(f"TensorScatter{how}", X((4, 2)), Given([[1], [3], [1]]), X((3, 2)), dtypes=("float32",))
        for how in ("Add", "Sub", "Min", "Max")
    ],
    *[
        case(f"ResourceScatter{how}", V((4, 2)), Given([1, 3, 1]), X((3, 2)), dtypes=("float32",))
        for how in ("Add", "Sub", "Mul", "Min", "Max")
    ],
    case("ResourceScatterUpdate", V((4, 2)), Given([1, 3]), X((2, 2)), dtypes=("float32",)),
    case("ResourceScatterNdAdd", V((4, 2)), Given([[1, 0], [3, 1]]), X((2,)), dtypes=("float32",)),
    *[case("OneHot", Given([[0, 3], [-1, 2]]), Const(4), X(()), X(()), axis=axis) for axis in (-1, 0, 1)],
    *[
        case("ReverseSequence", X((2, 4, 3)), Given([3, 1], t), seq_dim=1, batch_dim=0, dtypes=ALL)
        for t in (np.int32, L)
    ],
    case("ReverseSequence", X((4, 2)), Given([0, 4]), seq_dim=0, batch_dim=1),
    *[
        case("MatrixBandPart", X((2, 3, 4)), Const(low), Const(high))
        for low, high in ((-1, 0), (1, -1), (0, 1), (-1, -1))
    ],
    case("DynamicStitch", [Const([0, 2]), Const([1, 2])], [X((2, 3)), X((2, 3))]),
]
TABLE = Table(CASES)


@pytest.mark.parametrize("name", TABLE.names())
def test_structure_op_is_that_of_tensorflow(name):
    TABLE.check(name)
