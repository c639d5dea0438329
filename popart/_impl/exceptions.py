"""The published tree of exceptions."""

from __future__ import annotations

import enum
from typing import Any


class popart_exception(Exception):
    """Anything that PopART refuses: a wrong type, an unknown tensor, a graph that cannot be compiled."""


class popart_internal_exception(popart_exception):
    """An invariant inside was broken, for instance by the id of an op that is not there."""


class popart_runtime_error(popart_exception):
    """Wrong use while a program runs: sizes of arrays, calls out of order."""


class OutOfMemoryError:
    """Whether a program fits into the memory of its device, and what is known of it where it does not."""

    def __init__(self, message: str = "", summary_report: str = "", profile_path: str = "") -> None:
        self._message, self._summary_report, self._profile_path = message, summary_report, profile_path

    def isSuccessful(self) -> bool:
        """Whether it fits."""
        return not self._message

    def what(self) -> str:
        return self._message

    def getSummaryReport(self) -> str:
        """What fills the memory, as text.

        Raises:
            popart_exception: no report was asked for.
        """
        if not self._summary_report:
            raise popart_exception(
                "there is no report of a program that does not fit: set the engine option debug.allowOutOfMemory to 'true'"
            )
        return self._summary_report

    def getProfilePath(self) -> str:
        """The file of the profile; "" where none was asked for."""
        return self._profile_path


class OutOfMemoryException(popart_exception):
    """A program does not fit into the memory of the device; `error` holds what is known."""

    def __init__(self, error: Any = "") -> None:
        self.error = error if isinstance(error, OutOfMemoryError) else OutOfMemoryError(str(error))
        super().__init__(self.error.what())

    def getSummaryReport(self) -> str:
        return self.error.getSummaryReport()

    def getProfilePath(self) -> str:
        return self.error.getProfilePath()


class poplibs_exception(Exception):
    """An error of the library of device functions."""


class poplar_exception(Exception):
    """An error of the engine that runs programs."""


class poplar_runtime_error(poplar_exception):
    """An error while a program runs on the device."""


class poplar_application_runtime_error(poplar_runtime_error):
    """The program itself failed on the device, for instance because a number was out of its range."""


class poplar_system_runtime_error(poplar_runtime_error):
    """The system failed, not the program."""


class RecoveryAction(enum.Enum):
    """What makes a device usable again."""

    IPU_RESET = 0
    LINK_RESET = 1
    PARTITION_RESET = 2
    FULL_RESET = 3


class poplar_recoverable_runtime_error(poplar_system_runtime_error):
    """A failure of the system after which the device can be used again; `recoveryAction` says how."""

    recoveryAction = RecoveryAction.IPU_RESET


class poplar_unrecoverable_runtime_error(poplar_system_runtime_error):
    """A failure of the system that stays."""


class poplar_unknown_runtime_error(poplar_system_runtime_error):
    """A failure of the system whose kind is not known."""


_HOOKS = {
    "popart_error": popart_exception,
    "popart_internal_error": popart_internal_exception,
    "popart_runtime_error": popart_runtime_error,
    "poplar_error": poplar_exception,
    "poplar_runtime_error": poplar_runtime_error,
    "application_runtime_error": poplar_application_runtime_error,
    "system_runtime_error": poplar_system_runtime_error,
    "recoverable_runtime_error": poplar_recoverable_runtime_error,
    "unrecoverable_runtime_error": poplar_unrecoverable_runtime_error,
    "unknown_runtime_error": poplar_unknown_runtime_error,
    "poplibs_error": poplibs_exception,
}


def throw_hooks() -> dict[str, Any]:
    """Functions `_throw_...(message)` that raise one class each, for programs that test how they handle errors."""

    def hook(name: str, kind: type[Exception]) -> Any:
        def throw(message: str) -> None:
            raise kind(message)

        throw.__name__ = throw.__qualname__ = name
        throw.__doc__ = f"Raises {kind.__name__} with this message."
        return throw

    return {f"_throw_{name}": hook(f"_throw_{name}", kind) for name, kind in _HOOKS.items()}
