"""Groups of replicas: which share inputs, and which hold the same value of a parameter."""

from __future__ import annotations

import typing
import weakref

import torch

from poptorch import enums
from poptorch._impl import errors


def groups(kind: enums.CommGroupType, shards: int, replicas: int) -> tuple[int, int]:
    """(size, stride) of the groups `kind` makes of `replicas` replicas; size 0 stands for one group of all.

    Args:
        kind: `poptorch.CommGroupType`.
        shards: replicas per group (int); ignored for `All` and `NoGrouping`.
    """
    if kind == enums.CommGroupType.All:
        return 0, 1
    if kind == enums.CommGroupType.NoGrouping:
        return 1, 1
    if kind == enums.CommGroupType.Consecutive:
        return shards, 1
    return shards, replicas // shards


def check_input_grouping(size: int, kind: enums.CommGroupType, replicas: int) -> tuple[int, enums.CommGroupType]:
    """Raises what `Options.inputReplicaGrouping` documents; returns the (size, kind) to store."""
    assert isinstance(size, int) and not isinstance(size, bool), (
        f"input_group_size must be an int, got {type(size).__name__} ({size!r})"
    )
    assert isinstance(kind, enums.CommGroupType), (
        f"input_group_type must be a poptorch.CommGroupType, got {type(kind).__name__} ({kind!r})"
    )
    if kind == enums.CommGroupType.NoGrouping:
        return 1, enums.CommGroupType.Consecutive
    if kind == enums.CommGroupType.All:
        raise ValueError(
            "inputReplicaGrouping does not take poptorch.CommGroupType.All: it would feed all replicas the same "
            f"input. Use Consecutive with the replication factor ({replicas}) as group size."
        )
    if size < 1 or size > replicas:
        raise ValueError(
            f"inputReplicaGrouping: a group of {size} replicas does not fit replicationFactor {replicas}. "
            "Set replicationFactor first, and a size between 1 and it."
        )
    if replicas % size != 0:
        raise ValueError(
            f"inputReplicaGrouping: replicationFactor {replicas} is not a multiple of the group size {size}."
        )
    return size, kind


def input_group_count(options: typing.Any) -> int:
    """Groups of replicas that are fed inputs of their own."""
    return options.replication_factor // options.input_group_size


class ReplicaGroupingSetter:
    """What `executor.<parameter>.replicaGrouping` is: callable once per parameter, before the first compilation."""

    def __init__(self, state: typing.Any, name: str, parameter: torch.nn.Parameter) -> None:
        self._state = weakref.ref(state)  # of the wrapper
        self._name = name
        self._parameter = weakref.ref(parameter)

    def __reduce__(self) -> tuple[typing.Any, ...]:
        return type(None), ()  # copies of the parameter belong to no wrapper

    def __call__(
        self,
        comm_group_type: enums.CommGroupType,
        shards: int,
        variable_retrieval_mode: enums.VariableRetrievalMode,
    ) -> None:
        """The parameter holds another value for each group of replicas.

        Groups are those of all replicas of the job. The host has the whole parameter in every process, and reading it
        back is a step that all processes of the job do together.

        Args:
            comm_group_type: `poptorch.CommGroupType`.
            shards: replicas per group (int); ignored for `All` and `NoGrouping`.
            variable_retrieval_mode: `poptorch.VariableRetrievalMode`; what is read back.

        Raises:
            poptorch.Error: compiled already, a scalar parameter, groups that do not fit the replicas, or a first
                dimension that is not the number of groups.
        """
        state, parameter = self._state(), self._parameter()
        assert isinstance(comm_group_type, enums.CommGroupType), "comm_group_type must be a poptorch.CommGroupType"
        assert isinstance(variable_retrieval_mode, enums.VariableRetrievalMode), (
            "variable_retrieval_mode must be a poptorch.VariableRetrievalMode"
        )
        what = f"replicaGrouping of '{self._name}'"
        if state is None:
            raise errors.create_error(f"{what}: its wrapper is gone. Keep the wrapper and call it through that one.")
        if parameter is None:
            raise errors.create_error(f"{what}: its parameter is gone. Take replicaGrouping of the one in its place.")
        if state.compiled is not None:
            raise errors.create_error(f"{what}: call it before the first compilation.")
        if parameter.dim() == 0:
            raise errors.create_error(
                f"{what}: a scalar parameter has no dimension for the groups. Give it a leading dimension."
            )
        replicas = state.options.replication_factor * state.options.Distributed.numProcesses  # of the job
        all_replicas = variable_retrieval_mode == enums.VariableRetrievalMode.AllReplicas
        grouped = comm_group_type in (enums.CommGroupType.Consecutive, enums.CommGroupType.Orthogonal)
        if grouped and (not isinstance(shards, int) or shards < 1 or replicas % shards != 0):
            raise errors.create_error(
                f"{what}: {replicas} replicas cannot be cut into groups of {shards!r}. Use a divisor of {replicas}."
            )
        size, stride = groups(comm_group_type, shards, replicas)
        count = 1 if size == 0 else replicas // size
        # With AllReplicas, what was read back (an entry per replica) is a legal value, too.
        if parameter.shape[0] != count and not (all_replicas and parameter.shape[0] == replicas):
            raise errors.create_error(
                f"{what}: the first dimension must be the number of groups, {count}; the parameter has shape "
                f"{list(parameter.shape)}."
            )
        # One group of all replicas is stored as such with a leading dimension, too.
        state.groupings[self._name] = ((size or replicas, stride), all_replicas)


def with_setter(state: typing.Any, name: str, value: typing.Any) -> typing.Any:
    """`value`; a parameter gets the method `replicaGrouping` of the wrapper with this state."""
    if isinstance(value, torch.nn.Parameter):
        object.__setattr__(value, "replicaGrouping", ReplicaGroupingSetter(state, name, value))
    return value
