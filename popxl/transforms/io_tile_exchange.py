"""Transfers on I/O tiles, beside what the other tiles compute."""

import contextlib
from collections.abc import Iterator

from popxl.context import get_current_context, in_sequence, io_tiles
from popxl.transforms.merge_exchange import merge, recorded_ops


@contextlib.contextmanager
def io_tile_exchange(verify_overlap: bool = True) -> Iterator[None]:
    """`io_tiles()`, `merge_exchange()` and `in_sequence(False)` in one.

    Args:
        verify_overlap: False: more than one op may remain of those made inside.

    Raises:
        RuntimeError: at the end more than one op remains besides `Init`, which lists them: they would not overlap with
            computation as one.

    Example:
        >>> with popxl.transforms.io_tile_exchange():
        ...     x = ops.host_load(stream)
    """
    graph = get_current_context().graph
    with io_tiles(), in_sequence(False), recorded_ops() as ids:
        yield
    remaining = [op for op in merge(graph, ids) if graph.ir._program.op_type(op) != "Init"]
    if verify_overlap and len(remaining) > 1:
        names = ", ".join(f"{graph.ir._program.op_type(op)} {op}" for op in remaining)
        raise RuntimeError(
            f"{len(remaining)} ops of {graph!r} remain of io_tile_exchange, and one exchange alone overlaps: {names}. Leave "
            "all but transfers outside, and do not store what is loaded inside."
        )
