"""A traced computation in the outer graph: variables are read, `IpuUnit` runs, what it wrote is assigned, results follow."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import core, host, library, records, system, trace
from ipu_tensorflow.errors import from_core

# The native units of a graph live as long as it does.
_units: weakref.WeakKeyDictionary[host.Graph, list[Any]] = weakref.WeakKeyDictionary()


def compile(computation: Callable, inputs: Sequence[Any] | None = None) -> Any:
    """Builds a computation that runs as one program on the IPU.

    Args:
        computation: called once, with as many arguments as there are inputs; returns tensors, then operations, or a structure of
            tensors.
        inputs: what is converted to tensors and handed to it; items may be structures.

    Returns:
        The tensors as a list, or in their structure; an operation if there are none. All of it runs when any of it is fetched.
    """
    traced = trace.trace(computation, inputs)
    name = getattr(computation, "__name__", "unit")
    graph = tf.compat.v1.get_default_graph()
    captured = [pair for pair in host.captures_of(traced.graph) if pair[0].dtype != tf.resource]
    found = records.of_graph(traced.graph, [inside for _, inside in captured], traced.tensors, traced.operations, name)
    unit = _native_unit(found, traced.ipu)
    for tensor in found.folded:
        graph.prevent_feeding(tensor)
    results, done = _place(unit, found, traced, [outside for outside, _ in captured], name)
    _units.setdefault(graph, []).append(unit)
    if not traced.tensors:
        return done
    if traced.structure is None:
        return results
    return tf.nest.pack_sequence_as(traced.structure, results)


def units_of(graph: host.Graph) -> list[Any]:
    """The native units of a graph, in order of creation."""
    return list(_units.get(graph, ()))


def _native_unit(found: records.Records, ipu: int) -> Any:
    native = core.native()
    try:
        unit = native.Unit(found.data, system.unit_options(ipu))
        unit.written  # noqa: B018  (imports the records: whatever cannot be compiled is said here)
        return unit
    except native.Error as error:
        raise from_core(error, found.lost) from None


def _place(
    unit: Any, found: records.Records, traced: trace.Trace, inputs: list[Any], name: str
) -> tuple[list[Any], Any]:
    """Results and an operation that stands for all of it."""
    graph = tf.compat.v1.get_default_graph()
    variables = {variable.name: variable for variable in found.variables}
    with tf.name_scope("ipu_unit"), graph.device(None), tf.control_dependencies(traced.graph.captured_operations):
        read = [variables[known] for known in unit.variables]
        values = [host.read_variable(v.handle, tf.as_dtype(v.dtype)) for v in read]
        written = [variables[known] for known in unit.written]
        types = [tensor.dtype for tensor in traced.tensors]
        written_types = [tf.as_dtype(v.dtype) for v in written]
        op = library.operation(
            "IpuUnit",
            [*inputs, *values],
            [*types, *written_types],
            token=unit.token,
            unit=name,
            Tinputs=[tensor.dtype for tensor in inputs],
            Tvariables=[tensor.dtype for tensor in values],
            Toutputs=types,
            Twritten=written_types,
        )
        assigns = [host.assign_variable(v.handle, value) for v, value in zip(written, op.outputs[len(types) :])]
        with tf.control_dependencies([op, *assigns]):
            results = []
            for tensor, value in zip(traced.tensors, op.outputs):
                value.set_shape(tensor.shape)
                results.append(tf.identity(value))
            return results, tf.no_op("done")
