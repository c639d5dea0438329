"""Accumulators that are made of others."""

from typing import Union

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import float32
from popxl.ops.var_updates.functions import accumulator_scale_
from popxl.ops.var_updates.utils import check_operands
from popxl.tensor import Tensor, constant


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
    inputs = {0: t, 1: X, 2: step}
    check_operands(_contexts.here.graph, {"t": t, "X": X, "f": step})
    return create("Accumulate", inputs, (f"accumulate_mean__{t.name}",), {"accumulationType": "Mean"})[0]


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
