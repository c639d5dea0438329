"""Where and when ops run: stages of gradients, copies between virtual graphs, stashes of pipelines, streams, recomputation."""

from __future__ import annotations

import dataclasses
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

from popart._impl.builder.metadata import input_settings
from popart._impl.enums import RecomputationType, TileSet
from popart._impl.exceptions import popart_exception
from popart._impl.listing import op_types
from popart._impl.listing.records import Listing, Op, attributes_of
from popart._impl.listing.source import Crossing
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


def _nodes(listing: Listing) -> dict[str, tuple[str, bool]]:
    """Tensor -> the first result of the node that gives it, and whether that is a gradient. Inputs, variables and views
    inside of an operator, which nobody keeps, stand for themselves."""
    nodes: dict[str, tuple[str, bool]] = {}
    for op in listing.ops:
        if op.type == "IpuCopy":
            nodes[op.outputs[0]] = nodes.get(op.inputs[0], (op.inputs[0], False))
        elif not (op.is_forward and op.type in op_types.VIEWS and _is_inside(op)):
            nodes.update(dict.fromkeys(op.outputs, (listing.node_of(op), not op.is_forward)))
    return nodes


def add_copies(listing: Listing) -> None:
    """An op reads what the machine brings from another virtual graph from `<t>_c<g>`, which one IpuCopy makes."""
    home: dict[str, tuple[int | None, int | None, int | None]] = {}
    for op in listing.ops:
        home.update((id, op.place) for id in op.outputs)
    for op in listing.ops:
        for id in op.inputs:
            home.setdefault(id, op.place)
    sent = {(crossing.node, crossing.to_ipu) for crossing in listing.machine.crossings if not crossing.is_backward}
    nodes, copied, ops = _nodes(listing), set(), []
    for op in listing.ops:
        here = op.place[0]
        for i, id in enumerate(op.inputs):
            there = home.get(id, op.place)
            node, is_backward = nodes.get(id, (id, False))
            is_known = node in listing.machine.there or listing.kinds.get(node) == "constant"
            if not id or there[0] == here or is_known and not is_backward and (node, here) not in sent:
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
    may_repeat = listing.options.autoRecomputation is not RecomputationType["NoRecompute"] or any(map(_given, shown))
    marked = listing.machine.marked if may_repeat else set()
    is_standard = listing.options.autoRecomputation is RecomputationType["Standard"]
    for op in shown:
        is_kept = marked.isdisjoint(_operators(listing, op)) and not (is_standard and _is_inside(op))
        op.recompute = "Checkpoint" if is_kept else "Recompute"


def _is_inside(op: Op) -> bool:
    """Whether an op gives no result of the operator that it belongs to."""
    return op.node is not None and set(op.outputs).isdisjoint(op.node.output)


def _operators(listing: Listing, op: Op) -> set[str]:
    """First results of the operators of the model that an op is or calls."""
    if op.node is None:
        return set()
    return {listing.node_of(op)} | set(_inside(op.node))


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
    repeated = [
        op for op in recomputed if _given(op) or not listing.machine.repeated.isdisjoint(_operators(listing, op))
    ]
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


def _stages_that_run(listing: Listing) -> dict[int | None, int]:
    """Stage -> number of the one that runs, by most of its ops: consecutive ones on one virtual graph are one."""
    stages = listing.machine.stages
    keys = [(op.place[1], (listing.node_of(op), not op.is_forward)) for op in listing.ops]
    votes = Counter((stage, stages[key]) for stage, key in keys if key in stages)
    return dict(vote for vote, _ in reversed(votes.most_common()))


def stash(listing: Listing) -> None:
    """Pipelines: what the machine keeps on a virtual graph for a later stage is put aside, and read back there."""
    crossings = [crossing for crossing in listing.machine.crossings if crossing.waits > 0]
    kept = {(each.node, each.is_backward, each.to_ipu, each.to_stage): each for each in crossings}
    nodes, merged = _nodes(listing), _stages_that_run(listing)

    def place_of(op: Op) -> tuple[int, int]:
        return op.place[0] or 0, merged.get(op.place[1], 0)

    def brought(tensor: str, reader: Op) -> Crossing | None:
        return kept.get((*nodes.get(tensor, (tensor, False)), *place_of(reader)))

    repeat_views(listing, lambda view, op: place_of(view) != place_of(op) and brought(view.outputs[0], op) is None)
    makers: dict[str, Op] = {}  # an input is there from its first reader on
    first: dict[tuple[int, int], Op] = {}
    read: dict[tuple[Crossing | None, str], Op] = {}
    for op in listing.ops:
        first.setdefault(place_of(op), op)
        makers.update(dict.fromkeys(op.outputs, op))
        for tensor in op.inputs:
            makers.setdefault(tensor, op)
            if found := brought(tensor, op):
                read.setdefault((found, tensor), op)
    told = {found for found, _ in read}
    for found in kept.values():  # what runs again, which is not listed twice, reads them too
        tensor = f"{found.node}_c{found.to_ipu}" if f"{found.node}_c{found.to_ipu}" in makers else found.node
        if found.is_repeated_from and tensor in makers and found not in told:
            read[found, tensor] = first[found.to_ipu, found.to_stage]
    before, behind = defaultdict[int, list[Op]](list), defaultdict[int, list[Op]](list)
    for (crossing, tensor), reader in read.items():
        if crossing is None:
            continue
        buffer = f"Stashed___{tensor}"
        if buffer not in listing.types:
            listing.make(buffer, tensor, (0, *listing.shape(tensor)))
            maker = makers[tensor]
            place = (crossing.to_ipu, (maker.place[1] or 0) + (maker.type == "IpuCopy"), None)
            behind[id(maker)] += _stashing(listing, tensor, buffer, place)
        listing.make(buffer, tensor, (listing.shape(buffer)[0] + crossing.waits, *listing.shape(tensor)))
        listing.make(f"Restored___{tensor}", tensor)
        before[id(reader)].append(_restoring(listing, tensor, buffer, reader.place, crossing.is_repeated_from))
    for op in listing.ops:
        op.inputs = [f"Restored___{each}" if (brought(each, op), each) in read else each for each in op.inputs]
    listing.ops = [each for op in listing.ops for each in (*before[id(op)], op, *behind[id(op)])]


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
