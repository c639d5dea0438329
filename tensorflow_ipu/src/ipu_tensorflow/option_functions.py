"""The functions of `ipu.utils` that were there before IPUConfig: each writes attributes of a configuration. All are deprecated, and
say so once. Dictionaries accumulate over calls."""

from __future__ import annotations

import functools
import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeVar

from ipu_tensorflow.configuration import FLOATING_POINT, Configuration
from ipu_tensorflow.enums import (
    DeviceConnectionType,
    ExecutionProfileType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)
from ipu_tensorflow.verification import VerificationOptions

log = logging.getLogger("tensorflow")
_Function = TypeVar("_Function", bound=Callable[..., Any])
_ALGORITHMS = {
    "": SchedulingAlgorithm.CHOOSE_BEST,
    "Clustering": SchedulingAlgorithm.CLUSTERING,
    "PostOrder": SchedulingAlgorithm.POST_ORDER,
    "LookAhead": SchedulingAlgorithm.LOOK_AHEAD,
    "ShortestPath": SchedulingAlgorithm.SHORTEST_PATH,
}
_MERGING = {
    True: MergeRemoteBuffersBehaviour.MERGE,
    False: MergeRemoteBuffersBehaviour.NO_MERGING,
    None: MergeRemoteBuffersBehaviour.IF_BENEFICIAL,
}


class IpuOptions:
    """What these functions make and change. `config`: its attributes; `recorded`: options that are no attributes and have no effect."""

    def __init__(self, config: Configuration | None = None) -> None:
        self.config = Configuration() if config is None else config
        self.recorded: dict[str, Any] = {}

    def __eq__(self, other: object) -> bool:
        return isinstance(other, IpuOptions) and self.config == other.config

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return f"IpuOptions({self.config!r})"


def _deprecated(instead: str, takes_options: bool = True) -> Callable[[_Function], _Function]:
    """The first call of the function logs what to use instead. `takes_options`: its first argument is checked."""

    def decorate(function: _Function) -> _Function:
        has_warned = False

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            nonlocal has_warned
            opts = arguments[0] if arguments else keywords.get("opts")
            if takes_options and not isinstance(opts, IpuOptions):
                raise TypeError(f"opts must be what create_ipu_config() returns, and is {type(opts).__name__}")
            if not has_warned:
                has_warned = True
                log.warning("%s is deprecated: %s", function.__name__, instead)
            return function(*arguments, **keywords)

        return call  # type: ignore[return-value]

    return decorate


def _attribute(*names: str) -> Callable[[_Function], _Function]:
    return _deprecated(f"set {', '.join(names)} of an IPUConfig")


_without_effect = _deprecated("it has no effect, and no attribute of an IPUConfig instead")


