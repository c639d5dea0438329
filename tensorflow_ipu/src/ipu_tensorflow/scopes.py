"""Where operations go and how they are compiled: what the scopes say becomes attributes of the operations built in them.

TensorFlow knows no device called IPU. `Graph.device` is wrapped once, when this module is loaded: the name of an IPU, however it
is spelled, sets the attribute; that of another device, or None, takes it away.
"""

from __future__ import annotations

import contextlib
import json
import re
import warnings
import weakref
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tensorflow import attributes, host
from ipu_tensorflow.errors import place_of

_IPU = re.compile(r"(?:^|/)(?:device:)?ipu(?::(\d+|\*))?$", re.IGNORECASE)
_OTHER = re.compile(r"(?:^|/)(?:device:)?[a-z_]+(?::(?:\d+|\*))?$", re.IGNORECASE)
_JOB = re.compile(r"(?:^|/)(?:job|task|replica):", re.IGNORECASE)


def ipu_of(device: Any) -> int | None:
    """Number of the IPU device that a device name means; None: it means another device."""
    if device is None or callable(device):
        return None
    found = _IPU.search(device if isinstance(device, str) else device.to_string())
    return int(found[1]) if found and found[1] not in (None, "*") else 0 if found else None


def _names_a_device(device: Any) -> bool:
    """Not only a job or a task, which leaves the device as it is."""
    if device is None:
        return True
    last = (device if isinstance(device, str) else device.to_string()).rpartition("/")[2]
    return bool(last) and not _JOB.search(last) and bool(_OTHER.search(last))


@contextlib.contextmanager
def _device(graph: host.Graph, device: Any, tensorflow_device: Callable) -> Iterator[None]:
    ipu = ipu_of(device)
    if ipu is not None:
        with tensorflow_device(None), host.attribute_scope(graph, {attributes.DEVICE: host.AttrValue(i=ipu)}):
            yield
    elif not callable(device) and _names_a_device(device) and current_ipu(graph) is not None:
        with tensorflow_device(device), host.attribute_scope(graph, {attributes.DEVICE: None}):
            yield
    else:
        with tensorflow_device(device):
            yield


host.wrap_device(_device)


def current_ipu(graph: host.Graph) -> int | None:
    """Number of the IPU device whose scope is open."""
    found = host.scoped_attribute(graph, attributes.DEVICE)
    return None if found is None else found.i


@contextlib.contextmanager
def ipu_scope(device: str) -> Iterator[None]:
    """Operations built in the scope belong to an IPU device, variables are resource variables."""
    graph = tf.compat.v1.get_default_graph()
    scope = tf.compat.v1.get_variable_scope()
    before = scope.use_resource
    known = len(graph.get_operations())
    with tf.device(device), ipu_jit_scope(0):
        scope.set_use_resource(True)
        try:
            yield
        finally:
            scope.set_use_resource(before)
    _warn_of_operations(graph, known)


# What a program may well build beside a unit: inputs, variables and their initial values.
_BESIDE_UNITS = {
    "Placeholder",
    "PlaceholderWithDefault",
    "Const",
    "NoOp",
    "VarHandleOp",
    "VarIsInitializedOp",
    "AssignVariableOp",
    "ReadVariableOp",
    "IpuUnit",
}
_warned: weakref.WeakSet[host.Graph] = weakref.WeakSet()


def _warn_of_operations(graph: host.Graph, known: int) -> None:
    """Once for each graph whose operations were meant for the IPU and are in no unit."""
    if host.is_traced(graph) or graph in _warned:
        return
    for op in graph.get_operations()[known:]:
        if op.type in _BESIDE_UNITS or "/Initializer/" in op.name or attributes.DEVICE not in op.node_def.attr:
            continue
        _warned.add(graph)
        warnings.warn(
            f"{place_of(op)} is built in an ipu_scope and outside of ipu_compiler.compile: TensorFlow runs it on the CPU, as all such "
            "operations of this graph. Build it in the computation that is compiled, or outside of the scope to be rid of this warning.",
            stacklevel=4,
        )
        return


@contextlib.contextmanager
def ipu_jit_scope(ipu_scope: Any) -> Iterator[None]:
    """Operations of one scope are compiled together: what is traced is one unit whatever its scopes are.

    Outside of a unit the attributes are not set, since TensorFlow would compile such operations for the CPU.
    """
    graph = tf.compat.v1.get_default_graph()
    given = {
        "_XlaCompile": host.AttrValue(b=True),
        "_XlaScope": host.AttrValue(s=f"jit_scope_ipu_{ipu_scope}".encode()),
        "_XlaSeparateCompiledGradients": host.AttrValue(b=False),
    }
    with host.attribute_scope(graph, given) if host.is_traced(graph) else contextlib.nullcontext():
        yield


@contextlib.contextmanager
def ipu_shard(index: Any) -> Iterator[None]:
    """Places operations on IPU `index` of the device."""
    shards = [int(i) for i in index] if isinstance(index, (list, tuple, set, range, np.ndarray)) else [int(index)]
    if not shards or min(shards) < 0:
        raise ValueError(f"ipu_shard({index!r}): shards are numbers from 0 on")
    with host.attribute_scope(tf.compat.v1.get_default_graph(), {attributes.SHARD: host.AttrValue(i=shards[0])}):
        yield


@contextlib.contextmanager
def frontend_attribute(attribute_name: str, attribute_value: str, restore_to: str | None = None) -> Iterator[None]:
    """Adds a name and its value to the attributes of the operations built in the scope."""
    graph = tf.compat.v1.get_default_graph()
    found = host.scoped_attribute(graph, attributes.FRONTEND)
    before: dict[str, str] = json.loads(found.s) if found is not None else {}
    with host.attribute_scope(graph, {attributes.FRONTEND: _packed(before | {attribute_name: attribute_value})}):
        yield
    if restore_to is not None and attribute_name not in before:
        host.leave_attribute(graph, attributes.FRONTEND, _packed(before | {attribute_name: restore_to}))


def _packed(values: dict[str, str]) -> host.AttrValue:
    return host.AttrValue(s=json.dumps(values, sort_keys=True).encode())


def partials_type(override_type: Any) -> contextlib.AbstractContextManager:
    """Type of partial results of convolutions and products in the scope: float16 or float32 of NumPy."""
    names = {np.float16: "F16", np.float32: "F32", np.dtype("float16"): "F16", np.dtype("float32"): "F32"}
    if not isinstance(override_type, (type, np.dtype)) or override_type not in names:
        raise ValueError(f"partials_type({override_type!r}): only numpy.float16 and numpy.float32 are supported")
    return frontend_attribute("PARTIALS_TYPE", names[override_type])


def stochastic_rounding(override: bool) -> contextlib.AbstractContextManager:
    """Switches stochastic rounding on or off for operations built in the scope."""
    return frontend_attribute("STOCHASTIC_ROUNDING", "THREESTATE_ON" if override else "THREESTATE_OFF")


def outside_compilation_scope(name: str = "outside") -> contextlib.AbstractContextManager:
    """Comes with the next part of the front end."""
    if not host.is_traced(tf.compat.v1.get_default_graph()):
        raise ValueError("outside_compilation_scope is only of use inside ipu_compiler.compile")
    raise NotImplementedError(
        'outside_compilation_scope comes with "TensorFlow whole": compute outside the unit and pass tensors in'
    )
