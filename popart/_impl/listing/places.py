"""Where and when ops run: stages of gradients, copies between virtual graphs, stashes of pipelines, streams, recomputation."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from popart._impl.builder.metadata import input_settings
from popart._impl.enums import RecomputationType, TileSet
from popart._impl.exceptions import popart_exception
from popart._impl.listing import op_types
from popart._impl.listing.records import Listing, Op, attributes_of
from popart._impl.option_values import is_explicit

if TYPE_CHECKING:
    import onnx


def place_backward(listing: Listing) -> None:
    """Gradient ops of stage s run in stage 2(P - 1) - s, those of phase p in phase 2P - 2 - p."""
    forward = [op for op in listing.ops if op.is_forward]
    last = [max((op.place[i] or 0 for op in forward), default=0) for i in (1, 2)]
    for op in listing.ops:
        if not op.is_forward:
            virtual_graph, stage, phase = op.place
            op.place = (
                virtual_graph,
                None if stage is None else 2 * last[0] - stage,
                None if phase is None else 2 * last[1] - phase,
            )


def add_copies(listing: Listing) -> None:
    """An op reads what another virtual graph made from `<t>_c<g>`, which one IpuCopy makes."""
    home: dict[str, tuple[int | None, int | None, int | None]] = {}
    for op in listing.ops:
        home.update((id, op.place) for id in op.outputs)
    for op in listing.ops:
        for id in op.inputs:
            home.setdefault(id, op.place)
    copied, ops = set(), []
    for op in listing.ops:
        here = op.place[0]
        for i, id in enumerate(op.inputs):
            there = home.get(id, op.place)
            if not id or here is None or there[0] is None or there[0] == here:
                continue
            copy = f"{id}_c{here}"
            if copy not in copied:
                copied.add(copy)
                listing.make(copy, id)
                ops.append(Op("IpuCopy", [id], [copy], place=there, is_forward=op.is_forward, context=op.context))
            op.inputs[i] = copy
        ops.append(op)
    listing.ops = ops


def mark_recomputation(listing: Listing) -> None:
    """Says of each forward op that leads to the loss, or that says something of it itself, whether the machine keeps its
    results. Of operators it keeps Standard counts the results alone, not what lies between the ops of one."""
    leads = {id(op) for op in _leading_to_loss(listing)}
    shown = [op for op in listing.ops if op.is_forward and (id(op) in leads or _given(op))]
    if listing.options.autoRecomputation is not RecomputationType["NoRecompute"] or any(map(_given, shown)):
        listing.marked, listing.repeated = listing.source.program.recomputed()
    is_standard = listing.options.autoRecomputation is RecomputationType["Standard"]
    for op in shown:
        is_kept = listing.marked.isdisjoint(_operators(listing, op)) and not (is_standard and _is_inside(op))
        op.recompute = "Checkpoint" if is_kept else "Recompute"


def _is_inside(op: Op) -> bool:
    """Whether an op gives no result of the operator that it belongs to."""
    return op.node is not None and set(op.outputs).isdisjoint(op.node.output)


def _operators(listing: Listing, op: Op) -> set[str]:
    """First results of the operators of the model that an op is or calls."""
    if op.node is None:
        return set()
    first = next((id for id in op.node.output if id), "")
    return {listing.parts.get(first, first)} | set(_inside(op.node))


def _inside(node: onnx.NodeProto) -> Iterator[str]:
    for attribute in node.attribute:
        for inner in attribute.g.node if attribute.HasField("g") else ():
            yield next((id for id in inner.output if id), "")
            yield from _inside(inner)


def _given(op: Op) -> int:
    return attributes_of(op.node).get("__recompute_output_in_backward_pass", 0) if op.node is not None else 0


def _leading_to_loss(listing: Listing) -> list[Op]:
    wanted, leads = {listing.source.loss}, []
    for op in reversed(listing.ops):
        if (
            wanted & set(op.outputs)
            and listing.is_training
            and (op.is_forward or op.type == "NlllWithSoftmaxGradDirect")
        ):
            wanted.update(op.inputs)
            if op.is_forward:
                leads.append(op)
    return leads[::-1]


def clone_recomputed(listing: Listing) -> None:
    """Explicit recomputation: gradient ops read `<t>__re`, which clones of the recomputed ops make, of those that the machine
    repeats and of those that say so themselves."""
    recomputed = [op for op in listing.ops if op.is_forward and op.recompute == "Recompute"]
    repeated = [op for op in recomputed if _given(op) or not listing.repeated.isdisjoint(_operators(listing, op))]
    makers = {id: op for op in repeated for id in op.outputs}
    for op in listing.ops:  # views between the ops of an operator follow what they look at
        if op.is_forward and op.type in op_types.VIEWS and _is_inside(op) and op.inputs[0] in makers:
            makers.update(dict.fromkeys(op.outputs, op))
    cloned: set[str] = set()
    ops: list[Op] = []

    def again(id: str, reader: Op) -> str:
        """The id of the clone's result; makes the clones that are not there yet, operands first."""
        waiting = [id] if id in makers and id not in cloned else []
        while waiting:
            op = makers[waiting[-1]]
            missing = [operand for operand in op.inputs if operand in makers and operand not in cloned]
            if missing:
                waiting += missing
                continue
            waiting.pop()
            if cloned.issuperset(op.outputs):
                continue
            cloned.update(op.outputs)
            inputs = [f"{operand}__re" if operand in makers else operand for operand in op.inputs]
            outputs = [listing.make(f"{result}__re", result) for result in op.outputs]
            place = (op.place[0], reader.place[1], reader.place[2])
            again_as = "Checkpoint" if op.type in op_types.VIEWS else "Recomputed"
            clone = dataclasses.replace(
                op, inputs=inputs, outputs=outputs, recompute=again_as, place=place, is_forward=False
            )
            ops.append(clone)
        return f"{id}__re" if id in makers else id

    of_node = {id(op.node): op for op in repeated}
    for op in listing.ops:
        if not op.is_forward and (maker := of_node.get(id(op.node))) is not None:
            again(next(id for id in maker.outputs if id), op)  # also where its gradient reads no result
        if not op.is_forward:
            op.inputs = [again(id, op) for id in op.inputs]
        ops.append(op)
    for op in recomputed:
        op.recompute = "Checkpoint"
    listing.ops = ops


