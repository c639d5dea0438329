"""A model as a session takes it: read, completed with shapes, and turned into node records."""

from __future__ import annotations

import os
from collections.abc import Collection, Mapping
from typing import TYPE_CHECKING, Any

import numpy

import ipu_core
from popart._impl.exceptions import popart_exception
from popart._impl.sessions.errors import as_popart

if TYPE_CHECKING:
    import onnx

    from popart._impl.data_flow import InputShapeInfo

OPSETS = range(6, 12)


def read_model(source: Any) -> tuple[onnx.ModelProto, bytes]:
    """A model from bytes or from a file, and the bytes as they were given.

    Raises:
        popart_exception: neither is a model; its opset of ai.onnx is none of 6 to 11.
        RuntimeError: a tensor lies in a file that is not there, the model breaks rules of ONNX.
    """
    import onnx
    from google.protobuf.message import DecodeError

    text = os.fsdecode(source) if isinstance(source, (str, os.PathLike)) else None
    if text is not None:
        if not os.path.isfile(text):
            raise popart_exception(f"no model: there is no file '{text}'")
        with open(text, "rb") as file:
            data = file.read()
    else:
        data = bytes(source)
    model = onnx.ModelProto()
    try:
        model.ParseFromString(data)
    except DecodeError as error:
        raise popart_exception(
            f"no model: {text or f'{len(data)} bytes'} cannot be read as an ONNX ModelProto"
        ) from error
    if not model.HasField("graph"):
        raise popart_exception(f"no model: {text or f'{len(data)} bytes'} holds no graph")
    for opset in model.opset_import:
        if opset.domain in ("", "ai.onnx") and opset.version not in OPSETS:
            raise popart_exception(
                f"the model uses opset {opset.version} of ai.onnx; there are {OPSETS.start} to {OPSETS.stop - 1}, 10 unless a "
                "program asks for another"
            )
    return model, data


def load_external(model: onnx.ModelProto) -> None:
    """Reads the tensors that lie in files of their own into the model. Raises RuntimeError where a file is not there."""
    for tensor in model.graph.initializer:
        if tensor.data_location != tensor.EXTERNAL:
            continue
        entries = {entry.key: entry.value for entry in tensor.external_data}
        location = entries.get("location", "")
        if not os.path.isfile(location):
            raise RuntimeError(f"the data of '{tensor.name}' should be in the file '{location}', which does not exist")
        with open(location, "rb") as file:
            file.seek(int(entries.get("offset", "0")))
            data = file.read(int(entries["length"])) if "length" in entries else file.read()
        if "length" in entries and len(data) != int(entries["length"]):
            raise RuntimeError(
                f"the data of '{tensor.name}' should be {entries['length']} bytes of the file '{location}' from "
                f"{entries.get('offset', '0')} on, and there are {len(data)}"
            )
        tensor.raw_data = data
        tensor.data_location = tensor.DEFAULT
        del tensor.external_data[:]


def unpack(tensor: onnx.TensorProto) -> None:
    """Numbers of 8 and 16 bits that are packed byte for byte into `int32_data` become raw data."""
    import onnx

    count = int(numpy.prod(tensor.dims, dtype=numpy.int64))
    packed = len(tensor.int32_data)
    if not packed or packed == count:
        return
    size = numpy.dtype(onnx.helper.tensor_dtype_to_np_dtype(tensor.data_type)).itemsize
    if packed == -(-count * size // 4):
        raw = numpy.array(tensor.int32_data, numpy.int32).tobytes()[: count * size]
        del tensor.int32_data[:]
        tensor.raw_data = raw


def set_input_shapes(model: onnx.ModelProto, shapes: InputShapeInfo) -> None:
    """What a session is told of the inputs' shapes and types wins over what the model says."""
    import onnx

    for value in model.graph.input:
        if not shapes.has(value.name):
            continue
        info = shapes.get(value.name)
        value.type.tensor_type.elem_type = onnx.TensorProto.DataType.Value(info.data_type())
        value.type.tensor_type.shape.ClearField("dim")
        for size in info.shape():
            value.type.tensor_type.shape.dim.add().dim_value = size


def records(
    model: onnx.ModelProto,
    trained: Collection[str],
    variables: Collection[str],
    groupings: Mapping[str, tuple[int, int, bool, bool]],
) -> dict[str, Any]:
    """The node records of a model.

    Args:
        trained: initialisers that an optimizer updates.
        variables: initialisers that only the host changes.
        groupings: stride, group size, whether all replicas are read, whether the value has one part for each group.
    """
    try:
        read = ipu_core.read_onnx(model, trained=trained)
    except ipu_core.Error as error:
        raise as_popart(error) from error
    read["dialect"] = "popart"
    read["graph"]["variables"] = sorted(variables)
    read["graph"]["groupings"] = dict(groupings)
    return read
