"""Batch serialisation: neighbouring operators run on one part of the batch before the next."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from popart._impl.enums import BatchSerializationMethod
from popart._impl.listing import op_types
from popart._impl.listing.records import Listing, attributes_of

if TYPE_CHECKING:
    import onnx

# Operators of one result that work through the first dimension of their first operand row by row; others are whole for each part.
_BY_ROW = {
    "AveragePool", "BatchNormalization", "Conv", "Flatten", "GlobalAveragePool", "GlobalMaxPool", "GroupNormalization", "MatMul", "MaxPool",
}  # fmt: skip
_ELEMENTWISE = op_types.FUNCTIONS | {
    "Add", "Cast", "Div", "Identity", "Max", "Min", "Mul", "Pow", "Reciprocal", "Square", "Sub", "Sum", "Where",
}  # fmt: skip
_ALONG_AXIS = {"Softmax": 1, "LogSoftmax": 1}  # and their default axis
_ALONG_AXES = {
    "ReduceMean",
    "ReduceSum",
    "ReduceMax",
    "ReduceMin",
    "ReduceProd",
    "ReduceL1",
    "ReduceL2",
    "ReduceSumSquare",
}
_Place = tuple[object, ...]


def unroll(listing: Listing, nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The operators with those of the batch once for each part, slices before them and what joins their results behind them."""
    if int(listing.options.batchSerializationSettings.factor) < 2:
        return nodes
    return _Unrolling(listing, nodes).run()


