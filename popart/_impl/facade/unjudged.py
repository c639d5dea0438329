"""Types of outputs of ops whose inputs the native rules refuse: what is made does not depend on whether it can be computed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy

from popart._impl.enums import DataType
from popart._impl.tensor_info import TensorInfo, of_native_number

Types = list[TensorInfo]


def types_of_outputs(op: Any) -> Types | None:
    """By index; None where the inputs do not say them."""
    rule = _RULES.get(op.kind) or _ELEMENTWISE.get(op.getIr().kinds[op.kind].elementwise)
    try:
        return None if rule is None else rule(op)
    except (ValueError, IndexError):
        return None


def _first(op: Any) -> TensorInfo:
    return op.getInputTensors()[0].info


def _shape(op: Any) -> list[int]:
    return list(numpy.broadcast_shapes(*(tuple(tensor.info.shape()) for tensor in op.getInputTensors())))


def _sliced(op: Any) -> Types:
    source = op.inTensor(0).info
    shape = list(source.shape())
    for axis, size in zip(op.attribute("axes", []), op.attribute("sizes", []), strict=True):
        shape[axis] = size
    return [TensorInfo(source.dataType(), shape)]


def _drawn(op: Any) -> Types:
    return [TensorInfo(of_native_number(op.attribute("dataType", 0)), list(op.attribute("shape", [])))]


def _dropped(op: Any) -> Types:
    info = op.inTensor(0).info
    return [info, TensorInfo(DataType.BOOL, info.shape())]


def _of_body(op: Any) -> Types:
    """What the body of a loop gives, but whether the loop goes on."""
    body = op.getCalledGraphs()[0]
    return [body.getTensor(id).info for id in body.getOutputIds()[1:]]


_ELEMENTWISE: dict[str, Callable[[Any], Types]] = {
    "booleans": lambda op: [TensorInfo(DataType.BOOL, _shape(op))],
    "numbers": lambda op: [TensorInfo(_first(op).dataType(), _shape(op))],
}
_RULES: dict[str, Callable[[Any], Types]] = {
    **dict.fromkeys(("DynamicUpdate", "DynamicUpdateInplace"), lambda op: [op.inTensor(0).info]),
    **dict.fromkeys(("RandomNormal", "RandomUniform"), _drawn),
    **dict.fromkeys(("Dropout", "ShapedDropout"), _dropped),
    "DynamicSlice": _sliced,
    "Loop": _of_body,
}
