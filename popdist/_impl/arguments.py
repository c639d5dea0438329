"""The command line of `poprun`: the published options, and what each means where every instance has its own machine."""

import argparse
import re
import socket

from popdist._impl import version

_RESERVATION = "each instance has an emulated system of its own, so nothing is reserved"
_MPI = "instances are started by torch.distributed.run, not by mpirun"
# Options without a meaning here, and why; each is taken with its value, and said to be without effect.
_WITHOUT_EFFECT = {
    "--num-ilds": "an emulated system has no limit of IPU-Link domains",
    "--vipu-server-host": _RESERVATION,
    "--vipu-server-port": _RESERVATION,
    "--vipu-server-timeout": _RESERVATION,
    "--vipu-partition": _RESERVATION,
    "--vipu-partition-attempts": _RESERVATION,
    "--vipu-cluster": _RESERVATION,
    "--vipu-allocation": _RESERVATION,
    "--update-partition": _RESERVATION,
    "--reset-partition": _RESERVATION,
    "--remove-partition": _RESERVATION,
    "--numa-aware": "processes are placed by the operating system",
    "--mpi-global-args": _MPI,
    "--mpi-local-args": _MPI,
}


def _count(text):
    if not text.isdigit() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a positive integer")
    return int(text)


def _flag(text):
    known = {"yes": True, "1": True, "true": True, "on": True, "no": False, "0": False, "false": False, "off": False}
    if text.lower() not in known:
        raise argparse.ArgumentTypeError(f"{text!r} is neither yes nor no")
    return known[text.lower()]


def _hosts(text):
    """Names of hosts: "a,b" or "host[0-2,4]"."""
    names = []
    for entry in re.findall(r"[^,\[\]]+(?:\[[^\]]*\])?", text):
        stem, _, numbers = entry.partition("[")
        if not numbers:
            names.append(stem)
            continue
        for part in numbers.rstrip("]").split(","):
            first, _, last = part.partition("-")
            if not first.isdigit() or not (last or first).isdigit():
                raise argparse.ArgumentTypeError(f"{entry!r} is no list of hosts such as host[0-2,4]")
            names += [f"{stem}{number:0{len(first)}d}" for number in range(int(first), int(last or first) + 1)]
    if not names:
        raise argparse.ArgumentTypeError("no host is named")
    return names


def _parser():
    parser = argparse.ArgumentParser(
        "poprun",
        description="Runs a program several times as one job. Its instances share the replicas of a model.",
        epilog="Example: poprun -n 2 --num-replicas 8 python train.py",
        allow_abbrev=False,
    )
    add = parser.add_argument
    add("--version", action="version", version=f"poprun {version.of_poptorch()}")
    add("-n", "--num-instances", type=_count, metavar="N", help="processes of the job (1)")
    add("--num-replicas", type=_count, metavar="R", help="replicas of all instances (one for each instance)")
    add("--ipus-per-replica", type=_count, default=1, metavar="I", help="IPUs of one replica (1)")
    add("-H", "--host", type=_hosts, default=["localhost"], metavar="LIST", help="hosts, as a,b or host[0-2,4]")
    add("--host-index", type=int, metavar="K", help="which of several hosts this one is; poprun is started on each")
    add("--rendezvous-port", type=_count, default=29400, metavar="P", help="where several hosts meet, on the first")
    add("--executable-cache-path", metavar="FOLDER", help="folder of the executable cache of all instances")
    add("--only-output-from-instance", type=int, metavar="K", help="hide the output, errors too, of the others")
    add("--offline-mode", type=_flag, default=False, metavar="yes|no", help="compile without attaching (no)")
    add("--print-topology", type=_flag, default=False, metavar="yes|no", help="say who runs which replicas (no)")
    add("-v", "--verbose", action="count", default=0, help="what torch.distributed.run says, too")
    for name, why in _WITHOUT_EFFECT.items():
        add(name, metavar="VALUE", help=f"no effect: {why}")
    add("program", help="what is run")
    add("arguments", nargs=argparse.REMAINDER, help="its arguments")
    return parser


def is_here(host):
    """Whether a name of a host is that of this one."""
    return host in ("localhost", "127.0.0.1", "::1", socket.gethostname(), socket.getfqdn())


def parse(words):
    """The checked command line (argparse.Namespace), and lines to be said about options without effect.

    Raises:
        SystemExit: with code 2, after a line that says what is wrong and what to give instead.
    """
    parser = _parser()
    given = parser.parse_args(words)
    if given.num_instances is None:
        given.num_instances = len(given.host) if given.host_index is not None else 1
    if given.num_replicas is None:
        given.num_replicas = given.num_instances
    if given.num_replicas % given.num_instances != 0:
        parser.error(
            f"--num-replicas {given.num_replicas} cannot be divided among --num-instances {given.num_instances}: use a "
            f"multiple of {given.num_instances}"
        )
    shown = given.only_output_from_instance
    if shown is not None and not 0 <= shown < given.num_instances:
        parser.error(f"--only-output-from-instance {shown}: the instances are 0 to {given.num_instances - 1}")
    if given.host_index is None:
        elsewhere = [host for host in given.host if not is_here(host)]
        if elsewhere:
            parser.error(
                f"--host names {', '.join(elsewhere)}, and poprun starts processes on its own host only: start the same "
                f"command on each of the {len(given.host)} hosts, with --host-index 0 to {len(given.host) - 1}"
            )
        given.host = ["localhost"]
    else:
        if not 0 <= given.host_index < len(given.host):
            parser.error(f"--host-index {given.host_index}: --host names hosts 0 to {len(given.host) - 1}")
        if given.num_instances % len(given.host) != 0:
            parser.error(
                f"--num-instances {given.num_instances} cannot be divided among {len(given.host)} hosts: use a multiple "
                f"of {len(given.host)}"
            )
    notes = [
        f"{name} has no effect: {why}"
        for name, why in _WITHOUT_EFFECT.items()
        if getattr(given, name[2:].replace("-", "_")) is not None
    ]
    return given, notes
