"""Several processes of one job (`Options.Distributed`): one compiles while the others wait, and gradients are exchanged.

The lock is a file `<cache>/<md5 of repr(model)>.lock`, held while compiling. Its text says who holds it, and counts, per
process, how often that process is done; the last process of a round removes it. The exchange is torch.distributed's,
which the program sets up. Whoever waits can be interrupted, and says after a while whom he waits for.
"""

import contextlib
import fcntl
import hashlib
import importlib
import json
import os
import socket
import time
import weakref

import torch

from ipu_common import regular_files
from poptorch._impl import errors
from poptorch._impl.log import logger

_POPRUN = "POPDIST_INSTANCE_INDEX"  # the variable of the instances that poprun starts
_LOCK_PAUSE = 0.05  # seconds between two tries
_SHORT_PAUSE, _LONG_PAUSE = 2e-5, 5e-3  # seconds between two looks at an exchange, growing
_FIRST_WARNING, _NEXT_WARNINGS = 10.0, 60.0  # seconds of waiting


def number_of_processes(options):
    """Processes of the job (int)."""
    return options.Distributed.numProcesses


@contextlib.contextmanager
def compiling(model, options, cache_directory):
    """Lets the processes of a job compile one after another, so that all but the first find the program in the cache.

    Args:
        model: the module that is compiled; all processes have one of the same `repr`.
        cache_directory: folder of the cache, which exists; "" when there is none (a warning: every process compiles).
    """
    processes = number_of_processes(options)
    if processes == 1:
        yield
        return
    if not cache_directory:
        logger.warning(
            "There is no cache folder: each of the %d processes compiles the model. Use Options.enableExecutableCaching "
            "or POPTORCH_CACHE_DIR.",
            processes,
        )
        yield
        return
    name = hashlib.md5(repr(model).encode(), usedforsecurity=False).hexdigest() + ".lock"
    path = os.path.join(cache_directory, name)
    process = options.Distributed.processId
    file = _locked(path, f"process {process} of {processes} (pid {os.getpid()} on {socket.gethostname()})")
    done = _read(file)[1]
    position = 1 + sum(done.get(other, 0) > done.get(process, 0) for other in range(processes))
    logger.debug("Executable cache file locked by process %d (pos %d/%d)", process, position, processes)
    try:
        yield
    finally:
        logger.debug("Process %d released the cache lock", process)
        _leave(file, path, process, processes)


class _Waiting:
    """Logs a wait that lasts."""

    def __init__(self):
        self._started = time.monotonic()
        self._next = _FIRST_WARNING

    def go_on(self, describe):
        """`describe()`: for what or whom. Called again and again while it lasts."""
        seconds = time.monotonic() - self._started
        if seconds >= self._next:
            self._next = seconds + _NEXT_WARNINGS
            logger.warning("Waiting for %d s: %s", seconds, describe())


def _read(file):
    """(who holds the lock, how often each process is done) as the text of a lock file says."""
    file.seek(0)
    try:
        text = json.loads(file.read() or "{}")
        return str(text.get("holder")), {int(number): int(count) for number, count in text["done"].items()}
    except (ValueError, AttributeError, KeyError, TypeError):
        return None, {}  # new, or somebody else wrote into it


def _write(file, holder, done):
    file.seek(0)
    file.truncate()
    json.dump({"holder": holder, "done": done}, file)
    file.flush()


def _locked(path, holder):
    """The lock file, open and locked. Waits while another process holds it."""
    waiting = None
    while True:
        try:
            file = regular_files.open_lock(path)  # stays open and locked for the caller
        except (OSError, ValueError) as error:
            raise errors.create_error(f"the lock file {path} of the job cannot be used: {error}") from error
        try:
            while not _try_to_lock(file):
                if waiting is None:
                    waiting = _Waiting()
                    logger.info("Another process of the job compiles the model: waiting for %s", path)
                waiting.go_on(lambda opened=file: f"{_read(opened)[0] or 'another process'} holds {path}")
                time.sleep(_LOCK_PAUSE)
            # Its owner may have removed it meanwhile: only a lock on the file that is there now counts.
            with contextlib.suppress(FileNotFoundError):
                if os.lstat(path).st_ino == os.fstat(file.fileno()).st_ino:
                    _write(file, holder, _read(file)[1])
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def _try_to_lock(file):
    try:
        fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True


def _leave(file, path, process, processes):
    """Counts this process as done; removes the file when that completes a round of all processes."""
    with file:
        done = _read(file)[1]
        done[process] = done.get(process, 0) + 1
        rounds = min(done.get(number, 0) for number in range(processes))
        done = {number: count - rounds for number, count in done.items() if count > rounds}
        if not done:
            os.unlink(path)
            return
        _write(file, None, done)


def check_exchange(options):
    """poptorch.Error when the processes of the job cannot exchange gradients."""
    distributed = torch.distributed
    process, processes = options.Distributed.processId, number_of_processes(options)
    if _POPRUN in os.environ and distributed.is_available() and not distributed.is_initialized():
        importlib.import_module("popdist").init()  # poprun has said where the processes meet
    if not (distributed.is_available() and distributed.is_initialized()):
        raise errors.create_error(
            f"Training in a job of {processes} processes exchanges gradients through torch.distributed, which is not "
            'set up. Call torch.distributed.init_process_group("gloo", ...) in every process before the first call, or '
            "start the program through poprun."
        )
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if (rank, size) != (process, processes):
        raise errors.create_error(
            f"Options.Distributed says process {process} of {processes}, torch.distributed says {rank} of {size}."
        )


def _complete(work, processes):
    """Waits for an exchange in Python, where a signal is answered: torch's own waiting hears none for half an hour."""
    waiting, pause = _Waiting(), _SHORT_PAUSE
    while work is not None and not work.is_completed():
        waiting.go_on(lambda: f"not all {processes} processes of the job have come to the same exchange of gradients")
        time.sleep(pause)
        pause = min(pause * 1.1, _LONG_PAUSE)
    if work is not None:
        work.wait()  # raises what went wrong


def _require_one_program(executable, gather):
    """poptorch.Error in all processes when their programs are not the same: torch.distributed would end the process."""
    from popdist._impl import same_programs

    difference = same_programs.first_difference(executable.machine_text(), gather)
    if difference is not None:
        raise errors.create_error(
            f"the processes of the job do not train the same program: {difference}\nAll need the same model, options, "
            "optimizer and shapes of inputs, and call their wrappers in the same order."
        )


def join(executable, options, exchanges):
    """Tells a compiled program which process of the job it is in, and how to reach the others when it `exchanges` values."""
    processes = number_of_processes(options)

    is_checked = False
    program = weakref.ref(executable)  # which keeps `exchange`: a circle through it would never be collected

    def gather(mine):
        from popdist._impl import lending  # programs of one process do without

        own = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        parts = [torch.empty_like(own) for _ in range(processes)]
        with lending.lent([own, *parts]):
            _complete(torch.distributed.all_gather(parts, own, async_op=True), processes)
        return [part.numpy().tobytes() for part in parts]

    def exchange(mine):
        nonlocal is_checked
        check_exchange(options)
        if not is_checked:
            _require_one_program(program(), gather)
            is_checked = True
        return b"".join(gather(mine))

    if processes > 1:
        executable.set_job(options.Distributed.processId * options.replication_factor, exchange if exchanges else None)
