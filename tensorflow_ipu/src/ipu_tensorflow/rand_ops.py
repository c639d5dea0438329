"""`ipu.rand_ops`."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import host


def dropout(
    x: Any,
    rate: Any = 0.5,
    noise_shape: Sequence[int] | None = None,
    seed: Any = None,
    name: str | None = None,
    **kwargs: Any,
) -> tf.Tensor:
    """Each element with probability 1 - rate, scaled by 1 / (1 - rate); else 0. The gradient has the same mask.

    Args:
        noise_shape: shape of the mask: a size of x, or 1, where elements along that dimension are dropped together.
        seed: two int32 numbers, with which the mask is always the same.
        kwargs: `ref` has no effect.
    """
    unknown = sorted(set(kwargs) - {"ref"})
    if unknown:
        raise TypeError(
            f"dropout() got an unexpected keyword argument '{unknown[0]}': beside its arguments it takes `ref`"
        )
    with tf.name_scope(name or "dropout"):
        x = tf.convert_to_tensor(x)
        check_rate(host.constant_value(tf.convert_to_tensor(rate)))
        drop = tf.cast(rate, tf.float32)
        keep = _uniform(_mask_shape(x, noise_shape), seed) >= drop
        return tf.where(keep, x * tf.cast(1.0 / (1.0 - drop), x.dtype), tf.zeros_like(x))


def check_rate(rate: Any) -> None:
    """Of a rate that is known."""
    if rate is not None and not 0 <= rate < 1:
        raise ValueError(f"dropout(x, rate={rate}): rate is the probability to drop, at least 0 and less than 1")


def _mask_shape(x: tf.Tensor, noise_shape: Sequence[int] | None) -> Any:
    if noise_shape is None:
        return x.shape.as_list() if x.shape.is_fully_defined() else tf.shape(x)
    given = list(noise_shape)
    sizes = x.shape.as_list()
    if len(given) != len(sizes):
        raise ValueError(
            f"dropout: noise_shape {given} has {len(given)} dimensions and x of shape {sizes} has {len(sizes)}: give as many"
        )
    if any(noise != 1 and size is not None and noise != size for noise, size in zip(given, sizes)):
        raise ValueError(f"dropout: noise_shape {given} is not of 1 and the sizes of x, {sizes}")
    return given


def _uniform(shape: Any, seed: Any) -> tf.Tensor:
    if seed is None:
        return tf.random.uniform(shape)
    numbers = tf.convert_to_tensor(seed, tf.int32)
    if not numbers.shape.is_compatible_with([2]):
        raise ValueError(f"dropout: seed is two int32 numbers, not an array of shape {numbers.shape}")
    return tf.raw_ops.StatelessRandomUniform(shape=shape, seed=numbers, dtype=tf.float32)
