"""The model of a session with the values that its variables have now, as a file."""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import numpy

from popart._impl import files
from popart._impl.exceptions import popart_runtime_error

if TYPE_CHECKING:
    import onnx

_UNSAVED = ("Accum___", "Counter___")  # states that hold nothing between two steps


def saved_states(states: list[str]) -> list[str]:
    """Those that a saved model holds, in order."""
    return sorted(name for name in states if not name.startswith(_UNSAVED))


class SavedModel:
    """The model that a session was made of: its bytes, and where tensors of other files lie."""

    def __init__(self, data: bytes) -> None:
        self.data = data

    def bytes_with(self, values: Mapping[str, numpy.ndarray], states: Mapping[str, numpy.ndarray]) -> bytes:
        """The model with other values of its initialisers, and states appended. Values of tensors that lie in files of
        their own are written there.

        Args:
            values: by name, as the model holds them.
            states: those that the model may not have yet, in order.

        Raises:
            popart_runtime_error: a file cannot be opened.
        """
        if not values and not states:
            return self.data
        import onnx

        model = onnx.ModelProto()
        model.ParseFromString(self.data)
        names = {tensor.name for tensor in model.graph.initializer}
        files: dict[str, str] = {}
        for tensor in model.graph.initializer:
            if tensor.external_data:
                files[tensor.name] = _entries(tensor)["location"]
            value = states.get(tensor.name, values.get(tensor.name))
            if value is not None:
                _store(tensor, value)
        for name, value in states.items():
            if name not in names:
                tensor = model.graph.initializer.add()
                tensor.name, tensor.data_type = name, onnx.helper.np_dtype_to_tensor_dtype(value.dtype)
                tensor.dims.extend(value.shape)
                _append(tensor, value, files.get(name.split("___", 1)[-1]))
        return model.SerializeToString()

    def with_states_of(self, data: bytes) -> None:
        """References of states that `bytes_with` appended to files: the next time they are written in place."""
        import onnx

        mine, written = onnx.ModelProto(), onnx.ModelProto()
        mine.ParseFromString(self.data)
        written.ParseFromString(data)
        known = {tensor.name for tensor in mine.graph.initializer}
        added = [t for t in written.graph.initializer if t.name not in known and t.external_data]
        if added:
            mine.graph.initializer.extend(added)
            self.data = mine.SerializeToString()

    def move(self, source: str, target: str) -> None:
        """Copies the tensors of one file to another, to which the model refers from now on.

        Raises:
            popart_runtime_error: the new file is there, the old one is not, or no initialiser lies in it.
        """
        import onnx

        if os.path.exists(target):
            raise popart_runtime_error(f"the file '{target}' exists already: tensors are moved to a new one")
        if not os.path.isfile(source):
            raise popart_runtime_error(f"the file '{source}', from which tensors are to be moved, does not exist")
        model = onnx.ModelProto()
        model.ParseFromString(self.data)
        found = [t for t in model.graph.initializer if t.external_data and _entries(t)["location"] == source]
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
        self.data = model.SerializeToString()


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


def _append(tensor: onnx.TensorProto, value: numpy.ndarray, location: str | None) -> None:
    if location is None:
        return _fill(tensor, value)
    with _open(location, "ab") as file:
        begin = file.tell()
        data = numpy.ascontiguousarray(value).tobytes()
        file.write(data)
    _refer(tensor, location, begin, len(data))


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
