"""Order and statistics of a tensor. All functions raise TypeError for what is no tensor, ValueError for a tensor of
another graph, and popart.popart_exception for an axis that t does not have."""

import operator
from typing import Any, Optional
from collections.abc import Iterable

from popxl import dtypes
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor, constant

__all__ = ["cumsum", "histogram", "lamb_square", "softmax", "topk"]


def topk(
    t: Tensor,
    k: int,
    axis: int,
    largest: bool,
    sorted: bool,
    available_memory_proportion: Optional[float] = None,
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis and their int32 indices; both of t's shape, with k along the
    axis. Gradients go to the elements taken.

    Args:
        k: at least 1, at most the size of the axis.
        sorted: whether they are in order; else the order is not promised.
        available_memory_proportion: a hint without effect on values.

    Raises:
        popart.popart_exception: k is larger than the axis, or below 1.

    Example:
        >>> values, indices = ops.topk(scores, 5, axis=1, largest=True, sorted=True)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {
        "k": operator.index(k),
        "axis": operator.index(axis),
        "largest": bool(largest),
        "sorted": bool(sorted),
    }
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    values, indices = create("TopK", {0: t}, ("topk_out_value", "topk_out_indices"), attributes)
    return values, indices


def cumsum(t: Tensor, dim: int = 0) -> Tensor:
    """Sum of the elements up to each one along `dim`. `dim` becomes a constant of the graph.

    Raises:
        TypeError: `dim` is no integer.

    Example:
        >>> y = ops.cumsum(popxl.constant([1.0, 2.0, 3.0]))  # 1, 3, 6
    """
    check_in_graph(_contexts.here.graph, t=t)
    axis = operator.index(dim)
    number = constant(axis, dtypes.int64, name="dim")
    return create("CumSum", {0: t, 1: number}, ("cumsum_out",), {"exclusive": False, "reverse": False, "axis": axis})[0]


def histogram(t: Tensor, levels: Iterable[float], absolute_of_input: bool) -> Tensor:
    """uint32 counts of the elements of t, or of their magnitudes, in len(levels) + 1 bins: below levels[0], from each
    level on and below the next, from the last level on. No gradient.

    Args:
        t: float16 or float32, of any shape.
        levels: strictly increasing.

    Raises:
        ValueError: there are no levels, or they do not increase strictly.
        popart.popart_exception: t has another dtype.

    Example:
        >>> counts = ops.histogram(x, [-1.0, 0.0, 1.0], False)  # 4 counts
    """
    check_in_graph(_contexts.here.graph, t=t)
    bounds = [float(level) for level in levels]
    if not bounds:
        raise ValueError("A histogram has at least one level; none is given.")
    if any(not low < high for low, high in zip(bounds, bounds[1:])):
        raise ValueError(f"The levels of a histogram increase strictly; these do not: {bounds}.")
    attributes = {"levels": bounds, "absolute_of_input": bool(absolute_of_input)}
    return create("Histogram", {0: t}, ("histogram_out",), attributes)[0]


def lamb_square(t: Tensor) -> Tensor:
    """float32 sum of the squares of all elements of a float tensor, of rank 0. No gradient.

    Example:
        >>> norm = ops.sqrt(ops.lamb_square(weight))
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("LambSquare", {0: t}, ("lamb_square_out",))[0]


def softmax(t: Tensor, axis: int) -> Tensor:
    """exp(t) over its sum along all axes from `axis` to the last, taken as one; a negative axis counts from the end.
    For the last axis alone that is the usual softmax.

    Example:
        >>> probabilities = ops.softmax(scores, axis=-1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Softmax", {0: t}, ("softmax_out",), {"axis": operator.index(axis)})[0]
