"""Operations on parts of tensors that are known when the program runs, on points in space, and decoding of CTC."""

from __future__ import annotations

import math
import typing

import torch

from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

_Batches = typing.Union[torch.Tensor, list[int], None]

_STARTS = (torch.int16, torch.int32, torch.int64)


def _require_tensor(function, name, value):
    if not isinstance(value, torch.Tensor):
        raise errors.create_error(f"poptorch.{function}: {name} must be a tensor, got {type(value).__name__}")


def _require_int(function, name, value):
    if not isinstance(value, int) or isinstance(value, bool):
        raise errors.create_error(f"poptorch.{function}: {name} must be an int, got {type(value).__name__}")


def _require_start(function, start):
    _require_tensor(function, "start", start)
    if start.dtype not in _STARTS:
        raise errors.create_error(f"poptorch.{function}: start must be of int16, int32 or int64, got {start.dtype}")


def dynamic_slice(tensor: torch.Tensor, dim: int, start: torch.Tensor, size: int, step: int) -> torch.Tensor:
    """Elements `start, start + step, ...` below `start + size` along `dim`, where `start` is known at run time only.

    Places beyond the end, or before the beginning, wrap around.

    Args:
        tensor: tensor of any dtype with at least one dimension.
        dim: dimension (int) that is cut; its size is a multiple of `size`.
        start: integer tensor (int16, int32 or int64) with one element.
        size: elements (int >= 1) that are spanned.
        step: distance (int >= 1) of the elements taken.

    Returns:
        Tensor of the dtype of `tensor`, with `size / step` (rounded up) elements along `dim`. Differentiable.

    Raises:
        poptorch.Error: an argument of another type; `size` is below 1, `step` is below 1, `size` does not divide `dim`.

    Example:
        >>> window = poptorch.dynamic_slice(x, 1, start, size=8, step=1)
    """
    _require_tensor("dynamic_slice", "tensor", tensor)
    _require_start("dynamic_slice", start)
    for name, value in (("dim", dim), ("size", size), ("step", step)):
        _require_int("dynamic_slice", name, value)
    return torch.ops.poptorch.dynamic_slice(tensor, dim, start, size, step)


def dynamic_update(input: torch.Tensor, src: torch.Tensor, dim: int, start: torch.Tensor, size: int) -> torch.Tensor:
    """A copy of `input` in which `src` stands at `[start, start + size)` along `dim`, with `start` known at run time only.

    Places beyond the end, or before the beginning, wrap around. The size of `dim` need not be a multiple of `size`.

    Args:
        input: tensor of any dtype with at least one dimension.
        src: tensor of the same dtype, and of the same shape but for `size` elements along `dim`.
        dim: dimension (int).
        start: integer tensor (int16, int32 or int64) with one element.
        size: elements (int >= 1) along `dim` that are replaced.

    Returns:
        Tensor of the shape and dtype of `input`. Differentiable.

    Raises:
        poptorch.Error: an argument of another type, rank, shape or dtype, or `size` is below 1.

    Example:
        >>> cache = poptorch.dynamic_update(cache, key, 1, position, 1)
    """
    _require_tensor("dynamic_update", "input", input)
    _require_tensor("dynamic_update", "src", src)
    _require_start("dynamic_update", start)
    for name, value in (("dim", dim), ("size", size)):
        _require_int("dynamic_update", name, value)
    if input.dim() != src.dim():
        raise errors.create_error(
            f"poptorch.dynamic_update: input has {input.dim()} dimensions and src has {src.dim()}; both need the same number"
        )
    if input.dtype != src.dtype:
        raise errors.create_error(
            f"poptorch.dynamic_update: input is of {input.dtype} and src of {src.dtype}. Convert one: src.to({input.dtype})."
        )
    return torch.ops.poptorch.dynamic_update(input, src, dim, start, size)


def _points(function, name, value):
    _require_tensor(function, name, value)
    if value.dim() not in (1, 2) or not value.is_floating_point():
        raise errors.create_error(
            f"poptorch.{function}: {name} must be points [n, d] of floating point, got shape {list(value.shape)} of "
            f"{value.dtype}"
        )


