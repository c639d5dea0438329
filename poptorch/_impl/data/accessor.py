"""Loads data in another process while the device works."""

from __future__ import annotations

import atexit
import collections.abc
import contextlib
import time
import typing
import weakref

import torch

from poptorch import enums
from poptorch._impl import errors
from poptorch._impl.data import worker as async_worker
from poptorch._impl.data.loading_process import LoadingProcess
from poptorch._impl.structures import parser_of

if typing.TYPE_CHECKING:
    from typing_extensions import Self

_OWN_INTERRUPT = 0.2  # seconds in which this process gets the Ctrl-C that ended the other one


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


class AsynchronousDataAccessor:
    """Prefetches the elements of a data set in another process.

    The constructor waits until that process has loaded the first element, which fills the first slot.

    The tensors it yields are memory of the ring: they are valid until the next element is asked for. Clone what must be
    kept. Scripts must guard their main code with `if __name__ == "__main__":`, since most strategies import it anew.

    Args:
        dataset: a `poptorch.DataLoader` in Sync mode, or any iterable of flat elements.
        buffer_size: slots of the ring (int).
        miss_sleep_time_in_ms: how long the process sleeps while the ring is full (float); 0 spins.
        load_indefinitely: start prefetching the next epoch at once, or wait until it is asked for.
        early_preload: load further elements now rather than at the first `iter()`.
        sharing_strategy: how the data set reaches the process (`SharingStrategy`).
        rebatched_size: re-pack rows to this many (int > 1), across elements.

    Raises:
        poptorch.Error: the data set loads asynchronously already, fails, or is empty (`failed to start`; its traceback
            is on standard error).
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
        self._rows: typing.Any = None  # of each tensor of each slot
        self._slot = 0
        self._held: int | None = None  # slot whose tensors the caller has
        self._epoch = 0
        self._consumed = 0
        self._is_over = False  # the epoch that was begun last
        self._worker = LoadingProcess(
            self._ring,
            sharing_strategy,
            dataset,
            self._structures,
            miss_sleep_time_in_ms / 1000,
            rebatched_size,
            load_indefinitely,
        )
        self._process = self._worker.process
        self._connection = self._worker.connection
        self._finalizer = weakref.finalize(self, self._worker.stop)
        atexit.register(self._finalizer)
        try:
            self._receive_tensors()
        except BaseException:
            self._worker.interrupt()
            self.terminate()
            raise
        if early_preload:
            self._begin_epoch()

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
            time.sleep(_OWN_INTERRUPT)
            raise errors.create_error("The data loading process was interrupted and has ended: make a new loader.")
        self._raise_failure("")

    def _raise_failure(self, text: str) -> typing.NoReturn:
        """`text`: what the process said of it. Without one it may still stand in the pipe."""
        with contextlib.suppress(EOFError, OSError):
            while not text and self._connection.poll(0):
                message = self._connection.recv()
                text = message if isinstance(message, async_worker.Failure) else ""
        text += "\n" if text else ""
        if self._tensors is None:
            raise errors.create_error(f"{text}The data loading process failed to start: see its traceback above.")
        raise AssertionError(f"{text}An error occurred in the data fetcher: see its traceback above.")

    def _received(self) -> typing.Any:
        """The next thing that comes from the process."""
        while not self._connection.poll(0.05):
            self._check_process()
        try:
            message = self._connection.recv()
            if not isinstance(message, async_worker.Failure):
                return message
        except EOFError:
            if self._process is not None:
                self._process.join()
            self._check_process()
            raise
        self._raise_failure(message)

    def _receive_tensors(self) -> None:
        """Waits for the first element."""
        self._description, self._tensors, self._rows = self._received()
        self._ring.control[async_worker.RECEIVED] = 1
        while self._ring.status[0] == async_worker.EMPTY and self._process.is_alive():
            time.sleep(0.0001)

    def _wait_for(self, slot: int) -> None:
        waited = 0
        while self._ring.status[slot] == async_worker.EMPTY:
            waited += 1
            if waited % 1000 == 0:
                ended = self._process is None or not self._process.is_alive()
                if ended and self._ring.status[slot] == async_worker.EMPTY:  # not written right before the end
                    self._check_process()
                time.sleep(0.0001)
        if self._ring.is_renewed[slot]:
            renewed, tensors = self._received()
            assert renewed == slot, "the tensors of slots come in their order"
            typing.cast("list[list[torch.Tensor]]", self._tensors)[slot] = tensors
            self._ring.is_renewed[slot] = False

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
        while True:
            slot = self._slot
            self._wait_for(slot)
            self._slot = (slot + 1) % self._ring.size
            if self._ring.epoch[slot] < self._epoch:  # left over from an epoch that was broken off
                self._ring.status[slot] = async_worker.EMPTY
                continue
            if self._ring.is_end[slot]:
                self._ring.status[slot] = async_worker.EMPTY
                self._consumed = 1  # even an empty rest ends the epoch
                self._is_over = True
                raise StopIteration
            break
        self._held = slot
        self._consumed += 1
        rows = self._rows[slot].tolist()
        tensors = typing.cast("list[list[torch.Tensor]]", self._tensors)[slot]
        tensors = [tensor[:count] if tensor.dim() else tensor for tensor, count in zip(tensors, rows)]
        return self._structures.restore(self._description, tensors)

    def terminate(self) -> None:
        """Stops the process: asks, then interrupts after 10 s, then kills after 10 more."""
        if self._process is not None:
            self._finalizer()
            atexit.unregister(self._finalizer)
            self._process = None
