"""Repeated equal stretches of ops become calls of one subgraph."""

from __future__ import annotations

import dataclasses
from collections import defaultdict
from collections.abc import Callable

from popart._impl.listing.records import Listing, Op

_VALUE = 1000.0  # of an op whose code and plan are large; any other counts a ten-thousandth of it
_LARGE = (
    "MatMul",
    "Conv",
    "LSTM",
    "GRU",
    "RNN",
    "Gather",
    "Scatter",
    "Normalization",
    "Pool",
    "TopK",
    "Softmax",
    "Resize",
    "Cumsum",
)
_STAYS = (
    "VarUpdate",
    "Accl",
    "Accumul",
    "HostLoad",
    "HostStore",
    "Init",
    "IpuCopy",
    "Stash",
    "Restore",
    "Call",
    "Loop",
    "If",
    "Nll",
    "L1",
)
_Key = tuple[object, ...]


def value_of(op: Op) -> float:
    return _VALUE if any(word in op.type for word in _LARGE) else _VALUE * 1e-4


def outline(listing: Listing, graphs: dict[str, list[Op]], name: str) -> None:
    """Replaces stretches of the graph `name`, the longest around ops of large value, while they are worth a call."""
    ops = graphs[name]
    keys = [_key(listing, op) for op in ops]
    chosen: list[list[range]] = []
    taken: set[int] = set()
    groups: dict[_Key, list[int]] = defaultdict(list)
    for i, key in enumerate(keys):
        if key is not None and value_of(ops[i]) >= _VALUE:
            groups[key].append(i)
    for places in groups.values():
        free = [i for i in places if i not in taken]
        if len(free) < 2 or value_of(ops[free[0]]) * len(free) < float(listing.options.outlineThreshold):
            continue
        stretches = _grown(ops, keys, free, taken)
        taken.update(i for stretch in stretches for i in stretch)
        chosen.append(stretches)
    bodies = [_subgraph(listing, graphs, ops, stretches) for stretches in chosen]
    calls = {stretch.start: (body, stretch) for body, stretches in zip(bodies, chosen) for stretch in stretches}
    left = []
    for i, op in enumerate(ops):
        if i in calls:
            make, stretch = calls[i]
            left.append(make(stretch))
        elif i not in taken:
            left.append(op)
    graphs[name] = left


def _key(listing: Listing, op: Op) -> _Key | None:
    """What equal ops have in common; None for ops that stay where they are."""
    if (
        any(word in op.type for word in _STAYS)
        or listing.anchored & set(op.outputs)
        or listing.losses & set(op.outputs)
    ):
        return None
    place = {
        key: value for key, value in op.common().items() if key not in ("recomputetype", "schedulePriority", "scope")
    }
    types = tuple(listing.type_of(id) if id else None for id in op.inputs)
    made = tuple(bool(id) for id in op.outputs)
    is_clone = op.recompute == "Recomputed"
    return (op.type, types, made, is_clone, tuple(sorted(op.own.items())), tuple(sorted(place.items())))


def _grown(ops: list[Op], keys: list[_Key | None], places: list[int], taken: set[int]) -> list[range]:
    """Stretches around equal ops, as long as all of them go on with equal ops that read the same things."""
    stretches = [range(i, i + 1) for i in places]
    for back, ahead in ((0, 1), (1, 0)):
        while True:
            longer = [range(each.start - back, each.stop + ahead) for each in stretches]
            edges = [each.stop - 1 if ahead else each.start for each in longer]
            apart = all(a.stop <= b.start for a, b in zip(longer, longer[1:]))
            inside = longer[0].start >= 0 and longer[-1].stop <= len(ops)
            if not apart or not inside or any(i in taken or keys[i] is None for i in edges):
                break
            if len({keys[i] for i in edges}) > 1 or len({_wiring(ops, each) for each in longer}) > 1:
                break
            if not all(_is_joined(ops, each, i) for each, i in zip(longer, edges)):
                break
            stretches = longer
    return stretches


def _is_joined(ops: list[Op], stretch: range, edge: int) -> bool:
    """Whether the op at the edge reads or feeds another of the stretch."""
    made = {id for i in stretch if i != edge for id in ops[i].outputs}
    read = {id for i in stretch if i != edge for id in ops[i].inputs}
    return bool(made & set(ops[edge].inputs)) or bool(read & set(ops[edge].outputs))


def _wiring(ops: list[Op], stretch: range) -> tuple[tuple[int, ...], ...]:
    """Operands by number: results in the stretch and what comes from outside, in the order of first use."""
    numbers: dict[str, int] = {}
    wiring = []
    for i in stretch:
        wiring.append(tuple(numbers.setdefault(id, len(numbers)) for id in [*ops[i].inputs, *ops[i].outputs]))
    return tuple(wiring)


def _sides(ops: list[Op], stretch: range) -> tuple[list[str], list[str]]:
    """What the stretch reads of others, and all that it makes."""
    made = [id for i in stretch for id in ops[i].outputs]
    inputs = dict.fromkeys(id for i in stretch for id in ops[i].inputs if id and id not in made)
    return list(inputs), made


def _subgraph(
    listing: Listing, graphs: dict[str, list[Op]], ops: list[Op], stretches: list[range]
) -> Callable[[range], Op]:
    """Adds the graph of equal stretches; the result makes the call in place of one of them."""
    name = f"call_subgraph({listing.calls})"
    listing.calls += 1
    first = stretches[0]
    body = []
    for i in first:
        inputs, outputs = (
            [f"{name}/{id.rpartition(')/')[2]}" if id else "" for id in ids] for ids in (ops[i].inputs, ops[i].outputs)
        )
        for inner, id in zip((*inputs, *outputs), (*ops[i].inputs, *ops[i].outputs)):
            listing.make(inner, id)
        body.append(dataclasses.replace(ops[i], inputs=inputs, outputs=outputs, context="Subgraph", scope=name))
    graphs[name] = body
    read_at: dict[str, list[int]] = defaultdict(list)
    for i, op in enumerate(ops):
        for id in op.inputs:
            read_at[id].append(i)
    wanted = sorted(
        {
            at
            for each in stretches
            for at, id in enumerate(_sides(ops, each)[1])
            if any(i not in each for i in read_at[id])
        }
    )

    def call(stretch: range) -> Op:
        inputs, made = _sides(ops, stretch)
        made_by = ops[stretch[0]]
        return dataclasses.replace(
            made_by,
            type="Call",
            name="",
            inputs=inputs,
            outputs=[made[at] for at in wanted],
            own={"callee": name},
            node=None,
            replaced=[ops[i] for i in stretch],
        )

    return call
