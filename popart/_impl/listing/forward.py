"""The ops that each operator of the model becomes in the forward pass."""

from __future__ import annotations

import math
from collections import Counter
from typing import TYPE_CHECKING, Any

from popart._impl.listing import op_types, products
from popart._impl.listing.identities import does_nothing
from popart._impl.listing.records import Listing, Op, attributes_of, text_of

if TYPE_CHECKING:
    import onnx

_EFFECTS = ("Abort", "PrintTensor", "Loop", "If", "Call")


def own_attributes(node: onnx.NodeProto) -> dict[str, str]:
    """Attributes that the op keeps, as texts."""
    own = {}
    for attribute in node.attribute:
        if attribute.name.startswith("__") or attribute.HasField("t"):
            continue
        if attribute.HasField("g"):
            own["callee"] = attribute.g.name
            continue
        own[attribute.name] = text_of(attributes_of(node)[attribute.name])
    return own


def _is_one(factor: float) -> bool:
    return math.isclose(factor, 1.0, rel_tol=0.0, abs_tol=0.0)


def _leave_alone(listing: Listing) -> None:
    """Anchored constants stay operators, and without enableConstantFoldingOfMultipleConsumers those that follow from a constant
    with several readers. What runs has all of them as constants."""
    readers = Counter(id for node in listing.graph.node for id in node.input)
    several = not listing.options.enableConstantFoldingOfMultipleConsumers
    constants = {id for id, kind in listing.kinds.items() if kind == "constant"}
    for node in listing.graph.node:
        read = constants.intersection(node.input) if several and node.op_type != "Constant" else set()
        is_left = any(readers[id] > 1 or listing.kinds[id] != "constant" for id in read)
        if is_left or node.op_type != "Constant" and listing.anchored & constants.intersection(node.output):
            listing.kinds.update(dict.fromkeys(node.output, "result"))


def needed(listing: Listing) -> list[onnx.NodeProto]:
    """Operators that somebody reads and that are no constants of the program, in their order."""
    wanted = {id.removeprefix("Gradient___") for id in listing.anchored} | {listing.source.loss}
    _leave_alone(listing)
    left = []
    for node in reversed(listing.graph.node):
        if (
            bool(node.output)
            and all(listing.kinds.get(id) == "constant" for id in node.output)
            or not (wanted & set(node.output) or node.op_type in _EFFECTS)
        ):
            continue
        left.append(node)
        wanted.update(node.input)
        for attribute in node.attribute:
            if attribute.HasField("g"):
                wanted.update(id for inner in attribute.g.node for id in inner.input)
    return left[::-1]


def add_graded(listing: Listing, nodes: list[onnx.NodeProto]) -> None:
    """Tensors between one with a gradient and the loss have gradients too, also where the device computes none of its own."""
    reached = set(listing.graded)
    through = [node for node in nodes if node.op_type != "Detach"]
    for node in through:
        if reached & set(node.input):
            reached.update(id for id in node.output if listing.type_of(id)[0].startswith(("FLOAT", "DOUBLE")))
    wanted = {listing.source.loss}
    for node in reversed(through):
        if wanted & reached & set(node.output):
            wanted.update(reached & set(node.input))
    listing.graded.update(wanted & reached)


