"""Operations. Each call adds ops to the current graph and gives tensors of it.

All raise RuntimeError without a current graph, TypeError for an operand that is no tensor, ValueError for one of another
graph, and `popart.popart_exception` where shapes or dtypes do not fit. One line for each module; names as published.
"""

from popxl.ops import arithmetic, casts, collectives, elementwise, indexing, reductions, shapes, statistics, var_updates
from popxl.ops.arithmetic import *
from popxl.ops.batch_norm import batch_norm_inference
from popxl.ops.call import CallSiteInfo, call, call_with_info
from popxl.ops.casts import *
from popxl.ops.conditional import conditional, conditional_with_info
from popxl.ops.conv import PadType, conv, conv_pow2scaled, conv_transpose, conv_transpose_pow2scaled
from popxl.ops.dropout import dropout, shaped_dropout
from popxl.ops.elementwise import *
from popxl.ops.group_norm import group_norm, layer_norm
from popxl.ops.host_load import host_load
from popxl.ops.host_store import host_store
from popxl.ops.indexing import *
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
from popxl.ops.reductions import *
from popxl.ops.remote_code_load import remote_code_load
from popxl.ops.remote_load import remote_load, remote_load_
from popxl.ops.remote_store import remote_store
from popxl.ops.repeat import repeat, repeat_with_info
from popxl.ops.roi_align import roi_align
from popxl.ops.scatter_reduce import scatter_reduce  # noqa: F401
from popxl.ops.shapes import *
from popxl.ops.statistics import *

__all__ = [
    "average_pool",
    "batch_norm_inference",
    "call",
    "call_with_info",
    "collectives",
    "conditional",
    "conditional_with_info",
    "conv",
    "conv_pow2scaled",
    "conv_transpose",
    "conv_transpose_pow2scaled",
    "dropout",
    "group_norm",
    "host_load",
    "host_store",
    "init",
    "interpolate",
    "io_tile_copy",
    "ipu_copy",
    "layer_norm",
    "matmul",
    "matmul_pow2scaled",
    "max_pool",
    "nll_loss",
    "nll_loss_with_softmax_grad",
    "print_tensor",
    "random_normal",
    "random_uniform",
    "remote_code_load",
    "remote_load",
    "remote_load_",
    "remote_store",
    "repeat",
    "repeat_with_info",
    "roi_align",
    "scatter_reduce",
    "shaped_dropout",
    "split_random_seed",
    "var_updates",
    "CallSiteInfo",
    "PadType",
]
__all__ += arithmetic.__all__
__all__ += casts.__all__
__all__ += elementwise.__all__
__all__ += indexing.__all__
__all__ += reductions.__all__
__all__ += shapes.__all__
__all__ += statistics.__all__
