"""Context managers that annotate the operations captured inside: back-end attributes and fused convolutions."""

from __future__ import annotations

import collections.abc
import contextlib
import types
import typing

import torch

from poptorch import enums, poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_PARTIALS = {torch.float32: "float", torch.float16: "half"}


class Attribute:
    """Back-end attributes of the operations created inside. Nests: inner values win; outside a capture nothing happens.

    Args:
        kwargs: one keyword per attribute, each a dict from str to str.

    Raises:
        AssertionError: a value that is not a dict from str to str.

    Example:
        >>> with poptorch.Attribute(__outline={"layer": "embedding"}):
        ...     x = self.embedding(x)
    """

    def __init__(self, **kwargs: dict[str, str]) -> None:
        for name, value in kwargs.items():
            assert isinstance(value, dict) and all(isinstance(text, str) for pair in value.items() for text in pair), (
                f"poptorch.Attribute: '{name}' must be a dict from str to str, got {value!r}"
            )
        self._attributes = kwargs

    def __enter__(self) -> Self:
        capture = capture_state.active()
        if capture is not None:
            capture.push_attributes(self._attributes)
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        capture = capture_state.active()
        if capture is not None:
            capture.pop_attributes()


class MultiConv:
    """Convolutions inside that do not need each other's results become one fused operation. Values never change.

    Setters take one value for all convolutions or a list with one value for each, and return the object.

    Raises (on leaving):
        poptorch.Error: nested, no convolution inside, one that needs the result of another, or a list of another length.

    Example:
        >>> with poptorch.MultiConv().planType(poptorch.MultiConvPlanType.Serial):
        ...     a, b = self.conv1(x), self.conv2(x)
    """

    def __init__(self) -> None:
        self._settings: dict[str, typing.Any] = {}

    def _store(
        self,
        name: str,
        value: typing.Any,
        check: collections.abc.Callable[[typing.Any], bool],
        describe: str,
        error: type[Exception] = AssertionError,
        convert: collections.abc.Callable[[typing.Any], typing.Any] = lambda member: member,
    ) -> Self:
        many = isinstance(value, (list, tuple))
        if not all(check(member) for member in (value if many else [value])) or (many and not value):
            raise error(f"MultiConv.{name} needs {describe}, got {value!r}")
        self._settings[name] = [convert(member) for member in value] if many else convert(value)
        return self

    def availableMemoryProportions(self, value: float | list[float] | tuple[float, ...]) -> Self:
        """Share of tile memory: a float in 0..1, or a non-empty list of them. AssertionError otherwise."""
        share = lambda x: isinstance(x, float) and 0 <= x <= 1  # noqa: E731
        return self._store("availableMemoryProportions", value, share, "a float in 0..1 or a non-empty list of them")

    def partialsTypes(self, value: torch.dtype | list[torch.dtype] | tuple[torch.dtype, ...]) -> Self:
        """Type of partial sums: `torch.float` or `torch.half`, or a list of them. ValueError otherwise."""
        return self._store(
            "partialsTypes",
            value,
            lambda x: x in _PARTIALS,
            "torch.float, torch.half or a list of them",
            ValueError,
            _PARTIALS.get,
        )

    def enableConvDithering(self, value: bool | list[bool] | tuple[bool, ...]) -> Self:
        """Spread small convolutions over different tiles: bool or list of bool. ValueError otherwise."""
        return self._store(
            "enableConvDithering", value, lambda x: isinstance(x, bool), "a bool or a list of bools", ValueError
        )

    def _single(self, name: str, value: typing.Any, kind: type, describe: str) -> Self:
        assert isinstance(value, kind) and not isinstance(value, bool), (
            f"MultiConv.{name} needs {describe}, got {value!r}"
        )
        self._settings[name] = value.name if isinstance(value, enums.MultiConvPlanType) else value
        return self

    def planType(self, value: enums.MultiConvPlanType) -> Self:
        """`poptorch.MultiConvPlanType`. AssertionError otherwise."""
        return self._single("planType", value, enums.MultiConvPlanType, "a poptorch.MultiConvPlanType")

    def perConvReservedTiles(self, value: int) -> Self:
        """Tiles (int) kept for each convolution. AssertionError otherwise."""
        return self._single("perConvReservedTiles", value, int, "an int")

    def cycleBackOff(self, value: float) -> Self:
        """Share (float) of cycles given up for fewer tiles. AssertionError otherwise."""
        return self._single("cycleBackOff", value, float, "a float")

    def __enter__(self) -> Self:
        capture = capture_state.active()
        if capture is not None:
            capture.begin_multi_conv()
        return self

    def __exit__(
        self,
        exc_type: type[BaseException] | None,
        exc_value: BaseException | None,
        traceback: types.TracebackType | None,
    ) -> None:
        capture = capture_state.active()
        if capture is None:
            return
        if exc_type is not None:
            with contextlib.suppress(poptorch_core.Error):  # the exception on its way says more
                capture.end_multi_conv({})
            return
        lists = {name: value for name, value in self._settings.items() if isinstance(value, list)}
        settings = {
            name: [str(member) for member in value] if name in lists else str(value)
            for name, value in {"planType": "Parallel", **self._settings}.items()
        }
        count = capture.end_multi_conv(settings)
        for name, value in lists.items():
            if len(value) != count:
                raise errors.create_error(
                    f"MultiConv.{name} has {len(value)} values for {count} convolutions. Give one value, or {count}."
                )
