"""The container all option objects share: registered names, typed writes, freezing, cloning, repr.

"Registered" means that the name is in the value table of the object. Writes to other public names are refused, so a
misspelt option never passes silently.
"""

from __future__ import annotations

import copy
import typing

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_FROZEN = "Can't modify frozen Options"


class OptionContainer:
    """Values by internal name. Subclasses pass their defaults to the constructor and add setter methods."""

    _values: dict[str, typing.Any]
    _frozen: bool

    def __init__(self, **defaults: typing.Any) -> None:
        object.__setattr__(self, "_values", dict(defaults))
        object.__setattr__(self, "_frozen", False)

    # --- reading ---
    if not typing.TYPE_CHECKING:  # a type checker knows the options that the classes declare, and finds misspelt ones

        def __getattr__(self, name):
            if name.startswith("__") or name == "_values":
                raise AttributeError(name)
            values = self._values
            if name in values:
                return values[name]
            raise AttributeError(
                f"{type(self).__name__} has no option '{name}'. Options are: {', '.join(sorted(values))}"
            )

    def __call__(self, name: str) -> typing.Any:
        return getattr(self, name)

    def exists(self, name: str) -> bool:
        return name in self._values

    # --- writing ---
    if not typing.TYPE_CHECKING:

        def __setattr__(self, name, value):
            if name == "__class__":  # launchers put a subclass in the place of a part; values stay
                self._check_writable()
                object.__setattr__(self, name, value)
                return
            if name.startswith("_"):
                if name not in self.__dict__:
                    raise AttributeError(f"{type(self).__name__} has no attribute '{name}'")
                self._check_writable()
                object.__setattr__(self, name, value)
                return
            self._set(name, value)

    def _check_writable(self) -> None:
        if self._frozen:
            raise AttributeError(_FROZEN)

    def _set(self, name: str, value: object) -> Self:
        """Stores a registered option; AssertionError for an unknown name or a value of another type."""
        self._check_writable()
        assert name in self._values, f"Unknown option '{name}'. Valid options are: {', '.join(sorted(self._values))}"
        current = self._values[name]
        assert isinstance(value, type(current)), (
            f"Unexpected type for option '{name}': expected {type(current).__name__}, "
            f"got {type(value).__name__} ({value!r})"
        )
        self._values[name] = value
        return self

    def _register(self, name: str, value: object) -> Self:
        """Stores an option that exists only once it was set."""
        if name in self._values:
            return self._set(name, value)
        self._check_writable()
        self._values[name] = value
        return self

    def deleteIfExists(self, name: str) -> None:
        """Removes a registered name; freezing does not prevent it."""
        self._values.pop(name, None)

    # --- life cycle ---
    def _parts(self) -> dict[str, typing.Any]:
        """Sub-option objects by name."""
        return {}

    def _freeze(self) -> None:
        object.__setattr__(self, "_frozen", True)
        for part in self._parts().values():
            part._freeze()

    def _thaw(self) -> None:
        object.__setattr__(self, "_frozen", False)
        for part in self._parts().values():
            part._thaw()

    def __deepcopy__(self, memory: dict[int, typing.Any]) -> Self:
        twin = object.__new__(type(self))
        memory[id(self)] = twin
        for name, value in self.__dict__.items():
            object.__setattr__(twin, name, copy.deepcopy(value, memory))
        object.__setattr__(twin, "_frozen", False)
        return twin

    def __getstate__(self) -> dict[str, typing.Any]:
        return dict(self.__dict__)

    def __setstate__(self, state: dict[str, typing.Any]) -> None:
        for name, value in state.items():
            object.__setattr__(self, name, value)

    def __eq__(self, other: object) -> bool:
        if type(self) is not type(other):
            return NotImplemented
        return self._values == other._values and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(type(self))  # equal objects have equal hashes; contents may change, so they take no part

    def __repr__(self) -> str:
        fields = [f"{name}={value!r}" for name, value in self._values.items()]
        fields += [f"{name}={part!r}" for name, part in self._parts().items()]
        return f"{type(self).__name__.lstrip('_')}({', '.join(fields)})"
