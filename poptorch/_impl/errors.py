"""Python-side errors: `poptorch.Error` of type 'poptorch_py_error'."""

from poptorch import poptorch_core

PY_ERROR = "poptorch_py_error"


def create_error(message: str) -> poptorch_core.Error:
    """Builds (does not raise) a `poptorch.Error` of type `poptorch_py_error`."""
    error = poptorch_core.Error(f"'{PY_ERROR}': {message}")
    error.message = message
    error.type = PY_ERROR
    error.location = ""
    return error


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
