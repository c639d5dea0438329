"""What sessions run and the ONNX checker refuses: shown to the checker as what it takes."""

from __future__ import annotations

import onnx

_SINCE_OPSET_11 = (
    "coordinate_transformation_mode",
    "nearest_mode",
    "cubic_coeff_a",
    "exclude_outside",
    "extrapolation_value",
)
# Deprecated operators that still run in the opset that deprecates them: the operator that took their place.
_SUCCESSORS = {("Scatter", 11): "ScatterElements", ("Upsample", 10): "Resize", ("Upsample", 11): "Resize"}


def apply(graph: onnx.GraphProto, opset: int) -> None:
    """Changes nodes of a copy that is made for the checker alone: deprecated operators, operands of Resize that are left out,
    attributes that Resize of opset 10 takes from opset 11, and Abort without an operand, which has no result either.
    """
    aborts = [node for node in graph.node if node.domain == "ai.graphcore" and not node.input and not node.output]
    for node in aborts:
        if node.op_type == "Abort":
            graph.node.remove(node)
    for node in graph.node:
        if _is_onnx(node):
            _change(node, opset)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                apply(attribute.g, opset)


def _is_onnx(node: onnx.NodeProto) -> bool:
    return node.domain in ("", "ai.onnx")


def _change(node: onnx.NodeProto, opset: int) -> None:
    is_upsample = node.op_type == "Upsample"
    node.op_type = _SUCCESSORS.get((node.op_type, opset), node.op_type)
    if node.op_type != "Resize":
        return
    if opset >= 11:
        if is_upsample and len(node.input) == 2:
            node.input.insert(1, node.input[0])
        for place, name in enumerate(node.input):
            if not name:
                node.input[place] = node.input[0]
    elif opset == 10:
        for attribute in [a for a in node.attribute if a.name in _SINCE_OPSET_11]:
            node.attribute.remove(attribute)
