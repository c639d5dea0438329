"""Elementwise ops of one tensor. Their results have its shape and dtype, unless a function says otherwise; all of
them raise TypeError for what is no tensor, ValueError for a tensor of another graph, RuntimeError outside of a graph,
and popart.popart_exception for dtypes they do not take. Names that end in `_` overwrite the tensor."""

from typing import Optional

from popxl import dtypes
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.utils import cast_if_needed, check_in_graph
from popxl.tensor import Tensor, constant

__all__ = [
    "abs", "ceil", "clamp", "clip", "cos", "detach", "detach_", "exp", "exp_", "floor", "gelu", "gelu_", "geluerf",
    "geluerf_", "identity", "increment_mod", "increment_mod_", "isfinite", "isinf", "isnan", "log", "log2",
    "logical_not", "negate", "relu", "relu_", "rename", "sign", "sin", "sqrt", "swish", "swish_", "tanh",
]  # fmt: skip


def _unary(op_type: str, t: Tensor, stem: str) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    return create(op_type, {0: t}, (stem,))[0]


def abs(t: Tensor) -> Tensor:
    """|t|; its gradient is 0 at 0.

    Example:
        >>> y = ops.abs(popxl.constant([-1.0, 2.0]))  # 1, 2
    """
    return _unary("Abs", t, "abs_out")


def ceil(t: Tensor) -> Tensor:
    """The smallest whole numbers not below; the gradient is 0.

    Example:
        >>> y = ops.ceil(popxl.constant([-1.5, 1.5]))  # -1, 2
    """
    return _unary("Ceil", t, "ceil_out")


def floor(t: Tensor) -> Tensor:
    """The largest whole numbers not above; the gradient is 0.

    Example:
        >>> y = ops.floor(popxl.constant([-1.5, 1.5]))  # -2, 1
    """
    return _unary("Floor", t, "floor_out")


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:
    """Limits to [min, max]; NaN stays. The gradient is 0 where the result is a limit.

    Example:
        >>> y = ops.clip(popxl.constant([-3.0, 0.5]), -1, 1)  # -1, 0.5
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Clip", {0: t}, ("clip_out",), {"min": float(min), "max": float(max)})[0]


clamp = clip


def cos(t: Tensor) -> Tensor:
    """Cosine of radians.

    Example:
        >>> y = ops.cos(popxl.constant([0.0]))  # 1
    """
    return _unary("Cos", t, "cos_out")


def sin(t: Tensor) -> Tensor:
    """Sine of radians.

    Example:
        >>> y = ops.sin(popxl.constant([0.0]))  # 0
    """
    return _unary("Sin", t, "sin_out")


def exp(t: Tensor) -> Tensor:
    """e to the power of t, of a float tensor.

    Example:
        >>> y = ops.exp(popxl.constant([0.0]))  # 1
    """
    return _unary("Exp", t, "exp_out")


def exp_(t: Tensor) -> Tensor:
    """As `exp`; overwrites `t`."""
    return _unary("ExpInplace", t, "exp_inplace_out")


def gelu(t: Tensor) -> Tensor:
    """0.5 t (1 + tanh(sqrt(2 / pi) (t + 0.044715 t^3))), of a float tensor.

    Example:
        >>> y = ops.gelu(x)
    """
    return _unary("Gelu", t, "gelu_out")


def gelu_(t: Tensor) -> Tensor:
    """As `gelu`; overwrites `t`."""
    return _unary("GeluInplace", t, "gelu_inplace_out")


def geluerf(t: Tensor) -> Tensor:
    """0.5 t (1 + erf(t / sqrt(2))), of a float tensor.

    Example:
        >>> y = ops.geluerf(x)
    """
    return _unary("GeluErf", t, "geluerf_out")


def geluerf_(t: Tensor) -> Tensor:
    """As `geluerf`; overwrites `t`."""
    return _unary("GeluErfInplace", t, "geluerf_inplace_out")


def identity(t: Tensor, output_name: Optional[str] = None) -> Tensor:
    """A copy, called `output_name` or `identity_<name of t>`.

    Example:
        >>> y = ops.identity(x, "hidden")  # its id is "hidden"
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Identity", {0: t}, (output_name or f"identity_{t.name}",))[0]


rename = identity


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """(t + increment) modulo `modulus`, with the sign of `modulus`. No gradient.

    Example:
        >>> step = ops.increment_mod(step, 1, 10)  # 0, 1, ..., 9, 0
    """
    return _increment("IncrementMod", t, increment, modulus, "increment_mod_out")


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """As `increment_mod`; overwrites `t`."""
    return _increment("IncrementModInplace", t, increment, modulus, "increment_mod_inplace_out")


