"""What distributed programs of PopART and PopXL ask for: options and a device. In one process they say so."""

import importlib
from typing import Any

import popdist


def configureSessionOptions(opts: Any) -> None:
    """Says in `popart.SessionOptions` how many replicas the job has, and which of them are of this process."""
    local, total = popdist.getNumLocalReplicas(), popdist.getNumTotalReplicas()
    opts.enableReplicatedGraphs = local > 1
    opts.replicatedGraphCount = local
    opts.enableDistributedReplicatedGraphs = popdist.getNumInstances() > 1
    opts.globalReplicationFactor = total
    opts.globalReplicaOffset = popdist.getReplicaIndexOffset()


def getDevice(connectionType: Any = None, numIpus: int = 0) -> Any:
    """A device with the IPUs of this process: a `popart.DeviceInfo`.

    Args:
        connectionType: of `popart.DeviceConnectionType`; None: Always, and the device is attached.
        numIpus: how many; 0: those of a replica, times the replicas of this process.

    Raises:
        RuntimeError: there is none.
    """
    popart: Any = importlib.import_module("popart")

    ipus = numIpus or popdist.getNumLocalReplicas() * popdist.getNumIpusPerReplica()
    connection = popart.DeviceConnectionType.Always if connectionType is None else connectionType
    device = popart.DeviceManager().tryAcquireAvailableDevice(
        1 << max(0, ipus - 1).bit_length(), connectionType=connection
    )
    if device is None:
        raise RuntimeError(f"No device with {ipus} IPUs is there.")
    return device
