"""Data to the memory beside the chip."""

from typing import Any, Union

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.remote_load import _offset
from popxl.ops.utils import check_in_graph
from popxl.remote_buffer import check_buffer
from popxl.tensor import Tensor


def remote_store(remote_buffer: Any, offset: Union[int, Tensor], t: Tensor) -> None:
    """Writes `t` to an entry of a remote buffer. Nothing but `popxl.in_sequence` orders loads and stores.

    Args:
        remote_buffer: the buffer.
        offset: number of the entry, or a tensor of shape () with it.
        t: of the buffer's shape and dtype.

    Raises:
        TypeError: `remote_buffer` is no buffer.
        ValueError: it is of another Ir; shape or dtype differ.

    Example:
        >>> ops.remote_store(buffer, 0, w)
    """
    check_buffer(remote_buffer)
    check_in_graph(_contexts.here.graph, t=t)
    remote_buffer.validate_tensor_matches_buffer(t)
    at = _offset(offset)
    create("RemoteStore", {0: t, 1: at}, (), {"buffer": remote_buffer.remote_buffer_id})
