"""Every situation that has a documented error: what test_error_catalogue.py provokes."""

import os

import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class Net(nn.Module):
    def __init__(self, *blocks):
        super().__init__()
        self.a, self.b = nn.Linear(4, 4), nn.Linear(4, 2)
        self.register_buffer("count", torch.zeros(1))
        if blocks:
            poptorch.BeginBlock(self.a, blocks[0], ipu_id=0)
            poptorch.BeginBlock(self.b, blocks[1], ipu_id=1)

    def forward(self, x, y=None):
        out = self.b(self.a(x))
        return out if y is None else (out, F.mse_loss(out, y))


class Sub(nn.Module):
    """forward from a function of (self, x, y)."""

    def __init__(self, function):
        super().__init__()
        self.fc = nn.Linear(4, 2)
        self.register_buffer("count", torch.zeros(1))
        self._function = function

    def forward(self, x, y=None):
        return self._function(self, x, y)


X, Y = torch.ones(6, 4), torch.ones(6, 2)
O = poptorch.Options


def accumulate(n, o=None):
    o = o or O()
    o.Training.gradientAccumulation(n)
    return o


def infer(model, *args, options=None):
    return poptorch.inferenceModel(model, options)(*(args or (X,)))


def train(model, *args, options=None, optimizer=None):
    return poptorch.trainingModel(model, options, optimizer)(*(args or (X, Y)))


def frozen():
    o = O()
    poptorch.inferenceModel(Net(), o)
    return o


def compiled(*args):
    run = poptorch.inferenceModel(Net())
    run(*(args or (X,)))
    return run


def offline():
    run = poptorch.inferenceModel(Net(), O().useOfflineIpuTarget())
    run.compile(X)
    return run


def rebind(self, x, y):
    self.count = self.count + 1
    return x


def rebind_p(self, x, y):
    self.fc.weight = nn.Parameter(torch.ones(2, 4))
    return self.fc(x)


def remove(self, x, y):
    del self.count
    return x


def after(self, x, y):
    with poptorch.Block("a", ipu_id=0):
        x = x + 1
    return x * 2


def two(self, x, y):
    return F.mse_loss(self.fc(x), y), F.l1_loss(self.fc(x), y)


def popart(k, v):
    o = O()
    o._Popart.set(k, v)
    return infer(Net(), options=o)


def anchored(*a):
    o = O()
    o.anchorTensor(*a)
    return infer(Net(), options=o)


def again(*args):
    return lambda: compiled()(*args)


def blocks(strategy, options=None, training=False, m=None):
    o = (options or O()).setExecutionStrategy(strategy)
    m = m or Net("front", "back")
    return train(m, options=o) if training else infer(m, options=o)


class Ipus(nn.Module):
    def __init__(self, *ipus):
        super().__init__()
        self.ipus = ipus

    def forward(self, x):
        for i, ipu in enumerate(self.ipus):
            poptorch.Block.start(f"b{i}", ipu_id=ipu)
            x = x * 2
        return x


def ipus(*n, options=None):
    return infer(
        Ipus(*n),
        options=(options or O()).setExecutionStrategy(poptorch.ShardedExecution(*[f"b{i}" for i in range(len(n))])),
    )


def on_pod4(action):
    """`action()` on a system of four IPUs."""
    os.environ["POPTORCH_EMULATED_SYSTEM"] = "pod4"
    try:
        action()
    finally:
        del os.environ["POPTORCH_EMULATED_SYSTEM"]


def while_held(model, options, action):
    """`action()` while a model holds its IPUs."""
    hold = poptorch.inferenceModel(model, options)
    try:
        hold(X)
        assert hold.isAttachedToDevice()
        action()
    finally:
        hold.destroy()


def busy():
    sharded = O().setExecutionStrategy(poptorch.ShardedExecution())
    on_pod4(lambda: while_held(Ipus(0, 1, 2, 3), sharded, lambda: infer(Net())))


