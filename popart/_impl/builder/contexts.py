"""`with` statements whose body makes nodes with an attribute, or with a prefix in their names. They nest."""

from __future__ import annotations

from typing import Any

from popart._impl.builder.graph_view import OpenGraph


class AttributeContextManager:
    """Nodes made inside have the attribute; what was set before is set again at the end, also after an exception."""

    def __init__(self, builder: Any, attribute: str, value: Any) -> None:
        self._core: OpenGraph = getattr(builder, "_impl", builder)
        self._attribute, self._value = attribute, value
        self._before: list[Any] = []

    def _inside(self, before: Any) -> Any:
        return self._value

    def __enter__(self) -> None:
        before = self._core.common.get(self._attribute)
        self._before.append(before)
        self._core.common[self._attribute] = self._inside(before)

    def __exit__(self, *error: object) -> None:
        before = self._before.pop()
        if before is None:
            self._core.common.pop(self._attribute, None)
        else:
            self._core.common[self._attribute] = before


class KeyValueContextManager(AttributeContextManager):
    """Keys and texts, added to those of the contexts around."""

    def __init__(self, builder: Any, attribute: str, values: dict[str, str]) -> None:
        if not isinstance(values, dict) or not all(isinstance(text, str) for item in values.items() for text in item):
            raise TypeError(f"incompatible arguments: {attribute} takes a dict of str to str, not {values!r}")
        super().__init__(builder, attribute, values)

    def _inside(self, before: list[str] | None) -> list[str]:
        pairs = dict(zip(before[::2], before[1::2])) if before else {}
        return [text for item in {**pairs, **self._value}.items() for text in item]


class NameContextManager:
    """Names of nodes and tensors made inside begin with the name and a slash."""

    def __init__(self, builder: Any, name: str) -> None:
        if not isinstance(name, str):
            raise TypeError(f"incompatible arguments: a name scope takes a str, not {name!r}")
        self._core: OpenGraph = getattr(builder, "_impl", builder)
        self._name = name

    def __enter__(self) -> None:
        self._core.scopes.append(self._name)

    def __exit__(self, *error: object) -> None:
        self._core.scopes.pop()
