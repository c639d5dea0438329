"""Operations that say how the device computes: printing, memory hints, products in slices. On the CPU: their values."""

from __future__ import annotations

import functools

import torch

from poptorch import enums
from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state
from poptorch._impl.capture.annotations import Attribute
from poptorch._impl.log import logger

_FLOAT_FORMATS = {name: name for name in ("auto", "fixed", "scientific", "none")}  # KeyError is the published error

_LIMITS = (2**31 - 1, 2**31 - 1, 2**31 - 1, 100)  # elements at which to summarise, shown ends, width, decimals


def ipu_print_tensor(
    tensor: torch.Tensor,
    title: str = "",
    print_gradient: bool = True,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 80,
    digits: int = 4,
    float_format: str = "auto",
    separator: str = ", ",
    open_bracket: str = "(",
    close_bracket: str = ")",
) -> torch.Tensor:
    """The same values; the device writes them to stderr whenever the program passes here. Use the result.

    Args:
        tensor: tensor of any shape and dtype.
        title: str in front of the values; without it the name of the tensor (`getTensorNames`).
        print_gradient: print the gradient of the backward pass, too, titled `<title>_gradient`.
        summarise_threshold: elements (int) above which only the ends of each dimension are shown; 0: never.
        edge_items: elements (int) shown at each end.
        max_line_width: characters (int) of a row; longer ones go on in the next line. 0: any.
        digits: digits (int, 0 to 100) of a floating-point number from 1 to 10.
        float_format: "auto", "fixed", "scientific" or "none" (shortest text).
        separator, open_bracket, close_bracket: str, of which the first character is used.

    Returns:
        The tensor. On CPU tensors nothing is printed.

    Raises:
        poptorch.Error: `tensor` is not a tensor, or a number is outside its range.
        KeyError: another `float_format`.

    Example:
        >>> x = poptorch.ipu_print_tensor(x, "after the first layer")
    """
    if not isinstance(tensor, torch.Tensor):
        raise errors.create_error(f"poptorch.ipu_print_tensor needs a tensor, got {type(tensor).__name__}")
    numbers = (summarise_threshold, edge_items, max_line_width, digits)
    for name, value, limit in zip(("summarise_threshold", "edge_items", "max_line_width", "digits"), numbers, _LIMITS):
        if not isinstance(value, int) or isinstance(value, bool) or not 0 <= value <= limit:
            raise errors.create_error(f"poptorch.ipu_print_tensor: {name} must be an int in 0..{limit}, got {value!r}")
    return torch.ops.poptorch.print_tensor(
        tensor,
        title,
        bool(print_gradient),
        summarise_threshold,
        edge_items,
        max_line_width,
        digits,
        _FLOAT_FORMATS[float_format],
        separator[:1],
        open_bracket[:1],
        close_bracket[:1],
    )


def set_available_memory(tensor: torch.Tensor, available_memory_proportion: float) -> torch.Tensor:
    """Says how much tile memory the operation that made `tensor` may use for temporary values.

    Args:
        tensor: result of a product, convolution, gather or recurrent layer, or of at most two operations behind one.
        available_memory_proportion: float in 0..1; the device's own choice is 0.6.

    Returns:
        The tensor. Values never change.

    Raises:
        poptorch.Error: `tensor` is not a tensor, or the proportion is outside 0..1.

    Example:
        >>> x = poptorch.set_available_memory(self.conv(x), 0.2)
    """
    if not isinstance(tensor, torch.Tensor):
        raise errors.create_error(f"poptorch.set_available_memory needs a tensor, got {type(tensor).__name__}")
    if not isinstance(available_memory_proportion, (int, float)) or not 0 <= available_memory_proportion <= 1:
        raise errors.create_error(
            f"poptorch.set_available_memory: the proportion must be a number in 0..1, got {available_memory_proportion!r}"
        )
    capture = capture_state.active()
    if capture is not None and not capture.set_available_memory(tensor, float(available_memory_proportion)):
        logger.info("set_available_memory has no effect: no product, convolution or gather made this tensor.")
    return tensor


def serializedMatMul(
    lhs: torch.Tensor,
    rhs: torch.Tensor,
    mode: enums.MatMulSerializationMode,
    factor: int = 0,
    keep_precision: bool = False,
) -> torch.Tensor:
    """`torch.matmul(lhs, rhs)`, computed in `factor` slices one after the other, which needs less memory at a time.

    Args:
        lhs: tensor `[..., M, K]`.
        rhs: tensor `[..., K, N]`.
        mode: `poptorch.MatMulSerializationMode`: InputChannels cuts M, ReducingDim K, OutputChannels N.
        factor: number of slices (int >= 1, a divisor of that dimension); 0 together with `Disabled`.
        keep_precision: the products of the slices of ReducingDim are float32 and summed so; the sum is rounded once.

    Returns:
        Tensor `[..., M, N]` of the dtype of `lhs`.

    Raises:
        AssertionError: an argument of another type, or a dimension that `factor` does not divide.

    Example:
        >>> y = poptorch.serializedMatMul(x, w, poptorch.MatMulSerializationMode.OutputChannels, factor=4)
    """
    modes = enums.MatMulSerializationMode
    assert isinstance(mode, modes), f"mode must be a poptorch.MatMulSerializationMode, got {mode!r}"
    assert isinstance(lhs, torch.Tensor) and isinstance(rhs, torch.Tensor), (
        f"serializedMatMul needs two tensors, got {type(lhs).__name__} and {type(rhs).__name__}"
    )
    assert isinstance(keep_precision, bool), f"keep_precision must be True or False, got {keep_precision!r}"
    if mode == modes.Disabled:
        return torch.matmul(lhs, rhs)
    assert isinstance(factor, int) and not isinstance(factor, bool) and factor >= 1, (
        f"factor must be an int of at least 1, got {factor!r}"
    )
    cut, dim = {modes.InputChannels: (lhs, -2), modes.ReducingDim: (lhs, -1), modes.OutputChannels: (rhs, -1)}[mode]
    assert lhs.dim() >= 2 and rhs.dim() >= 2, (
        f"serializedMatMul needs tensors of at least 2 dimensions, got shapes {list(lhs.shape)} and {list(rhs.shape)}"
    )
    size = cut.shape[dim]
    assert size % factor == 0, (
        f"serializedMatMul: {mode.name} has size {size}, which is not divisible by factor {factor} "
        f"(shapes {list(lhs.shape)} and {list(rhs.shape)})"
    )
    if capture_state.active() is None or factor == 1:
        return torch.matmul(lhs, rhs)
    with Attribute(serialization={"mode": mode.value, "factor": str(factor)}):
        return _in_slices(lhs, rhs, mode, factor, keep_precision)


def _in_slices(
    lhs: torch.Tensor, rhs: torch.Tensor, mode: enums.MatMulSerializationMode, factor: int, keep_precision: bool
) -> torch.Tensor:
    modes = enums.MatMulSerializationMode
    if mode == modes.InputChannels:
        return torch.cat([torch.matmul(part, rhs) for part in lhs.chunk(factor, -2)], -2)
    if mode == modes.OutputChannels:
        return torch.cat([torch.matmul(lhs, part) for part in rhs.chunk(factor, -1)], -1)
    left, right = (lhs.float(), rhs.float()) if keep_precision else (lhs, rhs)
    products = (torch.matmul(a, b) for a, b in zip(left.chunk(factor, -1), right.chunk(factor, -2)))
    return functools.reduce(torch.add, products).to(lhs.dtype)
