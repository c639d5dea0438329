"""Windows of convolutions and pools: as many numbers as the data have spatial dimensions, and room for the window. Pads: two
for each dimension."""

from __future__ import annotations

from typing import Any

import onnx

from popart._impl.builder import protos
from popart._impl.builder.graph_view import GraphView
from popart._impl.exceptions import popart_exception

_CONVOLUTIONS = ("Conv", "ConvTranspose", "ConvInteger", "QLinearConv")
_POOLS = ("MaxPool", "AveragePool", "LpPool")


def check_window(core: GraphView, node: onnx.NodeProto) -> None:
    """Raises popart_exception for a node whose window or pads cannot be right, whatever the data are."""
    if not node.domain and node.op_type == "Pad":
        return _check_pads(core, node)
    if node.domain or node.op_type not in _CONVOLUTIONS + _POOLS:
        return
    values = protos.values_of(node)
    data = _sizes(core, node.input[0])
    weights = (
        _sizes(core, node.input[{"QLinearConv": 3}.get(node.op_type, 1)]) if node.op_type in _CONVOLUTIONS else None
    )
    rank = len(data) - 2 if data is not None else len(weights) - 2 if weights is not None else None
    _check_lengths(node.op_type, values, rank)
    kernel = values.get("kernel_shape") or (weights[2:] if weights is not None else None)
    if (
        weights is not None
        and values.get("kernel_shape")
        and None not in weights
        and list(values["kernel_shape"]) != weights[2:]
    ):
        raise popart_exception(
            f"{node.op_type}: kernel_shape is {values['kernel_shape']}, but the weights '{node.input[1]}' have shape {weights}"
        )
    for name in ("strides", "dilations", "kernel_shape"):
        if any(value < 1 for value in values.get(name, ())):
            raise popart_exception(f"{node.op_type}: {name} is {values[name]}; each number must be at least 1")
    if data is None or kernel is None or rank is None or len(kernel) != rank or None in data or None in kernel:
        return
    if node.op_type != "ConvTranspose":
        _check_room(node, values, data, kernel)


def _check_pads(core: GraphView, node: onnx.NodeProto) -> None:
    data, pads = _sizes(core, node.input[0]), protos.values_of(node).get("pads")
    if data is not None and pads is not None and len(pads) != 2 * len(data):
        raise popart_exception(
            f"Pad: pads is {list(pads)}, but 2 numbers are needed for each of the {len(data)} dimensions of '{node.input[0]}'"
        )


def _sizes(core: GraphView, id: str) -> list[Any] | None:
    type_ = core.type_of(id)
    return None if type_ is None else protos.shape_of(type_)


def _check_lengths(op_type: str, values: dict[str, Any], rank: int | None) -> None:
    if rank is not None and rank < 1:
        raise popart_exception(
            f"{op_type}: its data have {rank + 2} dimensions; a window needs at least one besides the first two"
        )
    spatial = rank if rank is not None else len(values["kernel_shape"]) if values.get("kernel_shape") else None
    for name, each in (("strides", 1), ("dilations", 1), ("kernel_shape", 1), ("output_padding", 1), ("pads", 2)):
        if spatial is not None and values.get(name) and len(values[name]) != each * spatial:
            raise popart_exception(
                f"{op_type}: {name} is {values[name]}, but {each * spatial} numbers are needed for {spatial} spatial dimensions"
            )


def _check_room(node: onnx.NodeProto, values: dict[str, Any], data: list[int], kernel: list[int]) -> None:
    rank = len(kernel)
    pads = values.get("pads") or [0] * 2 * rank
    dilations = values.get("dilations") or [1] * rank
    if values.get("auto_pad", "NOTSET") in ("SAME_UPPER", "SAME_LOWER"):
        return
    for axis in range(rank):
        size = data[axis + 2] + pads[axis] + pads[axis + rank]
        window = dilations[axis] * (kernel[axis] - 1) + 1
        if window > size:
            raise popart_exception(
                f"{node.op_type}: a window of {window} does not fit into dimension {axis + 2} of '{node.input[0]}', which has {data[axis + 2]} "
                f"elements and {pads[axis]} + {pads[axis + rank]} of padding"
            )
