"""Back-end settings that poptorch chooses itself, and the warning for a `_Popart.set` that says otherwise."""

import enum

from poptorch._impl.log import logger
from poptorch._impl.options import phased
from poptorch._impl.options.locations import FAMILIES


def _chosen(options, ipus, training):
    """Settings (dict) for a model that uses `ipus` IPUs per replica."""
    replicas, processes = options.replication_factor, options.Distributed.numProcesses
    pipelined = options._strategy._schedule == "pipelined" and ipus > 1
    chosen = {
        "enableLoadAndOffloadRNGState": True,
        "constantWeights": False,
        "enablePipelining": pipelined,
        "virtualGraphMode": 1 if ipus > 1 else 2,
        "globalReplicationFactor": replicas * processes,
        "globalReplicaOffset": replicas * options.Distributed.processId,
    }
    if isinstance(options._strategy, phased.PhasedExecution):
        chosen["virtualGraphMode"] = 3
        chosen.update(phased.back_end_values(options._strategy))
        for family in FAMILIES:
            if "onChip" not in options.TensorLocations._values[family]:
                chosen[family] = "useOnChipStorage(False)"
    if pipelined:
        chosen["autoRecomputation"] = 3
    if training and options.Training.gradient_accumulation > 1:
        chosen["enableGradientAccumulation"] = True
        chosen["accumulationFactor"] = options.Training.gradient_accumulation
    if replicas > 1:
        chosen["enableReplicatedGraphs"] = True
    if processes > 1:
        chosen["enableDistributedReplicatedGraphs"] = True
    return chosen


def warn(options, places, training):
    """Warns of every setting of the user that disagrees.

    Args:
        places: dict from block id to (stage, ipu) or (stage, ipu, phase), as the execution strategy gives it.
        training: whether it is a training wrapper.
    """
    given = options._Popart.options
    if "logDir" in given:
        logger.warning('_Popart.set("logDir", ...) is ignored: use Options.logDir.')
    ipus = len({place[1] for place in places.values()})
    for key, value in _chosen(options, ipus, training).items():
        if key in given and given[key] != value:
            mine = int(given[key]) if isinstance(given[key], enum.IntEnum) else given[key]
            logger.warning(
                '_Popart.set("%s", %r) disagrees with %r, which poptorch chooses for this model: your value is kept.',
                key,
                mine,
                value,
            )
