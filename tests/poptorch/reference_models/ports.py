"""Ports for jobs that tests start."""

import contextlib
import socket


@contextlib.contextmanager
def reserved_port():
    """A port of this machine: the system gives a port that is bound to nobody else, and only who reuses addresses may listen on it."""
    with socket.socket() as held:
        held.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        held.bind(("127.0.0.1", 0))
        yield held.getsockname()[1]
