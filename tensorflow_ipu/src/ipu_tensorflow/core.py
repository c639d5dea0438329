"""The compiler and the emulated device: the only module of the package that imports them, and where the devices are set."""

from __future__ import annotations

import functools
import types
from collections.abc import Mapping, Sequence
from typing import Any


@functools.cache
def native() -> types.ModuleType:
    """`ipu_core._native`; ImportError with the command that installs it."""
    try:
        from ipu_core import _native
    except ModuleNotFoundError as error:
        if error.name not in ("ipu_core", "ipu_core._native"):
            raise
        raise ImportError(
            "tensorflow-ipu needs the core of the same version, which is not installed: pip install ipu-core"
        ) from None
    return _native


def system_ipus() -> int:
    """IPUs of the machine that this process emulates."""
    return int(native().system_ipus())


def set_devices(devices: Sequence[Mapping[str, Any]]) -> None:
    """Other devices for all programs of this process, which are compiled anew. Waits until no program runs."""
    native().configure_devices(list(devices))


def set_seed(seed: int, ordinal: int) -> None:
    """What random numbers of a device depend on."""
    native().seed_devices(seed % 2**64, ordinal)
