"""Which operations of a graph are live, and a stable order in which they may run.

The order is that of creation wherever the edges allow it. Edges are TensorFlow's (data and control) and, between effects on
one resource, creation order. These last give way where they contradict TensorFlow's.
"""

from __future__ import annotations

import heapq
from collections.abc import Callable, Iterable

from ipu_tensorflow.host import Graph, Operation

# (resource, whether it is written)
Effect = tuple[str, bool]


def live_operations(graph: Graph, roots: Iterable[Operation], leaves: set[str]) -> list[Operation]:
    """All operations that the roots need, in order of creation. Operations named in `leaves` need nothing."""
    seen: set[str] = set()
    pending = list(roots)
    while pending:
        op = pending.pop()
        if op.name in seen:
            continue
        seen.add(op.name)
        if op.name not in leaves:
            pending += [tensor.op for tensor in op.inputs]
            pending += op.control_inputs
    return [op for op in graph.get_operations() if op.name in seen]


def ordered(live: list[Operation], leaves: set[str], effects: Callable[[Operation], list[Effect]]) -> list[Operation]:
    number = {op.name: index for index, op in enumerate(live)}
    needs: list[set[int]] = [set() for _ in live]
    for index, op in enumerate(live):
        if op.name not in leaves:
            needs[index] = {number[tensor.op.name] for tensor in op.inputs} | {
                number[c.name] for c in op.control_inputs
            }
    wishes = _effect_edges(live, effects)
    followers: list[list[int]] = [[] for _ in live]
    for index, (hard, soft) in enumerate(zip(needs, wishes)):
        soft -= hard
        for before in hard | soft:
            followers[before].append(index)
    waiting = [len(hard) for hard in needs]
    hoping = [len(soft) for soft in wishes]
    ready = [index for index in range(len(live)) if not waiting[index] and not hoping[index]]
    done: list[Operation] = []
    emitted = [False] * len(live)
    while len(done) < len(live):
        if not ready:
            ready = [next(i for i in range(len(live)) if not emitted[i] and not waiting[i])]
        index = heapq.heappop(ready)
        if emitted[index]:
            continue
        emitted[index] = True
        done.append(live[index])
        for after in followers[index]:
            if index in needs[after]:
                waiting[after] -= 1
            else:
                hoping[after] -= 1
            if not waiting[after] and not hoping[after] and not emitted[after]:
                heapq.heappush(ready, after)
    return done


def _effect_edges(live: list[Operation], effects: Callable[[Operation], list[Effect]]) -> list[set[int]]:
    """For each operation those that it should follow: a write follows what came since the last write, a read that write."""
    edges: list[set[int]] = [set() for _ in live]
    last_write: dict[str, int] = {}
    reads_since: dict[str, list[int]] = {}
    for index, op in enumerate(live):
        for resource, is_write in effects(op):
            if resource in last_write:
                edges[index].add(last_write[resource])
            if is_write:
                edges[index].update(reads_since.pop(resource, ()))
                last_write[resource] = index
            else:
                reads_since.setdefault(resource, []).append(index)
        edges[index].discard(index)
    return edges
