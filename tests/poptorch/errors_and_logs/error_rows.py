"""Situations with a documented error around calls, capture, data and files, each with its message."""

import os

import error_cases as cases
import numpy as np
import torch
import torch.nn.functional as F
from error_cases import Net, O, Sub, X, Y, compiled, infer, train
from error_option_rows import environment, in_a_folder
from torch import nn

import poptorch

P = poptorch


def saved(folder, model=None, options=None, **arguments):
    run = poptorch.inferenceModel(model or Net(), options)
    run.compile(X)
    path = os.path.join(folder, "a.poptorch")
    run.save(path, **arguments)
    run.destroy()
    return path


def blocked(folder):
    path = os.path.join(folder, "file")
    open(path, "w").close()
    return path


def with_bytes(folder, data):
    path = os.path.join(folder, "damaged")
    with open(path, "wb") as file:
        file.write(data)
    return path


def captured(function, *args):
    return lambda: infer(Sub(lambda self, x, y: function(self, x)), *args)


def grouped(*arguments, model=None):
    run = poptorch.inferenceModel(model or nn.Linear(4, 2), O().replicationFactor(2))
    run.weight.replicaGrouping(*arguments)
    run(X)


class Scalar(nn.Module):
    def __init__(self):
        super().__init__()
        self.scale = nn.Parameter(torch.ones(()))

    def forward(self, x):
        return x * self.scale


def scalar_grouped():
    run = poptorch.inferenceModel(Scalar(), O().replicationFactor(2))
    run.scale.replicaGrouping(P.CommGroupType.Consecutive, 1, P.VariableRetrievalMode.OnePerGroup)


def with_named_buffers(name):
    run = poptorch.inferenceModel(Net(), O().updatableNamedBuffers([name]))
    run(X)
    run.copyNamedBuffersToDevice()


def counted():
    run = poptorch.inferenceModel(Net(), O().logCycleCount(True))
    run.compile(X)
    return run.cycleCount()


def anchored_before_a_call():
    options = O()
    options.anchorTensor("a", "a.weight")
    run = poptorch.inferenceModel(Net(), options)
    run.compile(X)
    run.getAnchoredTensor("a")


def destroyed():
    run = compiled()
    run.destroy()
    return run


def optimizer_of_another_model():
    other = Net()
    return train(Net(), optimizer=torch.optim.SGD(other.parameters(), lr=0.1))


def convolutions(settings, count=2):
    class Convolutions(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Conv2d(1, 1, 1) for _ in range(count))

        def forward(self, x):
            with settings(poptorch.MultiConv()):
                return [layer(x) for layer in self.layers]

    return infer(Convolutions(), torch.ones(1, 1, 2, 2))


def after_a_fault(rule):
    import poptorch.testing

    run = compiled()
    with poptorch.testing.faults(rule):
        run(X)


