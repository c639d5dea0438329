"""Reductions over axes. `axis` is an integer, a list of them (negative ones count from the end), or None for all;
`keepdims` leaves reduced axes with size 1. Results have the dtype of t. All of them raise TypeError for what is no
tensor, ValueError for a tensor of another graph, and popart.popart_exception for an axis that t does not have."""

import operator
from typing import Optional, Union
from collections.abc import Iterable

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor

__all__ = [
    "argmax", "argmin", "l1", "l2", "logsum", "logsumexp", "max", "mean", "median", "min", "prod", "sum", "sumsquare",
]  # fmt: skip

Axis = Optional[Union[int, Iterable[int]]]


def _reduce(op_type: str, t: Tensor, axis: Axis, keepdims: bool, stems: tuple[str, ...]) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, object] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(a) for a in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create(op_type, {0: t}, stems, attributes)[0]


def sum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of the elements.

    Example:
        >>> rows = ops.sum(x, axis=1)  # x (2, 3) gives (2,)
    """
    return _reduce("ReduceSum", t, axis, keepdims, ("sum_out",))


def mean(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean; of integers without its fraction.

    Example:
        >>> mean = ops.mean(x, axis=(0, 1), keepdims=True)  # x (2, 3) gives (1, 1)
    """
    return _reduce("ReduceMean", t, axis, keepdims, ("mean_out",))


def prod(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Product of the elements.

    Example:
        >>> product = ops.prod(x)
    """
    return _reduce("ReduceProd", t, axis, keepdims, ("prod_out",))


def max(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if there is one. Equal ones share the gradient.

    Example:
        >>> largest = ops.max(x, axis=-1)
    """
    return _reduce("ReduceMax", t, axis, keepdims, ("max_out",))


def min(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if there is one. Equal ones share the gradient.

    Example:
        >>> smallest = ops.min(x, axis=-1)
    """
    return _reduce("ReduceMin", t, axis, keepdims, ("min_out",))


def median(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """The middle element, the lower of two; NaN if there is one. The op has a second output: the int32 index of the
    element along the reduced axes, as one.

    Example:
        >>> middle = ops.median(popxl.constant([4.0, 1.0, 3.0, 2.0]))  # 2
    """
    return _reduce("ReduceMedian", t, axis, keepdims, ("median_out", "median_indices"))


def sumsquare(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of the squares.

    Example:
        >>> energy = ops.sumsquare(x)
    """
    return _reduce("ReduceSumSquare", t, axis, keepdims, ("sumsquare_out",))


def l1(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Sum of the magnitudes.

    Example:
        >>> penalty = ops.l1(weight)
    """
    return _reduce("ReduceL1", t, axis, keepdims, ("l1_out",))


def l2(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Square root of the sum of the squares, of a float tensor; its gradient is 0 where it is 0.

    Example:
        >>> norm = ops.l2(weight)
    """
    return _reduce("ReduceL2", t, axis, keepdims, ("l2_out",))


def logsum(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum, of a float tensor.

    Example:
        >>> y = ops.logsum(probabilities, axis=1)
    """
    return _reduce("ReduceLogSum", t, axis, keepdims, ("logsum_out",))


def logsumexp(t: Tensor, axis: Axis = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of the exponentials, of a float tensor, without overflow.

    Example:
        >>> y = ops.logsumexp(scores, axis=1)
    """
    return _reduce("ReduceLogSumExp", t, axis, keepdims, ("logsumexp_out",))


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """int32 index of the first largest element along `dim`, which goes, or stays with size 1. No gradient.

    Example:
        >>> prediction = ops.argmax(scores, dim=1)  # (batch, classes) gives (batch,)
    """
    return _index("ArgMax", t, dim, keepdim, "argmax_out")


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """int32 index of the first smallest element along `dim`, which goes, or stays with size 1. No gradient.

    Example:
        >>> nearest = ops.argmin(distances, dim=1)
    """
    return _index("ArgMin", t, dim, keepdim, "argmin_out")


def _index(op_type: str, t: Tensor, dim: int, keepdim: bool, stem: str) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    return create(op_type, {0: t}, (stem,), {"axis": operator.index(dim), "keepdims": bool(keepdim)})[0]
