"""One value of all replicas of a group."""

from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.collectives.collectives import CollectiveOps, check_reduction, group_attributes
from popxl.ops.utils import check_in_graph
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor


def _reduce(kind: str, t: Tensor, op: str, group: Optional[ReplicaGrouping]) -> Any:
    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    attributes: dict[str, Any] = {"op": check_reduction(op)}  # without a group: all replicas
    if group is not None:
        attributes.update(group_attributes(graph.ir, group))
    return create(kind, {0: t}, (f"{t.name}_all_reduce",), attributes)[0]


def replicated_all_reduce(t: Tensor, op: CollectiveOps = "add", group: Optional[ReplicaGrouping] = None) -> Tensor:
    """`t` reduced over the replicas of each group, on all of them. It passes no gradient.

    Args:
        t: any shape; numbers, for "and" and "or" bool.
        op: "add", "mean", "mul", "min", "max", "and", "or" or "square_add", the sum of squares.
        group: groups of replicas; None: one of all.

    Returns:
        As `t`.

    Raises:
        ValueError: another `op`, or a group of other replicas.
        NotImplementedError: a group without a single stride.
        popart.popart_exception: the dtype does not fit `op`.

    Example:
        >>> g = ops.collectives.replicated_all_reduce(g, "mean")
    """
    return _reduce("ReplicatedAllReduce", t, op, group)


def replicated_all_reduce_(t: Tensor, op: CollectiveOps = "add", group: Optional[ReplicaGrouping] = None) -> Tensor:
    """As `replicated_all_reduce`, in the memory of `t`.

    Args:
        t, op, group: as of `replicated_all_reduce`.

    Returns:
        The same memory.

    Raises:
        ValueError, NotImplementedError, popart.popart_exception: as of `replicated_all_reduce`.

    Example:
        >>> ops.collectives.replicated_all_reduce_(accumulator)
    """
    return _reduce("ReplicatedAllReduceInplace", t, op, group)
