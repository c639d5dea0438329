"""What the builder needs of ONNX messages: types of tensors, data of tensors, attributes of nodes."""

from __future__ import annotations

import os
from collections.abc import Sequence
from typing import Any

import numpy
import onnx

from popart._impl.enums import DataType
from popart._impl.exceptions import popart_exception
from popart._impl.tensor_info import NUMPY, of_numpy

Attribute = onnx.AttributeProto
Tensor = onnx.TensorProto
# Element types are mapped by name; the kinds of FLOAT8 have no number that these models may hold.
NUMBER = {
    dtype: getattr(Tensor, dtype.name, Tensor.UNDEFINED) for dtype in DataType if not dtype.name.startswith("FLOAT8")
}
NUMBER |= {DataType.FLOAT8_143: Tensor.UNDEFINED, DataType.FLOAT8_152: Tensor.UNDEFINED}
DATA_TYPE = {number: dtype for dtype, number in NUMBER.items() if not dtype.name.startswith("FLOAT8")}
_LOWER_CASE = {DataType.FLOAT: "float32", DataType.DOUBLE: "float64"}
# Elements of these types are kept byte for byte in the 32-bit entries of int32_data.
_PACKED = {Tensor.UINT8, Tensor.INT8, Tensor.UINT16, Tensor.INT16, Tensor.BOOL, Tensor.FLOAT16}
_NO_DATA = ("UNDEFINED", "STRING", "DOUBLE", "COMPLEX64", "COMPLEX128", "BFLOAT16", "FLOAT8_143", "FLOAT8_152")


def lower_case(number: int) -> str:
    """The name that getTensorDtypeString gives: "float32", "int64"."""
    dtype = DATA_TYPE[number]
    return _LOWER_CASE.get(dtype, dtype.name.lower())


def unknown_type() -> onnx.TypeProto:
    """What a model says of a tensor of which nothing is known: no element type, no shape."""
    type_ = onnx.TypeProto()
    type_.tensor_type.elem_type = Tensor.UNDEFINED
    return type_


def known_type(value: onnx.ValueInfoProto) -> onnx.TypeProto | None:
    """The type that a model says of a tensor; None where it says nothing."""
    is_known = value.HasField("type") and value.type != unknown_type()
    return value.type if is_known else None


def tensor_type(number: int, shape: Sequence[Any] | None) -> onnx.TypeProto:
    """The type of a tensor. A dimension of None is not known; a shape of None says nothing of dimensions."""
    type_ = onnx.TypeProto()
    type_.tensor_type.elem_type = number
    if shape is not None:
        type_.tensor_type.shape.SetInParent()
        for size in shape:
            dim = type_.tensor_type.shape.dim.add()
            if size is not None:
                dim.dim_value = size
    return type_


def shape_of(type_: onnx.TypeProto) -> list[int | None] | None:
    """Dimensions of a type, None for those that are not known; None when there is no shape at all."""
    if not type_.tensor_type.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in type_.tensor_type.shape.dim]


def data_type_of(array: numpy.ndarray) -> DataType:
    """The element type of initial data. Raises popart_exception for types that no initialiser may have."""
    dtype = of_numpy(array.dtype)
    if dtype.name in _NO_DATA:
        raise popart_exception(
            f"unsupported data type for initialised data: {dtype.name} (a NumPy array of {array.dtype})"
        )
    return dtype


def to_tensor(array: numpy.ndarray, name: str = "") -> onnx.TensorProto:
    """A copy of an array, each element type in the field where readers of these models look for it."""
    tensor = onnx.TensorProto()
    number = NUMBER[data_type_of(array)]
    tensor.name, tensor.data_type = name, number
    tensor.dims.extend(array.shape)
    store(tensor, array)
    return tensor


