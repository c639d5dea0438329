"""Ops that become one: updates of weights, and collectives that stand side by side."""

from __future__ import annotations

import math
from typing import Any

from popart._impl.enums import MergeVarUpdateType
from popart._impl.listing.records import Listing, Op
from popart._impl.listing.schedules import bytes_of

_COLLECTIVES = {
    "ReplicatedAllReduce": ("mergeAllReduceCollectives", "MultiReplicatedAllReduce"),
    "ReplicatedAllReduceInplace": ("mergeAllReduceCollectives", "MultiReplicatedAllReduceInplace"),
    "ReplicatedReduceScatter": ("mergeReduceScatterCollectives", "MultiReplicatedReduceScatter"),
    "ReplicatedAllGather": ("mergeAllGatherCollectives", "MultiReplicatedAllGather"),
}


def merge_updates(listing: Listing) -> None:
    """mergeVarUpdate: flat weights and gradients in a row have one update. Updates that read other numbers stay apart."""
    mode = listing.options.mergeVarUpdate
    if mode is MergeVarUpdateType["Off"]:
        return
    groups: dict[Any, list[Op]] = {}
    for op in listing.ops:
        if op.type == "SGD0VarUpdate":
            weight = op.inputs[0]
            own = weight if weight in listing.source.optimizer._specific else ""
            groups.setdefault((own, listing.type_of(weight)[0], op.place, op.context), []).append(op)
    instead: dict[int, list[Op]] = {}  # by each update that goes; of the last one of a part: the ops that come
    for group in groups.values():
        for part in _parts(listing, group, mode):
            if len(part) > 1:
                instead |= {id(op): [] for op in part[:-1]}
                instead[id(part[-1])] = _merged(listing, part)
    listing.ops = [new for op in listing.ops for new in instead.get(id(op), [op])]


def _parts(listing: Listing, group: list[Op], mode: Any) -> list[list[Op]]:
    """AutoTight: as many as stay within the threshold; AutoLoose: until they reach it; All: all."""
    if mode is MergeVarUpdateType["All"]:
        return [group]
    limit, parts, reached = int(listing.options.mergeVarUpdateMemThreshold), [[]], 0  # type: ignore[var-annotated]
    for op in group:
        size = bytes_of(listing, op.inputs[0])
        is_full = reached + size > limit if mode is MergeVarUpdateType["AutoTight"] else reached >= limit
        if parts[-1] and is_full:
            parts.append([])
            reached = 0
        parts[-1].append(op)
        reached += size
    return parts


def _merged(listing: Listing, updates: list[Op]) -> list[Op]:
    """One update of the joined weights, with what joins them and takes them apart again."""
    last = updates[-1]
    ops: list[Op] = []
    joined = []
    total = sum(math.prod(listing.shape(op.inputs[0])) for op in updates)
    for side in (0, 1):
        flat = []
        for op in updates:
            read = op.inputs[side]
            flat.append(listing.between(read, read, (math.prod(listing.shape(read)),)))
            ops.append(Op("Reshape", [read], [flat[-1]], place=op.place, context=op.context))
        joined.append(
            listing.make(f"{updates[0].inputs[side]}__cc{listing.number()}", updates[0].inputs[side], (total,))
        )
        ops.append(Op("Concat", flat, [joined[-1]], {"axis": "0"}, place=last.place, context=last.context))
    made = listing.make(f"UpdatedVar___{joined[0]}", joined[0])
    listing.kinds[joined[0]] = "variable"
    ops.append(Op(last.type, joined, [made], dict(last.own), place=last.place, context=last.context))
    begin = 0
    for op in updates:  # they are views of the weights, which the update changes; somebody may want the new values
        size = math.prod(listing.shape(op.inputs[0]))
        if not listing.anchored & set(op.outputs):
            begin += size
            continue
        piece = listing.make(f"{made}__s{begin}_{begin + size}_{listing.number()}", made, (size,))
        own = {"starts": f"[{begin}]", "ends": f"[{begin + size}]", "axes": "[0]"}
        ops.append(Op("Slice", [made], [piece], own, place=op.place, context=op.context))
        ops.append(Op("Reshape", [piece], list(op.outputs), place=op.place, context=op.context))
        begin += size
    return ops


def merge_collectives(listing: Listing) -> None:
    """replicatedCollectivesSettings: those of one type that stand back to back, or can, become one op of several tensors."""
    settings = listing.options.replicatedCollectivesSettings
    if settings.prepareScheduleForMergingCollectives:
        _contiguate(listing)
    ops: list[Op] = []
    for op in listing.ops:
        option, merged = _COLLECTIVES.get(op.type, ("", ""))
        last = ops[-1] if ops else None
        if (
            option
            and getattr(settings, option)
            and last is not None
            and last.type in (op.type, merged)
            and (last.place, last.context) == (op.place, op.context)
            and not set(last.outputs) & set(op.inputs)
        ):
            last.type = merged
            last.inputs += op.inputs
            last.outputs += op.outputs
        else:
            ops.append(op)
    listing.ops = ops


def _contiguate(listing: Listing) -> None:
    """Moves each collective up to the one of its type before it, where what it reads is there; ops between them that it needs go
    along."""
    for at in range(len(listing.ops)):
        op = listing.ops[at]
        if op.type not in _COLLECTIVES:
            continue
        before = next((i for i in range(at - 1, -1, -1) if listing.ops[i].type == op.type), None)
        if before is not None and listing.ops[before].context == op.context:
            between = listing.ops[before + 1 : at]
            needed = set(op.inputs)
            ahead: list[Op] = []
            for other in reversed(between):
                if needed & set(other.outputs):
                    ahead.insert(0, other)
                    needed.update(other.inputs)
            made = set(listing.ops[before].outputs)
            if not any(made & set(other.inputs) for other in [*ahead, op]):
                moved = {id(other) for other in ahead}
                rest = [other for other in between if id(other) not in moved]
                listing.ops[before : at + 1] = [*ahead, listing.ops[before], op, *rest]
