"""Errors of the compiler core as `popart.popart_exception`, which popart defines and users catch."""

from typing import Any, Optional

from ipu_core._native import Error as CoreError

_class: Optional[type[Exception]] = None


def popart_error(message: Any) -> Exception:
    """A `popart.popart_exception` with that message."""
    global _class
    if _class is None:
        from popart import popart_exception

        _class = popart_exception
    return _class(str(message))


class core_errors:
    """`with core_errors():` an error of the compiler core leaves the body as `popart.popart_exception`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and issubclass(kind, CoreError):
            raise popart_error(error) from error