def repeat_views(listing: Listing, is_apart: Callable[[Op, Op], bool]) -> None:
    """An op that reads a view made apart from it makes the view by itself: only what is looked at has to be kept or brought,
    unless the view is said to be kept."""
    views = {
        op.outputs[0]: op
        for op in listing.ops
        if op.type in op_types.VIEWS and len(op.inputs) == 1 == len(op.outputs) and not _given(op)
    }
    again: dict[tuple[str, tuple[int | None, ...]], str] = {}
    ops: list[Op] = []

    def seen(id: str, reader: Op) -> str:
        view = views.get(id)
        if view is None or not is_apart(view, reader):
            return id
        key = (id, reader.place)
        if key not in again:
            source = seen(view.inputs[0], reader)
            again[key] = listing.between(view.inputs[0], id)
            ops.append(
                dataclasses.replace(view, inputs=[source], outputs=[again[key]], place=reader.place, is_forward=False)
            )
        return again[key]

    for op in listing.ops:
        op.inputs = [seen(id, op) for id in op.inputs]
        ops.append(op)
    listing.ops = ops


def _run_together(listing: Listing) -> dict[int | None, int]:
    """Stage -> number of those that run, where consecutive stages on one virtual graph are one."""
    graphs = {op.place[1]: op.place[0] for op in listing.ops if op.place[1] is not None and op.type != "IpuCopy"}
    merged: dict[int | None, int] = {}
    before: tuple[int | None, int] | None = None
    for stage in sorted(stage for stage in graphs if stage is not None):
        number = 0 if before is None else before[1] + (before[0] != graphs[stage])
        merged[stage], before = number, (graphs[stage], number)
    return merged


