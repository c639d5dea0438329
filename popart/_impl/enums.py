"""Published enumerations of popart: names, members and numbers are interface."""

from __future__ import annotations

import enum

from popart._impl.exceptions import popart_exception


class DataType(enum.Enum):
    """Types of elements."""

    UINT8 = 0
    INT8 = 1
    FLOAT8_143 = 2
    FLOAT8_152 = 3
    UINT16 = 4
    INT16 = 5
    INT32 = 6
    INT64 = 7
    UINT32 = 8
    UINT64 = 9
    BOOL = 10
    FLOAT = 11
    FLOAT16 = 12
    BFLOAT16 = 13
    DOUBLE = 14
    COMPLEX64 = 15
    COMPLEX128 = 16
    STRING = 17
    UNDEFINED = 18

    def __int__(self) -> int:
        return self.value


def _plain(name: str, members: str, **special: int) -> type[enum.Enum]:
    kind = enum.Enum(name, {**{m: i for i, m in enumerate(members.split())}, **special}, module=__name__)  # type: ignore[misc]
    kind.__int__ = lambda self: self.value  # type: ignore[attr-defined]
    return kind


InitType = _plain("InitType", "NoInit Zero")
TensorRemapType = _plain("TensorRemapType", "FwdBwdReverse FwdBwd Fwd")
ReductionType = _plain("ReductionType", "Sum Mean NoReduction N")
ScatterReduction = _plain("ScatterReduction", "Sum Max Min Mul NoReduction")
MeanReductionStrategy = _plain("MeanReductionStrategy", "Running Post")
AnchorReturnTypeId = _plain("AnchorReturnTypeId", "Final EveryN All Sum")
TileSet = _plain("TileSet", "Compute IO Undefined N")
ExchangeStrategy = _plain("ExchangeStrategy", "JustInTime OverlapInnerLoop OverlapLoops OverlapStep")
ReplicatedStreamMode = _plain("ReplicatedStreamMode", "Broadcast Replicate")
DeviceConnectionType = _plain("DeviceConnectionType", "Always OnDemand Never")
DeviceSelectionCriterion = _plain("DeviceSelectionCriterion", "First Random")
RecomputationType = _plain("RecomputationType", "NoRecompute Standard NormOnly Pipeline RecomputeAll")
RecomputeType = _plain("RecomputeType", "Undefined Checkpoint Recompute Recomputed")
MergeVarUpdateType = _plain("MergeVarUpdateType", "Off All AutoLoose AutoTight")
VirtualGraphMode = _plain("VirtualGraphMode", "Off Manual Auto ExecutionPhases")
SyntheticDataMode = _plain("SyntheticDataMode", "Off Zeros RandomNormal RandomUniform")
IrSerializationFormat = _plain("IrSerializationFormat", "JSON")
Instrumentation = _plain("Instrumentation", "Outer Inner")
PatternsLevel = _plain("PatternsLevel", "NoPatterns Minimal Default All")
TensorStorage = _plain("TensorStorage", "OnChip OffChip")
ReplicatedTensorSharding = _plain("ReplicatedTensorSharding", "Off On")
ExecutionPhaseIOSchedule = _plain("ExecutionPhaseIOSchedule", "Preload OnDemand")
ExecutionPhaseSchedule = _plain("ExecutionPhaseSchedule", "Interleaving Batch BatchClusteredIO")
AccumulateOuterFragmentSchedule = _plain(
    "AccumulateOuterFragmentSchedule", "Scheduler Serial OverlapCycleOptimized OverlapMemoryOptimized"
)
BatchSerializationTransformContext = _plain("BatchSerializationTransformContext", "Forward Backward", Fwd=0, Bwd=1)
BatchSerializationMethod = _plain("BatchSerializationMethod", "UnrollDynamic UnrollStatic Loop")
BatchSerializationBatchSchedule = _plain(
    "BatchSerializationBatchSchedule", "Scheduler Isomorphic OverlapOnIo OverlapOnCompute"
)
AutodiffStitchStrategy = _plain(
    "AutodiffStitchStrategy", "RecomputeMinimal RecomputeAllNonInputs AddFwdOutputs SafeAddFwdOutputs N"
)
SubgraphCopyingStrategy = _plain("SubgraphCopyingStrategy", "OnEnterAndExit JustInTime")
GradientTensorTrackingMethod = _plain(
    "GradientTensorTrackingMethod",
    "AllNonViewChangingGradientTensors ConvAndMatmulGradients GradientsOfUserSpecifiedTensors",
)
VariableRetrievalMode = _plain("VariableRetrievalMode", "OnePerGroup AllReduceReplicas AllReplicas")
CommGroupType = _plain("CommGroupType", "All Consecutive Orthogonal Ungrouped")
WeightDecayMode = _plain("WeightDecayMode", "Decay L2Regularization")
SGDAccumulatorAndMomentum = _plain("SGDAccumulatorAndMomentum", "Combined Separate")
AdaptiveMode = _plain("AdaptiveMode", "AdaGrad RMSProp CenteredRMSProp AdaDelta")

