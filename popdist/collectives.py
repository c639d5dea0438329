"""Values of the instances of a job put together on the host, e.g. losses and counts for a log line.

All instances call these functions in one order (in `popdist.execute_on_instances`: those instances). Tensors come back as
new CPU tensors; arrays of numpy and numbers are taken, too. With one instance the value itself comes back, copied.

Example:
    >>> mean_loss = popdist.collectives.all_reduce(loss, "mean")
"""

from __future__ import annotations

import typing

import torch
import torch.distributed

from popdist._impl import backend, lending

_OPERATIONS = {
    "sum": torch.distributed.ReduceOp.SUM,
    "mean": torch.distributed.ReduceOp.SUM,
    "min": torch.distributed.ReduceOp.MIN,
    "max": torch.distributed.ReduceOp.MAX,
}


def _prepared(value: typing.Any, what: str) -> torch.Tensor:
    backend.require_initialized(what)
    return torch.as_tensor(value).detach().cpu().clone(memory_format=torch.contiguous_format)


def all_reduce(value: typing.Any, operation: str = "sum") -> torch.Tensor:
    """The sum, mean, minimum or maximum over the instances, element by element.

    Args:
        value: tensor, array or number; of one shape and dtype on all instances.
        operation: "sum", "mean", "min" or "max".

    Raises:
        ValueError: another operation.
        TypeError: the mean of integers.
        RuntimeError: `popdist.init` was not called.
    """
    if operation not in _OPERATIONS:
        raise ValueError(f"all_reduce: unknown operation {operation!r}; use one of {', '.join(_OPERATIONS)}.")
    result = _prepared(value, "all_reduce")
    count = len(backend.members())
    if operation == "mean" and not (result.is_floating_point() or result.is_complex()):
        raise TypeError(f"all_reduce: the mean of {result.dtype} is no {result.dtype}. Convert it to a float first.")
    if count > 1:
        with lending.lent([result]):
            torch.distributed.all_reduce(result, _OPERATIONS[operation], group=backend.group())
    return result / count if operation == "mean" else result


def all_gather(value: typing.Any) -> torch.Tensor:
    """The values of all instances behind one another: one more dimension in front, in the order of the instances.

    Raises:
        RuntimeError: `popdist.init` was not called.
    """
    mine = _prepared(value, "all_gather")
    count = len(backend.members())
    if count == 1:
        return mine.unsqueeze(0)
    parts = [torch.empty_like(mine) for _ in range(count)]
    with lending.lent([mine, *parts]):
        torch.distributed.all_gather(parts, mine, group=backend.group())
    return torch.stack(parts)


def broadcast(value: typing.Any, root: int = 0) -> torch.Tensor:
    """The value of instance `root`; the others give one of the same shape and dtype.

    Raises:
        ValueError: `root` takes no part.
        RuntimeError: `popdist.init` was not called.
    """
    if root not in backend.members():
        raise ValueError(f"broadcast: instance {root} takes no part; {sorted(backend.members())} do.")
    result = _prepared(value, "broadcast")
    if len(backend.members()) > 1:
        with lending.lent([result]):
            torch.distributed.broadcast(result, root, group=backend.group())
    return result
