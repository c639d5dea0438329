"""Options of the engine, `SessionOptions.engineOptions` and POPLAR_ENGINE_OPTIONS: which there are and what values they take."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping

from popart._impl.exceptions import poplar_exception

_BOOLEAN = ("true", "false")
_KNOWN: dict[str, tuple[str, ...]] = {
    "autoReport.all": _BOOLEAN,
    "autoReport.directory": (),
    "autoReport.executionProfileProgramRunCount": (),
    "autoReport.outputArchive": _BOOLEAN,
    "autoReport.outputDebugInfo": _BOOLEAN,
    "autoReport.outputExecutionProfile": _BOOLEAN,
    "autoReport.outputGraphProfile": _BOOLEAN,
    "autoReport.outputLoweredVars": _BOOLEAN,
    "autoReport.outputSerializedGraph": _BOOLEAN,
    "autoReport.streamAtEachRun": _BOOLEAN,
    "debug.allowOutOfMemory": _BOOLEAN,
    "debug.branchRecordTile": (),
    "debug.checkAccumulateAndResetOverflow": _BOOLEAN,
    "debug.computeInstrumentationLevel": ("tile", "vertex", "ipu", "device"),
    "debug.cpuMultiThreadExecution": _BOOLEAN,
    "debug.floatPointOpException": _BOOLEAN,
    "debug.instrument": _BOOLEAN,
    "debug.instrumentCompute": _BOOLEAN,
    "debug.instrumentControlFlow": _BOOLEAN,
    "debug.instrumentExternalExchange": _BOOLEAN,
    "debug.nanOverflowException": _BOOLEAN,
    "debug.outputAllSymbols": _BOOLEAN,
    "debug.profilingTile": (),
    "debug.retainDebugInformation": _BOOLEAN,
    "debug.runtimeVerify": _BOOLEAN,
    "debug.supervisorStackSizeInBytes": (),
    "debug.verify": _BOOLEAN,
    "enableStrictMemory": _BOOLEAN,
    "exchange.enablePrefetch": _BOOLEAN,
    "exchange.multicastPolicy": (),
    "exchange.streamBufferOverlap": ("any", "none", "hostRearrangeOnly"),
    "opt.enableInlining": _BOOLEAN,
    "opt.enableMultiAccessCopies": _BOOLEAN,
    "opt.enableSkipSyncs": _BOOLEAN,
    "opt.internalExchangeOptimisationTarget": ("balanced", "cycles", "memory"),
    "opt.maxCompilationThreads": (),
    "opt.maxCopyMergeSize": (),
    "opt.useAutoloader": _BOOLEAN,
    "profiler.replicaToProfile": (),
    "streamCallbacks.maxLookahead": (),
    "streamCallbacks.multiThreadMode": (),
    "streamCallbacks.numWorkerThreads": (),
    "target.deterministicWorkers": (*_BOOLEAN, "portable"),
    "target.extendedMemory": _BOOLEAN,
    "target.gatewayMode": _BOOLEAN,
    "target.gatewayWriteCombining": _BOOLEAN,
    "target.hostSyncTimeout": (),
    "target.saveArchive": (),
    "target.syncMethod": (),
    "target.syncReplicasIndependently": _BOOLEAN,
    "target.useBufferOptions": _BOOLEAN,
    "target.workerStackSizeInBytes": (),
}


def engine_options(given: Mapping[str, str]) -> dict[str, str]:
    """Those of the environment and those given, which win.

    Raises:
        poplar_exception: a key is not known, a value is none of those that a key takes, the variable holds no JSON object.
    """
    options = _of_environment() | {str(key): str(value) for key, value in given.items()}
    for key, value in options.items():
        if key not in _KNOWN:
            raise poplar_exception(
                f"unrecognised option: the engine has none called '{key}'; there are {', '.join(_KNOWN)}"
            )
        if _KNOWN[key] and value not in _KNOWN[key]:
            raise poplar_exception(f"the engine option '{key}' is '{value}'; it takes {', '.join(_KNOWN[key])}")
    return options


def _of_environment() -> dict[str, str]:
    text = os.environ.get("POPLAR_ENGINE_OPTIONS", "")
    if not text:
        return {}
    try:
        read = json.loads(text)
    except json.JSONDecodeError as error:
        raise poplar_exception(f"POPLAR_ENGINE_OPTIONS is no JSON: {error}") from error
    if not isinstance(read, dict):
        raise poplar_exception(f"POPLAR_ENGINE_OPTIONS is no JSON object, but {text}")
    return {str(key): str(value) for key, value in read.items()}


def is_profiled(options: Mapping[str, str]) -> bool:
    """Whether reports of the program are asked for."""
    return any(
        options.get(key) == "true" for key in ("autoReport.all", "autoReport.outputGraphProfile", "debug.instrument")
    )


def is_strict_about_memory(options: Mapping[str, str]) -> bool:
    """Whether what the machine may refuse for lack of memory is refused too."""
    flag = os.environ.get("POPTORCH_STRICT_MEMORY") or "0"
    return str(options.get("enableStrictMemory", "false")) == "true" or int(flag) != 0


def writes_profile(options: Mapping[str, str]) -> bool:
    return any(options.get(key) == "true" for key in ("autoReport.all", "autoReport.outputGraphProfile"))
