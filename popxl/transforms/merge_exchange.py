"""Transfers that happen at once."""

import contextlib
from typing import Any
from collections.abc import Iterator

from popxl._impl.errors import core_errors
from popxl.context import get_current_context, in_sequence


@contextlib.contextmanager
def recorded_ops() -> Iterator[list[int]]:
    """Ids of the ops that are made in the current graph inside, in order."""
    graph = get_current_context().graph
    ids: list[int] = []
    handle = graph.register_op_created_hook(lambda op: ids.append(op.id))
    try:
        yield ids
    finally:
        graph.remove_op_created_hook(handle)


def merge(graph: Any, ids: list[int]) -> list[int]:
    """Merges the transfers among ops of a graph; the ids of the ops that are there afterwards."""
    context, program = get_current_context(), graph.ir._program
    with core_errors():
        there = set(program.ops(graph._number))
        made = program.merge_exchange(graph._number, [op for op in ids if op in there])
    gone = there - set(program.ops(graph._number))
    if made:
        context._replaced(program, graph._number, gone, made)
    with in_sequence("pass"):
        for op in made:
            context._created(graph.ir, graph._number, op)
    return [op for op in (*ids, *made) if op not in gone]


@contextlib.contextmanager
def merge_exchange() -> Iterator[None]:
    """Transfers that are made in the current graph inside (host and remote loads and stores, code loads) become one
    `MultiExchange`, where no operand and no order forces them apart. No tensor and no value changes.

    Example:
        >>> with popxl.transforms.merge_exchange(), popxl.in_sequence(False):
        ...     x = ops.host_load(x_stream)
        ...     y = ops.host_load(y_stream)
    """
    graph = get_current_context().graph
    with recorded_ops() as ids:
        yield
    merge(graph, ids)
