"""Files that users name, and that somebody else may have put there: regular ones or new ones, never a pipe, which would be waited
for, nor a device."""

from __future__ import annotations

import os
import stat
from collections.abc import Callable
from typing import Any, TextIO


def read(path: str | os.PathLike[str]) -> bytes:
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


def write(path: str | os.PathLike[str], data: str | bytes | list[Any], check_target: Callable[[bytes], object]) -> None:
    """Writes a regular file, text in UTF-8, or buffers one behind the other: a new one, or over one.

    Raises:
        OSError: it cannot be written.
        Error of `check_target`, of a native module: the path leads to something that exists and is no regular file.
    """
    check_target(os.fsencode(path))
    with open(path, "wb") as file:
        file.writelines(data if isinstance(data, list) else [data.encode() if isinstance(data, str) else data])


def make_folder(path: str, for_what: str, warn: Callable[[str], object]) -> None:
    """Makes a folder and those above it, unless it is there; `warn` gets a text with its name. `for_what`: who asks, for the text.

    Raises:
        OSError: it cannot be made.
    """
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)
        warn(f"{for_what} made the folder '{path}'")


def open_lock(path: str) -> TextIO:
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
