"""Operations. Each call adds ops to the current graph and gives tensors of it.

All raise RuntimeError without a current graph, TypeError for an operand that is no tensor, ValueError for one of another
graph, and `popart.popart_exception` where shapes or dtypes do not fit. One line for each module; names as published.
"""

import sys

from popxl.ops import casts, collectives, elementwise, functions, shapes, statistics, var_updates
from popxl.ops.arguments import PadType
from popxl.ops.call import CallSiteInfo, call, call_with_info
from popxl.ops.casts import *
from popxl.ops.conditional import conditional, conditional_with_info
from popxl.ops.elementwise import *
from popxl.ops.functions import *
from popxl.ops.host_load import host_load
from popxl.ops.host_store import host_store
from popxl.ops.init import init
from popxl.ops.io_tile_copy import io_tile_copy
from popxl.ops.ipu_copy import ipu_copy
from popxl.ops.matmul import matmul
from popxl.ops.negative_log_likelihood import nll_loss_with_softmax_grad
from popxl.ops.random_seed import split_random_seed
from popxl.ops.remote_code_load import remote_code_load
from popxl.ops.remote_load import remote_load, remote_load_
from popxl.ops.remote_store import remote_store
from popxl.ops.repeat import repeat, repeat_with_info
from popxl.ops.scatter_reduce import scatter_reduce  # noqa: F401
from popxl.ops.shapes import *
from popxl.ops.statistics import *

__all__ = [
    "call", "call_with_info", "conditional", "conditional_with_info", "host_load", "host_store", "init",
    "io_tile_copy", "ipu_copy", "matmul", "nll_loss_with_softmax_grad",
    "remote_code_load", "remote_load", "remote_load_", "remote_store", "repeat", "repeat_with_info", "scatter_reduce",
    "split_random_seed", "CallSiteInfo", "PadType", "collectives", "var_updates",
]  # fmt: skip
__all__ += casts.__all__
__all__ += elementwise.__all__
__all__ += functions.__all__
__all__ += shapes.__all__
__all__ += statistics.__all__

# Published files whose functions are all rows of the native table.
_FILES = [
    "batch_norm",
    "conv",
    "dropout",
    "group_norm",
    "interpolate",
    "pooling",
    "print_tensor",
    "random",
    "roi_align",
]
sys.modules.update({f"popxl.ops.{name}": functions for name in _FILES})
