"""`Options._Popart`: settings of the back end by name. Nothing is checked here; compiling checks names and types."""

from __future__ import annotations

import copy
import typing

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_FROZEN = "Can't modify frozen Options"


class PopartOptions:
    """Back-end settings by name. Names and types are those of the back end, which checks them when compiling."""

    def __init__(self) -> None:
        self.options: dict[str, typing.Any] = {
            "instrumentWithHardwareCycleCounter": False,
            "rearrangeAnchorsOnHost": False,
        }
        self.patterns: dict[str, bool] = {}
        self.patterns_level: int | None = None
        self._is_frozen = False

    def _freeze(self) -> None:
        self._is_frozen = True

    def _thaw(self) -> None:
        self._is_frozen = False

    def _check_writable(self) -> None:
        if self._is_frozen:
            raise AttributeError(_FROZEN)

    def set(self, key: str, value: typing.Any) -> Self:
        """Stores a setting; an unknown name or a value of another type is an error when compiling.

        Example:
            >>> options._Popart.set("enableOutlining", False)
        """
        self._check_writable()
        assert isinstance(key, str), f"the name of a setting must be a str, got {type(key).__name__}"
        self.options[key] = value
        return self

    def setPatterns(self, patterns: dict[str, bool], level: int = 2) -> Self:
        """Enables or disables graph rewrites by name.

        Args:
            patterns: dict from pattern name (str) to bool.
            level: the patterns that are on to begin with: 0 none, 1 minimal, 2 default, 3 all.
        """
        self._check_writable()
        assert isinstance(level, int), f"level must be an int, got {type(level).__name__}"
        assert isinstance(patterns, dict) and all(
            isinstance(name, str) and isinstance(enabled, bool) for name, enabled in patterns.items()
        ), "patterns must be a dict of str to bool"
        self.patterns = dict(patterns)
        self.patterns_level = level
        return self

    def setEngineOptions(self, engine_options: dict[str, str]) -> Self:
        """Replaces the options of the engine (dict of str to str): short for `set("engineOptions", ...)`."""
        return self.set("engineOptions", engine_options)

    def _to_dict(self) -> dict[str, typing.Any]:
        """What was set, by the names of `Options.toDict()`."""
        made = dict(self.options)
        if self.patterns_level is not None:
            made.update(patterns=dict(self.patterns), patterns_level=self.patterns_level)
        return made

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PopartOptions) and (self.options, self.patterns, self.patterns_level) == (
            other.options,
            other.patterns,
            other.patterns_level,
        )

    def __hash__(self) -> int:
        return hash(PopartOptions)

    def __deepcopy__(self, memory: dict[int, typing.Any]) -> PopartOptions:
        twin = type(self).__new__(type(self))
        PopartOptions.__init__(twin)
        memory[id(self)] = twin
        twin.options = copy.deepcopy(self.options, memory)
        twin.patterns = dict(self.patterns)
        twin.patterns_level = self.patterns_level
        return twin

    def __repr__(self) -> str:
        return f"PopartOptions({self.options!r})"
