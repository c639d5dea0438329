"""Errors of building and running units, in TensorFlow's classes: what, where in the user's file, and a cure."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tensorflow import host


def place_of(op: host.Operation) -> str:
    """ "'dense/MatMul' (MatMul) at model.py:12"."""
    line = host.user_line(op)
    return f"'{op.name}' ({op.type})" + (f" at {line[0]}:{line[1]}" if line else "")


@dataclass(frozen=True)
class Refused:
    op: host.Operation
    why: str
    is_invalid: bool = True  # else a rule is missing


def refuse_operations(refused: Sequence[Refused]) -> tf.errors.OpError:
    """One error for all operations that cannot be part of a unit, by type and reason."""
    groups: dict[tuple[str, str], dict[str, None]] = {}
    for each in refused:
        groups.setdefault((each.op.type, each.why), {})[place_of(each.op)] = None
    count = sum(len(places) for places in groups.values())
    text = f"{count} operation{'s' * (count > 1)} cannot be compiled for the IPU:"
    for (kind, why), places in groups.items():
        if len(places) == 1:
            text += f"\n  {next(iter(places))} {why}"
            continue
        text += f"\n  {kind} x{len(places)} {why}"
        for place in list(places)[:_NAMED]:
            text += f"\n    {place}"
        text += "\n    ..." * (len(places) > _NAMED)
    is_invalid = any(each.is_invalid for each in refused)
    kind = tf.errors.InvalidArgumentError if is_invalid else tf.errors.UnimplementedError
    return kind(refused[0].op.node_def, refused[0].op, text)


_NAMED = 8  # places of one type and reason
_CURE = re.compile(r"(?<=  try:      ).*")
_OUTSIDE = "compute that part outside of ipu_compiler.compile, and pass its tensors in"


def from_core(error: Any, lost: Mapping[str, host.Operation] | None = None) -> tf.errors.OpError:
    """An error of the core as TensorFlow's: the categories of the core have TensorFlow's numbers.

    Args:
        lost: by name of the node, the operations of the unit at which shapes are lost.
    """
    kind = tf.compat.v1.errors.exception_type_from_error_code(error.category)
    text = str(error)
    if kind is not tf.errors.UnimplementedError:
        return kind(None, None, text)
    text = _CURE.sub(_OUTSIDE, text)
    nodes = error.parameters.get("nodes", "").split("\n")
    named = [op for name, op in (lost or {}).items() if name in nodes]
    for op in named:
        shapes = ", ".join(str(result.shape) for result in op.outputs)
        text += f"\n  shapes:   {place_of(op)} gives {shapes}: it is the first whose shape is not known while the graph is built"
    if named:
        text += "\n            shapes inside a unit are static: state the sizes as numbers, use a mask, or pad to a known size"
        return tf.errors.InvalidArgumentError(None, None, text)
    return kind(None, None, text)
