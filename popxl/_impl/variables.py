"""Makes variables: on chip, in remote buffers, and shared between replicas."""

import math
from collections.abc import Iterable
from typing import Any, Optional

import numpy as np

from ipu_common.debug_contexts import recording
from popxl import dtypes
from popxl._impl.debug_records import record_tensor
from popxl._impl.errors import core_errors, popart_error
from popxl.context import _contexts, _execution_context
from popxl.dtypes import dtype as dtype_class
from popxl.replica_grouping import ReplicaGrouping, check_retrieval_mode
from popxl.utils import to_numpy

_WEIGHTS_FROM_HOST, _WEIGHTS_TO_HOST = 2, 3  # numbers of ExecutionContext


def _main_graph(function: str) -> Any:
    graph = _contexts.here.graph
    if graph._number != 0:
        raise ValueError(f"popxl.{function} makes variables in the main graph; the current graph is {graph!r}.")
    return graph


def _host_data(
    ir: Any,
    data: Any,
    dtype: Optional[dtype_class],
    downcast: bool,
    grouping: ReplicaGrouping,
    log2_scale: Optional[int],
    nan_on_overflow: Optional[bool],
) -> tuple[np.ndarray, dtype_class, Optional[np.memmap]]:
    """The data as the host keeps it, for each group of `grouping`; its type; the memmap that it is."""
    if dtype is None:
        dtype = next((t for t in dtypes._FLOAT8 if getattr(data, "dtype", None) == t.as_numpy()), None)
    memmap = data if isinstance(data, np.memmap) else None
    array = to_numpy(data, dtype, downcast, memmap is None, log2_scale, nan_on_overflow)
    found = dtypes._NP_TO_POPXL[array.dtype]
    if memmap is not None and not grouping.is_const:
        import popart

        popart.getLogger("popxl").warn(
            f"The np.memmap {memmap.filename} is copied: {grouping!r} is not constant, and needs another order."
        )
        array, memmap = np.array(array), None
    elif memmap is not None and not memmap.flags.writeable:
        ir._has_read_only_memmap = True
    return array, found, memmap


def _variable(
    function: str,
    data: Any,
    dtype: Optional[dtype_class],
    name: Optional[str],
    downcast: bool,
    grouping: Optional[ReplicaGrouping],
    retrieval_mode: Optional[str],
    log2_scale: Optional[int],
    nan_on_overflow: Optional[bool],
    **storage: Any,
) -> Any:
    from ipu_common.host_variables import host_variables
    from popxl.tensor import Variable, _of_number

    graph = _main_graph(function)
    ir = graph._ir
    mode = check_retrieval_mode(retrieval_mode)
    if grouping is None:
        grouping = ir.replica_grouping()
    array, kind, memmap = _host_data(ir, data, dtype, downcast, grouping, log2_scale, nan_on_overflow)
    groups, shape = grouping.num_groups, array.shape
    if groups > 1:
        if not shape or shape[0] != groups:
            raise popart_error(
                f"The data of variable {name or 't'!r} have shape {shape}, and {grouping!r} has {groups} groups: the first "
                f"axis must be {groups}."
            )
        shape = shape[1:]
    on_device = grouping.const_rg
    program = ir._program
    with core_errors():
        number = program.add_variable(
            graph._number,
            program.unique_id(graph._number, _contexts.here._prefix + (name or "t")),
            kind._number,
            shape,
            stride=on_device.stride,
            size=on_device.group_size,
            all_replicas=mode == "all_replicas",
            **storage,
        )
    tensor = _of_number(ir, number, Variable, graph._number)
    if recording.path is not None:
        record_tensor(function, tensor.id)
    tensor.__dict__["_grouping"] = grouping
    tensor.__dict__["_memmap"] = memmap
    host_variables(program).add(number, array, memmap, grouping.to_device_map)
    return tensor


