"""`ipu.embedding_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

from ipu_tensorflow import gradients


def embedding_lookup(params: Any, ids: Any, name: str | None = None, serialization_factor: int = 1) -> tf.Tensor:
    """The rows `ids` of `params`. The gradient of `params` is dense.

    Args:
        params: one tensor or variable.
        ids: int32, of any shape.
        serialization_factor: into how many parts of equal size the rows are split; each is looked up by itself.
    """
    with tf.name_scope(name or "embedding_lookup"):
        params, ids = tf.convert_to_tensor(params), tf.convert_to_tensor(ids)
        factor = int(serialization_factor)
        if factor < 1:
            raise ValueError(f"embedding_lookup: serialization_factor is {factor}, and is at least 1")
        if factor == 1:
            return _rows(params, ids)
        count = params.shape[0]
        if count is None or count % factor:
            raise ValueError(
                f"embedding_lookup: serialization_factor {factor} does not divide the {count} rows of {params.name}"
            )
        size = count // factor
        total = None
        for part in range(factor):
            local = ids - part * size
            is_here = (local >= 0) & (local < size)
            rows = _rows(params[part * size : (part + 1) * size], tf.clip_by_value(local, 0, size - 1))
            mask = tf.reshape(is_here, [*ids.shape, *[1] * (params.shape.rank - 1)])
            rows = tf.where(mask, rows, tf.zeros_like(rows))
            total = rows if total is None else total + rows
        return total


@tf.custom_gradient
def _rows(params: Any, ids: Any) -> tuple[tf.Tensor, Callable]:
    """Rows of a tensor, with a dense gradient, where TensorFlow's are rows and their numbers."""

    def gradient(upstream: Any) -> tuple:
        return gradients.dense_rows(upstream, ids, params.shape), None

    return tf.gather(params, ids), gradient
