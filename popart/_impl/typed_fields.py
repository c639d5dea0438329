"""Attributes of settings that take values of one type only, as those of a native class do."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping
from typing import Any

import numpy


def fits(default: Any, value: Any) -> bool:
    """Whether a value may stand where this default does: numbers where they are exact, else the same type."""
    if isinstance(default, bool):
        return isinstance(value, (bool, numpy.bool_))
    if isinstance(default, int):
        return isinstance(value, (int, numpy.integer))
    if isinstance(default, float):
        return isinstance(value, (int, float, numpy.integer, numpy.floating))
    return isinstance(value, default if isinstance(default, type) else type(default))


def converted(name: str, default: Any, value: Any) -> Any:
    """The value in the type of the default. Raises TypeError for one that does not fit."""
    if not fits(default, value):
        kind = default if isinstance(default, type) else type(default)
        raise TypeError(f"incompatible arguments: {name} takes a {kind.__name__}, not {value!r}")
    return type(default)(value) if isinstance(default, (bool, int, float)) else value


class TypedMap(dict):
    """A dictionary of which the keys are texts and the values of one type."""

    def __init__(self, name: str, example: Any, values: Mapping[str, Any]) -> None:
        super().__init__()
        self._name, self._example = name, example
        for key, value in values.items():
            self[key] = value

    def __setitem__(self, key: str, value: Any) -> None:
        if not isinstance(key, str):
            raise TypeError(f"incompatible arguments: keys of {self._name} are texts, not {key!r}")
        super().__setitem__(key, converted(f"{self._name}['{key}']", self._example, value))

    # Those of `dict` write past __setitem__.
    update = MutableMapping.update
    setdefault = MutableMapping.setdefault

    def __ior__(self, others: Any) -> TypedMap:  # type: ignore[misc]
        self.update(others)
        return self


def elements(name: str, kind: type, example: Any, values: Any) -> Any:
    """A list or set of values of one type. Raises TypeError for anything else, a text too."""
    if isinstance(values, (str, bytes)) or not hasattr(values, "__iter__"):
        raise TypeError(f"incompatible arguments: {name} takes a {kind.__name__}, not {values!r}")
    return kind(converted(f"an element of {name}", example, value) for value in values)


class Fields:
    """An object with the fields of its table. Any other name is an AttributeError, a value of another type a TypeError."""

    _defaults: dict[str, Any] = {}
    _optional: frozenset[str] = frozenset()  # fields that take None too
    _lists: dict[str, Any] = {}  # an example of the elements of each field that is a list

    def __init__(self, *values: Any, **named: Any) -> None:
        for name in named:
            if name not in self._defaults:
                raise TypeError(f"incompatible arguments: {type(self).__name__} has no field '{name}'")
        if len(values) > len(self._defaults):
            raise TypeError(
                f"incompatible arguments: {type(self).__name__} has {len(self._defaults)} fields, not {len(values)}"
            )
        self.__dict__.update(copy.deepcopy(self._defaults))
        for name, value in {**dict(zip(self._defaults, values)), **named}.items():
            setattr(self, name, value)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self._defaults:
            raise AttributeError(f"'{type(self).__name__}' object has no attribute '{name}'")
        full = f"{type(self).__name__}.{name}"
        if value is None and name in self._optional:
            self.__dict__[name] = None
        elif name in self._lists:
            self.__dict__[name] = elements(full, list, self._lists[name], value)
        else:
            self.__dict__[name] = converted(full, self._defaults[name], value)
