"""Which replicas share a value, as csrc/support/replica_grouping.h says it: `size` replicas, `stride` apart, form a group, and groups
are numbered in the order of their first replica."""

from __future__ import annotations

from collections.abc import Sequence


def group_at(replica: int, stride: int, size: int) -> int:
    return replica // (stride * size) * stride + replica % stride


def assignment(replicas: int, stride: int, size: int) -> list[int]:
    """The group of each replica.

    >>> assignment(8, 2, 2)
    [0, 1, 0, 1, 2, 3, 2, 3]
    """
    return [group_at(replica, stride, size) for replica in range(replicas)]


def members(groups: Sequence[int]) -> list[list[int]]:
    """The replicas of each group, rising. `groups`: that of each replica.

    >>> members([0, 1, 0, 1])
    [[0, 2], [1, 3]]
    """
    found: list[list[int]] = [[] for _ in range(max(groups) + 1)]
    for replica, group in enumerate(groups):
        found[group].append(replica)
    return found


def firsts(groups: Sequence[int]) -> list[int]:
    """The first replica of each group, which speaks for it where the host reads one value of each."""
    return [groups.index(group) for group in range(max(groups) + 1)]
