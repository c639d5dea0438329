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
# By reason or code of the core: a class of TensorFlow. csrc/bindings/tensorflow/status.cc has the same table for runs.
_CLASSES = {
    101: tf.errors.UnimplementedError,
    201: tf.errors.InvalidArgumentError,
    110: tf.errors.InvalidArgumentError,
    414: tf.errors.InvalidArgumentError,
    503: tf.errors.InvalidArgumentError,
    301: tf.errors.ResourceExhaustedError,
    302: tf.errors.ResourceExhaustedError,
    408: tf.errors.CancelledError,
    416: tf.errors.FailedPreconditionError,
}


def from_core(error: Any) -> tf.errors.OpError:
    """An error of the core as TensorFlow's."""
    kind = _CLASSES.get(int(error.code), tf.errors.InternalError)
    text = _CURE.sub(_OUTSIDE, str(error)) if kind is tf.errors.UnimplementedError else str(error)
    return kind(None, None, text)
