"""Types of tensors, and which NumPy type, native number and text stands for each element type."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any

import numpy

from popart._impl.enums import DataType
from popart._impl.exceptions import popart_exception

# The native side counts element types in this order.
_NATIVE = [
    DataType[name]
    for name in (
        "UINT8 INT8 UINT16 INT16 INT32 INT64 UINT32 UINT64 BOOL FLOAT FLOAT16 BFLOAT16 FLOAT8_143 FLOAT8_152 DOUBLE "
        "COMPLEX64 COMPLEX128 STRING UNDEFINED"
    ).split()
]
_NUMBER = {dtype: number for number, dtype in enumerate(_NATIVE)}
NUMPY: dict[DataType, numpy.dtype] = {
    DataType.UINT8: numpy.dtype("uint8"),
    DataType.INT8: numpy.dtype("int8"),
    DataType.UINT16: numpy.dtype("uint16"),
    DataType.INT16: numpy.dtype("int16"),
    DataType.INT32: numpy.dtype("int32"),
    DataType.INT64: numpy.dtype("int64"),
    DataType.UINT32: numpy.dtype("uint32"),
    DataType.UINT64: numpy.dtype("uint64"),
    DataType.BOOL: numpy.dtype("bool"),
    DataType.FLOAT: numpy.dtype("float32"),
    DataType.FLOAT16: numpy.dtype("float16"),
    DataType.DOUBLE: numpy.dtype("float64"),
    DataType.COMPLEX64: numpy.dtype("complex64"),
    DataType.COMPLEX128: numpy.dtype("complex128"),
    DataType.FLOAT8_143: numpy.dtype([("float8_143", "u1")]),
    DataType.FLOAT8_152: numpy.dtype([("float8_152", "u1")]),
}
_OF_NUMPY = {dtype: data_type for data_type, dtype in NUMPY.items()}
_LOWER_CASE = {DataType.FLOAT: "float32", DataType.DOUBLE: "float64"}


def native_number(dtype: DataType) -> int:
    """The number by which the native side knows an element type."""
    return _NUMBER[dtype]


def of_native_number(number: int) -> DataType:
    return _NATIVE[number]


def of_numpy(dtype: Any) -> DataType:
    """The element type of a NumPy type. Raises popart_exception where there is none."""
    found = _OF_NUMPY.get(numpy.dtype(dtype))
    if found is None:
        raise popart_exception(f"the NumPy type '{numpy.dtype(dtype)}' has no element type of PopART")
    return found


def _element_type(value: Any) -> DataType:
    if isinstance(value, DataType):
        return value
    if isinstance(value, str):
        if value not in DataType.__members__:
            raise popart_exception(f"no element type is called '{value}'; there are {', '.join(DataType.__members__)}")
        return DataType[value]
    if value is float or value is int:
        raise KeyError(value)
    return of_numpy(value)


def _dims(shape: Any) -> tuple[int, ...]:
    if isinstance(shape, str):
        return tuple(int(text) for text in re.findall(r"-?\d+", shape))
    return tuple(int(size) for size in shape)


class TensorInfo:
    """Element type, shape, and for a shard the shape of the whole.

    >>> TensorInfo("FLOAT16", [5, 5]).nbytes()
    50
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, *arguments: Any, **named: Any) -> None:
        self._type = DataType.UNDEFINED
        self._shape: tuple[int, ...] = ()
        self._meta_shape: tuple[int, ...] = ()
        self._changed: Callable[[TensorInfo], None] | None = None
        values = [*arguments, *(named[key] for key in ("dataType", "shape", "metaShape") if key in named)]
        if len(values) == 1 and isinstance(values[0], numpy.ndarray):
            values = [of_numpy(values[0].dtype), values[0].shape]
        unknown = named.keys() - {"dataType", "shape", "metaShape"}
        if len(values) not in (0, 2, 3) or unknown:
            raise TypeError(
                f"incompatible arguments: TensorInfo takes (), (array), (type, shape) or (type, shape, metaShape), not {arguments}"
            )
        if values:
            self._set(values)

    def _set(self, values: Sequence[Any]) -> None:
        self._type = _element_type(values[0])
        if len(values) > 1:
            self._shape = _dims(values[1])
        if len(values) > 2:
            self._meta_shape = _dims(values[2])

    def on_change(self, changed: Callable[[TensorInfo], None]) -> TensorInfo:
        """Calls `changed` after each `set`: the info of a tensor in a graph is live."""
        self._changed = changed
        return self

    def set(self, dataType: Any, *rest: Any, shape: Any = None, metaShape: Any = None) -> None:
        self._set([dataType, *rest, *(value for value in (shape, metaShape) if value is not None)])
        if self._changed:
            self._changed(self)

    def shape(self) -> list[int]:
        return list(self._shape)

    def metaShape(self) -> list[int]:
        return list(self._meta_shape)

    def rank(self) -> int:
        return len(self._shape)

    def nelms(self) -> int:
        count = 1
        for size in self._shape:
            count *= size
        return count

    def nbytes(self) -> int:
        return self.nelms() * self._bytes()

    def _bytes(self) -> int:
        if self._type is DataType.BFLOAT16:
            return 2
        return NUMPY[self._type].itemsize if self._type in NUMPY else 0

    def dim(self, i: int) -> int:
        if not 0 <= i < len(self._shape):
            raise popart_exception(f"dimension {i} of {self!r}: it has {len(self._shape)}")
        return self._shape[i]

    def dataType(self) -> DataType:
        return self._type

    def data_type(self) -> str:
        return self._type.name

    def data_type_lcase(self) -> str:
        return _LOWER_CASE.get(self._type, self._type.name.lower())

    def strides(self, shape: Sequence[int]) -> list[int]:
        """Bytes from one element to the next along each axis of an array of this shape, row by row."""
        strides, step = [], self._bytes()
        for size in reversed(list(shape)):
            strides.append(step)
            step *= size
        return strides[::-1]

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, TensorInfo):
            return NotImplemented
        mine = (self._type, self._shape, self._meta_shape)
        return mine == (other._type, other._shape, other._meta_shape)

    def __repr__(self) -> str:
        return f"{self._type.name}({','.join(map(str, self._shape))})"

    __str__ = __repr__


_TensorInfoCore = TensorInfo


def getTensorInfo(array: numpy.ndarray) -> TensorInfo:
    return TensorInfo(array)
