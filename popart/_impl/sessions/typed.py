"""Which arrays of the host stand for a tensor: of its type, or 64-bit integers for 32-bit ones."""

from __future__ import annotations

from typing import Any

import numpy

from popart._impl.exceptions import popart_runtime_error
from popart._impl.logs import getLogger

_warned: set[str] = set()  # once for a process
_NARROW = {"int64": "int32", "uint64": "uint32"}


def typed(id: str, array: numpy.ndarray, dtype: numpy.dtype, on_device: Any) -> numpy.ndarray:
    """An input's array in the type of its stream. `dtype`: of the tensor, as users see it.

    Raises:
        popart_runtime_error: another type than the tensor's, and no 64-bit integers for 32-bit ones.
    """
    target = numpy.dtype(on_device)
    if array.dtype == target:
        return array
    if array.dtype.names is not None and target == numpy.uint8:  # codes of float8
        return array.view(numpy.uint8)
    if array.dtype == dtype and _NARROW.get(dtype.name) == target.name:
        return array.astype(target)
    if array.dtype == numpy.int64 and dtype == numpy.int32 == target:
        _warn(id)
        return array.astype(target)
    raise popart_runtime_error(f"type discrepancy: the array of '{id}' has {array.dtype}, and the tensor {dtype}")


def typed_place(id: str, array: numpy.ndarray, dtype: numpy.dtype, on_device: Any) -> None:
    """Raises popart_runtime_error for an array that a tensor cannot be written to."""
    if array.dtype == dtype or array.dtype == numpy.dtype(on_device):
        return
    if array.dtype == numpy.int64 and dtype == numpy.int32:
        return _warn(id)
    raise popart_runtime_error(f"type discrepancy: the array of '{id}' has {array.dtype}, and the tensor {dtype}")


def _warn(id: str) -> None:
    if "int64" not in _warned:
        _warned.add("int64")
        getLogger("devicex").warn(f"the array of '{id}' has 64-bit integers, and the tensor 32-bit ones: they are cast")
