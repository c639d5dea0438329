"""How the modules that users import get their names: when they are first used, so that an import of the API loads no layer and no op.

A name that a later version brings is an object that can be imported and handed on, and says so when it is used.
"""

from __future__ import annotations

import importlib
import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any

_REFUSALS = {
    "later": "{} is not in this version of tensorflow-ipu: it comes with a later one (docs/compatibility-tensorflow.md)",
    "never": "{} is not supported by tensorflow-ipu",
}


class Refusal(type):
    """A public name that nothing stands behind: using it raises NotImplementedError."""

    def __new__(mcs, name: str, bases: tuple = (), members: dict | None = None, *, text: str = "", **_: Any) -> Refusal:
        for base in bases:
            if isinstance(base, Refusal):
                raise NotImplementedError(base.text)
        return super().__new__(mcs, name, bases, {"text": text, **(members or {})})

    def __init__(cls, *_: Any, **__: Any) -> None:
        pass

    def __call__(cls, *_: Any, **__: Any) -> Any:
        raise NotImplementedError(cls.text)

    def __getattr__(cls, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        raise NotImplementedError(f"{cls.text}; '{name}' was read from it")

    def __repr__(cls) -> str:
        return f"<{cls.text}>"


def forwarder(
    module: str, givers: Mapping[str, Sequence[str]], submodules: Sequence[str] = ()
) -> tuple[Callable[[str], Any], Callable[[], list[str]], list[str]]:
    """`__getattr__`, `__dir__` and `__all__` of a module.

    Args:
        module: its name.
        givers: module of ipu_tensorflow (or of TensorFlow, with its whole name) → names that it gives; `A=B`: it calls A B.
        submodules: attributes that are imported when they are first used.
    """
    table = {}
    for giver, words in givers.items():
        for word in words:
            public, _, own = word.partition("=")
            table[public] = (giver, own or public)

    def get(name: str) -> Any:
        if name in table:
            value = _resolve(module, name, *table[name])
        elif name in submodules:
            value = importlib.import_module(f"{module}.{name}")
        else:
            raise AttributeError(f"module '{module}' has no attribute '{name}'")
        setattr(sys.modules[module], name, value)
        return value

    names = sorted({*table, *submodules})
    return get, lambda: names, names


def _resolve(module: str, name: str, giver: str, own: str) -> Any:
    shown = f"{module.removeprefix('tensorflow.python.')}.{name}"
    if giver in _REFUSALS:
        return Refusal(name, text=_REFUSALS[giver].format(shown))
    path = giver if giver.startswith("tensorflow.") else f"ipu_tensorflow.{giver}"
    if importlib.util.find_spec(path) is None or not hasattr(importlib.import_module(path), own):
        return Refusal(name, text=f"{shown} is not there yet: {path} does not define {own}")
    return getattr(importlib.import_module(path), own)