# popart._internal.ir alone has these.
TensorType = _plain("TensorType", "ActGrad Const Stream Unknown Variable N")
VariableUpdateType = _plain("VariableUpdateType", "None_ Gradient Copy")
ExecutionContext = _plain(
    "ExecutionContext",
    "Normal AccumulateOuterFragment WeightsFromHostFragment WeightsToHostFragment OptimizerFromHostFragment Subgraph",
)
CodeLocation = _plain("CodeLocation", "ExecutableMemory Buffer N")
CollectiveOperator = _plain("CollectiveOperator", "Add Mean Mul Min Max LogicalAnd LogicalOr SquareAdd Local N")
AccumulationType = _plain(
    "AccumulationType",
    "Add DampenedAdd DampenedAddSquare DecayAdd DecayAddSquare MovingAverage MovingAverageSquare Infinity Mean",
)
AdamMode = _plain("AdamMode", "Adam AdamNoBias AdaMax Lamb LambNoBias")
FloatFormat = _plain("FloatFormat", "Auto Fixed Scientific None_")
AutoPad = _plain("AutoPad", "NOTSET SAME_UPPER SAME_LOWER VALID")
MatMulPartialsType = _plain("MatMulPartialsType", "HALF FLOAT")
SerialiseSettingsMode = _plain("SerialiseSettingsMode", "NoSerialisation InputChannels ReducingDim OutputChannels")
ResizeMode = _plain("ResizeMode", "Nearest Linear Cubic N")
ResizeNearestMode = _plain("ResizeNearestMode", "RoundPreferFloor RoundPreferCeil Floor Ceil Pytorch N")
ResizeCoordinateTransformationMode = _plain(
    "ResizeCoordinateTransformationMode", "HalfPixel PytorchHalfPixel AlignCorners Asymmetric TfCropAndResize N"
)
ExpectedConnectionType = _plain("ExpectedConnectionType", "Fwd FwdGrad")
GradOpInType = _plain("GradOpInType", "In Out GradOut")


class DeviceType(enum.Enum):
    """Kinds of devices; `str()` is the published text."""

    IpuModel = 0
    Cpu = 1
    Ipu = 2
    OfflineIpu = 3
    Sim = 4

    def __str__(self) -> str:
        return ("ipu-model", "cpu", "ipu", "offline-ipu", "sim")[self.value]


class SyncPattern(enum.Enum):
    """How the IPUs of a device wait for each other."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2

    def __str__(self) -> str:
        return ("full", "singlePipeline", "replicaAndLadder")[self.value]


def syncPatternFromString(text: str) -> SyncPattern:
    """Raises popart_exception for a text that names none."""
    for pattern in SyncPattern:
        if str(pattern) == text:
            return pattern
    raise popart_exception(f"no sync pattern is called '{text}'; there are {', '.join(map(str, SyncPattern))}")


def syncPatternToString(pattern: SyncPattern) -> str:
    return str(pattern)
