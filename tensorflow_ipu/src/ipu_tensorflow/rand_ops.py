"""`ipu.rand_ops`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import host, leaves


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
        known = host.constant_value(tf.convert_to_tensor(rate))
        check_rate(known)
        mask, numbers = _mask_shape(x, noise_shape), _numbers(seed)
        if known is None:
            return _kept(x, numbers, tf.cast(rate, tf.float32), mask)
        given: dict[str, Any] = {"rate": float(known)}
        return _dropped(given if mask is None else given | {"mask": mask})(x, numbers)


def _dropped(given: dict[str, Any]) -> Callable:
    """As an op with these attributes, which is its own gradient: the same numbers give the same mask."""

    @tf.custom_gradient
    def drop(x: Any, numbers: Any) -> tuple[Any, Callable]:
        return leaves.call("Dropout", [x, numbers], **given)[0], lambda upstream: (drop(upstream, numbers), None)

    return drop


@leaves.body("Dropout")
def _body(x: Any, numbers: Any, rate: float, mask: list[int] | None = None) -> list[Any]:
    return [_kept(x, numbers, tf.constant(rate), mask)]


def _kept(x: Any, numbers: Any, rate: Any, mask: list[int] | None) -> Any:
    shape = mask or (x.shape.as_list() if x.shape.is_fully_defined() else tf.shape(x))
    keep = tf.raw_ops.StatelessRandomUniform(shape=shape, seed=numbers, dtype=tf.float32) >= rate
    return tf.where(keep, x * tf.cast(1.0 / (1.0 - rate), x.dtype), tf.zeros_like(x))


def check_rate(rate: Any) -> None:
    """Of a rate that is known."""
    if rate is not None and not 0 <= rate < 1:
        raise ValueError(f"dropout(x, rate={rate}): rate is the probability to drop, at least 0 and less than 1")


def _mask_shape(x: tf.Tensor, noise_shape: Sequence[int] | None) -> list[int] | None:
    """None: that of x."""
    if noise_shape is None:
        return None
    given = [int(size) for size in noise_shape]
    sizes = x.shape.as_list()
    if len(given) != len(sizes):
        raise ValueError(
            f"dropout: noise_shape {given} has {len(given)} dimensions and x of shape {sizes} has {len(sizes)}: give as many"
        )
    if any(noise != 1 and size is not None and noise != size for noise, size in zip(given, sizes)):
        raise ValueError(f"dropout: noise_shape {given} is not of 1 and the sizes of x, {sizes}")
    return given


def _numbers(seed: Any) -> tf.Tensor:
    """Two numbers that say what is dropped; without a seed others at each run."""
    if seed is None:
        return tf.random.uniform([2], maxval=2**31 - 1, dtype=tf.int32)
    numbers = tf.convert_to_tensor(seed, tf.int32)
    if not numbers.shape.is_compatible_with([2]):
        raise ValueError(f"dropout: seed is two int32 numbers, not an array of shape {numbers.shape}")
    return numbers
