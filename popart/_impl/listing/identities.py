"""Operators that give back their operand as it is."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Any

from popart._impl.enums import ReductionType
from popart._impl.listing.records import Listing, attributes_of

if TYPE_CHECKING:
    import onnx

_SAME_SHAPE = {"Reshape", "Flatten", "Squeeze", "Unsqueeze", "Expand", "Slice", "Tile", "Pad", "Upsample", "Resize"} | {
    "DynamicSlice",
}
_REDUCTIONS = {"ReduceSum", "ReduceMean", "ReduceMax", "ReduceMin", "ReduceProd", "ReduceMedian"}


def does_nothing(listing: Listing, node: onnx.NodeProto) -> bool:
    """Whether the first result equals the first operand, whatever the values are."""
    if not node.input or not node.output:
        return False
    type, given = node.op_type, attributes_of(node)
    operand, result = listing.type_of(node.input[0]), listing.type_of(node.output[0])
    if type in ("Identity", "Dropout"):
        return type == "Identity" or not listing.is_training or given.get("ratio", 0.5) == 0.0
    if operand != result:
        return False
    if type in ("Cast", *_SAME_SHAPE):
        return True
    if type in _REDUCTIONS:
        return all(operand[1][axis] == 1 for axis in given.get("axes", range(len(operand[1]))))
    return _by_attributes(type, given, node, operand[1])


def _by_attributes(type: str, given: dict[str, Any], node: onnx.NodeProto, shape: tuple[int, ...]) -> bool:
    rank = len(shape)
    if type == "Transpose":
        return list(given.get("perm", range(rank)[::-1])) == list(range(rank))
    if type == "Reverse":
        return not given.get("dimensions")
    if type == "Gather":
        return bool(shape) and shape[given.get("axis", 0)] == 1
    if type in ("Concat", "Sum", "Mean", "Max", "Min"):
        return len(node.input) == 1
    if type == "Scale":
        return math.isclose(given.get("scale", 0.0), 1.0, rel_tol=0.0, abs_tol=0.0)
    if type == "IdentityLoss":
        return given.get("reduction", 1) == ReductionType["NoReduction"].value or not rank
    return False