@_deprecated("create an IPUConfig", takes_options=False)
def create_ipu_config(
    profiling: bool = False,
    enable_ipu_events: bool = False,
    use_poplar_text_report: bool = False,
    use_poplar_cbor_report: bool = False,
    profile_execution: bool | ExecutionProfileType | None = None,
    enable_poplar_serialized_graph: bool = False,
    report_every_nth_execution: int = 0,
    max_report_size: int = 268435456,
    report_directory: str = "",
    scheduler_selection: str | SchedulingAlgorithm = SchedulingAlgorithm.CHOOSE_BEST,
    always_rearrange_copies_on_the_host: bool = False,
    merge_infeed_io_copies: bool = False,
    disable_graph_outlining: bool = False,
    retain_control_dependencies: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_scheduler_lookahead_depth: int = 5,
    max_scheduler_search_space_size: int = 64,
    prefetch_data_streams: bool = True,
    selection_order: SelectionOrder = SelectionOrder.AUTO,
    enable_experimental_remote_buffer_embedding: bool = False,
) -> IpuOptions:
    """New options. Those of reports have no effect."""
    if profiling and enable_ipu_events:
        raise Exception(
            "profiling and enable_ipu_events are both set: profiling has the events already, so set one of them"
        )
    if profile_execution and not profiling:
        raise Exception("profile_execution is set without profiling: set profiling=True as well")
    if profile_execution is not None and not isinstance(profile_execution, (bool, ExecutionProfileType)):
        raise Exception(f"profile_execution must be a bool or an ExecutionProfileType, and is {profile_execution!r}")
    options = IpuOptions()
    options.recorded = {
        "profiling": profiling,
        "enable_ipu_events": enable_ipu_events,
        "use_poplar_text_report": use_poplar_text_report,
        "use_poplar_cbor_report": use_poplar_cbor_report,
        "profile_execution": ExecutionProfileType.DEVICE_PROFILE if profile_execution is True else profile_execution,
        "enable_poplar_serialized_graph": enable_poplar_serialized_graph,
        "report_every_nth_execution": report_every_nth_execution,
        "max_report_size": max_report_size,
        "report_directory": report_directory,
        "retain_control_dependencies": retain_control_dependencies,
    }
    config = options.config
    config.scheduling.algorithm = _algorithm(scheduler_selection)
    config.scheduling.maximum_scheduler_lookahead_depth = max_scheduler_lookahead_depth
    config.scheduling.maximum_scheduler_search_space_size = max_scheduler_search_space_size
    config.experimental.always_rearrange_copies_on_the_host = always_rearrange_copies_on_the_host
    config.experimental.enable_remote_buffer_embedding = enable_experimental_remote_buffer_embedding
    config.optimizations.merge_infeed_io_copies = merge_infeed_io_copies
    config.optimizations.enable_graph_outlining = not disable_graph_outlining
    config.optimizations.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    config.optimizations.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    config.optimizations.prefetch_data_streams = prefetch_data_streams
    config.selection_order = selection_order
    return options


def _algorithm(selection: Any) -> SchedulingAlgorithm:
    if isinstance(selection, SchedulingAlgorithm):
        return selection
    if isinstance(selection, str) and selection in _ALGORITHMS:
        return _ALGORITHMS[selection]
    raise TypeError(
        f"scheduler_selection is {selection!r}: it must be a SchedulingAlgorithm, or one of {', '.join(map(repr, _ALGORITHMS))}"
    )


@_attribute("auto_select_ipus")
def auto_select_ipus(opts: IpuOptions, num_ipus: int | Sequence[int]) -> IpuOptions:
    """One device of so many IPUs, or one for each number."""
    _check_no_devices(opts)
    if type(num_ipus) not in (int, list, tuple):
        raise Exception(f"num_ipus must be a number, or a list or tuple of numbers, and is {num_ipus!r}")
    opts.config.auto_select_ipus = num_ipus
    return opts


@_attribute("select_ipus")
def select_ipus(opts: IpuOptions, indices: Sequence[int]) -> IpuOptions:
    """One device for each id of a group of IPUs."""
    _check_no_devices(opts)
    if type(indices) not in (list, tuple):
        raise Exception(f"indices must be a list or tuple of ids, and is {indices!r}")
    if len(set(indices)) < len(indices):
        raise Exception(f"indices has an id twice: {indices}")
    opts.config.select_ipus = indices
    return opts


def _check_no_devices(opts: IpuOptions) -> None:
    if opts.config.ipus_of_devices() or opts.config.ids_of_devices():
        raise Exception("IPUs were chosen already: choose them once, by auto_select_ipus or by select_ipus")


def _added(old: dict, new: Any, name: str, error: type[Exception] = Exception) -> dict:
    if not isinstance(new, dict):
        raise error(f"{name} must be a dictionary, and is {new!r}")
    return {**old, **new}


@_attribute("compilation_poplar_options")
def set_compilation_options(opts: IpuOptions, compilation_options: dict | None = None) -> IpuOptions:
    """Adds flags of the compiler."""
    config = opts.config
    config.compilation_poplar_options = _added(
        config.compilation_poplar_options, compilation_options or {}, "compilation_options"
    )
    return opts


@_attribute("convolutions.poplar_options")
def set_convolution_options(opts: IpuOptions, convolution_options: dict | None = None) -> IpuOptions:
    """Adds flags of convolutions."""
    part = opts.config.convolutions
    part.poplar_options = _added(part.poplar_options, convolution_options or {}, "convolution_options")
    return opts


