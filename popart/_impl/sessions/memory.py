"""Whether a compiled program fits its device."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from popart._impl.enums import DeviceType
from popart._impl.logs import getLogger
from popart._impl.sessions.engine_options import is_strict_about_memory
from popart._impl.option_values import local_replicas_of


def judged_by(device: Any, options: Any) -> tuple[str, int, int, int, bool]:
    """The machine that a program is judged on (version, tiles, IPUs; "" for the attached system, where it runs on the host), its
    replicas, and whether operations that come again run the code of earlier ones."""
    version = "" if device.type is DeviceType.Cpu else device.ipuVersion
    return version, device.tilesPerIPU, device.numIpus, local_replicas_of(options), bool(options.enableOutlining)


def memory_refusal(native: Any, device: Any, options: Any, engine: Mapping[str, str], is_refused: bool) -> str:
    """Why the program must be refused; "" where it fits. Warns of one that does not and is not refused.

    Args:
        native: the compiled program.
        is_refused: what does not fit for certain is refused; else only where the engine options are strict about it.
    """
    if device.type is DeviceType.Cpu:
        return ""
    is_strict = is_strict_about_memory(engine)
    verdict = native.judge_memory(*judged_by(device, options), is_strict)
    if verdict is None:
        return ""
    if verdict["fits"]:
        if is_strict and not verdict["is_certain"]:
            getLogger("session").warn(verdict["text"])
        return ""
    if is_strict or (is_refused and verdict["is_certain"]):
        return str(verdict["text"])
    getLogger("session").warn(
        f"{verdict['text']}\n  note:     the engine option enableStrictMemory makes this an error"
    )
    return ""
