"""How the instances of a job meet: a process group of torch.distributed, made once."""

from __future__ import annotations

import atexit
import collections.abc
import contextlib
import os
import time
import typing

from popdist._impl import environment, failures, lending

_BACKEND = "POPDIST_BACKEND"
_initialized = False
_own_group = False  # the process group is ours to destroy
_groups: dict[frozenset[int], typing.Any] = {}  # process groups of some instances
_current: list[frozenset[int]] = []  # innermost execute_on_instances last


def init() -> None:
    """Connects the instances of the job; each must call it. Nothing to connect when there is one; a second call does nothing.

    The process group is that of `torch.distributed`, with gloo, or with MPI where POPDIST_BACKEND=mpi asks for it and torch
    has it. One that the program has made is used.

    Raises:
        RuntimeError: a process group of other ranks is there, or torch lacks the backend.
    """
    global _initialized, _own_group
    if _initialized:
        return
    instances, index = environment.getNumInstances(), environment.getInstanceIndex()
    if instances > 1:
        import torch.distributed

        if torch.distributed.is_initialized():
            rank, size = torch.distributed.get_rank(), torch.distributed.get_world_size()
            if (rank, size) != (index, instances):
                raise RuntimeError(
                    f"torch.distributed says process {rank} of {size}, poprun says instance {index} of {instances}. Call "
                    "popdist.init() instead of torch.distributed.init_process_group."
                )
        else:
            torch.distributed.init_process_group(_backend(), rank=index, world_size=instances)
            _own_group = True
            atexit.register(finalizeBackend)
            failures.note_end_first()
    _initialized = True


def _backend():
    import torch.distributed

    name = os.environ.get(_BACKEND, "gloo")
    has = {"gloo": torch.distributed.is_gloo_available(), "mpi": torch.distributed.is_mpi_available()}
    if not has.get(name, False):
        usable = " or ".join(known for known, there in has.items() if there) or "a torch with gloo"
        raise RuntimeError(f"{_BACKEND} is {name!r}, which this torch does not have: use {usable}.")
    return name


def initializeBackend() -> None:
    """The same as `init`."""
    init()


def isBackendInitialized() -> bool:
    """Whether `init` was called, and `finalizeBackend` not since."""
    return _initialized


def finalizeBackend() -> None:
    """Leaves the job; done at the end of the program, too. Nothing to do when `init` was not called."""
    global _initialized, _own_group
    _groups.clear()
    if _own_group:
        import torch.distributed

        if torch.distributed.is_initialized():
            torch.distributed.destroy_process_group()
    _initialized = _own_group = False


def require_initialized(what):
    """RuntimeError naming `what` when `init` was not called."""
    if not _initialized:
        raise RuntimeError(f"{what} needs the other instances: call popdist.init() in every instance first.")


def members() -> frozenset[int]:
    """The instances that take part in collective calls now."""
    return _current[-1] if _current else frozenset(range(environment.getNumInstances()))


def group() -> typing.Any:
    """The process group of `members()`; None stands for all instances."""
    return _groups.get(members()) if _current else None


def synchronize() -> None:
    """Waits until all instances (in `execute_on_instances`: those) have come to this call.

    Raises:
        RuntimeError: `init` was not called.
    """
    require_initialized("popdist.synchronize")
    if len(members()) > 1:
        import torch.distributed

        torch.distributed.barrier(group=group())


def exchange_bytes(mine: bytes) -> bytes:
    """What all processes give, one after another in their order, for what this one gives; all call it in the same order.

    The process group of torch.distributed must be there, whoever set it up.
    """
    import torch.distributed

    own = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
    parts = [torch.empty_like(own) for _ in range(torch.distributed.get_world_size())]
    with lending.lent([own, *parts]):
        work = torch.distributed.all_gather(parts, own, async_op=True)
        while not work.is_completed():  # torch's own waiting hears no signal
            time.sleep(1e-4)
        work.wait()  # raises what went wrong
        del work
    return b"".join(part.numpy().tobytes() for part in parts)


@contextlib.contextmanager
def _only(instances):
    _current.append(instances)
    try:
        yield
    finally:
        _current.pop()


def execute_on_instances(
    instances: collections.abc.Collection[int],
    func: collections.abc.Callable[..., typing.Any],
    *args: typing.Any,
    **kwargs: typing.Any,
) -> typing.Any:
    """Calls `func` on some instances only. Meanwhile collective calls of popdist are among these.

    Every instance must call this when there is more than one of them: together they form the group.

    Args:
        instances: numbers of instances.
        func, args, kwargs: what is called.

    Returns:
        What `func` returned; None on the other instances.

    Raises:
        ValueError: no instance, or one that is not there.
        RuntimeError: several instances, and `init` was not called.

    Example:
        >>> popdist.execute_on_instances({0}, torch.save, model.state_dict(), "weights.pt")
    """
    chosen = frozenset(instances)
    count = environment.getNumInstances()
    if not chosen or not chosen <= set(range(count)):
        raise ValueError(f"execute_on_instances: {sorted(chosen)} are not instances; the job has 0 to {count - 1}.")
    if len(chosen) > 1 and chosen not in _groups:
        require_initialized("popdist.execute_on_instances on several instances")
        import torch.distributed

        _groups[chosen] = torch.distributed.new_group(sorted(chosen))  # a collective call of all instances
    if environment.getInstanceIndex() not in chosen:
        return None
    with _only(chosen):
        return func(*args, **kwargs)
