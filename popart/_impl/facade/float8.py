"""8-bit floats on the host: codes of arrays, and the scale at which an array loses least."""

from __future__ import annotations

from typing import Any

import numpy
from ipu_common import float8

from popart._impl.enums import DataType
from popart._impl.exceptions import popart_exception

_FORMATS = {DataType.FLOAT8_143: float8.FLOAT8_143, DataType.FLOAT8_152: float8.FLOAT8_152}
_SCALES = range(-31, 32)


def _format(format: Any) -> tuple[int, int]:
    if format not in _FORMATS:
        raise popart_exception(
            f"{getattr(format, 'name', format)} is no 8-bit float; there are {', '.join(known.name for known in _FORMATS)}"
        )
    return _FORMATS[format]


def encode(format: Any, array: Any, log2_scale: int = 0, nan_on_overflow: bool = True) -> numpy.ndarray:
    """The code nearest to array·2^log2_scale, ties to even, of each element in C order: a 1-D uint8 array."""
    form = _format(format)
    flat = numpy.ascontiguousarray(array).reshape(-1).astype(numpy.float64)
    scaled = numpy.ldexp(flat, int(log2_scale))
    return float8.codes_of(scaled, numpy.isnan(scaled) | numpy.isinf(flat), form, nan_on_overflow)


def decode(format: Any, codes: Any, dtype: Any, log2_scale: int = 0) -> numpy.ndarray:
    """value·2^log2_scale of each code: a 1-D array of the NumPy type."""
    values = float8.values_of_codes(*_format(format))
    flat = numpy.ascontiguousarray(codes).reshape(-1).view(numpy.uint8)
    return numpy.ldexp(values[flat], int(log2_scale)).astype(dtype)


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
