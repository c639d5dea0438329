"""Accumulators. All overwrite `t` and give another tensor in its memory. `X` has the shape of `t` and is converted to its
dtype, in which they compute; shapes are checked when a Session is built. A factor is a number or a tensor of shape (). Sums and
means of float16 are formed in float32 and rounded once, so that a factor such as 1e-8 counts; 1 - f is formed in float32."""

from typing import Any, Optional, Union

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import float32
from popxl.ops.var_updates.utils import Factor, check_operands, place_factor
from popxl.tensor import Tensor, constant


def _accumulate(t: Tensor, X: Tensor, kind: str, f: Factor, stem: str) -> Tensor:
    check_operands(_contexts.here.graph, {"t": t, "X": X}, f=f)
    inputs, attributes = {0: t, 1: X}, {"accumulationType": kind}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("Accumulate", inputs, (f"{stem}__{t.name}",), attributes)[0]


def accumulate_(t: Tensor, X: Tensor, f: Factor = None) -> Tensor:
    """t becomes t + f * X; without f, t + X.

    Args:
        t: any shape and dtype.
        X: of the shape of `t`.
        f: a number other than 0, or ().

    Returns:
        The memory of `t`.

    Raises:
        ValueError: the operands are of another graph, or on different IPUs or tile sets.

    Example:
        >>> ops.var_updates.accumulate_(accumulator, gradient, 1 / 4)
    """
    return _accumulate(t, X, "Add" if f is None else "DampenedAdd", f, "accumulate")


def accumulate_square_(t: Tensor, X: Tensor, f: Union[float, Tensor] = 1.0) -> Tensor:
    """t becomes t + f * X * X.

    Args:
        t, X, f: as of `accumulate_`.

    Returns:
        The memory of `t`.

    Raises:
        ValueError: as of `accumulate_`.

    Example:
        >>> ops.var_updates.accumulate_square_(second_moment, gradient)
    """
    return _accumulate(t, X, "DampenedAddSquare", f, "accumulate_square")


def accumulate_mean_(t: Tensor, X: Tensor, step: Union[float, Tensor]) -> Tensor:
    """t becomes step / (step + 1) * t + 1 / (step + 1) * X: the mean of the values so far.

    Args:
        t, X: as of `accumulate_`.
        step: how many values are in `t` already; a number becomes a float32 constant.

    Returns:
        The memory of `t`.

    Raises:
        ValueError: as of `accumulate_`.

    Example:
        >>> ops.var_updates.accumulate_mean_(mean, x, step)
    """
    if not isinstance(step, Tensor):
        check_operands(_contexts.here.graph, {"t": t, "X": X})
        step = constant(step, float32, "step")
    return _accumulate(t, X, "Mean", step, "accumulate_mean")


def accumulate_moving_average_(t: Tensor, X: Tensor, f: Union[float, Tensor]) -> Tensor:
    """t becomes f * t + (1 - f) * X.

    Args:
        t, X: as of `accumulate_`.
        f: a number or ().

    Returns:
        The memory of `t`.

    Raises:
        ValueError: as of `accumulate_`.

    Example:
        >>> ops.var_updates.accumulate_moving_average_(first_moment, gradient, 0.9)
    """
    return _accumulate(t, X, "MovingAverage", f, "accumulate_moving_avg")


def accumulate_moving_average_square_(t: Tensor, X: Tensor, f: Union[float, Tensor]) -> Tensor:
    """t becomes f * t + (1 - f) * X * X.

    Args:
        t, X: as of `accumulate_`.
        f: a number or ().

    Returns:
        The memory of `t`.

    Raises:
        ValueError: as of `accumulate_`.

    Example:
        >>> ops.var_updates.accumulate_moving_average_square_(second_moment, gradient, 0.999)
    """
    return _accumulate(t, X, "MovingAverageSquare", f, "accumulate_moving_avg_square")


def accumulator_scale_(t: Tensor, f: Union[float, Tensor]) -> Tensor:
    """t becomes f * t; the number 0 makes it 0, also where it is NaN.

    Args:
        t: any shape and dtype.
        f: a number or ().

    Returns:
        The memory of `t`.

    Raises:
        ValueError: as of `accumulate_`.

    Example:
        >>> ops.var_updates.accumulator_scale_(momentum, 0.9)
    """
    check_operands(_contexts.here.graph, {"t": t}, f=f)
    inputs: dict[int, Tensor] = {0: t}
    attributes: dict[str, Any] = {}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("AccumulatorScale", inputs, (f"accumulator_scale__{t.name}",), attributes)[0]


def accumulator_zero_(t: Tensor) -> Tensor:
    """t becomes 0.

    Args:
        t: any shape and dtype.

    Returns:
        The memory of `t`.

    Raises:
        ValueError: `t` is of another graph.

    Example:
        >>> ops.var_updates.accumulator_zero_(accumulator)
    """
    return accumulator_scale_(t, 0.0)


def sparse_accumulate_(
    t: Tensor, X: Tensor, indices: Tensor, axis: int = 0, f: Factor = None, W: Optional[Tensor] = None
) -> Tensor:
    """f * X is added to the slices of t along `axis` at `indices`; equal indices add up.

    Args:
        t: any shape.
        X: slices of `t`, one for each index.
        indices: integers.
        axis: of `t`.
        f: a number or (); None: 1.
        W: a variable that `t` lies in memory like; no effect on values.

    Returns:
        The memory of `t`.

    Raises:
        ValueError: as of `accumulate_`.

    Example:
        >>> ops.var_updates.sparse_accumulate_(table_gradient, rows, tokens)
    """
    check_operands(_contexts.here.graph, {"t": t, "X": X, "indices": indices}, f=f, W=W)
    inputs = {0: t, 1: X, 3: indices}
    attributes: dict[str, Any] = {"accumulationType": "Add" if f is None else "DampenedAdd", "axis": int(axis)}
    place_factor(f, 2, "factor", inputs, attributes)
    if W is not None:
        inputs[4] = W
    return create("PopartSparseAccumulate", inputs, (f"sparse_accumulate__{t.name}",), attributes)[0]
