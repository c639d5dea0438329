"""Operations. Each call adds ops to the current graph and gives tensors of it.

All raise RuntimeError without a current graph, TypeError for an operand that is no tensor, ValueError for one of another
graph, and `popart.popart_exception` where shapes or dtypes do not fit. One line for each module; names as published.
"""

# Calls, streams, remote buffers, copies.
from popxl.ops.call import CallSiteInfo, call, call_with_info
from popxl.ops.conditional import conditional, conditional_with_info
from popxl.ops.host_load import host_load
from popxl.ops.host_store import host_store
from popxl.ops.init import init
from popxl.ops.io_tile_copy import io_tile_copy
from popxl.ops.ipu_copy import ipu_copy
from popxl.ops.remote_code_load import remote_code_load
from popxl.ops.remote_load import remote_load, remote_load_
from popxl.ops.remote_store import remote_store
from popxl.ops.repeat import repeat, repeat_with_info

# Elementwise, reductions, shapes, indexing.
from popxl.ops.arithmetic import *  # noqa: F403
from popxl.ops.casts import *  # noqa: F403
from popxl.ops.elementwise import *  # noqa: F403
from popxl.ops.indexing import *  # noqa: F403
from popxl.ops.reductions import *  # noqa: F403
from popxl.ops.scatter_reduce import scatter_reduce  # noqa: F401
from popxl.ops.shapes import *  # noqa: F403
from popxl.ops.statistics import *  # noqa: F403

# Losses, products, normalisation, random numbers, printing.
from popxl.ops.batch_norm import batch_norm_inference
from popxl.ops.conv import PadType, conv, conv_pow2scaled, conv_transpose, conv_transpose_pow2scaled
from popxl.ops.dropout import dropout, shaped_dropout
from popxl.ops.group_norm import group_norm, layer_norm
from popxl.ops.interpolate import interpolate
from popxl.ops.matmul import matmul, matmul_pow2scaled
from popxl.ops.negative_log_likelihood import nll_loss, nll_loss_with_softmax_grad
from popxl.ops.pooling import average_pool, max_pool
from popxl.ops.print_tensor import print_tensor
from popxl.ops.random import random_normal, random_uniform
from popxl.ops.random_seed import split_random_seed
from popxl.ops.roi_align import roi_align

# Packages.
from popxl.ops import collectives, var_updates

__all__ = [
    "abs",
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
    "ceil",
    "clamp",
    "clip",
    "collectives",
    "concat",
    "concat_",
    "conditional",
    "conditional_with_info",
    "conv",
    "conv_pow2scaled",
    "conv_transpose",
    "conv_transpose_pow2scaled",
    "cos",
    "cumsum",
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
    "flatten",
    "flatten_",
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
    "histogram",
    "host_load",
    "host_store",
    "identity",
    "increment_mod",
    "increment_mod_",
    "init",
    "interpolate",
    "io_tile_copy",
    "ipu_copy",
    "isfinite",
    "isinf",
    "isnan",
    "l1",
    "l2",
    "lamb_square",
    "layer_norm",
    "log",
    "log2",
    "logical_and",
    "logical_not",
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
    "negate",
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
    "relu",
    "relu_",
    "remote_code_load",
    "remote_load",
    "remote_load_",
    "remote_store",
    "rename",
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
    "sign",
    "sin",
    "slice",
    "slice_",
    "softmax",
    "split",
    "split_random_seed",
    "sqrt",
    "squeeze",
    "sub",
    "subsample",
    "sum",
    "sumsquare",
    "swish",
    "swish_",
    "tanh",
    "tied_gather",
    "topk",
    "transpose",
    "transpose_",
    "var_updates",
    "where",
    "CallSiteInfo",
    "PadType",
]
