"""Helpers for tests of user programs."""

import torch


def allclose(ref, other):
    """Recursive `torch.allclose(other, ref)` over tensors and nested lists or tuples (bool).

    Different container types or lengths give False.
    """
    if isinstance(ref, torch.Tensor):
        return isinstance(other, torch.Tensor) and torch.allclose(other, ref)
    if type(ref) is not type(other) or not isinstance(ref, (list, tuple)):
        return False
    return len(ref) == len(other) and all(allclose(a, b) for a, b in zip(ref, other))
