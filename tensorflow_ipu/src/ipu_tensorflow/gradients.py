"""Gradients inside units where those of TensorFlow have shapes that depend on values."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tensorflow import host


def dense_rows(upstream: Any, numbers: Any, shape: tf.TensorShape) -> tf.Tensor:
    """The gradient of rows that were taken from a tensor of this shape, as such a tensor."""
    rows = tf.reshape(upstream, [-1, *shape[1:].as_list()])
    return tf.math.unsorted_segment_sum(rows, tf.reshape(numbers, [-1]), shape[0])


@host.override_gradient("ResourceGather")
def _gather_gradient(op: host.Operation, upstream: Any) -> list[Any]:
    """Dense, where TensorFlow gives rows and their numbers and later looks for numbers that come twice."""
    if op.get_attr("batch_dims"):
        raise NotImplementedError(
            "the gradient of ResourceGather with batch dimensions is not supported: use tf.gather with batch_dims=0"
        )
    shape, _ = host.handle_shape_and_type(op.inputs[0])
    return [dense_rows(upstream, op.inputs[1], shape), None]
