"""The native table of ai.graphcore's operators (csrc/ops/definition/graphcore_nodes.h): a row for each method of a builder."""

from __future__ import annotations

import re
from typing import NamedTuple

from ipu_core import _native

ANY_NUMBER = 2**31 - 1
# Attributes that are not called as the parameter, by its kind.
ATTRIBUTES = {"operator": "__collectiveOperator", "comm group": "__collectiveCommGroup"}
_PARAMETER = re.compile(r"(\w+):([\w ]+)(?:\((.*)\))?(?:=(.*))?")
_TENSOR = re.compile(r"(\w+)([?!=~]|\*(\d+))?:(.+)")


class Parameter(NamedTuple):
    """A parameter of a method as it is written: a kind of builder/methods.py, a regular expression of its values, and its default."""

    name: str
    kind: str
    values: str | None
    default: str | None

    @property
    def attribute(self) -> str:
        return ATTRIBUTES.get(self.kind, self.name)


class Tensor(NamedTuple):
    """An operand or a result; `mark` says how often it is there, or what its type is."""

    name: str
    mark: str
    least: int
    most: int
    types: str


def _tensor(text: str) -> Tensor:
    name, mark, least, types = _groups(_TENSOR, text)
    counts = (int(least), ANY_NUMBER) if least else (0, 1) if mark == "?" else (1, 1)
    return Tensor(name, mark or "", *counts, types)


def _groups(pattern: re.Pattern[str], text: str) -> tuple[str, ...]:
    match = pattern.fullmatch(text)
    assert match, f"the native table of operators has '{text}'"
    return match.groups()


class Row(NamedTuple):
    type: str
    method: str  # "": no builder makes the node
    operands: tuple[Tensor, ...]
    results: tuple[Tensor, ...]
    gradient: str
    parameters: tuple[Parameter, ...]
    doc: str


def row_of(
    type: str, method: str, operands: str, results: str, gradient: str, parameters: str = "", doc: str = ""
) -> Row:
    return Row(
        type,
        method,
        tuple(map(_tensor, operands.split())),
        tuple(map(_tensor, results.split())),
        gradient,
        tuple(Parameter(*_groups(_PARAMETER, part)) for part in parameters.split(", ") if part),
        doc,
    )


ROWS = tuple(row_of(*row) for row in _native.graphcore_operators())
# Of the methods that make one operator, that with the most parameters says what attributes it has.
BY_TYPE = {row.type: row for row in sorted(ROWS, key=lambda row: len(row.parameters))}
