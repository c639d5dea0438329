"""Data to the host."""

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import check_in_graph
from popxl.streams import DeviceToHostStream
from popxl.tensor import Tensor


def host_store(d2h_stream: DeviceToHostStream, t: Tensor) -> None:
    """Makes `t` the next element of a stream; each execution gives one.

    Args:
        d2h_stream: made by `popxl.d2h_stream`.
        t: of its shape and dtype.

    Raises:
        ValueError: shape or dtype differ.
        popart.popart_exception: `t` is a shard.

    Example:
        >>> ops.host_store(stream, y)
    """
    check_in_graph(_contexts.here.graph, t=t)
    if t.dtype is not d2h_stream.dtype:
        raise ValueError(f"{t!r} has dtype {t.dtype!r}, and {d2h_stream} takes {d2h_stream.dtype!r}.")
    if t.shape != d2h_stream.shape and not t.meta_shape:
        raise ValueError(f"{t!r} has shape {t.shape}, and {d2h_stream} takes {d2h_stream.shape}.")
    create("HostStore", {0: t}, (), {"stream": d2h_stream.tensor_id})
