"""Which line of the user's program made what: contexts in memory, and the file of initializePoplarDebugInfo."""

from __future__ import annotations

import itertools
import json
import os
import sys
from typing import Any

from popart._impl import files
from popart._impl.exceptions import popart_exception

_ROOTS = tuple(
    os.path.dirname(os.path.dirname(os.path.dirname(os.path.abspath(__file__)))) + os.sep + package + os.sep
    for package in ("popart", "popxl")
)


class SourceLocation:
    """A function, its file, and a line."""

    def __init__(self, functionName: str, fileName: str, lineNumber: int) -> None:
        self.functionName, self.fileName, self.lineNumber = functionName, fileName, lineNumber


def user_location(skip: int = 0) -> SourceLocation:
    """The innermost frame outside popart and popxl, after `skip` more frames."""
    frame = sys._getframe(1)
    while frame.f_back is not None and (frame.f_code.co_filename.startswith(_ROOTS) or skip > 0):
        skip -= not frame.f_code.co_filename.startswith(_ROOTS)
        frame = frame.f_back
    return SourceLocation(frame.f_code.co_name, os.path.realpath(frame.f_code.co_filename), frame.f_lineno)


class _Recording:
    """The contexts made since initializePoplarDebugInfo, and their names and places."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.contexts: list[dict[str, Any]] = []
        self.strings: dict[str, int] = {}
        self.open: dict[int, dict[str, Any]] = {}  # contexts that have not ended, by id

    def index(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))


_recording = _Recording()
_ids = itertools.count(1)


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:
    """From here on contexts are recorded. Raises popart_exception for a format other than "json"."""
    if format != "json":
        raise popart_exception(f"debug information is written as 'json', not as '{format}'")
    _recording.__init__()  # type: ignore[misc]
    _recording.path = str(filename)


def closePoplarDebugInfo() -> None:
    """Writes the file: `contexts`, those that have not ended last, and `stringTable`."""
    if _recording.path is not None:
        _recording.contexts += reversed(_recording.open.values())
        content = {"contexts": _recording.contexts, "stringTable": list(_recording.strings)}
        files.write(_recording.path, json.dumps(content))
        _recording.__init__()  # type: ignore[misc]


def is_recording() -> bool:
    return _recording.path is not None


def record(
    layer: str, values: dict[str, Any], name: str = "", parent: int = 0, location: SourceLocation | None = None
) -> int:
    """Adds a context with these values (texts, numbers, lists and dictionaries of them) while contexts are recorded; returns its id, else 0."""
    if _recording.path is None:
        return 0
    context = _context(layer, name, parent, location or user_location()) | values
    _recording.contexts.append(context)
    return int(context["id"])


def _context(layer: str, name: str, parent: int, where: SourceLocation) -> dict[str, Any]:
    """Names of contexts, files and functions are indices into the table; all other texts are themselves."""
    index = _recording.index
    place = {
        "functionName": index(where.functionName),
        "fileName": index(where.fileName),
        "lineNumber": where.lineNumber,
    }
    return {"id": next(_ids), "parentId": parent, "name": index(name), "layer": layer, "location": place}


class DebugContext:
    """A name and a place: (), (name), (name, location), (debugInfo, name[, location]). A str stands for one."""

    def __init__(self, *values: Any) -> None:
        self.parent: int = values[0].getId() if values and isinstance(values[0], DebugInfo) else 0
        rest = values[1:] if self.parent or values and isinstance(values[0], DebugInfo) else values
        self.name: str = rest[0] if rest else ""
        self.location: SourceLocation = rest[1] if len(rest) > 1 else user_location()

    def getPathName(self) -> str:
        return self.name


class DebugInfo:
    """A context that is written to the file when it ends, after those inside it, with texts of its own."""

    def __init__(self, debugContext: Any = "", layer: str = "popart") -> None:
        context = debugContext if isinstance(debugContext, DebugContext) else DebugContext(debugContext)
        self._context, self._layer = context, layer
        if _recording.path is None:
            self._id = next(_ids)
            return
        made = _context(layer, context.name, context.parent, context.location)
        self._id = made["id"]
        _recording.open[self._id] = made

    def setValue(self, name: str, value: str) -> None:
        if self._id in _recording.open:
            _recording.open[self._id][name] = str(value)

    def getId(self) -> int:
        return self._id

    def __del__(self) -> None:
        if (context := _recording.open.pop(self._id, None)) is not None:
            _recording.contexts.append(context)


def builder_id(context: DebugContext | str, values: dict[str, Any]) -> int:
    """The id of a call of a builder; the call is recorded while contexts are."""
    if not isinstance(context, DebugContext):
        return record("popartbuilder", values, context) if is_recording() else next(_ids)
    return record("popartbuilder", values, context.name, context.parent, context.location) or next(_ids)


class ProfileValue:
    """A value of a context: text, number, list or dict."""

    def __init__(self, value: Any = "") -> None:
        self.value = value
