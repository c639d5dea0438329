"""Attributes of TensorFlow's operations as plain data."""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tensorflow.host import CALLS, AttrValue, Operation

# What scopes (scopes.py) say of an operation: ours begin with an underscore, as all that TensorFlow leaves alone.
DEVICE = "_ipu_device"
SHARD = "_ipu_shard"
FRONTEND = "_ipu_frontend_attributes"
LEAF = "_ipu_leaf"  # of a call: type and attributes of the node that stands for it (leaves.py)

_OURS = "Ipu"
_GRADIENT = re.compile(r"(?:^|/)gradients(?:_\d+)?/(.+?)_grad/")
# Follow from the operands, or matter to TensorFlow's runtime alone.
_UNUSED = {"output_shapes", "config", "config_proto", "executor_type", "Tseed"}


def leaf_value(kind: str, given: dict[str, Any], results: int) -> AttrValue:
    return AttrValue(s=json.dumps([kind, given, results], sort_keys=True).encode())


def _leaf_of(op: Operation) -> tuple[str, dict[str, Any]] | None:
    """Type and attributes. None: it is none, or no more: a call that TensorFlow differentiates itself gives more results."""
    if op.type not in CALLS or LEAF not in op.node_def.attr:
        return None
    kind, given, results = json.loads(op.get_attr(LEAF))
    return (kind, given) if results == len(op.outputs) else None


def is_leaf(op: Operation) -> bool:
    """Whether a call stands for one node, not for what its function does."""
    return _leaf_of(op) is not None


def kind_of(op: Operation) -> tuple[str, str]:
    """Domain and type of the node: an operation of ours drops its prefix."""
    leaf = _leaf_of(op)
    if leaf is not None:
        return "ipu", leaf[0]
    return ("ipu", op.type[len(_OURS) :]) if op.type.startswith(_OURS) else ("tf", op.type)


def of(op: Operation) -> dict[str, Any]:
    leaf = _leaf_of(op)
    if leaf is not None:
        return leaf[1]
    found = {}
    unused = _UNUSED | {"T"} if op.type.startswith(_OURS) else _UNUSED  # ours take the types of their operands
    for name, value in op.node_def.attr.items():
        kind = value.WhichOneof("value")
        if kind != "func" and not name.startswith("_") and name not in unused:
            found[name] = _plain(kind, value)
    return dict(sorted(found.items()))


def settings_of(op: Operation) -> dict[str, Any]:
    given = op.node_def.attr
    settings: dict[str, Any] = {}
    shard = given.get(SHARD) or _shard_of_forward(op)
    if shard is not None:
        settings["ipu"] = shard.i
    if FRONTEND in given:
        settings |= json.loads(given[FRONTEND].s)
    return settings


def _shard_of_forward(op: Operation) -> Any:
    """That of the operation whose gradient `op` is a part of: TensorFlow's gradients carry no attributes, but have its name."""
    found = _GRADIENT.search(op.name)
    if found is None:
        return None
    try:
        given = op.graph.get_operation_by_name(found[1]).node_def.attr
    except KeyError:
        return None
    return given.get(SHARD)


def tensor(op: Operation) -> np.ndarray:
    """The value of a Const."""
    return tf.make_ndarray(op.node_def.attr["value"].tensor)


def _plain(kind: str, value: Any) -> Any:
    if kind == "list":
        return next(([_plain_field(f.name, item) for item in items] for f, items in value.list.ListFields()), [])
    if kind == "tensor":
        return tf.make_ndarray(value.tensor)
    return _plain_field(kind, getattr(value, kind))


def _plain_field(kind: str, value: Any) -> Any:
    if kind == "s":
        return value.decode()
    if kind == "type":
        return tf.as_dtype(value).name
    if kind == "shape":
        return None if value.unknown_rank else [dimension.size for dimension in value.dim]
    return value
