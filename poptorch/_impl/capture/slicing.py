"""`x[a:b:c]` with bounds that only the program knows: a `dynamic_slice` where `b - a` is constant."""

from __future__ import annotations

import typing

import torch

from poptorch._impl import errors
from poptorch._impl.capture import slices_and_points, state as capture_state


def _is_of_graph(capture, bound):
    return isinstance(bound, torch.Tensor) and capture.core.holds(bound)


def _is_unknown(capture, bound):
    return _is_of_graph(capture, bound) and not capture.core.knows(bound)


def _is_dynamic(capture, part):
    return isinstance(part, slice) and (_is_unknown(capture, part.start) or _is_unknown(capture, part.stop))


def _dimensions_of(part):
    """How many dimensions a part of an index takes."""
    if part is None or isinstance(part, bool):
        return 0
    is_mask = isinstance(part, torch.Tensor) and part.dtype in (torch.bool, torch.uint8)
    return part.dim() if is_mask else 1


def _dynamic_parts(capture, tensor, parts):
    """(place in `parts`, dimension) of each slice with bounds of the program."""
    found = []
    dim = 0
    for place, part in enumerate(parts):
        if part is Ellipsis:
            dim = tensor.dim() - sum(_dimensions_of(p) for p in parts[place + 1 :])
            continue
        if _is_dynamic(capture, part):
            found.append((place, dim))
        dim += _dimensions_of(part)
    return found


def _bounds(capture, part):
    """(start, size, step) of a slice."""
    start, stop = part.start, part.stop
    size = None
    if _is_of_graph(capture, start) and _is_of_graph(capture, stop):
        size = capture.core.distance(start, stop)
    if size is None:
        raise errors.create_error(
            "slice of unknown size: x[a:b] with a tensor as bound needs both bounds, a constant apart, because the shape of "
            "the result is fixed when the model is compiled. Write x[a:a + 3], or "
            "poptorch.dynamic_slice(x, dim, a, size=3, step=1)."
        )
    if size < 1:
        raise errors.create_error(
            f"empty slice: the bounds of x[a:b] are {size} apart; the end must be behind the start. Write x[a:a + 1] for one "
            "element."
        )
    step = 1 if part.step is None else part.step
    if _is_of_graph(capture, step) and capture.core.knows(step):
        step = int(step)
    if not isinstance(step, int) or step < 1:
        raise errors.create_error(
            f"step of a slice: x[a:b:c] with tensors as bounds needs a step c (int) of at least 1, got {step!r}"
        )
    return start, size, step


def _parts(index: typing.Any) -> tuple[typing.Any, ...]:
    return index if isinstance(index, tuple) else (index,)


def dynamic_getitem(tensor: torch.Tensor, index: typing.Any) -> torch.Tensor:
    """`tensor[index]` in a capture; a slice of `index` has a tensor as a bound."""
    capture = capture_state.active()
    parts = list(_parts(index))
    for place, dim in _dynamic_parts(capture, tensor, parts):
        start, size, step = _bounds(capture, parts[place])
        tensor = slices_and_points.dynamic_slice(tensor, dim, start, size, step)
        capture.core.note_slice(tensor)
        parts[place] = slice(None)
    return torch.Tensor.__getitem__(tensor, tuple(parts))


def dynamic_setitem(tensor: torch.Tensor, index: typing.Any, value: typing.Any) -> None:
    """`tensor[index] = value` in a capture; a slice of `index` has a tensor as a bound."""
    capture = capture_state.active()
    parts = list(_parts(index))
    dynamic = _dynamic_parts(capture, tensor, parts)
    if not dynamic:
        torch.Tensor.__setitem__(tensor, index, value)
        return
    if isinstance(value, torch.Tensor):
        capture.core.settle_slice(value)  # what `x[a:b] += y` has written
    (place, dim), *_ = dynamic
    start, size, step = _bounds(capture, parts[place])
    rows = slices_and_points.dynamic_slice(tensor, dim, start, size, 1)
    parts[place] = slice(None, None, step)
    rows[tuple(parts)] = value
    tensor.copy_(slices_and_points.dynamic_update(tensor, rows, dim, start, size))
