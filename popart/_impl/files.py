"""Files that popart writes: regular ones or new ones, never a device or a pipe."""

import functools
import os
from typing import Any

from ipu_common import regular_files
from popart._impl.exceptions import popart_exception
from popart._impl.logs import getLogger


def check_target(path: str | bytes, error: type[Exception] = popart_exception) -> None:
    """Raises `error` if a path leads to something that exists and is no regular file."""
    import ipu_core  # not with popart, which loads no compiler

    try:
        ipu_core._native.check_target(os.fsencode(path))
    except ipu_core.Error as refused:
        raise error(str(refused)) from refused


def make_folder(path: str, for_what: str) -> None:
    regular_files.make_folder(path, for_what, getLogger("session").warn)


def write(path: str, data: str | bytes | list[Any], error: type[Exception] = popart_exception) -> None:
    """As `regular_files.write`; raises `error` for what is no regular file."""
    regular_files.write(path, data, functools.partial(check_target, error=error))
