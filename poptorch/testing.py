"""Helpers for tests of user programs: comparing structures, and faults of the machine on demand."""

from __future__ import annotations

import collections.abc
import contextlib
import typing

import torch

from poptorch import poptorch_core


def allclose(ref: typing.Any, other: typing.Any) -> bool:
    """Recursive `torch.allclose(other, ref)` over tensors and nested lists or tuples (bool).

    Different container types or lengths give False.
    """
    if isinstance(ref, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.allclose(other, ref)
    if type(ref) is not type(other) or not isinstance(ref, (list, tuple)):
        return False
    return len(ref) == len(other) and all(allclose(a, b) for a, b in zip(ref, other))


@contextlib.contextmanager
def faults(rules: str) -> collections.abc.Iterator[None]:
    """Faults of the machine while the block runs; runs are counted from its start.

    Blocks nest: faults of `POPTORCH_FAULTS` and of blocks around this one go on to happen. Afterwards the system is
    what it was before.

    Args:
        rules: str such as "IPU_RESET@run=2,ipu=1; slow_link:500@step=push" (docs/faults.md).

    Raises:
        poptorch.Error: rules that are not understood.

    Example:
        >>> with poptorch.testing.faults("LINK_RESET@run=3"):
        ...     train(model)
    """
    number = poptorch_core.add_faults(rules)
    try:
        yield
    finally:
        poptorch_core.remove_faults(number)


def recover(action: str) -> None:
    """Says that a reset was made: what an administrator's tool does on a real system.

    Args:
        action: the `recovery_action` of the error: "IPU_RESET", "LINK_RESET", "PARTITION_RESET" or "FULL_RESET".

    Raises:
        poptorch.Error: the reset is not enough, or models are still attached that it would disturb.
        poptorch.UnrecoverableError: no reset helps.
    """
    poptorch_core.recover(action)
