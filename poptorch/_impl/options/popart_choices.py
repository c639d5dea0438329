"""Back-end settings that poptorch chooses itself: what it says of them in the log, and what of the user's it follows."""

from __future__ import annotations

import collections.abc
import typing

from poptorch import poptorch_core
from poptorch._impl.log import DEBUG, WARN
from poptorch._impl.options import phased
from poptorch._impl.options.locations import FAMILIES

# Where a value of `_Popart.set` is followed although poptorch would choose another one; elsewhere it has no effect.
_FOLLOWED = ("autoRecomputation", "enablePipelining")


def _chosen(options: typing.Any, ipus: int, training: bool, clips: bool, overlaps: bool) -> dict[str, int | str]:
    """Settings for a model that uses `ipus` IPUs per replica; truth values are 0 and 1."""
    replicas, processes = options.replication_factor, options.Distributed.numProcesses
    pipelined = options._strategy._schedule == "pipelined" and ipus > 1
    chosen: dict[str, int | str] = {
        "enableLoadAndOffloadRNGState": 1,
        "constantWeights": 0,
        "enablePipelining": int(pipelined),
        "virtualGraphMode": 1 if ipus > 1 or overlaps else 2,
        "globalReplicationFactor": replicas * processes,
        "globalReplicaOffset": replicas * options.Distributed.processId,
    }
    if isinstance(options._strategy, phased.PhasedExecution):
        chosen["virtualGraphMode"] = 3
        chosen.update(phased.back_end_values(options._strategy))
        for family in FAMILIES:
            if "onChip" not in options.TensorLocations._values[family]:
                chosen[family] = "useOnChipStorage(False)"
    if overlaps:
        chosen["useHostCopyOps"] = 1
        chosen["enableExplicitMainLoops"] = 1
    if pipelined:
        chosen["autoRecomputation"] = 3
    if pipelined and clips:
        chosen["accumulateOuterFragmentSettings.schedule"] = 0
    if training and options.Training.gradient_accumulation > 1:
        chosen["enableGradientAccumulation"] = 1
        chosen["accumulationFactor"] = options.Training.gradient_accumulation
    if replicas > 1:
        chosen["enableReplicatedGraphs"] = 1
        chosen["replicatedGraphCount"] = replicas
    if processes > 1:
        chosen["enableDistributedReplicatedGraphs"] = 1
    return chosen


def report(
    options: typing.Any,
    places: collections.abc.Mapping[str, tuple[int, ...]],
    training: bool,
    clips: bool,
    overlaps: bool,
) -> None:
    """Logs what was chosen, with a warning for each setting of the user that disagrees.

    Args:
        places: dict from block id to (stage, ipu) or (stage, ipu, phase), as the execution strategy gives it.
        training: whether it is a training wrapper.
        clips: whether its optimizer clips gradients.
        overlaps: whether transfers of an input or output overlap with compute.
    """
    given = options._Popart.options
    if "logDir" in given:
        poptorch_core.log(WARN, 'logDir: the value of _Popart.set("logDir", ...) is ignored. Use Options.logDir.')
    ipus = len({place[1] for place in places.values()})
    for name, value in _chosen(options, ipus, training, clips, overlaps).items():
        mine = given.get(name, value)
        if not isinstance(mine, str):
            mine = int(mine)
        if mine == value:
            poptorch_core.log(DEBUG, f"{name} set to value {value}")
        elif name in _FOLLOWED and options._strategy._schedule != "phased":
            poptorch_core.log(
                WARN, f"{name}: your value {mine} is kept, {value}, which poptorch chooses for this model, is ignored."
            )
        else:
            poptorch_core.log(
                WARN, f"{name}: your value {mine} is ignored, this model runs with {value}, which poptorch chooses."
            )


def schedule(options: typing.Any) -> str:
    """How the stages of the model run in time: "pipelined", "sharded" or "phased"."""
    given = options._Popart.options.get("enablePipelining")
    own: str = options._strategy._schedule
    if given is None or own == "phased":
        return own
    return "pipelined" if given else "sharded"
