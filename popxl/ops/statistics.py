"""Sums along an axis, and counts. Both functions raise TypeError for what is no tensor, ValueError for a tensor of another
graph, and popart.popart_exception for an axis that t does not have."""

import operator
from collections.abc import Iterable

from popxl import dtypes
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor, constant

__all__ = ["cumsum", "histogram"]


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
