"""A user's computation, called once in a graph of its own: what `ipu_compiler.compile` compiles."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tensorflow import attributes, gradients as gradients, host, scopes


@dataclass
class Trace:
    graph: host.TracedGraph
    ipu: int  # number of the IPU device
    tensors: list[Any]  # of the graph, in the order of the structure
    operations: list[host.Operation]
    structure: Any  # to pack the tensors into; None: a flat list


def trace(computation: Callable, inputs: Sequence[Any] | None) -> Trace:
    given = _check_inputs(computation, inputs)
    outer = tf.compat.v1.get_default_graph()
    ipu = scopes.current_ipu(outer)
    leaves = [tf.convert_to_tensor(leaf) for leaf in tf.nest.flatten(given, expand_composites=True)]
    graph = host.TracedGraph("unit", without=[attributes.DEVICE])
    with graph.tracing():
        scope = tf.compat.v1.get_variable_scope()
        before = scope.use_resource
        scope.set_use_resource(True)
        try:
            arguments = [graph.capture(leaf) for leaf in leaves]
            result = computation(*tf.nest.pack_sequence_as(given, arguments, expand_composites=True))
            tensors, operations, structure = _results(graph, result)
        finally:
            scope.set_use_resource(before)
    return Trace(graph, _device_of(graph, ipu), tensors, operations, structure)


def _check_inputs(computation: Callable, inputs: Sequence[Any] | None) -> list[Any]:
    if inputs is None:
        inputs = []
    if not isinstance(inputs, (list, tuple)):
        raise TypeError(f"compile(computation, inputs): inputs must be a list or a tuple, not {type(inputs).__name__}")
    check_arity(computation, len(inputs), "computation", f"{len(inputs)} inputs")
    return list(inputs)


def check_arity(function: Callable, count: int, what: str, given: str, keywords: Sequence[str] = ()) -> None:
    """TypeError when `function` cannot be called with so many arguments."""
    try:
        signature = inspect.signature(function)
    except (TypeError, ValueError):
        return
    try:
        signature.bind(*[None] * count, **dict.fromkeys(keywords))
    except TypeError as error:
        name = getattr(function, "__qualname__", repr(function))
        raise TypeError(f"{what} {name}{signature} cannot take {given}: {error}") from None


def _device_of(graph: host.TracedGraph, ipu: int | None) -> int:
    if ipu is not None:
        return ipu
    operations = graph.get_operations()
    for op in operations:
        if attributes.DEVICE in op.node_def.attr:
            return op.node_def.attr[attributes.DEVICE].i
    if all(op.type == "NoOp" for op in operations):
        return 0
    raise Exception(
        "nothing of the computation is placed on an IPU: call ipu_compiler.compile inside "
        "`with ipu.scopes.ipu_scope('/device:IPU:0'):`"
    )


def _results(graph: host.TracedGraph, result: Any) -> tuple[list[Any], list[host.Operation], Any]:
    if result is None:
        return [], [], None
    _refuse_specification(result)
    if _is_flat(result):
        items = list(result) if isinstance(result, (list, tuple)) else [result]
        return (*split_results(graph, items, "the computation"), None)
    flat = tf.nest.flatten(result, expand_composites=False)
    if any(isinstance(item, host.Operation) for item in flat):
        raise ValueError(
            "the computation returns a nested structure with operations in it: return tensors in a structure, or a flat "
            "list of tensors followed by operations"
        )
    return [to_tensor(graph, item, "the computation") for item in flat], [], result


def _is_flat(result: Any) -> bool:
    if isinstance(result, (list, tuple)) and not hasattr(result, "_fields"):
        return not any(_is_structure(item) for item in result)
    return not _is_structure(result)


def _is_structure(item: Any) -> bool:
    return isinstance(item, (list, tuple, dict)) or (tf.nest.is_nested(item) and not tf.is_tensor(item))


def _refuse_specification(result: Any) -> None:
    items = result if isinstance(result, (list, tuple)) else [result]
    if any(type(item).__name__ in ("EstimatorSpec", "IPUEstimatorSpec") for item in items):
        raise ValueError(
            "the computation returns an EstimatorSpec: an IPUEstimator compiles its model_fn itself, without ipu_compiler.compile"
        )


def split_results(graph: host.TracedGraph, items: Sequence[Any], what: str) -> tuple[list[Any], list[host.Operation]]:
    """Tensors, then operations."""
    tensors: list[Any] = []
    operations: list[host.Operation] = []
    for index, item in enumerate(items):
        if item is None:
            continue
        if isinstance(item, host.Operation):
            operations.append(item)
        elif operations:
            raise ValueError(
                f"{what} returns an operation ('{operations[-1].name}') before the tensor at position {index}: tensors come first"
            )
        else:
            tensors.append(to_tensor(graph, item, what))
    return tensors, operations


def to_tensor(graph: host.Graph, item: Any, what: str) -> Any:
    try:
        tensor = tf.convert_to_tensor(item)
    except (TypeError, ValueError) as error:
        raise ValueError(f"{what} returns {item!r}, which is neither an operation nor a tensor: {error}") from None
    return tensor if tensor.graph is graph else graph.capture(tensor)
