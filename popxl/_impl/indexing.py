"""`tensor[key]`: which ops a key stands for."""

import numbers
import sys
from typing import Any

import numpy as np

from popxl import dtypes, ops
from popxl.tensor import Tensor, constant


def _is_position(key: Any) -> bool:
    return isinstance(key, slice) or (isinstance(key, numbers.Integral) and not isinstance(key, bool))


def index(t: Tensor, key: Any) -> Tensor:
    """`t[key]`; see `Tensor.__getitem__`."""
    if _is_position(key):
        return _slice(t, (key,))
    if isinstance(key, tuple) and all(_is_position(k) for k in key):
        return _slice(t, key)
    if isinstance(key, Tensor):
        return _select(t, key, key.dtype)
    torch = sys.modules.get("torch")
    if isinstance(key, (np.ndarray, list, tuple)) or (torch is not None and isinstance(key, torch.Tensor)):
        array = np.asarray(key.detach().cpu() if not isinstance(key, (np.ndarray, list, tuple)) else key)
        if array.size and array.dtype.kind in "iub":
            return _select(t, array, dtypes._NP_TO_POPXL[array.dtype])
    raise TypeError(
        f"{t!r} cannot be indexed by {key!r}: a key is an integer, a slice, a tuple of these, or integers or booleans "
        "in a tensor, an array or a sequence."
    )


def _select(t: Tensor, key: Any, dtype: Any) -> Tensor:
    if not (dtype.is_int or dtype is dtypes.bool):
        raise TypeError(f"{t!r} cannot be indexed by {key!r}: elements of a key are integers or booleans.")
    indices = key if isinstance(key, Tensor) else constant(key)
    if dtype is dtypes.bool:
        return ops.where(indices, t, constant(0, t.dtype))
    return ops.gather(t, indices)


def _slice(t: Tensor, keys: Any) -> Tensor:
    shape = t.shape
    start: Any = []
    stop: Any = []
    step: Any = []
    strides, integers = [], []
    for axis, key in enumerate(keys):
        if isinstance(key, slice):
            start.append(key.start)
            stop.append(key.stop)
            stride = 1 if key.step is None else int(key.step)
            if stride == 0:
                raise ValueError(f"The step of axis {axis} of a slice of {t!r} is 0: it must be another number.")
            step.append(1 if stride > 0 else -1)
            strides.append(abs(stride))
            continue
        at = int(key)
        if axis < len(shape):
            if not -shape[axis] <= at < shape[axis]:
                raise ValueError(f"Index {at} is out of range for axis {axis} of {t!r}, which has {shape[axis]}.")
            at %= shape[axis]
        start.append(at)
        stop.append(at + 1)
        step.append(1)
        strides.append(1)
        integers.append(axis)
    result = ops.slice(t, start, stop, step)
    if any(s != 1 for s in strides):
        result = ops.subsample(result, strides)
    return ops.squeeze(result, integers) if integers else result
