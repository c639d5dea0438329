"""Forks a process for each Python program that python_programs.py asks for: torch is imported once, here.

A program finds what it would find after `python -c`: a `__main__` of its own, its variables, folder, arguments and streams, and
the end of an ordinary interpreter. What differs: torch and what it imports are loaded, strings have the same hashes in all
programs of one server, and OpenBLAS has one thread. poptorch is not imported here, because it reads variables then.
"""

import ctypes
import gc
import importlib
import json
import os
import select
import signal
import site
import socket
import sys
import types

import torch

variable = os.environ.get("PYTHONPATH", "").split(os.pathsep)
OWN_PATH = [path for path in sys.path[1:] if path not in variable]


def serve(client):
    """Returns in each child, with three descriptors: the request, standard output and standard error."""
    assert len(os.listdir("/proc/self/task")) == 1, "a thread would be missing in the children"
    while True:
        message, descriptors, _, _ = socket.recv_fds(client, 1, 3)
        if not message:
            os._exit(0)
        child = os.fork()
        if child == 0:
            client.close()
            return descriptors
        os.setpgid(child, child)
        for descriptor in descriptors:
            os.close(descriptor)
        end = os.pidfd_open(child)
        ready, _, _ = select.select([client, end], [], [])
        if end not in ready:  # the client has ended, or does not want to wait longer
            os.killpg(child, signal.SIGKILL)
            os._exit(0)
        os.close(end)
        status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        client.sendall(f"{status}\n".encode())


def become_a_program(request, stdout, stderr):
    """Makes this child a fresh program. Returns its text."""
    os.setpgid(0, 0)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    os.dup2(stdout, 1)
    os.dup2(stderr, 2)
    os.close(stdout)
    os.close(stderr)
    with open(request) as file:
        program = json.load(file)
    os.environ.clear()
    os.environ.update(program["environment"])
    os.chdir(program["cwd"])
    sys.argv[:] = ["-c", *program["arguments"]]
    added = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.path[:] = ["", *map(os.path.abspath, added), *OWN_PATH]
    importlib.invalidate_caches()
    torch.default_generator.seed()  # each process draws something else, as after an import; Python's generator sees to it itself
    if "numpy.random" in sys.modules:
        sys.modules["numpy.random"].seed()
    sys.modules["__main__"] = types.ModuleType("__main__")
    sys.modules["__main__"].__annotations__ = {}
    sys.modules.pop("sitecustomize", None)
    site.execsitecustomize()  # scripts/prove_marks.py changes programs by it
    return program["code"].encode()


gc.freeze()  # collections of a child, also the last one, pass over what is loaded here
text = become_a_program(*serve(socket.socket(fileno=int(sys.argv[1]))))
# Reports exceptions and exits as `python -c` does: tracebacks begin in the program.
if ctypes.pythonapi.PyRun_SimpleString(text) and sys.last_type is not KeyboardInterrupt:
    sys.exit(1)
# After KeyboardInterrupt the interpreter itself ends by the signal.
