"""Trace points of PVTI, the system tracer of the SDK. There is no such tracer here, so every call does nothing.

The published contract: without the tracing library, or without PVTI_OPTIONS, channels are no-ops.
"""

import contextlib


class Channel:
    """A named trace channel.

    Args:
        name: channels of one name are one.

    Example:
        >>> channel = poptorch.profiling.Channel("my code")
        >>> with channel.tracepoint("loading"):
        ...     load()
    """

    def __init__(self, name):
        self._name = name

    @contextlib.contextmanager
    def tracepoint(self, name):
        """Context manager that records `<channel>.<name>`."""
        yield

    def instrument(self, obj, *method_names):
        """Records every call of these methods of `obj`. Returns `obj`."""
        for name in method_names:
            getattr(obj, name)  # a name that does not exist is a mistake, traced or not
        return obj
