"""Programs for IPUs, written op by op: the published interface of PopXL.

Example:
    >>> import numpy as np, popxl
    >>> from popxl import ops
    >>> ir = popxl.Ir()
    >>> with ir.main_graph:
    ...     x = popxl.h2d_stream((4,), popxl.float32, name="x")
    ...     gain = popxl.variable(np.full(4, 3.0), name="gain")
    ...     y = popxl.d2h_stream((4,), popxl.float32)
    ...     ops.host_store(y, ops.host_load(x) * gain)
    >>> with popxl.Session(ir, "ipu_model") as session:
    ...     session.run({x: np.arange(4, dtype=np.float32)})[y]
    array([0., 3., 6., 9.], dtype=float32)
"""

try:
    import ipu_core._native  # noqa: F401
except ModuleNotFoundError as _error:
    raise RuntimeError(
        f"popxl needs its native part: {_error}. Build it for this Python, which may be a version it was not built for "
        "(scripts/build release)."
    ) from _error

from popxl import ops, transforms, utils
from popxl import tensor as _tensor
from popxl.context import (
    gcg,
    get_current_graph,
    get_ir,
    get_main_graph,
    gir,
    gmg,
    in_sequence,
    io_tiles,
    ipu,
    name_scope,
)
from popxl.dtypes import (
    bool,
    complex64,
    complex128,
    double,
    dtype,
    float,
    float8_143,
    float8_152,
    float16,
    float32,
    float64,
    half,
    int8,
    int16,
    int32,
    int64,
    uint8,
    uint16,
    uint32,
    uint64,
)
from popxl.graph import Graph
from popxl.ir import Ir
from popxl.module import Module
from popxl.random_seed import create_seeds
from popxl.remote_buffer import RemoteBuffer, remote_buffer
from popxl.replica_grouping import ReplicaGrouping
from popxl.session import Session
from popxl.streams import DeviceToHostStream, HostToDeviceStream, d2h_stream, h2d_stream
from popxl.tensor import (
    Tensor,
    TensorByRef,
    TensorSpec,
    constant,
    graph_input,
    graph_output,
    remote_replica_sharded_variable,
    remote_variable,
    replica_sharded_buffer,
    replica_sharded_variable,
    variable,
)
from popxl.tensorlocation import (
    ExecutionContext,
    ReplicatedTensorSharding,
    TensorLocation,
    TensorStorage,
    TileSet,
)

_tensor._operations = ops
__version__ = "3.4.0+open"

__all__ = [
    # context
    "get_current_graph",
    "gcg",
    "get_main_graph",
    "gmg",
    "get_ir",
    "gir",
    "in_sequence",
    "name_scope",
    "ipu",
    "io_tiles",
    # dtypes
    "dtype",
    "bool",
    "int8",
    "int16",
    "int32",
    "int64",
    "uint8",
    "uint16",
    "uint32",
    "uint64",
    "half",
    "float16",
    "float8_143",
    "float8_152",
    "float",
    "float32",
    "double",
    "float64",
    "complex64",
    "complex128",
    # graph, ir, module
    "Graph",
    "Ir",
    "Module",
    # random_seed
    "create_seeds",
    # remote_buffer
    "RemoteBuffer",
    "remote_buffer",
    # replica_grouping
    "ReplicaGrouping",
    # streams
    "HostToDeviceStream",
    "DeviceToHostStream",
    "h2d_stream",
    "d2h_stream",
    # tensor
    "Tensor",
    "variable",
    "remote_variable",
    "remote_replica_sharded_variable",
    "replica_sharded_variable",
    "constant",
    "graph_input",
    "graph_output",
    "TensorByRef",
    "TensorSpec",
    # tensorlocation
    "TensorStorage",
    "TensorLocation",
    "ReplicatedTensorSharding",
    "TileSet",
    "ExecutionContext",
    # session
    "Session",
]
