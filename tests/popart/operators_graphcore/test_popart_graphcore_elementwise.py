"""Elementwise operators of ai.graphcore: values in both float types and in integers, gradients, refusals."""

import math

import numpy as np
import pytest

import ipu_core
from graphcore_models import Gradients, Values, normal, refusal, run, train

X = np.float32([-2.5, -1.5, -0.5, -0.49999997, 0.0, 0.49999997, 0.5, 1.5, 2.5, 3.7, -7.2, 1e8])
erf = np.vectorize(math.erf)


def gelu(x):
    return 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))


def away_from_zero(x):
    return np.sign(x) * np.floor(np.abs(np.asarray(x, np.float64)) + 0.5)


FUNCTIONS = {
    "Expm1": (np.expm1, 0.5),
    "Log1p": (np.log1p, 0.5),
    "Gelu": (gelu, 0.0),
    "GeluErf": (lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2))), 0.0),
    "Swish": (lambda x: x / (1 + np.exp(-x)), 0.0),
}


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_functions_of_one_operand(dtype):
    values = Values()
    for kind, (function, offset) in FUNCTIONS.items():
        x = (np.abs(normal(3, 5)) * 0.8 - 0.4 if offset else normal(3, 5)).astype(dtype)
        values.add(kind, [x], function(x.astype(np.float64)).astype(dtype))
    x = X[:-1].astype(dtype)
    values.add("Round", [x], away_from_zero(x).astype(dtype))
    values.add("NearbyInt", [x], np.round(x))
    values.add("Scale", [x], (x * dtype(-1.5)), scale=-1.5)
    values.add("Nop", [x], x)
    values.add("Detach", [x], x)
    values.add("TensorRemap", [x], x, remap_type=1)
    values.add("TensorRemap", [x, normal(2)], x)
    values.check()


def test_round_takes_halves_away_from_zero_and_leaves_what_is_whole_or_no_number():
    x = np.concatenate([X, np.float32([np.inf, -np.inf])])
    values = Values()
    values.add("Round", [x], np.concatenate([away_from_zero(X), [np.inf, -np.inf]]).astype(np.float32), 0)
    values.add("NearbyInt", [x], np.round(x), 0)
    values.check()


def test_gradients_of_functions():
    gradients = Gradients()
    for kind, (function, _) in FUNCTIONS.items():
        gradients.add(kind, {0: np.abs(normal(2, 3)) * 0.5}, function)
    x, y = normal(2, 3), np.abs(normal(3, seed=1)) + 0.5
    gradients.add("Atan2", {0: x, 1: y}, np.arctan2)
    gradients.add("Scale", {0: x}, lambda x: x * 2.5, scale=2.5)
    gradients.add("Nop", {0: x}, lambda x: x)
    gradients.add("TensorRemap", {0: x}, lambda x: x, {1: y})
    gradients.add("Round", {0: x}, away_from_zero, gradients=[np.zeros((2, 3))])
    gradients.add("NearbyInt", {0: x}, np.round, gradients=[np.zeros((2, 3))])
    gradients.add("Fmod", {0: x * 4}, lambda a: np.fmod(a, y), {1: y})
    gradients.add("Remainder", {0: x * 4}, lambda a: np.mod(a, y), {1: y})
    gradients.check()


def test_a_detached_value_gets_no_gradient_and_operators_without_one_pass_none():
    w = np.float32([0.3, -1.2])
    for kind, attributes in (
        ("Detach", {}),
        ("IncrementMod", {"increment": 1.0, "modulus": 3.0}),
    ):
        nodes = [
            (kind, ["w"], ["y"], attributes),
            ("onnx.Mul", ["y", "w"], ["m"], {}),
            ("IdentityLoss", ["m"], ["loss"], {"reduction": "Sum"}),
        ]
        other = {"Detach": w, "IncrementMod": np.fmod(w + 1, 3)}[kind]
        np.testing.assert_allclose(train(nodes, {}, {"w": w}, ["loss"])["w"], other, rtol=1e-6)


