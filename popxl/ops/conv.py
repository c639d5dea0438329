"""Convolutions."""

from typing import Any, Literal, Optional, get_args
from collections.abc import Iterable, Sequence

from popxl._impl.build import create
from popxl.context import _contexts
from popxl.ops.matmul import check_float8
from popxl.ops.utils import check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

PadType = Literal["not_set", "same_upper", "same_lower", "valid"]
_PAD_TYPES = get_args(PadType)


def _ints(values: Iterable[int]) -> list[int]:
    """As the op takes them; integers of NumPy too."""
    return [int(value) for value in values]


def _attributes(
    stride: Sequence[int],
    padding: Sequence[int],
    dilation: Sequence[int],
    groups: int,
    pad_type: str,
    available_memory_proportions: Optional[Iterable[float]],
    partials_types: Optional[Iterable[Any]],
    enable_conv_dithering: Optional[Iterable[int]],
) -> dict[str, Any]:
    if pad_type not in _PAD_TYPES:
        raise ValueError(f"pad_type is {pad_type!r}: it is one of {', '.join(map(repr, _PAD_TYPES))}.")
    attributes: dict[str, Any] = {
        "strides": _ints(stride),
        "pads": _ints(padding),
        "dilations": _ints(dilation),
        "group": int(groups),
        "padType": pad_type,
    }
    if available_memory_proportions is not None:
        attributes["availableMemoryProportions"] = [float(p) for p in available_memory_proportions]
    if partials_types is not None:
        attributes["partialsTypes"] = [_partials(t) for t in partials_types]
    if enable_conv_dithering is not None:
        attributes["enableConvDithering"] = [int(e) for e in enable_conv_dithering]
    return attributes


def _partials(kind: Any) -> str:
    """"half" or "float" of a word or a dtype."""
    word = {"float16": "half", "float32": "float", "half": "half", "float": "float"}.get(
        str(getattr(kind, "name", kind)).lower()
    )
    if word is None:
        raise ValueError(f'A partials type is {kind!r}: it is "half" or "float".')
    return word


def _check(t: Tensor, weight: Tensor, log2_scale: Optional[Tensor] = None) -> dict[int, Tensor]:
    graph = _contexts.here.graph
    if log2_scale is None:
        check_in_graph(graph, t=t, weight=weight)
        check_tensor_ipu_and_tile_set(t=t, weight=weight)
        return {0: t, 1: weight}
    check_in_graph(graph, t=t, weight=weight, log2_scale=log2_scale)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, log2_scale=log2_scale)
    check_float8(log2_scale, t=t, weight=weight)
    return {0: t, 1: weight, 2: log2_scale}


def conv(
    t: Tensor,
    weight: Tensor,
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0, 0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    available_memory_proportions: Optional[Iterable[float]] = None,
    partials_types: Optional[Iterable[str]] = None,
    enable_conv_dithering: Optional[Iterable[int]] = None,
) -> Tensor:
    """Convolution (cross-correlation) in one to three dimensions; the defaults are for two.

    Args:
        t: (N, C, d1, ..., dn), floating.
        weight: (M, C / groups, k1, ..., kn), of the dtype of `t`.
        stride, dilation: one number for each spatial dimension.
        padding: (begin1, ..., beginn, end1, ..., endn).
        groups: parts that the channels are convolved in.
        pad_type: "not_set", or how to pad instead of by `padding`.
        available_memory_proportions: in (0, 1], of the tile memory; no effect on values.
        partials_types: "half" or "float" of partial sums.
        enable_conv_dithering: spread over tiles; no effect on values.

    Returns:
        (N, M, o1, ..., on), in the dtype of `t`.

    Raises:
        ValueError: another `pad_type` or partials type, or the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes, groups or dtypes do not fit.

    Example:
        >>> y = ops.conv(x, w, padding=(1, 1, 1, 1))
    """
    attributes = _attributes(
        stride,
        padding,
        dilation,
        groups,
        pad_type,
        available_memory_proportions,
        partials_types,
        enable_conv_dithering,
    )
    return create("Conv", _check(t, weight), ("conv_out",), attributes)[0]


