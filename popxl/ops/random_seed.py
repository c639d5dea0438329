"""Seeds made of seeds."""

from typing import Union

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import uint32
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor, constant


def _check_seed(seed: Tensor) -> None:
    check_in_graph(_contexts.here.graph, seed=seed)
    if seed.shape != (2,) or seed.dtype is not uint32:
        raise ValueError(f"seed, {seed!r}, must be uint32 of shape (2,).")


def create_random_seed(seed: Tensor, modifier: Union[int, Tensor]) -> Tensor:
    """A seed that follows from another one and a number.

    Args:
        seed: (2,), uint32.
        modifier: (), an integer.

    Returns:
        (2,), uint32: of [l, r] and i the seed [l, random bits of the seed (l, r + i)].

    Raises:
        ValueError: `seed` is no seed.
        popart.popart_exception: `modifier` is not one integer.

    Example:
        >>> own = create_random_seed(seed, layer_number)
    """
    _check_seed(seed)
    if isinstance(modifier, Tensor):
        check_in_graph(_contexts.here.graph, modifier=modifier)
    else:
        modifier = constant(modifier, uint32, "modifier")
    return create("ModifyRandomSeed", {0: seed, 1: modifier}, ("modified_seed",))[0]


def split_random_seed(seed: Tensor, n: int = 2) -> tuple[Tensor, ...]:
    """`n` seeds that follow from one.

    Args:
        seed: (2,), uint32.
        n: how many.

    Returns:
        n tensors, (2,), uint32.

    Raises:
        ValueError: `seed` is no seed.

    Example:
        >>> first, second = ops.split_random_seed(seed)
    """
    _check_seed(seed)
    return tuple(create_random_seed(seed, i) for i in range(n))
