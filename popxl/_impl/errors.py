"""Errors of the compiler core as `popart.popart_exception`, which popart defines and users catch, with PopXL's cures."""

from typing import Any, Optional

from ipu_core._native import Error as CoreError
from ipu_core.cures import with_cure

CURES = {
    "ambiguous_order": "put both in a `popxl.in_sequence()` context",
    "too_many_ipus": 'fewer replicas (`replication` of the Ir), or several processes: `popxl.Ir("popdist")` under poprun',
}
_class: Optional[type[Exception]] = None


def popart_error(message: Any) -> Exception:
    """A `popart.popart_exception` with that message, or of an error of the core."""
    global _class
    if _class is None:
        from popart import popart_exception

        _class = popart_exception
    return _class(with_cure(message, CURES) if isinstance(message, CoreError) else str(message))


class core_errors:
    """`with core_errors():` an error of the compiler core leaves the body as `popart.popart_exception`."""

    __slots__ = ()

    def __enter__(self) -> None:
        pass

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if kind is not None and issubclass(kind, CoreError):
            raise popart_error(error) from error
