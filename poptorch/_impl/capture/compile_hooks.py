"""Process-wide callbacks around the capture of a program."""

from __future__ import annotations

import collections
import collections.abc
import typing

from torch.utils.hooks import RemovableHandle

_Hook = collections.abc.Callable[[], typing.Any]
_before: collections.OrderedDict[int, _Hook] = collections.OrderedDict()
_after: collections.OrderedDict[int, _Hook] = collections.OrderedDict()


def _register(table: collections.OrderedDict[int, _Hook], hook: _Hook) -> RemovableHandle:
    if not callable(hook):
        raise RuntimeError(f"a compile hook must be callable, got {type(hook).__name__}")
    handle = RemovableHandle(table)
    table[handle.id] = hook
    return handle


def registerPreCompileHook(hook: _Hook) -> RemovableHandle:
    """Calls `hook()` right before each capture. Returns a handle with `remove()`; RuntimeError if not callable."""
    return _register(_before, hook)


def registerPostCompileHook(hook: _Hook) -> RemovableHandle:
    """Calls `hook()` after each capture, also a failed one. Returns a handle; RuntimeError if not callable."""
    return _register(_after, hook)


def run_before() -> None:
    for hook in list(_before.values()):
        hook()


def run_after() -> None:
    for hook in list(_after.values()):
        hook()
