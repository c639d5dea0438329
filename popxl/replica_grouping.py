"""Partitions of the replicas into groups of one size."""

import math
from collections.abc import Sequence
from typing import Any, Optional

from ipu_core._native import replica_groups
from popxl._impl import facade


class ReplicaGrouping:
    """A partition of all replicas into groups of one size, numbered by first appearance. `Ir.replica_grouping` and
    `Ir.replica_grouping_from_assignments` make them.

    Raises:
        RuntimeError: on construction.

    Example:
        >>> popxl.Ir(replication=4).replica_grouping(stride=1, group_size=2).assignment
        [0, 0, 1, 1]
    """

    __slots__ = ("_ir", "_replicas", "_stride", "_group_size", "_assignment")

    _ir: Any
    _replicas: int
    _stride: Optional[int]  # None: no single one
    _group_size: int
    _assignment: list[int]

    __hash__ = None  # type: ignore[assignment]

    def __init__(self) -> None:
        raise RuntimeError("popxl.ReplicaGrouping cannot be made: use Ir.replica_grouping.")

    @classmethod
    def _make(cls, ir: Any, stride: Optional[int], group_size: int, assignment: list[int]) -> "ReplicaGrouping":
        self = object.__new__(cls)
        self._ir, self._replicas, self._group_size, self._assignment = ir, len(assignment), group_size, assignment
        self._stride = 1 if group_size == 1 else stride
        return self

    @classmethod
    def _from_stride(cls, ir: Any, stride: int = 1, group_size: Optional[int] = None) -> "ReplicaGrouping":
        replicas = ir.replication_factor
        if not 0 < stride <= replicas:
            raise ValueError(f"The stride of a group is {stride}: it must be from 1 to the {replicas} replicas.")
        if replicas % stride != 0:
            raise ValueError(f"The stride of a group is {stride}: it must divide the {replicas} replicas.")
        size = replicas // stride if group_size is None else group_size
        if not 0 < size <= replicas:
            raise ValueError(f"The size of a group is {size}: it must be from 1 to the {replicas} replicas.")
        span = stride * size if size > 1 else 1
        if replicas % span != 0:
            raise ValueError(
                f"{replicas} replicas cannot be grouped by {size} with stride {stride}: {size} * {stride} must divide them."
            )
        if size == 1:
            stride = 1
        return cls._make(ir, stride, size, replica_groups.assignment(replicas, stride, size))

    @classmethod
    def _from_assignment(cls, ir: Any, assignment: Sequence[int]) -> "ReplicaGrouping":
        replicas, groups = ir.replication_factor, list(assignment)
        if len(groups) != replicas:
            raise ValueError(f"The assignment has {len(groups)} entries; there are {replicas} replicas.")
        number = max(groups) + 1
        if sorted(set(groups)) != list(range(number)):
            raise ValueError(
                f"Groups are numbered from 0 without a gap; the assignment {groups} has {sorted(set(groups))}."
            )
        first = replica_groups.firsts(groups)
        if first != sorted(first):
            raise ValueError(f"Groups are numbered by first appearance; in {groups} they first appear at {first}.")
        members = replica_groups.members(groups)
        if len({len(m) for m in members}) != 1:
            raise ValueError(f"Groups have one size; those of {groups} have {[len(m) for m in members]}.")
        strides = {b - a for m in members for a, b in zip(m, m[1:])}
        if len(strides) > 1:
            return cls._make(ir, None, len(members[0]), groups)
        stride = strides.pop() if strides else 1
        size = len(members[0])
        if replicas % (stride * size) or groups != replica_groups.assignment(replicas, stride, size):
            return cls._make(ir, None, size, groups)  # one distance, but the groups do not follow it
        return cls._make(ir, stride, size, groups)

    @property
    def _pb_replica_grouping(self) -> Any:
        return facade.core().ReplicaGrouping(self._replicas, self.stride, self._group_size)

    def _to_variable_settings(self, retrieval_mode: Optional[str] = None) -> Any:
        """The `popart.VariableSettings`. Raises NotImplementedError when the grouping is not constant."""
        import popart

        mode = facade.retrieval_mode(check_retrieval_mode(retrieval_mode))
        return popart.VariableSettings(self.stride, self._group_size, mode)

    @property
    def stride(self) -> int:
        """From one member of a group to the next; 1 where groups have one member.

        Raises:
            NotImplementedError: there is no single one.
        """
        if self._stride is None:
            raise NotImplementedError(f"{self!r} has no single stride: use its assignment, or const_rg.")
        return self._stride

    @property
    def group_size(self) -> int:
        """Members of a group."""
        return self._group_size

    @property
    def num_groups(self) -> int:
        """Number of groups."""
        return self._replicas // self._group_size

    @property
    def assignment(self) -> list[int]:
        """Group of each replica."""
        return list(self._assignment)

    @property
    def is_const(self) -> bool:
        """Whether one stride says all."""
        return self._stride is not None

    def transpose(self) -> "ReplicaGrouping":
        """The grouping whose i-th group has the i-th member of each group of this one."""
        if self._stride is not None and (self._stride == 1 or self._stride * self._group_size == self._replicas):
            stride = 1 if self._stride > 1 else self._group_size
            return ReplicaGrouping._from_stride(self._ir, stride, self.num_groups)
        columns = [0] * self._replicas
        for members in replica_groups.members(self._assignment):
            for i, replica in enumerate(members):
                columns[replica] = i
        return ReplicaGrouping._from_assignment(self._ir, columns)

    @property
    def const_rg(self) -> "ReplicaGrouping":
        """Itself if constant; else the coarsest constant grouping whose groups lie in those of this one."""
        if self._stride is not None:
            return self
        members = replica_groups.members(self._assignment)
        steps = [b - a for m in members for a, b in zip(m, m[1:])]
        stride, size = min(steps), 0
        for m in members:
            run = 1
            for a, b in zip(m, m[1:]):
                if b - a > stride:
                    size, run = math.gcd(size, run), 0
                run += 1
            size = math.gcd(size, run)
        # Neighbours at one distance need not make a partition: then only single replicas do.
        for s in sorted((d for d in range(1, size + 1) if size % d == 0), reverse=True):
            if self._replicas % (stride * s) == 0:
                grouping = ReplicaGrouping._from_stride(self._ir, stride, s)
                if grouping._refines(self):
                    return grouping
        return ReplicaGrouping._from_stride(self._ir, 1, 1)

    def _refines(self, other: "ReplicaGrouping") -> bool:
        return all(len({other._assignment[r] for r in m}) == 1 for m in replica_groups.members(self._assignment))

    @property
    def to_device_map(self) -> Optional[list[int]]:
        """By group of `const_rg`, the group of this; None if it is constant."""
        if self._stride is not None:
            return None
        return [self._assignment[m[0]] for m in replica_groups.members(self.const_rg._assignment)]

    @property
    def to_host_map(self) -> Optional[list[int]]:
        """By group, the first group of `const_rg` in it; None if it is constant."""
        device = self.to_device_map
        return None if device is None else replica_groups.firsts(device)

    def __eq__(self, other: Any) -> bool:
        if not isinstance(other, ReplicaGrouping):
            raise TypeError(f"A popxl.ReplicaGrouping is compared with a {type(other).__name__}.")
        return self._ir == other._ir and self._assignment == other._assignment

    def __repr__(self) -> str:
        if self._stride is None:
            return f"ReplicaGrouping(assignment={self._assignment})"
        return (
            f"ReplicaGrouping(num_replicas={self._replicas}, stride={self._stride}, group_size={self._group_size}, "
            f"num_groups={self.num_groups})"
        )


def check_retrieval_mode(mode: Optional[str]) -> str:
    """The mode, "one_per_group" if None. Raises ValueError for an unknown one."""
    if mode not in (None, "one_per_group", "all_replicas"):
        raise ValueError(f'retrieval_mode is {mode!r}: it must be "one_per_group" or "all_replicas".')
    return mode or "one_per_group"
