"""What a scheduler has to solve for the graphs of a listing, as JSON files: ops, what each waits for, and the memory that they share."""

from __future__ import annotations

import json
import math
import os
from typing import TYPE_CHECKING, Any

import numpy

from popart._impl import files
from popart._impl.exceptions import popart_exception

if TYPE_CHECKING:
    from popart._impl.listing.records import Listing, Op


def write(listing: Listing, graphs: dict[str, list[Op]]) -> None:
    """Writes serializedPoprithmsShiftGraphsDir/poprithms_shift_graph_<number>.json for each graph.

    Raises:
        popart_exception: there is no such folder.
    """
    folder = str(listing.options.serializedPoprithmsShiftGraphsDir)
    if not os.path.isdir(folder):
        raise popart_exception(f"serializedPoprithmsShiftGraphsDir is '{folder}', which is no folder; make it first")
    for number, ops in enumerate(graphs.values()):
        path = os.path.join(folder, f"poprithms_shift_graph_{number}.json")
        files.write(path, json.dumps(_problem(listing, ops)))


def _problem(listing: Listing, ops: list[Op]) -> dict[str, list[dict[str, Any]]]:
    makers = {id: at for at, op in enumerate(ops) for id in op.outputs}
    allocations = {id: number for number, id in enumerate(makers)}
    before = [sorted({makers[id] for id in op.inputs if id in makers and makers[id] < at}) for at, op in enumerate(ops)]
    behind: list[list[int]] = [[] for _ in ops]
    for at, earlier in enumerate(before):
        for other in earlier:
            behind[other].append(at)
    return {
        "ops": [
            {
                "address": at,
                "debugString": f"{op.type} {op.name}".strip(),
                "ins": before[at],
                "outs": behind[at],
                "allocs": sorted({allocations[id] for id in [*op.inputs, *op.outputs] if id in allocations}),
            }
            for at, op in enumerate(ops)
        ],
        "allocs": [{"address": number, "value": bytes_of(listing, id)} for id, number in allocations.items()],
    }


def bytes_of(listing: Listing, id: str) -> int:
    dtype, shape = listing.type_of(id)
    widths = {"FLOAT": 4, "DOUBLE": 8, "BFLOAT16": 2}
    width = widths[dtype] if dtype in widths else 1 if "FLOAT8" in dtype else numpy.dtype(dtype.lower()).itemsize
    return math.prod(shape) * width