def fixed(i, model=None):
    options = O().useIpuId(i).setExecutionStrategy(poptorch.ShardedExecution())
    on_pod4(lambda: infer(model or Net(), options=options))


def taken():
    on_pod4(lambda: while_held(Net(), O().useIpuId(0), lambda: infer(Net(), options=O().useIpuId(0))))


def begin_twice():
    l = nn.Linear(2, 2)
    poptorch.BeginBlock(l, "a")
    poptorch.BeginBlock(l, "b")


def wrapped_twice():
    n = Net()
    poptorch.trainingModel(n)
    poptorch.trainingModel(n)


def backward():
    n = Net()
    t = poptorch.trainingModel(n)
    t(X, Y)[1].backward()


def fresh():
    return poptorch.inferenceModel(Net())


def attached_twice():
    compiled().attachToDevice()


def detached_twice():
    r = compiled()
    r.detachFromDevice()
    r.detachFromDevice()


def nested(self, x, y):
    return x.sum().item()


def buffers():
    n = Net()
    n.count = n.count.as_subclass(type("T", (torch.Tensor,), {}))
    poptorch.trainingModel(n)


def no_hardware():
    os.environ["POPTORCH_IPU_MODEL"] = "1"
    try:
        poptorch.ipuHardwareVersion()
    finally:
        del os.environ["POPTORCH_IPU_MODEL"]


def multi(inside):
    with poptorch.MultiConv():
        return inside()


def environment():
    os.environ["OMPI_COMM_WORLD_SIZE"] = "two"
    try:
        O()
    finally:
        del os.environ["OMPI_COMM_WORLD_SIZE"]


