"""Tables of tensors in the memory beside the chip."""

from collections.abc import Iterable
from typing import Any, Optional

from popxl._impl.errors import core_errors
from popxl.context import _contexts
from popxl.dtypes import dtype as dtype_class
from popxl.tensor import Tensor


class RemoteBuffer:
    """A table of `entries` tensors of one shape and dtype in Streaming Memory, for each replica.

    Args:
        tensor_shape, tensor_dtype: of one entry.
        entries: number of them.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: `entries` is less than 1.
    """

    __slots__ = ("_current_ir", "_id", "_meta_shape", "__dict__", "__weakref__")

    def __init__(self, tensor_shape: Iterable[int], tensor_dtype: dtype_class, entries: int) -> None:
        _check_entries(entries)
        self._current_ir = _contexts.here.ir
        self._id = max(self._current_ir._program.remote_buffers(), default=0) + 1
        self._meta_shape: tuple[int, ...] = ()
        self.shard_over: Optional[int] = None  # of those that popxl.replica_sharded_buffer made
        self.set_remote_buffer_info(tensor_dtype, tuple(tensor_shape), entries)

    def set_remote_buffer_info(self, tensor_dtype: dtype_class, tensor_shape: Iterable[int], entries: int) -> None:
        """Makes or replaces the table's record in the Ir. Raises ValueError when `entries` is less than 1."""
        _check_entries(entries)
        self._tensor_shape: tuple[int, ...] = tuple(tensor_shape)
        self._tensor_dtype = tensor_dtype
        self._entries = entries
        self._store()

    def _store(self) -> None:
        with core_errors():
            self._current_ir._program.set_remote_buffer(
                self._id, self._tensor_dtype._number, self._tensor_shape, self._meta_shape, self._entries
            )

    @property
    def remote_buffer_id(self) -> int:
        """Unique number in the Ir."""
        return self._id

    @property
    def tensor_shape(self) -> tuple[int, ...]:
        """Shape of an entry; for shards, that of one shard."""
        return self._tensor_shape

    @property
    def tensor_dtype(self) -> dtype_class:
        """Type of an entry's elements."""
        return self._tensor_dtype

    @property
    def entries(self) -> int:
        """Number of entries. Setting it to less than 1 raises ValueError."""
        return self._entries

    @entries.setter
    def entries(self, value: int) -> None:
        _check_entries(value)
        self._entries = value
        self._store()

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor if the buffer holds shards, else ()."""
        return self._meta_shape

    @meta_shape.setter
    def meta_shape(self, value: Iterable[int]) -> None:
        self._meta_shape = tuple(value)
        self._store()

    def validate_tensor_matches_buffer(self, t: Tensor, num_shards: int = 1) -> None:
        """Checks that a tensor has the shape of an entry (of the whole, if there are several shards) and its dtype.

        Raises:
            ValueError: it has not.
        """
        expected = self._tensor_shape if num_shards == 1 else self._meta_shape
        if t.shape != expected:
            raise ValueError(f"{t!r} has shape {t.shape}; remote buffer {self._id} takes {expected}.")
        if t.dtype is not self._tensor_dtype:
            raise ValueError(f"{t!r} has dtype {t.dtype!r}; remote buffer {self._id} takes {self._tensor_dtype!r}.")

    def __hash__(self) -> int:
        return hash((self._current_ir, self._id))

    def __repr__(self) -> str:
        return (
            f"RemoteBuffer(remote_buffer_id={self._id}, tensor_shape={self._tensor_shape}, "
            f"tensor_dtype={self._tensor_dtype!r}, entries={self._entries})"
        )


def _check_entries(entries: Any) -> None:
    if entries < 1:
        raise ValueError(f"A remote buffer has {entries} entries: it must have at least 1.")


def check_buffer(remote_buffer: Any) -> None:
    """Checks that something is a remote buffer of the current Ir.

    Raises:
        TypeError: it is none.
        ValueError: it is of another Ir, where its number means another buffer.
    """
    if not isinstance(remote_buffer, RemoteBuffer):
        raise TypeError(f"remote_buffer must be a popxl.RemoteBuffer, not {remote_buffer!r} of type {type(remote_buffer).__name__}.")
    if remote_buffer._current_ir is not _contexts.here.ir:
        raise ValueError(
            f"{remote_buffer!r} is of {remote_buffer._current_ir!r}, and the current graph is of {_contexts.here.ir!r}: "
            "make a buffer in this one."
        )


def remote_buffer(tensor_shape: Iterable[int], tensor_dtype: dtype_class, entries: int = 1) -> RemoteBuffer:
    """A `RemoteBuffer`; arguments and errors of it.

    Example:
        >>> buffer = popxl.remote_buffer((2, 4), popxl.float32, entries=3)
    """
    return RemoteBuffer(tensor_shape, tensor_dtype, entries)
