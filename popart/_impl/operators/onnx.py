"""The operators of ai.onnx, opsets 6 to 11, that sessions run: the native table (csrc/ops/definition/popart_operators.h)."""

from __future__ import annotations

from ipu_core import _native

from popart._impl.operators.operator import Operator

_N = "UINT8, UINT16, UINT32, UINT64, INT8, INT16, INT32, INT64, FLOAT, FLOAT16"
_NAMES = {
    "F": "FLOAT, FLOAT16",
    "A": "UINT32, UINT64, INT32, INT64, FLOAT, FLOAT16",
    "N": _N,
    "NB": f"{_N}, BOOL",
    "ANY": f"{_N}, BOOL, FLOAT8_143, FLOAT8_152",
    "INDEX": "INT32, INT64",
    "COUNT": "INT64",
    "CASTS": "FLOAT16, FLOAT, UINT8, UINT16, UINT32, INT8, INT16, INT32, BOOL",
}


def _tensors(text: str) -> list[tuple[str, str]]:
    pairs = (tensor.split(":") for tensor in text.split())
    return [(name, _NAMES.get(types, types)) for name, types in pairs]


OPERATORS: tuple[Operator, ...] = tuple(
    Operator(
        "ai.onnx",
        type,
        tuple(map(int, versions.split())),
        how,
        tuple((name.lstrip("!"), types, name.startswith("!")) for name, types in _tensors(operands)),
        tuple(_tensors(results)),
        {name: values or "*" for name, _, values in (pair.partition("=") for pair in attributes.split())},
        gradient,
    )
    for listed, versions, operands, results, gradient, attributes, how in _native.onnx_operators()
    for type in listed.split()
)
