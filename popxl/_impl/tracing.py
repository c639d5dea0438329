"""Traces a function into a graph."""

import inspect
import weakref
from collections.abc import Iterable
from typing import Any

from popxl._impl.errors import core_errors
from popxl.graph import Graph
from popxl.module import Module
from popxl.tensor import Tensor, TensorByRef, TensorSpec, graph_input, graph_output

_signatures: "weakref.WeakKeyDictionary[Any, inspect.Signature]" = weakref.WeakKeyDictionary()


def _signature(fn: Any) -> inspect.Signature:
    function = getattr(fn, "__func__", fn)  # of a bound method, which lives for a moment
    if function is not fn:
        return inspect.signature(fn)
    found = _signatures.get(fn)
    if found is None:
        found = _signatures[fn] = inspect.signature(fn)
    return found


def _is_tensor(value: Any) -> bool:
    return isinstance(value, (Tensor, TensorSpec))


def trace(ir: Any, fn: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Graph:
    """`Ir.create_graph`."""
    if isinstance(fn, Module):
        name, signature = type(fn).__qualname__, _signature(fn.build)
    elif callable(fn) and hasattr(fn, "__qualname__"):
        name, signature = fn.__qualname__, _signature(fn)
    else:
        raise TypeError(
            f"create_graph traces a popxl.Module or a function, not {fn!r} of type {type(fn).__name__}: "
            "wrap it in a function."
        )
    try:
        bound = signature.bind(*args, **kwargs)
    except TypeError as error:
        raise ValueError(f"The arguments of create_graph do not fit {name}{signature}: {error}.") from error
    bound.apply_defaults()
    program = ir._program
    with core_errors():
        number = program.create_graph(program.unique_subgraph_id(name.replace(".<locals>", "")))
    graph = ir._graph(number)
    with graph:
        for parameter, value in list(bound.arguments.items()):
            bound.arguments[parameter] = _input(signature.parameters[parameter], parameter, value)
        _outputs(graph, fn, fn(*bound.args, **bound.kwargs))
    return graph


def _input(parameter: inspect.Parameter, name: str, value: Any) -> Any:
    annotation = parameter.annotation
    if isinstance(annotation, str):  # of a module with `from __future__ import annotations`
        text = annotation.replace("popxl.", "").replace("typing.", "").replace("tensor.", "")
        single = text == "TensorByRef"
        several = text in ("List[TensorByRef]", "Tuple[TensorByRef]", "list[TensorByRef]", "tuple[TensorByRef]")
    else:
        single = annotation is TensorByRef
        several = (
            getattr(annotation, "__origin__", None) in (list, tuple)
            and len(annotation.__args__) >= 1
            and annotation.__args__[0] is TensorByRef
        )
    if parameter.kind is inspect.Parameter.VAR_POSITIONAL:
        return tuple(_several(name, value, single))
    if parameter.kind is inspect.Parameter.VAR_KEYWORD:
        if not _all_tensors(name, list(value.values())):
            return value
        return {key: _one(key, tensor, single) for key, tensor in value.items()}
    if _is_tensor(value):
        return _one(name, value, single)
    if isinstance(value, (list, tuple)):
        return _several(name, value, several)
    return value


def _one(name: str, value: Any, by_ref: bool) -> Tensor:
    return graph_input(value.shape, value.dtype, name, by_ref, value.meta_shape)


def _all_tensors(name: str, values: list[Any]) -> bool:
    """Whether they are tensors; False: none is. Raises TypeError for a mixture."""
    tensors = [_is_tensor(value) for value in values]
    if any(tensors) and not all(tensors):
        other = values[tensors.index(False)]
        raise TypeError(
            f"Argument {name!r} of create_graph holds tensors and {other!r}: it must hold tensors alone, or none."
        )
    return bool(values) and tensors[0]


def _several(name: str, values: Any, by_ref: bool) -> Any:
    if not _all_tensors(name, list(values)):
        return values
    return [_one(f"{name}_{i}", value, by_ref) for i, value in enumerate(values)]


def _outputs(graph: Graph, fn: Any, result: Any) -> None:
    if result is None:
        return
    if isinstance(result, Tensor):
        result = (result,)
    elif not isinstance(result, Iterable):
        raise ValueError(f"{fn!r} returned {result!r}: a traced function returns None, a tensor or several.")
    for output in list(result):
        if not isinstance(output, Tensor):
            raise ValueError(f"{fn!r} returned {output!r} among its results: a traced function returns tensors.")
        graph_output(output)
