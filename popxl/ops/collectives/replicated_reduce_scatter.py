"""A shard or a slice for each replica of a group."""

from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.collectives.collectives import CollectiveOps, check_reduction, group_attributes
from popxl.ops.utils import check_in_graph, handle_negative_axis
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor


def _scatter(t: Tensor, stem: str, op: str, is_shard: bool, group: dict[str, Any]) -> Tensor:
    attributes = {"op": op, "configureOutputForReplicatedTensorSharding": bool(is_shard), **group}
    return create("ReplicatedReduceScatter", {0: t}, (stem,), attributes)[0]


def replicated_reduce_scatter(
    t: Tensor,
    op: CollectiveOps = "add",
    group: Optional[ReplicaGrouping] = None,
    configure_output_for_replicated_tensor_sharding: bool = False,
) -> Tensor:
    """`t` reduced over the replicas of each group, flattened, padded with zeros and cut in as many pieces as a group has
    members: member i keeps piece i.

    Args:
        t: any shape; numbers, for "and" and "or" bool.
        op: as of `replicated_all_reduce`.
        group: groups of replicas; None: one of all.
        configure_output_for_replicated_tensor_sharding: the result is a shard of `t`, with its shape as meta shape.

    Returns:
        (ceil(elements / group size),), in the dtype of `t`. It has no gradient.

    Raises:
        ValueError: another `op`, or a group of other replicas.
        NotImplementedError: a group without a single stride.
        popart.popart_exception: the dtype does not fit `op`.

    Example:
        >>> piece = ops.collectives.replicated_reduce_scatter(gradient, "mean")
    """
    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    check_reduction(op)
    groups = group_attributes(graph.ir, group)
    return _scatter(t, f"{t.name}_reduce_scattered", op, configure_output_for_replicated_tensor_sharding, groups)


def replica_sharded_slice(t: Tensor, group: Optional[ReplicaGrouping] = None) -> Tensor:
    """The shard of its own `t` that each replica of a group holds; nothing is reduced.

    Args:
        t: any shape.
        group: groups of replicas; None: one of all.

    Returns:
        (ceil(elements / group size),), with the shape of `t` as meta shape.

    Raises:
        ValueError: a group of other replicas.
        NotImplementedError: a group without a single stride.

    Example:
        >>> shard = ops.collectives.replica_sharded_slice(t)
    """
    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    return _scatter(t, f"{t.name}_sharded_slice", "local", True, group_attributes(graph.ir, group))


def replicated_slice(t: Tensor, axis: int = 0, group: Optional[ReplicaGrouping] = None) -> Tensor:
    """Cuts `t` into equal slices along `axis`; member i of a group keeps slice i of its own `t`.

    Args:
        t: at least one axis.
        axis: along which it is cut.
        group: groups of replicas; None: one of all.

    Returns:
        The slice, in the order of `t`; without `axis` when that has one element left.

    Raises:
        ValueError: the axis does not divide, is none, or a group of other replicas.
        NotImplementedError: a group without a single stride.

    Example:
        >>> own = ops.collectives.replicated_slice(batch)
    """
    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    groups = group_attributes(graph.ir, group)
    shape, size = t.shape, groups["group_size"]
    place = handle_negative_axis(t, axis)
    if not 0 <= place < len(shape):
        raise ValueError(f"axis is {axis}: {t!r} has {len(shape)} axes.")
    if shape[place] % size != 0:
        raise ValueError(f"Axis {axis} of {t!r} does not divide among the {size} replicas of a group.")
    length = shape[place] // size
    stem = f"{t.name}_replicated_slice"
    front = (place, *(i for i in range(len(shape)) if i != place))
    if place > 0:
        t = t.transpose(front)
    rest = t.shape[1:]
    piece = _scatter(t.reshape((-1,)), stem, "local", False, groups)
    y = piece.reshape(rest if length == 1 else (length, *rest))
    if place == 0:
        return y
    return y.transpose(range(len(rest)) if length == 1 else [front.index(i) for i in range(len(shape))])
