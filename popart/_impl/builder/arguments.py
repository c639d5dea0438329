"""Arguments of builder methods: which Python values each kind of parameter takes, and what a refusal says.

A conversion raises `Refused`; the method that was called makes a TypeError of it that lists its signature.
"""

from __future__ import annotations

import inspect
import operator
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from popart._impl.debug_info import DebugContext


class Refused(Exception):
    """A value that a parameter does not take."""


def boolean(value: Any) -> bool:
    if isinstance(value, (bool, numpy.bool_)):
        return bool(value)
    raise Refused


def integer(value: Any) -> int:
    """Whole numbers, also bool and floats without a fraction, and members of enumerations that stand for a number."""
    if isinstance(value, (float, numpy.floating)):
        if not float(value).is_integer():
            raise Refused
        return int(value)
    try:
        return operator.index(value)
    except TypeError:
        raise Refused from None


def number(value: Any) -> float:
    """Numbers, and whatever else stands for one: arrays and tensors of one element."""
    if isinstance(value, (str, bytes, numpy.complexfloating)) or not hasattr(value, "__float__"):
        raise Refused
    if isinstance(value, numpy.ndarray) and value.dtype.kind not in "biuf":
        raise Refused
    try:
        return float(value.item() if isinstance(value, numpy.ndarray) else value)
    except (TypeError, ValueError):
        raise Refused from None


def text(value: Any) -> str:
    if isinstance(value, str):
        return value
    raise Refused


def sequence(of: Callable[[Any], Any]) -> Callable[[Any], list[Any]]:
    def convert(value: Any) -> list[Any]:
        if isinstance(value, (str, bytes, dict)) or not isinstance(value, (Sequence, set, frozenset, numpy.ndarray)):
            raise Refused
        return [of(item) for item in value]

    return convert


def array(value: Any) -> numpy.ndarray:
    if isinstance(value, (numpy.ndarray, numpy.generic)):
        return numpy.asarray(value)
    raise Refused


def names(value: Any) -> set[str]:
    """Outputs of a node: one name, or all of them in a set, list or tuple."""
    return {value} if isinstance(value, str) else set(sequence(text)(value))


def debug_name(value: Any) -> DebugContext | str:
    if value is None:
        return ""
    if isinstance(value, (str, DebugContext)):
        return value
    raise Refused


def refusal(function: str, signatures: Sequence[str], positional: Sequence[Any], named: dict[str, Any]) -> TypeError:
    """The TypeError of a call that fits none of the signatures."""
    listed = "\n".join(f"    {index}. {signature}" for index, signature in enumerate(signatures, 1))
    passed = ", ".join(_short(value) for value in positional)
    if named:
        passed += (
            ("; " if passed else "") + "kwargs: " + ", ".join(f"{key}={_short(value)}" for key, value in named.items())
        )
    return TypeError(
        f"{function}(): incompatible function arguments. The following argument types are supported:\n{listed}\n\nInvoked with: {passed}"
    )


def _short(value: Any) -> str:
    shown = repr(value)
    return shown if len(shown) < 200 else shown[:200] + "..."


class Signature:
    """One way to call a method: names, conversions and defaults, in order."""

    def __init__(self, *parameters: tuple[Any, ...]) -> None:
        """Each parameter is (name, conversion) or (name, conversion, default)."""
        self.names = [parameter[0] for parameter in parameters]
        self.conversions = {parameter[0]: parameter[1] for parameter in parameters}
        self.defaults = {parameter[0]: parameter[2] for parameter in parameters if len(parameter) > 2}

    def bind(self, positional: Sequence[Any], named: dict[str, Any]) -> dict[str, Any]:
        """The converted value of each parameter that was given, defaults for the others. Raises Refused."""
        if len(positional) > len(self.names):
            raise Refused
        given = dict(zip(self.names, positional))
        for name, value in named.items():
            if name not in self.conversions or name in given:
                raise Refused
            given[name] = value
        bound = {}
        for name in self.names:
            if name not in given:
                if name not in self.defaults:
                    raise Refused
                bound[name] = self.defaults[name]
            elif given[name] is None and self.defaults.get(name, 0) is None:
                bound[name] = None
            else:
                bound[name] = self.conversions[name](given[name])
        return bound


def bind_one(
    function: str, ways: dict[str, Signature], positional: Sequence[Any], named: dict[str, Any]
) -> tuple[str, dict[str, Any]]:
    """The first of several ways to call a function that takes these arguments: its text and the bound values.

    Raises TypeError when none does.
    """
    for shown, way in ways.items():
        try:
            return shown, way.bind(positional, named)
        except Refused:
            continue
    raise refusal(function, list(ways), positional, named)


def published(signature: inspect.Signature) -> str:
    """A signature as text, without self."""
    listed = []
    for name, parameter in signature.parameters.items():
        if name != "self":
            default = "" if parameter.default is inspect.Parameter.empty else f" = {parameter.default!r}"
            listed.append(f"{name}: {parameter.annotation}{default}")
    return f"({', '.join(listed)}) -> {signature.return_annotation}"
