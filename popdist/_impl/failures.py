"""Which instance failed first: each notes its uncaught exception or its end, and when, before that makes others fail."""

import atexit
import contextlib
import multiprocessing
import os
import pathlib
import signal
import sys
import threading
import time

from popdist._impl import environment

FOLDER = "POPDIST_FAILURES"  # where poprun looks for the notes
_END = ".end"  # suffix of a note of when an instance began to end


def watch():
    """Notes an uncaught exception of this process, if `poprun` wants to know."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    then, process = sys.excepthook, os.getpid()

    def note(kind, value, trace):
        if not _is_instance(process):
            return then(kind, value, trace)
        with contextlib.suppress(OSError):
            line = f"{time.time_ns()} {kind.__name__}: {value}".splitlines()[0]
            pathlib.Path(folder, os.environ[environment.INSTANCE]).write_text(line)
        then(kind, value, trace)

    sys.excepthook = note
    note_end_first()


def _is_instance(process):
    """Whether this is the process of this id, and none that the program started to load data, say."""
    return os.getpid() == process and multiprocessing.parent_process() is None


def note_end_first():
    """The end of this process is noted before what was registered so far is called then: others fail when it leaves the job."""
    if FOLDER in os.environ:
        atexit.unregister(_note_end)
        atexit.register(_note_end, os.getpid())


def _note_end(process):
    """sys.exit calls no excepthook. SIGTERM, which the end of another instance brings, would hide the exit code of this one."""
    if not _is_instance(process):
        return
    with contextlib.suppress(OSError):
        pathlib.Path(os.environ[FOLDER], os.environ[environment.INSTANCE] + _END).write_text(f"{time.time_ns()}")
    if threading.current_thread() is threading.main_thread():
        signal.signal(signal.SIGTERM, signal.SIG_IGN)


def read(folder):
    """instance → (nanoseconds, "KeyError: 'mine'"), of those that left a note; "" of those that only ended."""
    notes: dict[int, tuple[int, str]] = {}
    for path in sorted(pathlib.Path(folder).iterdir()):  # an exception before the end that it brings
        when, _, what = path.read_text().partition(" ")
        number = path.name.removesuffix(_END)
        if number.isdigit() and when.isdigit():
            notes.setdefault(int(number), (int(when), what))
    return notes