def _batches(batch_x, batch_y, x, y):
    """Both as tensors, or None and None."""
    for name, batch in (("batch_x", batch_x), ("batch_y", batch_y)):
        if batch is not None and not isinstance(batch, (list, torch.Tensor)):
            raise errors.create_error(f"poptorch.nearest: {name} must be a list or a tensor, got {type(batch).__name__}")
    if batch_x is None and batch_y is None:
        return None, None
    batches = []
    for name, batch, points in (("batch_x", batch_x, x), ("batch_y", batch_y, y)):
        if batch is None:  # one batch, of number 0
            batch = [0] * points.shape[0]
        if isinstance(batch, list):
            batch = torch.tensor(batch, dtype=torch.int32, device="cpu")
        if batch.shape != points.shape[:1] or batch.is_floating_point() or batch.dtype == torch.bool:
            raise errors.create_error(
                f"poptorch.nearest: {name} must have an integer for each of the {points.shape[0]} points, got shape "
                f"{list(batch.shape)} of {batch.dtype}"
            )
        batches.append(batch)
    return batches


def nearest(x: torch.Tensor, y: torch.Tensor, batch_x: _Batches = None, batch_y: _Batches = None) -> torch.Tensor:
    """For each point of `x` the index of the nearest point of `y` in the same batch (Euclidean distance).

    Args:
        x: tensor `[n, d]`, floating point; `[n]` stands for points of one dimension.
        y: tensor `[m, d]`, floating point.
        batch_x: number of the batch of each point of `x`: a sorted list or integer tensor `[n]`. None: 0 for all.
        batch_y: the same for `y`, `[m]`.

    Returns:
        Indices `[n]` (int32 on the IPU, int64 on the CPU); of equal distances the first point, and -1 where the batch has
        no point in `y`. No gradient.

    Raises:
        poptorch.Error: an argument of another type or shape.

    Example:
        >>> cluster = poptorch.nearest(points, centres)
    """
    _points("nearest", "x", x)
    _points("nearest", "y", y)
    if x.dim() != y.dim() or x.shape[1:] != y.shape[1:]:
        raise errors.create_error(
            f"poptorch.nearest: x {list(x.shape)} and y {list(y.shape)} are not points of equal dimensions"
        )
    of_x, of_y = _batches(batch_x, batch_y, x, y)
    if capture_state.active() is not None:
        return torch.ops.poptorch.nearest(x, y, of_x, of_y)
    if y.shape[0] == 0:
        return torch.full((x.shape[0],), -1, dtype=torch.int64)
    x, y = (points.detach().double().reshape(points.shape[0], -1) for points in (x, y))
    distances = ((x[:, None] - y[None]) ** 2).sum(-1)
    if of_x is None:
        return distances.argmin(1)
    apart = of_x[:, None] != of_y[None]
    return torch.where(apart.all(1), -1, distances.masked_fill(apart, math.inf).argmin(1))


