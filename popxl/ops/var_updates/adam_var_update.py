"""The step of LAMB, with its trust ratio."""

from typing import Any

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.var_updates.utils import Factor, check_operands, place_factor
from popxl.tensor import Tensor


def adam_var_update(
    t: Tensor,
    x: Tensor,
    r1: Tensor,
    r2: Tensor,
    learning_rate: Factor = None,
    max_weight_norm: Factor = None,
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
    tensors = {"t": t, "x": x, "r1": r1, "r2": r2}
    check_operands(_contexts.here.graph, tensors, learning_rate=learning_rate, max_weight_norm=max_weight_norm)
    inputs = {0: t, 1: x, 2: r1, 3: r2}
    attributes: dict[str, Any] = {}
    place_factor(learning_rate, 4, "lr", inputs, attributes)
    place_factor(max_weight_norm, 5, "mwn", inputs, attributes)
    return create("AdamVarUpdate", inputs, ("adam_var_update_out",), attributes)[0]
