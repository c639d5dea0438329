"""Runs Python programs as `python -c` does, but without the second that importing torch takes."""

import atexit
import json
import os
import pathlib
import socket
import subprocess
import sys
import tempfile
import threading

SERVER = pathlib.Path(__file__).with_name("program_server.py")
READ_AT_START = ("PYTHON", "OMP_", "OPENBLAS_", "MKL_", "LD_")  # by Python, or by libraries that torch loads


class Server:
    """One process that has imported torch. It ends, with the program that runs, when its socket is closed."""

    def __init__(self):
        self.owner = os.getpid()
        self.socket, theirs = socket.socketpair()
        environment = {name: value for name, value in os.environ.items() if name != "PROVE_PROGRAMS"}
        with theirs:
            self.process = subprocess.Popen(
                [sys.executable, SERVER, str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.PIPE,
                start_new_session=True,
                env={**environment, "OPENBLAS_NUM_THREADS": "1"},  # it starts threads when it is loaded
            )

    def status(self, descriptors, timeout):
        """The exit status of the program that the descriptors tell of: the request, standard output and standard error."""
        self.socket.settimeout(timeout)
        try:
            socket.send_fds(self.socket, [b"r"], descriptors)
            answer = self.socket.recv(16)
        except (BrokenPipeError, ConnectionResetError):
            answer = b""
        if not answer:
            raise RuntimeError(f"the server of programs has ended: {self.stop().decode()}")
        return int(answer)

    def stop(self):
        """Returns what the server wrote to its standard error."""
        self.socket.close()
        return self.process.communicate()[1]


server = None
lock = threading.Lock()


@atexit.register
def stop_server():
    global server
    if server is not None and server.owner == os.getpid():
        server.stop()
    server = None


def run_program(code, *arguments, environment=None, cwd=None, timeout=240):
    """What `python -c code arguments` gives, as a subprocess.CompletedProcess with texts.

    Args:
        environment: what is added to the variables of this process; None removes one. PYTHONPATH has all folders of sys.path,
            if it is not given.
        timeout: seconds; then the program and its children are killed, and subprocess.TimeoutExpired is raised.
    """
    global server
    environment = {"PYTHONPATH": os.pathsep.join(map(os.path.abspath, filter(None, sys.path))), **(environment or {})}
    early = [name for name in environment if name.startswith(READ_AT_START) and name != "PYTHONPATH"]
    if early:
        raise ValueError(f"a program that sets {', '.join(early)} needs a process of its own")
    variables = {name: value for name, value in {**os.environ, **environment}.items() if value is not None}
    request = {"code": code, "arguments": [os.fspath(x) if isinstance(x, os.PathLike) else str(x) for x in arguments]}
    request |= {"environment": variables, "cwd": os.path.abspath(cwd or "")}
    with lock, tempfile.TemporaryFile("w+") as asked, tempfile.TemporaryFile("a+") as out, tempfile.TemporaryFile("a+") as err:
        json.dump(request, asked)
        asked.seek(0)
        if server is None or server.owner != os.getpid():
            server = Server()
        command = [sys.executable, "-c", code, *request["arguments"]]
        try:
            status = server.status([file.fileno() for file in (asked, out, err)], timeout)
        except BaseException as error:
            stop_server()
            if isinstance(error, TimeoutError):
                raise subprocess.TimeoutExpired(command, timeout, *map(read, (out, err))) from None
            raise
        return subprocess.CompletedProcess(command, status, *map(read, (out, err)))


def read(file):
    file.seek(0)
    return file.read()
