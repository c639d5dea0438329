"""Groups of replicas, and what a variable is besides its type: which replicas share a value, and which are read."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import CommGroupType, VariableRetrievalMode
from popart._impl.exceptions import popart_exception, popart_internal_exception


def _native() -> Any:
    from ipu_core._native import replica_groups  # not with popart, which loads no compiler

    return replica_groups


class ReplicaGrouping:
    """Replicas split into equal groups: blocks of stride·groupSize, in which every stride-th is of one group.

    >>> ReplicaGrouping(8, 2, 4).getReplicasAt(1)
    [1, 3, 5, 7]
    """

    __hash__ = None  # type: ignore[assignment]

    def __init__(self, numReplicas: int, stride: int | None = None, groupSize: int | None = None) -> None:
        stride = 1 if stride is None else stride
        size = numReplicas // stride if groupSize is None and stride > 0 else groupSize
        if numReplicas < 1 or stride < 1 or size is None or size < 1 or numReplicas % (stride * size):
            raise popart_exception(
                f"no grouping of {numReplicas} replicas has stride {stride} and groups of {size}: "
                "stride times size must divide the number of replicas"
            )
        self._replicas, self._size = numReplicas, size
        self._stride = 1 if size == 1 else stride

    def str(self) -> Any:
        return repr(self)

    def getNumReplicas(self) -> int:
        return self._replicas

    def getStride(self) -> int:
        return self._stride

    def getGroupSize(self) -> int:
        return self._size

    def getNumGroups(self) -> int:
        return self._replicas // self._size

    def getGroupAt(self, replica: int) -> int:
        self._check(replica, self._replicas, "replica")
        return int(_native().group_at(replica, self._stride, self._size))

    def getIndexInGroupAt(self, replica: int) -> int:
        self._check(replica, self._replicas, "replica")
        return int(_native().member_at(replica, self._stride, self._size))

    def getReplicaAt(self, group: int, index: int = 0) -> int:
        self._check(group, self.getNumGroups(), "group")
        self._check(index, self._size, "member")
        return int(_native().replica_at(group, index, self._stride, self._size))

    def getReplicasAt(self, group: int) -> list[int]:
        return [self.getReplicaAt(group, index) for index in range(self._size)]

    def getTranspose(self) -> ReplicaGrouping:
        """The grouping whose groups have one member of each group of this one."""
        size = self.getNumGroups()
        if self._stride != 1 and self._stride * self._size != self._replicas:
            raise popart_exception(f"the transpose of {self} has no single stride")
        return ReplicaGrouping(self._replicas, 1 if self._stride > 1 else self._size, size)

    def _check(self, value: int, end: int, what: Any) -> None:
        if not 0 <= value < end:
            raise popart_exception(f"{what} {value} of {self}: there are {end}")

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, ReplicaGrouping):
            return NotImplemented
        return (self._replicas, self._stride, self._size) == (other._replicas, other._stride, other._size)

    def __str__(self) -> Any:
        return f"ReplicaGrouping(numReplicas={self._replicas}, stride={self._stride}, groupSize={self._size})"

    __repr__ = __str__


class CommGroup:
    """The older description of groups: (), (type, replicaGroupSize), or a ReplicaGrouping."""

    type: Any
    replicaGroupSize: int

    def __init__(self, type: Any = CommGroupType.All, replicaGroupSize: int = 0) -> None:
        if isinstance(type, ReplicaGrouping):
            type, replicaGroupSize = self._of(type)
        self.type = CommGroupType(type)
        self.replicaGroupSize = replicaGroupSize

    @staticmethod
    def _of(grouping: ReplicaGrouping) -> tuple[CommGroupType, int]:
        size = grouping.getGroupSize()
        if size == 1:
            return CommGroupType["Ungrouped"], 0
        if size == grouping.getNumReplicas():
            return CommGroupType["All"], 0
        if grouping.getStride() == grouping.getNumGroups():
            return CommGroupType["Orthogonal"], size
        if grouping.getStride() == 1:
            return CommGroupType["Consecutive"], size
        raise popart_exception(f"{grouping} is no CommGroup: its stride is neither 1 nor the number of groups")

    def toReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        if self.type is CommGroupType["All"]:
            return ReplicaGrouping(numReplicas, 1, numReplicas)
        if self.type is CommGroupType["Ungrouped"]:
            return ReplicaGrouping(numReplicas, 1, 1)
        if self.replicaGroupSize < 1:
            raise popart_exception(f"groups of {self.replicaGroupSize} replicas: there must be at least one in each")
        stride = 1 if self.type is CommGroupType["Consecutive"] else numReplicas // self.replicaGroupSize
        return ReplicaGrouping(numReplicas, stride, self.replicaGroupSize)

    def __eq__(self, other: object) -> bool:
        if not isinstance(other, CommGroup):
            return NotImplemented
        return (self.type, self.replicaGroupSize) == (other.type, other.replicaGroupSize)

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"CommGroup(type={self.type.name}, replicaGroupSize={self.replicaGroupSize})"


class VariableSettings:
    """Which replicas share the value of a variable, and which of them are read.

    Takes (), (sharedVariableDomain_), (retrievalMode_), (sharedVariableDomain_, retrievalMode_) or
    (stride, groupSize, mode).
    """

    def __init__(self, *values: Any, **named: Any) -> None:
        self._domain: CommGroup | None = CommGroup()
        self._mode = VariableRetrievalMode["OnePerGroup"]
        self._stride = self._size = 0
        for value in [*values, *named.values()]:
            if isinstance(value, VariableRetrievalMode):
                self._mode = value
            elif isinstance(value, CommGroup):
                self._domain = value
        numbers = [value for value in values if isinstance(value, int)]
        numbers += [named[key] for key in ("stride", "groupSize") if key in named]
        if numbers:
            if len(numbers) != 2:
                raise TypeError(
                    f"incompatible arguments: VariableSettings takes (stride, groupSize, mode), not {values}"
                )
            self._domain, (self._stride, self._size) = None, numbers
        self.verify()

    def verify(self) -> None:
        grouped = (CommGroupType["Consecutive"], CommGroupType["Orthogonal"])
        if self._domain is not None and self._domain.type in grouped and self._domain.replicaGroupSize < 1:
            raise popart_internal_exception(f"{self._domain}: its group size must be at least 1")
        if self._domain is None and (self._stride < 1 or self._size < 1):
            raise popart_internal_exception(f"stride {self._stride} and group size {self._size} must be at least 1")

    def isUsingCommGroup(self) -> bool:
        return self._domain is not None

    def getSharedVariableDomain(self) -> CommGroup:
        if self._domain is None:
            raise popart_internal_exception("these settings were made of a stride and a size, not of a CommGroup")
        return self._domain

    def getCommGroupType(self) -> CommGroupType:
        return self.getSharedVariableDomain().type

    def getRetrievalMode(self) -> VariableRetrievalMode:
        return self._mode

    def getStride(self) -> int:
        return self._stride

    def getGroupSize(self) -> int:
        return self._domain.replicaGroupSize if self._domain is not None else self._size

    def getReplicaGrouping(self, numReplicas: int) -> ReplicaGrouping:
        if self._domain is not None:
            return self._domain.toReplicaGrouping(numReplicas)
        return ReplicaGrouping(numReplicas, self._stride, self._size)

    def getGroupCount(self, numReplicas: int) -> int:
        return self.getReplicaGrouping(numReplicas).getNumGroups()

    def getRealGroupSize(self, numReplicas: int) -> int:
        return self.getReplicaGrouping(numReplicas).getGroupSize()

    def getGroupRepresentative(self, group: int) -> int:
        """The first replica of a group, whatever the number of replicas."""
        if self._domain is None:
            return int(_native().replica_at(group, 0, self._stride, self._size))
        if self._domain.type is CommGroupType["All"]:
            return 0
        consecutive = self._domain.type is CommGroupType["Consecutive"]
        return group * self._domain.replicaGroupSize if consecutive else group

    def numReplicasReturningVariable(self, numReplicas: int) -> int:
        one_per_group = self._mode is VariableRetrievalMode["OnePerGroup"]
        return self.getGroupCount(numReplicas) if one_per_group else numReplicas

    def shapeOnReplica(self, fullShape: Any, numReplicas: int, name: str = "") -> list[int]:
        groups, shape = self.getGroupCount(numReplicas), list(fullShape)
        if groups == 1:
            return shape
        if not shape or shape[0] != groups:
            raise popart_internal_exception(
                f"the data of '{name}' have shape {tuple(shape)}, but the first dimension must be the {groups} groups"
            )
        return shape[1:]

    def shapeOnHost(self, replicaShape: Any, numReplicas: int) -> list[int]:
        copies = self.numReplicasReturningVariable(numReplicas)
        return ([copies] if copies > 1 else []) + list(replicaShape)

    def groups(self, numReplicas: int) -> list[list[int]]:
        grouping = self.getReplicaGrouping(numReplicas)
        return [grouping.getReplicasAt(group) for group in range(grouping.getNumGroups())]
