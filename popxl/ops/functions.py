"""Functions that make one op each.

Elementwise functions give the shape and dtype of their operands, unless they say otherwise; operands have one dtype and
broadcast as in NumPy. Axes count from the end where they are negative. Names that end in `_` overwrite the first tensor.
`available_memory_proportion` is a hint without effect on values. All raise RuntimeError outside of a graph, TypeError for
what is no tensor, ValueError for tensors of another graph or on different IPUs or tile sets, and popart.popart_exception
for dtypes, shapes and axes that do not fit.

Written by scripts/popxl_functions.py from csrc/frontends/popxl/kinds; do not edit."""

import operator
from collections.abc import Iterable, Sequence
from typing import Any, Optional, Union
from popxl import dtypes
from popxl._impl.build import create
from popxl.context import _contexts
from popxl.dtypes import dtype as dtype_class, float16, float32
from popxl.ops.arguments import (
    CoordinateTransformationType,
    InterpolateType,
    NearestType,
    PAD_TYPES,
    PadType,
    REDUCTIONS,
    FLOAT_FORMATS,
    character,
    check_float8,
    partials_of,
    word,
)
from popxl.ops.utils import cast_if_needed, check_in_graph, check_tensor_ipu_and_tile_set
from popxl.tensor import Tensor

__all__ = [
    "abs",
    "add",
    "add_",
    "argmax",
    "argmin",
    "average_pool",
    "batch_norm_inference",
    "ceil",
    "clip",
    "conv",
    "conv_pow2scaled",
    "conv_transpose",
    "conv_transpose_pow2scaled",
    "cos",
    "detach",
    "detach_",
    "div",
    "dropout",
    "dynamic_slice",
    "dynamic_update",
    "dynamic_update_",
    "equal",
    "exp",
    "exp_",
    "floor",
    "fmod",
    "gather",
    "gelu",
    "gelu_",
    "geluerf",
    "geluerf_",
    "greater",
    "group_norm",
    "groupedgather",
    "identity",
    "increment_mod",
    "increment_mod_",
    "interpolate",
    "isinf",
    "isnan",
    "l1",
    "l2",
    "lamb_square",
    "layer_norm",
    "log",
    "logical_and",
    "logical_not",
    "logical_or",
    "logsum",
    "logsumexp",
    "matmul_pow2scaled",
    "max",
    "max_pool",
    "mean",
    "median",
    "min",
    "mul",
    "negate",
    "nll_loss",
    "print_tensor",
    "prod",
    "random_normal",
    "random_uniform",
    "relu",
    "relu_",
    "roi_align",
    "scatter",
    "shaped_dropout",
    "sign",
    "sin",
    "softmax",
    "sqrt",
    "sub",
    "sum",
    "sumsquare",
    "swish",
    "swish_",
    "tanh",
    "tied_gather",
    "topk",
    "where",
]


def abs(t: Tensor) -> Tensor:
    """|t|; its gradient is 0 at 0.

    Example:
        >>> y = ops.abs(popxl.constant([-1.0, 2.0]))  # 1, 2
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Abs", {0: t}, ("abs_out",))[0]


def add(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs + rhs.

    Example:
        >>> y = ops.add(a, b)  # or a + b
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Add", {0: lhs, 1: rhs}, ("add_out",))[0]


def add_(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs becomes lhs + rhs; rhs broadcasts to the shape of lhs.

    Example:
        >>> total = ops.add_(total, x)  # or total += x
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("AddLhsInplace", {0: lhs, 1: rhs}, ("add_lhs_inplace_out",))[0]


def logical_and(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs and rhs, as bool; tensors of another dtype are cast to bool first.

    Example:
        >>> both = ops.logical_and(a, b)  # or a & b
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("And", {0: cast_if_needed(lhs, dtypes.bool), 1: cast_if_needed(rhs, dtypes.bool)}, ("and_out",))[0]


def argmax(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """int32 index of the first largest element along `dim`, which goes, or stays with size 1. No gradient.

    Example:
        >>> prediction = ops.argmax(scores, dim=1)  # (batch, classes) gives (batch,)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("ArgMax", {0: t}, ("argmax_out",), {"axis": operator.index(dim), "keepdims": bool(keepdim)})[0]


