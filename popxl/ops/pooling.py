"""Pools."""

from typing import Any, Optional

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.conv import PadType, _ints
from popxl.ops.utils import check_in_graph
from popxl.tensor import Tensor

_PAD_TYPES = {word: word for word in ("not_set", "same_upper", "same_lower", "valid")}
Sizes = Optional[tuple[int, ...]]


def _attributes(
    kernel_size: tuple[int, ...],
    stride: Sizes,
    padding: Sizes,
    out_pads: Sizes,
    dilation: Sizes,
    in_dilations: Sizes,
    auto_pad: str,
    ceil_mode: bool,
) -> dict[str, Any]:
    return {
        "kernelShape": _ints(kernel_size),
        "strides": _ints(stride or ()),
        "pads": _ints(padding or ()),
        "outPads": _ints(out_pads or ()),
        "dilations": _ints(dilation or ()),
        "inDilations": _ints(in_dilations or ()),
        "padType": _PAD_TYPES[auto_pad],
        "ceilMode": bool(ceil_mode),
    }


def average_pool(
    t: Tensor,
    kernel_size: tuple[int, ...],
    stride: Sizes = None,
    padding: Sizes = None,
    out_pads: Sizes = None,
    dilation: Sizes = None,
    in_dilations: Sizes = None,
    auto_pad: PadType = "not_set",
    ceil_mode: bool = False,
) -> Tensor:
    """Mean of the elements in each window; padding is not counted.

    Args:
        t: (N, C, d1, ..., dn), floating, one to three spatial dimensions.
        kernel_size: of the window, one number for each spatial dimension.
        stride, dilation: of the window; None: ones.
        padding: (begin1, ..., beginn, end1, ..., endn); None: zeros.
        out_pads: zeros around the result, in the same form.
        in_dilations: steps between elements of `t`, zeros between; None: ones.
        auto_pad: "not_set", or how to pad instead of by `padding`.
        ceil_mode: a last window may reach over the end, with "not_set".

    Returns:
        (N, C, o1, ..., on), in the dtype of `t`.

    Raises:
        KeyError: another `auto_pad`.
        popart.popart_exception: shapes do not fit.

    Example:
        >>> y = ops.average_pool(x, (2, 2), stride=(2, 2))
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes = _attributes(kernel_size, stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode)
    return create("AveragePool", {0: t}, ("averagepool_out",), attributes)[0]


def max_pool(
    t: Tensor,
    kernel_size: tuple[int, ...],
    stride: Sizes = None,
    padding: Sizes = None,
    out_pads: Sizes = None,
    dilation: Sizes = None,
    in_dilations: Sizes = None,
    auto_pad: PadType = "not_set",
    ceil_mode: bool = False,
    storage_order: str = "row",
) -> Tensor:
    """Largest element in each window; padding never wins.

    Args:
        t, kernel_size, stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode: as of `average_pool`.
        storage_order: "row".

    Returns:
        (N, C, o1, ..., on), in the dtype of `t`.

    Raises:
        KeyError: another `auto_pad` or `storage_order`.
        popart.popart_exception: shapes do not fit, or the storage order is "column".

    Example:
        >>> y = ops.max_pool(x, (2, 2), stride=(2, 2))
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes = _attributes(kernel_size, stride, padding, out_pads, dilation, in_dilations, auto_pad, ceil_mode)
    attributes["storageOrder"] = {"row": 0, "column": 1}[storage_order]
    return create("MaxPool", {0: t}, ("maxpool_out",), attributes)[0]
