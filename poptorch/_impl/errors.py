"""Python-side errors: `poptorch.Error` of type 'poptorch_py_error'."""

import collections.abc
import sys
import traceback
import types
import typing

from poptorch import poptorch_core

PY_ERROR = "poptorch_py_error"
_Function = typing.TypeVar("_Function", bound=collections.abc.Callable[..., typing.Any])


_beginnings: set[types.CodeType] = set()  # of `forward` while it is captured


def begins_forward(function: _Function) -> _Function:
    """Decorator of the function that calls `forward` to capture it. Errors below name the user's line."""
    _beginnings.add(typing.cast(types.FunctionType, function).__code__)
    return function


def create_error(message: str) -> poptorch_core.Error:
    """Builds (does not raise) a `poptorch.Error` of type `poptorch_py_error`; inside of `forward` with the user's line."""
    frames: list[tuple[str, int, str]] = []
    for frame, line in traceback.walk_stack(sys._getframe(1)):
        if frame.f_code in _beginnings:
            return _error_at(frames, message)
        frames.append((frame.f_code.co_filename, line, frame.f_code.co_name))
    return _error_at([], message)


def _error_at(frames: list[tuple[str, int, str]], message: str) -> poptorch_core.Error:
    """`frames`: (file, line, function), innermost first."""
    line, stack = poptorch_core.place_of(frames)
    if line:
        message += f"\n  from:     {line}{stack}"
    error = poptorch_core.Error(f"'{PY_ERROR}': {message}")
    error.message = message
    error.type = PY_ERROR
    error.location = ""
    return error


# What torch says of memory that is not there.
_NO_MEMORY = (
    "on an invalid python storage",
    "its data is not allocated yet",
    "doesn't have storage",
    "storage is invalid",
)


def without_memory(error: RuntimeError) -> poptorch_core.Error | None:
    """The error for what torch raised in `forward` because it looked for the memory of an IPU tensor; None for others."""
    text = str(error).splitlines()[0] if str(error) else ""
    if not any(part in text for part in _NO_MEMORY):
        return None
    trace = traceback.walk_tb(error.__traceback__)
    frames = [(frame.f_code.co_filename, line, frame.f_code.co_name) for frame, line in trace]
    return _error_at(
        frames[::-1],
        f"memory of an IPU tensor: untyped_storage(), data_ptr() and DLPack lead to memory of the host, and IPU tensors have "
        f"none while forward() is captured (torch: {text}) Leave the line out, or put it behind "
        "`if not poptorch.isRunningOnIpu():`.",
    )


def with_dynamic_shape(error: poptorch_core.Error) -> poptorch_core.Error:
    """The same error for an operation whose shape depends on values: also one of torch's class for that."""
    import torch
    from torch._subclasses import fake_tensor

    class DynamicShapeError(poptorch_core.Error, fake_tensor.DynamicOutputShapeException):
        """An operation in `forward` gives a result whose shape depends on values."""

        __hash__ = BaseException.__hash__

        def __init__(self, text: str) -> None:
            Exception.__init__(self, text)
            self.func = torch.ops.aten.nonzero.default

    made = DynamicShapeError(str(error))
    made.message, made.type, made.location = error.message, error.type, error.location
    return made


def foreign(text: object, limit: int = 160) -> str:
    """A text of a file for a message: on one line, what is not printable escaped, cut after `limit` characters."""
    whole = str(text)
    cut = whole[:limit]
    shown = "".join(c if c.isprintable() else c.encode("unicode_escape").decode("ascii") for c in cut)
    return shown if len(cut) == len(whole) else f"{shown}... ({len(whole)} characters)"