def store(tensor: onnx.TensorProto, array: numpy.ndarray) -> None:
    """Puts the elements of an array, which have the type of the tensor, into its typed field."""
    number, flat = tensor.data_type, numpy.ascontiguousarray(array).reshape(-1)
    if number in _PACKED:
        data = flat.tobytes()
        tensor.int32_data.extend(numpy.frombuffer(data + b"\0" * (-len(data) % 4), "<i4"))
    elif number == Tensor.FLOAT:
        tensor.float_data.extend(flat)
    elif number == Tensor.INT32:
        tensor.int32_data.extend(flat)
    elif number == Tensor.INT64:
        tensor.int64_data.extend(flat)
    elif number == Tensor.DOUBLE:
        tensor.double_data.extend(flat)
    else:
        tensor.uint64_data.extend(flat)


def clear_data(tensor: onnx.TensorProto) -> None:
    for field in ("raw_data", "float_data", "int32_data", "int64_data", "uint64_data", "double_data", "external_data"):
        tensor.ClearField(field)
    tensor.ClearField("data_location")


def is_external(tensor: onnx.TensorProto) -> bool:
    return tensor.data_location == Tensor.EXTERNAL


def element_count(tensor: onnx.TensorProto) -> int:
    count = 1
    for size in tensor.dims:
        count *= size
    return count


def to_array(tensor: onnx.TensorProto, elements: memoryview | None = None) -> numpy.ndarray:
    """The elements of a tensor, from whichever field holds them. External data are read relative to the working directory.

    Args:
        elements: little endian, of a tensor that has none itself: the array is a view of them.

    Raises popart_exception for element types without a NumPy type, and where the number of elements is not that of the shape.
    """
    if tensor.data_type == Tensor.BFLOAT16:
        return _bfloat16(tensor)
    dtype = NUMPY.get(DATA_TYPE.get(tensor.data_type, DataType.UNDEFINED))
    if dtype is None:
        raise popart_exception(f"tensor '{tensor.name}' has elements of type {tensor.data_type}, which cannot be read")
    count = element_count(tensor)
    if elements is not None:
        flat = _flat(tensor, elements, dtype)
    elif is_external(tensor):
        flat = _flat(tensor, external_bytes(tensor), dtype)
    elif tensor.HasField("raw_data"):
        flat = _flat(tensor, tensor.raw_data, dtype)
    elif tensor.data_type in _PACKED:
        flat = _unpacked(numpy.array(tensor.int32_data, "<i4"), dtype, count)
    else:
        fields = {
            "float32": tensor.float_data,
            "int32": tensor.int32_data,
            "int64": tensor.int64_data,
            "float64": tensor.double_data,
        }
        flat = numpy.array(fields.get(dtype.name, tensor.uint64_data), dtype)
    if len(flat) != count:
        raise popart_exception(
            f"tensor '{tensor.name}' has {len(flat)} elements, but its shape {list(tensor.dims)} has {count}"
        )
    return flat.reshape(tuple(tensor.dims))


def _unpacked(entries: numpy.ndarray, dtype: numpy.dtype, count: int) -> numpy.ndarray:
    """ONNX keeps one small element in each entry; these models may also keep as many as fit."""
    if len(entries) == count:
        bits = entries.astype(f"<u{dtype.itemsize}") if dtype != numpy.bool_ else (entries != 0)
        return bits.view(dtype)
    if len(entries) * 4 - count * dtype.itemsize in range(4):
        return numpy.frombuffer(entries.tobytes(), dtype)[:count]
    return entries  # the wrong number of elements, which the caller tells


def _bfloat16(tensor: onnx.TensorProto) -> numpy.ndarray:
    """bfloat16 as float32: no NumPy type is nearer."""
    raw = external_bytes(tensor) if is_external(tensor) else tensor.raw_data
    bits = _flat(tensor, raw, numpy.dtype("<u2")) if raw else numpy.array(tensor.int32_data, "<i4").astype("<u2")
    if len(bits) != element_count(tensor):
        raise popart_exception(
            f"tensor '{tensor.name}' has {len(bits)} elements, but its shape {list(tensor.dims)} has {element_count(tensor)}"
        )
    return (bits.astype("<u4") << 16).view("float32").reshape(tuple(tensor.dims))


