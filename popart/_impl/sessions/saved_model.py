"""The model of a session with the values that its variables have now, as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from popart._impl import files
from popart._impl.builder import tensor_data
from popart._impl.exceptions import popart_runtime_error

if TYPE_CHECKING:
    import onnx

    from popart._impl.sessions.model import Model

_REALS = {"float32": tensor_data.FLOATS, "float64": tensor_data.DOUBLES}  # fields of elements that lie as in memory
_UNSAVED = ("Accum___", "Counter___")  # states that hold nothing between two steps


def saved_states(states: list[str]) -> list[str]:
    """Those that a saved model holds, in order."""
    return sorted(name for name in states if not name.startswith(_UNSAVED))


class SavedModel:
    """The model that a session was made of: its bytes, and where its tensors lie in them or in other files."""

    def __init__(self, model: Model) -> None:
        self._data = model.data
        self._is_as_given = True
        self._proto = type(model.proto)()
        self._proto.CopyFrom(model.proto)
        # Of initialisers whose elements are not in the proto: the field of the elements, and the model's own ones.
        self._apart: dict[int, tuple[int, Any]] = {
            number: (place.field, memoryview(model.data)[place.begin : place.end])
            for number, place in model.places.items()
        }

    def parts(self, values: Mapping[str, numpy.ndarray], states: Mapping[str, numpy.ndarray]) -> list[Any]:
        """The bytes of the model with other values of its initialisers, and states appended, as a row of buffers. Values of
        tensors that lie in files of their own are written there.

        Args:
            values: by name, as the model holds them.
            states: those that the model may not have yet, in order.

        Raises:
            popart_runtime_error: a file cannot be opened.
        """
        if not values and not states and self._is_as_given:
            return [self._data]
        import onnx.helper

        self._is_as_given = False
        initialisers = self._proto.graph.initializer
        files = {tensor.name: _entries(tensor)["location"] for tensor in initialisers if tensor.external_data}
        apart = dict(self._apart)
        known = set()
        for number, tensor in enumerate(initialisers):
            known.add(tensor.name)
            value = states.get(tensor.name, values.get(tensor.name))
            if value is None:
                continue
            if number in apart:
                apart[number] = apart[number][0], _buffer(value)
            else:
                _store(tensor, value)
        for name, value in states.items():
            if name in known:
                continue
            tensor = onnx.TensorProto(
                name=name, data_type=onnx.helper.np_dtype_to_tensor_dtype(value.dtype), dims=value.shape
            )
            location = files.get(name.split("___", 1)[-1])
            if location is not None:
                _append(tensor, value, location)
            elif value.dtype.name in _REALS:
                apart[len(initialisers)] = _REALS[value.dtype.name], _buffer(value)
                self._apart[len(initialisers)] = _REALS[value.dtype.name], b""
            else:
                _fill(tensor, value)
            initialisers.append(tensor)
        return tensor_data.join(self._proto.SerializeToString(), apart)

    def move(self, source: str, target: str) -> None:
        """Copies the tensors of one file to another, to which the model refers from now on.

        Raises:
            popart_runtime_error: the new file is there, the old one is not, or no initialiser lies in it.
        """
        if os.path.exists(target):
            raise popart_runtime_error(f"the file '{target}' exists already: tensors are moved to a new one")
        if not os.path.isfile(source):
            raise popart_runtime_error(f"the file '{source}', from which tensors are to be moved, does not exist")
        found = [t for t in self._proto.graph.initializer if t.external_data and _entries(t)["location"] == source]
        if not found:
            raise popart_runtime_error(f"no initialiser of the model lies in the file '{source}'")
        with open(source, "rb") as old, open(target, "wb") as new:
            for tensor in found:
                entries = _entries(tensor)
                old.seek(int(entries.get("offset", "0")))
                begin = new.tell()
                data = old.read(int(entries["length"])) if "length" in entries else old.read()
                new.write(data)
                _refer(tensor, target, begin, len(data))
        self._is_as_given = False


def _entries(tensor: onnx.TensorProto) -> dict[str, str]:
    return {entry.key: entry.value for entry in tensor.external_data}


def _refer(tensor: onnx.TensorProto, location: str, offset: int, length: int) -> None:
    del tensor.external_data[:]
    tensor.data_location = type(tensor).EXTERNAL
    for key, value in (("location", location), ("offset", str(offset)), ("length", str(length))):
        entry = tensor.external_data.add()
        entry.key, entry.value = key, value


def _open(path: str, mode: str) -> Any:
    files.check_target(path, popart_runtime_error)
    try:
        return open(path, mode)
    except OSError as error:
        raise popart_runtime_error(f"the file '{path}' of the model's tensors cannot be opened: {error}") from error


def _store(tensor: onnx.TensorProto, value: numpy.ndarray) -> None:
    """In the field that held the values, or in the tensor's file."""
    if tensor.external_data:
        entries = _entries(tensor)
        with _open(entries["location"], "r+b") as file:
            file.seek(int(entries.get("offset", "0")))
            file.write(numpy.ascontiguousarray(value).tobytes())
    elif tensor.HasField("raw_data"):
        tensor.raw_data = numpy.ascontiguousarray(value).tobytes()
    else:
        _fill(tensor, value)


def _append(tensor: onnx.TensorProto, value: numpy.ndarray, location: str) -> None:
    with _open(location, "ab") as file:
        begin = file.tell()
        data = numpy.ascontiguousarray(value).tobytes()
        file.write(data)
    _refer(tensor, location, begin, len(data))


def _buffer(value: numpy.ndarray) -> memoryview:
    return numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8).data


def _fill(tensor: onnx.TensorProto, value: numpy.ndarray) -> None:
    """In the field of the type: numbers as they are, those of 8 and 16 bits packed byte by byte into 32-bit ones."""
    flat = numpy.ascontiguousarray(value).reshape(-1)
    fields = {"float32": "float_data", "int32": "int32_data", "float64": "double_data", "int64": "int64_data"}
    field = fields.get(flat.dtype.name)
    if field is None and flat.dtype.name in ("uint32", "uint64"):
        field = "uint64_data"
        flat = _packed(flat, numpy.uint64)
    elif field is None:
        field, flat = "int32_data", _packed(flat, numpy.int32)
    tensor.ClearField(field)
    getattr(tensor, field).extend(flat.tolist())


def _packed(flat: numpy.ndarray, dtype: Any) -> numpy.ndarray:
    data = flat.tobytes()
    size = numpy.dtype(dtype).itemsize
    return numpy.frombuffer(data + bytes(-len(data) % size), dtype)
