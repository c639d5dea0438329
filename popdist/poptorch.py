"""Options of PopTorch for an instance of a job."""

from __future__ import annotations

import typing

import poptorch
import poptorch.options

from popdist._impl import environment

if typing.TYPE_CHECKING:
    from typing_extensions import Self


def _decided(what: str, by: str) -> RuntimeError:
    return RuntimeError(
        f"{what} is decided by poprun, not by the program: {by}. A program that decides it itself uses poptorch.Options."
    )


class _LaunchedDistributedOptions(poptorch.options._DistributedOptions):
    """`Options.Distributed` of an instance: says what `poprun` said."""

    def disable(self) -> Self:
        raise _decided("Options.Distributed.disable", "use --num-instances 1")

    def configureProcessId(self, process_id: int, num_processes: int) -> Self:
        raise _decided("Options.Distributed.configureProcessId", "use --num-instances")

    def setEnvVarNames(self, var_num_processes: str, var_process_id: str) -> Self:
        raise _decided("Options.Distributed.setEnvVarNames", "use --num-instances")


class Options(poptorch.Options):
    """`poptorch.Options` of an instance: replicas and processes are those of the job that `poprun` started.

    Without `poprun` it is one instance with one replica.

    Args:
        ipus_per_replica: IPUs of one replica (int); what `poprun --ipus-per-replica` says when None.

    Raises:
        RuntimeError: `ipus_per_replica` is not what `poprun` says; later: a call of `useIpuId`, `replicationFactor` or a
            method of `Distributed`.

    Example:
        >>> options = popdist.poptorch.Options(ipus_per_replica=2)
        >>> trainer = poptorch.trainingModel(model, options.deviceIterations(4))
    """

    def __init__(self, ipus_per_replica: int | None = None) -> None:
        super().__init__()
        if ipus_per_replica is not None:
            environment.require_ipus_per_replica(ipus_per_replica)
        distributed = self.Distributed
        distributed.configureProcessId(environment.getInstanceIndex(), environment.getNumInstances())
        object.__setattr__(distributed, "__class__", _LaunchedDistributedOptions)
        super().replicationFactor(environment.getNumLocalReplicas())
        if environment.isOfflineMode():
            self.useOfflineIpuTarget()

    def replicationFactor(self, replication_factor: int) -> Self:
        raise _decided("Options.replicationFactor", "use --num-replicas")

    def useIpuId(self, ipu_id: int) -> Self:
        raise _decided("Options.useIpuId", "each instance has an emulated system of its own")