class Forward:
    """Lowers operators one after another into the listing."""

    def __init__(self, listing: Listing) -> None:
        self.listing = listing

    def lower(self, node: onnx.NodeProto) -> None:
        listing, begin = self.listing, len(self.listing.ops)
        if does_nothing(listing, node) and self._as_identity(node):
            self._mark(begin, node)
            return
        type = op_types.FORWARD.get(node.op_type, node.op_type)
        type = "Upsample" if node.op_type == "Upsample" and not listing.enabled("UpsampleToResize") else type
        special = getattr(self, f"_{type.lower()}", None)
        if special is not None:
            special(node)
        elif type in op_types.COMPOSED and (type != "Cosh" or listing.enabled("CoshOp")):
            self._chain(op_types.COMPOSED[type], node)
        else:
            listing.add(self._renamed(type, node), list(node.input), list(node.output), node, own=own_attributes(node))
        self._mark(begin, node)

    def _mark(self, begin: int, node: onnx.NodeProto) -> None:
        """Says of the new ops that they are forward, and of their tensors whether they have gradients."""
        listing = self.listing
        has_gradient = any(id in listing.graded for id in node.output)
        for op in listing.ops[begin:]:
            op.is_forward = True
            if has_gradient and any(id in listing.graded for id in op.inputs):
                listing.graded.update(id for id in op.outputs if listing.type_of(id)[0].startswith(("FLOAT", "DOUBLE")))

    def _as_identity(self, node: onnx.NodeProto) -> bool:
        listing = self.listing
        excluded = frozenset(item.decode() for item in attributes_of(node).get("__exclude_patterns", []))
        if node.op_type not in ("Identity",) and not listing.enabled("OpToIdentity", excluded):
            return False
        result = node.output[0]
        if listing.enabled("PostNRepl", excluded) and result not in listing.anchored and result != listing.source.loss:
            listing.alias[result] = node.input[0]
            return True
        listing.add("Identity", [node.input[0]], [result], node, identity_of=node.op_type)
        return True

    def _renamed(self, type: str, node: onnx.NodeProto) -> str:
        """The type after patterns that rename."""
        listing, given = self.listing, attributes_of(node)
        if type == "Sum" and len(node.input) == 2 and listing.enabled("SumToAdd"):
            return "Add"
        if type == "Scale" and math.isclose(given.get("scale", 0.0), -1.0) and listing.enabled("NegativeOneScale"):
            return "Neg"
        for written, made, pattern in (
            ("RandomNormalLike", "RandomNormal", "RandomNormalLikeOpPattern"),
            ("RandomUniformLike", "RandomUniform", "RandomUniformLikeOpPattern"),
            ("ZerosLike", "Zeros", "ZerosLikeOpPattern"),
            ("Scan", "Loop", "ScanToLoop"),
        ):
            if type == written:
                return made if listing.enabled(pattern) else type
        if type == "Transpose" and listing.enabled("TransposeToIdentityOrReshapePattern"):
            shape = listing.shape(node.input[0])
            moved = [axis for axis in given.get("perm", range(len(shape))[::-1]) if shape[axis] != 1]
            return "Reshape" if moved == sorted(moved) else type
        return type

    def _chain(self, types: tuple[str, ...], node: onnx.NodeProto) -> None:
        """Ops one after another, each on the result of the last."""
        listing, value = self.listing, node.input[0]
        for i, type in enumerate(types):
            is_last = i == len(types) - 1
            result = node.output[0] if is_last else listing.between(node.output[0], node.output[0])
            operands = [value, *(node.input[1:] if is_last else ())]
            listing.add(type, operands, [result], node, own=own_attributes(node) if i == 0 else {})
            value = result

    # --- operators that become several ops
    def _matmul(self, node: onnx.NodeProto) -> None:
        products.matmul(self.listing, node, node.input[0], node.input[1], node.output[0])

    def _gemm(self, node: onnx.NodeProto) -> None:
        listing, given, result = self.listing, attributes_of(node), node.output[0]
        sides = []
        for id, key in zip(node.input[:2], ("transA", "transB")):
            if given.get(key, 0):
                turned = listing.between(id, id, listing.shape(id)[::-1])
                listing.add("Transpose", [id], [turned], node, own={"perm": "[1 0]"})
                id = turned
            sides.append(id)
        factor, has_bias = given.get("alpha", 1.0), len(node.input) > 2 and bool(node.input[2])
        if not has_bias and _is_one(factor):
            products.matmul(listing, node, sides[0], sides[1], result)
            return
        product = listing.between(result, result)
        products.matmul(listing, node, sides[0], sides[1], product)
        if not has_bias:
            listing.add("Scale", [product], [result], node, own={"scale": text_of(factor)})
            return
        product = self._scaled(node, product, factor)
        bias = self._scaled(node, node.input[2], given.get("beta", 1.0))
        listing.add("Add", [product, bias], [result], node)

    def _scaled(self, node: onnx.NodeProto, id: str, factor: float) -> str:
        if _is_one(factor):
            return id
        scaled = self.listing.between(id, id)
        self.listing.add("Scale", [id], [scaled], node, own={"scale": text_of(factor)})
        return scaled

    def _conv(self, node: onnx.NodeProto) -> None:
        self._biased("Conv", node)

    def _convtranspose(self, node: onnx.NodeProto) -> None:
        self._biased("ConvTranspose", node)

    def _biased(self, type: str, node: onnx.NodeProto) -> None:
        listing, result, weights = self.listing, node.output[0], node.input[1]
        has_bias = len(node.input) > 2 and bool(node.input[2])
        product = listing.between(result, result) if has_bias else result
        own = own_attributes(node)
        if type == "ConvTranspose" and listing.enabled("ConvTranspose"):
            flipped = listing.between(weights, weights)
            listing.add("ConvFlipWeights", [weights], [flipped], node)
            type, weights = "Conv", flipped
        listing.add(type, [node.input[0], weights], [product], node, own=own)
        if has_bias:
            listing.add("AddBias", [product, node.input[2]], [result], node)

    def _split(self, node: onnx.NodeProto) -> None:
        listing, given, operand = self.listing, attributes_of(node), node.input[0]
        if not listing.enabled("SplitOp"):
            listing.add("Split", [operand], list(node.output), node, own=own_attributes(node))
            return
        axis, begin = given.get("axis", 0), 0
        for result in node.output:
            end = begin + listing.shape(result)[axis]
            own = {"starts": f"[{begin}]", "ends": f"[{end}]", "axes": f"[{axis}]"}
            listing.add("Slice", [operand], [result], node, own=own)
            begin = end


def add_bodies(listing: Listing, nodes: Any, graphs: dict[str, list[Op]]) -> None:
    """Adds graphs of loops, branches and calls."""
    for node in nodes:
        for attribute in node.attribute:
            if not attribute.HasField("g"):
                continue
            body = attribute.g
            base = body.name or f"{node.op_type.lower()}"
            name = body.name or f"{base}_subgraph({listing.number()})"
            if name in graphs:
                continue
            ops, listing.ops = listing.ops, []
            for inner in body.node:
                if inner.op_type != "Constant":
                    type = op_types.FORWARD.get(inner.op_type, inner.op_type)
                    inputs, outputs = (
                        [f"{name}/{id}" if id else "" for id in ids] for ids in (inner.input, inner.output)
                    )
                    listing.add(type, inputs, outputs, inner, own=own_attributes(inner), context="Subgraph", scope=name)
            graphs[name], listing.ops = listing.ops, ops
            add_bodies(listing, body.node, graphs)
