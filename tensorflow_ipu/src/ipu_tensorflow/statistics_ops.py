"""`ipu.statistics_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf


def fixed_width_bins(inputs: Any, n_bins: int) -> tf.Tensor:
    """`n_bins` numbers of equal distance, from the least of `inputs` to the largest."""
    with tf.name_scope("fixed_width_bins"):
        inputs = _vector(inputs, "inputs")
        low, high = tf.reduce_min(inputs), tf.reduce_max(inputs)
        if n_bins < 2:
            return tf.reshape(low, [1])[:n_bins]
        part = tf.cast(tf.range(n_bins), tf.float32) / (n_bins - 1)
        wide = tf.cast(low, tf.float32) * (1 - part) + tf.cast(high, tf.float32) * part
        return tf.cast(wide, inputs.dtype)


def histogram(inputs: Any, levels: Any, absolute_of_input: bool = False) -> tf.Tensor:
    """How many of `inputs` are below the first level, between each two, and at the last one or above.

    Args:
        levels: in ascending order; a number that equals one is counted above it.
        absolute_of_input: whether absolute values are counted.
    """
    with tf.name_scope("histogram"):
        return _counts(inputs, levels, absolute_of_input)


def histogram_update(hist: Any, inputs: Any, levels: Any, absolute_of_input: bool = False) -> tf.Tensor:
    """`hist` plus the histogram of more inputs."""
    with tf.name_scope("histogram_update"):
        hist, counts = tf.convert_to_tensor(hist), _counts(inputs, levels, absolute_of_input)
        if hist.dtype != tf.float32 or not hist.shape.is_compatible_with(counts.shape):
            raise ValueError(
                f"histogram_update: hist is float32 of shape {counts.shape}, one more than levels, not {hist.dtype.name} of shape {hist.shape}"
            )
        return hist + counts


def _counts(inputs: Any, levels: Any, absolute_of_input: bool) -> tf.Tensor:
    inputs, levels = _vector(inputs, "inputs"), _vector(levels, "levels")
    if inputs.dtype != levels.dtype:
        raise ValueError(f"inputs are {inputs.dtype.name} and levels are {levels.dtype.name}: cast one of them")
    if absolute_of_input:
        inputs = tf.abs(inputs)
    reached = tf.reduce_sum(tf.cast(inputs[:, None] >= levels, tf.float32), axis=0)
    total = tf.cast(tf.size(inputs), tf.float32)[None]
    return tf.concat([total, reached], axis=0) - tf.concat([reached, [0.0]], axis=0)


def _vector(value: Any, what: str) -> tf.Tensor:
    tensor = tf.convert_to_tensor(value)
    if tensor.shape.rank != 1 or tensor.dtype not in (tf.float16, tf.float32):
        raise ValueError(f"{what}: a vector of float16 or float32, not {tensor.dtype.name} of shape {tensor.shape}")
    return tensor
