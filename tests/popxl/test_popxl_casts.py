"""Conversions between element types; 8-bit floats on the device."""

import numpy as np
import popart
import popxl
import pytest
from one_program import OneProgram, check, check_gradients, op_types
from popxl import ops
from popxl.dtypes import np_dtype_float8_143, np_dtype_float8_152

X = np.array([-2.75, -0.5, 0.0, 0.5, 3.99], np.float32)


@pytest.mark.shows("popxl.ops.cast")
def test_cast_between_all_types_of_the_device():
    cases = []
    for source in (np.float32, np.float16, np.int32, np.uint32, np.int16, np.int8, np.uint8, np.bool_):
        data = (np.abs(X) if np.dtype(source).kind == "u" else X).astype(source)
        for target in (np.float32, np.float16, np.int32, np.bool_, source):
            dtype = popxl.dtype.as_dtype(np.dtype(target))
            cases.append((f"{data.dtype} {dtype}", lambda t, d=dtype: ops.cast(t, d), [data], data.astype(target)))
    check(cases)


def test_gradients_pass_casts_in_the_type_of_the_input():
    check_gradients(
        [
            ("to float16", lambda t: ops.cast(t, popxl.float16), np.array, [X]),
            ("to itself", lambda t: ops.cast(t, popxl.float32), np.array, [X]),
        ],
        rtol=2e-3,
    )


def float8(x, dtype, log2_scale):
    """x * 2^log2_scale to the nearest of all numbers of the format; even codes where two are as near."""
    mantissa, bias = (3, 8) if dtype is popxl.float8_143 else (2, 16)
    codes = np.arange(128)
    exponent, fraction = codes >> mantissa, codes & ((1 << mantissa) - 1)
    values = np.where(exponent == 0, fraction * 2.0 ** (1 - bias - mantissa),
                      (1 + fraction / 2**mantissa) * 2.0 ** (exponent - bias))  # fmt: skip
    wanted = np.abs(np.asarray(x, np.float64)) * 2.0**log2_scale
    distance = np.abs(wanted.reshape(-1, 1) - values)
    nearest = distance.min(1, keepdims=True)
    best = np.where(distance == nearest, codes % 2 * 1000 + codes, 10**6).argmin(1).reshape(np.shape(x))
    result = np.where((np.asarray(x) < 0) & (best != 0), best | 0x80, best)
    step = values[127] - values[126]
    return np.where(wanted >= values[127] + step / 2, 0x80, result).astype(np.uint8), np.copysign(values[best], x)


NUMBERS = np.array([0.0, 0.75, -1.1, 3.3, 240.0, -17.2, 2**-10, 2**-11, 3 * 2**-11, 1e4, 0.3], np.float32)


@pytest.mark.shows("popxl.ops.pow2scale_cast_to_fp8", "popxl.ops.pow2scale_cast_from_fp8")
def test_8_bit_floats_on_the_device():
    wanted, places = [], []
    with OneProgram() as program:
        for data in (NUMBERS, NUMBERS.astype(np.float16)):
            for dtype in (popxl.float8_143, popxl.float8_152):
                for scale in (0, 1, -2):
                    s = program.of(np.int32(scale))
                    codes = ops.pow2scale_cast_to_fp8(program.of(data), s, dtype)
                    assert codes.dtype is dtype
                    places.append(
                        (program.out(codes), program.out(ops.pow2scale_cast_from_fp8(codes, s, popxl.float32)))
                    )
                    wanted.append((data, dtype, scale))
    values = program.run()
    for (data, dtype, scale), (coded, back) in zip(wanted, places):
        codes, rounded = float8(data.astype(np.float64), dtype, scale)
        np.testing.assert_array_equal(values[coded].view(np.uint8).reshape(codes.shape), codes)
        want = np.where(codes == 0x80, np.nan, rounded * 2.0**scale).astype(np.float32)
        np.testing.assert_array_equal(values[back], want)


@pytest.mark.shows("popxl.ops.pow2scale_cast_to_fp8", "popxl.ops.pow2scale_then_cast")
def test_8_bit_floats_have_the_published_patterns():
    """0.75 as float8_143 and 0.25 as float8_152; what is too large is NaN, 0x80."""
    cases = [
        (0.75, popxl.float8_143, 0, 0b00111100),
        (0.75, popxl.float8_143, 1, 0b01000100),
        (0.75, popxl.float8_143, -2, 0b00101100),
        (0.25, popxl.float8_152, 0, 0b00111000),
        (0.25, popxl.float8_152, -3, 0b00101100),
        (250.0, popxl.float8_143, 0, 0x80),
        (240.0, popxl.float8_143, 0, 0x7F),
        (-57344.0, popxl.float8_152, 0, 0xFF),
        (np.inf, popxl.float8_152, 0, 0x80),
        (np.nan, popxl.float8_143, 0, 0x80),
        (-0.0, popxl.float8_143, 0, 0x00),
    ]
    with OneProgram() as program:
        places = [
            program.out(ops.pow2scale_then_cast(program.of(np.float32(x)), program.of(np.int32(s)), dtype))
            for x, dtype, s, _ in cases
        ]
    values = program.run()
    assert [int(values[p].view(np.uint8).reshape(-1)[0]) for p in places] == [code for *_, code in cases]


