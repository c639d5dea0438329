"""Tensors of a program, and functions that make those that no op makes."""

import sys
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Optional, Union

import numpy as np
from ipu_common.debug_contexts import recording
from ipu_core._native import Error as CoreError

from popxl import dtypes
from popxl._impl import facade
from popxl._impl.debug_records import record_tensor
from popxl._impl.errors import core_errors, popart_error
from popxl.context import _contexts
from popxl.dtypes import dtype as dtype_class
from popxl.errors import UndefinedValue
from popxl.typing_ import NewAliasAnnotation
from popxl.utils import to_numpy

ScalarType = Union[int, float, bool]
HostTensor: Any
HostScalarTensor: Any
TensorLike: Any
host_tensor_types: tuple[Any, ...]

_operations: Any = None  # the module popxl.ops, which sets it when it is there
_CONST, _VARIABLE = 1, 4  # numbers of TensorType


def _of_number(ir: Any, number: int, cls: Optional[type["Tensor"]] = None, graph: Optional[int] = None) -> Any:
    """The tensor of that number; always the same object. `cls` and `graph` where the caller knows them."""
    tensor = ir._tensor_cache.get(number)
    if tensor is None:
        program = ir._program
        if cls is None:
            with core_errors():
                kind = program.tensor_type(number)
            cls = Variable if kind == _VARIABLE else Constant if kind == _CONST else Tensor
        tensor = ir._tensor_cache[number] = object.__new__(cls)
        tensor._ir, tensor._number = ir, number
        tensor._graph_number = program.tensor_graph(number) if graph is None else graph
    return tensor


