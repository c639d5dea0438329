"""Ids of groups of IPUs, as `select_ipus` takes them: one of each IPU, then of aligned groups of 2, 4, 8 ..."""

from __future__ import annotations

import functools

_PAIRS_OF_16 = ((5, 7), (4, 6), (3, 1), (2, 0), (13, 15), (12, 14), (9, 11), (10, 8))


@functools.cache
def groups(ipus: int) -> list[tuple[int, ...]]:
    """The IPUs of each id, in the order of shards, of a machine with that many."""
    found: list[tuple[int, ...]] = [(ipu,) for ipu in range(ipus)]
    if ipus == 2:
        return [*found, (0, 1)]
    blocks = range(0, max(ipus, 16), 16)
    wide: list[tuple[int, ...]] = [
        (a + block, b + block) for block in blocks for a, b in _PAIRS_OF_16 if max(a, b) + block < ipus
    ]
    while wide:
        found += wide
        wide = [first + second for first, second in zip(wide[::2], wide[1::2], strict=False)]
    return found


def pool_id(group: tuple[int, ...], ipus: int) -> int:
    """The id by which the core knows such a group: aligned groups of consecutive IPUs, smallest first.

    Pairs of `groups` lie in two rows of a ladder. Changing the numbers 1 and 2 of each four makes them consecutive.
    """
    first = min(group)
    if ipus >= 4:
        first = min(ipu if ipu % 4 in (0, 3) else ipu ^ 3 for ipu in group)
    id, width = first // len(group), 1
    while width < len(group):
        id += ipus // width
        width *= 2
    return id
