"""Placement of tensor families in memory: settings that change where tensors live, never their values."""

from __future__ import annotations

import typing

from poptorch._impl.options.container import OptionContainer

if typing.TYPE_CHECKING:
    from typing_extensions import Self


FAMILIES = ("location_activation", "location_weight", "location_optimizer", "location_accumulator")


class TensorLocationSettings(OptionContainer):
    """Where one family of tensors lives. Starts empty: what is not set is left to the compiler.

    Example:
        >>> options.TensorLocations.setOptimizerLocation(poptorch.TensorLocationSettings().useOnChipStorage(False))
    """

    def _store(self, name: str, value: int, kind: type) -> Self:
        assert isinstance(value, kind), (
            f"{name} must be of type {kind.__name__}, got {type(value).__name__} ({value!r})"
        )
        return self._register(name, int(value) if name == "onChip" else value)

    def minElementsForOffChip(self, min_elements: int) -> Self:
        """Smaller tensors (elements, int) stay on chip even if off-chip storage was asked for."""
        return self._store("minElementsForOffChip", min_elements, int)

    def minElementsForReplicatedTensorSharding(self, min_elements: int) -> Self:
        """Smaller tensors (elements, int) are not sharded over replicas."""
        return self._store("minElementsForReplicatedTensorSharding", min_elements, int)

    def useOnChipStorage(self, use: bool | None = True) -> Self:
        """True: on chip; False: in streaming memory; None: forget the setting."""
        if use is None:
            self._check_writable()
            self.deleteIfExists("onChip")
            return self
        return self._store("onChip", use, bool)

    def useReplicatedTensorSharding(self, use: bool = True) -> Self:
        """Each replica stores a part and gathers on use."""
        return self._store("useReplicatedTensorSharding", use, bool)

    def useIOTilesToLoad(self, use: bool = True) -> Self:
        """Load through the I/O tiles."""
        return self._store("useIOTilesToLoad", use, bool)

    def useIOTilesToStore(self, use: bool = True) -> Self:
        """Keep on the I/O tiles while on chip."""
        return self._store("useIOTilesToStore", use, bool)


class TensorLocationOptions(OptionContainer):
    """`Options.TensorLocations`."""

    def __init__(self) -> None:
        super().__init__(**{family: {} for family in FAMILIES})

    def numIOTiles(self, num_tiles: int) -> Self:
        """Tiles per IPU reserved for I/O: an even int from 32 to 192."""
        assert isinstance(num_tiles, int) and num_tiles % 2 == 0 and 32 <= num_tiles <= 192, (
            f"numIOTiles must be an even number from 32 to 192, got {num_tiles!r}"
        )
        return self._register("num_io_tiles", num_tiles)

    def _location(self, name: str, location: TensorLocationSettings) -> Self:
        assert isinstance(location, TensorLocationSettings), (
            f"expected poptorch.TensorLocationSettings, got {type(location).__name__}"
        )
        return self._set(name, dict(location._values))

    def setActivationLocation(self, location: TensorLocationSettings) -> Self:
        """Where forward activations wait for the backward pass (`TensorLocationSettings`, copied)."""
        return self._location("location_activation", location)

    def setWeightLocation(self, location: TensorLocationSettings) -> Self:
        """Where parameters live."""
        return self._location("location_weight", location)

    def setOptimizerLocation(self, location: TensorLocationSettings) -> Self:
        """Where optimizer state lives."""
        return self._location("location_optimizer", location)

    def setAccumulatorLocation(self, location: TensorLocationSettings) -> Self:
        """Where gradient accumulators live."""
        return self._location("location_accumulator", location)


def native(locations: TensorLocationOptions, off_chip: bool) -> dict[str, typing.Any]:
    """What the compiler is told. `off_chip`: where tensors live of which nothing was said."""
    families = {family: {"onChip": int(not off_chip), **locations._values[family]} for family in FAMILIES}
    return {**families, "io_tiles": locations._values.get("num_io_tiles", 0)}
