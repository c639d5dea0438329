"""Reading the bytes of an ONNX model: whatever is wrong with them is an `Error` of this package."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from ipu_core._native import Error

if TYPE_CHECKING:
    import onnx


def read_model(model: onnx.ModelProto | bytes | str | os.PathLike) -> tuple[onnx.ModelProto, str]:
    """A model with the tensors that lie beside its file, and what messages call it.

    Raises:
        Error: there is no such regular file, or it holds no model; a text is no UTF-8; a tensor beside it cannot be read.
    """
    import onnx

    if isinstance(model, onnx.ModelProto):
        source = "<model>"
    elif isinstance(model, bytes):
        source = "<model>"
        model = _parsed(model, "", source)
    else:
        try:
            source = os.fspath(model)
            source = os.fsdecode(source)
        except TypeError as error:
            raise Error(
                f"no model: {type(model).__name__} is neither a model, nor bytes, nor the name of a file."
            ) from error
        model = _parsed(_bytes_of_file(source), source, source)
        _read_tensors_beside(model, source)
    for what, text in texts_that_are_none(model):
        raise Error(f"unsupported model: {source} has {text!r} in a field '{what}', which is no UTF-8.")
    return model, source


def _bytes_of_file(path: str) -> bytes:
    """A regular file alone: a pipe would be waited for, and a device has no end."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            if stat.S_ISREG(os.fstat(descriptor).st_mode):
                return file.read()
    except IsADirectoryError:
        pass
    except (OSError, ValueError) as error:  # the latter for a name with a zero in it
        why = error.strerror if isinstance(error, OSError) else str(error)
        raise Error(f"cannot read file [IPU-E504]: {path}: {why}.") from error
    raise Error(f"cannot read file [IPU-E504]: {path}: not a regular file.")


def _parsed(data: bytes, path: str, source: str) -> onnx.ModelProto:
    """The end of a file's name says how it is written, as for `onnx.load`."""
    import onnx
    import onnx.serialization

    form = onnx.serialization.registry.get_format_from_file_extension(os.path.splitext(path)[1])
    try:
        return onnx.load_model_from_string(data, format=form or "protobuf")
    except Exception as error:  # each form has exceptions of its own
        raise Error(f"unsupported model: {source} is no ONNX model: {error}.") from error


def _read_tensors_beside(model: onnx.ModelProto, path: str) -> None:
    import onnx.external_data_helper

    try:
        onnx.external_data_helper.load_external_data_for_model(model, os.path.dirname(path))
    except Exception as error:  # onnx looks at names, links, sizes and positions
        raise Error(f"unsupported model: the tensors beside {path} cannot be read: {error}.") from error


def texts_that_are_none(message: Any) -> Iterator[tuple[str, bytes]]:
    """Texts of a message, and of those inside it, that are not UTF-8, with the names of their fields: protobuf gives bytes."""
    for field, value in message.ListFields():
        is_repeated = hasattr(value, "__len__") and not isinstance(value, (str, bytes))
        if field.message_type is not None:
            for inner in value if is_repeated else (value,):
                yield from texts_that_are_none(inner)
        elif field.type == field.TYPE_STRING:
            for text in value if is_repeated else (value,):
                if isinstance(text, bytes):
                    yield field.name, text
