"""Gradient ops of the forward ops, from the last to the first, as patterns leave them."""

from __future__ import annotations

import re
from collections import defaultdict

from popart._impl.enums import ReductionType
from popart._impl.listing import op_types, products
from popart._impl.listing.records import GRADIENT, Listing, Op

_NOT_IN_NAMES = re.compile(r"[^\w.$/-]", re.ASCII)  # of values of a program
_JOINT = {"MatMulLhsGrad": "1", "MatMulRhsGrad": "2"}


class Backward:
    def __init__(self, listing: Listing) -> None:
        self.listing = listing
        self.forward = list(listing.ops)
        self.makers = {id: op for op in self.forward for id in op.outputs}
        self.edges: dict[str, list[str]] = defaultdict(list)  # gradients of a tensor along edges, not yet summed
        self.readers: dict[str, int] = defaultdict(int)
        self.reached = {listing.source.loss}  # tensors whose gradient somebody makes
        for op in self.forward:
            if any(id in listing.graded for id in op.outputs):
                for id in op.inputs:
                    self.readers[id] += id in listing.graded

    def make(self) -> None:
        for op in reversed(self.forward):
            self._differentiate(op)
        for id in list(self.edges):
            self._sum(id)

    def _differentiate(self, op: Op) -> None:
        listing = self.listing
        results = [id for id in op.outputs if id in listing.graded and id in self.reached]
        indices = [i for i, id in enumerate(op.inputs) if id in listing.graded]
        for id in results:
            self._sum(id)
        if not results or not indices or op.type in ("HostLoad", "Init"):
            return
        if op.type in ("MatMul",):
            # Of rows in pieces the gradient of the right operand, which is summed, comes first.
            for i in reversed(indices) if products.mode_of(op.node) == "input_channels" else indices:
                self._product(op, i, results[0])
            return
        for type, targets in self._gradient_types(op, indices):
            self._gradient_op(op, type, targets, results)

    def _sum(self, id: str) -> None:
        """The complete gradient of a tensor, of those along its edges."""
        listing, edges = self.listing, self.edges.pop(id, [])
        if not edges:
            return
        target = listing.make(GRADIENT + id, id)
        maker = self.makers.get(id, listing.ops[-1])  # where the machine adds them, too
        name = f"GradSum_{id}"
        if not self._keeps_precision(edges):
            self._add_up(edges, target, maker, name, id)
            return
        for edge in edges:
            listing.types[edge] = ("FLOAT", listing.shape(edge))
        wide = listing.between(target, edges[0])
        self._add_up(edges, wide, maker, name, id)
        listing.add("Cast", [wide], [target], maker)

    def _keeps_precision(self, edges: list[str]) -> bool:
        """Whether these are pieces of a product whose sum is FLOAT."""
        if len(edges) < 2:
            return False
        piece = next((op for op in reversed(self.listing.ops) if edges[-1] in op.outputs), None)
        is_product = piece is not None and piece.type.startswith("MatMul")
        return is_product and products.keeps_precision(self.listing, piece.node if piece is not None else None)

    def _add_up(self, edges: list[str], target: str, maker: Op, name: str, id: str) -> None:
        listing = self.listing
        if len(edges) == 2 and listing.enabled("SumToAdd"):
            listing.add("Add", edges, [target], maker, name=name)
        elif not listing.options.decomposeGradSum:
            listing.add("Sum", edges, [target], maker, name=name)
        else:
            value = edges[0]
            for i, edge in enumerate(edges[1:], 2):
                total = target if i == len(edges) else listing.between(target, target)
                listing.add("Add", [value, edge], [total], maker, name=name)
                value = total

    def _edge(self, id: str, index: int) -> str:
        self.reached.add(id)
        if self.readers[id] <= 1:
            return self.listing.make(GRADIENT + id, id)
        edge = self.listing.make(f"{GRADIENT}{self.listing.number()}_{index}", id)
        self.edges[id].append(edge)
        return edge

    def _gradient_types(self, op: Op, indices: list[int]) -> list[tuple[str, list[int]]]:
        type = op.identity_of or op.type
        if op.identity_of:
            return [("IdentityGrad", indices[:1])]
        if type in ("AddBias",):
            return [("Identity" if i == 0 else "AddBiasBiasGrad", [i]) for i in indices]
        if type in op_types.BY_OPERAND:
            names = op_types.BY_OPERAND[type]
            return [(names[i] if i < len(names) and names[i] else f"{type}Grad", [i]) for i in indices]
        if type in op_types.EACH_OPERAND:
            return [(op_types.EACH_OPERAND[type], [i]) for i in indices]
        if type == "LSTM" and op.node is not None and op.node.domain == "ai.graphcore":
            return [("PopartLSTMGrad", indices)]
        if type == "PopartTiedGather":
            return [("TiedGatherGrad", indices[:1])]
        return [(f"{type}Grad", indices)]

    def _reads(self, op: Op) -> list[str]:
        """What gradient ops of the operator read of its operands and results where it runs. A tensor inside of an operator
        stands for the one that it was made from."""
        if op.type in op_types.LINEAR:
            return []
        if index := [id for id in op.inputs if id.startswith("BatchSerialisationIndex___")]:
            return index
        names = self.listing.machine.gradient_reads.get(self.listing.node_of(op))
        if not names:
            return []
        read = {self.listing.read(id) for id in names}

        def is_kept(id: str) -> bool:
            name = id.partition("__bs")[0]
            return name in read or _NOT_IN_NAMES.sub("_", name) in read

        def is_read(id: str) -> bool:
            if is_kept(id):
                return True
            maker = self.makers.get(id)
            if maker is None or maker.node is None or id in maker.node.output and not maker.identity_of:
                return False
            return len(maker.inputs) == 1 and is_read(maker.inputs[0])

        inputs = [id for id in op.inputs if is_read(id)]
        return inputs + [id for id in op.outputs if is_kept(id) and id not in inputs]

    def _gradient_op(self, op: Op, type: str, targets: list[int], results: list[str]) -> None:
        listing = self.listing
        read = [GRADIENT + id for id in results]
        if self._is_plain_copy(op, type, targets):
            self._pass_on(op, type, targets[0], read[0])
            return
        if type == "SoftmaxGrad" and self._direct(op, read):
            return
        made = [self._edge(op.inputs[i], i) for i in targets]
        pattern, types = op_types.SUBSTITUTED.get(type, ("", (type,)))
        if pattern and not listing.enabled(pattern, op.excluded):
            types = (type,)
        if (
            types != (type,)
            and listing.shape(made[0]) != listing.shape(results[0])
            and types[-1] not in ("Concat", "Conv")
        ):
            types = (*types, "ReduceSum")
        value = [*read, *self._reads(op)]
        own = dict(op.own) if types == (type,) else {}
        for i, each in enumerate(types):
            is_last = i == len(types) - 1
            outputs = (
                made if is_last else [listing.between(made[0], made[0] if each == "ConvFlipWeights" else results[0])]
            )
            operands = value[:1] if each in ("Neg", "ReduceSum", "Sign", "Square", "ConvFlipWeights") else value
            listing.add(each, operands, outputs, op, own=own)
            value = [*outputs, *value[1:]]

    def _is_plain_copy(self, op: Op, type: str, targets: list[int]) -> bool:
        """Whether the gradient of the operand is that of the result."""
        listing = self.listing
        same = listing.shape(op.inputs[targets[0]]) == listing.shape(op.outputs[0])
        if type in ("Identity", "IdentityGrad"):
            return True
        return (
            type in ("AddArg0Grad", "AddArg1Grad", "SubArg0Grad")
            and same
            and listing.enabled("OpToIdentity", op.excluded)
        )

    def _pass_on(self, op: Op, type: str, index: int, gradient: str) -> None:
        listing, made = self.listing, self._edge(op.inputs[index], index)
        if listing.enabled("PostNRepl", op.excluded) and made not in listing.anchored:
            listing.alias[made] = gradient
        else:
            listing.add("Identity", [gradient], [made], op, identity_of=type)

    # --- products
    def _product(self, op: Op, index: int, result: str) -> None:
        """MatMulLhsGrad and MatMulRhsGrad: a transpose and a product, unless the pattern is off."""
        listing, gradient = self.listing, GRADIENT + result
        type = ("MatMulLhsGrad", "MatMulRhsGrad")[index]
        other, made = op.inputs[1 - index], self._edge(op.inputs[index], index)
        own = {"fully_connected_pass": _JOINT[type] if op.own.get("fully_connected_pass") == "0" else "-1"}
        if not listing.enabled(type + "Op", op.excluded) or not listing.enabled("MatMulOp"):
            operands = [gradient, other] if index == 0 else [other, gradient]
            listing.add(type, operands, [made], op, own=own)
            return
        shape = listing.shape(other)
        turned = listing.between(other, other, (shape[0], shape[2], shape[1]))
        listing.add("Transpose", [other], [turned], op, own={"perm": "[0 2 1]"})
        operands = [gradient, turned] if index == 0 else [turned, gradient]
        listing.add("MatMul", operands, [made], op, own=own)

    # --- losses on a softmax
    def _direct(self, op: Op, read: list[str]) -> bool:
        """Nll of a softmax has one gradient op for both; true if it was made."""
        listing = self.listing
        last = listing.ops[-1] if listing.ops else None
        if (
            last is None
            or last.type != "NllGrad"
            or last.outputs != read
            or not listing.enabled("SoftmaxGradDirect", op.excluded)
        ):
            return False
        if read[0] in listing.anchored:
            return False
        listing.ops.pop()
        made, loss = self._edge(op.inputs[0], 0), last.inputs[0].removeprefix(GRADIENT)
        labels = last.node.input[1:2] if last.node is not None else []
        operands = [op.outputs[0], *labels, last.inputs[0]]
        is_read = any(loss in other.inputs for other in listing.ops)
        if (
            is_read
            or not listing.enabled("NlllWithSoftmaxGradDirect", op.excluded)
            or last.own.get("reduction") == str(ReductionType["NoReduction"].value)
        ):
            listing.add("SoftmaxGradDirect", operands, [made], op, own=dict(last.own))
            return True
        listing.ops = [other for other in listing.ops if loss not in other.outputs]
        listing.add("NlllWithSoftmaxGradDirect", operands, [loss, made], op, own=dict(last.own))
        return True