class Tensor:
    """A value of the program: an output of an op or an input of a graph. Operators make ops in the current graph;
    what is no tensor becomes a constant of this tensor's dtype.

    Raises:
        RuntimeError: on construction.

    Example:
        >>> y = (x @ w + 1)[:2].reshape((-1,))
    """

    __slots__ = ("_ir", "_number", "_graph_number", "__dict__", "__weakref__")

    _ir: Any
    _number: int
    _graph_number: int

    __iter__ = None
    __contains__ = None
    __array_ufunc__ = None  # arrays leave operators to this class

    def __init__(self) -> None:
        raise RuntimeError(
            f"popxl.{type(self).__name__} cannot be made: use popxl.variable, popxl.constant, popxl.graph_input or an op."
        )

    @classmethod
    def _from_pb_tensor(cls, pb_tensor: Any) -> "Tensor":
        """The tensor of popart._internal.ir, as Tensor, Variable or Constant; always the same object."""
        from popxl.ir import Ir

        return _of_number(Ir._from_pb(pb_tensor._ir), pb_tensor._number)

    @property
    def _pb_tensor(self) -> Any:
        return facade.tensor(self._ir._pb_ir, self._number)

    @property
    def _info(self) -> tuple[int, Sequence[int], Sequence[int]]:
        try:  # read for every op: no context manager
            return self._ir._program.tensor_info(self._number)
        except CoreError as error:  # the tensor was removed
            raise popart_error(error) from error

    @property
    def id(self) -> str:
        """Name with scopes: unique in the graph, and of the graph."""
        try:
            return self._ir._program.tensor_id(self._number)
        except CoreError as error:  # the tensor was removed
            raise popart_error(error) from error

    @property
    def scope(self) -> str:
        """What the graph puts before names; "" in the main graph."""
        return self._ir._program.graph_id(self._graph_number)

    @property
    def name(self) -> str:
        """The id without the scope of the graph."""
        scope = self.scope
        return self.id[len(scope) + 1 :] if scope else self.id

    @property
    def dtype(self) -> dtype_class:
        """Type of the elements."""
        return dtypes._BY_NUMBER[self._info[0]]

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape on each replica; of a shard, its own."""
        return tuple(self._info[1])

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor if this is a shard, else ()."""
        return tuple(self._info[2])

    @property
    def spec(self) -> "TensorSpec":
        """Shape, dtype and meta shape."""
        number, shape, meta_shape = self._info
        return TensorSpec(tuple(shape), dtypes._BY_NUMBER[number], tuple(meta_shape))

    @property
    def rank(self) -> int:
        """Number of axes."""
        return len(self._info[1])

    @property
    def nelms(self) -> int:
        """Number of elements."""
        elements = 1
        for size in self._info[1]:
            elements *= size
        return elements

    @property
    def location_info(self) -> Any:
        """Record of popart._internal.ir: remote buffer, entry, sharding."""
        return self._pb_tensor.tensorLocationInfo

    @property
    def ir(self) -> Any:
        """The Ir it belongs to."""
        return self._ir

    @property
    def in_sync_with_ipu(self) -> bool:
        """Whether the host's copy is that of the device; True of all that is no variable."""
        from ipu_common.host_variables import host_variables

        return host_variables(self._ir._program).is_in_sync(self._number)

    @property
    def ipu(self) -> int:
        """IPU it lies on: of its producer, or the first call site or consumer.

        Raises:
            popxl.errors.UndefinedValue: none of them has one.
        """
        place = self._ir._program.place(self._number)[0]
        if place is None:
            raise UndefinedValue(f"No IPU is known for {self!r}: neither its producer nor what reads it has one.")
        return place

    @property
    def tile_set(self) -> str:
        """ "compute" or "io", found as `ipu`.

        Raises:
            popxl.errors.UndefinedValue: nothing says which.
        """
        place = self._ir._program.place(self._number)[1]
        if place is None:
            raise UndefinedValue(f"No tile set is known for {self!r}: nothing makes or reads it.")
        return "io" if place == 1 else "compute"

    # --- ops as methods
    def strides(self, shape: Optional[Sequence[int]] = None) -> tuple[int, ...]:
        """Bytes from one element to the next along each axis, for row-major storage of `shape` (its own if None)."""
        sizes = self.shape if shape is None else tuple(shape)
        step, steps = self.dtype.as_numpy().itemsize, []
        for size in reversed(sizes):
            steps.append(step)
            step *= size
        return tuple(reversed(steps))

    def transpose(self, permutation: Optional[Iterable[int]] = None) -> "Tensor":
        """As `ops.transpose`."""
        return _operations.transpose(self, permutation)

    def transpose_(self, permutation: Optional[Iterable[int]] = None) -> "Tensor":
        """As `ops.transpose_`."""
        return _operations.transpose_(self, permutation)

    @property
    def T(self) -> "Tensor":
        """Transposed: axes in reverse order."""
        return self.transpose()

    @property
    def T_(self) -> "Tensor":
        """A view with the axes in reverse order."""
        return self.transpose_()

    def reshape(self, shape: Iterable[int]) -> "Tensor":
        """As `ops.reshape`."""
        return _operations.reshape(self, shape)

    def reshape_(self, shape: Iterable[int]) -> "Tensor":
        """As `ops.reshape_`."""
        return _operations.reshape_(self, shape)

    def flatten(self) -> "Tensor":
        """As `ops.flatten`."""
        return _operations.flatten(self)

    def flatten_(self) -> "Tensor":
        """As `ops.flatten_`."""
        return _operations.flatten_(self)

    def detach(self) -> "Tensor":
        """As `ops.detach`."""
        return _operations.detach(self)

    def detach_(self) -> "Tensor":
        """As `ops.detach_`."""
        return _operations.detach_(self)

    def diag(self) -> "Tensor":
        """The flattened matrix with a step of `shape[1] + 1`: its diagonal, unless it has two or more rows more than
        columns. Raises ValueError when it is no matrix."""
        shape = self.shape
        if len(shape) != 2:
            raise ValueError(f"diag takes a tensor of 2 axes; {self!r} has {len(shape)}.")
        return self.flatten()[:: shape[1] + 1]

    def copy_to_ipu(self, destination: int, source: Optional[int] = None) -> "Tensor":
        """As `ops.ipu_copy`."""
        return _operations.ipu_copy(self, destination, source)

    def _ensure_tensor(self, value: Any, dtype: Optional[dtype_class] = None, raise_on_empty: bool = True) -> "Tensor":
        """A tensor as it is; anything else as a constant of the current graph, of `dtype` or this tensor's.
        Raises ValueError when it has no element."""
        if isinstance(value, Tensor):
            return value
        kind = dtype or self.dtype
        array = to_numpy(value, kind, copy=False)
        if raise_on_empty and array.size == 0:
            raise ValueError(f"The operand {value!r} of {self!r} has no element.")
        return _constant_of(array, kind, "t")

    # --- operators
    def __add__(self, other: Any) -> "Tensor":
        return _operations.add(self, self._ensure_tensor(other))

    def __radd__(self, other: Any) -> "Tensor":
        return _operations.add(self._ensure_tensor(other), self)

    def __iadd__(self, other: Any) -> "Tensor":
        _operations.add_(self, self._ensure_tensor(other))
        return self

    def __sub__(self, other: Any) -> "Tensor":
        return _operations.sub(self, self._ensure_tensor(other))

    def __rsub__(self, other: Any) -> "Tensor":
        return _operations.sub(self._ensure_tensor(other), self)

    def __mul__(self, other: Any) -> "Tensor":
        return _operations.mul(self, self._ensure_tensor(other))

    def __rmul__(self, other: Any) -> "Tensor":
        return _operations.mul(self._ensure_tensor(other), self)

    def __truediv__(self, other: Any) -> "Tensor":
        return _operations.div(self, self._ensure_tensor(other))

    def __rtruediv__(self, other: Any) -> "Tensor":
        return _operations.div(self._ensure_tensor(other), self)

    def __mod__(self, other: Any) -> "Tensor":
        return _operations.fmod(self, self._ensure_tensor(other))

    def __rmod__(self, other: Any) -> "Tensor":
        return _operations.fmod(self._ensure_tensor(other), self)

    def _as_power(self, value: Any) -> "Tensor":
        """A number takes this tensor's dtype where that loses nothing: PopXL makes an int32 of `x ** 2`."""
        if isinstance(value, Tensor):
            return value
        return constant(value, self.dtype if self.dtype.is_floating_point else None)

    def __pow__(self, other: Any) -> "Tensor":
        return _operations.pow(self, self._as_power(other))

    def __rpow__(self, other: Any) -> "Tensor":
        return _operations.pow(self._as_power(other), self)

    def __neg__(self) -> "Tensor":
        return _operations.negate(self)

    def __matmul__(self, other: Any) -> "Tensor":
        return _operations.matmul(self, self._ensure_tensor(other))

    def __rmatmul__(self, other: Any) -> "Tensor":
        return _operations.matmul(self._ensure_tensor(other), self)

    def __and__(self, other: Any) -> "Tensor":
        return _operations.logical_and(self, self._ensure_tensor(other))

    def __rand__(self, other: Any) -> "Tensor":
        return _operations.logical_and(self._ensure_tensor(other), self)

    def __or__(self, other: Any) -> "Tensor":
        return _operations.logical_or(self, self._ensure_tensor(other))

    def __ror__(self, other: Any) -> "Tensor":
        return _operations.logical_or(self._ensure_tensor(other), self)

    def __invert__(self) -> "Tensor":
        return _operations.logical_not(self)

    def __getitem__(self, key: Any) -> "Tensor":
        """Integers and slices as NumPy; integers of a tensor, array or sequence gather along axis 0; booleans of one
        are a mask that sets elements to zero.

        Raises:
            TypeError: the key is anything else.
            ValueError: an integer is out of range.
        """
        from popxl._impl.indexing import index

        return index(self, key)

    def __len__(self) -> int:
        shape = self._info[1]
        if not shape:
            raise ValueError(f"{self!r} has no axis, and so no length.")
        return shape[0]

    def __eq__(self, other: Any) -> bool:
        return isinstance(other, Tensor) and self._number == other._number and self._ir is other._ir

    def __hash__(self) -> int:
        return hash((self._ir._id, self._number))

    def __repr__(self) -> str:
        number, shape, _ = self._info
        return f"{type(self).__name__}[{self.id} {dtypes._BY_NUMBER[number]!r} {tuple(shape)}]"


