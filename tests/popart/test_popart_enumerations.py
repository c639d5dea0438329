"""Enumerations have their published members with their published numbers."""

import popart
import pytest

MEMBERS = {
    "DataType": "UINT8=0 INT8=1 FLOAT8_143=2 FLOAT8_152=3 UINT16=4 INT16=5 INT32=6 INT64=7 UINT32=8 UINT64=9 BOOL=10 FLOAT=11 FLOAT16=12 BFLOAT16=13 DOUBLE=14 COMPLEX64=15 COMPLEX128=16 STRING=17 UNDEFINED=18",
    "InitType": "NoInit=0 Zero=1",
    "TensorRemapType": "FwdBwdReverse=0 FwdBwd=1 Fwd=2",
    "ReductionType": "Sum=0 Mean=1 NoReduction=2",
    "ScatterReduction": "Sum=0 Max=1 Min=2 Mul=3 NoReduction=4",
    "MeanReductionStrategy": "Running=0 Post=1",
    "AnchorReturnTypeId": "Final=0 EveryN=1 All=2 Sum=3",
    "ExchangeStrategy": "JustInTime=0 OverlapInnerLoop=1 OverlapLoops=2 OverlapStep=3",
    "ReplicatedStreamMode": "Broadcast=0 Replicate=1",
    "DeviceType": "IpuModel=0 Cpu=1 Ipu=2 OfflineIpu=3 Sim=4",
    "DeviceConnectionType": "Always=0 OnDemand=1 Never=2",
    "DeviceSelectionCriterion": "First=0 Random=1",
    "SyncPattern": "Full=0 SinglePipeline=1 ReplicaAndLadder=2",
    "RecomputationType": "NoRecompute=0 Standard=1 NormOnly=2 Pipeline=3 RecomputeAll=4",
    "RecomputeType": "Undefined=0 Checkpoint=1 Recompute=2 Recomputed=3",
    "MergeVarUpdateType": "Off=0 All=1 AutoLoose=2 AutoTight=3",
    "VirtualGraphMode": "Off=0 Manual=1 Auto=2 ExecutionPhases=3",
    "SyntheticDataMode": "Off=0 Zeros=1 RandomNormal=2 RandomUniform=3",
    "IrSerializationFormat": "JSON=0",
    "Instrumentation": "Outer=0 Inner=1",
    "PatternsLevel": "NoPatterns=0 Minimal=1 Default=2 All=3",
    "TensorStorage": "OnChip=0 OffChip=1",
    "ReplicatedTensorSharding": "Off=0 On=1",
    "ExecutionPhaseIOSchedule": "Preload=0 OnDemand=1",
    "ExecutionPhaseSchedule": "Interleaving=0 Batch=1 BatchClusteredIO=2",
    "AccumulateOuterFragmentSchedule": "Scheduler=0 Serial=1 OverlapCycleOptimized=2 OverlapMemoryOptimized=3",
    "BatchSerializationTransformContext": "Forward=0 Backward=1",
    "BatchSerializationMethod": "UnrollDynamic=0 UnrollStatic=1 Loop=2",
    "BatchSerializationBatchSchedule": "Scheduler=0 Isomorphic=1 OverlapOnIo=2 OverlapOnCompute=3",
    "AutodiffStitchStrategy": "RecomputeMinimal=0 RecomputeAllNonInputs=1 AddFwdOutputs=2 SafeAddFwdOutputs=3",
    "SubgraphCopyingStrategy": "OnEnterAndExit=0 JustInTime=1",
    "GradientTensorTrackingMethod": "AllNonViewChangingGradientTensors=0 ConvAndMatmulGradients=1 GradientsOfUserSpecifiedTensors=2",
    "VariableRetrievalMode": "OnePerGroup=0 AllReduceReplicas=1 AllReplicas=2",
    "CommGroupType": "All=0 Consecutive=1 Orthogonal=2 Ungrouped=3",
    "WeightDecayMode": "Decay=0 L2Regularization=1",
    "SGDAccumulatorAndMomentum": "Combined=0 Separate=1",
    "AdamMode": "Adam=0 AdamNoBias=1 AdaMax=2 Lamb=3 LambNoBias=4",
    "AdaptiveMode": "AdaGrad=0 RMSProp=1 CenteredRMSProp=2 AdaDelta=3",
    "TileSet": "Compute=0 IO=1",
}


@pytest.mark.parametrize("name", MEMBERS)
def test_members_and_numbers(name):
    kind = getattr(popart, name)
    wanted = {member: int(number) for member, _, number in (entry.partition("=") for entry in MEMBERS[name].split())}
    members = {name: member.value for name, member in kind.__members__.items()}  # `_ir` has a few more
    assert wanted.items() <= members.items()


@pytest.mark.shows("popart.syncPatternFromString", "popart.syncPatternToString")
def test_texts_of_devices_and_patterns():
    assert [str(kind) for kind in popart.DeviceType] == ["ipu-model", "cpu", "ipu", "offline-ipu", "sim"]
    texts = ["full", "singlePipeline", "replicaAndLadder"]
    assert [popart.syncPatternToString(pattern) for pattern in popart.SyncPattern] == texts
    assert [popart.syncPatternFromString(text) for text in texts] == list(popart.SyncPattern)
