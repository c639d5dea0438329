"""The attributes of `ipu.config.IPUConfig`: what a program says of the IPUs and of how it is compiled. Nothing happens before it is
configured (system.py), where values that do not fit together are refused (validation.py)."""

from __future__ import annotations

from typing import Any, List, Tuple  # noqa: UP035, as type hints are published

from ipu_tensorflow.config_tree import Category, Structure
from ipu_tensorflow.enums import (
    DeviceConnectionType,
    MergeRemoteBuffersBehaviour,
    SchedulingAlgorithm,
    SelectionOrder,
)


def _is(default: Any, description: str) -> tuple[tuple[Any, ...], Any, str]:
    """A row for an attribute that has one type, that of its default."""
    return (type(default),), default, description


_IPUS = (int, List[int], Tuple[int, ...])  # noqa: UP006
_FLAGS = "Flags of the {}, name to value."

STRUCTURE = Structure(
    {
        "allow_recompute": _is(
            False, "Compute values of the forward pass again in the backward pass instead of keeping them."
        ),
        "selection_order": _is(SelectionOrder.AUTO, "Which IPU of a device a shard comes to."),
        "serialization_output_folder": _is("", 'Where compiled programs are stored, one file each; "": nowhere.'),
        "compilation_poplar_options": _is({}, _FLAGS.format("compiler")),
        "gcl_poplar_options": _is({}, _FLAGS.format("collectives")),
        "auto_select_ipus": (_IPUS, [], "How many IPUs each TensorFlow device has; a number: one device."),
        "select_ipus": (_IPUS, [], "The id of the group of IPUs of each TensorFlow device; a number: one device."),
        "convolutions": "Options of convolutions.",
        "convolutions.poplar_options": _is({}, _FLAGS.format("convolutions")),
        "device_connection": "When and how IPUs are attached.",
        "device_connection.type": _is(DeviceConnectionType.ALWAYS, "When IPUs are attached."),
        "device_connection.version": _is("", '"ipu1" or "ipu2": what is compiled for where no IPU is attached.'),
        "device_connection.enable_remote_buffers": _is(
            False, "Whether the machine has remote buffers, where none is attached."
        ),
        "experimental": "Options that may change.",
        "experimental.always_rearrange_copies_on_the_host": _is(
            False, "Bring streamed data into their layout on the host."
        ),
        "experimental.enable_remote_buffer_embedding": _is(False, "Keep tables of host embeddings in remote buffers."),
        "experimental.multi_replica_distribution": "This process as one of several that run the same program.",
        "experimental.multi_replica_distribution.process_index": _is(0, "The number of this process."),
        "experimental.multi_replica_distribution.process_count": _is(
            0, "How many processes there are; 0: not distributed."
        ),
        "floating_point_behaviour": "What happens when numbers leave their range.",
        "floating_point_behaviour.inv": _is(False, "An invalid operation is an error of the run."),
        "floating_point_behaviour.div0": _is(False, "A division by zero is an error of the run."),
        "floating_point_behaviour.oflo": _is(False, "An overflow is an error of the run."),
        "floating_point_behaviour.esr": _is(False, "Round float16 at random."),
        "floating_point_behaviour.nanoo": _is(False, "An overflow of float16 gives NaN instead of the largest number."),
        "floating_point_behaviour.set_all": _is(False, "As if the five others were True."),
        "io_tiles": "Tiles that only move data.",
        "io_tiles.num_io_tiles": _is(0, "How many tiles of each IPU are for streams."),
        "io_tiles.place_ops_on_io_tiles": _is(False, "Place operations of streams on these tiles."),
        "io_tiles.available_memory_proportion": _is(0.9, "The share of the memory of these tiles that data may take."),
        "ipu_model": "Options of the software model of an IPU.",
        "ipu_model.compile_ipu_code": _is(True, "Compile code of the IPU for the model."),
        "ipu_model.tiles_per_ipu": _is(0, "Tiles of an IPU; 0: as many as an IPU has."),
        "ipu_model.version": _is("ipu2", '"ipu1" or "ipu2".'),
        "matmuls": "Options of matrix products.",
        "matmuls.clear_pass_type": _is(
            False, "Do not say whether a product is one of the forward or of the backward pass."
        ),
        "matmuls.poplar_options": _is({}, _FLAGS.format("matrix products")),
        "norms": "Options of normalisations.",
        "norms.use_stable_statistics": _is(False, "Compute the variance in a second pass, from the mean."),
        "norms.experimental": "Options that may change.",
        "norms.experimental.distributed_batch_norm_replica_group_size": _is(
            1, "Replicas that share statistics in training."
        ),
        "optimizations": "What the compiler may do.",
        "optimizations.prefetch_data_streams": _is(True, "Read data of streams ahead."),
        "optimizations.combine_embedding_lookups": _is(False, "Combine lookups in one table."),
        "optimizations.combine_matmuls": _is(False, "Combine matrix products that share an operand."),
        "optimizations.enable_graph_outlining": _is(True, "Reuse the code of equal parts."),
        "optimizations.merge_infeed_io_copies": _is(False, "Read all parts of an element of an infeed at once."),
        "optimizations.maximum_cross_replica_sum_buffer_size": _is(0, "Bytes that sums over replicas may wait for."),
        "optimizations.maximum_reduce_scatter_buffer_size": _is(0, "Bytes that reduce-scatters may wait for."),
        "optimizations.maximum_inter_ipu_copies_buffer_size": _is(0, "Bytes that copies between IPUs may wait for."),
        "optimizations.maximum_send_recv_cluster_size": _is(0, "Bytes that exchanges with the host may wait for."),
        "optimizations.minimum_remote_tensor_size": _is(128, "Bytes from which a tensor may go to remote memory."),
        "optimizations.merge_remote_buffers": _is(
            MergeRemoteBuffersBehaviour.IF_BENEFICIAL, "When remote buffers are merged."
        ),
        "optimizations.enable_gather_simplifier": _is(True, "Simplify gathers."),
        "optimizations.triangular_solve_expander_block_size": _is(0, "Block of triangular solves; 0: chosen."),
        "optimizations.cholesky_block_size": _is(0, "Block of Cholesky decompositions; 0: chosen."),
        "optimizations.enable_fast_math": _is(False, "Allow changes of order that change values."),
        "pooling": "Options of pooling.",
        "pooling.poplar_options": _is({}, _FLAGS.format("pooling")),
        "scheduling": "In which order the program computes.",
        "scheduling.algorithm": _is(SchedulingAlgorithm.CHOOSE_BEST, "How the order is found."),
        "scheduling.maximum_scheduler_lookahead_depth": _is(5, "Of LOOK_AHEAD: how far it looks."),
        "scheduling.maximum_scheduler_search_space_size": _is(64, "Of LOOK_AHEAD: how much it looks at."),
    }
)
FLOATING_POINT = ("inv", "div0", "oflo", "esr", "nanoo")


class Configuration(Category):
    """The attributes in their categories, with defaults."""

    def __init__(self) -> None:
        super().__init__(STRUCTURE)

    def has_floating_point(self, name: str) -> bool:
        """Is this behaviour asked for, by itself or with all?"""
        behaviour = self.floating_point_behaviour
        return bool(behaviour.set_all or getattr(behaviour, name))

    def ipus_of_devices(self) -> list[int]:
        """How many IPUs each device has, if they are counted."""
        return _listed(self.auto_select_ipus)

    def ids_of_devices(self) -> list[int]:
        """The group of IPUs of each device, if they are chosen."""
        return _listed(self.select_ipus)


def _listed(value: int | list[int] | tuple[int, ...]) -> list[int]:
    return [value] if isinstance(value, int) else list(value)