def argmin(t: Tensor, dim: int = 0, keepdim: bool = False) -> Tensor:
    """int32 index of the first smallest element along `dim`, which goes, or stays with size 1. No gradient.

    Example:
        >>> nearest = ops.argmin(distances, dim=1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("ArgMin", {0: t}, ("argmin_out",), {"axis": operator.index(dim), "keepdims": bool(keepdim)})[0]


def average_pool(
    t: Tensor,
    kernel_size: tuple[int, ...],
    stride: Optional[tuple[int, ...]] = None,
    padding: Optional[tuple[int, ...]] = None,
    out_pads: Optional[tuple[int, ...]] = None,
    dilation: Optional[tuple[int, ...]] = None,
    in_dilations: Optional[tuple[int, ...]] = None,
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
    return create(
        "AveragePool",
        {0: t},
        ("averagepool_out",),
        {
            "kernelShape": [int(i) for i in kernel_size],
            "strides": [int(i) for i in stride or ()],
            "pads": [int(i) for i in padding or ()],
            "outPads": [int(i) for i in out_pads or ()],
            "dilations": [int(i) for i in dilation or ()],
            "inDilations": [int(i) for i in in_dilations or ()],
            "padType": PAD_TYPES[auto_pad],
            "ceilMode": bool(ceil_mode),
        },
    )[0]


def batch_norm_inference(
    t: Tensor, scale: Tensor, bias: Tensor, mean: Tensor, var: Tensor, epsilon: float = 1e-5, momentum: float = 0.9
) -> Tensor:
    """scale * (t - mean) / sqrt(var + epsilon) + bias for each channel, with statistics that are given. It has no
    gradient.

    Args:
        t: (N, C, d1, ...), floating.
        scale, bias, mean, var: (C,).
        epsilon: added to the variance.
        momentum: unused.

    Returns:
        As `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes or dtypes do not fit.

    Example:
        >>> y = ops.batch_norm_inference(x, scale, bias, mean, var)
    """
    check_in_graph(_contexts.here.graph, t=t, scale=scale, bias=bias, mean=mean, var=var)
    check_tensor_ipu_and_tile_set(t=t, scale=scale, bias=bias, mean=mean, var=var)
    return create(
        "BatchNormalization",
        {0: t, 1: scale, 2: bias, 3: mean, 4: var},
        ("batch_norm_out",),
        {"epsilon": float(epsilon), "momentum": float(momentum)},
    )[0]


def ceil(t: Tensor) -> Tensor:
    """The smallest whole numbers not below; the gradient is 0.

    Example:
        >>> y = ops.ceil(popxl.constant([-1.5, 1.5]))  # -1, 2
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Ceil", {0: t}, ("ceil_out",))[0]


def clip(t: Tensor, min: float = float("-inf"), max: float = float("inf")) -> Tensor:
    """Limits to [min, max]; NaN stays. The gradient is 0 where the result is a limit.

    Example:
        >>> y = ops.clip(popxl.constant([-3.0, 0.5]), -1, 1)  # -1, 0.5
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Clip", {0: t}, ("clip_out",), {"min": float(min), "max": float(max)})[0]


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
    attributes: dict[str, Any] = {
        "strides": [int(i) for i in stride],
        "pads": [int(i) for i in padding],
        "dilations": [int(i) for i in dilation],
        "group": int(groups),
        "padType": word("pad_type", pad_type, PadType),
    }
    if available_memory_proportions is not None:
        attributes["availableMemoryProportions"] = [float(i) for i in available_memory_proportions]
    if partials_types is not None:
        attributes["partialsTypes"] = [partials_of(i) for i in partials_types]
    if enable_conv_dithering is not None:
        attributes["enableConvDithering"] = [int(i) for i in enable_conv_dithering]
    check_in_graph(_contexts.here.graph, t=t, weight=weight)
    check_tensor_ipu_and_tile_set(t=t, weight=weight)
    return create("Conv", {0: t, 1: weight}, ("conv_out",), attributes)[0]


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
    attributes: dict[str, Any] = {
        "strides": [int(i) for i in stride],
        "pads": [int(i) for i in padding],
        "dilations": [int(i) for i in dilation],
        "group": int(groups),
        "padType": word("pad_type", pad_type, PadType),
    }
    if available_memory_proportions is not None:
        attributes["availableMemoryProportions"] = [float(i) for i in available_memory_proportions]
    if enable_conv_dithering is not None:
        attributes["enableConvDithering"] = [int(i) for i in enable_conv_dithering]
    check_in_graph(_contexts.here.graph, t=t, weight=weight, log2_scale=log2_scale)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, log2_scale=log2_scale)
    check_float8(log2_scale, t=t, weight=weight)
    return create("Conv", {0: t, 1: weight, 2: log2_scale}, ("conv_out",), attributes)[0]


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
    attributes: dict[str, Any] = {
        "strides": [int(i) for i in stride],
        "pads": [int(i) for i in padding],
        "dilations": [int(i) for i in dilation],
        "group": int(groups),
        "padType": word("pad_type", pad_type, PadType),
        "outputPadding": [int(i) for i in output_padding],
        "outputShape": [int(i) for i in output_shape],
    }
    if available_memory_proportions is not None:
        attributes["availableMemoryProportions"] = [float(i) for i in available_memory_proportions]
    if partials_types is not None:
        attributes["partialsTypes"] = [partials_of(i) for i in partials_types]
    if enable_conv_dithering is not None:
        attributes["enableConvDithering"] = [int(i) for i in enable_conv_dithering]
    check_in_graph(_contexts.here.graph, t=t, weight=weight)
    check_tensor_ipu_and_tile_set(t=t, weight=weight)
    return create("ConvTranspose", {0: t, 1: weight}, ("convtranspose_out",), attributes)[0]


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
    attributes: dict[str, Any] = {
        "strides": [int(i) for i in stride],
        "pads": [int(i) for i in padding],
        "dilations": [int(i) for i in dilation],
        "group": int(groups),
        "padType": word("pad_type", pad_type, PadType),
        "outputPadding": [int(i) for i in output_padding],
        "outputShape": [int(i) for i in output_shape],
    }
    if available_memory_proportions is not None:
        attributes["availableMemoryProportions"] = [float(i) for i in available_memory_proportions]
    if enable_conv_dithering is not None:
        attributes["enableConvDithering"] = [int(i) for i in enable_conv_dithering]
    check_in_graph(_contexts.here.graph, t=t, weight=weight, log2_scale=log2_scale)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, log2_scale=log2_scale)
    check_float8(log2_scale, t=t, weight=weight)
    return create("ConvTranspose", {0: t, 1: weight, 2: log2_scale}, ("convtranspose_out",), attributes)[0]


def cos(t: Tensor) -> Tensor:
    """Cosine of radians.

    Example:
        >>> y = ops.cos(popxl.constant([0.0]))  # 1
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Cos", {0: t}, ("cos_out",))[0]


def detach(t: Tensor) -> Tensor:
    """A copy through which no gradient passes.

    Example:
        >>> target = ops.detach(y)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Detach", {0: t}, ("detach_out",))[0]


def detach_(t: Tensor) -> Tensor:
    """As `detach`, in the memory of `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create("DetachInplace", {0: t}, ("detach_out",))[0]


