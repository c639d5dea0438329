"""How many values of a tensor a run returns, and the shape of the array of them."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import AnchorReturnTypeId


def anchor_shape(kind: Any, batches: int, accumulation: int, replicas: int, shape: tuple[int, ...]) -> tuple[int, ...]:
    """Shape of an anchor's array: [batches, accumulation, replicas] as far as the kind returns them and they are not 1,
    and then the tensor's shape. Raises RuntimeError for a period that does not divide the batches."""
    if kind.id() is AnchorReturnTypeId["All"]:
        leading = [batches, accumulation, replicas]
    elif kind.id() is AnchorReturnTypeId["EveryN"]:
        if batches % kind.rp():
            raise RuntimeError(f"a period of {kind.rp()} does not divide {batches} batches")
        leading = [batches // kind.rp(), accumulation, replicas]
    else:
        leading = [replicas]
    return (*(size for size in leading if size != 1), *shape)