def variable(
    data: Any,
    dtype: Optional[dtype_class] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    retrieval_mode: Optional[str] = None,
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Any:
    """A variable of the main graph, which must be current.

    Args:
        data: number, array, nested sequence or torch tensor; with one value for each group in front, where
            `replica_grouping` has several. An `np.memmap` is used in place.
        dtype: of the variable; None: that of the data.
        name: of the variable; "t" if None.
        downcast: makes 32-bit data of 64-bit data where `dtype` is None.
        replica_grouping: replicas of one group have the same value; None: all are one group.
        retrieval_mode: what the Session reads: "one_per_group" (also None) or "all_replicas".
        log2_scale, nan_on_overflow: of a float8 dtype; see `popxl.fp8_utils.host_pow2scale_cast_to_fp8`.

    Raises:
        RuntimeError: there is no current graph; float8 arguments without a float8 dtype.
        TypeError: data that cannot become float8.
        ValueError: the current graph is not the main graph; an unknown retrieval mode; an `np.memmap` that would have to
            change.
        popart.popart_exception: the first axis of the data is not the number of groups.

    Example:
        >>> w = popxl.variable(np.zeros((2, 3)), popxl.float16, "w")
    """
    return _variable(
        "variable", data, dtype, name, downcast, replica_grouping, retrieval_mode, log2_scale, nan_on_overflow
    )


def remote_variable(
    data: Any,
    remote_buffer: Any,
    offset: int = 0,
    dtype: Optional[dtype_class] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    retrieval_mode: Optional[str] = "one_per_group",
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Any:
    """A variable that is entry `offset` of a remote buffer. `ops.remote_load` brings its value on chip; the handle itself
    is for the Session's data methods. Whether it fits the buffer is not checked here.

    Args:
        data, dtype, name, downcast, replica_grouping, retrieval_mode, log2_scale, nan_on_overflow: of `popxl.variable`.
        remote_buffer: the buffer.
        offset: number of the entry.

    Raises:
        TypeError: `remote_buffer` is no buffer.
        ValueError: it is of another Ir.
        As `popxl.variable`.
    """
    from popxl.remote_buffer import check_buffer

    _main_graph("remote_variable")
    check_buffer(remote_buffer)
    return _variable(
        "remote_variable",
        data,
        dtype,
        name,
        downcast,
        replica_grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
        remote_buffer=remote_buffer.remote_buffer_id,
        remote_entry=int(offset),
    )


def _shard_over(grouping: ReplicaGrouping, shard_over: Optional[int]) -> int:
    size = grouping.group_size
    over = size if shard_over is None else shard_over
    if over < 1 or over > size or size % over != 0:
        raise ValueError(f"shard_over is {over}: it must divide the group size {size} of {grouping!r}.")
    return over


def _value_shape(shape: tuple[int, ...], grouping: ReplicaGrouping) -> tuple[int, ...]:
    """Without the axis of groups."""
    if grouping.num_groups == 1:
        return shape
    if not shape or shape[0] != grouping.num_groups:
        raise ValueError(
            f"Data of shape {shape} for {grouping!r}: the first axis must be its number of groups, {grouping.num_groups}."
        )
    return shape[1:]


def replica_sharded_buffer(
    shape: Iterable[int],
    dtype: dtype_class,
    replica_grouping: Optional[ReplicaGrouping] = None,
    shard_over: Optional[int] = None,
    entries: int = 1,
) -> Any:
    """A remote buffer for shards of a value.

    Args:
        shape: of the value; with one for each group in front, where there are several groups.
        dtype: of the value.
        replica_grouping: replicas of one group have the same value; None: all are one group.
        shard_over: members of a group that share one copy; the size of a group if None.
        entries: of the buffer.

    Raises:
        RuntimeError: there is no current graph.
        ValueError: `shard_over` does not divide the size of a group.
    """
    from popxl.remote_buffer import RemoteBuffer

    grouping = (replica_grouping or _contexts.here.ir.replica_grouping()).const_rg
    over = _shard_over(grouping, shard_over)
    whole = _value_shape(tuple(shape), replica_grouping or grouping)
    elements = int(np.prod(whole, dtype=np.int64))
    buffer = RemoteBuffer((-(-elements // over),), dtype, entries)
    buffer.meta_shape, buffer.shard_over = whole, over
    return buffer


def remote_replica_sharded_variable(
    data: Any,
    remote_buffer: Any,
    offset: int = 0,
    dtype: Optional[dtype_class] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    retrieval_mode: Optional[str] = "one_per_group",
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> Any:
    """A variable whose value is shared in shards between replicas, each in entry `offset` of its remote buffer.
    `ops.remote_load` brings the replica's shard on chip, `ops.remote_store` writes it.

    Args:
        data, dtype, name, downcast, replica_grouping, retrieval_mode, log2_scale, nan_on_overflow: of `popxl.variable`.
        remote_buffer: of `popxl.replica_sharded_buffer`; gets the shape of the value as meta shape where it has none.
        offset: number of the entry.

    Raises:
        TypeError: `remote_buffer` is no buffer.
        ValueError: the Ir has one replica; the buffer is of another Ir; its meta shape is another.
        As `popxl.variable`.
    """
    from popxl.remote_buffer import check_buffer

    graph = _main_graph("remote_replica_sharded_variable")
    check_buffer(remote_buffer)
    ir = graph._ir
    if ir.replication_factor <= 1:
        raise ValueError(f"{ir!r} has {ir.replication_factor} replica: shards need several. Use popxl.remote_variable.")
    grouping = replica_grouping or ir.replica_grouping()
    whole = _value_shape(tuple(np.shape(data)), grouping)
    if not remote_buffer.meta_shape:
        remote_buffer.meta_shape = whole
    elif remote_buffer.meta_shape != whole:
        raise ValueError(
            f"The value has shape {whole}, and remote buffer {remote_buffer.remote_buffer_id} is for shards of "
            f"{remote_buffer.meta_shape}."
        )
    over = remote_buffer.shard_over
    size = grouping.const_rg.group_size
    if over is None or size % over:
        elements, shard = math.prod(whole), math.prod(remote_buffer.tensor_shape)
        # The most shards that fill their entries; where none do, one for each replica, which may be smaller than its entry.
        over = next((s for s in range(size, 1, -1) if size % s == 0 and -(-elements // s) == shard), size)
    return _variable(
        "remote_replica_sharded_variable",
        data,
        dtype,
        name,
        downcast,
        grouping,
        retrieval_mode,
        log2_scale,
        nan_on_overflow,
        shard_over=over,
        remote_buffer=remote_buffer.remote_buffer_id,
        remote_entry=int(offset),
    )


def replica_sharded_variable(
    data: Any,
    dtype: Optional[dtype_class] = None,
    name: Optional[str] = None,
    downcast: bool = True,
    replica_grouping: Optional[ReplicaGrouping] = None,
    shard_over: Optional[int] = None,
    retrieval_mode: Optional[str] = "one_per_group",
    log2_scale: Optional[int] = None,
    nan_on_overflow: Optional[bool] = None,
) -> tuple[Any, Any]:
    """A variable that is shared in shards between replicas and stays on chip: loaded when weights come from the host,
    stored before they go there.

    Args:
        data, dtype, name, downcast, replica_grouping, retrieval_mode, log2_scale, nan_on_overflow: of `popxl.variable`.
        shard_over: members of a group that share one copy; the size of a group if None.

    Returns:
        A handle, for the Session's data methods alone, and the shard of the replica, for ops, which is called
        `<name of the variable>_rts`.

    Raises:
        ValueError: the Ir has one replica; `shard_over` does not divide the size of a group.
        As `popxl.variable`.

    Example:
        >>> handle, shard = popxl.replica_sharded_variable(np.arange(5.0), name="w")
        >>> whole = ops.collectives.replicated_all_gather(shard)
    """
    from popxl import ops
    from popxl.ops.remote_load import _load, _offset

    graph = _main_graph("replica_sharded_variable")
    grouping = replica_grouping or graph._ir.replica_grouping()
    if isinstance(data, np.memmap):  # the very object, where it may be used
        copied, _, used = _host_data(graph._ir, data, dtype, downcast, grouping, log2_scale, nan_on_overflow)
        array = copied if used is None else used
    else:
        array = to_numpy(data, dtype, downcast, False, log2_scale, nan_on_overflow)
    kind = dtypes._NP_TO_POPXL[array.dtype]
    buffer = replica_sharded_buffer(array.shape, kind, grouping, shard_over)
    handle = remote_replica_sharded_variable(array, buffer, 0, kind, name, downcast, grouping, retrieval_mode)
    with _execution_context(_WEIGHTS_FROM_HOST):
        shard = _load(buffer, _offset(0), f"{handle.name.removeprefix(_contexts.here._prefix)}_rts")  # the scopes come with each op
    with _execution_context(_WEIGHTS_TO_HOST):
        ops.remote_store(buffer, 0, shard)
    return handle, shard