def div(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs / rhs; of integers the quotient without its fraction, 0 where rhs is 0.

    Example:
        >>> y = ops.div(a, b)  # or a / b
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Div", {0: lhs, 1: rhs}, ("div_out",))[0]


def dropout(t: Tensor, seed_tensor: Tensor, p: float) -> Tensor:
    """Zeros each element with probability `p`; others are multiplied by 1 / (1 - p). The gradient draws from the same seed.

    Args:
        t: any shape, floating.
        seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
        p: probability of zero, in [0, 1].

    Returns:
        As `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: the seed or `p` does not fit.

    Example:
        >>> y = ops.dropout(x, seed, p=0.1)
    """
    check_in_graph(_contexts.here.graph, t=t, seed_tensor=seed_tensor)
    check_tensor_ipu_and_tile_set(t=t, seed_tensor=seed_tensor)
    return create("Dropout", {0: t, 1: seed_tensor}, ("dropout_out",), {"ratio": float(p)})[0]


def dynamic_slice(t: Tensor, index: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool) -> Tensor:
    """The block of t with `sizes` along `axes`, whole along the others, that begins at an index known when the program
    runs. Gradients go to t.

    Args:
        index: uint32 or int32, one element for each of `axes`. A block that leaves t stops the run.
        no_overlap: promises that blocks of other calls are disjoint. It changes nothing here.

    Example:
        >>> batch = ops.dynamic_slice(data, step, axes=[0], sizes=[1], no_overlap=True)
    """
    check_in_graph(_contexts.here.graph, t=t, index=index)
    check_tensor_ipu_and_tile_set(t=t, index=index)
    return create(
        "DynamicSlice",
        {0: t, 1: index},
        ("dynamic_slice_out",),
        {
            "axes": [operator.index(i) for i in axes],
            "sizes": [operator.index(i) for i in sizes],
            "no_overlap": bool(no_overlap),
        },
    )[0]


def dynamic_update(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """A copy of t with the block that `dynamic_slice` reads replaced by `t_update`. Gradients go to t and t_update.

    Args:
        t_update: the block, or its elements in another shape.

    Example:
        >>> y = ops.dynamic_update(x, step, row, axes=[0], sizes=[1], no_overlap=True)
    """
    check_in_graph(_contexts.here.graph, t=t, index=index, t_update=t_update)
    check_tensor_ipu_and_tile_set(t=t, index=index, t_update=t_update)
    return create(
        "DynamicUpdate",
        {0: t, 1: index, 2: t_update},
        ("dynamic_update_out",),
        {
            "axes": [operator.index(i) for i in axes],
            "sizes": [operator.index(i) for i in sizes],
            "no_overlap": bool(no_overlap),
        },
    )[0]


def dynamic_update_(
    t: Tensor, index: Tensor, t_update: Tensor, axes: Iterable[int], sizes: Iterable[int], no_overlap: bool
) -> Tensor:
    """As `dynamic_update`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t, index=index, t_update=t_update)
    check_tensor_ipu_and_tile_set(t=t, index=index, t_update=t_update)
    return create(
        "DynamicUpdateInplace",
        {0: t, 1: index, 2: t_update},
        ("dynamicupdateinplace_out",),
        {
            "axes": [operator.index(i) for i in axes],
            "sizes": [operator.index(i) for i in sizes],
            "no_overlap": bool(no_overlap),
        },
    )[0]


def equal(lhs: Tensor, rhs: Tensor) -> Tensor:
    """Where lhs = rhs, as bool.

    Example:
        >>> same = ops.equal(a, b)
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Equal", {0: lhs, 1: rhs}, ("equal_out",))[0]


def exp(t: Tensor) -> Tensor:
    """e to the power of t, of a float tensor.

    Example:
        >>> y = ops.exp(popxl.constant([0.0]))  # 1
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Exp", {0: t}, ("exp_out",))[0]


def exp_(t: Tensor) -> Tensor:
    """As `exp`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create("ExpInplace", {0: t}, ("exp_inplace_out",))[0]


def floor(t: Tensor) -> Tensor:
    """The largest whole numbers not above; the gradient is 0.

    Example:
        >>> y = ops.floor(popxl.constant([-1.5, 1.5]))  # -2, 1
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Floor", {0: t}, ("floor_out",))[0]


def fmod(lhs: Tensor, rhs: Tensor) -> Tensor:
    """What the division leaves, with the sign of lhs; its gradient goes to lhs alone.

    Example:
        >>> y = ops.fmod(popxl.constant([-5.0]), popxl.constant([3.0]))  # -2
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Fmod", {0: lhs, 1: rhs}, ("fmod_out",))[0]


def gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: Optional[float] = None,
    zero_OOR: bool = False,
) -> Tensor:
    """Slices of t along `axis` by number, as numpy.take: t.shape[:axis] + indices.shape + t.shape[axis + 1:]. Gradients
    go to t.

    Args:
        indices: numbers from 0 on; for one outside of the axis the result is not specified.
        zero_OOR: gives zeros there.

    Example:
        >>> rows = ops.gather(table, ids)  # (100, 8) and (4,) give (4, 8)
    """
    check_in_graph(_contexts.here.graph, t=t, indices=indices)
    check_tensor_ipu_and_tile_set(t=t, indices=indices)
    attributes: dict[str, Any] = {"axis": operator.index(axis), "zero_out_of_range": bool(zero_OOR), "group_size": 1}
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return create("Gather", {0: t, 1: indices}, ("gather_out",), attributes)[0]


def groupedgather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    group_size: int = 1,
    available_memory_proportion: Optional[float] = None,
    zero_OOR: bool = False,
) -> Tensor:
    """As `gather`, in each of `group_size` groups by itself: axis 0 of t and indices is the group.

    Raises:
        popart.popart_exception: axis 0 is not the group, or is gathered along, with more than one group.

    Example:
        >>> rows = ops.groupedgather(tables, ids, axis=1, group_size=2)  # (2, 100, 8) and (2, 4) give (2, 4, 8)
    """
    check_in_graph(_contexts.here.graph, t=t, indices=indices)
    check_tensor_ipu_and_tile_set(t=t, indices=indices)
    attributes: dict[str, Any] = {
        "axis": operator.index(axis),
        "group_size": operator.index(group_size),
        "zero_out_of_range": bool(zero_OOR),
    }
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return create("Gather", {0: t, 1: indices}, ("gather_out",), attributes)[0]


