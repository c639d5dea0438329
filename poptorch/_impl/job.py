"""Several processes of one job (`Options.Distributed`): one compiles while the others wait, and gradients are exchanged.

The lock is a file `<cache>/<md5 of repr(model)>.lock`, held while compiling. Its text counts, per process, how often that
process is done; the last process of a round removes it. The exchange is torch.distributed's, which the program sets up.
"""

import contextlib
import fcntl
import hashlib
import json
import os

import torch

from poptorch._impl import errors
from poptorch._impl.log import logger


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
    file = _locked(path)
    try:
        yield
    finally:
        _leave(file, path, options.Distributed.processId, processes)


def _locked(path):
    """The lock file, open and locked. Waits while another process holds it."""
    while True:
        file = open(path, "a+", encoding="utf-8")  # noqa: SIM115 (stays open and locked for the caller)
        try:
            try:
                fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            except BlockingIOError:
                logger.info("Another process of the job compiles the model: waiting for %s", path)
                fcntl.flock(file, fcntl.LOCK_EX)
            # Its owner may have removed it meanwhile: only a lock on the file that is there now counts.
            with contextlib.suppress(FileNotFoundError):
                if os.stat(path).st_ino == os.fstat(file.fileno()).st_ino:
                    return file
        except BaseException:
            file.close()
            raise
        file.close()


def _leave(file, path, process, processes):
    """Counts this process as done; removes the file when that completes a round of all processes."""
    with file:
        file.seek(0)
        try:
            done = {int(number): int(count) for number, count in json.loads(file.read() or "{}").items()}
        except (ValueError, AttributeError):
            done = {}  # somebody else wrote into it
        done[process] = done.get(process, 0) + 1
        rounds = min(done.get(number, 0) for number in range(processes))
        done = {number: count - rounds for number, count in done.items() if count > rounds}
        if not done:
            os.unlink(path)
            return
        file.seek(0)
        file.truncate()
        json.dump(done, file)


def check_exchange(options):
    """poptorch.Error when the processes of the job cannot exchange gradients."""
    distributed = torch.distributed
    process, processes = options.Distributed.processId, number_of_processes(options)
    if not (distributed.is_available() and distributed.is_initialized()):
        raise errors.create_error(
            f"Training in a job of {processes} processes exchanges gradients through torch.distributed, which is not "
            'set up. Call torch.distributed.init_process_group("gloo", ...) in every process before the first call.'
        )
    rank, size = distributed.get_rank(), distributed.get_world_size()
    if (rank, size) != (process, processes):
        raise errors.create_error(
            f"Options.Distributed says process {process} of {processes}, torch.distributed says {rank} of {size}."
        )


def join(executable, options, training):
    """Tells a compiled program which process of the job it is in, and how to reach the others."""
    processes = number_of_processes(options)

    def exchange(mine):
        check_exchange(options)
        own = torch.frombuffer(bytearray(mine), dtype=torch.uint8)
        parts = [torch.empty_like(own) for _ in range(processes)]
        torch.distributed.all_gather(parts, own)
        return b"".join(part.numpy().tobytes() for part in parts)

    if processes > 1:
        executable.set_job(options.Distributed.processId * options.replication_factor, exchange if training else None)
