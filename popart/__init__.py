"""What programs of PopXL need of PopART: types, options, devices, arrays of runs, exceptions, logs.

>>> import popart
>>> popart.DataFlow(1, {"y": popart.AnchorReturnType("All")}).anchors()
['y']

The program itself is behind `popart._internal.ir`. Importing this module loads neither torch nor the compiler.
"""

from __future__ import annotations

from typing import Any

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
from popart._impl.tensor_info import TensorInfo, getTensorInfo

__version__ = "3.4.0"


def versionString() -> str:
    return __version__


def __getattr__(name: str) -> Any:
    """Sessions need the compiler, which is loaded when somebody asks for one."""
    if name in ("InferenceSession", "TrainingSession"):
        from popart._impl.sessions.inference import InferenceSession
        from popart._impl.sessions.training import TrainingSession

        globals().update(InferenceSession=InferenceSession, TrainingSession=TrainingSession)
        return globals()[name]
    raise AttributeError(f"module 'popart' has no attribute '{name}'")
