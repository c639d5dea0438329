"""Calls of one session by several threads, one after another: attaching and the upload of variables belong together, and so do
what a run leaves on the device and the download that follows."""

import functools
from typing import Any, Callable, TypeVar

from ipu_core._native import WaitLock as WaitLock

from popxl._impl.errors import core_errors

Method = TypeVar("Method", bound=Callable[..., Any])


def in_turn(method: Method) -> Method:
    """The method, with `self._turns` held. A thread that has it may call others.

    Raises:
        popart.popart_exception: waiting would be without end.
    """

    @functools.wraps(method)
    def held(self: Any, *args: Any, **kwargs: Any) -> Any:
        with core_errors():
            return self._turns.hold(method, self, *args, **kwargs)

    return held  # type: ignore[return-value]