class _Unrolling:
    def __init__(self, listing: Listing, nodes: list[onnx.NodeProto]) -> None:
        self.listing, self.nodes = listing, nodes
        self.settings = listing.options.batchSerializationSettings
        self.count = int(self.settings.factor)
        inputs = [id for id in listing.source.program.inputs if self._can_cut(id)]
        self.batch = {listing.shape(id)[0] for id in inputs}
        self.cut = set(inputs)  # tensors that have parts, or of which parts can be taken
        self.sliced: set[str] = set()
        self.out: list[onnx.NodeProto] = []

    def run(self) -> list[onnx.NodeProto]:
        run: list[onnx.NodeProto] = []
        for at, node in enumerate(self.nodes):
            if self._is_cut(node) and (not run or self._goes_on(run[-1], node)):
                run.append(node)
                self.cut.update(node.output)
                continue
            self._flush(run, at)
            run = []
            if self._is_cut(node):
                run = [node]
                self.cut.update(node.output)
            else:
                self.out.append(node)
        self._flush(run, len(self.nodes))
        return self.out

    def _can_cut(self, id: str) -> bool:
        shape = self.listing.shape(id)
        return bool(shape) and shape[0] >= self.count and shape[0] % self.count == 0

    def _is_cut(self, node: onnx.NodeProto) -> bool:
        """Whether the operator on parts of its operands gives parts of its result."""
        listing, result = self.listing, node.output[0] if node.output else ""
        if not result or not self._can_cut(result) or listing.shape(result)[0] not in self.batch:
            return False
        operands = [id for id in node.input if id]
        if not operands or not any(id in self.cut for id in operands):
            return False
        if node.op_type in _ELEMENTWISE:
            rank = len(listing.shape(result))
            return all(
                id in self.cut or len(listing.shape(id)) < rank or listing.shape(id)[0] == 1 for id in operands
            ) and all(len(listing.shape(id)) == rank for id in operands if id in self.cut)
        if operands[0] not in self.cut or any(id in self.cut for id in operands[1:]):
            return False
        given = attributes_of(node)
        if node.op_type in _ALONG_AXIS:
            return bool(given.get("axis", _ALONG_AXIS[node.op_type]) != 0)
        if node.op_type in _ALONG_AXES:
            return bool(given.get("axes")) and 0 not in given["axes"]
        if node.op_type == "Transpose":
            return bool(given.get("perm", (1,))[0] == 0)
        return node.op_type in _BY_ROW and given.get("axis", 1) == 1

    def _place(self, node: onnx.NodeProto) -> _Place:
        given, settings = self.listing.places.get(node.output[0], (0, 0, 0)), self.settings
        joins = (
            settings.concatOnVirtualGraphChange,
            settings.concatOnPipelineStageChange,
            settings.concatOnExecutionPhaseChange,
        )
        return tuple(where for where, join in zip(given, joins) if join)

    def _goes_on(self, last: onnx.NodeProto, node: onnx.NodeProto) -> bool:
        return self._place(last) == self._place(node)

    def _flush(self, run: list[onnx.NodeProto], at: int) -> None:
        """Adds a stretch of operators, part after part, and joins what others read."""
        if not run:
            return
        made = {id for node in run for id in node.output}
        read = dict.fromkeys(id for node in run for id in node.input if id in self.cut and id not in made)
        for part in range(self.count):
            for id in read:
                if (name := self._part(id, part)) not in self.sliced:
                    self.sliced.add(name)
                    self._slice(run[0], id, part)
            for node in run:
                self.out.append(self._copy(node, made | read.keys(), part))
        self.sliced.update(self._part(id, part) for id in made for part in range(self.count))
        kept = self.listing.anchored | self.listing.losses | {id for node in self.nodes[at:] for id in node.input}
        for node in run:
            for id in node.output:
                if id in kept:
                    self._join(node, id)

    def _part(self, id: str, part: int) -> str:
        return f"{id}__bs{part}"

    def _declare(self, id: str, part: int) -> str:
        listing = self.listing
        shape = listing.shape(id)
        name = listing.make(self._part(id, part), id, (shape[0] // self.count, *shape[1:]))
        if id in listing.graded:
            listing.graded.add(name)
        return name

    def _copy(self, node: onnx.NodeProto, cut: Iterable[str], part: int) -> onnx.NodeProto:
        made = type(node)()
        made.CopyFrom(node)
        cut = set(cut)
        made.input[:] = [self._declare(id, part) if id in cut else id for id in node.input]
        made.output[:] = [self._declare(id, part) for id in node.output]
        for id in made.output:
            self._stand(id, node)
        return made

    def _stand(self, id: str, like: onnx.NodeProto) -> None:
        """What makes a tensor stands where an operator of the model does, and is a part of it."""
        self.listing.places[id] = self.listing.places.get(like.output[0], (0, 0, 0))
        self.listing.parts[id] = like.output[0]

    def _made(self, like: onnx.NodeProto, type_: str, inputs: list[str], output: str, **attributes: Any) -> None:
        import onnx.helper

        self._stand(output, like)
        node = onnx.helper.make_node(type_, inputs, [output], **attributes)
        node.attribute.extend(
            each for each in like.attribute if each.name in ("__ipu_number", "__pipeline_stage", "__execution_phase")
        )
        self.out.append(node)

    @property
    def _is_static(self) -> bool:
        return self.settings.method is BatchSerializationMethod["UnrollStatic"]

    def _slice(self, like: onnx.NodeProto, id: str, part: int) -> None:
        size = self.listing.shape(id)[0] // self.count
        name = self._declare(id, part)
        if self._is_static:
            self._made(like, "Slice", [id], name, starts=[part * size], ends=[(part + 1) * size], axes=[0])
        else:
            self._made(like, "DynamicSlice", [id, self._index(part * size)], name, axes=[0], sizes=[size])

    def _index(self, value: int) -> str:
        name = f"BatchSerialisationIndex___{value}"
        self.listing.types[name], self.listing.kinds[name] = ("UINT32", (1,)), "constant"
        return name

    def _join(self, node: onnx.NodeProto, id: str) -> None:
        parts = [self._part(id, part) for part in range(self.count)]
        if self._is_static:
            self._made(node, "Concat", parts, id, axis=0)
            return
        listing, size = self.listing, self.listing.shape(id)[0] // self.count
        whole = listing.between(id, id)
        self._made(node, "Init", [], whole)
        for i, part in enumerate(parts):
            result = id if i == self.count - 1 else listing.between(id, id)
            if id in listing.graded:
                listing.graded.add(result)
            self._made(node, "DynamicUpdate", [whole, self._index(i * size), part], result, axes=[0], sizes=[size])
            whole = result