def conv_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0, 0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    available_memory_proportions: Optional[Iterable[float]] = None,
    enable_conv_dithering: Optional[Iterable[int]] = None,
) -> Tensor:
    """`conv` of float8 operands times 2^log2_scale, as float16.

    Args:
        t, weight: as of `conv`, float8_143 or float8_152, may differ.
        log2_scale: (), int32, in [-32, 32).

    Raises:
        TypeError: an operand is not float8, or `log2_scale` not int32.
        ValueError: `log2_scale` has axes; else as of `conv`.

    Example:
        >>> y = ops.conv_pow2scaled(x, w, popxl.constant(1, popxl.int32))
    """
    attributes = _attributes(
        stride, padding, dilation, groups, pad_type, available_memory_proportions, None, enable_conv_dithering
    )
    return create("Conv", _check(t, weight, log2_scale), ("conv_out",), attributes)[0]


def conv_transpose(
    t: Tensor,
    weight: Tensor,
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0, 0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    output_padding: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    available_memory_proportions: Optional[Iterable[float]] = None,
    partials_types: Optional[Iterable[str]] = None,
    enable_conv_dithering: Optional[Iterable[int]] = None,
) -> Tensor:
    """Transposed convolution in one to three dimensions.

    Args:
        t: (N, C, d1, ..., dn), floating.
        weight: (C, M / groups, k1, ..., kn), of the dtype of `t`.
        stride, padding, groups, pad_type: as of `conv`. Result i has
            stride * (d - 1) + output_padding + k - begin - end elements.
        dilation: ones.
        output_padding: elements more behind, one number for each spatial dimension.
        output_shape: the spatial sizes, or the whole shape, of the result; what is cut off follows from it, an odd
            element at the end for "same_upper", else at the beginning.
        available_memory_proportions, partials_types, enable_conv_dithering: as of `conv`.

    Returns:
        (N, M, o1, ..., on), in the dtype of `t`.

    Raises:
        ValueError: as of `conv`.
        popart.popart_exception: shapes, groups or dtypes do not fit, or a dilation is not 1.

    Example:
        >>> y = ops.conv_transpose(x, w, stride=(2, 2))
    """
    attributes = _attributes(
        stride,
        padding,
        dilation,
        groups,
        pad_type,
        available_memory_proportions,
        partials_types,
        enable_conv_dithering,
    )
    attributes["outputPadding"], attributes["outputShape"] = _ints(output_padding), _ints(output_shape)
    return create("ConvTranspose", _check(t, weight), ("convtranspose_out",), attributes)[0]


def conv_transpose_pow2scaled(
    t: Tensor,
    weight: Tensor,
    log2_scale: Tensor,
    stride: tuple[int, ...] = (1, 1),
    padding: tuple[int, ...] = (0, 0, 0, 0),
    dilation: tuple[int, ...] = (1, 1),
    groups: int = 1,
    pad_type: PadType = "not_set",
    output_padding: tuple[int, ...] = (),
    output_shape: tuple[int, ...] = (),
    available_memory_proportions: Optional[Iterable[float]] = None,
    enable_conv_dithering: Optional[Iterable[int]] = None,
) -> Tensor:
    """`conv_transpose` of float8 operands times 2^log2_scale, as float16.

    Args:
        t, weight: as of `conv_transpose`, float8_143 or float8_152, may differ.
        log2_scale: (), int32, in [-32, 32).

    Raises:
        TypeError: an operand is not float8, or `log2_scale` not int32.
        ValueError: `log2_scale` has axes; else as of `conv_transpose`.

    Example:
        >>> y = ops.conv_transpose_pow2scaled(x, w, popxl.constant(1, popxl.int32))
    """
    attributes = _attributes(
        stride, padding, dilation, groups, pad_type, available_memory_proportions, None, enable_conv_dithering
    )
    attributes["outputPadding"], attributes["outputShape"] = _ints(output_padding), _ints(output_shape)
    return create("ConvTranspose", _check(t, weight, log2_scale), ("convtranspose_out",), attributes)[0]
