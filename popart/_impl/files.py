"""Files that popart writes: regular ones or new ones, never a device or a pipe."""

import os

from popart._impl.exceptions import popart_exception
from popart._impl.logs import getLogger


def check_target(path: str, error: type[Exception] = popart_exception) -> None:
    """Raises `error` if a path leads to something that exists and is no regular file."""
    import ipu_core  # not with popart, which loads no compiler

    try:
        ipu_core._native.check_target(os.fsencode(path))
    except ipu_core.Error as refused:
        raise error(str(refused)) from refused


def make_folder(path: str, for_what: str) -> None:
    """Makes a folder and those above it; a warning names what was made. `for_what`: who asks, for the warning."""
    if not os.path.isdir(path):
        os.makedirs(path, exist_ok=True)
        getLogger("session").warn(f"{for_what} made the folder '{path}'")


def write(path: str, data: str | bytes, error: type[Exception] = popart_exception) -> None:
    """Writes a regular file, text in UTF-8.

    Raises:
        error: the path leads to something that exists and is no regular file.
        OSError: it cannot be written.
    """
    check_target(path, error)
    with open(path, "wb") as file:
        file.write(data.encode() if isinstance(data, str) else data)
