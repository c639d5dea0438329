"""`ipu.nn_ops`: activations."""

from __future__ import annotations

import math
from typing import Any

import tensorflow as tf


def gelu(x: Any, approximate: bool = True, name: str | None = None) -> tf.Tensor:
    """x times the normal distribution function of x, by tanh, or exactly by erf if not `approximate`."""
    with tf.name_scope(name or "gelu"):
        x = tf.convert_to_tensor(x)
        inner = (
            tf.tanh(math.sqrt(2 / math.pi) * (x + 0.044715 * x * x * x))
            if approximate
            else tf.math.erf(x / math.sqrt(2))
        )
        return 0.5 * x * (1.0 + inner)


def swish(x: Any, name: str | None = None) -> tf.Tensor:
    """x · sigmoid(x)."""
    with tf.name_scope(name or "swish"):
        x = tf.convert_to_tensor(x)
        return x * tf.sigmoid(x)


def hard_sigmoid(x: Any, name: str | None = None) -> tf.Tensor:
    """0.2 · x + 0.5 within [0, 1]. The gradient is 0.2 for -2.5 < x < 2.5, else 0."""
    with tf.name_scope(name or "hard_sigmoid"):
        x = tf.convert_to_tensor(x)
        return tf.where(tf.abs(x) < 2.5, 0.2 * x + 0.5, tf.cast(x > 0, x.dtype))
