"""The capture in progress, if any. A module of its own so that annotations need not import the capture."""

_active = None


def active():
    """The running `GraphCapture`, or None."""
    return _active


def set_active(capture):
    global _active
    _active = capture