def external_bytes(tensor: onnx.TensorProto) -> bytes:
    """Data that are kept beside the model.

    Raises:
        RuntimeError: the file is not there, is no regular file, or cannot be read.
        popart_exception: no location, a position or length that is no number, or a file that ends before.
    """
    entries = {entry.key: entry.value for entry in tensor.external_data}
    if "location" not in entries:
        raise popart_exception(f"the data of tensor '{tensor.name}' are external, but no location is given")
    location = entries["location"]
    offset, length = (_position(tensor, key, entries.get(key)) for key in ("offset", "length"))
    if "\0" in location or not os.path.isfile(location):
        raise RuntimeError(f"the external data of tensor '{tensor.name}' cannot be read: '{location}' is no file")
    try:
        with open(location, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if offset + length > size:
                raise popart_exception(
                    f"the data of tensor '{tensor.name}' should be {length} bytes of the file '{location}' from {offset} on, "
                    f"and it has {size}"
                )
            file.seek(offset)
            return file.read(length if "length" in entries else -1)
    except OSError as error:
        raise RuntimeError(f"the external data of tensor '{tensor.name}' cannot be read: {error}") from error


def _position(tensor: onnx.TensorProto, key: str, text: str | None) -> int:
    if text is None:
        return 0
    if not (text.isascii() and text.isdigit() and len(text) < 19):
        raise popart_exception(
            f"the {key} of the external data of tensor '{tensor.name}' is '{text}', which is no size of a file"
        )
    return int(text)


def _flat(tensor: onnx.TensorProto, data: bytes | memoryview, dtype: numpy.dtype) -> numpy.ndarray:
    if len(data) % dtype.itemsize:
        raise popart_exception(
            f"tensor '{tensor.name}' has {len(data)} bytes, which is no number of elements of {dtype.itemsize} bytes"
        )
    return numpy.frombuffer(data, dtype)


def attribute(name: str, kind: onnx.AttributeProto.AttributeType, value: Any) -> onnx.AttributeProto:
    """An attribute of a given kind, also where a list is empty and its kind could not be guessed."""
    made = onnx.AttributeProto()
    made.name, made.type = name, kind
    if kind == Attribute.INT:
        made.i = value
    elif kind == Attribute.FLOAT:
        made.f = value
    elif kind == Attribute.STRING:
        made.s = value.encode()
    elif kind == Attribute.INTS:
        made.ints.extend(value)
    elif kind == Attribute.FLOATS:
        made.floats.extend(value)
    elif kind == Attribute.STRINGS:
        made.strings.extend(text.encode() for text in value)
    elif kind == Attribute.TENSOR:
        made.t.CopyFrom(value)
    elif kind == Attribute.GRAPH:
        made.g.CopyFrom(value)
    else:
        raise popart_exception(f"attribute '{name}' is of kind {kind}, which the builder does not make")
    return made


def value_of(attribute: onnx.AttributeProto) -> Any:
    """Numbers, text, lists of these; tensors and graphs as messages."""
    kind = attribute.type
    if kind == Attribute.INT:
        return attribute.i
    if kind == Attribute.FLOAT:
        return attribute.f
    if kind == Attribute.STRING:
        return attribute.s.decode()
    if kind == Attribute.INTS:
        return list(attribute.ints)
    if kind == Attribute.FLOATS:
        return list(attribute.floats)
    if kind == Attribute.STRINGS:
        return [text.decode() for text in attribute.strings]
    return attribute.t if kind == Attribute.TENSOR else attribute.g


def values_of(node: onnx.NodeProto) -> dict[str, Any]:
    return {attribute.name: value_of(attribute) for attribute in node.attribute}
