"""Batch normalisation."""

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor


def batch_norm_inference(
    t: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5, momentum: float = 0.9
) -> Tensor:
    """scale * (t - mean) / sqrt(var + epsilon) + bias for each channel, with statistics that are given. It has no
    gradient.

    Args:
        t: (N, C, d1, ...), floating.
        scale, bias, mean, var: (C,).
        epsilon: added to the variance.
        momentum: unused.

    Returns:
        As `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes or dtypes do not fit.

    Example:
        >>> y = ops.batch_norm_inference(x, scale, bias, mean, var)
    """
    tensors = {"t": t, "scale": scale, "bias": bias, "mean": mean, "var": var}
    check_in_graph(_contexts.here.graph, **tensors)
    check_tensor_ipu_and_tile_set(**tensors)
    return create(
        "BatchNormalization",
        dict(enumerate(tensors.values())),
        ("batch_norm_out",),
        {"epsilon": float(epsilon), "momentum": float(momentum)},
    )[0]
