"""Where tensors of a kind are kept."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import ReplicatedTensorSharding, TensorStorage, TileSet
from popart._impl.groups import CommGroup


class TensorLocation:
    """Where a tensor is kept: on the chip or beside it, on which tiles, whole or in shards.

    Takes (), (storage), (storage, replicatedTensorSharding[, shardingDomain]) or
    (storage, loadTileSet, storageTileSet, replicatedTensorSharding[, shardingDomain]).
    """

    def __init__(self, *values: Any) -> None:
        self.storage = values[0] if values else TensorStorage.OnChip
        self.loadTileSet = self.storageTileSet = TileSet.Compute
        self.replicatedTensorSharding = ReplicatedTensorSharding.Off
        self.shardingDomain = CommGroup()
        rest = list(values[1:])
        if rest and isinstance(rest[0], TileSet):
            self.loadTileSet, self.storageTileSet = rest[:2]
            rest = rest[2:]
        if rest:
            self.replicatedTensorSharding = rest.pop(0)
        if rest:
            self.shardingDomain = rest.pop(0)
        if rest:
            raise TypeError(f"incompatible arguments: TensorLocation takes no {rest}")


class TensorLocationSettings:
    """Where tensors of a kind are kept, and from which number of elements on."""

    def __init__(
        self,
        location: Any = None,
        minElementsForOffChip: int = 2,
        minElementsForReplicatedTensorSharding: int = 8192,
    ) -> None:
        self.location = (
            location if isinstance(location, TensorLocation) else TensorLocation(*([location] if location else []))
        )
        self.minElementsForOffChip = minElementsForOffChip
        self.minElementsForReplicatedTensorSharding = minElementsForReplicatedTensorSharding
