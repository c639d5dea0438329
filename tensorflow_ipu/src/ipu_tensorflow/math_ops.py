"""`ipu.math_ops`."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import tensorflow as tf

# By name of the dimension that is split: along which dimension of op(a) and of op(b), and how the products are put together.
_COMBINE: dict[str, tuple[int | None, int | None, Callable]] = {
    "a_columns": (-2, None, lambda parts: tf.concat(parts, axis=-2)),
    "a_rows_b_columns": (-1, -2, tf.add_n),
    "b_rows": (None, -1, lambda parts: tf.concat(parts, axis=-1)),
}


def serialized_matmul(
    a: Any,
    b: Any,
    serialization_factor: int,
    serialization_dimension: str,
    transpose_a: bool = False,
    transpose_b: bool = False,
    name: str | None = None,
) -> tf.Tensor:
    """op(a) · op(b) as `serialization_factor` smaller products one after another, and its gradients likewise.

    Args:
        a, b: matrices [..., m, k] and [..., k, n], before them dimensions of batches.
        serialization_dimension: what is split: "a_columns" m, "a_rows_b_columns" k, "b_rows" n.
        transpose_a, transpose_b: whether the last two dimensions of a or b are exchanged first.
    """
    if serialization_dimension not in _COMBINE:
        raise ValueError(
            f"serialized_matmul: there is no serialization_dimension {serialization_dimension!r}: use one of {list(_COMBINE)}"
        )
    factor = int(serialization_factor)
    if factor < 1:
        raise ValueError(f"serialized_matmul: serialization_factor is {factor}, and is at least 1")
    with tf.name_scope(name or "serialized_matmul"):
        a, b = tf.convert_to_tensor(a), tf.convert_to_tensor(b)
        for operand, tensor in (("a", a), ("b", b)):
            if tensor.shape.rank is None or tensor.shape.rank < 2:
                raise ValueError(f"serialized_matmul: {operand} has shape {tensor.shape}, and is a matrix or several")
        inner_a, inner_b = a.shape[-2 if transpose_a else -1], b.shape[-1 if transpose_b else -2]
        if inner_a != inner_b and None not in (inner_a, inner_b):
            raise ValueError(
                f"serialized_matmul: {inner_a} columns of a, shape {a.shape}, and {inner_b} rows of b, shape {b.shape}, are not as many"
            )
        of_a, of_b, combine = _COMBINE[serialization_dimension]
        parts = zip(_split(a, factor, of_a, transpose_a), _split(b, factor, of_b, transpose_b))
        return combine([tf.matmul(x, y, transpose_a=transpose_a, transpose_b=transpose_b) for x, y in parts])


def _split(x: tf.Tensor, factor: int, dimension: int | None, is_transposed: bool) -> list[tf.Tensor]:
    """Parts of x along a dimension of op(x): -1 or -2; None: x as often as there are parts."""
    if dimension is None:
        return [x] * factor
    axis = -3 - dimension if is_transposed else dimension
    size = x.shape[axis]
    if size is None or size % factor:
        raise ValueError(
            f"serialized_matmul: serialization_factor {factor} does not divide a dimension of {size} of {x.name}"
        )
    return tf.split(x, factor, axis=axis)
