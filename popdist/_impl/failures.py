"""Which instance failed first: each notes its uncaught exception, and when, before its end makes others fail."""

import contextlib
import os
import pathlib
import sys
import time

from popdist._impl import environment

FOLDER = "POPDIST_FAILURES"  # where poprun looks for the notes


def watch():
    """Notes an uncaught exception of this process, if `poprun` wants to know."""
    folder = os.environ.get(FOLDER)
    if folder is None:
        return
    then = sys.excepthook

    def note(kind, value, trace):
        with contextlib.suppress(OSError):
            line = f"{time.time_ns()} {kind.__name__}: {value}".splitlines()[0]
            pathlib.Path(folder, os.environ[environment.INSTANCE]).write_text(line)
        then(kind, value, trace)

    sys.excepthook = note


def read(folder):
    """instance → (nanoseconds, "KeyError: 'mine'"), of those that left a note."""
    notes = {}
    for path in pathlib.Path(folder).iterdir():
        when, _, what = path.read_text().partition(" ")
        if path.name.isdigit() and when.isdigit():
            notes[int(path.name)] = (int(when), what)
    return notes
