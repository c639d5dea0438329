"""`ipu.functional_ops`."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import tensorflow as tf


def outlined_function(
    func: Callable | None = None,
    unique_sharding: bool = False,
    keep_input_layouts: bool | None = None,
    name: str | None = None,
) -> Callable:
    """Decorates a function that is called more than once. Its variables, by the names that it gives them, are shared by all calls in one
    variable scope; which calls share code the compiler finds out by itself.

    Args:
        func: takes tensors, or structures of them, by position, and gives at least one tensor.
        unique_sharding, keep_input_layouts: have no effect.
        name: of the scope of its operations; else "function".
    """
    if func is None:
        return functools.partial(
            outlined_function, unique_sharding=unique_sharding, keep_input_layouts=keep_input_layouts, name=name
        )
    if not callable(func):
        raise TypeError(f"outlined_function decorates a function, not {type(func).__name__}")
    _check_parameters(func)

    @functools.wraps(func)
    def outlined(*args: Any) -> Any:
        v1 = tf.compat.v1
        with tf.name_scope(name or "function"):
            given = [_tensors(argument, f"argument {i}") for i, argument in enumerate(args)]
            with v1.variable_scope(v1.get_variable_scope(), reuse=v1.AUTO_REUSE, auxiliary_name_scope=False):
                results = func(*given)
            if not any(item is not None for item in tf.nest.flatten(results)):
                raise ValueError(f"outlined_function: {func.__name__} returns no tensor, and must return at least one")
            return _tensors(results, "the result")

    return outlined


def _check_parameters(func: Callable) -> None:
    for parameter in inspect.signature(func).parameters.values():
        if parameter.kind in (parameter.KEYWORD_ONLY, parameter.VAR_KEYWORD):
            raise TypeError(
                f"outlined_function: {getattr(func, '__name__', func)} takes '{parameter.name}' by name: all arguments come by position"
            )


def _tensors(structure: Any, what: str) -> Any:
    try:
        return tf.nest.map_structure(tf.convert_to_tensor, structure)
    except (TypeError, ValueError) as error:
        raise TypeError(f"outlined_function: {what} is {structure!r}, which is no tensor: {error}") from None
