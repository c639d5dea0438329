"""Matrix products: operands of three dimensions, split into pieces where the model says so."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from popart._impl.exceptions import popart_exception
from popart._impl.listing.records import Listing, Shape, attributes_of, text_of

if TYPE_CHECKING:
    import onnx

_SPLIT = {"input_channels": (1, None), "reducing_dim": (2, 1), "output_channels": (None, 2)}  # axes of both operands


def matmul(listing: Listing, node: onnx.NodeProto, left: str, right: str, result: str) -> None:
    """One product, or `factor` of them."""
    joint = listing.is_training and listing.options.enableFullyConnectedPass and node.output[0] not in listing.tied
    own = {"fully_connected_pass": "0" if joint else "-1"}
    if not listing.enabled("MatMulOp"):
        listing.add("MatMul", [left, right], [result], node, own=own)
        return
    left_shape, right_shape = _of_three(listing.shape(left), listing.shape(right))
    operands = [_reshaped(listing, node, left, left_shape), _reshaped(listing, node, right, right_shape)]
    shape = (left_shape[0], left_shape[1], right_shape[2])
    product = result if listing.shape(result) == shape else listing.between(result, result, shape)
    _pieces(listing, node, operands, product, own)
    if product != result:
        listing.add("Reshape", [product], [result], node)


def _of_three(left: Shape, right: Shape) -> tuple[Shape, Shape]:
    """The operands' shapes as [groups, rows, columns]; leading dimensions are rows where the right one has none."""
    left = (1, *left) if len(left) == 1 else left
    right = (*right, 1) if len(right) == 1 else right
    if len(right) == 2 or math.prod(right[:-2]) == 1:
        return (1, math.prod(left[:-1]), left[-1]), (1, *right[-2:])
    depth = max(len(left), len(right)) - 2
    groups = 1
    for a, b in zip((1,) * (depth - len(left) + 2) + left[:-2], (1,) * (depth - len(right) + 2) + right[:-2]):
        groups *= max(a, b)
    return (groups, *left[-2:]), (groups, *right[-2:])


def _reshaped(listing: Listing, node: onnx.NodeProto, id: str, shape: Shape) -> str:
    given = listing.shape(id)
    if given == shape:
        return id
    if math.prod(given) != math.prod(shape):  # of fewer groups than the other operand
        groups = listing.between(id, id, shape)
        listing.add("Expand", [id], [groups], node)
        return groups
    made = listing.between(id, id, shape)
    listing.add("Reshape", [id], [made], node, own={"shape": text_of(shape)})
    return made


def _pieces(listing: Listing, node: onnx.NodeProto, operands: list[str], product: str, own: dict[str, str]) -> None:
    given = attributes_of(node)
    mode, factor = given.get("__serialize_matmul_mode", b"none").decode(), given.get("__serialize_matmul_factor", 0)
    if mode == "none":
        listing.add("MatMul", operands, [product], node, own=own)
        return
    axes = _SPLIT[mode]
    size = next(listing.shape(id)[axis] for id, axis in zip(operands, axes) if axis is not None)
    if factor < 1 or size % factor:
        raise popart_exception(
            f"setSerializeMatMul: the product '{node.output[0]}' is split by '{mode}' into {factor} parts, and the dimension has "
            f"{size} elements: the factor has to divide it"
        )
    if factor == 1:
        listing.add("MatMul", operands, [product], node, own=own)
        return
    step, parts = size // factor, []
    for i in range(factor):
        sides = []
        for id, axis in zip(operands, axes):
            if axis is not None:
                shape = tuple(step if at == axis else n for at, n in enumerate(listing.shape(id)))
                piece = listing.make(f"{id}__s{i * step}_{(i + 1) * step}_{listing.number()}", id, shape)
                bounds = {"starts": f"[{i * step}]", "ends": f"[{(i + 1) * step}]", "axes": f"[{axis}]"}
                listing.add("Slice", [id], [piece], node, own=bounds)
                id = piece
            sides.append(id)
        shape = (listing.shape(sides[0])[0], listing.shape(sides[0])[1], listing.shape(sides[1])[2])
        part = listing.between(product, product, shape)
        listing.add("MatMul", sides, [part], node, own=dict(own))
        parts.append(part)
    if mode != "reducing_dim":
        axis = 1 if mode == "input_channels" else 2
        listing.add("Concat", parts, [product], node, own={"axis": str(axis)})
        return
    keeps, value = keeps_precision(listing, node), parts[0]
    for part in parts if keeps else ():
        listing.types[part] = ("FLOAT", listing.shape(part))
    for i, part in enumerate(parts[1:], 2):
        total = product if i == factor and not keeps else listing.between(product, part)
        listing.add("Add", [value, part], [total], node)
        value = total
    if keeps:
        listing.add("Cast", [value], [product], node)


def mode_of(node: onnx.NodeProto | None) -> str:
    return str(attributes_of(node).get("__serialize_matmul_mode", b"none").decode()) if node is not None else "none"


def keeps_precision(listing: Listing, node: onnx.NodeProto | None) -> bool:
    """Whether pieces of a FLOAT16 product and their sum are FLOAT."""
    given = attributes_of(node) if node is not None else {}
    is_kept = bool(given.get("__serialize_matmul_precision", 0)) and "__serialize_matmul_mode" in given
    partials = given.get("__partials_type", b"FLOAT").decode().upper()
    return is_kept and partials == "FLOAT" and listing.type_of(node.output[0])[0] == "FLOAT16"  # type: ignore[union-attr]
