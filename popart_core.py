"""What PopART's native module is called: the classes and functions of `popart`, and the cores of its Python classes.

Names are looked up when they are used, so importing this module loads neither onnx nor the compiler.
"""

from __future__ import annotations

from typing import Any

import popart
from popart._impl.exceptions import throw_hooks

globals().update(throw_hooks())


def __getattr__(name: str) -> Any:
    if name in ("builder", "session", "tensorinfo") or name.startswith("__"):
        raise AttributeError(f"module 'popart_core' has no attribute '{name}'")
    return getattr(popart, name)


def __dir__() -> list[str]:
    return sorted({*globals(), *dir(popart)} - {"Any", "annotations", "throw_hooks", "popart"})
