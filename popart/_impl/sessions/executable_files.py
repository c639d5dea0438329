"""Files of compiled programs. The suffix is popef; the container is ours (docs/file-format.md), not Graphcore's PopEF."""

from __future__ import annotations

import hashlib
import os
from typing import Any

import numpy

import ipu_core
from popart._impl import files
from popart._impl.enums import DeviceType
from popart._impl.exceptions import popart_exception, popart_runtime_error

_TYPES = {
    "float32": "F32",
    "float16": "F16",
    "float64": "F64",
    "int8": "I8",
    "uint8": "U8",
    "int16": "I16",
    "uint16": "U16",
    "int32": "I32",
    "uint32": "U32",
    "int64": "I64",
    "uint64": "U64",
    "bool": "BOOL",
}
_NAMES = {name: dtype for dtype, name in _TYPES.items()}
_PROGRAM = "frontend.popart.program"  # digest of the program before compiling
_IPUS = "frontend.popart.ipus"
_INFO = "frontend.popart.metadata"


def check_exportable(device: Any, what: str) -> None:
    """Raises popart_exception for a device whose programs are not compiled to files."""
    if device.type not in (DeviceType.Ipu, DeviceType.OfflineIpu):
        raise popart_exception(
            f"{what}: programs for {device!r} cannot be exported; only those for IPUs and offline IPUs are compiled to files"
        )


def target_path(path: Any, name: str) -> str:
    """`path` with "~" expanded and its folders made; a file called `name` in it where it is a folder.

    Raises:
        OSError: it cannot be written.
    """
    text = os.path.expanduser(os.fspath(path))
    if os.path.isdir(text) or text.endswith(os.sep):
        text = os.path.join(text, name)
    folder = os.path.dirname(os.path.abspath(text))
    files.make_folder(folder, f"the file '{text}'")
    makedirsAndCheckWritable(folder)
    return text


def makedirsAndCheckWritable(path: str) -> None:
    """Makes a folder and those above it. Raises OSError where it cannot be written."""
    os.makedirs(path, exist_ok=True)
    if not os.access(path, os.W_OK):
        raise OSError(f"the folder '{path}' cannot be written")


def digest(program: Any) -> str:
    return hashlib.sha256(program.text().encode()).hexdigest()


def save(
    native: Any, program: Any, device: Any, path: str, arrays: dict[str, numpy.ndarray], info: dict[str, str]
) -> None:
    """`native`: the compiled session; None: a file of arrays alone."""
    metadata = {_PROGRAM: digest(program), _IPUS: str(device.numIpus)}
    metadata |= {f"{_INFO}.{key}": value for key, value in info.items()}
    typed = {
        name: (_TYPES[value.dtype.name], numpy.ascontiguousarray(value).reshape(value.shape))
        for name, value in arrays.items()
    }
    try:
        ipu_core._native.save_executable(native, os.fsencode(path), metadata, typed)
    except ipu_core.Error as error:
        raise popart_runtime_error(str(error)) from error


def load(path: Any, program: Any) -> Any:
    """The file of a program.

    Raises:
        popart_exception: there is no such file, it is damaged, or it holds another program.
    """
    text = os.path.expanduser(os.fspath(path))
    if not os.path.isfile(text):
        raise popart_exception(f"no executable: there is no file '{text}'")
    try:
        file = ipu_core._native.ExecutableFile(os.fsencode(text))
    except ipu_core.Error as error:
        raise popart_exception(f"no executable: {error}") from error
    if file.metadata.get(_PROGRAM) != digest(program):
        raise popart_exception(
            f"the file '{text}' holds the executable of another model, of other options or of another optimizer: make the "
            "session as the one that wrote the file, or compile again"
        )
    return file


def arrays_of(file: Any) -> dict[str, numpy.ndarray]:
    return {
        name: numpy.frombuffer(data, _NAMES[dtype]).reshape(shape).copy()
        for name, (dtype, shape, data) in file.arrays().items()
    }
