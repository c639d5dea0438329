"""What `poprun` tells an instance, in environment variables (docs/jobs.md lists them)."""

import os

# Those that make a process an instance; the other ones follow from them.
INSTANCE, INSTANCES = "POPDIST_INSTANCE_INDEX", "POPDIST_NUM_INSTANCES"
TOTAL_REPLICAS, IPUS_PER_REPLICA = "POPDIST_NUM_TOTAL_REPLICAS", "POPDIST_NUM_IPUS_PER_REPLICA"
LOCAL_INSTANCE, OFFLINE = "POPDIST_LOCAL_INSTANCE_INDEX", "POPDIST_OFFLINE_MODE"
_REQUIRED = (INSTANCE, INSTANCES, TOTAL_REPLICAS, IPUS_PER_REPLICA)


def isPopdistEnvSet() -> bool:
    """Whether `poprun` started this process.

    Raises:
        RuntimeError: only some of its variables are there.
    """
    there = [name for name in _REQUIRED if name in os.environ]
    if there and len(there) < len(_REQUIRED):
        missing = ", ".join(name for name in _REQUIRED if name not in os.environ)
        raise RuntimeError(
            f"{', '.join(there)} without {missing}: poprun sets all of them. Start the program through poprun, or unset "
            "them."
        )
    return bool(there)


def _number(name, default, least):
    if not isPopdistEnvSet() or name not in os.environ:
        return default
    try:
        value = int(os.environ[name])
    except ValueError:
        value = least - 1
    if value < least:
        raise RuntimeError(
            f"The environment variable {name} is {os.environ[name]!r} and must be an integer of at least {least}. Start "
            "the program through poprun, which sets it, or unset it."
        )
    return value


def getInstanceIndex() -> int:
    """Number of this instance, from 0; 0 without `poprun`."""
    return _number(INSTANCE, 0, 0)


def getNumInstances() -> int:
    """Instances of the job; 1 without `poprun`."""
    return _number(INSTANCES, 1, 1)


def getLocalInstanceIndex() -> int:
    """Number of this instance among those of its host; 0 without `poprun`."""
    return _number(LOCAL_INSTANCE, 0, 0)


def getNumTotalReplicas() -> int:
    """Replicas of all instances; 1 without `poprun`."""
    return _number(TOTAL_REPLICAS, 1, 1)


def getNumLocalReplicas() -> int:
    """Replicas of this instance: every instance has as many; 1 without `poprun`.

    Raises:
        RuntimeError: the replicas of the job cannot be divided among the instances.
    """
    each, rest = divmod(getNumTotalReplicas(), getNumInstances())
    if rest or each == 0:
        raise RuntimeError(
            f"{getNumTotalReplicas()} replicas ({TOTAL_REPLICAS}) cannot be divided among {getNumInstances()} instances "
            f"({INSTANCES}). Start the program through poprun, which checks that."
        )
    return each


def getReplicaIndexOffset() -> int:
    """Number, within the job, of the first replica of this instance."""
    return getInstanceIndex() * getNumLocalReplicas()


def getNumIpusPerReplica() -> int:
    """IPUs of one replica as `poprun --ipus-per-replica` says; 1 without `poprun`."""
    return _number(IPUS_PER_REPLICA, 1, 1)


def checkNumIpusPerReplica(num_ipus: int) -> bool:
    """Whether `num_ipus` is what `poprun --ipus-per-replica` says; without `poprun` every positive number is right."""
    return num_ipus == getNumIpusPerReplica() if isPopdistEnvSet() else num_ipus >= 1


def getDeviceId(ipus_per_replica: int = 0) -> int:
    """Id of the device of this instance: 0, for each instance has an emulated system of its own.

    Args:
        ipus_per_replica: IPUs of one replica (int); 0: what `poprun` says.

    Raises:
        RuntimeError: `poprun` says another number.
    """
    if ipus_per_replica != 0:
        require_ipus_per_replica(ipus_per_replica)
    return 0


def isOfflineMode() -> bool:
    """Whether `poprun --offline-mode yes` asks for programs that are compiled and not run."""
    return _number(OFFLINE, 0, 0) != 0


def require_ipus_per_replica(number):
    """RuntimeError when `poprun` says another number of IPUs per replica."""
    if not checkNumIpusPerReplica(number):
        raise RuntimeError(
            f"The program asks for {number} IPU(s) per replica, and poprun was told --ipus-per-replica "
            f"{getNumIpusPerReplica()}: give both the same number."
        )
