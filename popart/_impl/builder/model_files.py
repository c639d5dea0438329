"""Reading, checking and writing ONNX models, and data that are kept beside them."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from typing import Any

import onnx
import onnx.checker
from google.protobuf.message import DecodeError

from popart._impl import files
from popart._impl.builder import allowances, external_files, protos
from popart._impl.exceptions import popart_exception

FIRST_OPSET, LAST_OPSET, DEFAULT_OPSET = 6, 11, 10


def domain_name(domain: str) -> str:
    """ "ai.onnx" and "" are one domain, which models write as ""."""
    return "" if domain == "ai.onnx" else domain


def load(model: bytes | str | os.PathLike, checked: bool = True) -> tuple[onnx.ModelProto, bytes]:
    """A model and its bytes, from bytes or from the file of this name.

    Args:
        checked: whether the ONNX checker looks at it. Sessions ask only what they can build.

    Raises:
        popart_exception: these bytes are no model, there is no such file, the version of ai.onnx is not one of 6 to 11, or
            data of the model lie outside of its folder and of the working directory.
        RuntimeError: the ONNX checker refuses the model, or a file of external data is not there.
    """
    data, source, folder = bytes_of(model)
    return parsed(data, source, folder, checked), data


def parsed(data: bytes, source: str, folder: str | None, checked: bool) -> onnx.ModelProto:
    """The model of these bytes; arguments as `bytes_of` gives them, errors of `load`."""
    proto = onnx.ModelProto()
    try:
        proto.ParseFromString(data)
    except DecodeError as error:
        raise popart_exception(f"{source} is no ONNX model: {error}") from error
    if not proto.ir_version and not proto.HasField("graph"):
        raise popart_exception(f"{source} is no ONNX model: it holds no graph")
    from ipu_core.onnx_files import texts_that_are_none  # not with popart, which loads no compiler

    for what, text in texts_that_are_none(proto):
        raise popart_exception(f"{source} is no ONNX model: a {what} in it is {text!r}, which is no UTF-8")
    check_versions(proto, source)
    if checked:
        check(proto)
    external_files.check(proto.graph, folder)
    return proto


def bytes_of(model: bytes | str | os.PathLike) -> tuple[bytes, str, str | None]:
    """The bytes, what they are for messages, and the folder of their file if they have one."""
    if isinstance(model, bytes) and b"\0" not in model and len(model) < 4096 and os.path.isfile(model):
        model = os.fsdecode(model)
    if isinstance(model, bytes):
        return model, f"a value of {len(model)} bytes", None
    name = os.fspath(model)
    if "\0" not in name and os.path.isfile(name):
        try:
            with open(name, "rb") as file:
                return file.read(), f"file '{name}'", os.path.dirname(os.path.abspath(name))
        except OSError as error:
            raise popart_exception(f"file '{name}' cannot be read: {error}") from error
    try:
        shown = name if len(name) < 200 else name[:200] + "..."
        return name.encode("latin-1"), f"'{shown}', which is no file,", None
    except UnicodeEncodeError as error:
        raise popart_exception(f"'{name}' is neither a file nor an ONNX model") from error


def check_versions(proto: onnx.ModelProto, source: str) -> None:
    for entry in proto.opset_import:
        if domain_name(entry.domain) == "" and not FIRST_OPSET <= entry.version <= LAST_OPSET:
            raise popart_exception(
                f"{source} is of opset {entry.version} of ai.onnx; versions {FIRST_OPSET} to {LAST_OPSET} can be read, "
                f"and {DEFAULT_OPSET} is the default. Convert it with onnx.version_converter"
            )


def check(proto: onnx.ModelProto) -> None:
    """The ONNX checker. Raises RuntimeError with what it says."""
    copy = onnx.ModelProto()
    copy.CopyFrom(proto)
    _drop_data(copy.graph)
    _shorten_domains(copy)
    opset = next((entry.version for entry in proto.opset_import if domain_name(entry.domain) == ""), 0)
    allowances.apply(copy.graph, opset)
    try:
        onnx.checker.check_model(copy)
    except (onnx.checker.ValidationError, UnicodeDecodeError) as error:  # the latter where its text quotes odd bytes
        raise RuntimeError(f"the ONNX checker refuses the model: {_culprit(copy, str(error))}{error}") from error


def _culprit(proto: onnx.ModelProto, message: str) -> str:
    """Whose type or data the checker has that message for, where it does not say so: "output 'y': "."""
    graph = proto.graph
    for kind, parts, check_part in (
        ("input", graph.input, onnx.checker.check_value_info),
        ("output", graph.output, onnx.checker.check_value_info),
        ("initialiser", graph.initializer, onnx.checker.check_tensor),
    ):
        for part in parts:
            try:
                check_part(part)
            except (onnx.checker.ValidationError, UnicodeDecodeError) as error:
                if message.startswith(str(error).splitlines()[0]):
                    return f"{kind} '{part.name}': "
    return ""


def _shorten_domains(model: onnx.ModelProto) -> None:
    """The checker knows ai.onnx as "" alone; a model may name it either way for its nodes and for its version."""
    versions = {(domain_name(entry.domain), entry.version): None for entry in model.opset_import}
    del model.opset_import[:]
    for domain, version in versions:
        model.opset_import.add(domain=domain, version=version)
    graphs = [model.graph]
    while graphs:
        for node in graphs.pop().node:
            node.domain = domain_name(node.domain)
            graphs.extend(attribute.g for attribute in node.attribute if attribute.HasField("g"))


def _drop_data(graph: onnx.GraphProto) -> None:
    """The checker knows one layout of small elements alone, and paths below the folder of the model alone: sizes and files are
    checked by those who read the data."""
    for tensor in graph.initializer:
        _make_empty(tensor)
    for node in graph.node:
        for attribute in node.attribute:
            if attribute.type == protos.Attribute.GRAPH:
                _drop_data(attribute.g)
            elif attribute.type == protos.Attribute.TENSOR:
                _make_empty(attribute.t)


def _make_empty(tensor: onnx.TensorProto) -> None:
    if tensor.data_type == protos.Tensor.UNDEFINED or tensor.HasField("segment"):
        return  # left to the checker
    if tensor.data_type == protos.Tensor.STRING and protos.element_count(tensor):
        return
    protos.clear_data(tensor)
    del tensor.dims[:]
    tensor.dims.append(0)


def save(proto: onnx.ModelProto, data: Callable[[], bytes], filename: str) -> None:
    check(proto)
    try:
        files.write(filename, data())
    except OSError as error:
        raise popart_exception(f"the model cannot be written to '{filename}': {error}") from error


def externalise(graph: onnx.GraphProto, ids: Sequence[str], filename: str) -> None:
    """Moves the data of these initialisers to one file, one after another in this order."""
    folder = os.path.dirname(filename)
    if folder and not os.path.isdir(folder):
        raise popart_exception(f"the folder '{folder}' of '{filename}' is not there")
    try:
        filename.encode()
    except UnicodeEncodeError as error:
        raise popart_exception(f"{filename!r} is no UTF-8, which names of files in an ONNX model are") from error
    known = {tensor.name: tensor for tensor in graph.initializer}
    parts: list[tuple[Any, bytes]] = []
    for id in ids:
        if id not in known:
            raise popart_exception(f"'{id}' is no initialiser; these are: {', '.join(sorted(known)) or 'none'}")
        if protos.is_external(known[id]) or any(known[id] is tensor for tensor, _ in parts):
            raise popart_exception(f"the data of '{id}' are already external")
        data = protos.to_array(known[id]).tobytes()
        if not data:
            raise popart_exception(f"the initialiser '{id}' has no data")
        parts.append((known[id], data))
    offset = 0
    try:
        files.check_target(filename)
        with open(filename, "wb") as file:
            for _, data in parts:
                file.write(data)
    except OSError as error:
        raise popart_exception(f"the data cannot be written to '{filename}': {error}") from error
    external_files.name(filename)
    for tensor, data in parts:
        protos.clear_data(tensor)
        tensor.data_location = protos.Tensor.EXTERNAL
        for key, value in (("location", filename), ("offset", offset), ("length", len(data))):
            entry = tensor.external_data.add()
            entry.key, entry.value = key, str(value)
        offset += len(data)
