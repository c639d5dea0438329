"""Float8 on the host: every code, rounding, overflow, scales."""

import numpy as np
import pytest

import popxl
from popxl import fp8_utils, utils
from popxl.fp8_utils import host_pow2scale_cast_from_fp8, host_pow2scale_cast_to_fp8

FORMATS = {popxl.float8_143: (4, 3, 8), popxl.float8_152: (5, 2, 16)}
EDGES = {popxl.float8_143: (2.0**-10, 240.0), popxl.float8_152: (2.0**-17, 57344.0)}


def value(code, dtype):
    """By the definition of the format."""
    _, mantissa_bits, bias = FORMATS[dtype]
    if code == 0x80:
        return np.nan
    sign = -1.0 if code & 0x80 else 1.0
    exponent, mantissa = (code & 0x7F) >> mantissa_bits, code & ((1 << mantissa_bits) - 1)
    if exponent == 0:
        return sign * mantissa / 2**mantissa_bits * 2.0 ** (1 - bias)
    return sign * (1 + mantissa / 2**mantissa_bits) * 2.0 ** (exponent - bias)


def coded(codes, dtype):
    return np.asarray(codes, np.uint8).view(dtype.as_numpy())


@pytest.mark.shows("popxl.fp8_utils.host_pow2scale_cast_from_fp8")
@pytest.mark.parametrize("target", [popxl.float16, popxl.float32, popxl.float64])
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("log2_scale", [0, 3, -5])
def test_every_code_has_its_value(dtype, target, log2_scale):
    got = host_pow2scale_cast_from_fp8(coded(np.arange(256), dtype), target, log2_scale)
    expected = np.array([value(c, dtype) for c in range(256)]) * 2.0**log2_scale
    with np.errstate(over="ignore"):
        np.testing.assert_array_equal(got, expected.astype(target.as_numpy()))
    smallest, largest = EDGES[dtype]
    assert np.nanmax(expected) == largest * 2.0**log2_scale
    assert np.min(expected[expected > 0]) == smallest * 2.0**log2_scale


@pytest.mark.shows("popxl.fp8_utils.host_pow2scale_cast_to_fp8")
@pytest.mark.parametrize("source", [np.float16, np.float32, np.float64])
@pytest.mark.parametrize("dtype", FORMATS)
def test_every_value_has_its_code(dtype, source):
    codes = np.arange(256, dtype=np.uint8)
    values = host_pow2scale_cast_from_fp8(coded(codes, dtype), popxl.float64)
    back = host_pow2scale_cast_to_fp8(values.astype(source), dtype)
    np.testing.assert_array_equal(back.view(np.uint8), codes)


@pytest.mark.parametrize("dtype", FORMATS)
def test_values_between_go_to_the_nearest_and_ties_to_even(dtype):
    table = np.array([value(c, dtype) for c in range(128)])
    between = (table[:-1] + table[1:]) / 2
    ties = host_pow2scale_cast_to_fp8(between, dtype).view(np.uint8)
    np.testing.assert_array_equal(ties, [c if c % 2 == 0 else c + 1 for c in range(127)])
    for factor, offset in ((0.999999, 0), (1.000001, 1)):
        near = host_pow2scale_cast_to_fp8(between * factor, dtype).view(np.uint8)
        np.testing.assert_array_equal(near, np.arange(127) + offset)
    np.testing.assert_array_equal(host_pow2scale_cast_to_fp8(-between[1:], dtype).view(np.uint8), ties[1:] | 0x80)


@pytest.mark.parametrize("dtype", FORMATS)
def test_what_is_too_large(dtype):
    largest = EDGES[dtype][1]
    x = np.array([largest, largest * 1.01, largest * 2, -largest * 2, np.inf, -np.inf, np.nan])
    nan = host_pow2scale_cast_to_fp8(x, dtype).view(np.uint8).tolist()
    assert nan == [0x7F, 0x7F, 0x80, 0x80, 0x80, 0x80, 0x80]
    saturated = host_pow2scale_cast_to_fp8(x, dtype, nan_on_overflow=False).view(np.uint8).tolist()
    assert saturated == [0x7F, 0x7F, 0x7F, 0xFF, 0x80, 0x80, 0x80]


