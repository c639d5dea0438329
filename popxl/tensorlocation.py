"""Where tensors are kept and ops are run."""

import enum
from typing import Any

from popxl._impl import facade


class TensorStorage(enum.Enum):
    """Memory of a tensor."""

    OnChip = "OnChip"
    OffChip = "OffChip"


class ReplicatedTensorSharding(enum.Enum):
    """Whether the replicas share one copy of a tensor."""

    On = "On"
    Off = "Off"


class TensorLocation:
    """Memory and sharding of a tensor.

    Args:
        storage: memory.
        replicated_tensor_sharding: whether replicas share one copy.
    """

    __slots__ = ("_storage", "_sharding")

    def __init__(
        self,
        storage: TensorStorage = TensorStorage.OnChip,
        replicated_tensor_sharding: ReplicatedTensorSharding = ReplicatedTensorSharding.Off,
    ) -> None:
        self._storage, self._sharding = storage, replicated_tensor_sharding

    @property
    def storage(self) -> TensorStorage:
        """Memory of the tensor."""
        return self._storage

    @property
    def replicated_tensor_sharding(self) -> ReplicatedTensorSharding:
        """Whether replicas share one copy."""
        return self._sharding


TileSet: Any = facade.core().TileSet
ExecutionContext: Any = facade.core().ExecutionContext
