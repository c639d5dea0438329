"""The loading process of `AsynchronousDataAccessor`: fills a ring of shared tensors, epoch after epoch.

Shared state, all in shared memory: for each slot whether it is filled, with the data of which epoch or with its end, and
a control block; the tensors of a slot and their rows come through a pipe with the first element. The process writes a
slot's data before its status; the consumer frees slots by setting them EMPTY. The first element is loaded at once, the
others when the first epoch is asked for.

The process ends with the program it loads for, and its workers with it, however that ends. Its parent may be another
one (a fork server), so it watches the program itself.
"""

import contextlib
import gc
import multiprocessing
import multiprocessing.util
import os
import pickle
import signal
import sys
import threading
import time
import traceback
import typing
import warnings

import torch
import torch.utils.data

from poptorch import poptorch_core
from poptorch._impl.data import shared_files
from poptorch._impl.log import logger

EMPTY, FILLED = 0, 1
# Indices of the control block.
REQUESTED_EPOCH, STOP, STARTED, RECEIVED = 0, 1, 2, 3
_LONGEST_TEXT = 8000  # of a failure: both parts fit the pipe
_GRACE = 2.0  # seconds for an orderly end after that of the program
_ending = threading.Event()  # the program has ended


class Ring:
    """The shared slots, and the ids of the workers that the process has now."""

    def __init__(self, size, workers=0):
        self.status = torch.zeros(size, dtype=torch.int32).share_memory_()
        self.epoch = torch.zeros(size, dtype=torch.int64).share_memory_()
        self.is_end = torch.zeros(size, dtype=torch.bool).share_memory_()  # of its epoch; else an element
        self.is_renewed = torch.zeros(size, dtype=torch.bool).share_memory_()  # its tensors come through the pipe
        self.control = torch.zeros(4, dtype=torch.int64).share_memory_()
        self.children = torch.zeros(workers, dtype=torch.int64).share_memory_()

    @property
    def size(self):
        return len(self.status)

    @property
    def indices_mem(self):
        """1 for each slot that is filled, else 0, as it is now (int32 tensor; programs look at it)."""
        return self.status


class _Abandoned(Exception):
    """The consumer wants another epoch, or no more."""


