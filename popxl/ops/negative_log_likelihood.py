"""A loss by class with its gradient."""

from typing import Any, Optional, Union

from popxl._impl import facade
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import float32
from popxl.ops.arguments import REDUCTIONS, word
from popxl.ops.functions import nll_loss  # noqa: F401  (published here)
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor, constant

_REDUCTIONS = {"mean": "Mean", "sum": "Sum", "none": "NoReduction"}  # names of popart's ReductionType
REDUCTION_TYPE: dict[str, Any]


def __getattr__(name: str) -> Any:
    if name == "REDUCTION_TYPE":
        kinds = facade.core().ReductionType
        return {name: getattr(kinds, kind) for name, kind in _REDUCTIONS.items()}
    raise AttributeError(f"module {__name__} has no attribute {name}")


def nll_loss_with_softmax_grad(
    probs: Tensor,
    labels: Tensor,
    loss_grad: Union[float, Tensor] = 1,
    ignore_index: Optional[int] = None,
    reduction: str = "mean",
) -> tuple[Tensor, Tensor]:
    """`nll_loss` of `probs` = softmax(x), and the gradient for x: (probs - one_hot(labels)) * loss_grad, over the number
    of labels that count for a mean.

    Args:
        probs: (..., classes), floating.
        labels: (...).
        loss_grad: gradient of the loss; a number becomes a float32 constant.
        ignore_index, reduction: as of `nll_loss`.

    Returns:
        The loss, and the gradient, as `probs`.

    Raises:
        ValueError: another reduction.
        popart.popart_exception: shapes do not fit.

    Example:
        >>> loss, dx = ops.nll_loss_with_softmax_grad(ops.softmax(x, -1), labels)
    """
    attributes: dict[str, Any] = {"reduction": word("reduction", reduction, REDUCTIONS)}
    if ignore_index is not None:
        attributes["ignoreIndex"] = int(ignore_index)
    graph = _contexts.here.graph
    check_in_graph(graph, probs=probs, labels=labels)
    if isinstance(loss_grad, Tensor):
        check_in_graph(graph, loss_grad=loss_grad)
        check_tensor_ipu_and_tile_set(probs=probs, labels=labels, loss_grad=loss_grad)
    else:
        check_tensor_ipu_and_tile_set(probs=probs, labels=labels)
        loss_grad = constant(loss_grad, float32, "loss_grad")
    loss, dx = create("NlllWithSoftmaxGradDirect", {0: probs, 1: labels, 2: loss_grad}, ("loss", "dx"), attributes)
    return loss, dx
