"""8-bit floats on the host: codes of arrays, and the scale at which an array loses least."""

from __future__ import annotations

from typing import Any

import numpy

from popart._impl.enums import DataType
from popart._impl.exceptions import popart_exception

_NAN = 0x80
# (mantissa bits, exponent bias) of each format.
_FORMATS = {DataType.FLOAT8_143: (3, 8), DataType.FLOAT8_152: (2, 16)}
_SCALES = range(-31, 32)


def _format(format: Any) -> tuple[int, int]:
    if format not in _FORMATS:
        raise popart_exception(
            f"{getattr(format, 'name', format)} is no 8-bit float; there are {', '.join(known.name for known in _FORMATS)}"
        )
    return _FORMATS[format]


def _values(format: Any) -> numpy.ndarray:
    """The value of each of the 256 codes."""
    mantissa, bias = _format(format)
    codes = numpy.arange(256)
    fraction, exponent = codes & ((1 << mantissa) - 1), (codes & 0x7F) >> mantissa
    normal = numpy.ldexp(1.0 + fraction / (1 << mantissa), exponent - bias)
    subnormal = numpy.ldexp(fraction / (1 << mantissa), 1 - bias)
    values = numpy.where(exponent == 0, subnormal, normal) * numpy.where(codes < 128, 1.0, -1.0)
    values[_NAN] = numpy.nan
    return values


def encode(format: Any, array: Any, log2_scale: int = 0, nan_on_overflow: bool = True) -> numpy.ndarray:
    """The code nearest to array·2^log2_scale, ties to even, of each element in C order: a 1-D uint8 array."""
    values = _values(format)[:128]
    flat = numpy.ascontiguousarray(array).reshape(-1).astype(numpy.float64)
    scaled = numpy.ldexp(flat, int(log2_scale))
    size = numpy.abs(scaled)
    above = numpy.searchsorted(values, size, side="left").clip(1, 127)
    below = above - 1
    middle = (values[below] + values[above]) / 2
    takes_above = (size > middle) | ((size == middle) & (above % 2 == 0))
    codes = numpy.where(takes_above, above, below)
    # One more step of the last interval: what would round to the code after the largest overflows.
    overflows = size >= values[127] + (values[127] - values[126]) / 2
    codes = numpy.where(overflows, _NAN if nan_on_overflow else 127, codes)
    lost = numpy.isnan(scaled) | numpy.isinf(flat)
    is_nan = lost | (overflows & nan_on_overflow)
    negative = (scaled < 0) & (codes != 0) & ~is_nan
    return numpy.where(is_nan, _NAN, codes + 128 * negative).astype(numpy.uint8)


def decode(format: Any, codes: Any, dtype: Any, log2_scale: int = 0) -> numpy.ndarray:
    """value·2^log2_scale of each code: a 1-D array of the NumPy type."""
    flat = numpy.ascontiguousarray(codes).reshape(-1).view(numpy.uint8)
    return numpy.ldexp(_values(format)[flat], int(log2_scale)).astype(dtype)


def best_scale(array: Any, format: Any) -> int:
    """The scale in [-31, 31] with the least mean square error; of equal ones the one nearest to 0."""
    _format(format)
    flat = numpy.asarray(array, numpy.float64).reshape(-1)
    flat = flat[numpy.isfinite(flat)]
    errors = []
    for scale in _SCALES:
        back = decode(format, encode(format, flat, scale, False), numpy.float64, -scale)
        errors.append(float(numpy.mean((back - flat) ** 2)) if flat.size else 0.0)
    least = min(errors)
    return min((scale for scale, error in zip(_SCALES, errors) if error == least), key=abs)


def _encoder(dtype: str) -> Any:
    def convert(format: Any, array: Any, log2_scale: int = 0, nan_on_overflow: bool = True) -> numpy.ndarray:
        if numpy.asarray(array).dtype != dtype:
            raise popart_exception(f"the array is of {numpy.asarray(array).dtype}, not of {dtype}")
        return encode(format, array, log2_scale, nan_on_overflow)

    return convert


def _decoder(dtype: str) -> Any:
    def convert(format: Any, array: Any, target: Any = dtype, log2_scale: int = 0) -> numpy.ndarray:
        return decode(format, array, target, log2_scale)

    return convert


FUNCTIONS = {
    **{f"convertFromFloat{bits}ToFloat8AsUInt8": _encoder(f"float{bits}") for bits in (16, 32, 64)},
    **{f"convertFromFloat8AsUInt8ToFloat{bits}": _decoder(f"float{bits}") for bits in (16, 32, 64)},
    **{f"calculateScaleFromFloat{bits}ToFloat8": lambda array, format: best_scale(array, format) for bits in (16, 32)},
}
