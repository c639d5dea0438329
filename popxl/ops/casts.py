"""Conversions between dtypes; those of 8-bit floats scale by a power of two. All of them raise TypeError for what is no
tensor and ValueError for a tensor of another graph."""

from typing import Any

from popxl import dtypes
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import dtype as dtype_class
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

__all__ = ["cast", "cast_then_pow2scale", "pow2scale_cast_from_fp8", "pow2scale_cast_to_fp8", "pow2scale_then_cast"]

_FLOAT8 = (dtypes.float8_143, dtypes.float8_152)


def cast(t: Tensor, data_type: dtype_class) -> Tensor:
    """t as another dtype: floats lose their fraction in integers, bool is what differs from 0. Gradients come back in
    the dtype of a float t.

    Raises:
        TypeError: `data_type` is a float8 dtype; use `pow2scale_cast_to_fp8`.
        popart.popart_exception: t has a float8 dtype; use `pow2scale_cast_from_fp8`.

    Example:
        >>> half = ops.cast(x, popxl.float16)  # called <x>_float16
    """
    check_in_graph(_contexts.here.graph, t=t)
    target = dtype_class.as_dtype(data_type)
    if target in _FLOAT8:
        raise TypeError(f"cast of {t!r} to {target!r}: use ops.pow2scale_cast_to_fp8, which scales.")
    return create("Cast", {0: t}, (f"{t.name}_{target.name}",), {"to": target._number})[0]


def pow2scale_cast_to_fp8(t: Tensor, log2_scale: Tensor, data_type: dtype_class) -> Tensor:
    """t * 2^log2_scale as an 8-bit float, rounded to nearest, ties to even; NaN where that is too large. A scale
    outside of [-32, 32) stops the run.

    Args:
        t: float16 or float32.
        log2_scale: int32, of rank 0.
        data_type: popxl.float8_143 or popxl.float8_152.

    Raises:
        TypeError: `data_type` is no float8 dtype; `log2_scale` is not int32.
        ValueError: `log2_scale` has axes.
        popart.popart_exception: t is neither float16 nor float32.

    Example:
        >>> y = ops.pow2scale_cast_to_fp8(x, popxl.constant(0), popxl.float8_143)
    """
    return _scaled("Pow2ScaleThenCast", t, log2_scale, data_type, _FLOAT8)


def pow2scale_cast_from_fp8(t: Tensor, log2_scale: Tensor, data_type: dtype_class) -> Tensor:
    """An 8-bit float as float16 or float32, times 2^log2_scale. A scale outside of [-32, 32) stops the run.

    Args:
        t: float8_143 or float8_152.
        log2_scale: int32, of rank 0.
        data_type: popxl.float16 or popxl.float32.

    Raises:
        TypeError: `data_type` is another dtype; `log2_scale` is not int32.
        ValueError: `log2_scale` has axes.
        popart.popart_exception: t is no 8-bit float.

    Example:
        >>> y = ops.pow2scale_cast_from_fp8(codes, popxl.constant(0), popxl.float16)
    """
    return _scaled("CastThenPow2Scale", t, log2_scale, data_type, (dtypes.float16, dtypes.float32))


def _scaled(op_type: str, t: Tensor, log2_scale: Any, data_type: Any, allowed: tuple[dtype_class, ...]) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t, log2_scale=log2_scale)
    check_tensor_ipu_and_tile_set(t=t, log2_scale=log2_scale)
    target = dtype_class.as_dtype(data_type)
    if target not in allowed:
        raise TypeError(f"data_type is {target!r}; it is one of {', '.join(repr(d) for d in allowed)}.")
    if log2_scale.rank != 0:
        raise ValueError(f"log2_scale is a tensor of rank 0, not {log2_scale!r}.")
    if log2_scale.dtype is not dtypes.int32:
        raise TypeError(f"log2_scale is an int32 tensor, not {log2_scale!r}.")
    return create(op_type, {0: t, 1: log2_scale}, (f"{t.name}_{target.name}",), {"to": target._number})[0]


pow2scale_then_cast = pow2scale_cast_to_fp8
cast_then_pow2scale = pow2scale_cast_from_fp8
