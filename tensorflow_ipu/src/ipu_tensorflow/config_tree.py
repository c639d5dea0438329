"""A tree of attributes with types, defaults and descriptions, from a table: what `IPUConfig` is made of.

Setting an attribute checks its type exactly (a bool is no int); a name that is not known is an error with the closest known one.
"""

from __future__ import annotations

import difflib
import logging
import typing
from collections.abc import Iterator, Mapping
from typing import Any

log = logging.getLogger("tensorflow")


class AttributeMetadata:
    """What is known of an attribute. `name`: from the root. `type`: as text; None for a category, as `default`.
    `types`: the allowed ones."""

    def __init__(
        self,
        name: str,
        description: str,
        types: tuple[Any, ...] = (),
        default: Any = None,
        deprecated_msg: str | None = None,
    ) -> None:
        self.name, self.__doc__ = name, description
        self._types, self._default = types, default
        self.deprecated_msg = deprecated_msg

    @property
    def deprecated(self) -> bool:
        return self.deprecated_msg is not None

    @property
    def is_category(self) -> bool:
        return not self._types

    @property
    def types(self) -> list[Any]:
        return list(self._types)

    @property
    def type(self) -> str | None:
        names = [_name_of(kind) for kind in self._types]
        return None if not names else names[0] if len(names) == 1 else f"Union[{', '.join(names)}]"

    @property
    def default(self) -> Any:
        """Another list or dict at each call."""
        return self._default.copy() if isinstance(self._default, (list, dict)) else self._default

    def check_type(self, value: Any) -> bool:
        """True, or TypeError."""
        if not any(_is_exactly(value, kind) for kind in self._types):
            raise TypeError(f"'{self.name}' must be {self.type}, and {value!r} is {_name_of(type(value))}")
        return True

    def warn_if_deprecated(self) -> None:
        if self.deprecated:
            log.warning("'%s' is deprecated: %s", self.name, self.deprecated_msg)


def _name_of(kind: Any) -> str:
    return kind.__name__ if isinstance(kind, type) and not typing.get_origin(kind) else str(kind).replace("typing.", "")


def _is_exactly(value: Any, kind: Any) -> bool:
    origin = typing.get_origin(kind)
    if origin is None:
        return type(value) is kind
    return type(value) is origin and all(type(element) is typing.get_args(kind)[0] for element in value)


class Structure:
    """The attributes that a kind of configuration has.

    Args:
        rows: dotted name → (types, default, description) of an attribute, or the description alone of a category.
        deprecated: dotted name → message; that of a category holds for what is in it.
    """

    def __init__(self, rows: Mapping[str, Any], deprecated: Mapping[str, str] | None = None) -> None:
        self.metadata: dict[str, AttributeMetadata] = {}
        for name, row in rows.items():
            parts = name.split(".")
            above = [".".join(parts[:length]) for length in range(len(parts), 0, -1)]
            message = next((deprecated[one] for one in above if deprecated and one in deprecated), None)
            types, default, description = ((), None, row) if isinstance(row, str) else row
            self.metadata[name] = AttributeMetadata(name, description, types, default, message)

    def attributes(self) -> list[AttributeMetadata]:
        return [found for found in self.metadata.values() if not found.is_category]

    def find(self, path: str, name: str) -> AttributeMetadata:
        """That of `name`, relative to the category `path` ("" is the root)."""
        found = self.metadata.get(f"{path}.{name}" if path else name)
        if found is None:
            raise self.unknown(path, name)
        return found

    def unknown(self, path: str, name: str) -> ValueError:
        """The error that names the closest attribute: of the same last name anywhere, or similar in this category."""
        last = [known for known in self.metadata if known.split(".")[-1] == name.split(".")[-1]]
        inside = {
            known.removeprefix(f"{path}."): known for known in self.metadata if not path or known.startswith(f"{path}.")
        }
        similar = [inside[close] for close in difflib.get_close_matches(name, inside, 1, 0.0)]
        return ValueError(
            f"'{path}.{name}'".replace("'.", "'") + f" is no attribute. Did you mean '{(last or similar)[0]}'?"
        )

    def __deepcopy__(self, memo: dict) -> Structure:
        return self


class Category:
    """A category of a configuration, or its root. Attributes are read and set as those of any object."""

    _structure: Structure
    _path: str

    def __init__(self, structure: Structure, path: str = "") -> None:
        prefix = f"{path}." if path else ""
        values: dict[str, Any] = {}
        for name, found in structure.metadata.items():
            own = name.removeprefix(prefix)
            if name.startswith(prefix) and "." not in own:
                values[own] = Category(structure, name) if found.is_category else found.default
        self.__dict__.update(_structure=structure, _path=path, **values)

    def get_attribute_metadata(self, attr: str) -> AttributeMetadata:
        """What is known of the attribute of that name, relative to this category."""
        return self._structure.find(self._path, attr)

    def __setattr__(self, name: str, value: Any) -> None:
        if name not in self.__dict__:
            raise self._structure.unknown(self._path, name)
        found = self.get_attribute_metadata(name)
        if found.is_category:
            raise Exception(f"'{found.name}' is a category: set the attributes in it")
        found.check_type(value)
        found.warn_if_deprecated()
        self.__dict__[name] = value

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):  # as copy and pickle ask
            raise AttributeError(name)
        raise self._structure.unknown(self._path, name)

    def __delattr__(self, name: str) -> None:
        raise Exception(f"'{name}' cannot be deleted")

    def values(self) -> Iterator[tuple[str, Any]]:
        """(dotted name, value) of all attributes below."""
        for name, value in self.__dict__.items():
            if isinstance(value, Category):
                yield from value.values()
            elif not name.startswith("_"):
                yield (f"{self._path}.{name}" if self._path else name), value

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, Category):
            return NotImplemented
        return self._structure is other._structure and list(self.values()) == list(other.values())

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        changed = [
            f"{name}={value!r}" for name, value in self.values() if value != self._structure.metadata[name].default
        ]
        return f"{type(self).__name__}({', '.join(changed)})"
