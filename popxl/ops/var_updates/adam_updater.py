"""What Adam and its relatives subtract from a weight."""

from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.var_updates.utils import Factor, check_operands, place_factor
from popxl.tensor import Tensor


def _decays(weight_decay: Factor) -> bool:
    return isinstance(weight_decay, Tensor) or (weight_decay is not None and weight_decay != 0)


def _updater(
    mode: str,
    first: Tensor,
    second: Tensor,
    weight: Optional[Tensor],
    time_step: Optional[Tensor],
    weight_decay: Factor,
    beta1: Factor,
    beta2: Factor,
    epsilon: Factor,
) -> Tensor:
    if _decays(weight_decay) and weight is None:
        raise ValueError("weight_decay needs the weight: give it as weight.")
    check_operands(
        _contexts.here.graph,
        {"acc_first_order": first, "acc_second_order": second},
        weight=weight,
        time_step=time_step,
        weight_decay=weight_decay,
        beta1=beta1,
        beta2=beta2,
        epsilon=epsilon,
    )
    inputs: dict[int, Tensor] = {1: first, 2: second}
    attributes: dict[str, Any] = {"mode": mode}
    if weight is not None and _decays(weight_decay):
        inputs[0] = weight
        place_factor(weight_decay, 4, "wd", inputs, attributes)
    if time_step is not None:
        inputs[3] = time_step
        place_factor(beta1, 5, "b1", inputs, attributes)
        place_factor(beta2, 6, "b2", inputs, attributes)
    place_factor(epsilon, 7, "eps", inputs, attributes)
    return create("AdamUpdater", inputs, ("Updater",), attributes)[0]


def _with_second(
    mode: str,
    first: Tensor,
    second: Tensor,
    weight: Optional[Tensor],
    time_step: Optional[Tensor],
    weight_decay: Factor,
    beta1: Factor,
    beta2: Factor,
    epsilon: Factor,
) -> Tensor:
    if time_step is None:
        mode += "NoBias"
    elif beta1 is None or beta2 is None:
        raise ValueError("time_step corrects the moments, which needs beta1 and beta2.")
    return _updater(mode, first, second, weight, time_step, weight_decay, beta1, beta2, epsilon)


def adam_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor] = None,
    time_step: Optional[Tensor] = None,
    weight_decay: Factor = None,
    beta1: Factor = None,
    beta2: Factor = None,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """m / (sqrt(v) + epsilon) + weight_decay * weight, with the moments m and v divided by 1 - beta^time_step where there
    is a time step, which is counted up first, in place.

    Args:
        acc_first_order, acc_second_order: the moments, of the shape of the weight.
        weight: needed for a weight decay.
        time_step: (), a variable; None: moments are taken as they are.
        weight_decay, beta1, beta2, epsilon: numbers or tensors of shape ().

    Returns:
        The shape and dtype of the weight where there is a decay, else of `acc_first_order`.

    Raises:
        ValueError: a weight decay without weight, or a time step without both betas; the operands are of another graph,
            or on different IPUs or tile sets.

    Example:
        >>> x = ops.var_updates.adam_updater(m, v, time_step=step, beta1=0.9, beta2=0.999)
        >>> ops.scaled_add_(w, x, b=-learning_rate)
    """
    return _with_second(
        "Adam", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon
    )


def lamb_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor] = None,
    time_step: Optional[Tensor] = None,
    weight_decay: Factor = None,
    beta1: Factor = None,
    beta2: Factor = None,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """As `adam_updater`; the step is that of `adam_var_update`.

    Args:
        acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon: as of `adam_updater`.

    Returns:
        As `adam_updater`.

    Raises:
        ValueError: as of `adam_updater`.

    Example:
        >>> x = ops.var_updates.lamb_updater(m, v, w, weight_decay=0.01)
    """
    return _with_second(
        "Lamb", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, beta2, epsilon
    )


def adamax_updater(
    acc_first_order: Tensor,
    acc_second_order: Tensor,
    weight: Optional[Tensor] = None,
    time_step: Optional[Tensor] = None,
    weight_decay: Factor = None,
    beta1: Factor = 0.9,
    epsilon: Factor = 1e-07,
) -> Tensor:
    """m / ((1 - beta1^time_step) * (v + epsilon)) + weight_decay * weight; the time step is counted up first, in place.

    Args:
        acc_first_order, acc_second_order, weight, weight_decay, beta1, epsilon: as of `adam_updater`.
        time_step: (), a variable; needed.

    Returns:
        As `adam_updater`.

    Raises:
        ValueError: no time step; else as of `adam_updater`.

    Example:
        >>> x = ops.var_updates.adamax_updater(m, v, time_step=step)
    """
    if time_step is None:
        raise ValueError("adamax_updater corrects the first moment: give time_step.")
    return _updater("AdaMax", acc_first_order, acc_second_order, weight, time_step, weight_decay, beta1, None, epsilon)
