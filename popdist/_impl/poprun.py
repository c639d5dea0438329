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
import uuid

from popdist._impl import arguments, environment

_GRACE = 5  # seconds between SIGTERM and SIGKILL
_INSTANCE = pathlib.Path(__file__).with_name("instance.py")


def _say(text):
    print(f"poprun: {text}", file=sys.stderr, flush=True)


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


def _report(failures, instances, first_local):
    """Says which instances failed; returns the exit code of the job.

    An instance that was killed makes others fail that were exchanging something with it, so it is named first; those with
    SIGTERM were stopped here, unless there are no others.
    """
    own = {local for local, failure in failures.items() if failure.exitcode != -signal.SIGTERM} or set(failures)
    ordered = sorted(
        (item for item in failures.items() if item[0] in own),
        key=lambda item: (item[1].exitcode >= 0, item[1].timestamp, item[0]),
    )
    for number, (local, failure) in enumerate(ordered):
        also = "also, " if number else ""
        above = ": its error is above" if failure.exitcode > 0 else ""
        _say(f"{also}instance {first_local + local} of {instances} (pid {failure.pid}) {_how(failure.exitcode)}{above}")
    _say("the job has ended; the other instances were stopped")
    code = ordered[0][1].exitcode
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
    os.environ.update(_shared_environment(given))
    from torch.distributed.elastic.multiprocessing import SignalException, errors
    from torch.distributed.launcher import api

    if not given.verbose:
        logging.getLogger("torch.distributed").setLevel(logging.CRITICAL)
        logging.getLogger("torch.distributed.elastic").setLevel(logging.CRITICAL)
    shown = "all" if given.only_output_from_instance is None else str(given.only_output_from_instance)
    command = [str(_INSTANCE), shown, given.program, *given.arguments]
    first_local = (given.host_index or 0) * (given.num_instances // len(given.host))
    try:
        api.elastic_launch(_configuration(given), sys.executable)(*command)
    except errors.ChildFailedError as failed:
        return _report(failed.failures, given.num_instances, first_local)
    except SignalException as stopped:
        _say(f"stopped by {stopped.sigval.name}; all instances were stopped")
        return 128 + stopped.sigval
    return 0
