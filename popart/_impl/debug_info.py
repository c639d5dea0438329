"""Contexts of debug information as users make them, and the file of initializePoplarDebugInfo."""

from __future__ import annotations

import json
from typing import Any

from ipu_common.debug_contexts import (
    SourceLocation as SourceLocation,
    is_recording,
    new_context,
    new_id,
    record,
    recording,
    user_location,
)
from popart._impl import files
from popart._impl.exceptions import popart_exception


def initializePoplarDebugInfo(filename: str, format: str = "json") -> None:
    """From here on contexts are recorded. Raises popart_exception for a format other than "json"."""
    if format != "json":
        raise popart_exception(f"debug information is written as 'json', not as '{format}'")
    recording.__init__()  # type: ignore[misc]
    recording.path = str(filename)


def closePoplarDebugInfo() -> None:
    """Writes the file: `contexts`, those that have not ended last, and `stringTable`."""
    if recording.path is not None:
        recording.contexts += reversed(recording.open.values())
        content = {"contexts": recording.contexts, "stringTable": list(recording.strings)}
        files.write(recording.path, json.dumps(content))
        recording.__init__()  # type: ignore[misc]


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
        if recording.path is None:
            self._id = new_id()
            return
        made = new_context(layer, context.name, context.parent, context.location)
        self._id = made["id"]
        recording.open[self._id] = made

    def setValue(self, name: str, value: str) -> None:
        if self._id in recording.open:
            recording.open[self._id][name] = str(value)

    def getId(self) -> int:
        return self._id

    def __del__(self) -> None:
        if (context := recording.open.pop(self._id, None)) is not None:
            recording.contexts.append(context)


def builder_id(context: DebugContext | str, values: dict[str, Any]) -> int:
    """The id of a call of a builder; the call is recorded while contexts are."""
    if not isinstance(context, DebugContext):
        return record("popartbuilder", values, context) if is_recording() else new_id()
    return record("popartbuilder", values, context.name, context.parent, context.location) or new_id()


class ProfileValue:
    """A value of a context: text, number, list or dict."""

    def __init__(self, value: Any = "") -> None:
        self.value = value
