"""Loads data in another process while the device works."""

from __future__ import annotations

import atexit
import collections.abc
import contextlib
import multiprocessing
import os
import pickle
import signal
import tempfile
import time
import typing
import weakref

import torch
import torch.multiprocessing  # noqa: F401  (shared tensors through pipes)

from poptorch import enums
from poptorch._impl import errors
from poptorch._impl.data import shared_files, worker as async_worker
from poptorch._impl.structures import parser_of

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_START_METHODS = {
    enums.SharingStrategy.SharedMemory: "spawn",
    enums.SharingStrategy.FileSystem: "spawn",
    enums.SharingStrategy.Fork: "fork",
    enums.SharingStrategy.ForkServer: "forkserver",
}


class ElementStructures:
    """Flat elements: a tensor, a list or tuple of tensors, a dict of tensors, or a registered custom type."""

    def flatten(self, element):
        """The tensors of an element; AssertionError for anything nested."""
        if isinstance(element, torch.Tensor):
            return [element]
        if isinstance(element, (list, tuple)):
            tensors = list(element)
        elif isinstance(element, dict):
            tensors = [element[key] for key in sorted(element, key=str)]
        else:
            parser = parser_of(element)
            assert parser is not None, (
                f"elements of type {type(element).__name__} are not supported by asynchronous loading"
            )
            tensors = list(parser.yieldTensors(element))
        for tensor in tensors:
            assert isinstance(tensor, torch.Tensor), (
                f"elements must be flat containers of tensors, found a {type(tensor).__name__} inside"
            )
        return tensors

    def describe(self, element):
        """What `restore` needs to put tensors back (picklable)."""
        if isinstance(element, torch.Tensor):
            return ("tensor", None)
        if isinstance(element, (list, tuple)):
            return ("list", None)
        if isinstance(element, dict):
            return ("dict", sorted(element, key=str))
        return ("custom", element)

    def rebuild(self, template, tensors):
        return self.restore(self.describe(template), tensors)

    def restore(self, description, tensors):
        kind, detail = description
        if kind == "tensor":
            return tensors[0]
        if kind == "list":
            return list(tensors)
        if kind == "dict":
            return dict(zip(detail, tensors))
        parser = parser_of(detail)
        if parser is None:
            raise errors.create_error(
                f"The parser of {type(detail).__name__} was removed while its elements are loaded."
            )
        return parser.reconstruct(detail, iter(tensors))


def _stop(owner, process, ring, seconds=10):
    """Asks the process to stop, then insists. Nothing in a process that was forked from its owner."""
    if os.getpid() != owner:
        return
    ring.control[async_worker.STOP] = 1
    process.join(seconds)
    if process.is_alive():
        os.kill(process.pid, signal.SIGINT)
        process.join(seconds)
    if process.is_alive():
        process.kill()
        process.join()
    workers = ring.children.tolist()
    if process.exitcode < 0:
        _end_orphans(workers)
    shared_files.remove_left_by([process.pid, *workers])


def _end_orphans(workers, seconds=5):
    """Ends the workers of a process that was killed; by themselves they would find out seconds later."""
    for worker in filter(None, workers):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while any(shared_files.is_running(worker) for worker in filter(None, workers)) and time.monotonic() < deadline:
        time.sleep(0.001)


def _pickled_to_a_file(dataset):
    """Name of a temporary file with the data set; whoever reads it removes it."""
    with tempfile.NamedTemporaryFile(delete=False, suffix=".poptorch") as file:
        try:
            pickle.dump(dataset, file)
        except BaseException:
            os.unlink(file.name)
            raise
    return file.name