@pytest.mark.shows("popxl.ops.pow2scale_cast_from_fp8", "popxl.ops.cast_then_pow2scale")
def test_all_codes_of_8_bit_floats_come_back():
    codes = np.arange(256, dtype=np.uint8)
    with OneProgram() as program:
        places = []
        for dtype, host in ((popxl.float8_143, np_dtype_float8_143), (popxl.float8_152, np_dtype_float8_152)):
            t = popxl.variable(codes.view(host), dtype)
            wide = ops.cast_then_pow2scale(t, program.of(np.int32(0)), popxl.float32)
            again = ops.pow2scale_cast_to_fp8(wide, program.of(np.int32(0)), dtype)
            places.append((program.out(wide), program.out(again), dtype))
    values = program.run()
    for wide, again, _ in places:
        assert np.isnan(values[wide][0x80]) and np.isfinite(np.delete(values[wide], 0x80)).all()
        np.testing.assert_array_equal(values[again].view(np.uint8).reshape(-1), codes)
    assert np.nanmax(values[places[0][0]]) == 240 and np.nanmax(values[places[1][0]]) == 57344
    assert values[places[0][0]][1] == 2.0**-10 and values[places[1][0]][1] == 2.0**-17


@pytest.mark.shows("popxl.ops.pow2scale_cast_to_fp8")
def test_a_scale_out_of_range_stops_the_run():
    with OneProgram() as program:
        program.out(ops.pow2scale_cast_to_fp8(program.of(X), program.of(np.int32(32)), popxl.float8_143))
    with pytest.raises(Exception, match=r"32 .*log2_scale.* \[-32, 32\)"):
        program.run()


@pytest.mark.shows("popxl.ops.cast", "popxl.ops.pow2scale_cast_to_fp8", "popxl.ops.pow2scale_cast_from_fp8")
@pytest.mark.edge("29.31")
def test_casts_refuse_what_does_not_fit():
    ir = popxl.Ir()
    graph = ir.main_graph
    px = popart.popart_exception
    with graph:
        x = popxl.variable(X, name="x")
        whole, zero = popxl.variable(np.array([1], np.int32)), popxl.constant(0)
        codes = popxl.variable(np.zeros(3, np.uint8).view(np_dtype_float8_143), popxl.float8_143)
        to, back = ops.pow2scale_cast_to_fp8, ops.pow2scale_cast_from_fp8
        mistakes = [
            (TypeError, lambda: ops.cast(x, popxl.float8_143), "pow2scale_cast_to_fp8"),
            (px, lambda: ops.cast(codes, popxl.float32), "pow2scale_cast_from_fp8"),
            (px, lambda: ops.cast(x, popxl.complex64), "COMPLEX64"),
            (TypeError, lambda: to(x, zero, popxl.float16), "data_type"),
            (TypeError, lambda: back(codes, zero, popxl.int32), "data_type"),
            (ValueError, lambda: to(x, popxl.constant([0]), popxl.float8_143), "rank 0"),
            (TypeError, lambda: to(x, popxl.constant(0.0), popxl.float8_143), "int32"),
            (px, lambda: to(whole, zero, popxl.float8_143), "Pow2ScaleThenCast"),
            (px, lambda: back(x, zero, popxl.float16), "CastThenPow2Scale"),
            (TypeError, lambda: to(x, 0, popxl.float8_143), "log2_scale"),
            (TypeError, lambda: back(codes, 0, popxl.float16), "log2_scale"),
            (TypeError, lambda: ops.matmul_pow2scaled(codes, codes, 0), "log2_scale"),
        ]
        for error, make, key in mistakes:
            with pytest.raises(error, match=key):
                make()
        assert op_types(graph) == []
        assert ops.cast(x, popxl.float16).name == "x_float16"
        assert to(x, zero, popxl.float8_152).name == "x_float8_152"
        assert ops.cast(whole, popxl.int64).dtype is popxl.int64
        assert op_types(graph) == ["Cast", "Pow2ScaleThenCast", "Cast"]