def gelu(t: Tensor) -> Tensor:
    """0.5 t (1 + tanh(sqrt(2 / pi) (t + 0.044715 t^3))), of a float tensor.

    Example:
        >>> y = ops.gelu(x)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Gelu", {0: t}, ("gelu_out",))[0]


def geluerf(t: Tensor) -> Tensor:
    """0.5 t (1 + erf(t / sqrt(2))), of a float tensor.

    Example:
        >>> y = ops.geluerf(x)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("GeluErf", {0: t}, ("geluerf_out",))[0]


def geluerf_(t: Tensor) -> Tensor:
    """As `geluerf`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create("GeluErfInplace", {0: t}, ("geluerf_inplace_out",))[0]


def gelu_(t: Tensor) -> Tensor:
    """As `gelu`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create("GeluInplace", {0: t}, ("gelu_inplace_out",))[0]


def greater(input: Tensor, other: Tensor) -> Tensor:
    """Where input > other, as bool.

    Example:
        >>> positive = ops.greater(x, popxl.constant(0.0))
    """
    check_in_graph(_contexts.here.graph, input=input, other=other)
    check_tensor_ipu_and_tile_set(input=input, other=other)
    return create("Greater", {0: input, 1: other}, ("greater_out",))[0]


def group_norm(t: Tensor, weight: Tensor, bias: Tensor, num_groups: int, eps: float = 1e-5) -> Tensor:
    """Normalises each sample over each group of channels and all later axes, with the biased variance; then weight and
    bias for each channel.

    Args:
        t: (N, C, ...), floating.
        weight, bias: (C,).
        num_groups: number of groups of neighbouring channels.
        eps: added to the variance.

    Returns:
        As `t`. The op has outputs for mean and 1 / deviation, (N * num_groups,), as well.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes or dtypes do not fit.

    Example:
        >>> y = ops.group_norm(x, weight, bias, num_groups=4)
    """
    check_in_graph(_contexts.here.graph, t=t, weight=weight, bias=bias)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, bias=bias)
    return create(
        "GroupNormalization",
        {0: t, 1: weight, 2: bias},
        ("group_norm_out", "group_norm_mean", "group_norm_inv_std_dev"),
        {"num_groups": int(num_groups), "epsilon": float(eps)},
    )[0]


def layer_norm(t: Tensor, weight: Tensor, bias: Tensor, eps: float = 1e-5) -> Tensor:
    """`group_norm` with one group: over all axes behind the first. To normalise the last axis of more than two, flatten
    the others.

    Args:
        t: (N, C, ...), floating.
        weight, bias: (C,).
        eps: added to the variance.

    Returns:
        As `t`.

    Raises:
        ValueError, popart.popart_exception: as of `group_norm`.

    Example:
        >>> y = ops.layer_norm(x, weight, bias)
    """
    check_in_graph(_contexts.here.graph, t=t, weight=weight, bias=bias)
    check_tensor_ipu_and_tile_set(t=t, weight=weight, bias=bias)
    return create(
        "GroupNormalization",
        {0: t, 1: weight, 2: bias},
        ("group_norm_out", "group_norm_mean", "group_norm_inv_std_dev"),
        {"epsilon": float(eps), "num_groups": 1},
    )[0]


def identity(t: Tensor, output_name: Optional[str] = None) -> Tensor:
    """A copy, called `output_name` or `identity_<name of t>`.

    Example:
        >>> y = ops.identity(x, "hidden")  # its id is "hidden"
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Identity", {0: t}, (f"{output_name or f'identity_{t.name}'}",))[0]


def increment_mod(t: Tensor, increment: float, modulus: float) -> Tensor:
    """(t + increment) modulo `modulus`, with the sign of `modulus`. No gradient.

    Example:
        >>> step = ops.increment_mod(step, 1, 10)  # 0, 1, ..., 9, 0
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create(
        "IncrementMod", {0: t}, ("increment_mod_out",), {"increment": float(increment), "modulus": float(modulus)}
    )[0]


