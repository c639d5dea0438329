"""What becomes of the initialisers of a model: trained variables, variables that the host changes, constants, states."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from popart._impl import reserved_names
from popart._impl.builder.metadata import variable_settings
from popart._impl.enums import ReplicatedStreamMode, VariableRetrievalMode
from popart._impl.exceptions import popart_internal_exception
from popart._impl.groups import VariableSettings
from popart._impl.session_options import SessionOptions

if TYPE_CHECKING:
    import onnx

_STREAM_MODE = "__replicated_stream_mode/"
# What sessions add to a saved model besides the variables.
STATE_PREFIXES = (
    reserved_names.SUMS[1],
    *reserved_names.STATES,
    "PreviousLossScaling_",
    reserved_names.LOSS_SCALE_UPDATE_FACTOR,
)


class Initialisers:
    """The initialisers of a model by what the session makes of them.

    trained: variables of an optimizer; variables: those that only the host changes; groupings: of variables that are not
    the same on all replicas; values: arrays as the model has them, with a part for each group in front where there are
    several; dtypes: names of their types; states: that an optimizer left in the model, and no node reads.

    Raises:
        popart_internal_exception: a variable of several groups has not one part for each.
    """

    def __init__(
        self,
        model: onnx.ModelProto,
        values: dict[str, numpy.ndarray],
        options: SessionOptions,
        is_training: bool,
    ) -> None:
        import onnx

        metadata = {entry.key: entry.value for entry in model.metadata_props}
        replicas = options.getGlobalReplicationFactor()
        self.values = values
        self.dtypes: dict[str, str] = {}
        self.settings: dict[str, VariableSettings] = {}
        self.groupings: dict[str, tuple[int, int, bool, bool]] = {}
        self.trained: set[str] = set()
        self.variables: set[str] = set()
        self.states: set[str] = set()
        read = _names_read(model.graph)
        updatable = set(options.updatableNamedBuffers)
        for tensor in model.graph.initializer:
            name = tensor.name
            self.dtypes[name] = onnx.TensorProto.DataType.Name(tensor.data_type)
            settings = variable_settings(metadata, name)
            if settings is not None:
                settings.shapeOnReplica(self.values[name].shape, replicas, name)
                self.settings[name] = settings
                self.groupings[name] = _native(settings, replicas)
            if name.startswith(STATE_PREFIXES) and name not in read:
                self.states.add(name)
            elif is_training and self.values[name].dtype in (numpy.float32, numpy.float16):
                self.trained.add(name)
            elif is_training or not options.constantWeights or settings is not None or name in updatable:
                self.variables.add(name)


def _names_read(graph: onnx.GraphProto) -> set[str]:
    """Names that nodes read, those of graphs inside nodes too."""
    return {value.name for value in graph.output}.union(*(_names_of(node) for node in graph.node))


def _names_of(node: onnx.NodeProto) -> set[str]:
    names = set(node.input)
    for attribute in node.attribute:
        for graph in (*([attribute.g] if attribute.HasField("g") else []), *attribute.graphs):
            names |= _names_read(graph)
    return names


def broadcast_inputs(model: onnx.ModelProto) -> frozenset[str]:
    """Inputs of which every replica gets the same elements, as the model's metadata say."""
    broadcast = str(ReplicatedStreamMode["Broadcast"].value)
    return frozenset(
        entry.key.removeprefix(_STREAM_MODE)
        for entry in model.metadata_props
        if entry.key.startswith(_STREAM_MODE) and entry.value == broadcast
    )


def _native(settings: VariableSettings, replicas: int) -> tuple[int, int, bool, bool]:
    if settings.getRetrievalMode() is VariableRetrievalMode["AllReduceReplicas"]:
        raise popart_internal_exception("the retrieval mode AllReduceReplicas is not implemented; use AllReplicas")
    grouping = settings.getReplicaGrouping(replicas)
    all_replicas: Any = settings.getRetrievalMode() is VariableRetrievalMode["AllReplicas"]
    return grouping.getStride(), grouping.getGroupSize(), all_replicas, grouping.getNumGroups() > 1
