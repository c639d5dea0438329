"""8-bit floats on the host. Codes have no infinity and one NaN, 0x80; a format is its mantissa bits and exponent bias."""

import functools

import numpy

NAN = 0x80
FLOAT8_143, FLOAT8_152 = (3, 8), (2, 16)


@functools.cache
def magnitudes(mantissa: int, bias: int) -> numpy.ndarray:
    """float64 values of the codes 0 to 127, in rising order."""
    codes = numpy.arange(128)
    fraction, exponents = (codes & ((1 << mantissa) - 1)) / (1 << mantissa), codes >> mantissa
    normal = numpy.ldexp(1.0 + fraction, exponents - bias)
    return numpy.where(exponents == 0, numpy.ldexp(fraction, 1 - bias), normal)


def values_of_codes(mantissa: int, bias: int) -> numpy.ndarray:
    """float64 values of all 256 codes."""
    values = numpy.concatenate([magnitudes(mantissa, bias), -magnitudes(mantissa, bias)])
    values[NAN] = numpy.nan
    return values


def codes_of(
    values: numpy.ndarray, lost: numpy.ndarray, format: tuple[int, int], nan_on_overflow: bool
) -> numpy.ndarray:
    """uint8 codes nearest to float64 values, ties to the even code; NaN where they are lost."""
    known, size = magnitudes(*format), numpy.abs(values)
    with numpy.errstate(invalid="ignore"):
        # Number of midpoints below: a value between two neighbours goes to the nearer one.
        midpoints = (known[:-1] + known[1:]) / 2
        codes = numpy.searchsorted(midpoints, size, side="left")
        on_midpoint = (codes < 127) & (size == midpoints[numpy.minimum(codes, 126)])
        codes += on_midpoint & (codes % 2 == 1)
        overflow = size >= known[-1] + (known[-1] - known[-2]) / 2
    codes = codes.astype(numpy.uint8)
    codes[numpy.signbit(values) & (codes != 0)] |= 0x80
    if nan_on_overflow:
        codes[overflow] = NAN
    codes[lost] = NAN
    return codes
