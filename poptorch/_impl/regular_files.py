"""Opening files that somebody else may have put there: never a pipe, which would be waited for, nor a device."""

import os
import stat

from poptorch import poptorch_core
from poptorch._impl.log import logger


def read(path):
    """The bytes of a regular file.

    Raises:
        OSError: no such file, or it cannot be read.
        ValueError: something else than a regular file; the message names it.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise ValueError(f"{os.fspath(path)} is not a regular file")
    with open(descriptor, "rb") as file:
        return file.read()


def write(path, data):
    """Writes bytes to a regular file: a new one, or over one.

    Raises:
        OSError: it cannot be written.
        poptorch.Error: the path leads to something else than a regular file.
    """
    poptorch_core.check_target(os.fsencode(path))
    with open(path, "wb") as file:
        file.write(data)


def make_folder(path, for_what):
    """A folder and those above it; a warning names what was made. `for_what`: who asks, for the warning.

    Raises:
        OSError: it cannot be made.
    """
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)
        logger.warning("%s made the folder %s", for_what, path)


def open_lock(path):
    """A text file for locking, made if need be: of this user alone, regular, and not through a symbolic link.

    Raises:
        OSError: it cannot be opened, a link for example.
        ValueError: it is something else, or belongs to another user, who could hold the lock for ever.
    """
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    info = os.fstat(descriptor)
    if not stat.S_ISREG(info.st_mode) or info.st_uid != os.geteuid():
        os.close(descriptor)
        raise ValueError(f"{path} is not a regular file of this user")
    return open(descriptor, "r+", encoding="utf-8")  # noqa: SIM115 (the caller's)