def test_published_codes_and_scales():
    to = host_pow2scale_cast_to_fp8
    for log2_scale, code in ((0, 0b00111100), (1, 0b01000100), (-2, 0b00101100)):
        assert to(np.float32(0.75), popxl.float8_143, log2_scale).view(np.uint8) == code
    for log2_scale, code in ((0, 0b00111000), (-3, 0b00101100)):
        assert to(np.float32(0.25), popxl.float8_152, log2_scale).view(np.uint8) == code
    assert to(np.float32(-0.0), popxl.float8_143).view(np.uint8) == 0


def test_shapes_are_kept_and_other_types_refused():
    x = np.ones((2, 1, 3), np.float16)
    codes = host_pow2scale_cast_to_fp8(x.transpose(2, 0, 1), popxl.float8_152)
    assert codes.shape == (3, 2, 1)
    assert host_pow2scale_cast_from_fp8(codes, popxl.float32).shape == (3, 2, 1)
    assert host_pow2scale_cast_to_fp8(np.float32(1), popxl.float8_152).shape == ()
    for wrong in (lambda: host_pow2scale_cast_to_fp8(np.ones(2, np.int32), popxl.float8_143),
                  lambda: host_pow2scale_cast_to_fp8(x, popxl.float16),
                  lambda: host_pow2scale_cast_to_fp8(x, popxl.float8_143, 32),
                  lambda: host_pow2scale_cast_from_fp8(x, popxl.float32),
                  lambda: host_pow2scale_cast_from_fp8(codes, popxl.int32),
                  lambda: fp8_utils.host_fp8_mse_scale(np.ones(2, np.int32), popxl.float8_143)):  # fmt: skip
        with pytest.raises(RuntimeError):
            wrong()


def test_torch_tensors_are_taken():
    torch = pytest.importorskip("torch")
    got = host_pow2scale_cast_to_fp8(torch.tensor([0.75]), popxl.float8_143)
    assert got.view(np.uint8).tolist() == [0x3C]


@pytest.mark.shows("popxl.fp8_utils.host_fp8_mse_scale", "popxl.fp8_utils.host_fp8_mse_scale_pb")
@pytest.mark.parametrize("dtype", FORMATS)
@pytest.mark.parametrize("size", [-20, -3, 0, 4, 20])
def test_the_scale_brings_values_into_range(dtype, size):
    x = (np.random.default_rng(1).standard_normal(10_000) * 2.0**size).astype(np.float32)
    error, scale = fp8_utils.host_fp8_mse_scale(x, dtype)
    assert error >= 0 and -31 <= scale <= 31 and fp8_utils.host_fp8_mse_scale_pb(x, dtype) == scale

    def loss(scale):
        codes = host_pow2scale_cast_to_fp8(x, dtype, scale, nan_on_overflow=False)
        return np.mean((host_pow2scale_cast_from_fp8(codes, popxl.float64, -scale) - x) ** 2)

    # The estimate is coarse: its scale is not much worse than the best one, and far better than a wrong one.
    best = min(loss(s) for s in range(-31, 32))
    assert loss(scale) <= 4 * best


@pytest.mark.shows("popxl.utils.host_pow2scale_then_cast", "popxl.utils.host_cast_then_pow2scale")
@pytest.mark.shows("popxl.utils.host_calculate_pow2scale")
@pytest.mark.shows("popxl.utils.host_pow2scale_cast_to_fp8", "popxl.utils.host_pow2scale_cast_from_fp8")
def test_names_of_earlier_releases():
    codes = utils.host_pow2scale_then_cast(np.float32([0.75]), popxl.float8_143, 1)
    assert codes.view(np.uint8).tolist() == [0x44]
    assert utils.host_cast_then_pow2scale(codes, popxl.float32, -1).tolist() == [0.75]
    assert utils.host_pow2scale_cast_to_fp8(np.float32([0.75]), popxl.float8_143, 1).tolist() == codes.tolist()
    assert utils.host_pow2scale_cast_from_fp8(codes, popxl.float32, -1).tolist() == [0.75]
    x = np.float32([1.0, 700.0])
    scale = utils.host_calculate_pow2scale(x, popxl.float8_143)
    assert scale == fp8_utils.host_fp8_mse_scale(x, popxl.float8_143)[1] and isinstance(scale, int)
