"""Gradients inside units where those of TensorFlow have shapes that depend on values."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tensorflow import host


@host.override_gradient("ResourceGather")
def _gather_gradient(op: host.Operation, upstream: Any) -> list[Any]:
    """Dense, where TensorFlow gives rows and their numbers and later looks for numbers that come twice."""
    if op.get_attr("batch_dims"):
        raise NotImplementedError(
            "the gradient of ResourceGather with batch dimensions is not supported: use tf.gather with batch_dims=0"
        )
    shape, _ = host.handle_shape_and_type(op.inputs[0])
    numbers = tf.reshape(op.inputs[1], [-1])
    rows = tf.reshape(upstream, [-1, *shape[1:].as_list()]) if shape.rank else upstream
    return [tf.math.unsorted_segment_sum(rows, numbers, shape[0]), None]