def test_no_gradient_passes_bits_which_are_integers():
    nodes = [
        ("onnx.Cast", ["w"], ["i"], {"to": 6}),
        ("BitwiseNot", ["i"], ["b"], {}),
        ("onnx.Cast", ["b"], ["y"], {"to": 1}),
        ("onnx.Add", ["y", "w"], ["z"], {}),
        ("IdentityLoss", ["z"], ["loss"], {"reduction": "Sum"}),
    ]
    np.testing.assert_array_equal(train(nodes, {}, {"w": np.float32([1, 2, 3])}, ["loss"])["w"], [1, 1, 1])


def test_a_gradient_for_the_divisor_of_a_remainder_is_refused():
    nodes = [("Fmod", ["x", "w"], ["y"], {}), ("IdentityLoss", ["y"], ["loss"], {"reduction": "Sum"})]
    with pytest.raises(ipu_core.Error, match="Fmod_0.* has no gradient for it"):
        train(nodes, {"x": normal(3)}, {"w": normal(3)}, ["loss"])


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_arithmetic_of_several_operands(dtype):
    a, b = (normal(2, 3) * 5).astype(dtype), (np.abs(normal(3)) + 0.5).astype(dtype)
    c, s0, s1 = normal(2, 3, seed=2).astype(dtype), np.asarray(1.5, dtype), np.asarray([0.25], dtype)
    wide = a.astype(np.float64)
    values = Values()
    values.add("Atan2", [a, b], np.arctan2(wide, b).astype(dtype))
    values.add("Fmod", [a, b], np.fmod(a, b), 1e-2 if dtype == np.float16 else 1e-5)
    values.add("Remainder", [a, b], np.mod(a, b), 1e-2 if dtype == np.float16 else 1e-5)
    values.add("ScaledAdd", [a, c], a + c)
    values.add("ScaledAdd", [a, c], (0.5 * wide - 2 * c).astype(dtype), scale0=0.5, scale1=-2.0)
    values.add("ScaledAdd", [a, c, s0, s1], (1.5 * wide + 0.25 * c).astype(dtype), scale0=9.0)
    values.add("ScaledAdd", [a, c, None, s1], (wide + 0.25 * c).astype(dtype))
    values.add("IncrementMod", [np.asarray([0, 1, 2], dtype)], np.asarray([1, 2, 0], dtype), increment=1.0, modulus=3.0)
    values.add(
        "IncrementMod", [np.asarray([4, -9, 1.5], dtype)], np.asarray([1, -2, 3.5], dtype), increment=2.0, modulus=5.0
    )
    values.check()


def test_scaled_add_has_gradients_for_all_its_operands():
    gradients = Gradients()
    a, b = normal(2, 3), normal(2, 3, seed=1)
    gradients.add("ScaledAdd", {0: a, 1: b}, lambda a, b: 0.5 * a - 2 * b, scale0=0.5, scale1=-2.0)
    s0, s1 = np.float32(0.7), np.float32(-0.2)
    gradients.add("ScaledAdd", {0: a, 1: b, 2: s0, 3: s1}, lambda a, b, s, t: s * a + t * b)
    gradients.check()


