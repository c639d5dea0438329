"""Ids of graphs, scopes of names, and identifiers of ops."""

from __future__ import annotations

import functools
from typing import Any

from popart._impl.exceptions import popart_exception


@functools.total_ordering
class GraphId:
    """The id of a graph. A str stands for one everywhere, and compares equal."""

    __slots__ = ("_text",)

    def __init__(self, text: str | GraphId) -> None:
        self._text = str(text)

    def str(self) -> str:
        return self._text

    def __str__(self) -> Any:
        return self._text

    def __repr__(self) -> Any:
        return f"GraphId({self._text!r})"

    def __eq__(self, other: object) -> bool:
        return self._text == other._text if isinstance(other, GraphId) else self._text == other

    def __lt__(self, other: Any) -> bool:
        return self._text < (other._text if isinstance(other, GraphId) else other)

    def __hash__(self) -> int:
        return hash(self._text)


class Scope:
    """Nested names: `Scope() / "encoder" / "layer"`."""

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, names: tuple[Any, ...] = ()) -> None:
        self._names = tuple(names)

    def __truediv__(self, name: str) -> Scope:
        return Scope((*self._names, name))

    def empty(self) -> bool:
        return not self._names

    def pop(self) -> None:
        """Removes the innermost name. Raises popart_exception when there is none."""
        if not self._names:
            raise popart_exception("there is no name in this scope to remove")
        self._names = self._names[:-1]

    def depth(self) -> int:
        return len(self._names)

    @staticmethod
    def delimiter() -> Any:
        return "/"

    def str(self) -> Any:
        return "/".join(self._names)

    __str__ = str

    def getCommonParent(self, other: Scope) -> Scope:
        common = []
        for mine, theirs in zip(self._names, other._names):
            if mine != theirs:
                break
            common.append(mine)
        return Scope(tuple(common))

    def isSubscope(self, other: Scope) -> bool:
        """Is `other` a proper beginning of this scope?"""
        return len(other._names) < len(self._names) and self._names[: len(other._names)] == other._names

    def parents(self) -> list[Scope]:
        """This scope and those around it, innermost first."""
        return [Scope(self._names[:n]) for n in range(len(self._names), -1, -1)]

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Scope) and self._names == other._names

    def __repr__(self) -> Any:
        return f"Scope({self.str()!r})"


class NumInputs:
    """How many inputs an op takes: (), (n) or (min, max); -1 as max: any number."""

    def __init__(self, min: int = 0, max: int | None = None) -> None:
        self.min, self.max = min, min if max is None else max

    def __eq__(self, other: object) -> bool:
        return isinstance(other, NumInputs) and (self.min, self.max) == (other.min, other.max)

    __hash__ = None  # type: ignore[assignment]


@functools.total_ordering
class OperatorIdentifier:
    """What an op is: domain, type and version, and how many inputs and outputs it has."""

    def __init__(
        self, domain: str, type: str, version: int, inputs: NumInputs | None = None, outputs: int = 0, **named: Any
    ) -> None:
        self._key = (domain, type, version)
        self._inputs = named.get("numInputs", inputs) or NumInputs()
        self._outputs = named.get("numOutputs", outputs)

    domain = property(lambda self: self._key[0])
    type = property(lambda self: self._key[1])
    version = property(lambda self: self._key[2])
    numInputs = property(lambda self: self._inputs)
    numOutputs = property(lambda self: self._outputs)

    def key(self) -> tuple[str, str, int]:
        return self._key

    def __eq__(self, other: object) -> bool:
        return isinstance(other, OperatorIdentifier) and self._key == other._key

    def __lt__(self, other: OperatorIdentifier) -> bool:
        return self._key < other._key

    def __hash__(self) -> int:
        return hash(self._key)

    def __str__(self) -> str:
        return f"{self._key[0]}.{self._key[1]}:{self._key[2]}"

    def __repr__(self) -> str:
        return f"OperatorIdentifier({self})"


def add_scope(graph: str, id: str) -> str:
    """`id` with the scope of the graph of that id."""
    return f"{graph}/{id}" if graph else id


def remove_scope(graph: str, id: str) -> str:
    """`id` without the scope of the graph. Raises popart_exception for an id of another graph."""
    if graph and not id.startswith(graph + "/"):
        raise popart_exception(f"'{id}' is not in the scope of graph '{graph}'")
    return id[len(graph) + 1 :] if graph else id


def addScope(graph: Any, id: str) -> str:
    return add_scope(str(graph.id), id)


def removeScope(graph: Any, id: str) -> str:
    return remove_scope(str(graph.id), id)
