"""Trace points of PVTI, the system tracer of the SDK. There is no such tracer here, so every call does nothing.

The published contract: without the tracing library, or without PVTI_OPTIONS, channels are no-ops.
"""

from __future__ import annotations

import collections.abc
import contextlib
import typing

_T = typing.TypeVar("_T")


class Channel:
    """A named trace channel.

    Args:
        name: channels of one name are one.

    Example:
        >>> channel = poptorch.profiling.Channel("my code")
        >>> with channel.tracepoint("loading"):
        ...     load()
    """

    def __init__(self, name: str) -> None:
        self._name = name

    @contextlib.contextmanager
    def tracepoint(self, name: str) -> collections.abc.Iterator[None]:
        """Context manager that records `<channel>.<name>`."""
        yield

    def instrument(self, obj: _T, *method_names: str) -> _T:
        """Records every call of these methods of `obj`. Returns `obj`."""
        for name in method_names:
            getattr(obj, name)  # a name that does not exist is a mistake, traced or not
        return obj