class Variable(Tensor):
    """A tensor of the main graph that stays on the device between runs; the host gives its value and can read it.
    `popxl.variable` and its like make them."""

    __slots__ = ()

    @property
    def _replica_grouping(self) -> Any:
        grouping = self.__dict__.get("_grouping")
        if grouping is None:  # made by hand, through popart
            settings = self._ir._program.variable(self._number)
            if settings["assignment"]:
                grouping = self._ir.replica_grouping_from_assignments(list(settings["assignment"]))
            else:
                grouping = self._ir.replica_grouping(settings["stride"], settings["size"] or None)
            self.__dict__["_grouping"] = grouping
        return grouping

    @property
    def replica_grouping(self) -> Any:
        """Replicas of one group hold the same value."""
        return self._replica_grouping

    @property
    def retrieval_mode(self) -> str:
        """ "one_per_group" or "all_replicas": what the Session gives as its data."""
        return "all_replicas" if self._ir._program.variable(self._number)["all_replicas"] else "one_per_group"

    @property
    def _memmap_arr(self) -> Optional[np.memmap]:
        return self.__dict__.get("_memmap")

    @property
    def shape_on_replica(self) -> tuple[int, ...]:
        """Shape of the value of one replica."""
        return self.shape

    @property
    def shape_on_host(self) -> tuple[int, ...]:
        """Shape of its data: one value for each group, in front, where there are several."""
        groups = self._replica_grouping.num_groups
        return self.shape if groups == 1 else (groups, *self.shape)

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """As `ops.ipu_copy`."""
        return _operations.ipu_copy(self, dst, src)