def fps(src: torch.Tensor, ptr: list[int], ratio: float = 0.5, random_start: bool = False) -> torch.Tensor:
    """Farthest-point samples of each batch of points: the first point, then each time the one farthest from all taken.

    Args:
        src: tensor `[n, d]`, floating point, batch after batch; `[n]` stands for points of one dimension.
        ptr: bounds (list of int, at least two, rising): batch i is the rows `ptr[i]` to `ptr[i + 1]`.
        ratio: share (float, above 0, at most 1) of the points taken.
        random_start: begin each batch with a random point.

    Returns:
        int32 indices into `src`, batch after batch: ceil(points * ratio) of each. No gradient.

    Raises:
        poptorch.Error: an argument of another type, or bounds that do not fit `src`.

    Example:
        >>> index = poptorch.fps(points, [0, 100, 250], ratio=0.25)
    """
    _points("fps", "src", src)
    if not isinstance(ptr, list) or len(ptr) < 2 or not all(type(bound) is int for bound in ptr):
        raise errors.create_error(f"poptorch.fps: ptr must be a list of at least two ints, got {ptr!r}")
    if not isinstance(ratio, float) or not 0 < ratio <= 1:
        raise errors.create_error(f"poptorch.fps: ratio must be a float above 0 and at most 1, got {ratio!r}")
    if not isinstance(random_start, bool):
        raise errors.create_error(f"poptorch.fps: random_start must be True or False, got {random_start!r}")
    if ptr[0] < 0 or ptr[-1] > src.shape[0] or any(low > high for low, high in zip(ptr, ptr[1:])):
        raise errors.create_error(f"poptorch.fps: ptr {ptr} must rise from 0 or more to at most {src.shape[0]} points")
    counts = [math.ceil((high - low) * ratio) for low, high in zip(ptr, ptr[1:])]
    if capture_state.active() is not None:
        return torch.ops.poptorch.fps(src, ptr, counts, random_start)
    points = src.detach().double().reshape(src.shape[0], -1)
    found = []
    for low, high, count in zip(ptr, ptr[1:], counts):
        rows = points[low:high]
        distances = torch.full((high - low,), math.inf, dtype=torch.float64)
        sample = int(torch.randint(high - low, ())) if random_start and count else 0
        for _ in range(count):
            found.append(low + sample)
            distances = torch.minimum(distances, ((rows - rows[sample]) ** 2).sum(-1))
            sample = int(distances.argmax())
    return torch.tensor(found, dtype=torch.int32)


def ctc_beam_search_decoder(
    probs: torch.Tensor, lengths: torch.Tensor, blank: int = 0, beam_width: int = 100, top_paths: int = 1
) -> list[torch.Tensor]:
    """The most probable label sequences under the probabilities that a CTC loss trains. On the IPU only.

    A prefix beam search keeps `beam_width` sequences at each time.

    Args:
        probs: log-probabilities `[T, N, C]`, floating point, computed in float32.
        lengths: integer tensor `[N]`: times of each sample that count.
        blank: class (int) that stands for no label.
        beam_width: sequences (int >= 1) kept at each time.
        top_paths: sequences (int in 1..beam_width) returned, best first.

    Returns:
        List of three tensors: log-probabilities `[N, top_paths]` of the dtype of `probs`, lengths `[N, top_paths]` (int32) and
        labels `[N, top_paths, T]` (int32), padded with `blank`. Where there are fewer sequences: -inf, 0 and blanks.

    Raises:
        poptorch.Error: an argument of another type, shape or range, or a call outside of `forward`.

    Example:
        >>> scores, lengths, labels = poptorch.ctc_beam_search_decoder(log_probs, lengths, top_paths=3)
    """
    function = "ctc_beam_search_decoder"
    _require_tensor(function, "probs", probs)
    _require_tensor(function, "lengths", lengths)
    for name, value in (("blank", blank), ("beam_width", beam_width), ("top_paths", top_paths)):
        _require_int(function, name, value)
    if probs.dim() != 3 or not probs.is_floating_point():
        raise errors.create_error(
            f"poptorch.{function}: probs must be log-probabilities [T, N, C], got shape {list(probs.shape)} of {probs.dtype}"
        )
    if lengths.shape != probs.shape[1:2] or lengths.is_floating_point() or lengths.dtype == torch.bool:
        raise errors.create_error(
            f"poptorch.{function}: lengths must have an integer for each of the {probs.shape[1]} samples, got shape "
            f"{list(lengths.shape)} of {lengths.dtype}"
        )
    if not 0 <= blank < probs.shape[2]:
        raise errors.create_error(f"poptorch.{function}: blank {blank} is none of {probs.shape[2]} classes")
    if not 1 <= top_paths <= beam_width:
        raise errors.create_error(
            f"poptorch.{function}: top_paths {top_paths} must be at least 1 and at most beam_width, which is {beam_width}"
        )
    if capture_state.active() is None:
        raise errors.create_error(f"poptorch.{function} runs on the IPU only: call it in forward of a wrapped model.")
    return list(torch.ops.poptorch.ctc_beam_search(probs, lengths, blank, beam_width, top_paths))
