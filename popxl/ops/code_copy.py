"""Code of graphs, moved between buffers on the chip."""

from typing import Any, NoReturn


def code_copy(graph: Any, source: str, destination: str) -> NoReturn:
    """Raises NotImplementedError: there are no buffers of code. Use `ops.remote_code_load`."""
    raise NotImplementedError('Code is not moved between buffers: use ops.remote_code_load(graph, "executable").')