@_attribute("matmuls.poplar_options", "matmuls.clear_pass_type")
def set_matmul_options(
    opts: IpuOptions, matmul_options: dict | None = None, clear_pass_type: bool = False
) -> IpuOptions:
    """Adds flags of matrix products."""
    part = opts.config.matmuls
    part.poplar_options = _added(part.poplar_options, matmul_options or {}, "matmul_options")
    part.clear_pass_type = clear_pass_type
    return opts


@_attribute("pooling.poplar_options")
def set_pooling_options(opts: IpuOptions, pooling_options: dict | None = None) -> IpuOptions:
    """Adds flags of pooling."""
    part = opts.config.pooling
    part.poplar_options = _added(part.poplar_options, pooling_options or {}, "pooling_options")
    return opts


@_attribute("gcl_poplar_options")
def set_gcl_options(opts: IpuOptions, gcl_options: dict | None = None) -> IpuOptions:
    """Adds flags of collectives."""
    config = opts.config
    config.gcl_poplar_options = _added(config.gcl_poplar_options, gcl_options, "gcl_options", TypeError)
    return opts


@_without_effect
def set_report_options(
    opts: IpuOptions, graph_options: dict | None = None, execution_options: dict | None = None
) -> IpuOptions:
    """Has no effect."""
    for name, given in (("graph_options", graph_options), ("execution_options", execution_options)):
        opts.recorded[name] = _added(opts.recorded.get(name, {}), given or {}, name)
    return opts


@_attribute("serialization_output_folder")
def set_serialization_options(opts: IpuOptions, output_folder: str = "") -> IpuOptions:
    """Where compiled programs are stored; "": nowhere."""
    opts.config.serialization_output_folder = output_folder
    return opts


@_attribute("allow_recompute")
def set_recomputation_options(opts: IpuOptions, allow_recompute: bool = True) -> IpuOptions:
    """Whether the backward pass computes values again."""
    opts.config.allow_recompute = allow_recompute
    return opts


@_attribute(*(f"floating_point_behaviour.{name}" for name in FLOATING_POINT))
def set_floating_point_behaviour_options(
    opts: IpuOptions, inv: bool = True, div0: bool = True, oflo: bool = True, esr: bool = True, nanoo: bool = True
) -> IpuOptions:
    """What happens when numbers leave their range."""
    for name, value in zip(FLOATING_POINT, (inv, div0, oflo, esr, nanoo), strict=True):
        setattr(opts.config.floating_point_behaviour, name, value)
    return opts


@_attribute("num_io_tiles, place_ops_on_io_tiles and available_memory_proportion of io_tiles")
def set_io_tile_options(
    opts: IpuOptions,
    num_io_tiles: int,
    place_ops_on_io_tiles: bool | None = None,
    io_tile_available_memory_proportion: float = 0.9,
) -> IpuOptions:
    """Tiles that only move data; None leaves the placement as it is."""
    if place_ops_on_io_tiles and num_io_tiles == 0:
        raise ValueError("place_ops_on_io_tiles is True and num_io_tiles is 0: reserve tiles for it")
    tiles = opts.config.io_tiles
    tiles.num_io_tiles = num_io_tiles
    if place_ops_on_io_tiles is not None:
        tiles.place_ops_on_io_tiles = place_ops_on_io_tiles
    tiles.available_memory_proportion = io_tile_available_memory_proportion
    return opts


@_attribute("type, version and enable_remote_buffers of device_connection")
def set_ipu_connection_type(
    opts: IpuOptions,
    connection_type: DeviceConnectionType = DeviceConnectionType.ALWAYS,
    ipu_version: str | int = "",
    enable_remote_buffers: bool = False,
) -> IpuOptions:
    """When IPUs are attached."""
    version = f"ipu{ipu_version}" if type(ipu_version) is int else ipu_version
    if connection_type in (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE) and not version:
        raise Exception(
            f"ipu_version is not set: {connection_type.name} compiles without a device, so it must be 'ipu1' or 'ipu2'"
        )
    connection = opts.config.device_connection
    connection.type, connection.version, connection.enable_remote_buffers = (
        connection_type,
        version,
        enable_remote_buffers,
    )
    return opts


