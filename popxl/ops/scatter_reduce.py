"""Slices that are combined by index."""

import operator
from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

__all__ = ["grouped_scatter_reduce", "scatter_reduce"]

_REDUCTIONS = ("sum", "max", "min", "none")


def scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Optional[Tensor] = None,
    axis: int = 0,
    axis_size: Optional[int] = None,
    enable_index_broadcast: bool = True,
    available_memory_proportion: Optional[float] = None,
) -> Tensor:
    """Elements of data combined by the index along `axis`: out[indices[i, j, ...], j, ...] of all data[i, j, ...] for
    axis 0, and so on. Gradients go to data and initial_values.

    Args:
        indices: of the shape of data, or a vector along `axis` for whole slices. One outside of the axis stops the run.
        reduction: "sum", "max", "min", or "none": the last one stays.
        initial_values: what the result starts from; the neutral value of the reduction if None.
        axis_size: of the result; that of initial_values if None.
        enable_index_broadcast: False takes a smaller index as it is: it covers the first part of data.

    Raises:
        ValueError: the reduction has another name; neither axis_size nor initial_values is given.
        TypeError: `enable_index_broadcast` is no bool (PopXL 3.1 had another parameter in its place).

    Example:
        >>> sums = ops.scatter_reduce(rows, ids, "sum", axis_size=10)  # (8, 4) and (8,) give (10, 4)
    """
    return grouped_scatter_reduce(
        data,
        indices,
        reduction,
        initial_values,
        axis,
        axis_size,
        1,
        enable_index_broadcast,
        available_memory_proportion,
    )


def grouped_scatter_reduce(
    data: Tensor,
    indices: Tensor,
    reduction: str,
    initial_values: Optional[Tensor] = None,
    axis: int = 0,
    axis_size: Optional[int] = None,
    group_size: int = 1,
    enable_index_broadcast: bool = True,
    available_memory_proportion: Optional[float] = None,
) -> Tensor:
    """As `scatter_reduce`, in each of `group_size` groups by itself: axis 0 of data and indices is the group.

    Example:
        >>> sums = grouped_scatter_reduce(rows, ids, "sum", axis=1, axis_size=10, group_size=2)
    """
    tensors = {"data": data, "indices": indices}
    if initial_values is not None:
        tensors["initial_values"] = initial_values
    check_in_graph(_contexts.here.graph, **tensors)
    check_tensor_ipu_and_tile_set(**tensors)
    if not isinstance(enable_index_broadcast, bool):
        raise TypeError(f"enable_index_broadcast is True or False, not {enable_index_broadcast!r}.")
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is one of {', '.join(_REDUCTIONS)}, not {reduction!r}.")
    axis = operator.index(axis)
    if axis_size is None:
        if initial_values is None:
            raise ValueError("scatter_reduce takes axis_size or initial_values: the size of the result is not known.")
        shape = initial_values.shape
        axis_size = shape[axis] if -len(shape) <= axis < len(shape) else 0
    attributes: dict[str, Any] = {
        "axis": axis,
        "axis_size": operator.index(axis_size),
        "reduction": reduction,
        "group_size": operator.index(group_size),
        "enable_index_broadcast": enable_index_broadcast,
    }
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return create("ScatterReduce", dict(enumerate(tensors.values())), ("scatterreduce_out",), attributes)[0]
