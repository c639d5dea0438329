"""The native table of op types: what each is, for all that is made from types."""

from __future__ import annotations

import dataclasses
from typing import Any

from ipu_core import _native


@dataclasses.dataclass(frozen=True)
class Kind:
    """A row of the native table (csrc/frontends/popxl/op_kind.h)."""

    type: str
    class_name: str
    domain: str
    version: int
    modifies: tuple[int, ...]
    views: tuple[int, ...]
    in_place: tuple[tuple[int, str], ...]  # inputs that another type overwrites with the result, and that type
    elementwise: str  # "numbers" of the type of input 0, "booleans", or ""
    operands: int  # of an elementwise op; 0: any number
    is_optimizer: bool
    gradients: tuple[str, ...]

    @property
    def is_copying(self) -> bool:
        """Are its outputs memory of their own?"""
        return not self.modifies and not self.views


def _plain(value: Any) -> Any:
    return tuple(value) if isinstance(value, list) else value


KINDS = {kind.type: kind for kind in (Kind(*map(_plain, row)) for row in _native.kinds())}
