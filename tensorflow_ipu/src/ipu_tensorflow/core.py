"""The compiler and the emulated device: the only module of the package that imports them, and where the devices are set."""

from __future__ import annotations

import functools
import importlib.metadata
import importlib.util
import types
from collections.abc import Mapping, Sequence
from typing import Any

from ipu_tensorflow import __version__

_HOLDERS = ("ipu-core", "poptorch")


def check() -> None:
    """When the API is imported. Raises ImportError where there is no core, or one of another version."""
    own = __version__.replace("-open.", "+open.")
    if importlib.util.find_spec("ipu_core") is None:
        raise ImportError(
            f"tensorflow-ipu {own} needs a core, which is not installed: IPU_TORCH=OFF pip install . in its sources"
        )
    for holder in _HOLDERS:
        try:
            version = importlib.metadata.version(holder)
        except importlib.metadata.PackageNotFoundError:
            continue
        if version != own:
            raise ImportError(
                f"tensorflow-ipu {own} needs a core of its own version, and {holder} is {version}: "
                "IPU_TORCH=OFF pip install . in the sources of this version"
            )


@functools.cache
def native() -> types.ModuleType:
    """`ipu_core._native`."""
    from ipu_core import _native

    return _native


@functools.cache
def node_types() -> frozenset[tuple[str, str]]:
    """Domain and type of all nodes that can be compiled."""
    return frozenset((domain, entry[0]) for domain in ("tf", "ipu") for entry in native().importers(domain))


def system_ipus() -> int:
    """IPUs of the machine that this process emulates."""
    return int(native().system_ipus())


def set_devices(devices: Sequence[Mapping[str, Any]]) -> None:
    """Other devices for all programs of this process, which are compiled anew. Waits until no program runs."""
    native().configure_devices(list(devices))


def attach_devices() -> None:
    """Takes the IPUs of all devices now, which otherwise the first run does. Raises native().Error if they are not free."""
    native().attach_devices()


def set_seed(seed: int, ordinal: int) -> None:
    """What random numbers of a device depend on."""
    native().seed_devices(seed % 2**64, ordinal)