@_attribute("compile_ipu_code, tiles_per_ipu and version of ipu_model")
def set_ipu_model_options(
    opts: IpuOptions, compile_ipu_code: bool = True, tiles_per_ipu: int | None = None, ipu_model_version: str = "ipu2"
) -> IpuOptions:
    """Options of the software model; None: as many tiles as an IPU has."""
    model = opts.config.ipu_model
    model.compile_ipu_code, model.tiles_per_ipu, model.version = compile_ipu_code, tiles_per_ipu or 0, ipu_model_version
    return opts


@_attribute("norms.use_stable_statistics", "norms.experimental.distributed_batch_norm_replica_group_size")
def set_norm_options(
    opts: IpuOptions,
    use_stable_statistics: bool = False,
    experimental_distributed_batch_norm_replica_group_size: int = 1,
) -> IpuOptions:
    """Options of normalisations."""
    size = experimental_distributed_batch_norm_replica_group_size
    if size < 1:
        raise ValueError(f"experimental_distributed_batch_norm_replica_group_size is {size}: it must be at least 1")
    opts.config.norms.use_stable_statistics = use_stable_statistics
    opts.config.norms.experimental.distributed_batch_norm_replica_group_size = size
    return opts


@_attribute("attributes of optimizations")
def set_optimization_options(
    opts: IpuOptions,
    combine_embedding_lookups: bool = False,
    combine_matmuls: bool = False,
    max_cross_replica_sum_buffer_size: int = 0,
    max_reduce_scatter_buffer_size: int = 0,
    max_inter_ipu_copies_buffer_size: int = 0,
    max_send_recv_cluster_size: int = 0,
    minimum_remote_tensor_size: int = 128,
    merge_remote_buffers: bool | MergeRemoteBuffersBehaviour | None = MergeRemoteBuffersBehaviour.NO_MERGING,
    gather_simplifier: bool = True,
    triangular_solve_expander_block_size: int = 0,
    cholesky_block_size: int = 0,
    enable_fast_math: bool = False,
) -> IpuOptions:
    """What the compiler may do; sets all of these."""
    part = opts.config.optimizations
    part.combine_embedding_lookups, part.combine_matmuls = combine_embedding_lookups, combine_matmuls
    part.maximum_cross_replica_sum_buffer_size = max_cross_replica_sum_buffer_size
    part.maximum_reduce_scatter_buffer_size = max_reduce_scatter_buffer_size
    part.maximum_inter_ipu_copies_buffer_size = max_inter_ipu_copies_buffer_size
    part.maximum_send_recv_cluster_size = max_send_recv_cluster_size
    part.minimum_remote_tensor_size = minimum_remote_tensor_size
    is_short = merge_remote_buffers is None or isinstance(merge_remote_buffers, bool)
    part.merge_remote_buffers = _MERGING[merge_remote_buffers] if is_short else merge_remote_buffers  # type: ignore[index]
    part.enable_gather_simplifier = gather_simplifier
    part.triangular_solve_expander_block_size = triangular_solve_expander_block_size
    part.cholesky_block_size = cholesky_block_size
    part.enable_fast_math = enable_fast_math
    return opts


@_attribute("process_count and process_index of experimental.multi_replica_distribution")
def set_experimental_multi_replica_distribution_options(
    opts: IpuOptions, process_count: int, process_index: int
) -> IpuOptions:
    """This process as one of several."""
    if not 0 <= process_index < process_count:
        raise ValueError(
            f"process_index is {process_index} and process_count {process_count}: it must be from 0 to process_count - 1"
        )
    job = opts.config.experimental.multi_replica_distribution
    job.process_count, job.process_index = process_count, process_index
    return opts


@_without_effect
def set_transfer_options(opts: IpuOptions, use_verified_transfers: bool = False) -> IpuOptions:
    """Has no effect."""
    opts.recorded["use_verified_transfers"] = use_verified_transfers
    return opts


@_without_effect
def set_verification_options(opts: IpuOptions, verification_options: VerificationOptions) -> IpuOptions:
    """Has no effect."""
    if not isinstance(verification_options, VerificationOptions):
        raise Exception(f"verification_options must be VerificationOptions, and is {verification_options!r}")
    opts.recorded["verification_options"] = verification_options
    return opts
