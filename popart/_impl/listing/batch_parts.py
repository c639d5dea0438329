"""Batch serialisation: neighbouring operators run on one part of the batch before the next, as the program has them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from popart._impl.enums import BatchSerializationMethod
from popart._impl.listing.records import Listing, attributes_of

if TYPE_CHECKING:
    import onnx


def unroll(listing: Listing, nodes: list[onnx.NodeProto]) -> list[onnx.NodeProto]:
    """The operators with those of the batch once for each part, slices before them and what joins their results behind them."""
    runs, axes = listing.source.program.batch()
    if not runs:
        return nodes
    number = {id: i for i, (results, _) in enumerate(runs) for id in results}
    gone = listing.source.program.gone()
    for node in reversed(nodes):  # the program has no transpose that a product reads through: it goes with the product
        if node.op_type == "Transpose" and node.output[0] in gone and node.input[0] in axes:
            result, rank = node.output[0], len(listing.shape(node.input[0]))
            runs_of_readers = [
                number[each.output[0]] for each in nodes if result in each.input and each.output[0] in number
            ]
            if runs_of_readers:
                axes[result] = list(attributes_of(node).get("perm", range(rank)[::-1])).index(axes[node.input[0]])
                number[result] = runs_of_readers[0]
    run_of = [number.get(node.output[0]) if node.output else None for node in nodes]
    kept = {id for node, run in zip(nodes, run_of) if run is None for id in node.input}
    kept.update(listing.anchored, listing.losses, *(whole for _, whole in runs))
    unrolling = _Unrolling(listing, axes, kept)
    last = {run: at for at, run in enumerate(run_of)}
    for at, (node, run) in enumerate(zip(nodes, run_of)):
        if run is None:
            unrolling.out.append(node)
        elif last[run] == at:
            unrolling.add([each for each, other in zip(nodes, run_of) if other == run], runs[run][1])
    return unrolling.out


class _Unrolling:
    def __init__(self, listing: Listing, axes: dict[str, int], kept: set[str]) -> None:
        self.listing, self.axes, self.kept = listing, axes, kept
        self.settings = listing.options.batchSerializationSettings
        self.count = int(self.settings.factor)
        self.sliced: set[str] = set()
        self.out: list[onnx.NodeProto] = []

    def add(self, run: list[onnx.NodeProto], whole: set[str]) -> None:
        """Adds operators, part after part, with slices of what they read of whole tensors, and joins what is kept whole."""
        made = {id for node in run for id in node.output}
        read = dict.fromkeys(id for node in run for id in node.input if id in whole)
        for part in range(self.count):
            for id in read:
                if (name := self._part(id, part)) not in self.sliced:
                    self.sliced.add(name)
                    self._slice(run[0], id, part)
            for node in run:
                self.out.append(self._copy(node, part))
        self.sliced.update(self._part(id, part) for id in made for part in range(self.count))
        for node in run:
            for id in node.output:
                if id in self.kept:
                    self._join(node, id)

    def _part(self, id: str, part: int) -> str:
        return f"{id}__bs{part}"

    def _declare(self, id: str, part: int) -> str:
        listing, axis = self.listing, self.axes.get(id, 0)
        sizes = list(listing.shape(id))
        sizes[axis] //= self.count
        name = listing.make(self._part(id, part), id, tuple(sizes))
        if id in listing.graded:
            listing.graded.add(name)
        return name

    def _copy(self, node: onnx.NodeProto, part: int) -> onnx.NodeProto:
        made = type(node)()
        made.CopyFrom(node)
        made.input[:] = [self._declare(id, part) if id in self.axes else id for id in node.input]
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
        axis, name = self.axes[id], self._declare(id, part)
        size = self.listing.shape(name)[axis]
        if self._is_static:
            self._made(like, "Slice", [id], name, starts=[part * size], ends=[(part + 1) * size], axes=[axis])
        else:
            self._made(like, "DynamicSlice", [id, self._index(part * size)], name, axes=[axis], sizes=[size])

    def _index(self, value: int) -> str:
        name = f"BatchSerialisationIndex___{value}"
        self.listing.types[name], self.listing.kinds[name] = ("UINT32", (1,)), "constant"
        return name

    def _join(self, node: onnx.NodeProto, id: str) -> None:
        listing, axis, parts = self.listing, self.axes.get(id, 0), [self._part(id, part) for part in range(self.count)]
        if self._is_static:
            self._made(node, "Concat", parts, id, axis=axis)
            return
        size = listing.shape(parts[0])[axis]
        whole = listing.between(id, id)
        self._made(node, "Init", [], whole)
        for i, part in enumerate(parts):
            result = id if i == self.count - 1 else listing.between(id, id)
            if id in listing.graded:
                listing.graded.add(result)
            self._made(node, "DynamicUpdate", [whole, self._index(i * size), part], result, axes=[axis], sizes=[size])
            whole = result
