"""What a program needs to know when `poprun` runs it several times as one job. docs/jobs.md is the guide.

A process that `poprun` started is an *instance*; each has `getNumLocalReplicas()` of the `getNumTotalReplicas()` replicas.
Without `poprun` there is one instance with one replica, and every function works.

Example:
    >>> import popdist, popdist.poptorch
    >>> popdist.init()
    >>> options = popdist.poptorch.Options()
    >>> popdist.execute_on_instances({0}, print, "weights are saved by the first instance")
"""

from popdist._impl import failures as _failures
from popdist._impl.backend import (
    execute_on_instances,
    finalizeBackend,
    init,
    initializeBackend,
    isBackendInitialized,
    synchronize,
)
from popdist._impl.environment import (
    checkNumIpusPerReplica,
    getDeviceId,
    getInstanceIndex,
    getLocalInstanceIndex,
    getNumInstances,
    getNumIpusPerReplica,
    getNumLocalReplicas,
    getNumTotalReplicas,
    getReplicaIndexOffset,
    isOfflineMode,
    isPopdistEnvSet,
)

__all__ = [
    "checkNumIpusPerReplica",
    "execute_on_instances",
    "finalizeBackend",
    "getDeviceId",
    "getInstanceIndex",
    "getLocalInstanceIndex",
    "getNumInstances",
    "getNumIpusPerReplica",
    "getNumLocalReplicas",
    "getNumTotalReplicas",
    "getReplicaIndexOffset",
    "init",
    "initializeBackend",
    "isBackendInitialized",
    "isOfflineMode",
    "isPopdistEnvSet",
    "synchronize",
]

_failures.watch()
