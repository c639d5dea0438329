"""Conversions of float8 on the host, and the choice of a scale for it.

Codes have no infinity and one NaN, 0x80 (ipu_common.float8).
"""

import sys
from typing import Any, NamedTuple, Optional

import numpy as np
from ipu_common import float8

from popxl import dtypes

min_scaling_bias, max_scaling_bias = -31, 31


class FpDef(NamedTuple):
    """A format of floating-point numbers."""

    exponent_bits: int
    mantissa_bits: int
    exponent_bias: int
    has_denorms: bool
    reserves_exponent_for_nan: bool


float8_143_def = FpDef(4, 3, 8, True, False)
float8_152_def = FpDef(5, 2, 16, True, False)
ieee_fp16_denorms = FpDef(5, 10, 15, True, True)
ieee_fp32_no_denorms = FpDef(8, 23, 127, False, True)

_FORMATS = {dtypes.float8_143: float8_143_def, dtypes.float8_152: float8_152_def}


def _bits(dtype: dtypes.dtype) -> tuple[int, int]:
    return _FORMATS[dtype].mantissa_bits, _FORMATS[dtype].exponent_bias


def _array(src: Any) -> np.ndarray:
    torch_tensor: Any = getattr(sys.modules.get("torch"), "Tensor", ())
    if isinstance(src, torch_tensor):
        src = src.detach().cpu().numpy()
    return np.asarray(src)


def _check_scale(log2_scale: int) -> int:
    if not -32 <= log2_scale < 32:
        raise RuntimeError(f"log2_scale is {log2_scale}: it must be at least -32 and less than 32.")
    return int(log2_scale)


