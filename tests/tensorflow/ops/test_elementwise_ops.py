"""Element-wise op types: arithmetic, comparisons, functions, activations and their gradients, selections, conversions."""

import numpy as np
import pytest
from raw_ops import ALL, INTEGERS, Const, Given, Same, Table, X, case

PAIRS = [((2, 3), (2, 3)), ((4, 1, 3), (2, 1)), ((), (5,)), ((0, 3), (3,))]
BOTH = ("float32", "float16")


def binary(type, low=-2.0, high=2.0, dtypes=BOTH, second=None, **attributes):
    return [case(type, X(a, low, high), X(b, *(second or (low, high))), dtypes=dtypes, **attributes) for a, b in PAIRS]


def unary(type, low=-2.0, high=2.0, dtypes=BOTH, **options):
    return [case(type, X(shape, low, high), dtypes=dtypes, **options) for shape in [(2, 3), (), (0, 2), (33,)]]


def truths(type, count=2):
    table = [[True, True, False, False], [True, False, True, False]]
    return [case(type, *[Given(row, bool) for row in table[:count]], dtypes=("float32",))]


CASES = [
    *[
        one
        for type in ("Add", "AddV2", "Sub", "Mul", "Maximum", "Minimum")
        for one in binary(type, dtypes=ALL, low=-9, high=9)
    ],
    *binary("SquaredDifference", dtypes=ALL, low=-9, high=9),
    *[one for type in ("RealDiv", "DivNoNan", "Xdivy") for one in binary(type, second=(0.5, 2.0))],
    *[one for type in ("Div", "FloorDiv", "FloorMod") for one in binary(type, -9, 9, second=(1, 4), dtypes=ALL)],
    *binary("FloorMod", -9, 9, second=(-4, -1), dtypes=ALL),
    *binary("TruncateDiv", -9, 9, second=(1, 4), dtypes=INTEGERS),
    case("DivNoNan", X((3,)), Same([0.0, 1.0, 0.0])),
    case("MulNoNan", X((3,)), Same([0.0, 1.0, 0.0]), dtypes=("float32",)),
    *[one for type in ("Xlogy", "Xlog1py", "Atan2") for one in binary(type, 0.25, 2.0)],
    case("Xlogy", Same([0.0, 2.0]), Same([0.0, 3.0])),
    *binary("Pow", 0.25, 2.0),
    *[case("Pow", X((2, 3), 0.25, 2.0), Same(exponent)) for exponent in (0.5, 1.0, 2.0, 3.0, -1.5)],
    case("Pow", X((5,), 0, 4, whole=True), Same(3), dtypes=INTEGERS),
    case("AddN", [X((2, 3)), X((2, 3)), X((2, 3))], dtypes=ALL),
    *[
        one
        for type in ("Equal", "NotEqual", "Less", "LessEqual", "Greater", "GreaterEqual")
        for one in [case(type, X((40,), -2, 2, whole=True), X((2, 1), -2, 2, whole=True), dtypes=ALL), *binary(type)]
    ],
    case("ApproximateEqual", X((9,)), X((9,)), tolerance=1.0, dtypes=("float32",)),
    *[one for type in ("LogicalAnd", "LogicalOr") for one in truths(type)],
    *truths("LogicalNot", 1),
    *[one for type in ("BitwiseAnd", "BitwiseOr", "BitwiseXor") for one in binary(type, -99, 99, dtypes=INTEGERS)],
    *unary("Invert", -99, 99, dtypes=INTEGERS),
    *[one for type in ("Neg", "Abs", "Sign", "Square") for one in unary(type, dtypes=ALL, low=-9, high=9)],
    *[
        one
        for type in [
            "Exp",
            "Expm1",
            "Sin",
            "Cos",
            "Tan",
            "Atan",
            "Sinh",
            "Cosh",
            "Asinh",
            "Tanh",
            "Sigmoid",
            "Erf",
            "Erfc",
            "Floor",
            "Ceil",
            "Round",
            "Softplus",
            "Softsign",
        ]
        for one in unary(type)
    ],
    *[
        one
        for type in ("Log", "Log1p", "Sqrt", "Rsqrt", "Reciprocal", "Inv", "Lgamma", "Digamma")
        for one in unary(type, 0.2, 3.0, slack=2.0)
    ],
    *unary("Rint", dtypes=("float32",)),
    *[one for type in ("Asin", "Acos", "Atanh") for one in unary(type, -0.9, 0.9)],
    *unary("Acosh", 1.1, 3.0),
    *[one for type in ("Relu", "Relu6", "Elu", "Selu", "LeakyRelu") for one in unary(type, -9.0, 9.0)],
    case("LeakyRelu", X((2, 3)), alpha=0.5),
    case("Softplus", Same([-90.0, -15.0, 0.0, 15.0, 90.0])),
    *[
        one
        for type in ("ReluGrad", "Relu6Grad", "EluGrad", "SeluGrad", "LeakyReluGrad", "SoftplusGrad", "SoftsignGrad")
        for one in [
            case(type, X((2, 3)), X((2, 3), -9.0, 9.0)),
            case(type, X((33,)), X((33,))),
            case(type, X(()), X(())),
        ]
    ],
    *[
        one
        for type in ("TanhGrad", "SigmoidGrad", "SqrtGrad", "RsqrtGrad", "ReciprocalGrad", "InvGrad")
        for one in [
            case(type, X((2, 3), 0.2, 0.9), X((2, 3))),
            case(type, X((33,), 0.2, 0.9), X((33,))),
            case(type, X((), 0.5), X(())),
        ]
    ],
    *[case(type, Same([0.0, np.inf, -np.inf, np.nan, 1.0])) for type in ("IsNan", "IsInf", "IsFinite")],
    case("ClipByValue", X((2, 5)), X((), -1.5, -0.5), X((), 0.5, 1.0)),
    case("ClipByValue", X((2, 5)), Same(-0.5), Same(0.75)),
    case("Select", Given([True, False], bool), X((2, 3)), X((2, 3)), dtypes=ALL),
    case("Select", Given([[True], [False]], bool), X((2, 1)), X((2, 1))),
    case("Select", Given(True, bool), X((2, 3)), X((2, 3))),
    case("SelectV2", Given([[True], [False]], bool), X((3,)), X((2, 3)), dtypes=ALL),
    case("SelectV2", Given(False, bool), X((3,)), X(())),
    *[
        case("Cast", X((7,), -3, 3), DstT=to, dtypes=ALL, wider=False)
        for to in ("float32", "float16", "int32", "int64", "bool")
    ],
    case("Cast", Given([0, 1, 255], np.uint8), DstT="float32", dtypes=("float32",), wider=False),
    case("Cast", Given([-3, 7], np.int8), DstT="int32", dtypes=("float32",), wider=False),
    case("Cast", Given([True, False], bool), DstT="float16", dtypes=("float32",), wider=False),
    case("ZerosLike", X((2, 3)), dtypes=ALL),
    case("OnesLike", X((2, 3)), dtypes=ALL),
    case("Fill", Const([2, 3]), X(()), dtypes=ALL),
    case("Range", Same(1), Same(9), Same(3), dtypes=("float32", "int32")),
    case("LinSpace", Same(1.0), Same(4.0), Const(5), dtypes=("float32",)),
]
TABLE = Table(CASES)


@pytest.mark.parametrize("name", TABLE.names())
def test_elementwise_op_is_that_of_tensorflow(name):
    TABLE.check(name)
