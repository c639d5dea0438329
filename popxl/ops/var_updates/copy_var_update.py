"""A variable takes another value."""

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor


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
