"""What the replicas of a group have, on each of them."""

from typing import Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.collectives.collectives import group_attributes
from popxl.ops.utils import check_in_graph, handle_negative_axis
from popxl.replica_grouping import ReplicaGrouping
from popxl.tensor import Tensor

_SHAPES = ("new_axis", "concat", "meta_shape", "auto")


def replicated_all_gather(
    t: Tensor, axis: int = 0, group: Optional[ReplicaGrouping] = None, output_shape: str = "auto"
) -> Tensor:
    """The tensors of the replicas of each group, in replica order, on all of them.

    Args:
        t: any shape and dtype.
        axis: along which they are put together, for "concat".
        group: groups of replicas; None: one of all.
        output_shape: "new_axis": (group size, *shape of t); "concat": one after the other along `axis`;
            "meta_shape": of shards the whole; "auto": "meta_shape" for shards, else "concat".

    Returns:
        The result, in the dtype of `t`. Its gradient is the replica's own part of the gradient.

    Raises:
        ValueError: another `output_shape`, `axis` is no axis, or a group of other replicas.
        NotImplementedError: a group without a single stride.

    Example:
        >>> whole = ops.collectives.replicated_all_gather(shard)
    """
    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    if not isinstance(axis, int):
        raise ValueError(f"axis is {axis!r}: it is an integer.")
    if output_shape not in _SHAPES:
        raise ValueError(f"output_shape is {output_shape!r}: it is one of {', '.join(map(repr, _SHAPES))}.")
    attributes = group_attributes(graph.ir, group)
    stem = f"{t.name}_all_gathered"
    shape, size = t.shape, attributes["group_size"]
    if output_shape == "meta_shape" or (output_shape == "auto" and t.meta_shape):
        if not t.meta_shape:
            raise ValueError(f"{t!r} is no shard: it has no meta shape.")
        attributes["output_shape"] = list(t.meta_shape)
        return create("ReplicatedAllGather", {0: t}, (stem,), attributes)[0]
    axis = handle_negative_axis(t, axis) if shape else axis
    if not 0 <= axis < max(len(shape), 1):
        raise ValueError(f"axis is {axis}: {t!r} has {len(shape)} axes.")
    if output_shape == "new_axis":
        parts = create("ReplicatedAllGather", {0: t.reshape((-1,))}, (stem,), attributes)[0]
        return parts.reshape((size, *shape))
    front = (axis, *(i for i in range(len(shape)) if i != axis))
    if axis > 0:
        t = t.transpose(front)
    parts = create("ReplicatedAllGather", {0: t.reshape((-1,))}, (stem,), attributes)[0]
    y = parts.reshape((size * shape[axis], *t.shape[1:]) if shape else (size,))
    return y.transpose([front.index(i) for i in range(len(shape))]) if axis > 0 else y
