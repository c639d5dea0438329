"""Which line of the user's program made what: contexts of debug information, kept while somebody wants them."""

from __future__ import annotations

import itertools
import os
import sys
from typing import Any

_ROOTS = tuple(
    os.path.dirname(os.path.dirname(os.path.abspath(__file__))) + os.sep + package + os.sep
    for package in ("ipu_common", "popart", "popxl")
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


class Recording:
    """The contexts made since initializePoplarDebugInfo, and their names and places."""

    def __init__(self) -> None:
        self.path: str | None = None
        self.contexts: list[dict[str, Any]] = []
        self.strings: dict[str, int] = {}
        self.open: dict[int, dict[str, Any]] = {}  # contexts that have not ended, by id

    def index(self, text: str) -> int:
        return self.strings.setdefault(text, len(self.strings))


recording = Recording()
new_id = itertools.count(1).__next__


def is_recording() -> bool:
    return recording.path is not None


def record(
    layer: str, values: dict[str, Any], name: str = "", parent: int = 0, location: SourceLocation | None = None
) -> int:
    """Adds a context with these values (texts, numbers, lists and dictionaries of them) while contexts are recorded; returns its id, else 0."""
    if recording.path is None:
        return 0
    context = new_context(layer, name, parent, location or user_location()) | values
    recording.contexts.append(context)
    return int(context["id"])


def new_context(layer: str, name: str, parent: int, where: SourceLocation) -> dict[str, Any]:
    """Names of contexts, files and functions are indices into the table; all other texts are themselves."""
    index = recording.index
    place = {
        "functionName": index(where.functionName),
        "fileName": index(where.fileName),
        "lineNumber": where.lineNumber,
    }
    return {"id": new_id(), "parentId": parent, "name": index(name), "layer": layer, "location": place}
