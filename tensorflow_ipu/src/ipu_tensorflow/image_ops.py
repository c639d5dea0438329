"""`ipu.image_ops`."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

_RESULTS = {tf.uint8: tf.float16, tf.float16: tf.float16, tf.float32: tf.float32}


def normalise_image(
    image: Any, channel_offsets: Any, channel_scales: Any, scale: Any = 1, name: str | None = None
) -> tf.Tensor:
    """(image · scale - channel_offsets) · channel_scales for the three channels, which are last, and a fourth channel of zeros.

    Args:
        image: uint8, which gives float16, or float16 or float32.
        channel_offsets, channel_scales: three numbers each.
    """
    with tf.name_scope(name or "normalise_image"):
        image = tf.convert_to_tensor(image)
        if image.dtype not in _RESULTS:
            raise TypeError(f"normalise_image: an image is uint8, float16 or float32, not {image.dtype.name}: cast it")
        if not image.shape.rank or image.shape[-1] != 3:
            raise _invalid(f"an image has three channels, which are last, and this one has shape {image.shape}")
        result = _RESULTS[image.dtype]
        offsets, scales = (
            _of_channels(value, what) for value, what in ((channel_offsets, "offsets"), (channel_scales, "scales"))
        )
        pixels = tf.cast(image, tf.float32) * tf.cast(scale, tf.float32)
        normal = tf.cast((pixels - offsets) * scales, result)
        return tf.pad(normal, [[0, 0]] * (image.shape.rank - 1) + [[0, 1]])


def _of_channels(value: Any, what: str) -> tf.Tensor:
    tensor = tf.cast(tf.convert_to_tensor(value), tf.float32)
    if tensor.shape.as_list() != [3]:
        raise _invalid(f"channel_{what} are three numbers, and have shape {tensor.shape}")
    return tensor


def _invalid(text: str) -> tf.errors.InvalidArgumentError:
    return tf.errors.InvalidArgumentError(None, None, f"normalise_image: {text}")
