"""`poprun`: starts the instances of a job through torch.distributed.run, watches them, and says how the job ended.

The first instance that fails, for whatever reason, ends the job: the others get SIGTERM, and SIGKILL after some seconds.
The exit code is that of the failed instance, or 128 + the number of the signal that killed it.
"""

import contextlib
import logging
import os
import pathlib
import shutil
import signal
import sys
import tempfile
import threading
import time
import uuid

from popdist._impl import arguments, environment, failures

_GRACE = 5  # seconds between SIGTERM and SIGKILL
_INSTANCE = pathlib.Path(__file__).with_name("instance.py")


def _say(text):
    print(f"poprun: {text}\n", end="", file=sys.stderr, flush=True)  # in one write


def _topology(given):
    """One line for each instance: its host, its replicas, their IPUs."""
    replicas, each = given.num_replicas // given.num_instances, given.num_instances // len(given.host)
    lines = ["instance  host                  replicas     IPUs of its system"]
    for index in range(given.num_instances):
        first, ipus = index * replicas, replicas * given.ipus_per_replica
        span = f"{first}-{first + replicas - 1}" if replicas > 1 else f"{first}"
        lines.append(f"{index:<9} {given.host[index // each]:<21} {span:<12} {ipus}")
    return "\n".join(lines)


def _shared_environment(given):
    """Variables of all instances."""
    variables = {
        environment.TOTAL_REPLICAS: str(given.num_replicas),
        environment.IPUS_PER_REPLICA: str(given.ipus_per_replica),
        environment.OFFLINE: str(int(given.offline_mode)),
    }
    if given.executable_cache_path is not None:
        variables["POPTORCH_CACHE_DIR"] = os.path.abspath(given.executable_cache_path)
    return variables


def _configuration(given):
    from torch.distributed.launcher import api

    hosts = len(given.host)
    several = {
        "rdzv_backend": "static",
        "rdzv_endpoint": f"{given.host[0]}:{given.rendezvous_port}",
        "rdzv_configs": {"rank": given.host_index, "timeout": 900},
    }
    alone = {"rdzv_backend": "c10d", "rdzv_endpoint": "localhost:0"}
    return api.LaunchConfig(
        min_nodes=hosts,
        max_nodes=hosts,
        nproc_per_node=given.num_instances // hosts,
        run_id="poprun" if given.host_index is not None else uuid.uuid4().hex,
        max_restarts=0,
        monitor_interval=0.1,
        local_addr="localhost" if given.host_index is None else given.host[given.host_index],
        shutdown_timeout=_GRACE,
        **(alone if given.host_index is None else several),
    )


def _how(code):
    """How a process ended, from its exit code as Python gives it."""
    if code >= 0:
        return f"ended with exit code {code}"
    with contextlib.suppress(ValueError):
        return f"was killed by {signal.Signals(-code).name}"
    return f"was killed by signal {-code}"


class _Ends(threading.Thread):
    """When the children of this process ended, by id, in nanoseconds; they stay to be collected by whoever started them."""

    def __init__(self):
        super().__init__(daemon=True)
        self.seen = {}

    def run(self):
        while True:
            try:
                status = os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOWAIT)
                assert status is not None  # without WNOHANG
                ended = status.si_pid
            except ChildProcessError:
                time.sleep(0.01)
                continue
            if self.seen.setdefault(ended, now := time.time_ns()) != now:
                time.sleep(0.002)  # not collected yet


def _report(failed, instances, notes, ends):
    """Says which instances failed; returns the exit code of the job.

    An instance that ends makes others fail that were exchanging something with it, by an exception or by SIGABRT in a thread
    of torch.distributed: the first is named first. Those with SIGTERM were stopped here, unless there are no others; one that
    was stopped on the way out, with its exception noted, failed by that.

    Args:
        failed: by instance, what torch.distributed.run says (pid, exitcode, timestamp).
        notes: `failures.read`.
        ends: by process id, when it ended.
    """
    codes = {n: f.exitcode for n, f in failed.items()}
    codes |= {n: 1 for n, code in codes.items() if code == -signal.SIGTERM and notes.get(n, (0, ""))[1]}
    own = {number for number, code in codes.items() if code != -signal.SIGTERM} or set(failed)

    def order(number):
        was_killed = codes[number] < 0 and codes[number] != -signal.SIGABRT
        times = [notes.get(number, (sys.maxsize, ""))[0], ends.get(failed[number].pid, sys.maxsize)]
        return not was_killed, min(times), failed[number].timestamp, number

    ordered = sorted(own, key=order)
    for place, number in enumerate(ordered):
        noted = notes.get(number, (0, ""))[1] or "its error is above"
        why = f": {noted}" if codes[number] > 0 else ""
        also = "also, " if place else ""
        _say(f"{also}instance {number} of {instances} (pid {failed[number].pid}) {_how(codes[number])}{why}")
    _say("the job has ended; the other instances were stopped")
    code = codes[ordered[0]]
    return code if code > 0 else 128 - code


def main(words=None):
    """Runs the command line and returns the exit code of the job.

    Args:
        words: the arguments (list of str); those of this process when None.
    """
    given, notes = arguments.parse(words)
    if shutil.which(given.program) is None:
        _say(f"there is no program {given.program!r}. Example: poprun -n 2 python train.py")
        return 127
    for note in notes:
        _say(note)
    if given.print_topology:
        print(_topology(given), flush=True)
    with tempfile.TemporaryDirectory(prefix="poprun") as folder:
        os.environ.update({**_shared_environment(given), failures.FOLDER: folder})
        return _launch(given, folder)


def _launch(given, folder):
    """Runs the job and returns its exit code; `folder` is where instances note their failures."""
    from torch.distributed.elastic.multiprocessing import SignalException, errors
    from torch.distributed.launcher import api

    if not given.verbose:
        logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    shown = "all" if given.only_output_from_instance is None else str(given.only_output_from_instance)
    command = [str(_INSTANCE), shown, given.program, *given.arguments]
    first = (given.host_index or 0) * (given.num_instances // len(given.host))
    ends = _Ends()
    ends.start()
    try:
        api.elastic_launch(_configuration(given), sys.executable)(*command)
    except errors.ChildFailedError as error:
        failed = {first + local: failure for local, failure in error.failures.items()}
        return _report(failed, given.num_instances, failures.read(folder), ends.seen)
    except SignalException as stopped:
        _say(f"stopped by {stopped.sigval.name}; all instances were stopped")
        return 128 + stopped.sigval
    return 0
