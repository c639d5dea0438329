"""Dropout."""

from collections.abc import Iterable

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Zeros each element with probability `p`; others are multiplied by 1 / (1 - p). The gradient draws from the same seed.

    Args:
        t: any shape, floating.
        seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
        p: probability of zero, in [0, 1].

    Returns:
        As `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: the seed or `p` does not fit.

    Example:
        >>> y = ops.dropout(x, seed, p=0.1)
    """
    check_in_graph(_contexts.here.graph, t=t, seed_tensor=seed_tensor)
    check_tensor_ipu_and_tile_set(t=t, seed_tensor=seed_tensor)
    return create("Dropout", {0: t, 1: seed_tensor}, ("dropout_out",), {"ratio": float(p)})[0]


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """Dropout with one decision for all the elements of `t` that an element of `shape` broadcasts to.

    Args:
        t: any shape, floating.
        seed_tensor: (2,), uint32.
        shape: broadcasts to that of `t`.
        ratio: probability of zero, in [0, 1].

    Returns:
        As `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: `shape` does not broadcast to that of `t`, or the seed does not fit.

    Example:
        >>> y = ops.shaped_dropout(x, seed, shape=(x.shape[0], 1), ratio=0.1)  # whole rows
    """
    check_in_graph(_contexts.here.graph, t=t, seed_tensor=seed_tensor)
    check_tensor_ipu_and_tile_set(t=t, seed_tensor=seed_tensor)
    attributes = {"shape": list(shape), "ratio": float(ratio)}
    return create("ShapedDropout", {0: t, 1: seed_tensor}, ("shapeddropout_out",), attributes)[0]
