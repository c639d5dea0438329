"""The seed of a session, and the state of a device's random number generators, on which stochastic rounding depends.

Both are chains of our own: a run takes the numbers of random ops from the seed and those of stochastic rounding from the
state, and then both go one step on.
"""

from __future__ import annotations

import hashlib
import operator
import struct
from collections.abc import Sequence

from popart._impl.exceptions import popart_runtime_error

DEFAULT_SEED = 42
WORDS_PER_IPU = 4  # of 32 bits
_MASK = 2**64 - 1


def next_seed(seed: int) -> int:
    """The seed of the run after one with this seed (a step of splitmix64: all seeds are met before one returns)."""
    z = (seed + 0x9E3779B97F4A7C15) & _MASK
    z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & _MASK
    z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & _MASK
    return z ^ (z >> 31)


def as_seed(value: int) -> int:
    """The seed as 64 bits. Raises TypeError for anything but an integer."""
    return operator.index(value) & _MASK


def state_of_seed(seed: int, words: int) -> list[int]:
    return _words(struct.pack("<Q", seed), words)


def next_state(state: Sequence[int]) -> list[int]:
    return _words(_bytes(state), len(state))


def rounding_seed(state: Sequence[int]) -> int:
    """What the rounding of a run depends on, in 64 bits."""
    return int.from_bytes(hashlib.blake2b(_bytes(state), digest_size=8).digest(), "little")


def check_state(state: Sequence[int], words: int) -> list[int]:
    if len(state) != words:
        raise popart_runtime_error(
            f"the state of the random number generators has {words} numbers, and {len(state)} are given"
        )
    return [int(word) for word in state]


def _bytes(state: Sequence[int]) -> bytes:
    return b"".join((int(word) & _MASK).to_bytes(8, "little") for word in state)


def _words(source: bytes, count: int) -> list[int]:
    stream = hashlib.shake_128(source).digest(4 * count)
    return list(struct.unpack(f"<{count}I", stream))
