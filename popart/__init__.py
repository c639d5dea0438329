"""PopART: models are built or loaded from ONNX, then trained or run in sessions.

>>> import popart
>>> popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}).anchors()
['y']

Types, options, devices and exceptions are imported at once; builders, sessions and what else needs the compiler, when
first used. `popart._internal.ir` gives access to the program itself. Importing this module does not load torch.
"""

from __future__ import annotations

from typing import Any

from popart._impl import exceptions as _exceptions
from popart._impl import reserved_names as _reserved_names
from popart._impl.data_flow import AnchorReturnType, DataFlow, InputSettings, InputShapeInfo
from popart._impl.debug_info import (
    DebugContext,
    DebugInfo,
    SourceLocation,
    closePoplarDebugInfo,
    initializePoplarDebugInfo,
)
from popart._impl.devices import DeviceInfo, DeviceManager
from popart._impl.enums import (
    AccumulateOuterFragmentSchedule,
    AdamMode,
    AdaptiveMode,
    AnchorReturnTypeId,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    CommGroupType,
    DataType,
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    ExchangeStrategy,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
    InitType,
    Instrumentation,
    IrSerializationFormat,
    MeanReductionStrategy,
    MergeVarUpdateType,
    PatternsLevel,
    RecomputationType,
    RecomputeType,
    ReductionType,
    ReplicatedStreamMode,
    ReplicatedTensorSharding,
    ScatterReduction,
    SGDAccumulatorAndMomentum,
    SubgraphCopyingStrategy,
    SyncPattern,
    SyntheticDataMode,
    TensorRemapType,
    TensorStorage,
    TileSet,
    VariableRetrievalMode,
    VirtualGraphMode,
    WeightDecayMode,
    syncPatternFromString,
    syncPatternToString,
)
from popart._impl.exceptions import (
    OutOfMemoryError,
    OutOfMemoryException,
    RecoveryAction,
    poplar_application_runtime_error,
    poplar_exception,
    poplar_recoverable_runtime_error,
    poplar_runtime_error,
    poplar_system_runtime_error,
    poplar_unknown_runtime_error,
    poplar_unrecoverable_runtime_error,
    poplibs_exception,
    popart_exception,
    popart_internal_exception,
    popart_runtime_error,
)
from popart._impl.groups import CommGroup, VariableSettings
from popart._impl.locations import TensorLocation, TensorLocationSettings
from popart._impl.logs import Logger, getLogger
from popart._impl.operators.queries import (
    Attribute,
    Input,
    OpDefinition,
    OperatorIdentifier,
    Output,
    getSupportedOperations,
    getSupportedOperationsDefinition,
    getUnsupportedOperations,
)
from popart._impl.optimizers.adam import Adam
from popart._impl.optimizers.adaptive import Adaptive
from popart._impl.optimizers.optimizer import Optimizer
from popart._impl.optimizers.sgd import SGD, ConstSGD
from popart._impl.optimizers.values import ClipNormSettings, OptimizerValue, OptimizerValueMap
from popart._impl.patterns import Patterns
from popart._impl.session_options import (
    AccumulateOuterFragmentSettings,
    AutodiffSettings,
    AutomaticLossScalingSettings,
    BatchSerializationSettings,
    ExecutionPhaseSettings,
    ExperimentalSettings,
    NumIOTiles,
    ReplicatedCollectivesSettings,
    SessionOptions,
)
from popart._impl.step_io import IStepIO, IWeightsIO, PyStepIO, PyStepIOCallback, PyWeightsIO
from popart._impl.tensor_info import TensorInfo, _TensorInfoCore, getTensorInfo

__version__ = "3.4.0"

# The published names of these records are no identifiers.
globals().update({"OpDefinition::Input": Input, "OpDefinition::Output": Output, "OpDefinition::Attribute": Attribute})


defaultAiOnnxOpset, defaultAiOnnxMlOpset, defaultAiGraphcoreOpset = 10, 1, 1
globals().update(_reserved_names.FUNCTIONS)
globals().update(_exceptions.throw_hooks())


def versionString() -> str:
    return __version__


def versionNumber() -> tuple[int, int, int]:
    """Major, minor and point number of the version."""
    major, minor, point = __version__.split(".")
    return int(major), int(minor), int(point)


def packageHash() -> str:
    """A text that differs between packages: of the sources that were imported."""
    from popart._impl.package_hash import package_hash

    return package_hash()


# Where names are that need the compiler or onnx, which are loaded when somebody asks for one.
_LAZY = {
    **dict.fromkeys(("InferenceSession", "_InferenceSessionCore"), "popart._impl.sessions.inference"),
    **dict.fromkeys(("TrainingSession", "_TrainingSessionCore"), "popart._impl.sessions.training"),
    **dict.fromkeys(("Builder",), "popart._impl.builder.builder"),
    **dict.fromkeys(("_BuilderCore",), "popart._impl.builder.core"),
    **dict.fromkeys(
        (*(f"AiOnnxOpset{version}" for version in range(6, 12)), "AiGraphcoreOpset1"), "popart._impl.builder.opsets"
    ),
    **dict.fromkeys(
        ("AttributeContextManager", "KeyValueContextManager", "NameContextManager"), "popart._impl.builder.contexts"
    ),
    **dict.fromkeys(("GraphTransformer",), "popart._impl.graph_transformer"),
    **dict.fromkeys(
        (
            "OperatorIdentifier",
            "getSupportedOperations",
            "getUnsupportedOperations",
            "getSupportedOperationsDefinition",
        ),
        "popart._impl.operators.queries",
    ),
    **dict.fromkeys(("NumericsReport",), "popart._impl.numerics_report"),
}
_MODULES = ("builder", "session", "tensorinfo")


def __getattr__(name: str) -> Any:
    """Sessions need the compiler, and builders onnx: both are loaded when somebody asks for one."""
    import importlib

    if name in _MODULES:
        return importlib.import_module(f"popart.{name}")
    if name in _LAZY:
        core = {"_InferenceSessionCore": "InferenceSession", "_TrainingSessionCore": "TrainingSession"}
        globals()[name] = found = getattr(importlib.import_module(_LAZY[name]), core.get(name, name))
        return found
    raise AttributeError(f"module 'popart' has no attribute '{name}'")


def __dir__() -> list[str]:
    return sorted({*globals(), *_LAZY, *_MODULES})


# `from popart import *` needs the list, because it does not call __getattr__ for names that are not in it.
_HELPERS = {"annotations", "Any"}
__all__ = [name for name in __dir__() if not name.startswith("_") and name.isidentifier() and name not in _HELPERS]
