"""Which arrays of the host stand for a tensor: of its type, or 64-bit integers for 32-bit ones."""

from __future__ import annotations

from typing import Any

import numpy

from popart._impl.exceptions import popart_runtime_error
from popart._impl.logs import getLogger

_warned: set[str] = set()  # once for a process


def check_type(id: str, array: numpy.ndarray, dtype: numpy.dtype, on_device: Any) -> None:
    """`dtype`: of the tensor, as users see it.

    Raises:
        popart_runtime_error: the array stands for another type.
    """
    is_codes = array.dtype.names is not None and numpy.dtype(on_device) == numpy.uint8  # of float8
    if array.dtype in (on_device, dtype) or is_codes:
        return
    if array.dtype != numpy.int64 or dtype != numpy.int32:
        raise popart_runtime_error(f"type discrepancy: the array of '{id}' has {array.dtype}, and the tensor {dtype}")
    if "int64" not in _warned:
        _warned.add("int64")
        getLogger("devicex").warn(f"the array of '{id}' has 64-bit integers, and the tensor 32-bit ones: they are cast")
