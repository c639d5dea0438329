"""The capture the calling thread is in, if any. A module of its own so that annotations need not import the capture.

Captures change what torch does; all of that asks here first, so that other threads see torch as it is.
"""

import threading

_here = threading.local()


def active():
    """The `GraphCapture` that this thread runs, or None."""
    return getattr(_here, "capture", None)


def set_active(capture, changes):
    """Makes it that of this thread for as long as `changes` (a `poptorch_core.Changes`) lasts."""
    changes.replace(_here, "capture", capture)
