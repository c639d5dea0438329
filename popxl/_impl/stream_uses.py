"""Which streams a program uses."""

from collections.abc import Iterable
from typing import Any


def streams_of(program: Any, op_types: Iterable[str]) -> set[int]:
    """Numbers of the stream tensors that ops of these types move, in any graph."""
    wanted = set(op_types)
    ids: set[str] = set()
    for graph in program.graphs():
        for op in program.ops(graph):
            kind = program.op_type(op)
            if kind in wanted:
                ids.add(program.op_attribute(op, "stream"))
            elif kind == "MultiExchange":
                ids.update(attributes["stream"] for merged, attributes, *_ in program.transfers(op) if merged in wanted)
    return {program.find_tensor(0, stream) for stream in ids}