class _Producer:
    def __init__(self, ring, connection, structures, sleep_seconds, rebatched_size, load_indefinitely):
        self._ring = ring
        self._connection = connection
        self._structures = structures
        self._sleep = sleep_seconds
        self._rebatched_size = rebatched_size
        self._load_indefinitely = load_indefinitely
        self._tensors: typing.Any = None  # of each slot
        self._rows: typing.Any = None  # [slot, tensor]
        self._keys: typing.Any = None
        self._slot = 0
        self._has_joined_types = False

    def serve(self, dataset):
        """Loads epoch after epoch until told to stop."""
        self._may_vary = getattr(dataset, "_items_may_vary", False)
        epoch = 1
        while True:
            try:
                if epoch > 1 and not self._load_indefinitely:
                    self._wait_for(epoch)
                count = 0
                for element in self._rebatched(dataset):
                    if count == 0:
                        self._note_workers()
                    self._put(element, epoch)
                    count += 1
                    if epoch == 1 and count == 1:
                        self._wait_for(epoch)
                if count == 0:
                    from poptorch._impl import errors

                    raise errors.create_error("Dataset is empty")
                self._claim(epoch)
                self._publish(epoch, is_end=True)
                epoch += 1
            except _Abandoned:
                if self._ring.control[STOP]:
                    return
                epoch = self._requested()

    def _wait_for(self, epoch):
        """Until the consumer asks for this epoch (early_preload asks for the first one at once)."""
        while self._requested() < epoch:
            self._check_wanted(0)
            time.sleep(0.001)

    def _note_workers(self):
        """Writes down who loads this epoch, after clearing up behind those who loaded the last one."""
        shared_files.remove_left_by(self._ring.children.tolist())
        self._ring.children.zero_()
        for index, child in enumerate(multiprocessing.active_children()[: len(self._ring.children)]):
            self._ring.children[index] = child.pid

    def _requested(self):
        return int(self._ring.control[REQUESTED_EPOCH])

    def _check_wanted(self, epoch):
        if self._ring.control[STOP]:
            raise _Abandoned
        if epoch and self._requested() > epoch:
            raise _Abandoned

    def _claim(self, epoch):
        """Waits until the next slot is free."""
        self._check_wanted(epoch)
        while self._ring.status[self._slot] != EMPTY:
            self._check_wanted(epoch)
            if self._sleep > 0:
                time.sleep(self._sleep)

    def _publish(self, epoch, is_end=False):
        self._ring.epoch[self._slot] = epoch
        self._ring.is_end[self._slot] = is_end
        self._ring.status[self._slot] = FILLED
        self._slot = (self._slot + 1) % self._ring.size

    def _announce(self, element, tensors):
        """The first element says what all slots look like."""
        self._tensors = [[torch.empty_like(t).share_memory_() for t in tensors] for _ in range(self._ring.size)]
        self._rows = torch.zeros(self._ring.size, len(tensors), dtype=torch.int64).share_memory_()
        self._keys = element.keys() if isinstance(element, dict) else None
        self._send((self._structures.describe(element), self._tensors, self._rows))
        self._ring.control[STARTED] = 1

    def _send(self, message):
        try:
            self._connection.send(message)
        except BrokenPipeError:  # the program gave the loader up
            self._ring.control[STOP] = 1
            raise _Abandoned from None

    def _put(self, element, epoch):
        tensors = self._structures.flatten(element)
        if self._tensors is None:
            self._announce(element, tensors)
        expected = len(self._tensors[0])
        assert len(tensors) == expected, (
            f"every element must have as many tensors as the first one: expected {expected}, got {len(tensors)}"
        )
        assert not isinstance(element, dict) or element.keys() == self._keys, (
            f"every element must have the keys of the first one: expected {sorted(map(str, self._keys or ()))}, "
            f"got {sorted(map(str, element))}"
        )
        self._claim(epoch)
        if self._may_vary and any(map(_is_longer, tensors, self._tensors[self._slot])):
            self._renew(tensors)
        for i, (shared, tensor) in enumerate(zip(self._tensors[self._slot], tensors)):
            target = shared
            if tensor.dim() and shared.dim():
                self._rows[self._slot, i] = len(tensor)
                if (self._may_vary or self._rebatched_size is not None) and len(tensor) < len(shared):
                    target = shared[: len(tensor)]
            assert target.shape == tensor.shape and target.dtype == tensor.dtype, (
                f"every element must have the shapes and dtypes of the first one: expected {list(target.shape)} "
                f"{target.dtype}, got {list(tensor.shape)} {tensor.dtype}"
            )
            target.copy_(tensor)
        self._publish(epoch)

    def _renew(self, tensors):
        """Room for an item with more rows than the slot has; only calls of a batch sampler differ in their rows."""
        shared = [
            torch.empty_like(mine).share_memory_() if _is_longer(mine, theirs) else theirs
            for mine, theirs in zip(tensors, self._tensors[self._slot])
        ]
        self._tensors[self._slot] = shared
        self._send((self._slot, shared))
        self._ring.is_renewed[self._slot] = True

    def _rebatched(self, dataset):
        """The elements, re-packed along dimension 0 when asked to; a shorter last one only if the loader keeps it."""
        if self._rebatched_size is None:
            yield from dataset
            return
        size, keep_rest = self._rebatched_size, not getattr(dataset, "_drop_rest", True)
        waiting, template = None, None
        for element in dataset:
            template = element
            tensors = self._structures.flatten(element)
            waiting = tensors if waiting is None else list(map(self._rows_joined, range(len(tensors)), waiting, tensors))
            while len(waiting[0]) >= size:
                yield self._structures.rebuild(template, [tensor[:size] for tensor in waiting])
                waiting = [tensor[size:] for tensor in waiting]
        if keep_rest and waiting is not None and len(waiting[0]):
            yield self._structures.rebuild(template, waiting)

    def _rows_joined(self, index, waiting, more):
        joined = torch.cat([waiting, more])
        if waiting.dtype != more.dtype and not self._has_joined_types:
            self._has_joined_types = True
            logger.warning(
                "Rows that AsyncRebatched packs into one item differ in their element types: tensor %d is of %s and %s. They "
                "are joined as torch.cat does, to %s. Let collate_fn give all of them one type.",
                index,
                waiting.dtype,
                more.dtype,
                joined.dtype,
            )
        return joined


def _is_longer(tensor, shared):
    """Differs by more rows alone?"""
    return (
        tensor.dim() > 0
        and tensor.dtype == shared.dtype
        and tensor.shape[1:] == shared.shape[1:]
        and len(tensor) > len(shared)
    )


