"""Process-wide callbacks around the capture of a program."""

import collections

from torch.utils.hooks import RemovableHandle

_before = collections.OrderedDict()
_after = collections.OrderedDict()


def _register(table, hook):
    if not callable(hook):
        raise RuntimeError(f"a compile hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def registerPreCompileHook(hook):
    """Calls `hook()` right before each capture. Returns a handle with `remove()`; RuntimeError if not callable."""
    return _register(_before, hook)


def registerPostCompileHook(hook):
    """Calls `hook()` after each capture, also a failed one. Returns a handle; RuntimeError if not callable."""
    return _register(_after, hook)


def run_before():
    for hook in list(_before.values()):
        hook()


def run_after():
    for hook in list(_after.values()):
        hook()
