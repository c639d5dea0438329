"""Copies between the IPUs of a replica."""

from typing import Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.errors import UndefinedValue
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor


def ipu_copy(t: Tensor, destination: int, source: Optional[int] = None) -> Tensor:
    """A copy on another IPU of the replica.

    Args:
        t: to copy.
        destination: number of the IPU.
        source: IPU that `t` is on; None: the one it is known to be on.

    Raises:
        ValueError: `source` is None, and nothing says where `t` is.

    Example:
        >>> y = ops.ipu_copy(x, 1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    if source is None:
        try:
            source = t.ipu
        except UndefinedValue as error:
            raise ValueError(f"Nothing says on which IPU {t!r} is: give ipu_copy its source.") from error
    attributes = {"source": source, "destination": destination}
    return create("IpuCopy", {0: t}, [f"{t.name}_c{destination}"], attributes)[0]
