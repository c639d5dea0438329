"""Losses by class."""

from typing import Any, Optional, Union

from popxl._impl import facade
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import float32
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor, constant

_REDUCTIONS = {"mean": "Mean", "sum": "Sum", "none": "NoReduction"}  # names of popart's ReductionType
REDUCTION_TYPE: dict[str, Any]


def __getattr__(name: str) -> Any:
    if name == "REDUCTION_TYPE":
        kinds = facade.core().ReductionType
        return {word: getattr(kinds, kind) for word, kind in _REDUCTIONS.items()}
    raise AttributeError(f"module {__name__} has no attribute {name}")


def _attributes(reduction: str, ignore_index: Optional[int]) -> dict[str, Any]:
    if reduction not in _REDUCTIONS:
        raise ValueError(f"reduction is {reduction!r}: it is one of {', '.join(map(repr, _REDUCTIONS))}.")
    attributes: dict[str, Any] = {"reduction": reduction}
    if ignore_index is not None:
        attributes["ignoreIndex"] = int(ignore_index)
    return attributes


def nll_loss(
    probs: Tensor, labels: Tensor, ignore_index: Optional[int] = None, reduction: str = "mean", log_prob: bool = False
) -> Tensor:
    """Negative log-likelihood: -log max(p, epsilon) of the probability p of each label.

    Args:
        probs: (..., classes), floating: probabilities; with `log_prob` their logarithms.
        labels: (...), integers.
        ignore_index: a label that adds nothing and is not counted in the mean.
        reduction: "mean" or "sum", shape (); "none", the shape of `labels`.
        log_prob: `probs` are logarithms.

    Returns:
        The loss, in the dtype of `probs`. Epsilon is 1e-7, of float16 6.104e-5.

    Raises:
        ValueError: another reduction.
        popart.popart_exception: shapes do not fit, or `labels` are no integers.

    Example:
        >>> loss = ops.nll_loss(ops.softmax(logits, -1), labels)
    """
    attributes = _attributes(reduction, ignore_index)
    attributes["inputIsLogProbability"] = bool(log_prob)
    check_in_graph(_contexts.here.graph, probs=probs, labels=labels)
    check_tensor_ipu_and_tile_set(probs=probs, labels=labels)
    return create("Nll", {0: probs, 1: labels}, ("loss",), attributes)[0]


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
    attributes = _attributes(reduction, ignore_index)
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
