"""Normalisation of groups of channels, and of all of them."""

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

_STEMS = ("group_norm_out", "group_norm_mean", "group_norm_inv_std_dev")


def group_norm(t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5) -> Tensor:
    """Normalises each sample over each group of channels and all later axes, with the biased variance; then weight and
    bias for each channel.

    Args:
        t: (N, C, ...), floating.
        weight, bias: (C,).
        num_groups: number of groups of neighbouring channels.
        eps: added to the variance.

    Returns:
        As `t`. The op has outputs for mean and 1 / deviation, (N * num_groups,), as well.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes or dtypes do not fit.

    Example:
        >>> y = ops.group_norm(x, weight, bias, num_groups=4)
    """
    check_in_graph(_contexts.here.graph, t=t, weight=weight, bias=bias)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, bias=bias)
    return create(
        "GroupNormalization",
        {0: t, 1: weight, 2: bias},
        _STEMS,
        {"num_groups": int(num_groups), "epsilon": float(eps)},
    )[0]


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """`group_norm` with one group: over all axes behind the first. To normalise the last axis of more than two, flatten
    the others.

    Args:
        t: (N, C, ...), floating.
        weight, bias: (C,).
        eps: added to the variance.

    Returns:
        As `t`.

    Raises:
        ValueError, popart.popart_exception: as of `group_norm`.

    Example:
        >>> y = ops.layer_norm(x, weight, bias)
    """
    return group_norm(t, weight, bias, 1, eps)
