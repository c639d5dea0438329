"""Reading and writing by index. All functions raise TypeError for what is no tensor, ValueError for tensors of another
graph, or on different IPUs or tile sets, and popart.popart_exception for axes and shapes that do not fit.
`available_memory_proportion` is a hint without effect on values."""

import operator
from typing import Any, Optional
from collections.abc import Iterable

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

__all__ = [
    "dynamic_slice", "dynamic_update", "dynamic_update_", "gather", "groupedgather", "scatter", "tied_gather",
]  # fmt: skip


# --- gather
def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: Optional[float] = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Slices of t along `axis` by number, as numpy.take: t.shape[:axis] + indices.shape + t.shape[axis + 1:]. Gradients
    go to t.

    Args:
        indices: numbers from 0 on; for one outside of the axis the result is not specified.
        zero_OOR: gives zeros there.

    Example:
        >>> rows = ops.gather(table, ids)  # (100, 8) and (4,) give (4, 8)
    """
    return _gather("Gather", t, indices, axis, 1, available_memory_proportion, zero_OOR, "gather_out")


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: Optional[float] = None,
    zero_OOR: bool = False,
) -> Tensor:
    """As `gather`, in each of `group_size` groups by itself: axis 0 of t and indices is the group.

    Raises:
        popart.popart_exception: axis 0 is not the group, or is gathered along, with more than one group.

    Example:
        >>> rows = ops.groupedgather(tables, ids, axis=1, group_size=2)  # (2, 100, 8) and (2, 4) give (2, 4, 8)
    """
    return _gather("Gather", t, indices, axis, group_size, available_memory_proportion, zero_OOR, "gather_out")


def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: Optional[float] = None,
    zero_OOR: bool = False,
) -> Tensor:
    """As `gather`, of a table that a matmul reads too.

    Example:
        >>> rows = ops.tied_gather(embedding, ids)
    """
    return _gather("PopartTiedGather", t, indices, axis, 1, available_memory_proportion, zero_OOR, "tiedgather_out")


def _gather(
    op_type: str, t: Tensor, indices: Tensor, axis: int, groups: int, memory: Optional[float], zero: bool, stem: str
) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t, indices=indices)
    check_tensor_ipu_and_tile_set(t=t, indices=indices)
    attributes: dict[str, Any] = {
        "axis": operator.index(axis),
        "group_size": operator.index(groups),
        "zero_out_of_range": bool(zero),
    }
    if memory is not None:
        attributes["available_memory_proportion"] = float(memory)
    return create(op_type, {0: t, 1: indices}, (stem,), attributes)[0]


# --- scatter
def scatter(
    t: Tensor,
    indices: Tensor,
    values: Tensor,
    axis: int = 0,
    available_memory_proportion: Optional[float] = None,
) -> Tensor:
    """A copy of t in which values[i, j, ...] stands at t[indices[i, j, ...], j, ...] for axis 0, and so on. Gradients go
    to t and values.

    Args:
        indices: of the shape of values, or smaller: the first values are then taken. With fewer axes they are repeated
            along those they lack; a vector stands along `axis`. One outside of the axis stops the run.
        values: of the rank and dtype of t.

    Example:
        >>> y = ops.scatter(x, popxl.constant([2, 0]), popxl.constant([5.0, 6.0]))  # y[2] = 5, y[0] = 6
    """
    check_in_graph(_contexts.here.graph, t=t, indices=indices, values=values)
    check_tensor_ipu_and_tile_set(t=t, indices=indices, values=values)
    attributes: dict[str, Any] = {"axis": operator.index(axis)}
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return create("Scatter", {0: t, 1: indices, 2: values}, ("scatter_out",), attributes)[0]


# --- blocks
def _block(axes: Iterable[int], sizes: Iterable[int], no_overlap: bool) -> dict[str, Any]:
    return {
        "axes": [operator.index(axis) for axis in axes],
        "sizes": [operator.index(size) for size in sizes],
        "no_overlap": bool(no_overlap),
    }


def dynamic_slice(t: Tensor, index: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool) -> Tensor:
    """The block of t with `sizes` along `axes`, whole along the others, that begins at an index known when the program
    runs. Gradients go to t.

    Args:
        index: uint32 or int32, one element for each of `axes`. A block that leaves t stops the run.
        no_overlap: promises that blocks of other calls are disjoint. It changes nothing here.

    Example:
        >>> batch = ops.dynamic_slice(data, step, axes=[0], sizes=[1], no_overlap=True)
    """
    check_in_graph(_contexts.here.graph, t=t, index=index)
    check_tensor_ipu_and_tile_set(t=t, index=index)
    return create("DynamicSlice", {0: t, 1: index}, ("dynamic_slice_out",), _block(axes, sizes, no_overlap))[0]


def dynamic_update(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """A copy of t with the block that `dynamic_slice` reads replaced by `t_update`. Gradients go to t and t_update.

    Args:
        t_update: the block, or its elements in another shape.

    Example:
        >>> y = ops.dynamic_update(x, step, row, axes=[0], sizes=[1], no_overlap=True)
    """
    return _update("DynamicUpdate", t, index, t_update, _block(axes, sizes, no_overlap), "dynamic_update_out")


def dynamic_update_(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """As `dynamic_update`; overwrites `t`."""
    block = _block(axes, sizes, no_overlap)
    return _update("DynamicUpdateInplace", t, index, t_update, block, "dynamicupdateinplace_out")


def _update(op_type: str, t: Tensor, index: Tensor, t_update: Tensor, block: dict[str, Any], stem: str) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t, index=index, t_update=t_update)
    check_tensor_ipu_and_tile_set(t=t, index=index, t_update=t_update)
    return create(op_type, {0: t, 1: index, 2: t_update}, (stem,), block)[0]
