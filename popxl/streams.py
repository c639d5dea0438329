"""Streams between host and device."""

from collections.abc import Iterable
from typing import Any, Optional, TypeVar

from popxl._impl.errors import core_errors
from popxl.context import _contexts
from popxl.dtypes import dtype as dtype_class
from popxl.tensor import Tensor, TensorSpec, _of_number

_STREAM = 2  # number of TensorType
_Stream = TypeVar("_Stream", bound="Stream")


class Stream:
    """A queue of elements of one shape and dtype for each replica. Each execution of `ops.host_load` or `ops.host_store`
    moves the next element.

    Raises:
        NotImplementedError: on construction: use `popxl.h2d_stream` and `popxl.d2h_stream`.
    """

    __slots__ = ("_stream_tensor", "__weakref__")
    _stream_tensor: Tensor

    def __init__(self) -> None:
        raise NotImplementedError("Streams are made by popxl.h2d_stream and popxl.d2h_stream.")

    @classmethod
    def _from_tensor(cls: type[_Stream], tensor: Tensor) -> _Stream:
        """The stream of a stream tensor."""
        self = object.__new__(cls)
        self._stream_tensor = tensor
        return self

    @classmethod
    def _of(cls: type[_Stream], ir: Any, number: int) -> _Stream:
        return cls._from_tensor(_of_number(ir, number))

    @classmethod
    def _create(cls: type[_Stream], shape: Iterable[int], dtype: dtype_class, name: str) -> _Stream:
        main = _contexts.here.main_graph
        program = main._ir._program
        with core_errors():
            made = program.unique_id(main._number, _contexts.here._prefix + name)
            number = program.create_tensor(main._number, made, _STREAM, dtype._number, tuple(shape))
        return cls._from_tensor(_of_number(main._ir, number, Tensor, main._number))

    @property
    def dtype(self) -> dtype_class:
        """Type of the elements' elements."""
        return self._stream_tensor.dtype

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one element of the stream."""
        return self._stream_tensor.shape

    @property
    def spec(self) -> TensorSpec:
        """Shape and dtype."""
        return self._stream_tensor.spec

    @property
    def tensor_id(self) -> str:
        """Id of the tensor of the main graph behind it."""
        return self._stream_tensor.id

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, type(self)) and self._stream_tensor == other._stream_tensor

    def __hash__(self) -> int:
        return hash(self._stream_tensor)

    def __str__(self) -> str:
        return f"{type(self).__name__} {self._stream_tensor!r}"

    __repr__ = __str__


class HostToDeviceStream(Stream):
    """A stream to the device."""

    __slots__ = ()


class DeviceToHostStream(Stream):
    """A stream to the host."""

    __slots__ = ()


def h2d_stream(shape: Iterable[int], dtype: dtype_class, name: Optional[str] = None) -> HostToDeviceStream:
    """A stream to the device, in the main graph of the current one.

    Args:
        shape, dtype: of one element.
        name: of the stream; "h2d_stream" if None.

    Raises:
        RuntimeError: there is no current graph.

    Example:
        >>> x = popxl.h2d_stream((2, 4), popxl.float32, "x")
    """
    return HostToDeviceStream._create(shape, dtype, name or "h2d_stream")


def d2h_stream(shape: Iterable[int], dtype: dtype_class, name: Optional[str] = None) -> DeviceToHostStream:
    """A stream to the host, in the main graph of the current one; arguments and errors of `h2d_stream`."""
    return DeviceToHostStream._create(shape, dtype, name or "d2h_stream")
