"""What becomes of the initialisers of a model: trained variables, variables that the host changes, constants."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy

from popart._impl.enums import CommGroupType, VariableRetrievalMode
from popart._impl.groups import CommGroup, ReplicaGrouping, VariableSettings
from popart._impl.session_options import SessionOptions

if TYPE_CHECKING:
    import onnx

_SETTINGS, _TYPE, _SIZE = "__variable_settings/", "__comm_group_type/", "__comm_group_size/"


class Initialisers:
    """The initialisers of a model by what the session makes of them.

    trained: variables of an optimizer; variables: those that only the host changes; groupings: of variables that are not
    the same on all replicas; values: arrays as the model has them, with a part for each group in front where there are
    several; dtypes: names of their types.
    """

    def __init__(self, model: onnx.ModelProto, options: SessionOptions, is_training: bool) -> None:
        import onnx
        import onnx.numpy_helper

        metadata = {entry.key: entry.value for entry in model.metadata_props}
        replicas = options.getGlobalReplicationFactor()
        self.values: dict[str, numpy.ndarray] = {}
        self.dtypes: dict[str, str] = {}
        self.settings: dict[str, VariableSettings] = {}
        self.groupings: dict[str, tuple[int, int, bool, bool]] = {}
        self.trained: set[str] = set()
        self.variables: set[str] = set()
        for tensor in model.graph.initializer:
            name = tensor.name
            self.values[name] = onnx.numpy_helper.to_array(tensor)
            self.dtypes[name] = onnx.TensorProto.DataType.Name(tensor.data_type)
            settings = _settings(metadata, name)
            if settings is not None:
                self.settings[name] = settings
                self.groupings[name] = _native(settings, replicas)
            if is_training and self.values[name].dtype in (numpy.float32, numpy.float16):
                self.trained.add(name)
            elif is_training or not options.constantWeights or settings is not None:
                self.variables.add(name)


def _settings(metadata: dict[str, str], name: str) -> VariableSettings | None:
    """What the model says of a variable; None where it is the same on all replicas and read once."""
    if _SETTINGS + name not in metadata and _TYPE + name not in metadata:
        return None
    mode = VariableRetrievalMode(int(metadata.get(_SETTINGS + name, "0")))
    group = CommGroup(CommGroupType(int(metadata.get(_TYPE + name, "0"))), int(metadata.get(_SIZE + name, "0")))
    return VariableSettings(group, mode)


def _native(settings: VariableSettings, replicas: int) -> tuple[int, int, bool, bool]:
    grouping: ReplicaGrouping = settings.getSharedVariableDomain().toReplicaGrouping(replicas)
    all_replicas: Any = settings.getRetrievalMode() is VariableRetrievalMode["AllReplicas"]
    return grouping.getStride(), grouping.getGroupSize(), all_replicas, grouping.getNumGroups() > 1
