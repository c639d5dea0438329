"""SessionOptions and the settings objects in it: published names and defaults."""

from __future__ import annotations

import copy
import os
from typing import Any

from popart._impl.enums import (
    AccumulateOuterFragmentSchedule,
    AutodiffStitchStrategy,
    BatchSerializationBatchSchedule,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExecutionPhaseIOSchedule,
    ExecutionPhaseSchedule,
    GradientTensorTrackingMethod,
    Instrumentation,
    MeanReductionStrategy,
    MergeVarUpdateType,
    RecomputationType,
    ReductionType,
    SubgraphCopyingStrategy,
    SyntheticDataMode,
    VirtualGraphMode,
)
from popart._impl.locations import TensorLocation, TensorLocationSettings
from popart._impl.logs import getLogger
from popart._impl.typed_fields import Fields, TypedMap, converted, elements


class AutomaticLossScalingSettings(Fields):
    _optional, _lists = frozenset({"toTrackTensors"}), {"toTrackTensors": ""}
    _defaults = {
        "enabled": False,
        "toTrackTensors": None,
        "binEdgeLocation": 0.125,
        "thresholdUpperCountProportion": 1e-7,
        "updatePeriod": 1,
        "gradientTensorTrackingMethod": GradientTensorTrackingMethod["AllNonViewChangingGradientTensors"],
    }


class AutodiffSettings(Fields):
    _defaults = {"stitchStrategy": AutodiffStitchStrategy["RecomputeAllNonInputs"]}


class BatchSerializationSettings(Fields):
    _defaults = {
        "factor": 0,
        "concatOnVirtualGraphChange": True,
        "concatOnExecutionPhaseChange": True,
        "concatOnPipelineStageChange": True,
        "transformContext": BatchSerializationTransformContext["Forward"],
        "method": BatchSerializationMethod["UnrollDynamic"],
        "batchSchedule": BatchSerializationBatchSchedule["Isomorphic"],
    }


class ReplicatedCollectivesSettings(Fields):
    _defaults = {
        "prepareScheduleForMergingCollectives": False,
        "mergeAllReduceCollectives": False,
        "mergeReduceScatterCollectives": False,
        "mergeAllGatherCollectives": False,
    }


class ExecutionPhaseSettings(Fields):
    _defaults = {
        "phases": 0,
        "stages": 2,
        "weightIOSchedule": ExecutionPhaseIOSchedule["Preload"],
        "activationIOSchedule": ExecutionPhaseIOSchedule["Preload"],
        "optimizerStateIOSchedule": ExecutionPhaseIOSchedule["OnDemand"],
        "accumulatorIOSchedule": ExecutionPhaseIOSchedule["Preload"],
        "schedule": ExecutionPhaseSchedule["Interleaving"],
    }


class AccumulateOuterFragmentSettings(Fields):
    _lists = {"excludedVirtualGraphs": 0}
    _defaults = {"schedule": AccumulateOuterFragmentSchedule["Serial"], "excludedVirtualGraphs": []}


class ExperimentalSettings(Fields):
    _defaults = {"customTransformApplierSettings": {}, "createHostTransferableTensorWithOffset": False}


class NumIOTiles:
    """Tiles of each IPU that only exchange. An int stands for one of these."""

    def __init__(self, numIOTiles: int = 0) -> None:
        self.numIOTiles = int(numIOTiles)

    def __int__(self) -> int:
        return self.numIOTiles

    __index__ = __int__

    def __eq__(self, other: object) -> bool:
        return (
            int(self) == other if isinstance(other, int) else isinstance(other, NumIOTiles) and int(self) == int(other)
        )

    __hash__ = None  # type: ignore[assignment]

    def __repr__(self) -> str:
        return str(self.numIOTiles)


