"""Errors of building and running units, in TensorFlow's classes: what, where in the user's file, and a cure."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import host


def place_of(op: host.Operation) -> str:
    """ "'dense/MatMul' (MatMul) at model.py:12"."""
    line = host.user_line(op)
    return f"'{op.name}' ({op.type})" + (f" at {line[0]}:{line[1]}" if line else "")


def refuse_operations(refused: Sequence[tuple[host.Operation, str]]) -> tf.errors.InvalidArgumentError:
    """One error for all operations that cannot be part of a unit."""
    lines = list(dict.fromkeys(f"  {place_of(op)} {why}" for op, why in refused))
    op = refused[0][0]
    text = f"{len(lines)} operation{'s' * (len(lines) > 1)} cannot be compiled for the IPU:\n" + "\n".join(lines)
    return tf.errors.InvalidArgumentError(op.node_def, op, text)


_CURE = re.compile(r"(?<=  try:      ).*")
_OUTSIDE = "compute that part outside of ipu_compiler.compile, and pass its tensors in"

def from_core(error: Any) -> tf.errors.OpError:
    """An error of the core as TensorFlow's: the categories of the core have TensorFlow's numbers."""
    kind = tf.compat.v1.errors.exception_type_from_error_code(error.category)
    text = _CURE.sub(_OUTSIDE, str(error)) if kind is tf.errors.UnimplementedError else str(error)
    return kind(None, None, text)
