"""Tensors that torch's own threads exchange with other processes, and when these threads let go of them."""

from __future__ import annotations

import collections.abc
import contextlib
import sys
import time
import typing

_PATIENCE = 5.0  # seconds; the body may have kept a tensor itself


def _counts(tensors: collections.abc.Sequence[typing.Any]) -> list[int]:
    return [sys.getrefcount(tensor) for tensor in tensors]


@contextlib.contextmanager
def lent(tensors: collections.abc.Sequence[typing.Any]) -> collections.abc.Iterator[None]:
    """For the time of an exchange: ends when nobody but the caller holds the tensors.

    The thread that carried an exchange out lets go of its tensors after the exchange is complete, and takes Python's lock for
    it. Where that is the last thing a program does, the interpreter ends meanwhile, and the thread ends the whole process.

    Args:
        tensors: what is read and written in the exchange.
    """
    before = _counts(tensors)
    yield
    give_up = time.monotonic() + _PATIENCE
    while any(now > then for now, then in zip(_counts(tensors), before)) and time.monotonic() < give_up:
        time.sleep(0)
