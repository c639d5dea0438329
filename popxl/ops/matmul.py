"""Matrix products."""

from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import dtype, float16, float32
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

_PARTIALS = {float16: "half", float32: "float"}
_OPTION = {"": "float", "float": "float", "half": "half"}


def _partials(graph: Any, partials_type: Optional[dtype]) -> str:
    """As the op takes it. Raises ValueError for another dtype or word of the session option."""
    if partials_type is not None:
        word = _PARTIALS.get(partials_type)
        if word is None:
            raise ValueError(f"partials_type is {partials_type!r}: it is popxl.float16 or popxl.float32.")
        return word
    option = graph.ir._pb_ir.getSessionOptions().partialsTypeMatMuls
    if option not in _OPTION:
        raise ValueError(f'The session option partialsTypeMatMuls is "{option}": it is "", "float" or "half".')
    return _OPTION[option]


def matmul(
    lhs: Tensor,
    rhs: Tensor,
    available_memory_proportion: Optional[float] = None,
    output_type: Optional[dtype] = None,
    partials_type: Optional[dtype] = None,
) -> Tensor:
    """Matrix product by the rules of `numpy.matmul`: batch axes broadcast, one axis stands for a row or column.

    Args:
        lhs: (..., M, K) or (K,), floating.
        rhs: (..., K, N) or (K,), of the dtype of `lhs`.
        available_memory_proportion: in (0, 1], of the tile memory it may take; no effect on values.
        output_type: dtype of the result; None: that of `lhs`.
        partials_type: dtype of partial sums, popxl.float16 or popxl.float32; None: as the session option
            partialsTypeMatMuls says.

    Returns:
        (..., M, N), without the axes of operands of one axis.

    Raises:
        ValueError: another `partials_type`, or the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes or dtypes do not fit.

    Example:
        >>> y = ops.matmul(x, w)  # x @ w
    """
    graph = _contexts.here.graph
    check_in_graph(graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    attributes: dict[str, Any] = {"partialsType": _partials(graph, partials_type)}
    if available_memory_proportion is not None:
        attributes["availableMemoryProportion"] = float(available_memory_proportion)
    if output_type is not None:
        attributes["outputType"] = output_type._number
    return create("MatMul", {0: lhs, 1: rhs}, ("matmul_out",), attributes)[0]