def _increment(op_type: str, t: Tensor, increment: float, modulus: float, stem: str) -> Tensor:
    check_in_graph(_contexts.here.graph, t=t)
    return create(op_type, {0: t}, (stem,), {"increment": float(increment), "modulus": float(modulus)})[0]


def isnan(t: Tensor) -> Tensor:
    """Where t is not a number, as bool. No gradient.

    Example:
        >>> y = ops.isnan(popxl.constant([1.0, float("nan")]))  # False, True
    """
    return _unary("IsNaN", t, "isnan_out")


def isinf(t: Tensor) -> Tensor:
    """Where t is infinite, as bool. No gradient.

    Example:
        >>> y = ops.isinf(popxl.constant([1.0, float("-inf")]))  # False, True
    """
    return _unary("IsInf", t, "isinf_out")


def isfinite(t: Tensor) -> Tensor:
    """Where t is neither infinite nor NaN, as bool; made of `isnan`, `isinf`, or, not and a copy.

    Example:
        >>> y = ops.isfinite(popxl.constant([1.0, float("nan")]))  # True, False
    """
    check_in_graph(_contexts.here.graph, t=t)
    either = create("Or", {0: isnan(t), 1: isinf(t)}, ("or_out",))[0]
    return identity(logical_not(either), "isfinite_out")


def log(t: Tensor) -> Tensor:
    """Natural logarithm, of a float tensor.

    Example:
        >>> y = ops.log(popxl.constant([1.0]))  # 0
    """
    return _unary("Log", t, "log_out")


def log2(t: Tensor) -> Tensor:
    """log(t) / log(2), of a float tensor.

    Example:
        >>> y = ops.log2(popxl.constant([8.0]))  # 3
    """
    check_in_graph(_contexts.here.graph, t=t)
    dividend = log(t)
    return create("Div", {0: dividend, 1: log(constant(2.0, t.dtype))}, ("div_out",))[0]


def logical_not(t: Tensor) -> Tensor:
    """Not t, as bool; of another dtype it is cast to bool first.

    Example:
        >>> y = ops.logical_not(popxl.constant([True, False]))  # False, True
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Not", {0: cast_if_needed(t, dtypes.bool)}, ("not_out",))[0]


def negate(t: Tensor) -> Tensor:
    """-t.

    Example:
        >>> y = ops.negate(popxl.constant([1.0]))  # -1
    """
    return _unary("Neg", t, "negate_out")


def relu(t: Tensor) -> Tensor:
    """The larger of t and 0.

    Example:
        >>> y = ops.relu(popxl.constant([-1.0, 1.0]))  # 0, 1
    """
    return _unary("Relu", t, "relu_out")


def relu_(t: Tensor) -> Tensor:
    """As `relu`; overwrites `t`."""
    return _unary("ReluInplace", t, "relu_inplace_out")


def sign(t: Tensor) -> Tensor:
    """-1, 0 or 1; 0 of NaN. The gradient is 0.

    Example:
        >>> y = ops.sign(popxl.constant([-3.0, 0.0]))  # -1, 0
    """
    return _unary("Sign", t, "sign_out")


def sqrt(t: Tensor) -> Tensor:
    """Square root, of a float tensor; NaN below 0.

    Example:
        >>> y = ops.sqrt(popxl.constant([4.0]))  # 2
    """
    return _unary("Sqrt", t, "sqrt_out")


def swish(t: Tensor) -> Tensor:
    """t times its sigmoid, of a float tensor.

    Example:
        >>> y = ops.swish(x)
    """
    return _unary("Swish", t, "swish_out")


def swish_(t: Tensor) -> Tensor:
    """As `swish`; overwrites `t`."""
    return _unary("SwishInplace", t, "swish_inplace_out")


def tanh(t: Tensor) -> Tensor:
    """Hyperbolic tangent, of a float tensor.

    Example:
        >>> y = ops.tanh(popxl.constant([0.0]))  # 0
    """
    return _unary("Tanh", t, "tanh_out")


def detach(t: Tensor) -> Tensor:
    """A copy through which no gradient passes.

    Example:
        >>> target = ops.detach(y)
    """
    return _unary("Detach", t, "detach_out")


def detach_(t: Tensor) -> Tensor:
    """As `detach`, in the memory of `t`."""
    return _unary("DetachInplace", t, "detach_out")
