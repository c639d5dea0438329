"""Whether the instances of a job run one program: their first exchange would otherwise mix what does not belong together."""

from __future__ import annotations

import collections.abc
import hashlib
import itertools

_SHOWN = 200  # characters of a line

Gather = collections.abc.Callable[[bytes], list[bytes]]  # own bytes → those of all instances, as many each


def first_difference(text: str, gather: Gather) -> str | None:
    """What differs first between the programs of the instances; None when all have the same.

    Args:
        text: the program of this instance.
        gather: exchanges bytes; every instance calls this function at the same place.
    """
    data = text.encode()
    digests = gather(hashlib.sha256(data).digest())
    if all(digest == digests[0] for digest in digests):
        return None
    sizes = [int.from_bytes(size, "little") for size in gather(len(data).to_bytes(8, "little"))]
    padded = gather(data.ljust(max(sizes), b"\0"))
    texts = [each[:size].decode().splitlines() for each, size in zip(padded, sizes, strict=True)]
    other = next(index for index, digest in enumerate(digests) if digest != digests[0])
    lines = itertools.zip_longest(texts[0], texts[other], fillvalue="(its end)")
    number, (first, second) = next(found for found in enumerate(lines, 1) if found[1][0] != found[1][1])
    return (
        f"the programs of instances 0 and {other} differ, first in line {number} of {len(texts[0])} and {len(texts[other])}:\n"
        f"  instance 0: {first.strip()[:_SHOWN]}\n"
        f"  instance {other}: {second.strip()[:_SHOWN]}"
    )
