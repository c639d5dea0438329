"""Opening files that somebody else may have put there: never a pipe, which would be waited for, nor a device."""

import os
import stat


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
