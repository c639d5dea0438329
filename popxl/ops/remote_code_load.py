"""Code of graphs, brought to the chip."""

from typing import Any

from popxl._impl.build import create
from popxl.context import _contexts

_DESTINATIONS = ("executable", "compute_buffer", "io_buffer")


def remote_code_load(graph: Any, destination: str) -> None:
    """Brings the code of a graph from the memory beside the chip. It need not be on chip between a call and the load
    after it; `popxl.in_sequence` orders loads and calls. Results do not depend on it.

    Args:
        graph: to be called later.
        destination: "executable".

    Raises:
        ValueError: `graph` is the current graph; for an unknown destination.
        NotImplementedError: "compute_buffer" and "io_buffer".
        popart.popart_exception: inside `popxl.io_tiles()`.

    Example:
        >>> with popxl.in_sequence():
        ...     ops.remote_code_load(g, "executable")
        ...     (y,) = ops.call(g, x)
    """
    if graph == _contexts.here.graph:
        raise ValueError(f"{graph!r} is the current graph, and its code runs: load the code of a graph that it calls.")
    if destination not in _DESTINATIONS:
        raise ValueError(f"destination is {destination!r}: it must be one of {', '.join(_DESTINATIONS)}.")
    if destination != "executable":
        raise NotImplementedError(f'Code is not loaded to {destination!r}: use "executable".')
    create("RemoteCodeLoad", {}, (), {"graph": graph.id, "destination": destination})