def increment_mod_(t: Tensor, increment: float, modulus: float) -> Tensor:
    """As `increment_mod`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create(
        "IncrementModInplace",
        {0: t},
        ("increment_mod_inplace_out",),
        {"increment": float(increment), "modulus": float(modulus)},
    )[0]


def isinf(t: Tensor) -> Tensor:
    """Where t is infinite, as bool. No gradient.

    Example:
        >>> y = ops.isinf(popxl.constant([1.0, float("-inf")]))  # False, True
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("IsInf", {0: t}, ("isinf_out",))[0]


def isnan(t: Tensor) -> Tensor:
    """Where t is not a number, as bool. No gradient.

    Example:
        >>> y = ops.isnan(popxl.constant([1.0, float("nan")]))  # False, True
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("IsNaN", {0: t}, ("isnan_out",))[0]


def lamb_square(t: Tensor) -> Tensor:
    """float32 sum of the squares of all elements of a float tensor, of rank 0. No gradient.

    Example:
        >>> norm = ops.sqrt(ops.lamb_square(weight))
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("LambSquare", {0: t}, ("lamb_square_out",))[0]


def log(t: Tensor) -> Tensor:
    """Natural logarithm, of a float tensor.

    Example:
        >>> y = ops.log(popxl.constant([1.0]))  # 0
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Log", {0: t}, ("log_out",))[0]


def matmul_pow2scaled(
    lhs: Tensor, rhs: Tensor, log2_scale: Tensor, available_memory_proportion: Optional[float] = None
) -> Tensor:
    """lhs @ rhs * 2^log2_scale of float8 operands, as float16.

    Args:
        lhs, rhs: as of `matmul`, float8_143 or float8_152, may differ.
        log2_scale: (), int32, in [-32, 32).
        available_memory_proportion: as of `matmul`.

    Raises:
        TypeError: an operand is not float8, or `log2_scale` not int32.
        ValueError: `log2_scale` has axes, or the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes do not fit.

    Example:
        >>> y = ops.matmul_pow2scaled(a, b, popxl.constant(-2, popxl.int32))
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs, log2_scale=log2_scale)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs, log2_scale=log2_scale)
    check_float8(log2_scale, lhs=lhs, rhs=rhs)
    attributes: dict[str, Any] = {"outputType": float16._number, "partialsType": "half"}
    if available_memory_proportion is not None:
        attributes["availableMemoryProportion"] = float(available_memory_proportion)
    return create("MatMul", {0: lhs, 1: rhs, 2: log2_scale}, ("matmul_pow2scaled_out",), attributes)[0]


