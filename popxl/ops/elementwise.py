"""Elementwise functions of more than one op, or of more than tensors."""

from typing import Any, Union

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.functions import clip, identity, isinf, isnan, log, logical_not
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor, constant

__all__ = ["clamp", "isfinite", "log2", "maximum", "pow", "rename", "scaled_add", "scaled_add_"]

clamp = clip
rename = identity


def isfinite(t: Tensor) -> Tensor:
    """Where t is neither infinite nor NaN, as bool; made of `isnan`, `isinf`, or, not and a copy.

    Example:
        >>> y = ops.isfinite(popxl.constant([1.0, float("nan")]))  # True, False
    """
    check_in_graph(_contexts.here.graph, t=t)
    either = create("Or", {0: isnan(t), 1: isinf(t)}, ("or_out",))[0]
    return identity(logical_not(either), "isfinite_out")


def log2(t: Tensor) -> Tensor:
    """log(t) / log(2), of a float tensor.

    Example:
        >>> y = ops.log2(popxl.constant([8.0]))  # 3
    """
    check_in_graph(_contexts.here.graph, t=t)
    dividend = log(t)
    return create("Div", {0: dividend, 1: log(constant(2.0, t.dtype))}, ("div_out",))[0]


def pow(t: Tensor, e: Union[float, Tensor]) -> Tensor:
    """t to the power of e. A number becomes a constant, of the dtype of a float t.

    Example:
        >>> y = ops.pow(x, 2.0)
    """
    graph = _contexts.here.graph
    check_in_graph(graph, t=t)
    if not isinstance(e, Tensor):
        e = constant(e, t.dtype if t.dtype.is_floating_point else None)
    check_in_graph(graph, e=e)
    check_tensor_ipu_and_tile_set(t=t, e=e)
    return create("Pow", {0: t, 1: e}, ("pow_out",))[0]


def maximum(*ts: Tensor) -> Tensor:
    """The largest of one or more tensors of one dtype, which broadcast. Each that is the largest gets the gradient.

    Raises:
        ValueError: no tensor is given.

    Example:
        >>> y = ops.maximum(a, b, c)
    """
    if not ts:
        raise ValueError("maximum takes at least one tensor; none is given.")
    named = {f"t{i}": t for i, t in enumerate(ts)}
    check_in_graph(_contexts.here.graph, **named)
    check_tensor_ipu_and_tile_set(**named)
    return create("Max", dict(enumerate(ts)), ("maximum_out",))[0]


def scaled_add(X: Tensor, Y: Tensor, a: Union[float, Tensor] = 1.0, b: Union[float, Tensor] = 1.0) -> Tensor:
    """a X + b Y, of one shape (nothing broadcasts), in the dtype of X; of float16 with factors, or with another dtype of Y, the
    sum is formed in float32 and rounded once. No gradient.

    Args:
        a, b: numbers, or tensors of rank 0.

    Raises:
        ValueError: a or b has axes.

    Example:
        >>> y = ops.scaled_add(x, update, b=-0.01)
    """
    return _scaled_add("ScaledAdd", X, Y, a, b, "scaled_add_out")


def scaled_add_(X: Tensor, Y: Tensor, a: Union[float, Tensor] = 1.0, b: Union[float, Tensor] = 1.0) -> Tensor:
    """As `scaled_add`; overwrites `X`.

    Example:
        >>> ops.scaled_add_(weight, gradient, b=-0.01)
    """
    return _scaled_add("ScaledAddLhsInplace", X, Y, a, b, None)


def _scaled_add(op_type: str, X: Any, Y: Any, a: Any, b: Any, stem: Any) -> Tensor:
    inputs: dict[int, Tensor] = {0: X, 1: Y}
    attributes: dict[str, float] = {}
    named = {"X": X, "Y": Y}
    for index, name, factor in ((0, "a", a), (1, "b", b)):
        if isinstance(factor, Tensor):
            if factor.rank != 0:
                raise ValueError(f"{name} is a number or a tensor of rank 0, not {factor!r}.")
            inputs[2 + index] = named[name] = factor
        else:
            attributes[name] = float(factor)
    check_in_graph(_contexts.here.graph, **named)
    check_tensor_ipu_and_tile_set(**named)
    return create(op_type, inputs, (stem or f"scaled_add__{X.name}",), attributes)[0]
