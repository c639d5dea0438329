"""Python-side errors: `poptorch.Error` of type 'poptorch_py_error'."""

from poptorch import poptorch_core

PY_ERROR = "poptorch_py_error"


def create_error(message: str) -> Exception:
    """Builds (does not raise) a `poptorch.Error` of type `poptorch_py_error`."""
    error = poptorch_core.Error(f"'{PY_ERROR}': {message}")
    error.message = message
    error.type = PY_ERROR
    error.location = ""
    return error
