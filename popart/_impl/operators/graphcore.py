"""The operators of ai.graphcore: those of the native table, and those that programs or transforms make."""

from __future__ import annotations

from popart._impl.operators.operator import Operator
from popart._impl.operators.rows import BY_TYPE, Row, row_of

DOMAIN = "ai.graphcore"

_NAMES = {
    "F": "FLOAT, FLOAT16",
    "N": "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT",
    "NB": "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, BOOL",
    "A": "UINT32, UINT64, INT32, INT64, FLOAT16, FLOAT",
    "X": "FLOAT, FLOAT16, INT32, UINT32",
    "F8": "FLOAT8_143, FLOAT8_152",
    "I": "INT32, UINT32",
    "INDEX": "INT32, INT64",
    "WHOLE": "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64",
    "SHORT": "UINT8, UINT16, UINT32, INT8, INT16, INT32, FLOAT16, FLOAT",
    "CALL": "UINT8, UINT16, UINT32, INT8, INT16, INT32, INT64, FLOAT16, FLOAT, BOOL",
}


def _dtypes(text: str) -> str:
    return ", ".join(_NAMES.get(part, part) for part in text.split("+"))


# Values of attributes, by the kind of parameter that gives them.
_VALUES = {
    **dict.fromkeys(("int", "data type"), "-?[0-9]+"),
    **dict.fromkeys(("string", "graph"), ".*"),
    **dict.fromkeys(("ints", "floats", "strings", "int lists", "comm group"), r"\[.*\]"),
    **dict.fromkeys(("flag", "bool", "init type"), "0|1"),
    "float": "-?[0-9.e+-]+",
    "reduction": "Sum|Mean|None",
    "scatter reduction": "(?i)sum|max|min|mul|none",
    "remap type": "[0-2]",
    "operator": "[0-8]",
}
_NO_ATTRIBUTES = ("ids", "id", "id lists", "count", "debug")


def _operator(row: Row) -> Operator:
    return Operator(
        domain=DOMAIN,
        type=row.type,
        versions=(1,),
        how="rewritten" if row.type == "Remainder" else "ir",
        inputs=tuple((operand.name, _dtypes(operand.types), False) for operand in row.operands),
        outputs=tuple((result.name, _dtypes(result.types)) for result in row.results),
        attributes={p.attribute: p.values or _VALUES[p.kind] for p in row.parameters if p.kind not in _NO_ATTRIBUTES},
        gradient=row.gradient,
        internal=not row.method,
    )


# Made by models or by transforms, and imported by nobody: type, inputs, outputs, gradient.
_INTERNAL = (
    ("AllReduce", "inputs:X", "outputs:X", "yes"),
    ("Square", "x:F", "y:F", "error"),
    ("ZerosLike", "x:X", "y:X", "none"),
    ("Zeros", "", "y:X", "none"),
    ("AddBias", "x:F bias:F", "y:F", "yes"),
    ("ConvFlipWeights", "weights:F", "y:F", "yes"),
    ("Histogram", "x:F", "y:UINT32", "none"),
    ("BinaryConstScalar", "x:F", "y:F", "yes"),
    ("HostLoad", "x:X", "y:X", "none"),
    ("HostStore", "x:X", "", "none"),
    ("RemoteLoad", "x:X offset:INT32", "y:X", "none"),
    ("RemoteStore", "x:X offset:INT32", "", "none"),
    ("LossScaleUpdate", "factor:F statistics:UINT32", "y:F", "none"),
    ("AutoLossScaleProxy", "x:F", "y:F", "yes"),
    ("PopartTiedGather", "data:NB indices:INDEX", "y:NB", "yes"),
    ("PopartSparseAccumulate", "accumulator:F gradient:F indices:INDEX", "y:F", "none"),
)

OPERATORS: tuple[Operator, ...] = tuple(
    _operator(row)
    for row in (
        *BY_TYPE.values(),
        *(row_of(type, "", *tensors) for type, *tensors in _INTERNAL),
    )
)