class AsynchronousDataAccessor:
    """Prefetches the elements of a data set in another process.

    The tensors it yields are memory of the ring: they are valid until the next element is asked for. Clone what must be
    kept. Scripts must guard their main code with `if __name__ == "__main__":`, since most strategies import it anew.

    Args:
        dataset: a `poptorch.DataLoader` in Sync mode, or any iterable of flat elements.
        buffer_size: slots of the ring (int).
        miss_sleep_time_in_ms: how long the process sleeps while the ring is full (float); 0 spins.
        load_indefinitely: start prefetching the next epoch at once, or wait until it is asked for.
        early_preload: start loading now rather than at the first `iter()`.
        sharing_strategy: how the data set reaches the process (`SharingStrategy`).
        rebatched_size: re-pack rows to this many (int > 1), across elements.

    Raises:
        poptorch.Error: the data set loads asynchronously already, or the process failed to start.
        AssertionError: sizes that do not fit, or an error in the process.

    Example:
        >>> for images, labels in poptorch.AsynchronousDataAccessor(loader):
        ...     trainer(images, labels)
    """

    def __init__(
        self,
        dataset: collections.abc.Iterable[typing.Any],
        buffer_size: int = 3,
        miss_sleep_time_in_ms: float = 0.1,
        load_indefinitely: bool = True,
        early_preload: bool = False,
        sharing_strategy: enums.SharingStrategy = enums.SharingStrategy.ForkServer,
        rebatched_size: int | None = None,
    ) -> None:
        self._process: typing.Any = None  # first: terminate() may run on a half-made object
        if hasattr(dataset, "_check_accessor"):  # a poptorch.DataLoader
            dataset._check_accessor(rebatched_size)
        assert rebatched_size is None or rebatched_size > 1, (
            f"rebatched_size must be greater than 1, got {rebatched_size}"
        )
        assert isinstance(buffer_size, int) and buffer_size > 0, (
            f"buffer_size must be a positive int, got {buffer_size!r}"
        )
        assert isinstance(sharing_strategy, enums.SharingStrategy), (
            f"sharing_strategy must be a poptorch.SharingStrategy, got {sharing_strategy!r}"
        )
        self._dataset = dataset
        self._rebatched_size = rebatched_size
        self._structures = ElementStructures()
        self._ring = async_worker.Ring(buffer_size, getattr(dataset, "num_workers", 0))
        self._tensors: list[list[torch.Tensor]] | None = None
        self._slot = 0
        self._held: int | None = None  # slot whose tensors the caller has
        self._epoch = 0
        self._consumed = 0
        self._is_over = False  # the epoch that was begun last
        self._start(
            sharing_strategy,
            (self._ring, None, None, self._structures, miss_sleep_time_in_ms / 1000, rebatched_size, load_indefinitely),
        )
        if early_preload:
            self._begin_epoch()

    def _start(self, strategy: enums.SharingStrategy, arguments: tuple[typing.Any, ...]) -> None:
        # Each of the kinds of contexts has its Process; their common base has none.
        context: typing.Any = multiprocessing.get_context(_START_METHODS[strategy])
        receiver, sender = context.Pipe(duplex=False)
        payload = ("object", self._dataset)
        if strategy == enums.SharingStrategy.FileSystem:
            payload = ("file", _pickled_to_a_file(self._dataset))
        arguments = (arguments[0], sender, payload, *arguments[3:], os.getpid())
        # Not a daemon: torch's workers are its children. It ends with this process, or when terminate() is called.
        self._process = context.Process(target=async_worker.main, args=arguments)
        self._process.start()
        sender.close()
        self._connection = receiver
        self._finalizer = weakref.finalize(self, _stop, os.getpid(), self._process, self._ring)
        atexit.register(self._finalizer)

    def __len__(self) -> int:
        elements = len(typing.cast(collections.abc.Sized, self._dataset))
        if self._rebatched_size is None:
            return elements
        return elements * (getattr(self._dataset, "batch_size", None) or 1) // self._rebatched_size

    def _begin_epoch(self) -> None:
        self._epoch += 1
        self._consumed = 0
        self._is_over = False
        self._ring.control[async_worker.REQUESTED_EPOCH] = self._epoch

    def __iter__(self) -> Self:
        if self._epoch == 0 or self._consumed > 0:
            self._begin_epoch()
        return self

    def _check_process(self) -> None:
        if self._process is None:
            raise errors.create_error("The data accessor was terminated.")
        if self._process.is_alive():
            return
        if self._process.exitcode == 0:  # Ctrl-C reaches all processes of a terminal
            raise errors.create_error("The data loading process was interrupted and has ended: make a new loader.")
        if self._tensors is None:
            raise errors.create_error("The data loading process failed to start: see its traceback above.")
        raise AssertionError("An error occurred in the data fetcher: see its traceback above.")

    def _receive_tensors(self) -> list[list[torch.Tensor]]:
        while not self._connection.poll(0.05):
            self._check_process()
        try:
            self._description, self._tensors = received = self._connection.recv()
            self._ring.control[async_worker.RECEIVED] = 1
            return received[1]
        except EOFError:
            if self._process is not None:
                self._process.join()
            self._check_process()
            raise

    def _release_held(self) -> None:
        if self._held is not None:
            self._ring.status[self._held] = async_worker.EMPTY
            self._held = None

    def __next__(self) -> typing.Any:
        if self._epoch == 0:
            self._begin_epoch()
        if self._is_over:
            raise StopIteration
        self._release_held()
        received = self._tensors
        if received is None:
            received = self._receive_tensors()
        while True:
            slot, waited = self._slot, 0
            while self._ring.status[slot] == async_worker.EMPTY:
                waited += 1
                if waited % 1000 == 0:
                    ended = self._process is None or not self._process.is_alive()
                    if ended and self._ring.status[slot] == async_worker.EMPTY:  # not written right before the end
                        self._check_process()
                    time.sleep(0.0001)
            self._slot = (slot + 1) % self._ring.size
            if self._ring.epoch[slot] < self._epoch:  # left over from an epoch that was broken off
                self._ring.status[slot] = async_worker.EMPTY
                continue
            if self._ring.status[slot] == async_worker.END:
                self._ring.status[slot] = async_worker.EMPTY
                self._consumed = 1  # even an empty rest ends the epoch
                self._is_over = True
                raise StopIteration
            break
        self._held = slot
        self._consumed += 1
        rows = int(self._ring.rows[slot])
        tensors = received[slot]
        if self._rebatched_size is not None:
            tensors = [tensor[:rows] for tensor in tensors]
        return self._structures.restore(self._description, tensors)

    def terminate(self) -> None:
        """Stops the process: asks, then interrupts after 10 s, then kills after 10 more."""
        if self._process is not None:
            self._finalizer()
            atexit.unregister(self._finalizer)
            self._process = None
