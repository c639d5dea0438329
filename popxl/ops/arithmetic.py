"""Elementwise ops of several tensors. Operands have one dtype and broadcast as in NumPy, unless a function says
otherwise; all of them raise TypeError for what is no tensor, ValueError for tensors of another graph, or on different
IPUs or tile sets, and popart.popart_exception for shapes and dtypes that do not fit."""

from typing import Any, Union

from popxl import dtypes
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import cast_if_needed, check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor, constant

__all__ = [
    "add", "add_", "div", "equal", "fmod", "greater", "logical_and", "logical_or", "maximum", "mul", "pow",
    "scaled_add", "scaled_add_", "sub", "where",
]  # fmt: skip


def _binary(op_type: str, lhs: Tensor, rhs: Tensor, stem: str) -> Tensor:
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create(op_type, {0: lhs, 1: rhs}, (stem,))[0]


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs + rhs.

    Example:
        >>> y = ops.add(a, b)  # or a + b
    """
    return _binary("Add", lhs, rhs, "add_out")


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs becomes lhs + rhs; rhs broadcasts to the shape of lhs.

    Example:
        >>> total = ops.add_(total, x)  # or total += x
    """
    return _binary("AddLhsInplace", lhs, rhs, "add_lhs_inplace_out")


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs - rhs.

    Example:
        >>> y = ops.sub(a, b)  # or a - b
    """
    return _binary("Sub", lhs, rhs, "sub_out")


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs * rhs.

    Example:
        >>> y = ops.mul(a, b)  # or a * b
    """
    return _binary("Mul", lhs, rhs, "mul_out")


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs / rhs; of integers the quotient without its fraction, 0 where rhs is 0.

    Example:
        >>> y = ops.div(a, b)  # or a / b
    """
    return _binary("Div", lhs, rhs, "div_out")


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """What the division leaves, with the sign of lhs; its gradient goes to lhs alone.

    Example:
        >>> y = ops.fmod(popxl.constant([-5.0]), popxl.constant([3.0]))  # -2
    """
    return _binary("Fmod", lhs, rhs, "fmod_out")


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


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Where lhs = rhs, as bool.

    Example:
        >>> same = ops.equal(a, b)
    """
    return _binary("Equal", lhs, rhs, "equal_out")


def greater(input: Tensor, other: Tensor) -> Tensor:
    """Where input > other, as bool.

    Example:
        >>> positive = ops.greater(x, popxl.constant(0.0))
    """
    check_in_graph(_contexts.here.graph, input=input, other=other)
    check_tensor_ipu_and_tile_set(input=input, other=other)
    return create("Greater", {0: input, 1: other}, ("greater_out",))[0]


def _logical(op_type: str, lhs: Tensor, rhs: Tensor, stem: str) -> Tensor:
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    inputs = {0: cast_if_needed(lhs, dtypes.bool), 1: cast_if_needed(rhs, dtypes.bool)}
    return create(op_type, inputs, (stem,))[0]


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs and rhs, as bool; tensors of another dtype are cast to bool first.

    Example:
        >>> both = ops.logical_and(a, b)  # or a & b
    """
    return _logical("And", lhs, rhs, "and_out")


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs or rhs, as bool; tensors of another dtype are cast to bool first.

    Example:
        >>> either = ops.logical_or(a, b)  # or a | b
    """
    return _logical("Or", lhs, rhs, "or_out")


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs where the condition holds, rhs elsewhere; all three broadcast. A condition of another dtype is cast to bool
    first.

    Example:
        >>> y = ops.where(mask, x, popxl.constant(0.0))
    """
    check_in_graph(_contexts.here.graph, condition=condition, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(condition=condition, lhs=lhs, rhs=rhs)
    return create("Where", {0: cast_if_needed(condition, dtypes.bool), 1: lhs, 2: rhs}, ("where_out",))[0]


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