class _BoundWorker:
    """The `worker_init_fn` of torch's workers: they end with the process that started them, and by nothing else."""

    def __init__(self, loading_process, then):
        self._loading_process = loading_process
        self._then = then

    def __call__(self, worker):
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        poptorch_core.end_after(self._loading_process, 0.0)
        if self._then is not None:
            self._then(worker)


def _end_with(program):
    """Waits for the end of the program and leaves nothing of this process behind."""
    poptorch_core.wait_for_end(program)
    _end([program])


def _end(ended=()):
    """Ends this process and its workers, and removes what they and the `ended` processes left in shared memory."""
    _ending.set()
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    numbers, deadline = [worker.pid for worker in workers], time.monotonic() + _GRACE / 2
    while any(map(shared_files.is_running, numbers)) and time.monotonic() < deadline:
        time.sleep(0.001)
    shared_files.remove_left_by([*ended, *numbers])
    shared_files.remove_of(os.getpid())
    multiprocessing.util._run_finalizers(0)  # type: ignore[attr-defined] # private; removes semaphores
    os._exit(0)


class _Interrupted:
    """The handler of SIGINT: the process ends as if it was told to, whatever the data set is doing."""

    def __init__(self):
        self._process = os.getpid()

    def __call__(self, number, frame):
        if os.getpid() != self._process:  # a worker that has just begun: it ends with this process
            return
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)  # torch's handler raises, wherever it is, when a worker is killed
        signal.setitimer(signal.ITIMER_REAL, _GRACE)  # should the orderly end meet a lock that the data set holds
        _end()


def _prepare(loader):
    """Workers are forked from here: this process has what they need, and no thread of it holds a lock they need."""
    loader.worker_init_fn = _BoundWorker(os.getpid(), loader.worker_init_fn)
    if loader.multiprocessing_context is None:
        loader.multiprocessing_context = "fork"
    import numpy.random  # noqa: F401  (workers seed it: once for all)

    gc.freeze()  # the data set too: collections in workers leave it alone
    # The program was told when it made the loader.
    warnings.filterwarnings("ignore", message="This DataLoader will create")


def main(ring, connection, payload, structures, sleep_seconds, rebatched_size, load_indefinitely, program):
    """Entry point of the process.

    Args:
        payload: the data set, or the name of a file with it.
        program: id of the process that wants the data.
    """
    signal.signal(signal.SIGINT, _Interrupted())
    signal.pthread_sigmask(signal.SIG_UNBLOCK, {signal.SIGINT})  # whoever started this process blocked it
    poptorch_core.end_after(program, _GRACE)  # even if Python has no turn any more
    threading.Thread(target=_end_with, args=(program,), daemon=True).start()
    try:
        kind, data = payload
        if kind == "file":
            with open(data, "rb") as file:
                dataset = pickle.load(file)
            os.unlink(data)
        else:
            dataset = data
        if isinstance(dataset, torch.utils.data.DataLoader) and dataset.num_workers > 0:
            _prepare(dataset)
        producer = _Producer(ring, connection, structures, sleep_seconds, rebatched_size, load_indefinitely)
        producer.serve(dataset)
    except BaseException:
        if _ending.is_set():  # because workers are gone; nobody is there to be told
            time.sleep(_GRACE)
        traceback.print_exc()
        sys.stderr.flush()
        _tell(connection, typing.cast(BaseException, sys.exc_info()[1]))
        _wait_until_received(ring)
        sys.exit(1)


class Failure(str):
    """What went wrong in the process: the text of the error, then its traceback. It comes through the pipe."""


def _tell(connection, error):
    """Sends a `Failure`, unless the pipe is full or closed: the consumer may not look at it before this process has ended."""
    text = "".join(traceback.format_exception_only(error)).strip()
    lines = "".join(traceback.format_exception(error)).strip()
    with contextlib.suppress(OSError):  # BlockingIOError, BrokenPipeError
        os.set_blocking(connection.fileno(), False)
        connection.send(Failure(f"{text[:_LONGEST_TEXT]}\n{lines[-_LONGEST_TEXT:]}"))


def _wait_until_received(ring, seconds=10):
    """Shared tensors that were sent can be opened only while this process lives."""
    deadline = time.monotonic() + seconds
    while ring.control[STARTED] and not ring.control[RECEIVED] and not ring.control[STOP]:
        if time.monotonic() > deadline:
            return
        time.sleep(0.001)
