"""Data from the memory beside the chip."""

from typing import Any, Optional, Union

from popxl import dtypes
from popxl._impl.build import create
from popxl._impl.errors import core_errors
from popxl.context import _contexts
from popxl.ops.init import init
from popxl.ops.utils import check_in_graph
from popxl.remote_buffer import check_buffer
from popxl.tensor import Tensor, constant


def _offset(offset: Union[int, Tensor]) -> Tensor:
    """The number of an entry as a tensor of the current graph."""
    if isinstance(offset, Tensor):
        check_in_graph(_contexts.here.graph, offset=offset)
        return offset
    return constant(offset, dtypes.uint32, "offset")


def remote_load(remote_buffer: Any, offset: Union[int, Tensor], name: Optional[str] = None) -> Tensor:
    """A new tensor with an entry of a remote buffer. Nothing but `popxl.in_sequence` orders loads and stores.

    Args:
        remote_buffer: the buffer, whose shape, dtype and meta shape the tensor has.
        offset: number of the entry, or a tensor of shape () with it.
        name: the tensor is called `<name>_remote_loaded`; None: after the buffer and the offset.

    Raises:
        TypeError: `remote_buffer` is no buffer.
        ValueError: it is of another Ir.

    Example:
        >>> w = ops.remote_load(buffer, 0)
    """
    check_buffer(remote_buffer)
    at = _offset(offset)
    return _load(remote_buffer, at, f"{name or f'id_{remote_buffer.remote_buffer_id}_offset_{at.name}'}_remote_loaded")


def _load(remote_buffer: Any, at: Tensor, stem: str) -> Tensor:
    """An entry as a new tensor of that name."""
    made = init(
        remote_buffer.tensor_shape, remote_buffer.tensor_dtype, f"{stem}_init", "undef", remote_buffer.meta_shape
    )
    return create("RemoteLoad", {0: made, 1: at}, [stem], {"buffer": remote_buffer.remote_buffer_id})[0]


def remote_load_(remote_buffer: Any, offset: Union[int, Tensor], t: Tensor) -> Tensor:
    """Overwrites `t` with an entry of a remote buffer, and returns it as another tensor in the same memory.

    Args:
        remote_buffer, offset: of `remote_load`.
        t: of the buffer's shape and dtype; gets its meta shape.

    Raises:
        TypeError: `remote_buffer` is no buffer.
        ValueError: it is of another Ir; shape or dtype differ.
    """
    check_buffer(remote_buffer)
    check_in_graph(_contexts.here.graph, t=t)
    remote_buffer.validate_tensor_matches_buffer(t)
    at = _offset(offset)
    if remote_buffer.meta_shape and t.meta_shape != remote_buffer.meta_shape:
        with core_errors():
            t._ir._program.set_tensor_info(t._number, t.dtype._number, t.shape, remote_buffer.meta_shape)
    stem = f"id_{remote_buffer.remote_buffer_id}_offset_{at.name}_remote_loaded"
    return create("RemoteLoadInplace", {0: t, 1: at}, [stem], {"buffer": remote_buffer.remote_buffer_id})[0]
