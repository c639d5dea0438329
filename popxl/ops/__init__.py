"""Operations. Each call adds ops to the current graph and gives tensors of it.

All raise RuntimeError without a current graph, TypeError for an operand that is no tensor, ValueError for one of another
graph, and `popart.popart_exception` where shapes or dtypes do not fit. One line for each module; names as published.
"""

from popxl.ops import collectives, elementwise, var_updates

from popxl.ops.arithmetic import (
    add,
    add_,
    div,
    equal,
    fmod,
    greater,
    logical_and,
    logical_or,
    maximum,
    mul,
    pow,
    scaled_add,
    scaled_add_,
    sub,
    where,
)

from popxl.ops.batch_norm import batch_norm_inference
from popxl.ops.call import CallSiteInfo, call, call_with_info
from popxl.ops.casts import (
    cast,
    cast_then_pow2scale,
    pow2scale_cast_from_fp8,
    pow2scale_cast_to_fp8,
    pow2scale_then_cast,
)
from popxl.ops.conditional import conditional, conditional_with_info
from popxl.ops.conv import PadType, conv, conv_pow2scaled, conv_transpose, conv_transpose_pow2scaled
from popxl.ops.dropout import dropout, shaped_dropout
from popxl.ops.elementwise import *
from popxl.ops.group_norm import group_norm, layer_norm
from popxl.ops.host_load import host_load
from popxl.ops.host_store import host_store
from popxl.ops.indexing import (
    dynamic_slice,
    dynamic_update,
    dynamic_update_,
    gather,
    groupedgather,
    scatter,
    tied_gather,
)
from popxl.ops.init import init
from popxl.ops.interpolate import interpolate
from popxl.ops.io_tile_copy import io_tile_copy
from popxl.ops.ipu_copy import ipu_copy
from popxl.ops.matmul import matmul, matmul_pow2scaled
from popxl.ops.negative_log_likelihood import nll_loss, nll_loss_with_softmax_grad
from popxl.ops.pooling import average_pool, max_pool
from popxl.ops.print_tensor import print_tensor
from popxl.ops.random import random_normal, random_uniform
from popxl.ops.random_seed import split_random_seed
from popxl.ops.reductions import argmax, argmin, l1, l2, logsum, logsumexp, max, mean, median, min, prod, sum, sumsquare
from popxl.ops.remote_code_load import remote_code_load
from popxl.ops.remote_load import remote_load, remote_load_
from popxl.ops.remote_store import remote_store
from popxl.ops.repeat import repeat, repeat_with_info
from popxl.ops.roi_align import roi_align
from popxl.ops.scatter_reduce import scatter_reduce  # noqa: F401
from popxl.ops.shapes import (
    concat,
    concat_,
    flatten,
    flatten_,
    onehot,
    reshape,
    reshape_,
    slice,
    slice_,
    split,
    squeeze,
    subsample,
    transpose,
    transpose_,
)
from popxl.ops.statistics import cumsum, histogram, lamb_square, softmax, topk

__all__ = [
    "add",
    "add_",
    "argmax",
    "argmin",
    "average_pool",
    "batch_norm_inference",
    "call",
    "call_with_info",
    "cast",
    "cast_then_pow2scale",
    "collectives",
    "concat",
    "concat_",
    "conditional",
    "conditional_with_info",
    "conv",
    "conv_pow2scaled",
    "conv_transpose",
    "conv_transpose_pow2scaled",
    "cumsum",
    "div",
    "dropout",
    "dynamic_slice",
    "dynamic_update",
    "dynamic_update_",
    "equal",
    "flatten",
    "flatten_",
    "fmod",
    "gather",
    "greater",
    "group_norm",
    "groupedgather",
    "histogram",
    "host_load",
    "host_store",
    "init",
    "interpolate",
    "io_tile_copy",
    "ipu_copy",
    "l1",
    "l2",
    "lamb_square",
    "layer_norm",
    "logical_and",
    "logical_or",
    "logsum",
    "logsumexp",
    "matmul",
    "matmul_pow2scaled",
    "max",
    "max_pool",
    "maximum",
    "mean",
    "median",
    "min",
    "mul",
    "nll_loss",
    "nll_loss_with_softmax_grad",
    "onehot",
    "pow",
    "pow2scale_cast_from_fp8",
    "pow2scale_cast_to_fp8",
    "pow2scale_then_cast",
    "print_tensor",
    "prod",
    "random_normal",
    "random_uniform",
    "remote_code_load",
    "remote_load",
    "remote_load_",
    "remote_store",
    "repeat",
    "repeat_with_info",
    "reshape",
    "reshape_",
    "roi_align",
    "scaled_add",
    "scaled_add_",
    "scatter",
    "scatter_reduce",
    "shaped_dropout",
    "slice",
    "slice_",
    "softmax",
    "split",
    "split_random_seed",
    "squeeze",
    "sub",
    "subsample",
    "sum",
    "sumsquare",
    "tied_gather",
    "topk",
    "transpose",
    "transpose_",
    "var_updates",
    "where",
    "CallSiteInfo",
    "PadType",
]
__all__ += elementwise.__all__