def host_pow2scale_cast_to_fp8(
    src: Any, dtype: Optional[dtypes.dtype] = None, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """`src * 2**log2_scale` in a float8 dtype, rounded to nearest, ties to even.

    Args:
        src: float16, float32 or float64 array or torch tensor of any shape.
        dtype: popxl.float8_143 or popxl.float8_152.
        log2_scale: at least -32, less than 32.
        nan_on_overflow: what is too large becomes NaN; else the largest number. Infinity becomes NaN in any case.

    Returns:
        Array of the structured dtype of `dtype`, of the shape of `src`.

    Raises:
        RuntimeError: for other dtypes or scales.

    Example:
        >>> popxl.fp8_utils.host_pow2scale_cast_to_fp8(np.float32([0.75]), popxl.float8_143)["float8_143"]
        array([60], dtype=uint8)
    """
    array = _array(src)
    if array.dtype not in (np.float16, np.float32, np.float64) or dtype not in _FORMATS:
        raise RuntimeError(
            f"{array.dtype} cannot become {dtype!r}: give float16, float32 or float64, and popxl.float8_143 or popxl.float8_152."
        )
    assert dtype is not None
    scaled = np.ldexp(array.astype(np.float64), _check_scale(log2_scale))
    flat = scaled.reshape(-1)
    codes = float8.codes_of(flat, ~np.isfinite(flat), _bits(dtype), nan_on_overflow)
    return codes.reshape(array.shape).view(dtype.as_numpy())


def host_pow2scale_cast_from_fp8(src: Any, dtype: Optional[dtypes.dtype] = None, log2_scale: int = 0) -> np.ndarray:
    """Float8 numbers times `2**log2_scale`.

    Args:
        src: array of the structured dtype of popxl.float8_143 or popxl.float8_152.
        dtype: popxl.float16, popxl.float32 or popxl.float64.
        log2_scale: at least -32, less than 32.

    Returns:
        Array of `dtype` and the shape of `src`.

    Raises:
        RuntimeError: for other dtypes or scales.
    """
    array = np.asarray(src)
    source = dtypes._NP_TO_POPXL.get(array.dtype)
    if source not in _FORMATS or dtype not in (dtypes.float16, dtypes.float32, dtypes.float64):
        raise RuntimeError(
            f"{array.dtype} cannot become {dtype!r}: give an array of a float8 dtype, and popxl.float16, popxl.float32 "
            "or popxl.float64."
        )
    assert source is not None and dtype is not None
    table = np.ldexp(float8.values_of_codes(*_bits(source)), _check_scale(log2_scale))
    with np.errstate(over="ignore"):
        return table.astype(dtype.as_numpy())[np.ascontiguousarray(array).view(np.uint8)].reshape(array.shape)


def host_pow2scale_then_cast(
    src: Any, dtype: Optional[dtypes.dtype] = None, log2_scale: int = 0, nan_on_overflow: bool = True
) -> np.ndarray:
    """Name of `host_pow2scale_cast_to_fp8` in 3.1."""
    return host_pow2scale_cast_to_fp8(src, dtype, log2_scale, nan_on_overflow)


def host_cast_then_pow2scale(src: Any, dtype: Optional[dtypes.dtype] = None, log2_scale: int = 0) -> np.ndarray:
    """Name of `host_pow2scale_cast_from_fp8` in 3.1."""
    return host_pow2scale_cast_from_fp8(src, dtype, log2_scale)


# --- the scale with the least mean squared error


def find_exponential_range(form: FpDef) -> tuple[int, int]:
    """Exponents of the smallest and the largest power of two of a format."""
    top = (1 << form.exponent_bits) - 1 - int(form.reserves_exponent_for_nan)
    low = 1 - form.exponent_bias - (form.mantissa_bits if form.has_denorms else 0)
    return low, top - form.exponent_bias


def log_histogram(src: Any) -> tuple[np.ndarray, int]:
    """Shares of |src| in bins [2^e, 2^(e+1)), over the exponents of float32; what is smaller is in the first bin, what
    is larger or infinite in the last. Zeros and NaN are left out.

    Returns:
        The shares, and the exponent of the first bin but one.
    """
    low, high = find_exponential_range(ieee_fp32_no_denorms)
    values = np.abs(_array(src).astype(np.float64)).reshape(-1)
    values = values[(values != 0) & ~np.isnan(values)]
    _, exponents = np.frexp(values)
    bins = np.where(np.isinf(values), high + 1, exponents - 1)
    counts = np.bincount(np.clip(bins, low - 1, high + 1) - (low - 1), minlength=high - low + 3)
    return counts / max(1, counts.sum()), low


def host_fp8_mse_scale(src: Any, dtype: Optional[dtypes.dtype] = None) -> tuple[float, int]:
    """The scale with which a float8 dtype represents `src` with the least squared error, estimated from a histogram of
    its exponents.

    Args:
        src: float16, float32 or float64 array or torch tensor.
        dtype: popxl.float8_143 or popxl.float8_152.

    Returns:
        The error, and the scale: an integer of [-31, 31] for `host_pow2scale_cast_to_fp8`.

    Raises:
        RuntimeError: for other dtypes.
    """
    array = _array(src)
    if array.dtype not in (np.float16, np.float32, np.float64) or dtype not in _FORMATS:
        raise RuntimeError(
            f"No scale from {array.dtype} to {dtype!r}: give float16, float32 or float64, and popxl.float8_143 or "
            "popxl.float8_152."
        )
    assert dtype is not None
    shares, low = log_histogram(array)
    source = ieee_fp16_denorms if array.dtype == np.float16 else ieee_fp32_no_denorms
    form = _FORMATS[dtype]
    noise = 2.0 ** (-2 * (source.mantissa_bits - form.mantissa_bits))
    first, last = find_exponential_range(form)
    exponents = np.arange(low - 1, low - 1 + len(shares))
    limits = np.ldexp(1.0, np.minimum(exponents + 1, 1023))
    costs = []
    for bias in range(min_scaling_bias, max_scaling_bias + 1):
        below, above = exponents < first + bias, exponents > last + bias
        inside = ~(below | above)
        top = 2.0 ** (last + bias + 1)
        costs.append(
            float(
                np.sum(limits[below] ** 2 * shares[below])
                + np.sum(limits[inside] ** 2 * shares[inside]) * noise
                + np.sum((limits[above] - top) ** 2 * shares[above])
            )
        )
    best = min(costs)
    ties = [i for i, cost in enumerate(costs) if cost == best]
    return best, -(min_scaling_bias + ties[len(ties) // 2])


def host_fp8_mse_scale_pb(src: Any, dtype: Optional[dtypes.dtype] = None) -> int:
    """The scale of `host_fp8_mse_scale` alone."""
    return host_fp8_mse_scale(src, dtype)[1]