# Containers, with an example of what they hold. Getters of those in _COPIED give copies: a program assigns a whole new container.
_ELEMENTS: dict[str, Any] = {
    "dotChecks": "",
    "hardwareInstrumentations": Instrumentation,
    "customCodelets": "",
    "updatableNamedBuffers": "",
    "virtualGraphSplitRatios": 0.0,
}
_VALUES: dict[str, Any] = {
    "bufferingDepthMap": 0,
    "engineOptions": "",
    "reportOptions": "",
    "convolutionOptions": "",
    "lstmOptions": "",
    "matmulOptions": "",
    "gclOptions": "",
    "tensorLocationSettingsOverride": TensorLocation,
}
_COPIED = {*_ELEMENTS, "bufferingDepthMap"}
_DEPRECATED = {
    "prefetchBufferingDepthMap": "bufferingDepthMap",
    "defaultPrefetchBufferingDepth": "defaultBufferingDepth",
}
_ALIASES = {
    **_DEPRECATED,
    "updatableBuffers": "updatableNamedBuffers",
    "serializedPoprithmsAnnealGraphsDir": "serializedPoprithmsShiftGraphsDir",
}
_DEFAULTS: dict[str, Any] = {
    "logDir": "",
    "dotChecks": set(),
    "firstDotOp": 0,
    "finalDotOp": 10000,
    "dotOpNames": False,
    "exportPoplarComputationGraph": False,
    "exportPoplarVertexGraph": False,
    "separateCallOpPdfs": True,
    "reportOptions": {},
    "autoRecomputation": RecomputationType["NoRecompute"],
    "explicitRecomputation": False,
    "enableOutlining": True,
    "enableOutliningCopyCostPruning": True,
    "outlineThreshold": 1.0,
    "outlineSequenceBreakCost": 10000.0,
    "subgraphCopyingStrategy": SubgraphCopyingStrategy["OnEnterAndExit"],
    "useLoopCandidateCreator": False,
    "mergeVarUpdate": MergeVarUpdateType["Off"],
    "mergeVarUpdateMemThreshold": 1000000,
    "decomposeGradSum": False,
    "delayVarUpdates": True,
    "scheduleNonWeightUpdateGradientConsumersEarly": False,
    "timeLimitScheduler": 1e9,
    "swapLimitScheduler": 1000000000,
    "kahnTieBreaker": "greedy",
    "transitiveClosureOptimizationThreshold": 100000,
    "serializedPoprithmsShiftGraphsDir": "",
    "enableInplaceAmbiguityChecking": False,
    "enableConstantFoldingOfMultipleConsumers": True,
    "aliasZeroCopy": False,
    "rearrangeAnchorsOnHost": True,
    "rearrangeStreamsOnHost": False,
    "enablePrefetchDatastreams": True,
    "defaultBufferingDepth": 1,
    "bufferingDepthMap": {},
    "useHostCopyOps": False,
    "disableGradAccumulationTensorStreams": False,
    "disableOptimizerStateTensorStreams": False,
    "syntheticDataMode": SyntheticDataMode["Off"],
    "groupHostSync": False,
    "compileEngine": True,
    "enableEngineCaching": False,
    "cachePath": "session_cache",
    "enableVariablesCaching": True,
    "engineOptions": {},
    "convolutionOptions": {},
    "lstmOptions": {},
    "matmulOptions": {},
    "gclOptions": {},
    "customCodelets": [],
    "customCodeletCompileFlags": "",
    "enableFloatingPointChecks": False,
    "enableStochasticRounding": False,
    "_enableRngStateManagement": False,
    "enableLoadAndOffloadRNGState": False,
    "opxAliasChecking": False,
    "opxModifyChecking": False,
    "instrumentWithHardwareCycleCounter": False,
    "hardwareInstrumentations": {Instrumentation["Outer"]},
    "strictOpVersions": True,
    "enableSupportedDataTypeCasting": True,
    "updatableNamedBuffers": [],
    "constantWeights": True,
    "partialsTypeMatMuls": "",
    "enableFullyConnectedPass": True,
    "enableNonStableSoftmax": False,
    "enableStableNorm": False,
    "groupNormStridedChannelGrouping": False,
    "enableReplicatedGraphs": False,
    "replicatedGraphCount": 1,
    "enableDistributedReplicatedGraphs": False,
    "globalReplicationFactor": 1,
    "globalReplicaOffset": 0,
    "enableGradientAccumulation": False,
    "accumulationFactor": 1,
    "accumulationAndReplicationReductionType": ReductionType["Sum"],
    "meanAccumulationAndReplicationReductionStrategy": MeanReductionStrategy["Post"],
    "batchSerializationSettings": BatchSerializationSettings,
    "replicatedCollectivesSettings": ReplicatedCollectivesSettings,
    "automaticLossScalingSettings": AutomaticLossScalingSettings,
    "ensureFp32LossScaleTensor": False,
    "throwIfLog2ScaleTensorNotInRange": True,
    "virtualGraphMode": VirtualGraphMode["Off"],
    "virtualGraphSplitRatios": [],
    "enablePipelining": False,
    "createImplicitPipeliningFwdOnlyProgram": False,
    "stashAllTensorsInferencePipeline": False,
    "numIOTiles": 0,
    "enableExplicitMainLoops": False,
    "enableEfficientOverlapIOTopoCons": False,
    "executionPhaseSettings": ExecutionPhaseSettings,
    "accumulateOuterFragmentSettings": AccumulateOuterFragmentSettings,
    "enableMergeExchange": True,
    "activationTensorLocationSettings": TensorLocationSettings,
    "weightTensorLocationSettings": TensorLocationSettings,
    "optimizerStateTensorLocationSettings": TensorLocationSettings,
    "accumulatorTensorLocationSettings": TensorLocationSettings,
    "tensorLocationSettingsOverride": {},
    "experimentalSettings": ExperimentalSettings,
}


