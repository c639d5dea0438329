"""`x[a:b:c]` with bounds that only the program knows: a `dynamic_slice` where `b - a` is constant."""

from __future__ import annotations

import functools
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
        raise errors.create_error(f"step of a slice: x[a:b:c] with tensors as bounds needs a step c (int) of at least 1, got {step!r}")
    return start, size, step


def dynamic_getitem(original: typing.Any) -> typing.Any:
    """`Tensor.__getitem__` that knows slices with bounds of the program."""

    @functools.wraps(original)
    def getitem(self, index):
        capture = capture_state.active()
        parts = index if isinstance(index, tuple) else (index,)
        if capture is None or not any(_is_dynamic(capture, part) for part in parts):
            if torch.overrides.has_torch_function((self,)):  # sees torch's own method, not this one
                return torch.overrides.handle_torch_function(original, (self,), self, index)
            return original(self, index)
        others = list(parts)
        for place, dim in _dynamic_parts(capture, self, parts):
            start, size, step = _bounds(capture, parts[place])
            self = slices_and_points.dynamic_slice(self, dim, start, size, step)
            capture.core.note_slice(self)
            others[place] = slice(None)
        return original(self, tuple(others))

    return getitem


def dynamic_setitem(original: typing.Any) -> typing.Any:
    """`Tensor.__setitem__` that knows them."""

    @functools.wraps(original)
    def setitem(self, index, value):
        capture = capture_state.active()
        parts = index if isinstance(index, tuple) else (index,)
        if capture is None or not any(_is_dynamic(capture, part) for part in parts):
            if torch.overrides.has_torch_function((self, value)):
                return torch.overrides.handle_torch_function(original, (self, value), self, index, value)
            return original(self, index, value)
        if isinstance(value, torch.Tensor):
            capture.core.settle_slice(value)  # what `x[a:b] += y` has written
        (place, dim), *_ = _dynamic_parts(capture, self, parts)
        start, size, step = _bounds(capture, parts[place])
        rows = slices_and_points.dynamic_slice(self, dim, start, size, 1)
        others = list(parts)
        others[place] = slice(None, None, step)
        rows[tuple(others)] = value
        self.copy_(slices_and_points.dynamic_update(self, rows, dim, start, size))

    return setitem
