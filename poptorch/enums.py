"""Enumerations of the public API. Their numeric values are part of the contract: `Options.toDict()` and JSON carry them."""

import enum


class OutputMode(enum.IntEnum):
    """Which micro-batch results a call returns.

    Final: the last micro-batch of the call. EveryN: of every N-th device iteration. All: every micro-batch.
    Sum: the element-wise sum over all micro-batches, per replica. Default: Final for training, All for inference.
    """

    Final = 0
    EveryN = 1
    All = 2
    Sum = 3
    Default = 4


class DataLoaderMode(enum.IntEnum):
    """Where batches are loaded: Sync in the caller, Async in another process, AsyncRebatched re-packs rows there."""

    Sync = 0
    Async = 1
    AsyncRebatched = 2


class SharingStrategy(enum.IntEnum):
    """How a data set reaches the loading process: spawn with shared memory or a file, fork, or a fork server."""

    SharedMemory = 0
    FileSystem = 1
    Fork = 2
    ForkServer = 3


class ConnectionType(enum.IntEnum):
    """When a device is attached: Always at start, OnDemand right before running, Never (offline compilation)."""

    Always = 0
    OnDemand = 1
    Never = 2


class SyncPattern(enum.IntEnum):
    """Which IPUs wait for each other at host and inter-IPU exchanges."""

    Full = 0
    SinglePipeline = 1
    ReplicaAndLadder = 2


class ReductionType(enum.IntEnum):
    """How gradients are combined over accumulation steps and replicas."""

    Sum = 0
    Mean = 1
    NoReduction = 2


class MeanReductionStrategy(enum.IntEnum):
    """How a mean is computed: Running rescales at each step, Post divides once at the end."""

    Running = 0
    Post = 1
    PostAndLoss = 2


class HalfFloatCastingBehavior(enum.IntEnum):
    """Deprecated, without effect: mixed operands are computed in float32."""

    FloatDowncastToHalf = 0
    HalfUpcastToFloat = 1
    Default = 2


class MatMulSerializationMode(enum.Enum):
    """Dimension along which `serializedMatMul` cuts the product."""

    InputChannels = "input_channels"
    ReducingDim = "reducing_dim"
    OutputChannels = "output_channels"
    Disabled = "none"


class Liveness(enum.IntEnum):
    """Where activations of phased execution stay between forward and backward."""

    AlwaysLive = 0
    OffChipAfterFwd = 1
    OffChipAfterFwdNoOverlap = 2
    OffChipAfterEachPhase = 3


class OverlapMode(enum.Enum):
    """How far host transfers of a marked tensor overlap with compute."""

    NoOverlap = "no_overlap"
    OverlapAccumulationLoop = "overlap_accumulation_loop"
    OverlapDeviceIterationLoop = "overlap_device_iteration_loop"


class AutoStage(enum.IntEnum):
    """Stage of a block that no strategy names: its IPU id, or one more for each new block."""

    SameAsIpu = 0
    AutoIncrement = 1


class MultiConvPlanType(enum.IntEnum):
    """Whether the convolutions of a MultiConv are planned together or one after another."""

    Parallel = 0
    Serial = 1


class CommGroupType(enum.IntEnum):
    """How replicas form groups: one group, neighbours, equal stride position, or each alone."""

    All = 0
    Consecutive = 1
    Orthogonal = 2
    NoGrouping = 3


class VariableRetrievalMode(enum.IntEnum):
    """Whether a grouped weight is read back once per group or from every replica."""

    OnePerGroup = 0
    AllReplicas = 2