# Situation → (action, type of a poptorch.Error or name of a Python exception, message).
ROWS = {
    "4.1 batch size in training": (
        lambda: train(Net(), options=cases.accumulate(4)),
        "AssertionError",
        "The first dimension of an input of shape [6, 4] must be divisible by 4 = Options.deviceIterations (1) x Options.replicationFactor (1) x Options.Training.gradientAccumulation (4) micro-batches per call.",
    ),
    "4.1 batch size with replicas and groups": (
        lambda: infer(Net(), options=O().replicationFactor(8).inputReplicaGrouping(2, P.CommGroupType.Orthogonal)),
        "AssertionError",
        "The first dimension of an input of shape [6, 4] must be divisible by 4 = Options.deviceIterations (1) x Options.replicationFactor / input group size (4) micro-batches per call.",
    ),
    "4.3 long period": (
        lambda: infer(Net(), options=O().deviceIterations(2).outputMode(P.OutputMode.EveryN, 3)),
        "popart_exception",
        "output period does not fit [IPU-E405]: OutputMode.EveryN with period 3 needs a period that divides deviceIterations, which is 2. Choose such a period, or OutputMode.All.",
    ),
    "5.1 optimizer": (
        lambda: train(Net(), optimizer=torch.optim.Adagrad(Net().parameters())),
        "AssertionError",
        "Unsupported optimizer type torch.optim.adagrad.Adagrad. Supported types are: torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB",
    ),
    "5.1 no optimizer": (
        lambda: train(Net(), optimizer="SGD"),
        "AssertionError",
        "Unsupported optimizer type builtins.str. Supported types are: torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB",
    ),
    "5.1 training options": (
        lambda: P.trainingModel(Net(), "options"),
        "poptorch_py_error",
        "Invalid type of options: expected poptorch.Options, got str.",
    ),
    "5.4 not compiled save": (
        lambda: cases.fresh().save("a"),
        "poptorch_py_error",
        "save: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled random state": (
        lambda: cases.fresh().rng_state,
        "poptorch_py_error",
        "rng_state: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 destroyed": (
        lambda: destroyed().copyWeightsToHost(),
        "poptorch_py_error",
        "copyWeightsToHost: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 random state": (
        lambda: setattr(compiled(), "rng_state", [1, 2, 3]),
        "poptorch_py_error",
        "rng_state must be a list [seed] or [seed, calls] of integers, as reading it gives, not [1, 2, 3].",
    ),
    "5.4 random state count": (
        lambda: setattr(compiled(), "rng_state", [1, -2]),
        "poptorch_py_error",
        "rng_state: the number of calls must be in [0, 2**64), not -2.",
    ),
    "5.4 unknown buffer": (
        lambda: with_named_buffers("b"),
        "poptorch_py_error",
        "Options.updatableNamedBuffers: the model has no buffers ['b']. It has ['count'].",
    ),
    "5.4 cycles before a run": (
        counted,
        "poptorch_py_error",
        "no cycle count [IPU-E407]: the model has not run yet",
    ),
    "5.4 anchor before a run": (
        anchored_before_a_call,
        "AssertionError",
        "getAnchoredTensor: 'a' has no value yet. Call the model first.",
    ),
    "5.4 anchor not compiled": (
        lambda: cases.fresh().getAnchoredTensor("a"),
        "AssertionError",
        "getAnchoredTensor: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 setOptimizer": (
        lambda: compiled().setOptimizer(torch.optim.SGD(Net().parameters(), lr=0.1)),
        "poptorch_py_error",
        "setOptimizer is for training models: this is an inference model.",
    ),
    "5.4 private attribute": (
        lambda: cases.fresh()._nothing,
        "AttributeError",
        "'PoplarExecutor' object has no attribute '_nothing'",
    ),
    "5.7 post hook": (
        lambda: P.registerPostCompileHook("f"),
        "RuntimeError",
        "a compile hook must be callable, got str",
    ),
    "5.8 optimizer of another model": (
        optimizer_of_another_model,
        "KeyError",
        "'group 0 of the optimizer holds a parameter of shape [4, 4] that is not in the model: build the optimizer from model.parameters()'",
    ),
    "6.1 missing in a call": (
        lambda: compiled()(),
        "poptorch_py_error",
        "Mandatory parameter missing: forward needs 'x'.",
    ),
    "6.2 key set of keywords": (
        lambda: (lambda r: (r(X, a=X), r(X, b=X)))(P.inferenceModel(lambda x, **k: x + sum(k.values()))),
        "poptorch_py_error",
        "Keys mismatch for **k: unexpected ['b'], missing ['a']. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.3 quantised": (
        lambda: infer(lambda x: x, torch.quantize_per_tensor(X, 0.1, 0, torch.qint8)),
        "poptorch_py_error",
        "The input 'x' is quantised; the IPU takes dense tensors.\n  try:      x.dequantize()",
    ),
    "6.3 device": (
        lambda: infer(lambda x: x * 2, torch.ones(2, device="ipu")),
        "poptorch_py_error",
        "Inputs must be on the CPU, got 'x' on 'ipu:0'. Pass tensor.cpu().",
    ),
    "6.3 device in a later call": (
        lambda: compiled()(X.to("ipu")),
        "poptorch_py_error",
        "Inputs must be on the CPU, got 'x' on 'ipu:0'. Pass tensor.cpu().",
    ),
    "6.4 index path": (
        lambda: (lambda r: (r((X, X)), r((X, Y))))(P.inferenceModel(lambda pair: pair[0].sum() + pair[1].sum())),
        "poptorch_py_error",
        "Shape mismatch for pair[1]: expected [6, 4], got [6, 2]. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 rest path": (
        lambda: (lambda r: (r(X, X), r(X, Y)))(P.inferenceModel(lambda x, *rest: x.sum() + rest[0].sum())),
        "poptorch_py_error",
        "Shape mismatch for *rest[0]: expected [6, 4], got [6, 2]. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 constant in a tuple": (
        lambda: (lambda r: (r((X, 1)), r((X, 2))))(P.inferenceModel(lambda p: p[0] * p[1])),
        "poptorch_py_error",
        "Value mismatch for p[1]: expected 1, got 2; values that are not tensors are constants of the compiled program. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "7 int": (
        captured(lambda self, x: x * int(x.sum())),
        "poptorch_cpp_error",
        "value needed [IPU-E102]: a Python number (.item(), int(), float(), bool(), `if tensor:`) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line",
    ),
    "7 branch": (
        captured(lambda self, x: x if x.sum() > 0 else -x),
        "poptorch_cpp_error",
        "value needed [IPU-E102]: a Python number (.item(), int(), float(), bool(), `if tensor:`) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line",
    ),
    "7 tolist": (
        captured(lambda self, x: x.tolist()),
        "poptorch_cpp_error",
        'value needed [IPU-E102]: moving a tensor to the CPU (.cpu(), .to("cpu"), .numpy()) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line',
    ),
    "7 array": (
        captured(lambda self, x: np.asarray(x)),
        "poptorch_cpp_error",
        'value needed [IPU-E102]: moving a tensor to the CPU (.cpu(), .to("cpu"), .numpy()) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line',
    ),
    "7 numpy": (
        captured(lambda self, x: x.numpy()),
        "poptorch_cpp_error",
        'value needed [IPU-E102]: moving a tensor to the CPU (.cpu(), .to("cpu"), .numpy()) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line',
    ),
    "7 cpu": (
        captured(lambda self, x: x.cpu()),
        "poptorch_cpp_error",
        'value needed [IPU-E102]: moving a tensor to the CPU (.cpu(), .to("cpu"), .numpy()) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line',
    ),
    "7 to cpu": (
        captured(lambda self, x: x.to("cpu")),
        "poptorch_cpp_error",
        'value needed [IPU-E102]: moving a tensor to the CPU (.cpu(), .to("cpu"), .numpy()) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line',
    ),
    "7 nonzero": (
        captured(lambda self, x: x.nonzero()),
        "poptorch_cpp_error",
        "unsupported operations [IPU-E101]: forward() uses 1 operator without an IPU implementation, in 1 place (capture stopped where the shape of a result is unknown: the list may be incomplete).\n  aten::nonzero  x1: the shape of its result depends on values; use torch.where or a mask of fixed shape\n            HERE\n  try:      write them with supported operators, or do that part on the CPU before or after the call\n  read:     docs/ops.md lists what is supported",
    ),
    "7 mask": (
        captured(lambda self, x: x[x > 0]),
        "poptorch_cpp_error",
        "unsupported operations [IPU-E101]: forward() uses 1 operator without an IPU implementation, in 1 place (capture stopped where the shape of a result is unknown: the list may be incomplete).\n  aten::index.Tensor  x1: the shape of its result depends on values; use torch.where or a mask of fixed shape\n            HERE\n  try:      write them with supported operators, or do that part on the CPU before or after the call\n  read:     docs/ops.md lists what is supported",
    ),
    "7 loss without reduction": (
        lambda: train(Sub(lambda s, x, y: F.mse_loss(s.fc(x), y, reduction="none"))),
        "poptorch_cpp_error",
        'not differentiable [IPU-E107]: the final loss \'mse_loss\' at HERE has shape [6,2], and a gradient needs a single number. Wrap it in poptorch.identity_loss(loss, reduction="sum") or "mean".',
    ),
    "7 unsupported twice": (
        captured(lambda self, x: torch.special.bessel_j0(x) + torch.special.bessel_j1(x)),
        "poptorch_cpp_error",
        "unsupported operations [IPU-E101]: forward() uses 2 operators without an IPU implementation, in 2 places.\n  aten::special_bessel_j0  x1\n            HERE\n  aten::special_bessel_j1  x1\n            HERE\n  try:      write them with supported operators, or do that part on the CPU before or after the call\n  read:     docs/ops.md lists what is supported",
    ),
    "8.2 ended by an inner block": (
        captured(lambda self, x: cases.after(self, x, None)),
        "poptorch_cpp_error",
        "No active Block, all the ops must belong to a Block [IPU-E104]: aten::mul.Tensor comes after a Block has ended.\n  from:     HERE\n  try:      put the operation into a poptorch.Block, or start the block with poptorch.Block.start or poptorch.BeginBlock, which last until the next one",
    ),
    "9.3 number": (
        lambda: P.PipelinedExecution(3),
        "AssertionError",
        "A stage is a poptorch.Stage, a block id (str) or a list of block ids, not 3",
    ),
    "9.4 accumulation of four stages": (
        lambda: cases.train(
            cases.Net("front", "back"), options=O().setExecutionStrategy(P.PipelinedExecution("front", "back"))
        ),
        "poptorch_cpp_error",
        "gradient accumulation too small [IPU-E401]: Training.gradientAccumulation is 1, and this pipeline needs at least 3: the forward pass has 2 stages and the backward pass adds 1 stage. Set options.Training.gradientAccumulation(3) or more, or use poptorch.ShardedExecution.",
    ),
    "10.3 type": (
        lambda: grouped("All", 0, P.VariableRetrievalMode.OnePerGroup),
        "AssertionError",
        "comm_group_type must be a poptorch.CommGroupType",
    ),
    "10.3 shards": (
        lambda: grouped(P.CommGroupType.Consecutive, "1", P.VariableRetrievalMode.OnePerGroup),
        "poptorch_py_error",
        "replicaGrouping of 'weight': 2 replicas cannot be cut into groups of '1'. Use a divisor of 2.",
    ),
    "10.3 mode": (
        lambda: grouped(P.CommGroupType.Consecutive, 1, 0),
        "AssertionError",
        "variable_retrieval_mode must be a poptorch.VariableRetrievalMode",
    ),
    "10.3 shape": (
        lambda: grouped(P.CommGroupType.Consecutive, 1, P.VariableRetrievalMode.OnePerGroup, model=nn.Linear(4, 3)),
        "poptorch_py_error",
        "replicaGrouping of 'weight': the first dimension must be the number of groups, 2; the parameter has shape [3, 4].",
    ),
    "10.3 divides": (
        lambda: grouped(P.CommGroupType.Consecutive, 3, P.VariableRetrievalMode.OnePerGroup),
        "poptorch_py_error",
        "replicaGrouping of 'weight': 2 replicas cannot be cut into groups of 3. Use a divisor of 2.",
    ),
    "10.3 scalar": (
        scalar_grouped,
        "poptorch_py_error",
        "replicaGrouping of 'scale': a scalar parameter has no dimension for the groups. Give it a leading dimension.",
    ),
    "10.3 compiled": (
        lambda: (
            lambda r: (r(X), r.weight.replicaGrouping(P.CommGroupType.All, 0, P.VariableRetrievalMode.OnePerGroup))
        )(P.inferenceModel(nn.Linear(4, 2))),
        "poptorch_py_error",
        "replicaGrouping of 'weight': call it before the first compilation.",
    ),
    "13.2 checkpoint in a list": (
        lambda: P.recomputationCheckpoint([X, 3]),
        "ValueError",
        "poptorch.recomputationCheckpoint needs tensors, got int",
    ),
    "13.2 serialized mode": (
        lambda: P.serializedMatMul(X, X.t(), "reducing_dim", 2),
        "AssertionError",
        "mode must be a poptorch.MatMulSerializationMode, got 'reducing_dim'",
    ),
    "13.2 memory range": (
        lambda: infer(Sub(lambda s, x, y: P.set_available_memory(s.fc(x), 1.5))),
        "poptorch_py_error",
        "poptorch.set_available_memory: the proportion must be a number in 0..1, got 1.5\n  from:     HERE",
    ),
    "13.7 empty proportions": (
        lambda: P.MultiConv().availableMemoryProportions([]),
        "AssertionError",
        "MultiConv.availableMemoryProportions needs a float in 0..1 or a non-empty list of them, got []",
    ),
    "13.7 length": (
        lambda: convolutions(lambda m: m.availableMemoryProportions([0.1, 0.2, 0.3])),
        "poptorch_py_error",
        "MultiConv.availableMemoryProportions has 3 values for 2 convolutions. Give one value, or 2.\n  from:     HERE",
    ),
    "14.1 complex128": (
        captured(lambda self, x: x.to(torch.complex128)),
        "poptorch_cpp_error",
        "unsupported element type [IPU-E201]: ComplexDouble does not exist on the IPU",
    ),
    "16.1 batch size": (
        lambda: P.DataLoader(O(), [1], batch_size=0),
        "AssertionError",
        "batch_size must be a positive int, got 0",
    ),
    "16.1 batch size type": (
        lambda: P.DataLoader(O(), [1], batch_size=1.5),
        "AssertionError",
        "batch_size must be a positive int, got 1.5",
    ),
    "16.1 sampler and shuffle": (
        lambda: P.DataLoader(O(), [1], shuffle=True, batch_sampler=[[0]]),
        "poptorch_py_error",
        "batch_sampler cannot be combined with batch_size or shuffle: it decides both.",
    ),
    "16.1 persistent without workers": (
        lambda: P.DataLoader(O(), [1], persistent_workers=True),
        "ValueError",
        "persistent_workers option needs num_workers > 0",
    ),
    "16.1 options without batch size": (
        lambda: P.DataLoader(O(), [1], batch_size=None).options,
        "AttributeError",
        "options are not available with batch_size=None",
    ),
    "17.1 flag": (
        lambda: environment("POPTORCH_IPU_MODEL", "yes", P.ipuHardwareIsAvailable),
        "ValueError",
        "the environment variable POPTORCH_IPU_MODEL must be an integer, got 'yes'",
    ),
    "17.1 system": (
        lambda: environment("POPTORCH_EMULATED_SYSTEM", "pod3", P.ipuHardwareVersion),
        "poptorch_cpp_error",
        "unknown system 'pod3' [IPU-E503]: known are bow, bow-pod16, bow-pod64, c600, gc2, gc200, mk1-16, pod16, pod4, pod64, toy. POPTORCH_EMULATED_SYSTEM says which one is emulated.",
    ),
    "17.2 model version": (
        lambda: environment("POPTORCH_IPU_MODEL_VERSION", "ipu3", lambda: infer(Net(), options=O().useIpuModel(True))),
        "poptorch_cpp_error",
        "invalid environment variable [IPU-E503]: POPTORCH_IPU_MODEL_VERSION is 'ipu3', expected ipu1, ipu2 or ipu21",
    ),
    "17.2 offline cycles": (
        lambda: P.inferenceModel(Net(), O().useOfflineIpuTarget().logCycleCount(True)).compile(X),
        "poptorch_cpp_error",
        "cycles cannot be counted [IPU-E414]: logCycleCount needs hardware, and the target is offline. Leave one of them out",
    ),
    "17.2 offline model of the environment": (
        lambda: environment(
            "POPTORCH_IPU_MODEL",
            "1",
            lambda: P.inferenceModel(Net(), O().connectionType(P.ConnectionType.Never)).compile(X),
        ),
        "poptorch_cpp_error",
        "options exclude each other [IPU-E414]: poptorch.ConnectionType.Never (offline compilation) and the IPU model. Use another connection type, or useIpuModel(False)",
    ),
    "17.2 too many for the system": (
        lambda: environment("POPTORCH_EMULATED_SYSTEM", "pod4", lambda: cases.ipus(0, 1, 2, 3, 4, 5, 6, 7)),
        "poptorch_cpp_error",
        "Failed to acquire 8 IPU(s) [IPU-E404]: the emulated system 'pod4' has 4, of which 4 are free; IPUs are given in aligned groups of a power of two. Detach a model that is not in use, or choose a larger system with POPTORCH_EMULATED_SYSTEM (bow, bow-pod16, bow-pod64, c600, gc2, gc200, mk1-16, pod16, pod4, pod64, toy).",
    ),
    "17.3 cache is a file": (
        lambda: in_a_folder(lambda f: infer(Net(), options=O().enableExecutableCaching(blocked(f)))),
        "AssertionError",
        "The executable cache 'TMP/file' cannot be made: [Errno 17] File exists: 'TMP/file'",
    ),
    "17.4 cache of a job is a file": (
        lambda: in_a_folder(
            lambda f: infer(
                Net(),
                options=(lambda o: (o.Distributed.configureProcessId(0, 2), o)[1])(
                    O().enableExecutableCaching(os.path.join(blocked(f), "cache"))
                ),
            )
        ),
        "AssertionError",
        "The executable cache 'TMP/file/cache' cannot be made: [Errno 20] Not a directory: 'TMP/file/cache'",
    ),
    "17.5 parent is a file": (
        lambda: in_a_folder(lambda f: compiled().save(os.path.join(blocked(f), "a.poptorch"))),
        "AssertionError",
        "'TMP/file' exists and is not a folder: cannot write TMP/file/a.poptorch",
    ),
    "17.5 no such file": (
        lambda: in_a_folder(lambda f: P.load(os.path.join(f, "none"))),
        "poptorch_cpp_error",
        "cannot read file [IPU-E504]: TMP/none: No such file or directory.",
    ),
    "17.5 loadExecutable of no file": (
        lambda: in_a_folder(lambda f: cases.fresh().loadExecutable(os.path.join(f, "none"))),
        "poptorch_cpp_error",
        "cannot read file [IPU-E504]: TMP/none: No such file or directory.",
    ),
    "17.5 folder": (
        lambda: in_a_folder(lambda f: P.load(f)),
        "poptorch_cpp_error",
        "cannot read file [IPU-E504]: TMP: not a regular file.",
    ),
    "17.5 something else": (
        lambda: in_a_folder(lambda f: P.load(with_bytes(f, b"something else"))),
        "poptorch_cpp_error",
        "corrupt file [IPU-E501]: TMP/damaged: truncated: 14 bytes are too few for an executable.",
    ),
    "17.5 empty file": (
        lambda: in_a_folder(lambda f: P.load(blocked(f))),
        "poptorch_cpp_error",
        "corrupt file [IPU-E501]: TMP/file: truncated: 0 bytes are too few for an executable.",
    ),
    "17.5 without the model": (
        lambda: in_a_folder(lambda f: P.load(saved(f, export_model=False))),
        "AssertionError",
        "TMP/a.poptorch does not contain the model: it was saved with export_model=False. Wrap the model with poptorch.trainingModel or poptorch.inferenceModel and call loadExecutable() on the wrapper.",
    ),
    "17.5 another model": (
        lambda: in_a_folder(lambda f: P.inferenceModel(Sub(lambda s, x, y: s.fc(x))).loadExecutable(saved(f))),
        "poptorch_cpp_error",
        "executable of another model [IPU-E505]: TMP/a.poptorch was compiled from another graph than the model gives for its example inputs.\n  try:      the model, train()/eval() mode and options it was compiled with, or compile again",
    ),
    "17.5 nothing to export": (
        lambda: in_a_folder(lambda f: saved(f, Sub(lambda s, x, y: 3), None)),
        "poptorch_py_error",
        "there is nothing to export: all outputs of the model are constants, it uses no IPU.",
    ),
    "17.5 metadata of something else": (
        lambda: in_a_folder(lambda f: P.importPoptorchMetadataFromFile(blocked(f))),
        "poptorch_cpp_error",
        "corrupt file [IPU-E501]: TMP/file: truncated: 0 bytes are too few for an executable.",
    ),
    "19.1 failed step": (
        lambda: after_a_fault("error@run=1"),
        "poptorch_cpp_error",
        "execution failed [IPU-E407]: a fault was asked for\n  at: IPU 0, instruction 0 (stream_load), op %x = host_load, from HERE [a]",
    ),
}
