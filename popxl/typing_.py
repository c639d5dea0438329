"""Annotations that mean something to `Ir.create_graph`."""

from typing import Any, Callable


def NewAliasAnnotation(name: str, tp: Any) -> Callable[[Any], Any]:
    """A new annotation, compared by identity.

    Args:
        name: its `__name__`.
        tp: the type it stands for; kept as `__supertype__`.

    Returns:
        A callable that raises `NotImplementedError` when it is called.
    """

    def alias(_: Any) -> Any:
        raise NotImplementedError(f"{name} is an annotation and makes no objects: write it behind a parameter.")

    alias.__name__ = alias.__qualname__ = name
    alias.__supertype__ = tp  # type: ignore[attr-defined]
    return alias