def stash(listing: Listing) -> None:
    """Pipelines: what a later stage of the same virtual graph reads is put aside and read back there."""
    merged = _run_together(listing)

    def stage_of(maker: Op) -> int:
        """The stage in which what an op makes is there: a copied one is there one stage after the copy."""
        return merged.get(maker.place[1], 0) + (maker.type == "IpuCopy")

    repeat_views(listing, lambda view, reader: merged.get(view.place[1]) != merged.get(reader.place[1]))
    made = {id: op for op in listing.ops if op.place[1] is not None for id in op.outputs}
    for op in listing.ops:  # an input is there from the stage of its first reader on
        for read in op.inputs:
            if listing.kinds.get(read) == "input":
                made.setdefault(read, op)
    stashed: set[str] = set()
    restored: set[tuple[str, int]] = set()
    ops: list[Op] = []
    behind: defaultdict[int, list[Op]] = defaultdict(list)

    def is_kept(id: str) -> bool:
        return listing.kinds.get(id) == "input" or made[id].recompute != "Recompute"

    def sources(id: str) -> list[str]:
        """What has to be kept so that the tensor can be read or computed again."""
        found, seen, waiting = [], {id}, [id]
        while waiting:
            at = waiting.pop()
            if is_kept(at):
                found.append(at)
                continue
            operands = [operand for operand in made[at].inputs if operand in made and operand not in seen]
            seen.update(operands)
            waiting += operands
        return found

    for op in listing.ops:
        stage = merged.get(op.place[1])
        for i, tensor in enumerate(op.inputs):
            maker = made.get(tensor)
            if (
                maker is None
                or stage is None
                or maker.place[1] is None
                or maker.type == "IpuCopy"
                and op.type == "IpuCopy"
            ):
                continue
            from_stage = stage_of(maker)
            if from_stage >= stage:
                continue
            for source in sources(tensor):
                buffer = f"Stashed___{source}"
                if source not in stashed:
                    stashed.add(source)
                    listing.make(buffer, source, (0, *listing.shape(source)))
                    place = (op.place[0], (maker.place[1] or 0) + (maker.type == "IpuCopy"), None)
                    behind[id(made[source])] += _stashing(listing, source, buffer, place)
                depth = max(listing.shape(buffer)[0], stage - stage_of(made[source]))
                listing.make(buffer, source, (depth, *listing.shape(source)))
                if (source, stage) not in restored:
                    restored.add((source, stage))
                    listing.make(f"Restored___{source}", source)
                    ops.append(_restoring(listing, source, buffer, op.place, not is_kept(tensor)))
            if is_kept(tensor):
                op.inputs[i] = f"Restored___{tensor}"
        ops.append(op)
    listing.ops = [each for op in ops for each in (op, *behind.get(id(op), ()))]


def _stashing(listing: Listing, source: str, buffer: str, place: tuple[int | None, int, None]) -> list[Op]:
    """An op of its own, and in the loops of an explicit pipeline an update of a buffer that goes round."""
    if not is_explicit(listing.options):
        return [Op("Stash", [source], [buffer], place=place, is_forward=True)]
    empty = listing.make(f"Init___{buffer}", buffer)
    return [
        Op("Init", [], [empty], place=place, is_forward=True),
        Op("DynamicUpdateInplace", [empty, _position(listing, buffer), source], [buffer], place=place, is_forward=True),
    ]


def _restoring(
    listing: Listing, source: str, buffer: str, place: tuple[int | None, int | None, int | None], recomputes: bool
) -> Op:
    """`recomputes`: ops that run again read it, under its own id and so in its own place."""
    again = f"Restored___{source}"
    if is_explicit(listing.options):
        return Op("DynamicSlice", [buffer, _position(listing, buffer)], [again], place=place)
    if recomputes and source in listing.anchored:
        raise popart_exception(
            f"the anchor '{source}' is restored in place: recomputation in a pipeline reads it again in a later stage, where it "
            "has the value of an older micro-batch. Do not anchor it, or set autoRecomputation to RecomputationType.NoRecompute"
        )
    type = "RestoreInplace" if recomputes else "Restore"
    return Op(type, [source, buffer], [again], place=place)


def _position(listing: Listing, buffer: str) -> str:
    name = f"Counter___{buffer}"
    listing.types[name], listing.kinds[name] = ("UINT32", (1,)), "constant"
    return name


def add_streams(listing: Listing) -> None:
    """Loads of inputs before everything, stores of anchors behind everything."""
    if not listing.options.useHostCopyOps:
        return
    metadata = {entry.key: entry.value for entry in listing.source.model.metadata_props}
    loads, stores = [], []
    first = {id: op.place for op in reversed(listing.ops) for id in op.inputs}
    for id in listing.source.program.inputs:
        settings, place = input_settings(metadata, id), first.get(id, (None, None, None))
        tiles = TileSet["IO"].value if settings is not None and settings.tileSet() is TileSet["IO"] else 0
        empty = listing.make(f"Init___{id}", id)
        loads.append(Op("Init", [], [empty], name=f"Init_{id}", place=place, tile_set=tiles))
        loaded = listing.make(f"{id}__io", id) if tiles else id
        loads.append(Op("HostLoad", [empty], [loaded], name=f"HostLoad_{id}", place=place, tile_set=tiles))
        if tiles:
            loads.append(Op("IoTileCopy", [loaded], [id], place=place))
    made = {id: op.place for op in listing.ops for id in op.outputs}
    flow = listing.source.data_flow
    for id in flow.anchors():
        place, tiles, source = (
            made.get(id, first.get(id, (None, None, None))),
            int(flow.art(id).tileSet() is TileSet["IO"]),
            id,
        )
        if tiles:
            source = listing.make(f"{id}__io", id)
            stores.append(Op("IoTileCopy", [id], [source], place=place, tile_set=1))
        stores.append(Op("HostStore", [source], [], name=f"HostStore_{id}", place=place, tile_set=tiles))
    listing.ops = [*loads, *listing.ops, *stores]
