"""Copies between the compute tiles and the IO tiles of an IPU."""

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor


def io_tile_copy(t: Tensor) -> Tensor:
    """A copy on the other set of tiles; on that of the context, where nothing says on which `t` is.

    Args:
        t: to copy.

    Example:
        >>> with popxl.io_tiles():
        ...     loaded = ops.host_load(stream)
        >>> x = ops.io_tile_copy(loaded)
    """
    check_in_graph(_contexts.here.graph, t=t)
    known = t._ir._program.place(t._number)[1]
    to = _contexts.here._tile_set if known is None else 1 - known
    return create("IoTileCopy", {0: t}, [f"{t.name}_iotilecopy"], {"to": to})[0]