class SessionOptions:
    """What a session is told besides its program. Unknown names are AttributeErrors.

    >>> options = SessionOptions()
    >>> options.engineOptions["target.workerStackSizeInBytes"] = "0x400"
    """

    def __init__(self) -> None:
        values = {name: value() if isinstance(value, type) else copy.copy(value) for name, value in _DEFAULTS.items()}
        values |= {name: TypedMap(name, example, {}) for name, example in _VALUES.items()}
        object.__setattr__(self, "_values", values)
        self._read_environment()

    def _read_environment(self) -> None:
        popxl, popart = os.environ.get("POPXL_CACHE_DIR"), os.environ.get("POPART_CACHE_DIR")
        if popxl and popart and popxl != popart:
            getLogger("session").warn(f"POPXL_CACHE_DIR ({popxl}) is used, not POPART_CACHE_DIR ({popart})")
        if popxl or popart:
            self.enableEngineCaching = True
            self.cachePath = popxl or popart

    def __getattr__(self, name: str) -> Any:
        name = _ALIASES.get(name, name)
        values = self.__dict__.get("_values", {})
        if name not in values:
            raise AttributeError(f"'SessionOptions' object has no attribute '{name}'")
        return copy.copy(values[name]) if name in _COPIED else values[name]

    def __setattr__(self, name: str, value: Any) -> None:
        if name in _DEPRECATED:
            getLogger("session").warn(f"SessionOptions.{name} is deprecated; use {_DEPRECATED[name]}")
        name = _ALIASES.get(name, name)
        if name not in self._values:
            raise AttributeError(f"'SessionOptions' object has no attribute '{name}'")
        if name == "numIOTiles":
            value = int(value)
        elif name in _ELEMENTS:
            value = elements(name, type(_DEFAULTS[name]), _ELEMENTS[name], value)
        elif name in _VALUES:
            value = TypedMap(name, _VALUES[name], converted(name, {}, value))
        else:
            value = converted(name, _DEFAULTS[name], value)
        self._values[name] = value

    def __dir__(self) -> list[str]:
        return [*super().__dir__(), *self._values]

    def enableExplicitIR(self, value: bool = True) -> None:
        self.useHostCopyOps = self.enableExplicitMainLoops = self.explicitRecomputation = value

    def getGlobalReplicationFactor(self) -> int:
        if self.enableDistributedReplicatedGraphs:
            return self.globalReplicationFactor
        return self.replicatedGraphCount if self.enableReplicatedGraphs else 1
