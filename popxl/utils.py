"""Host arrays of tensors, tables of text, and the choice of a device."""

import sys
from collections.abc import Iterable, Sequence
from typing import Any, Optional

import numpy as np

from popxl import dtypes
from popxl.dtypes import np_dtype_float8_143 as np_dtype_float8_143
from popxl.dtypes import np_dtype_float8_152 as np_dtype_float8_152
from popxl.fp8_utils import (
    host_cast_then_pow2scale as host_cast_then_pow2scale,
)
from popxl.fp8_utils import (
    host_fp8_mse_scale as host_fp8_mse_scale,
)
from popxl.fp8_utils import (
    host_fp8_mse_scale_pb as host_fp8_mse_scale_pb,
)
from popxl.fp8_utils import (
    host_pow2scale_cast_from_fp8 as host_pow2scale_cast_from_fp8,
)
from popxl.fp8_utils import (
    host_pow2scale_cast_to_fp8 as host_pow2scale_cast_to_fp8,
)
from popxl.fp8_utils import (
    host_pow2scale_then_cast as host_pow2scale_then_cast,
)

host_calculate_pow2scale = host_fp8_mse_scale_pb  # its name in 3.2

HW_DEVICE_CONNECTION_TIMEOUT = 10000
"""Seconds that attaching to a device waits for one."""

downcast_np_dtypes = {
    np.dtype("int64"): np.dtype("int32"),
    np.dtype("uint64"): np.dtype("uint32"),
    np.dtype("float64"): np.dtype("float32"),
}


def _check_memmap(x: np.memmap, dtype: Optional[dtypes.dtype]) -> None:
    wrong = ""
    if not x.flags.c_contiguous:
        wrong = "is not C-contiguous"
    elif not x.flags.aligned:
        wrong = "is not aligned"
    elif not x.dtype.isnative:
        wrong = "has the other byte order than this machine"
    elif x.dtype in downcast_np_dtypes:
        wrong = f"is to be narrowed to {downcast_np_dtypes[x.dtype]}, as the device has it"
    elif dtype is not None and dtype.as_numpy() != x.dtype:
        wrong = f"is to become {dtype!r}"
    if wrong:
        raise ValueError(
            f"The np.memmap of {x.dtype} {x.shape} {wrong}, and it is used as it is: prepare the file, or give np.array of it."
        )


def _as_array(x: Any) -> Any:
    """A torch tensor as an array of its memory; anything else as it is."""
    torch_tensor: Any = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(x, torch_tensor):
        return x.detach().cpu().numpy()
    return x


def to_numpy(
    x: Any,
    dtype: Optional[dtypes.dtype] = None,
    downcast: bool = True,
    copy: bool = True,
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> np.ndarray:
    """`x` as an array in C order.

    Args:
        x: number, array, nested sequence or torch tensor.
        dtype: of the result; None: of `x`, in the byte order of this machine, 64-bit types as 32-bit ones if `downcast`.
        copy: False: shares the memory of `x` where nothing has to change.
        log2_scale, nan_on_overflow: of a float8 dtype; 0 and True if None.

    Raises:
        RuntimeError: float8 arguments without a float8 dtype.
        TypeError: float8 values of data that are neither of that dtype nor float16, float32 or float64; without `dtype`, data
            that have no popxl.dtype, such as objects and texts.
        ValueError: an np.memmap that would have to change.

    Example:
        >>> popxl.utils.to_numpy([1.5, 2.0]).dtype
        dtype('float32')
    """
    if isinstance(x, np.memmap):
        _check_memmap(x, dtype)
    float8 = dtype is dtypes.float8_143 or dtype is dtypes.float8_152
    if not float8 and (log2_scale is not None or nan_on_overflow is not None):
        raise RuntimeError(f"log2_scale and nan_on_overflow are for float8 dtypes, not for {dtype!r}: leave them out.")
    if not isinstance(x, (np.ndarray, int, float)):
        x = _as_array(x)
    if float8:
        assert dtype is not None
        array = np.asarray(x)
        if array.dtype == dtype.as_numpy():
            return np.array(array, order="C", copy=True) if copy else np.asarray(array, order="C")
        if array.dtype not in (np.float16, np.float32, np.float64):
            raise TypeError(f"{array.dtype} cannot become {dtype!r}: give float16, float32 or float64.")
        return host_pow2scale_cast_to_fp8(
            array, dtype, log2_scale or 0, True if nan_on_overflow is None else nan_on_overflow
        )
    if dtype is not None:
        target = dtype.as_numpy()
    else:
        x = np.asarray(x)
        target = x.dtype if x.dtype.isnative else x.dtype.newbyteorder("=")
        if downcast:
            target = downcast_np_dtypes.get(target, target)
        if target not in dtypes._NP_TO_POPXL:
            raise TypeError(
                f"An array of {x.dtype}, shape {x.shape}, has no popxl.dtype: give one as dtype, or an array of one of "
                f"{', '.join(sorted(dtypes._STR_TO_POPXL))}."
            )
    if isinstance(x, np.memmap) and not copy:
        return x
    return np.array(x, target, order="C", copy=True) if copy else np.asarray(x, target, order="C")


def table_to_string(rows: Sequence[Iterable[Any]], delimiter: str = " | ", header: bool = True) -> str:
    """Rows of one length as text: columns start below each other, each row ends with a newline.

    Args:
        rows: of the table; everything is shown as `str` shows it.
        delimiter: between two columns.
        header: underlines the first row where there are several.
    """
    texts = [[str(cell) for cell in row] for row in rows]
    widths = [max(len(cell) for cell in column) for column in zip(*texts)]
    lines = [delimiter.join(cell.ljust(width) for cell, width in zip(row, widths)) + "\n" for row in texts]
    if header and len(lines) > 1:
        lines.insert(1, "-" * len(lines[0]) + "\n")
    return "".join(lines)


def _to_device_info(device_type: str, num_ipus: int = 1, use_popdist: bool = False) -> Any:
    """The `popart.DeviceInfo` that a descriptor of a Session means."""
    from popxl._impl.devices import device_info

    return device_info(device_type, num_ipus, use_popdist)