class Constant(Tensor):
    """A tensor whose value is fixed when the program is built."""

    __slots__ = ()

    def copy_to_ipu(self, dst: int, src: int) -> Tensor:  # type: ignore[override]
        """As `ops.ipu_copy`."""
        return _operations.ipu_copy(self, dst, src)


TensorByRef = NewAliasAnnotation("TensorByRef", Tensor)
"""Annotation of a parameter of a traced function: the call works on the caller's tensor, not on a copy."""


class TensorSpec(Mapping):
    """Shape, dtype and meta shape of a tensor; a read-only mapping, equal to any with the same items.

    Example:
        >>> x = popxl.graph_input(**popxl.TensorSpec((2, 3), popxl.float16), name="x")
    """

    __slots__ = ("_items",)
    _items: dict[str, Any]

    def __init__(self, shape: Iterable[int], dtype: dtype_class, meta_shape: Optional[Iterable[int]] = ()) -> None:
        self._items = {"shape": tuple(shape), "dtype": dtype, "meta_shape": tuple(meta_shape or ())}

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of the tensor."""
        return self._items["shape"]

    @property
    def dtype(self) -> dtype_class:
        """Type of its elements."""
        return self._items["dtype"]

    @property
    def meta_shape(self) -> tuple[int, ...]:
        """The shape of the whole tensor if this is a shard, else ()."""
        return self._items["meta_shape"]

    def to_dict(self) -> dict[str, Any]:
        """The items as a dict."""
        return dict(self._items)

    def to_tuple(self) -> tuple[Any, ...]:
        """(shape, dtype, meta_shape)."""
        return tuple(self._items.values())

    def __getitem__(self, key: str) -> Any:
        return self._items[key]

    def __iter__(self) -> Iterator[str]:
        return iter(self._items)

    def __len__(self) -> int:
        return 3

    def __hash__(self) -> int:
        return hash(self.to_tuple())

    def __repr__(self) -> str:
        return f"TensorSpec(shape={self.shape}, dtype={self.dtype!r}, meta_shape={self.meta_shape})"


_FLOAT8_ARRAYS = [t.as_numpy() for t in dtypes._FLOAT8]


def constant(
    data: Any,
    dtype: Optional[dtype_class] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Constant:
    """A tensor with a value that never changes, in the current graph.

    Args:
        data: number, array, nested sequence or torch tensor.
        dtype: of the tensor; None: that of the data.
        name: of the tensor; "t" if None.
        downcast: makes 32-bit data of 64-bit data where `dtype` is None.
        log2_scale, nan_on_overflow: of a float8 dtype; `popxl.fp8_utils.host_pow2scale_cast_to_fp8`.

    Raises:
        RuntimeError: there is no current graph; float8 arguments without a float8 dtype.
        TypeError: float8 data without a dtype.

    Example:
        >>> half = popxl.constant([0.5, 0.5], popxl.float16, "half")
    """
    given = getattr(data, "dtype", None)
    if dtype is None and getattr(given, "names", None) is not None and given in _FLOAT8_ARRAYS:
        assert _contexts.here.graph is not None  # without one, that is what is wrong
        raise TypeError(
            "popxl.constant takes float8 data only with a dtype: give popxl.float8_143 or popxl.float8_152."
        )
    array = to_numpy(data, dtype, downcast, False, log2_scale, nan_on_overflow)
    return _constant_of(array, dtype or dtypes._NP_TO_POPXL[array.dtype], name or "t")


def _constant_of(array: np.ndarray, dtype: dtype_class, name: str) -> Constant:
    """A constant of the current graph with an array of its dtype."""
    graph = _contexts.here.graph
    program, number = graph._ir._program, graph._number
    made = program.unique_id(number, _contexts.here._prefix + name)
    try:
        tensor = program.add_constant(number, made, dtype._number, array.view(np.uint8) if array.dtype.names else array)
    except CoreError as error:
        raise popart_error(error) from error
    if recording.path is not None:
        record_tensor("constant", made)
    return _of_number(graph._ir, tensor, Constant, number)


def graph_input(
    shape: Iterable[int],
    dtype: dtype_class,
    name: Optional[str] = None,
    by_ref: bool = False,
    meta_shape: Optional[Iterable[int]] = None,
) -> Tensor:
    """A new input of the current graph, after those it has.

    Args:
        shape, dtype, meta_shape: of the tensor.
        name: of the tensor; "t" if None.
        by_ref: calls work on the caller's tensor, not on a copy.

    Raises:
        RuntimeError: there is no current graph.
    """
    graph = _contexts.here.graph
    program = graph._ir._program
    with core_errors():
        number = program.add_input(
            graph._number,
            program.unique_id(graph._number, _contexts.here._prefix + (name or "t")),
            dtype._number,
            tuple(shape),
            tuple(meta_shape or ()),
        )
        if by_ref:
            program.set_by_reference(graph._number, number)
    tensor = _of_number(graph._ir, number, Tensor, graph._number)
    if by_ref:
        graph._by_ref_inputs.add(tensor)
    if recording.path is not None:
        record_tensor("graph_input", tensor.id)
    return tensor


def graph_output(t: Tensor) -> None:
    """Makes a tensor of the current graph an output of it, after those it has.

    Raises:
        RuntimeError: there is no current graph.
        TypeError, ValueError: `t` is no tensor of the graph.
    """
    from popxl.ops.utils import check_in_graph

    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    with core_errors():
        graph._ir._program.mark_output(graph._number, t._number)


def __getattr__(name: str) -> Any:
    """Type aliases that may name torch, which only users of them import."""
    if name not in ("HostTensor", "HostScalarTensor", "TensorLike", "host_tensor_types"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    torch = sys.modules.get("torch")
    torch_types = (torch.Tensor,) if torch is not None and hasattr(torch, "Tensor") else ()
    if name == "host_tensor_types":
        return (np.ndarray, Iterable, *torch_types)
    host = Union[(np.ndarray, Iterable[ScalarType], *torch_types)]  # type: ignore[valid-type]
    if name == "HostTensor":
        return host
    return Union[ScalarType, host] if name == "HostScalarTensor" else Union[Tensor, ScalarType, host]


from popxl._impl.variables import (  # noqa: E402  (needs the classes above)
    remote_replica_sharded_variable as remote_replica_sharded_variable,
)
from popxl._impl.variables import (
    remote_variable as remote_variable,
)
from popxl._impl.variables import (
    replica_sharded_buffer as replica_sharded_buffer,
)
from popxl._impl.variables import (
    replica_sharded_variable as replica_sharded_variable,
)
from popxl._impl.variables import (
    variable as variable,
)
