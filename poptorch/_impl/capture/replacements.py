"""Names of torch that are something else for the thread that captures, and the very same objects for all others."""

from __future__ import annotations

import types
import typing

from poptorch._impl.capture import state as capture_state


class _InClass:
    """An attribute of a class: `inside` for the thread that captures, `original` (an entry of a class) for others."""

    def __init__(self, original: typing.Any, inside: typing.Any) -> None:
        self._original = original
        self._inside = inside

    def __get__(self, instance: typing.Any, owner: type | None = None) -> typing.Any:
        value = self._original if capture_state.active() is None else self._inside
        return value.__get__(instance, owner) if hasattr(value, "__get__") else value


class _InModule:
    """An attribute of a module, which keeps its entry. Whoever assigns or deletes it changes what they see themselves."""

    def __init__(self, name: str, inside: typing.Any) -> None:
        self._name = name
        self._inside = [inside]

    def _entries(self, module: types.ModuleType) -> dict[str, typing.Any]:
        return vars(module) if capture_state.active() is None else dict(zip((self._name,), self._inside))

    def __get__(self, module: types.ModuleType, owner: type | None = None) -> typing.Any:
        try:
            return self._entries(module)[self._name]
        except KeyError:
            raise AttributeError(f"module '{module.__name__}' has no attribute '{self._name}'") from None

    def __set__(self, module: types.ModuleType, value: typing.Any) -> None:
        if capture_state.active() is None:
            vars(module)[self._name] = value
        else:
            self._inside[:] = [value]

    def __delete__(self, module: types.ModuleType) -> None:
        if capture_state.active() is None:
            del vars(module)[self._name]
        else:
            self._inside.clear()


def in_class(changes: typing.Any, owner: type, name: str, inside: typing.Any) -> None:
    """`owner.name` is `inside` for as long as `changes` (a `poptorch_core.Changes`) lasts. Not for special methods: a type
    keeps those in slots, too, which other threads would see."""
    original = next(vars(kind)[name] for kind in owner.__mro__ if name in vars(kind))
    changes.replace(owner, name, _InClass(original, inside))


def in_module(changes: typing.Any, module: types.ModuleType, **inside: typing.Any) -> None:
    """`module.name` is `inside[name]` for as long as `changes` lasts. The module itself, which reads its entries as
    globals, sees no difference."""
    entries = {"__module__": "builtins"} | {name: _InModule(name, value) for name, value in inside.items()}
    changes.set_class(module, type(type(module).__name__, (type(module),), entries))
