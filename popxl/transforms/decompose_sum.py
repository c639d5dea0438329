"""Sums in steps."""

from popxl._impl.errors import core_errors
from popxl.graph import Graph


def decompose_sum(graph: Graph) -> Graph:
    """Replaces each `Sum` of more than two tensors by a zero and one addition for each of them, in the order in which they can be
    made: none has to wait for the last. n + 1 ops take the place of one; the result keeps its id.

    Returns:
        The same graph.

    Example:
        >>> grad = popxl.transforms.autodiff(g)
        >>> popxl.transforms.decompose_sum(grad.graph) is grad.graph
        True
    """
    with core_errors():
        graph.ir._program.decompose_sums(graph._number)
    return graph