def max_pool(
    t: Tensor,
    kernel_size: tuple[int, ...],
    stride: Optional[tuple[int, ...]] = None,
    padding: Optional[tuple[int, ...]] = None,
    out_pads: Optional[tuple[int, ...]] = None,
    dilation: Optional[tuple[int, ...]] = None,
    in_dilations: Optional[tuple[int, ...]] = None,
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
    return create(
        "MaxPool",
        {0: t},
        ("maxpool_out",),
        {
            "kernelShape": [int(i) for i in kernel_size],
            "strides": [int(i) for i in stride or ()],
            "pads": [int(i) for i in padding or ()],
            "outPads": [int(i) for i in out_pads or ()],
            "dilations": [int(i) for i in dilation or ()],
            "inDilations": [int(i) for i in in_dilations or ()],
            "padType": PAD_TYPES[auto_pad],
            "ceilMode": bool(ceil_mode),
            "storageOrder": {"row": 0, "column": 1}[storage_order],
        },
    )[0]


def mul(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs * rhs.

    Example:
        >>> y = ops.mul(a, b)  # or a * b
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Mul", {0: lhs, 1: rhs}, ("mul_out",))[0]


def negate(t: Tensor) -> Tensor:
    """-t.

    Example:
        >>> y = ops.negate(popxl.constant([1.0]))  # -1
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Neg", {0: t}, ("negate_out",))[0]


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
    attributes: dict[str, Any] = {
        "reduction": word("reduction", reduction, REDUCTIONS),
        "inputIsLogProbability": bool(log_prob),
    }
    if ignore_index is not None:
        attributes["ignoreIndex"] = int(ignore_index)
    check_in_graph(_contexts.here.graph, probs=probs, labels=labels)
    check_tensor_ipu_and_tile_set(probs=probs, labels=labels)
    return create("Nll", {0: probs, 1: labels}, ("loss",), attributes)[0]


def logical_not(t: Tensor) -> Tensor:
    """Not t, as bool; of another dtype it is cast to bool first.

    Example:
        >>> y = ops.logical_not(popxl.constant([True, False]))  # False, True
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Not", {0: cast_if_needed(t, dtypes.bool)}, ("not_out",))[0]


def logical_or(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs or rhs, as bool; tensors of another dtype are cast to bool first.

    Example:
        >>> either = ops.logical_or(a, b)  # or a | b
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Or", {0: cast_if_needed(lhs, dtypes.bool), 1: cast_if_needed(rhs, dtypes.bool)}, ("or_out",))[0]


def tied_gather(
    t: Tensor,
    indices: Tensor,
    axis: int = 0,
    available_memory_proportion: Optional[float] = None,
    zero_OOR: bool = False,
) -> Tensor:
    """As `gather`, of a table that a matmul reads too.

    Example:
        >>> rows = ops.tied_gather(embedding, ids)
    """
    check_in_graph(_contexts.here.graph, t=t, indices=indices)
    check_tensor_ipu_and_tile_set(t=t, indices=indices)
    attributes: dict[str, Any] = {"axis": operator.index(axis), "zero_out_of_range": bool(zero_OOR), "group_size": 1}
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return create("PopartTiedGather", {0: t, 1: indices}, ("tiedgather_out",), attributes)[0]


def print_tensor(
    t: Tensor,
    title: Optional[str] = None,
    print_self: bool = True,
    print_gradient: bool = False,
    summarise_threshold: int = 1000,
    edge_items: int = 3,
    max_line_width: int = 75,
    digits: int = 8,
    float_format: str = "auto",
    separator: str = " ",
    open_bracket: str = "[",
    close_bracket: str = "]",
) -> Tensor:
    """A copy of `t` that is written to stderr each time the op runs, on each replica.

    Args:
        t: any shape and dtype.
        title: what is written before; None: "print_<name of t>". That of the gradient is "<title>_gradient".
        print_self: write `t`.
        print_gradient: write the gradient, where the returned tensor is used and has one.
        summarise_threshold: tensors of more elements show `edge_items` at each end; 0: never.
        edge_items: elements at each end.
        max_line_width: lines are broken there; 0: nowhere.
        digits: after the point; 0: columns are not aligned and float_format is "none".
        float_format: "auto", "fixed", "scientific" or "none".
        separator, open_bracket, close_bracket: one character each.

    Returns:
        As `t`. Where nobody uses it, no gradient is printed.

    Raises:
        KeyError: another float_format.
        ValueError: not one character.

    Example:
        >>> x = ops.print_tensor(x, "activations")
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create(
        "PrintTensor",
        {0: t},
        (f"print_{t.name}",),
        {
            "printSelf": bool(print_self),
            "printGradient": bool(print_gradient),
            "summariseThreshold": int(summarise_threshold),
            "edgeItems": int(edge_items),
            "maxLineWidth": int(max_line_width),
            "digits": int(digits),
            "separator": character("separator", separator),
            "openBracket": character("open_bracket", open_bracket),
            "closeBracket": character("close_bracket", close_bracket),
            "title": f"print_{t.name}" if title is None else title,
            "floatFormat": FLOAT_FORMATS[float_format] if digits != 0 else "none",
        },
    )[0]


def random_normal(
    seed_tensor: Tensor, shape: Iterable[int], mean: float = 0.0, std: float = 1.0, dtype: dtype_class = float32
) -> Tensor:
    """Samples of the normal distribution. The same seed gives the same samples.

    Args:
        seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
        shape, dtype: of the result; dtype is floating.
        mean, std: of the distribution.

    Raises:
        popart.popart_exception: the seed or the dtype does not fit.

    Example:
        >>> z = ops.random_normal(seed, (2, 3), std=0.02)
    """
    check_in_graph(_contexts.here.graph, seed_tensor=seed_tensor)
    return create(
        "RandomNormal",
        {0: seed_tensor},
        ("random_normal_out",),
        {"shape": list(shape), "mean": float(mean), "scale": float(std), "dataType": dtype._number},
    )[0]


def random_uniform(
    seed_tensor: Tensor, shape: Iterable[int], low: float = 0.0, high: float = 1.0, dtype: dtype_class = float32
) -> Tensor:
    """Uniform samples in [low, high). The same seed gives the same samples.

    Args:
        seed_tensor: (2,), uint32; vary it between uses, iterations and replicas.
        shape, dtype: of the result; dtype is floating.
        low, high: bounds.

    Raises:
        popart.popart_exception: the seed or the dtype does not fit.

    Example:
        >>> u = ops.random_uniform(seed, (2, 3), low=-1.0)
    """
    check_in_graph(_contexts.here.graph, seed_tensor=seed_tensor)
    return create(
        "RandomUniform",
        {0: seed_tensor},
        ("random_uniform_out",),
        {"shape": list(shape), "low": float(low), "high": float(high), "dataType": dtype._number},
    )[0]


def l1(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Sum of the magnitudes.

    Example:
        >>> penalty = ops.l1(weight)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceL1", {0: t}, ("l1_out",), attributes)[0]


def l2(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Square root of the sum of the squares, of a float tensor; its gradient is 0 where it is 0.

    Example:
        >>> norm = ops.l2(weight)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceL2", {0: t}, ("l2_out",), attributes)[0]


def logsum(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum, of a float tensor.

    Example:
        >>> y = ops.logsum(probabilities, axis=1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceLogSum", {0: t}, ("logsum_out",), attributes)[0]


def logsumexp(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Logarithm of the sum of the exponentials, of a float tensor, without overflow.

    Example:
        >>> y = ops.logsumexp(scores, axis=1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceLogSumExp", {0: t}, ("logsumexp_out",), attributes)[0]


def max(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """The largest element; NaN if there is one. Equal ones share the gradient.

    Example:
        >>> largest = ops.max(x, axis=-1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceMax", {0: t}, ("max_out",), attributes)[0]


def mean(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Arithmetic mean; of integers without its fraction.

    Example:
        >>> mean = ops.mean(x, axis=(0, 1), keepdims=True)  # x (2, 3) gives (1, 1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceMean", {0: t}, ("mean_out",), attributes)[0]


def median(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """The middle element, the lower of two; NaN if there is one. The op has a second output: the int32 index of the
    element along the reduced axes, as one.

    Example:
        >>> middle = ops.median(popxl.constant([4.0, 1.0, 3.0, 2.0]))  # 2
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceMedian", {0: t}, ("median_out", "median_indices"), attributes)[0]


def min(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """The smallest element; NaN if there is one. Equal ones share the gradient.

    Example:
        >>> smallest = ops.min(x, axis=-1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceMin", {0: t}, ("min_out",), attributes)[0]


def prod(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Product of the elements.

    Example:
        >>> product = ops.prod(x)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceProd", {0: t}, ("prod_out",), attributes)[0]


def sum(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Sum of the elements.

    Example:
        >>> rows = ops.sum(x, axis=1)  # x (2, 3) gives (2,)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceSum", {0: t}, ("sum_out",), attributes)[0]


def sumsquare(t: Tensor, axis: Optional[Union[int, Iterable[int]]] = None, keepdims: bool = False) -> Tensor:
    """Sum of the squares.

    Example:
        >>> energy = ops.sumsquare(x)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {"keepdims": bool(keepdims)}
    if axis is not None:
        attributes["axes"] = [operator.index(i) for i in (axis if hasattr(axis, "__iter__") else (axis,))]
    return create("ReduceSumSquare", {0: t}, ("sumsquare_out",), attributes)[0]


def relu(t: Tensor) -> Tensor:
    """The larger of t and 0.

    Example:
        >>> y = ops.relu(popxl.constant([-1.0, 1.0]))  # 0, 1
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Relu", {0: t}, ("relu_out",))[0]


def relu_(t: Tensor) -> Tensor:
    """As `relu`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create("ReluInplace", {0: t}, ("relu_inplace_out",))[0]


def interpolate(
    t: Tensor,
    scale_factor: tuple[float, ...] = (1.0, 1.0, 1.0, 1.0),
    mode: InterpolateType = "nearest",
    nearest_mode: NearestType = "round_prefer_floor",
    coordinate_transformation_mode: CoordinateTransformationType = "half_pixel",
) -> Tensor:
    """Resizes every axis to floor(size * factor); an axis with factor 1 stays as it is.

    Args:
        t: any shape, floating.
        scale_factor: one number for each axis; positions are those of torch with `recompute_scale_factor=False`.
        mode: "nearest", "linear" (two neighbours along each axis) or "cubic" (four, A = -0.75); neighbours outside take
            the value of the edge.
        nearest_mode: which neighbour is nearest: "round_prefer_floor", "round_prefer_ceil", "floor" or "ceil".
        coordinate_transformation_mode: where element x of the result lies, by the factor and not the ratio of the sizes:
            "half_pixel" (x + 0.5) / factor - 0.5; "pytorch_half_pixel" the same, 0 where size * factor is at most 1;
            "align_corners" x * (size - 1) / (size * factor - 1); "asymmetric" x / factor; "tf_crop_and_resize" needs a
            region, which there is no way to give.

    Returns:
        The result, in the dtype of `t`.

    Raises:
        ValueError: another word.
        popart.popart_exception: not one factor for each axis, or "tf_crop_and_resize".

    Example:
        >>> y = ops.interpolate(x, (1.0, 1.0, 2.0, 2.0), "linear")
    """
    attributes: dict[str, Any] = {
        "scales": [float(i) for i in scale_factor],
        "mode": word("mode", mode, InterpolateType),
        "nearestMode": word("nearest_mode", nearest_mode, NearestType),
        "coordinateTransformationMode": word(
            "coordinate_transformation_mode", coordinate_transformation_mode, CoordinateTransformationType
        ),
    }
    check_in_graph(_contexts.here.graph, t=t)
    return create("Resize", {0: t}, ("interpolate_out",), attributes)[0]


def roi_align(
    t: Tensor, rois: Tensor, batch_index: Tensor, output_size: Sequence[int], spatial_scale: float, sampling_ratio: int
) -> Tensor:
    """Mean of bilinear samples in each bin of each region of interest, without a shift by half a pixel.

    Args:
        t: (N, C, H, W), floating.
        rois: (R, 4), floating: x1, y1, x2, y2 in coordinates of the original image.
        batch_index: (R,), integers: the image of each region.
        output_size: bins along height and width.
        spatial_scale: from coordinates of the original image to those of `t`.
        sampling_ratio: samples along height and width of a bin, 1 or more.

    Returns:
        (R, C, output_size[0], output_size[1]), in the dtype of `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: shapes do not fit.

    Example:
        >>> y = ops.roi_align(x, rois, batch_index, (7, 7), 0.25, 2)
    """
    check_in_graph(_contexts.here.graph, t=t, rois=rois, batch_index=batch_index)
    check_tensor_ipu_and_tile_set(t=t, rois=rois, batch_index=batch_index)
    return create(
        "RoiAlign",
        {0: t, 1: rois, 2: batch_index},
        ("roi_align_out",),
        {
            "spatialScale": float(spatial_scale),
            "samplingRatio": int(sampling_ratio),
            "alignedHeight": int(output_size[0]),
            "alignedWidth": int(output_size[1]),
        },
    )[0]


def scatter(
    t: Tensor, indices: Tensor, values: Tensor, axis: int = 0, available_memory_proportion: Optional[float] = None
) -> Tensor:
    """A copy of t in which values[i, j, ...] stands at t[indices[i, j, ...], j, ...] for axis 0, and so on. Gradients go
    to t and values.

    Args:
        indices: of the shape of values, or smaller: the first values are then taken. With fewer axes they are repeated
            along those they lack; a vector stands along `axis`. One outside of the axis stops the run.
        values: of the rank and dtype of t.

    Example:
        >>> y = ops.scatter(x, popxl.constant([2, 0]), popxl.constant([5.0, 6.0]))  # y[2] = 5, y[0] = 6
    """
    check_in_graph(_contexts.here.graph, t=t, indices=indices, values=values)
    check_tensor_ipu_and_tile_set(t=t, indices=indices, values=values)
    attributes: dict[str, Any] = {"axis": operator.index(axis)}
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    return create("Scatter", {0: t, 1: indices, 2: values}, ("scatter_out",), attributes)[0]


def shaped_dropout(t: Tensor, seed_tensor: Tensor, shape: Iterable[int], ratio: float) -> Tensor:
    """Dropout with one decision for all the elements of `t` that an element of `shape` broadcasts to.

    Args:
        t: any shape, floating.
        seed_tensor: (2,), uint32.
        shape: broadcasts to that of `t`.
        ratio: probability of zero, in [0, 1].

    Returns:
        As `t`.

    Raises:
        ValueError: the operands are on different IPUs or tile sets.
        popart.popart_exception: `shape` does not broadcast to that of `t`, or the seed does not fit.

    Example:
        >>> y = ops.shaped_dropout(x, seed, shape=(x.shape[0], 1), ratio=0.1)  # whole rows
    """
    check_in_graph(_contexts.here.graph, t=t, seed_tensor=seed_tensor)
    check_tensor_ipu_and_tile_set(t=t, seed_tensor=seed_tensor)
    return create(
        "ShapedDropout", {0: t, 1: seed_tensor}, ("shapeddropout_out",), {"shape": list(shape), "ratio": float(ratio)}
    )[0]


def sign(t: Tensor) -> Tensor:
    """-1, 0 or 1; 0 of NaN. The gradient is 0.

    Example:
        >>> y = ops.sign(popxl.constant([-3.0, 0.0]))  # -1, 0
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Sign", {0: t}, ("sign_out",))[0]


def sin(t: Tensor) -> Tensor:
    """Sine of radians.

    Example:
        >>> y = ops.sin(popxl.constant([0.0]))  # 0
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Sin", {0: t}, ("sin_out",))[0]


def softmax(t: Tensor, axis: int) -> Tensor:
    """exp(t) over its sum along all axes from `axis` to the last, taken as one; a negative axis counts from the end.
    For the last axis alone that is the usual softmax.

    Example:
        >>> probabilities = ops.softmax(scores, axis=-1)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Softmax", {0: t}, ("softmax_out",), {"axis": operator.index(axis)})[0]


def sqrt(t: Tensor) -> Tensor:
    """Square root, of a float tensor; NaN below 0.

    Example:
        >>> y = ops.sqrt(popxl.constant([4.0]))  # 2
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Sqrt", {0: t}, ("sqrt_out",))[0]


def sub(lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs - rhs.

    Example:
        >>> y = ops.sub(a, b)  # or a - b
    """
    check_in_graph(_contexts.here.graph, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(lhs=lhs, rhs=rhs)
    return create("Sub", {0: lhs, 1: rhs}, ("sub_out",))[0]


def swish(t: Tensor) -> Tensor:
    """t times its sigmoid, of a float tensor.

    Example:
        >>> y = ops.swish(x)
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Swish", {0: t}, ("swish_out",))[0]


def swish_(t: Tensor) -> Tensor:
    """As `swish`; overwrites `t`."""
    check_in_graph(_contexts.here.graph, t=t)
    return create("SwishInplace", {0: t}, ("swish_inplace_out",))[0]


def tanh(t: Tensor) -> Tensor:
    """Hyperbolic tangent, of a float tensor.

    Example:
        >>> y = ops.tanh(popxl.constant([0.0]))  # 0
    """
    check_in_graph(_contexts.here.graph, t=t)
    return create("Tanh", {0: t}, ("tanh_out",))[0]


def topk(
    t: Tensor, k: int, axis: int, largest: bool, sorted: bool, available_memory_proportion: Optional[float] = None
) -> tuple[Tensor, Tensor]:
    """The k largest (or smallest) elements along an axis and their int32 indices; both of t's shape, with k along the
    axis. Gradients go to the elements taken.

    Args:
        k: at least 1, at most the size of the axis.
        sorted: whether they are in order; else the order is not promised.
        available_memory_proportion: a hint without effect on values.

    Raises:
        popart.popart_exception: k is larger than the axis, or below 1.

    Example:
        >>> values, indices = ops.topk(scores, 5, axis=1, largest=True, sorted=True)
    """
    check_in_graph(_contexts.here.graph, t=t)
    attributes: dict[str, Any] = {
        "k": operator.index(k),
        "axis": operator.index(axis),
        "largest": bool(largest),
        "sorted": bool(sorted),
    }
    if available_memory_proportion is not None:
        attributes["available_memory_proportion"] = float(available_memory_proportion)
    y0, y1 = create("TopK", {0: t}, ("topk_out_value", "topk_out_indices"), attributes)
    return y0, y1


def where(condition: Tensor, lhs: Tensor, rhs: Tensor) -> Tensor:
    """lhs where the condition holds, rhs elsewhere; all three broadcast. A condition of another dtype is cast to bool
    first.

    Example:
        >>> y = ops.where(mask, x, popxl.constant(0.0))
    """
    check_in_graph(_contexts.here.graph, condition=condition, lhs=lhs, rhs=rhs)
    check_tensor_ipu_and_tile_set(condition=condition, lhs=lhs, rhs=rhs)
    return create("Where", {0: cast_if_needed(condition, dtypes.bool), 1: lhs, 2: rhs}, ("where_out",))[0]
