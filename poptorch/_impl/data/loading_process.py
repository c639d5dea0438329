"""The loading process as its program sees it: how it is started, and how it is ended.

`ForkServer` (the default) forks it from Python's fork server, which imports torch and poptorch once, before it serves:
the first loader of a program waits for that import, later ones for nothing. docs/processes.md says why this is safe.
"""

from __future__ import annotations

import contextlib
import multiprocessing
import multiprocessing.forkserver
import multiprocessing.resource_tracker
import os
import pathlib
import pickle
import signal
import site
import tempfile
import time
import typing

import torch.multiprocessing  # noqa: F401  (shared tensors through pipes)

from poptorch import enums
from poptorch._impl.data import shared_files, worker as async_worker
from poptorch._impl.log import logger

_START_METHODS = {
    enums.SharingStrategy.SharedMemory: "spawn",
    enums.SharingStrategy.FileSystem: "spawn",
    enums.SharingStrategy.Fork: "fork",
    enums.SharingStrategy.ForkServer: "forkserver",
}
_PRELOADED = "poptorch._impl.data.preload"


def _pickled_to_a_file(dataset):
    """Name of a temporary file with the data set; whoever reads it removes it."""
    with tempfile.NamedTemporaryFile(delete=False, suffix=".poptorch") as file:
        try:
            pickle.dump(dataset, file)
        except BaseException:
            os.unlink(file.name)
            raise
    return file.name


@contextlib.contextmanager
def _without_interrupts():
    """Processes that are started here begin with SIGINT blocked."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _server_finds_poptorch():
    """Whether a new interpreter finds this very package, as far as that can be told from here."""
    root = str(pathlib.Path(__file__).resolve().parents[3])
    folders = [*os.environ.get("PYTHONPATH", "").split(os.pathsep), os.getcwd(), *site.getsitepackages()]
    return root in {str(pathlib.Path(folder).resolve()) for folder in folders if folder}


def _start_fork_server():
    """Python's fork server with torch and poptorch in it; one that runs already stays as it is."""
    server: typing.Any = multiprocessing.forkserver._forkserver  # private: only so are the names kept that it has
    preloaded = list(server._preload_modules)
    if _PRELOADED not in preloaded:
        server.set_forkserver_preload([*preloaded, _PRELOADED])
    multiprocessing.resource_tracker.ensure_running()  # would unblock SIGINT
    if _server_finds_poptorch():
        with _without_interrupts():  # Ctrl-C would end the import; the module unblocks it
            server.ensure_running()
    else:
        server.ensure_running()


class LoadingProcess:
    """One loading process and the ring it fills. It ends with this process, or when `stop` is called.

    Args:
        ring: `worker.Ring`.
        strategy: `SharingStrategy`.
        dataset: anything `worker.main` loads from.
        arguments: of `worker.main` behind the data set.

    Raises:
        pickle.PicklingError, AttributeError, TypeError: the data set cannot be pickled, and the strategy needs it.
    """

    def __init__(
        self, ring: async_worker.Ring, strategy: enums.SharingStrategy, dataset: typing.Any, *arguments: typing.Any
    ) -> None:
        self._data_buffers = ring  # a name that programs use, as its indices_mem
        self._owner = os.getpid()
        # Each of the kinds of contexts has its Process; their common base has none.
        context: typing.Any = multiprocessing.get_context(_START_METHODS[strategy])
        self.connection, sender = context.Pipe(duplex=False)
        shared_files.make_folder_of_sockets()
        payload = ("object", dataset)
        if strategy == enums.SharingStrategy.FileSystem:
            payload = ("file", _pickled_to_a_file(dataset))
        # Not a daemon: torch's workers are its children.
        self.process = context.Process(target=async_worker.main, args=(ring, sender, payload, *arguments, self._owner))
        if strategy == enums.SharingStrategy.ForkServer:
            _start_fork_server()
        else:
            multiprocessing.resource_tracker.ensure_running()
        try:
            with _without_interrupts():  # until it answers them in its own way
                self.process.start()
            sender.close()
            logger.debug("AsynchronousDataAccessor worker process: %d", self.process.pid)
        except BaseException:  # Ctrl-C came meanwhile, or the data set cannot be pickled
            if self.process.pid is not None:
                self.interrupt()
            raise

    def stop(self, seconds: float = 10) -> None:
        """Asks the process to stop, then insists. Nothing in a process that was forked from its owner."""
        if os.getpid() != self._owner:
            return
        process, ring = self.process, self._data_buffers
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

    def interrupt(self) -> None:
        """Ends a process that nobody waits for any more."""
        if os.getpid() == self._owner and self.process.is_alive():
            os.kill(self.process.pid, signal.SIGINT)
        self.stop()


def _end_orphans(workers, seconds=5):
    """Ends the workers of a process that was killed; by themselves they would find out seconds later."""
    for worker in filter(None, workers):
        with contextlib.suppress(ProcessLookupError):
            os.kill(worker, signal.SIGKILL)
    deadline = time.monotonic() + seconds
    while any(shared_files.is_running(worker) for worker in filter(None, workers)) and time.monotonic() < deadline:
        time.sleep(0.001)
