"""The loading process of `AsynchronousDataAccessor`: fills a ring of shared tensors, epoch after epoch.

Shared state, all in shared memory: one status per slot (EMPTY, DATA, END), the epoch and the rows of its content, and a
control block. The process writes a slot's data before its status; the consumer frees slots by setting them EMPTY.

The process ends with the program it loads for, and its workers with it, however that ends. Its parent may be another
one (a fork server), so it watches the program itself.
"""

import multiprocessing
import multiprocessing.util
import os
import pickle
import signal
import sys
import threading
import time
import traceback

import torch
import torch.utils.data

from poptorch import poptorch_core
from poptorch._impl.data import shared_files

EMPTY, DATA, END = 0, 1, 2
# Indices of the control block.
REQUESTED_EPOCH, STOP, STARTED, RECEIVED = 0, 1, 2, 3
_GRACE = 2.0  # seconds for an orderly end after that of the program
_ending = threading.Event()  # the program has ended


class Ring:
    """The shared slots, and the ids of the workers that the process has now."""

    def __init__(self, size, workers=0):
        self.status = torch.zeros(size, dtype=torch.int32).share_memory_()
        self.epoch = torch.zeros(size, dtype=torch.int64).share_memory_()
        self.rows = torch.zeros(size, dtype=torch.int64).share_memory_()
        self.control = torch.zeros(4, dtype=torch.int64).share_memory_()
        self.children = torch.zeros(workers, dtype=torch.int64).share_memory_()

    @property
    def size(self):
        return len(self.status)


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
        self._tensors = self._keys = None
        self._slot = 0

    def serve(self, dataset):
        """Loads epoch after epoch until told to stop."""
        epoch = 1
        while True:
            try:
                # The first epoch waits to be asked for (early_preload asks at once).
                while (epoch == 1 or not self._load_indefinitely) and self._requested() < epoch:
                    self._check_wanted(0)
                    time.sleep(0.001)
                count = 0
                for element in self._rebatched(dataset):
                    if count == 0:
                        self._note_workers()
                    self._put(element, epoch)
                    count += 1
                if count == 0:
                    from poptorch._impl import errors

                    raise errors.create_error("Dataset is empty")
                self._claim(epoch)
                self._publish(epoch, 0, END)
                epoch += 1
            except _Abandoned:
                if self._ring.control[STOP]:
                    return
                epoch = self._requested()

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

    def _publish(self, epoch, rows, status):
        self._ring.epoch[self._slot] = epoch
        self._ring.rows[self._slot] = rows
        self._ring.status[self._slot] = status
        self._slot = (self._slot + 1) % self._ring.size

    def _put(self, element, epoch):
        tensors = self._structures.flatten(element)
        if self._tensors is None:
            self._tensors = [[torch.empty_like(t).share_memory_() for t in tensors] for _ in range(self._ring.size)]
            self._keys = element.keys() if isinstance(element, dict) else None
            self._connection.send((self._structures.describe(element), self._tensors))
            self._ring.control[STARTED] = 1
        expected = len(self._tensors[0])
        assert len(tensors) == expected, (
            f"every element must have as many tensors as the first one: expected {expected}, got {len(tensors)}"
        )
        assert not isinstance(element, dict) or element.keys() == self._keys, (
            f"every element must have the keys of the first one: expected {sorted(map(str, self._keys or ()))}, "
            f"got {sorted(map(str, element))}"
        )
        self._claim(epoch)
        rows = len(tensors[0]) if tensors and tensors[0].dim() else 0
        for shared, tensor in zip(self._tensors[self._slot], tensors):
            target = shared
            if self._rebatched_size is not None and len(tensor) < len(shared):
                target = shared[: len(tensor)]
            assert target.shape == tensor.shape and target.dtype == tensor.dtype, (
                f"every element must have the shapes and dtypes of the first one: expected {list(target.shape)} "
                f"{target.dtype}, got {list(tensor.shape)} {tensor.dtype}"
            )
            target.copy_(tensor)
        self._publish(epoch, rows, DATA)

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
            waiting = tensors if waiting is None else [torch.cat(pair) for pair in zip(waiting, tensors)]
            while len(waiting[0]) >= size:
                yield self._structures.rebuild(template, [tensor[:size] for tensor in waiting])
                waiting = [tensor[size:] for tensor in waiting]
        if keep_rest and waiting is not None and len(waiting[0]):
            yield self._structures.rebuild(template, waiting)


class _BoundWorker:
    """The `worker_init_fn` of torch's workers: they end with the process that started them."""

    def __init__(self, loading_process, then):
        self._loading_process = loading_process
        self._then = then

    def __call__(self, worker):
        poptorch_core.end_after(self._loading_process, 0.0)
        if self._then is not None:
            self._then(worker)


def _end_with(program):
    """Waits for the end of the program and leaves nothing of this process behind."""
    poptorch_core.wait_for_end(program)
    _ending.set()
    workers = multiprocessing.active_children()
    for worker in workers:
        worker.kill()
    numbers, deadline = [worker.pid for worker in workers], time.monotonic() + _GRACE / 2
    while any(map(shared_files.is_running, numbers)) and time.monotonic() < deadline:
        time.sleep(0.001)
    shared_files.remove_left_by([program, *numbers])
    shared_files.remove_of(os.getpid())
    multiprocessing.util._run_finalizers(0)  # type: ignore[attr-defined] # private; removes semaphores
    os._exit(0)


def main(ring, connection, payload, structures, sleep_seconds, rebatched_size, load_indefinitely, program):
    """Entry point of the process.

    Args:
        payload: the data set, or the name of a file with it.
        program: id of the process that wants the data.
    """
    poptorch_core.end_after(program, _GRACE)  # even if Python has no turn any more
    threading.Thread(target=_end_with, args=(program,), daemon=True).start()
    signal.signal(signal.SIGINT, signal.default_int_handler)
    try:
        kind, data = payload
        if kind == "file":
            with open(data, "rb") as file:
                dataset = pickle.load(file)
            os.unlink(data)
        else:
            dataset = data
        if isinstance(dataset, torch.utils.data.DataLoader) and dataset.num_workers > 0:
            dataset.worker_init_fn = _BoundWorker(os.getpid(), dataset.worker_init_fn)
        producer = _Producer(ring, connection, structures, sleep_seconds, rebatched_size, load_indefinitely)
        producer.serve(dataset)
    except KeyboardInterrupt:
        sys.exit(0)
    except BaseException:
        if _ending.is_set():  # because workers are gone; nobody is there to be told
            time.sleep(_GRACE)
        traceback.print_exc()
        sys.stderr.flush()
        _wait_until_received(ring)
        sys.exit(1)


def _wait_until_received(ring, seconds=10):
    """Shared tensors that were sent can be opened only while this process lives."""
    deadline = time.monotonic() + seconds
    while ring.control[STARTED] and not ring.control[RECEIVED] and not ring.control[STOP]:
        if time.monotonic() > deadline:
            return
        time.sleep(0.001)