def test_remainders_and_bitwise_operators_of_integers_are_those_of_numpy():
    a, b = np.int32([7, -7, 7, -7, 6]), np.int32([3, 3, -3, -3, 3])
    u, v = np.uint32([0xF0F0F0F0, 7, 0]), np.uint32([0xFF00FF00, 2, 0])
    values = Values()
    values.add("Fmod", [a, b], np.fmod(a, b))
    values.add("Remainder", [a, b], np.mod(a, b))
    for dtype in (np.uint32, np.uint8, np.int8, np.int16):
        x, y = np.abs(a).astype(dtype), np.full(5, 4, dtype)
        values.add("Fmod", [x, y], np.fmod(x, y))
        values.add("Remainder", [x, y], np.mod(x, y))
    for left, right in ((a, b), (u, v), (a, np.int32([5]))):
        values.add("BitwiseAnd", [left, right], left & right)
        values.add("BitwiseOr", [left, right], left | right)
        values.add("BitwiseXor", [left, right], left ^ right)
        values.add("BitwiseXnor", [left, right], ~(left ^ right))
        values.add("BitwiseNot", [left], ~left)
    values.add("IncrementMod", [np.uint32([0, 1, 2])], np.uint32([2, 0, 1]), increment=2.0, modulus=3.0)
    # The sign of the dividend, as in C; numbers of the operator are cut to whole ones first.
    values.add("IncrementMod", [np.int32([4, -9, 1])], np.int32([1, -2, 3]), increment=2.0, modulus=5.0)
    values.add("IncrementMod", [np.int32([4, -9, 1])], np.int32([1, -2, 3]), increment=2.9, modulus=5.9)
    values.add("IncrementMod", [np.int32([4, -9])], np.int32([1, -2]), increment=2.0, modulus=-5.0)
    for dtype in (np.int8, np.uint8, np.int16, np.uint16, np.int32, np.uint32):
        values.add("Scale", [dtype([3, 4])], dtype([6, 8]), scale=2.75)
    values.add("Scale", [np.int32([3, -4])], np.int32([-6, 8]), scale=-2.0)
    values.add("Nop", [a], a)
    values.add("Detach", [u], u)
    values.check()


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_normalize_image(dtype):
    image = normal(2, 4, 5, 3).astype(dtype)
    offsets, scales = np.float32([0.5, 0.25, 0.125]), np.float32([2, 4, 0.5])

    def normalised(x, scale, dtype):
        y = (scale * x.astype(np.float64) - offsets) * scales
        return np.concatenate([y, np.zeros((*x.shape[:-1], 1))], -1).astype(dtype)

    values = Values()
    values.add("NormalizeImage", [image, offsets, scales], normalised(image, 2, dtype), 4e-3, scale=2.0)
    codes = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
    values.add(
        "NormalizeImage", [codes, offsets.astype(np.float16), scales], normalised(codes, 0.125, np.float16), scale=0.125
    )
    values.check()


def test_wrong_operands_are_refused_with_their_numbers():
    x = normal(2, 3)
    assert "f32" in refusal("BitwiseAnd", [x, x], {})
    assert "f16" in refusal("Fmod", [x, x.astype(np.float16)], {})
    assert "[3,2]" in refusal("ScaledAdd", [x, x.T.copy()], {})
    assert "give both" in refusal("ScaledAdd", [x, x, np.float32(1)], {})
    assert "scale0=2" in refusal("ScaledAdd", [x, x, None, np.float32(1)], {"scale0": 2.0})
    assert "[2,3]" in refusal("ScaledAdd", [x, x, x, np.float32(1)], {})
    assert "bool" in refusal("Scale", [np.array([True])], {"scale": 2.0})
    assert "remap_type 3" in refusal("TensorRemap", [x], {"remap_type": 3})
    assert "[2,4]" in refusal("NormalizeImage", [normal(2, 4), normal(3), normal(3)], {})
    assert "[4]" in refusal("NormalizeImage", [x, normal(4), normal(3)], {})
    assert "i32" in refusal("Round", [np.int32([1])], {})


def test_scaled_casts_to_float8_and_back_are_exact_where_the_numbers_are():
    x = np.float16([1, -1.5, 0.25, 3, -7])
    nodes = [
        ("Pow2ScaleThenCast", ["x", "s"], ["q"], {"to": "FLOAT8_143"}),
        ("CastThenPow2Scale", ["q", "t"], ["y"], {"to": "FLOAT16"}),
    ]
    got = run(nodes, {"x": x, "s": np.int8([2]), "t": np.asarray(-1, np.int8)}, ["y"])["y"]
    assert got.dtype == np.float16
    np.testing.assert_array_equal(got, x * 2)
