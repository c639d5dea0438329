"""Updates that are one op each. All overwrite `t` and give another tensor in its memory. `X` has the shape of `t` and is
converted to its dtype, in which they compute; shapes are checked when a Session is built. A factor is a number or a tensor
of shape (). Sums and means of float16 are formed in float32 and rounded once, so that a factor such as 1e-8 counts; 1 - f is
formed in float32.

Written by scripts/popxl_functions.py from csrc/frontends/popxl/kinds; do not edit."""

from typing import Any, Optional, Union
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.ops.var_updates.utils import Factor, check_operands, place_factor
from popxl.tensor import Tensor

__all__ = [
    "accumulate_",
    "accumulate_moving_average_",
    "accumulate_moving_average_square_",
    "accumulate_square_",
    "accumulator_scale_",
    "adam_var_update",
    "copy_var_update_",
    "sparse_accumulate_",
]


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
    check_operands(_contexts.here.graph, {"t": t, "X": X}, f=f)
    attributes: dict[str, Any] = {"accumulationType": "Add" if f is None else "DampenedAdd"}
    inputs: dict[int, Tensor] = {0: t, 1: X}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("Accumulate", inputs, (f"accumulate__{t.name}",), attributes)[0]


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
    check_operands(_contexts.here.graph, {"t": t, "X": X}, f=f)
    attributes: dict[str, Any] = {"accumulationType": "MovingAverage"}
    inputs: dict[int, Tensor] = {0: t, 1: X}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("Accumulate", inputs, (f"accumulate_moving_avg__{t.name}",), attributes)[0]


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
    check_operands(_contexts.here.graph, {"t": t, "X": X}, f=f)
    attributes: dict[str, Any] = {"accumulationType": "MovingAverageSquare"}
    inputs: dict[int, Tensor] = {0: t, 1: X}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("Accumulate", inputs, (f"accumulate_moving_avg_square__{t.name}",), attributes)[0]


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
    check_operands(_contexts.here.graph, {"t": t, "X": X}, f=f)
    attributes: dict[str, Any] = {"accumulationType": "DampenedAddSquare"}
    inputs: dict[int, Tensor] = {0: t, 1: X}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("Accumulate", inputs, (f"accumulate_square__{t.name}",), attributes)[0]


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
    attributes: dict[str, Any] = {}
    inputs: dict[int, Tensor] = {0: t}
    place_factor(f, 2, "factor", inputs, attributes)
    return create("AccumulatorScale", inputs, (f"accumulator_scale__{t.name}",), attributes)[0]


def adam_var_update(
    t: Tensor, x: Tensor, r1: Tensor, r2: Tensor, learning_rate: Factor = None, max_weight_norm: Factor = None
) -> Tensor:
    """t becomes t - learning_rate * ratio * x with ratio = min(sqrt(r1), max_weight_norm) / sqrt(r2), or 1 where one of
    the three is 0.

    Args:
        t: the weight.
        x: of the shape of `t`: what `lamb_updater` gives.
        r1, r2: (), squared norms of `t` and of `x` (`ops.lamb_square`).
        learning_rate: a number or (); None: 1.
        max_weight_norm: a number or (); None: no limit.

    Returns:
        The memory of `t`.

    Raises:
        ValueError: the operands are of another graph, or on different IPUs or tile sets.

    Example:
        >>> ops.var_updates.adam_var_update(w, x, ops.lamb_square(w), ops.lamb_square(x), 0.01)
    """
    check_operands(
        _contexts.here.graph,
        {"t": t, "x": x, "r1": r1, "r2": r2},
        learning_rate=learning_rate,
        max_weight_norm=max_weight_norm,
    )
    attributes: dict[str, Any] = {}
    inputs: dict[int, Tensor] = {0: t, 1: x, 2: r1, 3: r2}
    place_factor(learning_rate, 4, "lr", inputs, attributes)
    place_factor(max_weight_norm, 5, "mwn", inputs, attributes)
    return create("AdamVarUpdate", inputs, ("adam_var_update_out",), attributes)[0]


def copy_var_update_(t: Tensor, X: Tensor) -> Tensor:
    """t becomes X, converted to the dtype of `t`.

    Args:
        t: any shape and dtype.
        X: of the shape of `t`, which is checked when a Session is built.

    Returns:
        The memory of `t`.

    Raises:
        ValueError: the operands are of another graph, or on different IPUs or tile sets.

    Example:
        >>> ops.var_updates.copy_var_update_(weight, new_weight)
    """
    check_in_graph(_contexts.here.graph, t=t, X=X)
    check_tensor_ipu_and_tile_set(t=t, X=X)
    return create("CopyVarUpdate", {0: t, 1: X}, (f"updated__{t.name}",))[0]


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
    attributes: dict[str, Any] = {"axis": int(axis), "accumulationType": "Add" if f is None else "DampenedAdd"}
    inputs: dict[int, Tensor] = {0: t, 1: X, 3: indices}
    place_factor(f, 2, "factor", inputs, attributes)
    if W is not None:
        inputs[4] = W
    return create("PopartSparseAccumulate", inputs, (f"sparse_accumulate__{t.name}",), attributes)[0]
