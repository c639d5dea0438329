"""Which part of a tensor ops write, through views too."""

from __future__ import annotations

from typing import Any

from popart._impl.facade.values import Region


def _slice_of(op: Any, shape: list[int]) -> Region | None:
    """The box that a SliceInplace shows. None: not a box."""
    if op.kind != "SliceInplace":
        return None
    attributes = op.attributes()
    starts, ends = attributes["starts"], attributes["ends"]
    axes = attributes.get("axes") or range(len(starts))
    steps = attributes.get("steps") or [1] * len(starts)
    lower, upper = [0] * len(shape), list(shape)
    for axis, start, end, step in zip(axes, starts, ends, steps):
        size = shape[axis]
        low, high = (min(max(value + size if value < 0 else value, 0), size) for value in (start, end))
        if step != 1:
            return None
        lower[axis], upper[axis] = low, high
    return Region(lower, upper)


def _called(op: Any, index: int) -> list[Region]:
    """What the callees of an op leave in a modified input."""
    return [Region.getFull(op.inShape(index))] if op.modifiesIndex(index) else []


def modified_regions(tensor: Any, ops: list[Any]) -> list[Region]:
    """Boxes of the tensor that the ops write. A write through a view counts in the box that the view shows of the tensor; a view
    of a view, and a view that is no box, counts as the whole of what it is a view of."""
    chosen = {op.id for op in ops}
    full = Region.getFull(tensor.info.shape())
    found: list[Region] = []
    # Tensors in the same memory, with the box of `tensor` that each lies in.
    pending: list[tuple[Any, Region]] = [(tensor, full)]
    seen = {tensor.number}
    while pending:
        alias, box = pending.pop()
        for op in alias.consumers.getOps():
            for index in [i for i, t in op.getInputIndexMap().items() if t is alias]:
                writes = bool(_called(op, index)) if op.getCalledGraphs() else op.modifiesIndex(index)
                if writes and op.id in chosen and box not in found:
                    found.append(box)
                if not (writes or op.views_input(index)) or op.getCalledGraphs():
                    continue
                for view in op.getOutputTensors()[:1]:
                    if view.number not in seen:
                        seen.add(view.number)
                        part = _slice_of(op, tensor.info.shape()) if alias is tensor else None
                        pending.append((view, part or box))
    return found
