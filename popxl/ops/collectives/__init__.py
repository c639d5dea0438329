"""Operations between replicas, and between the IPUs of a replica."""

from typing import Any

from popxl._impl import facade
from popxl.ops.collectives.all_reduce import (
    all_reduce,
    all_reduce_identical_grad_inputs,
    all_reduce_identical_inputs,
)
from popxl.ops.collectives.collectives import CollectiveOps
from popxl.ops.collectives.replicated_all_gather import replicated_all_gather
from popxl.ops.collectives.replicated_all_reduce import replicated_all_reduce, replicated_all_reduce_
from popxl.ops.collectives.replicated_reduce_scatter import (
    replica_sharded_slice,
    replicated_reduce_scatter,
    replicated_slice,
)

__all__ = [
    "CollectiveOps",
    "CommGroup",
    "CommGroupType",
    "all_reduce",
    "all_reduce_identical_grad_inputs",
    "all_reduce_identical_inputs",
    "replica_sharded_slice",
    "replicated_all_gather",
    "replicated_all_reduce",
    "replicated_all_reduce_",
    "replicated_reduce_scatter",
    "replicated_slice",
]


def __getattr__(name: str) -> Any:
    if name in ("CommGroup", "CommGroupType"):  # classes of popart; collectives take replica groupings
        return getattr(facade.core(), name)
    raise AttributeError(f"module {__name__} has no attribute {name}")