CASES = {
    "3.1 frozen": lambda: frozen().deviceIterations(2),
    "3.1 frozen part": lambda: frozen().Training.gradientAccumulation(2),
    "3.1 frozen back end": lambda: frozen()._Popart.set("a", 1),
    "3.1 unknown name": lambda: setattr(O(), "device_iteration", 4),
    "3.1 wrong type": lambda: setattr(O(), "device_iterations", "4"),
    "3.1 private attribute": lambda: setattr(O(), "_x", 1),
    "3.1 unknown read": lambda: O().nothing,
    "3.1 toDict": lambda: O().toDict(),
    "3.3 deviceIterations": lambda: O().deviceIterations(1.0),
    "3.3 replicationFactor": lambda: O().replicationFactor("2"),
    "3.3 grouping all": lambda: O().replicationFactor(2).inputReplicaGrouping(2, poptorch.CommGroupType.All),
    "3.3 grouping large": lambda: O().inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive),
    "3.3 grouping divides": lambda: (
        O().replicationFactor(3).inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    ),
    "3.3 broadcastBuffers": lambda: O().broadcastBuffers(1),
    "3.3 strategy": lambda: O().setExecutionStrategy("x"),
    "3.3 memory key": lambda: O().setAvailableMemoryProportion({"0": 0.1}),
    "3.3 memory index": lambda: O().setAvailableMemoryProportion({"IPUx": 0.1}),
    "3.3 round": lambda: O().autoRoundNumIPUs(1),
    "3.3 output mode": lambda: O().outputMode(2),
    "3.3 output period": lambda: O().outputMode(poptorch.OutputMode.EveryN),
    "3.3 seed": lambda: O().randomSeed("1"),
    "3.3 model name": lambda: O().modelName("a").modelName(1),
    "3.3 logDir": lambda: O().logDir(1),
    "3.3 maxRepeatLogs": lambda: O().maxRepeatLogs("1"),
    "3.3 useIpuModel": lambda: O().useIpuModel(1),
    "3.3 connectionType": lambda: O().connectionType(0),
    "3.3 syncPattern": lambda: O().syncPattern(0),
    "3.3 useIpuId": lambda: O().useIpuId("1"),
    "3.3 offline version": lambda: O().useOfflineIpuTarget(3),
    "3.3 named buffers": lambda: O().updatableNamedBuffers("a"),
    "3.3 excludes": lambda: O().sourceLocationExcludes("a"),
    "3.4 exceptions": lambda: O().Precision.enableFloatingPointExceptions(1),
    "3.4 partials": lambda: O().Precision.setPartialsType(torch.int32),
    "3.4 statistics": lambda: O().Precision.runningStatisticsAlwaysFloat(1),
    "3.5 accumulation": lambda: O().Training.gradientAccumulation("1"),
    "3.5 reduction": lambda: O().Training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction),
    "3.5 strategy": lambda: O().Training.setMeanAccumulationAndReplicationReductionStrategy(1),
    "3.7 minElements": lambda: poptorch.TensorLocationSettings().minElementsForOffChip("1"),
    "3.7 on chip": lambda: poptorch.TensorLocationSettings().useOnChipStorage(1),
    "3.7 io tiles": lambda: O().TensorLocations.numIOTiles(33),
    "3.7 location": lambda: O().TensorLocations.setWeightLocation("x"),
    "3.8 trace": lambda: O().Jit.traceModel(True),
    "3.9 unknown key": lambda: popart("enableOutlinin", True),
    "3.9 other kind": lambda: popart("enableStochasticRounding", 1),
    "3.9 enumeration": lambda: popart("autoRecomputation", 5),
    "3.9 value type": lambda: popart("enableOutlining", None),
    "3.9 container": lambda: popart("engineOptions", {"a": 1}),
    "3.9 patterns": lambda: O()._Popart.setPatterns({"a": 1}),
    "3.9 level": lambda: infer(Net(), options=(lambda o: (o._Popart.setPatterns({}, 4), o)[1])(O())),
    "3.10 accessor": lambda: O().from_json('{"deviceIteration": 1}'),
    "4.1 batch size": lambda: infer(Net(), options=O().deviceIterations(4)),
    "4.1 scalar": lambda: infer(lambda x, s: x * s, X, torch.tensor(1.0), options=O().deviceIterations(2)),
    "4.1 accumulation in inference": lambda: poptorch.inferenceModel(Net(), accumulate(2)),
    "4.1 accumulation in sharded inference": lambda: poptorch.inferenceModel(
        Net(), accumulate(2, O().setExecutionStrategy(poptorch.ShardedExecution()))
    ),
    "4.3 period": lambda: infer(Net(), options=O().deviceIterations(3).outputMode(poptorch.OutputMode.EveryN, 2)),
    "5.1 twice": wrapped_twice,
    "5.1 options": lambda: poptorch.inferenceModel(Net(), {"a": 1}),
    "5.2 buffer class": buffers,
    "5.4 never": lambda: offline()(X),
    "5.4 never attach": lambda: offline().attachToDevice(),
    "5.4 not compiled copyWeightsToHost": lambda: fresh().copyWeightsToHost(),
    "5.4 not compiled copyWeightsToDevice": lambda: fresh().copyWeightsToDevice(),
    "5.4 not compiled attach": lambda: fresh().attachToDevice(),
    "5.4 not compiled detach": lambda: fresh().detachFromDevice(),
    "5.4 not compiled buffers": lambda: fresh().copyNamedBuffersToDevice(),
    "5.4 not compiled time": lambda: fresh().compilationTime(),
    "5.4 not compiled cycles": lambda: fresh().cycleCount(),
    "5.4 not compiled names": lambda: fresh().getTensorNames(),
    "5.4 attached": attached_twice,
    "5.4 not attached": detached_twice,
    "5.4 buffers without the option": lambda: compiled().copyNamedBuffersToDevice(),
    "5.4 cycles without the option": lambda: compiled().cycleCount(),
    "5.4 time without the bar": lambda: (lambda r: (r(X), r.compilationTime()))(
        poptorch.inferenceModel(Net(), O().showCompilationProgressBar(False))
    ),
    "5.4 anchor": lambda: compiled().getAnchoredTensor("a"),
    "5.4 attribute": lambda: fresh().nothing,
    "5.7 hook": lambda: poptorch.registerPreCompileHook(3),
    "5.8 backward": backward,
    "5.8 rebound buffer": lambda: infer(Sub(rebind)),
    "5.8 rebound parameter": lambda: infer(Sub(rebind_p)),
    "5.8 removed": lambda: infer(Sub(remove)),
    "6.1 many": lambda: infer(Net(), X, Y, X),
    "6.1 keyword": lambda: poptorch.inferenceModel(Net())(X, z=Y),
    "6.1 twice": lambda: poptorch.inferenceModel(Net())(X, x=X),
    "6.1 missing": lambda: poptorch.inferenceModel(Net())(),
    "6.1 not callable": lambda: poptorch.inferenceModel(3),
    "6.3 complex": lambda: infer(lambda x: x, torch.ones(2, dtype=torch.complex64)),
    "6.3 sparse": lambda: infer(lambda x: x, X.to_sparse()),
    "6.3 empty": lambda: infer(lambda x: x, torch.ones(0, 2)),
    "6.4 number": lambda: (lambda r: (r(X), r(X, Y)))(fresh()),
    "6.4 type": again([X]),
    "6.4 dtype": again(X.double()),
    "6.4 shape": again(torch.ones(3, 4)),
    "6.4 value": lambda: (lambda r: (r(X, 2), r(X, 3)))(poptorch.inferenceModel(lambda x, n: x * n)),
    "6.4 length": lambda: (lambda r: (r((X, X)), r((X, X, X))))(poptorch.inferenceModel(lambda p: p[0] + p[1])),
    "6.4 keys": lambda: (lambda r: (r({"a": X}), r({"b": X})))(
        poptorch.inferenceModel(lambda p: next(iter(p.values())) * 2)
    ),
    "6.5 parser": lambda: poptorch.registerCustomArgParser(int, object()),
    "7 no loss": lambda: train(Sub(lambda s, x, y: s.fc(x))),
    "7 two losses": lambda: train(Sub(two)),
    "7 value": lambda: infer(Sub(nested)),
    "7 unsupported": lambda: infer(lambda x: torch.special.bessel_j0(x)),
    "8.2 after a block": lambda: infer(Sub(after)),
    "8.2 twice": begin_twice,
    "8.2 not callable": lambda: poptorch.BeginBlock(3),
    "8.1 remove": lambda: poptorch.removeBlocks(3),
    "8.2 unknown block": lambda: blocks(poptorch.PipelinedExecution("front", "rear")),
    "8.2 no ipu": lambda: infer(Sub(lambda s, x, y: poptorch.Block.start("here") or x * 2)),
    "9.1 ids": lambda: poptorch.Stage(1),
    "9.1 ipu": lambda: poptorch.Stage("a").ipu("1"),
    "9.3 twice": lambda: poptorch.PipelinedExecution("a", ["a", "b"]),
    "9.3 list": lambda: poptorch.PipelinedExecution(["a", 1]),
    "9.3 stage": lambda: poptorch.PipelinedExecution("a").stage("b"),
    "9.4 accumulation": lambda: blocks(poptorch.PipelinedExecution("front", "back"), accumulate(2), True),
    "9.4 iterations": lambda: blocks(poptorch.PipelinedExecution("front", "back")),
    "9.4 back": lambda: infer(
        Ipus(0, 1),
        torch.ones(6, 4),
        options=O().deviceIterations(3).setExecutionStrategy(poptorch.PipelinedExecution("b1", "b0")),
    ),
    "9.7 power": lambda: ipus(0, 1, 2),
    "9.7 many": lambda: ipus(0, 64),
    "13.1 reduction": lambda: poptorch.identity_loss(X, "max"),
    "13.2 nop": lambda: poptorch.nop(3),
    "13.2 checkpoint": lambda: poptorch.recomputationCheckpoint(3),
    "13.9 scope": lambda: poptorch.NameScope(1),
    "13.10 id": lambda: poptorch.getIpuTensorId(X),
    "14.1 complex": lambda: infer(lambda x: x.to(torch.complex64)),
    "16.1 options": lambda: poptorch.DataLoader({}, [1]),
    "16.1 async options": lambda: poptorch.DataLoader(O(), [1], async_options={"rebatched_size": 2}),
    "16.1 worker size": lambda: poptorch.DataLoader(O(), [1], rebatched_worker_size=2),
    "16.1 batch sampler": lambda: poptorch.DataLoader(O(), [1], batch_size=2, batch_sampler=[[0]]),
    "16.4 rebatched": lambda: poptorch.AsynchronousDataAccessor([X], rebatched_size=1),
    "10.3 layer": lambda: fresh().a.weight.replicaGrouping(
        poptorch.CommGroupType.All, 0, poptorch.VariableRetrievalMode.OnePerGroup
    ),
    "13.7 nested": lambda: infer(Sub(lambda s, x, y: multi(lambda: multi(lambda: x)))),
    "13.7 empty": lambda: infer(Sub(lambda s, x, y: multi(lambda: x * 2))),
    "13.7 proportions": lambda: poptorch.MultiConv().availableMemoryProportions("a"),
    "13.7 partials": lambda: poptorch.MultiConv().partialsTypes(torch.int32),
    "13.7 dithering": lambda: poptorch.MultiConv().enableConvDithering(3),
    "13.7 plan": lambda: poptorch.MultiConv().planType("Serial"),
    "13.7 tiles": lambda: poptorch.MultiConv().perConvReservedTiles(1.5),
    "13.7 back off": lambda: poptorch.MultiConv().cycleBackOff("a"),
    "13.2 print": lambda: poptorch.ipu_print_tensor(3),
    "13.2 print format": lambda: poptorch.ipu_print_tensor(X, float_format="hex"),
    "13.2 memory": lambda: poptorch.set_available_memory(3, 0.1),
    "13.2 serialized type": lambda: poptorch.serializedMatMul(3, X, poptorch.MatMulSerializationMode.ReducingDim, 2),
    "13.2 serialized factor": lambda: poptorch.serializedMatMul(
        X, X.t(), poptorch.MatMulSerializationMode.InputChannels, 4
    ),
    "13.9 attribute": lambda: poptorch.Attribute(a=1),
    "15.2 buffers": lambda: infer(Sub(lambda s, x, y: (s.count.add_(1), x)[1]), options=O().replicationFactor(2)),
    "3.6 environment": environment,
    "17.1 version": no_hardware,
    "17.2 offline model": lambda: poptorch.inferenceModel(Net(), O().useIpuModel(True).useOfflineIpuTarget()).compile(
        X
    ),
    "17.2 offline id": lambda: poptorch.inferenceModel(Net(), O().useIpuId(1).useOfflineIpuTarget()).compile(X),
    "17.2 cycles": lambda: poptorch.inferenceModel(Net(), O().useIpuModel(True).logCycleCount(True)).compile(X),
    "17.2 busy": busy,
    "17.2 small": lambda: fixed(
        0, nn.Sequential(poptorch.BeginBlock(nn.Linear(4, 4), "a", 0), poptorch.BeginBlock(nn.Linear(4, 4), "b", 1))
    ),
    "17.2 device in use": taken,
    "17.2 no such id": lambda: fixed(9),
    "18.2 name": lambda: poptorch.setLogLevel("LOUD"),
    "18.2 number": lambda: poptorch.setLogLevel(5),
    "18.2 back end": lambda: poptorch._logging.setPopartLogLevel("LOUD"),
    "18.4 anchor": lambda: anchored("a", "Gradient___a.weight"),
    "18.4 anchor mode": lambda: O().anchorTensor("a", "b", 2),
}
