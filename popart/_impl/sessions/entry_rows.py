"""Variables that lie in entries of a remote buffer with another number of elements: rows of elements, of which the first are
stored. Nothing here where variable, or shard, and entry have as many."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

import numpy


class EntryRows:
    """A value of `elements` elements as `over` shards, one in each entry of `entry` elements. A shard that has fewer than its
    entry is its beginning; of one that has more, the beginning is stored.

    `assignment`: with several shards, the group of each replica, which hold one entry each; without, each value is one entry.
    """

    def __init__(self, elements: int, entry: int, over: int, assignment: Sequence[int]) -> None:
        self._elements, self._entry, self.over = elements, entry, over
        self._shard = -(-elements // over)
        self._shared = min(self._shard, entry)
        self._assignment = list(assignment)
        seen: dict[int, int] = {}
        self._shards = []  # of each replica
        for group in assignment:
            place = seen[group] = seen.get(group, -1) + 1
            self._shards.append(place % over)

    def stored(self, values: numpy.ndarray) -> numpy.ndarray:
        """Entries with these values, zero elsewhere."""
        parts = self._parts(values)
        entries = numpy.zeros((*parts.shape[:2], self._entry), values.dtype)
        entries[..., : self._shared] = parts[..., : self._shared]
        return entries[self._assignment, self._shards] if self.over > 1 else entries[:, 0]

    def read(self, entries: numpy.ndarray, old: numpy.ndarray) -> numpy.ndarray:
        """The values, one row for each: those of `old` where no entry holds an element."""
        parts = self._parts(old)
        entries = entries.reshape(-1, self._entry)
        if self.over > 1:
            parts[self._assignment, self._shards, : self._shared] = entries[:, : self._shared]
        else:
            parts[:, 0, : self._shared] = entries[:, : self._shared]
        return parts.reshape(len(parts), -1)[:, : self._elements]

    def of_each_replica(self, rows: numpy.ndarray) -> numpy.ndarray:
        return rows[self._assignment] if self.over > 1 else rows

    def _parts(self, values: numpy.ndarray) -> numpy.ndarray:
        rows = values.reshape(-1, self._elements)
        padded = numpy.zeros((len(rows), self.over * self._shard), values.dtype)
        padded[:, : self._elements] = rows
        return padded.reshape(len(rows), self.over, self._shard)


def entry_rows(core: Any, number: int, settings: Mapping[str, Any], assignment: Sequence[int]) -> EntryRows | None:
    """Of a variable of a native program; None where it lies in its entry as it is."""
    if settings["remote_buffer"] < 0:
        return None
    elements, over = math.prod(core.tensor_info(number)[1]), settings["shard_over"]
    shape = tuple(core.remote_buffers()[settings["remote_buffer"]][1])
    entry, shard = math.prod(shape), -(-elements // over)
    if entry == shard and (over == 1 or shape == (shard,)):
        return None
    return EntryRows(elements, entry, over, assignment)
