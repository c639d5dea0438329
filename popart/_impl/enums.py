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


class _Plain(enum.Enum):
    """Members are numbered from 0."""

    def __int__(self) -> int:
        return int(self.value)


class InitType(_Plain):
    NoInit, Zero = range(2)


class TensorRemapType(_Plain):
    FwdBwdReverse, FwdBwd, Fwd = range(3)


class ReductionType(_Plain):
    Sum, Mean, NoReduction, N = range(4)


class ScatterReduction(_Plain):
    Sum, Max, Min, Mul, NoReduction = range(5)


class MeanReductionStrategy(_Plain):
    Running, Post = range(2)


class AnchorReturnTypeId(_Plain):
    Final, EveryN, All, Sum = range(4)


class TileSet(_Plain):
    Compute, IO, Undefined, N = range(4)


class ExchangeStrategy(_Plain):
    JustInTime, OverlapInnerLoop, OverlapLoops, OverlapStep = range(4)


class ReplicatedStreamMode(_Plain):
    Broadcast, Replicate = range(2)


class DeviceConnectionType(_Plain):
    Always, OnDemand, Never = range(3)


class DeviceSelectionCriterion(_Plain):
    First, Random = range(2)


class RecomputationType(_Plain):
    NoRecompute, Standard, NormOnly, Pipeline, RecomputeAll = range(5)


class RecomputeType(_Plain):
    Undefined, Checkpoint, Recompute, Recomputed = range(4)


class MergeVarUpdateType(_Plain):
    Off, All, AutoLoose, AutoTight = range(4)


class VirtualGraphMode(_Plain):
    Off, Manual, Auto, ExecutionPhases = range(4)


class SyntheticDataMode(_Plain):
    Off, Zeros, RandomNormal, RandomUniform = range(4)


class IrSerializationFormat(_Plain):
    JSON = 0


class Instrumentation(_Plain):
    Outer, Inner = range(2)


class PatternsLevel(_Plain):
    NoPatterns, Minimal, Default, All = range(4)


class TensorStorage(_Plain):
    OnChip, OffChip = range(2)


class ReplicatedTensorSharding(_Plain):
    Off, On = range(2)


class ExecutionPhaseIOSchedule(_Plain):
    Preload, OnDemand = range(2)


class ExecutionPhaseSchedule(_Plain):
    Interleaving, Batch, BatchClusteredIO = range(3)


class AccumulateOuterFragmentSchedule(_Plain):
    Scheduler, Serial, OverlapCycleOptimized, OverlapMemoryOptimized = range(4)


class BatchSerializationTransformContext(_Plain):
    Forward, Backward = range(2)
    Fwd, Bwd = range(2)


class BatchSerializationMethod(_Plain):
    UnrollDynamic, UnrollStatic, Loop = range(3)


class BatchSerializationBatchSchedule(_Plain):
    Scheduler, Isomorphic, OverlapOnIo, OverlapOnCompute = range(4)


class AutodiffStitchStrategy(_Plain):
    RecomputeMinimal, RecomputeAllNonInputs, AddFwdOutputs, SafeAddFwdOutputs, N = range(5)


class SubgraphCopyingStrategy(_Plain):
    OnEnterAndExit, JustInTime = range(2)


class GradientTensorTrackingMethod(_Plain):
    AllNonViewChangingGradientTensors, ConvAndMatmulGradients, GradientsOfUserSpecifiedTensors = range(3)


class VariableRetrievalMode(_Plain):
    OnePerGroup, AllReduceReplicas, AllReplicas = range(3)


class CommGroupType(_Plain):
    All, Consecutive, Orthogonal, Ungrouped = range(4)


class WeightDecayMode(_Plain):
    Decay, L2Regularization = range(2)


class SGDAccumulatorAndMomentum(_Plain):
    Combined, Separate = range(2)


class AdaptiveMode(_Plain):
    AdaGrad, RMSProp, CenteredRMSProp, AdaDelta = range(4)


# These are in popart._internal.ir alone.
class TensorType(_Plain):
    ActGrad, Const, Stream, Unknown, Variable, N = range(6)


class VariableUpdateType(_Plain):
    None_, Gradient, Copy = range(3)


class ExecutionContext(_Plain):
    (
        Normal,
        AccumulateOuterFragment,
        WeightsFromHostFragment,
        WeightsToHostFragment,
        OptimizerFromHostFragment,
        Subgraph,
    ) = range(6)


class CodeLocation(_Plain):
    ExecutableMemory, Buffer, N = range(3)


class CollectiveOperator(_Plain):
    Add, Mean, Mul, Min, Max, LogicalAnd, LogicalOr, SquareAdd, Local, N = range(10)


class AccumulationType(_Plain):
    (
        Add,
        DampenedAdd,
        DampenedAddSquare,
        DecayAdd,
        DecayAddSquare,
        MovingAverage,
        MovingAverageSquare,
        Infinity,
        Mean,
    ) = range(9)


class AdamMode(_Plain):
    Adam, AdamNoBias, AdaMax, Lamb, LambNoBias = range(5)


class FloatFormat(_Plain):
    Auto, Fixed, Scientific, None_ = range(4)


class AutoPad(_Plain):
    NOTSET, SAME_UPPER, SAME_LOWER, VALID = range(4)


class MatMulPartialsType(_Plain):
    HALF, FLOAT = range(2)


class SerialiseSettingsMode(_Plain):
    NoSerialisation, InputChannels, ReducingDim, OutputChannels = range(4)


class ResizeMode(_Plain):
    Nearest, Linear, Cubic, N = range(4)


class ResizeNearestMode(_Plain):
    RoundPreferFloor, RoundPreferCeil, Floor, Ceil, Pytorch, N = range(6)


class ResizeCoordinateTransformationMode(_Plain):
    HalfPixel, PytorchHalfPixel, AlignCorners, Asymmetric, TfCropAndResize, N = range(6)


class ExpectedConnectionType(_Plain):
    Fwd, FwdGrad = range(2)


class GradOpInType(_Plain):
    In, Out, GradOut = range(3)


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
