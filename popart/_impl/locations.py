"""Where tensors of a kind are kept."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import ReplicatedTensorSharding, TensorStorage, TileSet
from popart._impl.groups import CommGroup
from popart._impl.typed_fields import Fields


class TensorLocation(Fields):
    """Where a tensor is kept: on the chip or beside it, on which tiles, whole or in shards.

    Takes (), (storage), (storage, replicatedTensorSharding[, shardingDomain]) or
    (storage, loadTileSet, storageTileSet, replicatedTensorSharding[, shardingDomain]), also by name.
    """

    storage: TensorStorage
    loadTileSet: TileSet
    storageTileSet: TileSet
    replicatedTensorSharding: ReplicatedTensorSharding
    shardingDomain: CommGroup
    _defaults = {
        "storage": TensorStorage.OnChip,
        "loadTileSet": TileSet.Compute,
        "storageTileSet": TileSet.Compute,
        "replicatedTensorSharding": ReplicatedTensorSharding.Off,
        "shardingDomain": CommGroup(),
    }

    def __init__(self, *values: Any, **named: Any) -> None:
        if len(values) > 1 and not isinstance(values[1], TileSet):
            if len(values) > 3:
                raise TypeError(f"incompatible arguments: TensorLocation takes no {list(values[3:])}")
            named |= dict(zip(("replicatedTensorSharding", "shardingDomain"), values[1:]))
            values = values[:1]
        super().__init__(*values, **named)


class TensorLocationSettings(Fields):
    """Where tensors of a kind are kept, and from which number of elements on.

    Takes a location, or as `storage` only that of one.
    """

    location: TensorLocation
    minElementsForOffChip: int
    minElementsForReplicatedTensorSharding: int
    _defaults = {
        "location": TensorLocation(),
        "minElementsForOffChip": 2,
        "minElementsForReplicatedTensorSharding": 8192,
    }

    def __init__(self, *values: Any, **named: Any) -> None:
        if "storage" in named:
            values = (named.pop("storage"), *values)
        if values and isinstance(values[0], TensorStorage):
            values = (TensorLocation(values[0]), *values[1:])
        super().__init__(*values, **named)
