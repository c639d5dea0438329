"""The whole message of every documented error (error_cases.py has the situations), its class, type and text form."""

import gc
import re

import pytest
from error_cases import CASES
from error_option_rows import OPTION_ROWS
from error_rows import ROWS

import poptorch

pytestmark = pytest.mark.xdist_group("loading")

# Situation → (type of a poptorch.Error or name of a Python exception, message). HERE is the user's line.
MESSAGES = {
    "3.1 frozen": ("AttributeError", "Can't modify frozen Options"),
    "3.1 frozen part": ("AttributeError", "Can't modify frozen Options"),
    "3.1 frozen back end": ("AttributeError", "Can't modify frozen Options"),
    "3.1 unknown name": (
        "AssertionError",
        "Unknown option 'device_iteration'. Valid options are: anchored_tensors, auto_round_num_ipus, available_memory_proportion, broadcast_buffers, connection_type, device_iterations, input_cgt, input_group_size, log_dir, max_repeat_logs, output_mode, output_return_period, replication_factor, sync_pattern",
    ),
    "3.1 wrong type": ("AssertionError", "Unexpected type for option 'device_iterations': expected int, got str ('4')"),
    "3.1 private attribute": ("AttributeError", "Options has no attribute '_x'"),
    "3.1 unknown read": (
        "AttributeError",
        "Options has no option 'nothing'. Options are: anchored_tensors, auto_round_num_ipus, available_memory_proportion, broadcast_buffers, connection_type, device_iterations, input_cgt, input_group_size, log_dir, max_repeat_logs, output_mode, output_return_period, replication_factor, sync_pattern",
    ),
    "3.1 toDict": ("AssertionError", "the output mode must be decided before toDict()"),
    "3.3 deviceIterations": ("AssertionError", "device_iterations must be an int, got float"),
    "3.3 replicationFactor": ("AssertionError", "replication_factor must be an int, got str"),
    "3.3 grouping all": (
        "ValueError",
        "inputReplicaGrouping does not take poptorch.CommGroupType.All: it would feed all replicas the same input. Use Consecutive with the replication factor (2) as group size.",
    ),
    "3.3 grouping large": (
        "ValueError",
        "inputReplicaGrouping: a group of 2 replicas does not fit replicationFactor 1. Set replicationFactor first, and a size between 1 and it.",
    ),
    "3.3 grouping divides": (
        "ValueError",
        "inputReplicaGrouping: replicationFactor 3 is not a multiple of the group size 2.",
    ),
    "3.3 broadcastBuffers": ("AssertionError", "broadcast_buffers must be True or False, got int"),
    "3.3 strategy": (
        "AssertionError",
        "strategy must be a PipelinedExecution, ShardedExecution, SerialPhasedExecution or ParallelPhasedExecution, got str",
    ),
    "3.3 memory key": ("AssertionError", "keys must be 'IPU<number>', got '0'"),
    "3.3 memory index": ("ValueError", "invalid literal for int() with base 10: 'x'"),
    "3.3 round": ("AssertionError", "auto_round_num_ipus must be True or False"),
    "3.3 output mode": ("AssertionError", "output_mode must be a poptorch.OutputMode"),
    "3.3 output period": ("AssertionError", "poptorch.OutputMode.EveryN needs output_return_period, a positive int"),
    "3.3 seed": ("AssertionError", "random_seed must be an int, got str"),
    "3.3 model name": ("AssertionError", "Unexpected type for option 'model_name': expected str, got int (1)"),
    "3.3 logDir": ("AssertionError", "log_dir must be a str, got int"),
    "3.3 maxRepeatLogs": ("AssertionError", "max_lines must be an int or None, got '1'"),
    "3.3 useIpuModel": ("AssertionError", "use_model must be a bool, got int"),
    "3.3 connectionType": ("AssertionError", "connection_type must be a poptorch.ConnectionType"),
    "3.3 syncPattern": ("AssertionError", "sync_pattern must be a poptorch.SyncPattern"),
    "3.3 useIpuId": ("AssertionError", "ipu_id must be an int, got str"),
    "3.3 offline version": ("AssertionError", "ipu_version must be 1, 2 or 21, got 3"),
    "3.3 named buffers": ("AssertionError", "buffers must be a list of buffer names"),
    "3.3 excludes": ("AssertionError", "excludes must be a list of str"),
    "3.4 exceptions": ("AssertionError", "enabled must be a bool, got int"),
    "3.4 partials": ("ValueError", "setPartialsType needs torch.float32 or torch.float16, got torch.int32."),
    "3.4 statistics": ("ValueError", "runningStatisticsAlwaysFloat needs True or False."),
    "3.5 accumulation": ("AssertionError", "gradient_accumulation must be an int, got str"),
    "3.5 reduction": (
        "ValueError",
        "accumulationAndReplicationReductionType must be poptorch.ReductionType.Sum or Mean, not <ReductionType.NoReduction: 2>.",
    ),
    "3.5 strategy": ("AssertionError", "the strategy must be a poptorch.MeanReductionStrategy, got int (1)"),
    "3.7 minElements": ("AssertionError", "minElementsForOffChip must be of type int, got str ('1')"),
    "3.7 on chip": ("AssertionError", "onChip must be of type bool, got int (1)"),
    "3.7 io tiles": ("AssertionError", "numIOTiles must be an even number from 32 to 192, got 33"),
    "3.7 location": ("AssertionError", "expected poptorch.TensorLocationSettings, got str"),
    "3.8 trace": ("ValueError", "traceModel(True) is not supported: the tracing front end was removed."),
    "3.9 unknown key": (
        "poptorch_cpp_error",
        'unknown back-end option [IPU-E414]: _Popart.set("enableOutlinin", ...) with a value of type bool. No option of any type has that name',
    ),
    "3.9 other kind": (
        "poptorch_cpp_error",
        'unknown back-end option [IPU-E414]: _Popart.set("enableStochasticRounding", ...) with a value of type int (or an enumeration). The option takes a value of type bool',
    ),
    "3.9 enumeration": (
        "poptorch_cpp_error",
        'unknown value of a back-end option [IPU-E414]: _Popart.set("autoRecomputation", 5); values are 0 none, 1 standard, 2 norm only, 3 pipeline, 4 all',
    ),
    "3.9 value type": (
        "poptorch_cpp_error",
        'unknown value type [IPU-E414]: _Popart.set("enableOutlining", ...) got a value of type NoneType; bool, float, int, str, list, tuple, set and dict are possible',
    ),
    "3.9 container": (
        "poptorch_cpp_error",
        'unknown value type [IPU-E414]: the container given to _Popart.set("engineOptions", ...) has a member of type int; members are str',
    ),
    "3.9 patterns": ("AssertionError", "patterns must be a dict of str to bool"),
    "3.9 level": (
        "poptorch_cpp_error",
        "unknown pattern level [IPU-E414]: _Popart.setPatterns(..., level=4); levels are 0 none, 1 minimal, 2 default, 3 all",
    ),
    "3.10 accessor": (
        "AttributeError",
        "Options has no option 'deviceIteration'. Options are: anchored_tensors, auto_round_num_ipus, available_memory_proportion, broadcast_buffers, connection_type, device_iterations, input_cgt, input_group_size, log_dir, max_repeat_logs, output_mode, output_return_period, replication_factor, sync_pattern",
    ),
    "4.1 batch size": (
        "AssertionError",
        "The first dimension of an input of shape [6, 4] must be divisible by 4 = Options.deviceIterations (4) x Options.replicationFactor (1) micro-batches per call.",
    ),
    "4.1 scalar": (
        "AssertionError",
        "a 0-dimensional input counts as one row, but a call needs 2 = Options.deviceIterations (2) x Options.replicationFactor (1) micro-batches per call.",
    ),
    "4.1 accumulation in inference": (
        "poptorch_py_error",
        "Gradient accumulation (2) must be 1 for inference: set Options.Training.gradientAccumulation(1). To keep a pipeline busy in inference use Options.deviceIterations instead.",
    ),
    "4.1 accumulation in sharded inference": (
        "poptorch_py_error",
        "Gradient accumulation (2) must be 1 for inference: set Options.Training.gradientAccumulation(1).",
    ),
    "4.3 period": (
        "popart_exception",
        "output period does not fit [IPU-E405]: OutputMode.EveryN with period 2 needs a period that divides deviceIterations, which is 3. Choose such a period, or OutputMode.All.",
    ),
    "5.1 twice": ("RuntimeError", "The model is already wrapped in a trainingModel: call destroy() on it first."),
    "5.1 options": ("poptorch_py_error", "Invalid type of options: expected poptorch.Options, got dict."),
    "5.2 buffer class": ("poptorch_py_error", "The buffer 'count' is a T: all buffers must be plain torch.Tensor."),
    "5.4 never": (
        "AssertionError",
        "the model cannot be run: its options say poptorch.ConnectionType.Never (offline compilation)",
    ),
    "5.4 never attach": (
        "AssertionError",
        "attachToDevice: the options say poptorch.ConnectionType.Never (offline compilation)",
    ),
    "5.4 not compiled copyWeightsToHost": (
        "poptorch_py_error",
        "copyWeightsToHost: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled copyWeightsToDevice": (
        "poptorch_py_error",
        "copyWeightsToDevice: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled attach": (
        "poptorch_py_error",
        "attachToDevice: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled detach": (
        "poptorch_py_error",
        "detachFromDevice: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled buffers": (
        "poptorch_py_error",
        "copyNamedBuffersToDevice: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled time": (
        "poptorch_py_error",
        "compilationTime: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled cycles": (
        "poptorch_py_error",
        "cycleCount: the model has not been compiled or has been destroyed. Call it or compile() first.",
    ),
    "5.4 not compiled names": (
        "AssertionError",
        "getTensorNames: the model has not been compiled. Call it or compile() first.",
    ),
    "5.4 attached": ("poptorch_py_error", "attachToDevice: the model is already attached to a device."),
    "5.4 not attached": ("poptorch_py_error", "detachFromDevice: the model is not attached to a device."),
    "5.4 buffers without the option": (
        "poptorch_py_error",
        "copyNamedBuffersToDevice needs Options.updatableNamedBuffers([...]) before compiling.",
    ),
    "5.4 cycles without the option": (
        "poptorch_py_error",
        "cycleCount needs Options.logCycleCount(True) before compiling.",
    ),
    "5.4 time without the bar": (
        "poptorch_py_error",
        "compilationTime is not available: the progress bar was disabled with Options.showCompilationProgressBar(False).",
    ),
    "5.4 anchor": (
        "AssertionError",
        "getAnchoredTensor: 'a' was not anchored. Anchored are []: use Options.anchorTensor before compiling.",
    ),
    "5.4 attribute": ("AttributeError", "'Net' object has no attribute 'nothing'"),
    "5.7 hook": ("RuntimeError", "a compile hook must be callable, got int"),
    "5.8 backward": (
        "poptorch_py_error",
        "backward() cannot be called on a result of a poptorch model: the backward pass and the weight update run inside the call of the training model.",
    ),
    "5.8 rebound buffer": (
        "poptorch_py_error",
        "The buffer 'count' was re-bound in forward (self.count = ...), which the device cannot follow. Update it in place: self.count.copy_(...).\n  from:     HERE",
    ),
    "5.8 rebound parameter": (
        "poptorch_py_error",
        "The parameter 'fc.weight' was re-bound in forward (self.weight = ...), which the device cannot follow. Update it in place: self.weight.copy_(...).\n  from:     HERE",
    ),
    "5.8 removed": (
        "poptorch_py_error",
        "The buffer 'count' was removed in forward. Keep it, or delete it before wrapping.",
    ),
    "6.1 many": ("AssertionError", "Too many arguments: 3 given, forward takes 2 (x, y)"),
    "6.1 keyword": ("AssertionError", "Unexpected keyword argument(s) ['z']: forward takes (x, y)"),
    "6.1 twice": ("AssertionError", "Parameter 'x' is given twice"),
    "6.1 missing": ("poptorch_py_error", "Mandatory parameter missing: forward needs 'x'."),
    "6.1 not callable": ("TypeError", "expected a torch.nn.Module or a callable, got int"),
    "6.3 complex": ("poptorch_py_error", "complex inputs are not supported: pass real and imaginary parts."),
    "6.3 sparse": (
        "poptorch_py_error",
        "The input 'x' is a sparse tensor (sparse); the IPU takes dense tensors.\n  try:      x.to_dense()",
    ),
    "6.3 empty": ("poptorch_py_error", "inputs with a dimension of size 0 are not supported, got shape [0, 2]."),
    "6.4 number": (
        "poptorch_py_error",
        "Type mismatch for y: expected NoneType, got Tensor. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 type": (
        "poptorch_py_error",
        "Type mismatch for x: expected torch.Tensor, got list. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 dtype": (
        "poptorch_py_error",
        "Data type mismatch for x: expected torch.float32, got torch.float64. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 shape": (
        "poptorch_py_error",
        "Shape mismatch for x: expected [6, 4], got [3, 4]. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 value": (
        "poptorch_py_error",
        "Value mismatch for n: expected 2, got 3; values that are not tensors are constants of the compiled program. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 length": (
        "poptorch_py_error",
        "Length mismatch for p: expected 2, got 3. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.4 keys": (
        "poptorch_py_error",
        "Keys mismatch for p: unexpected ['b'], missing ['a']. The first call fixed what the compiled program takes: build a new wrapper, or call destroy() to recompile.",
    ),
    "6.5 parser": ("poptorch_py_error", "registerCustomArgParser needs an ICustomArgParser, got object"),
    "7 no loss": (
        "poptorch_cpp_error",
        'couldn\'t find a loss [IPU-E105]: training needs exactly one final loss and none was captured in forward. Call a loss function of torch in forward, or wrap the value to minimise in poptorch.identity_loss(value, reduction="mean").',
    ),
    "7 two losses": (
        "poptorch_cpp_error",
        "several losses [IPU-E106]: these do not feed the last one, 'l1_loss' at HERE:\n  'mse_loss' at HERE\n  Combine them, for example add them, and wrap the result in poptorch.identity_loss(combined, reduction=\"none\").",
    ),
    "7 value": (
        "poptorch_cpp_error",
        "value needed [IPU-E102]: a Python number (.item(), int(), float(), bool(), `if tensor:`) needs the data of an IPU tensor, but there is no data during capture: forward() runs once, on symbolic tensors.\n  try:      torch.where, masks, or poptorch.cond for decisions; return the tensor to see its value; poptorch.isRunningOnIpu() to skip the line",
    ),
    "7 unsupported": (
        "poptorch_cpp_error",
        "unsupported operations [IPU-E101]: forward() uses 1 operator without an IPU implementation, in 1 place.\n  aten::special_bessel_j0  x1\n            HERE\n  try:      write them with supported operators, or do that part on the CPU before or after the call\n  read:     docs/ops.md lists what is supported",
    ),
    "8.2 after a block": (
        "poptorch_cpp_error",
        "No active Block, all the ops must belong to a Block [IPU-E104]: aten::mul.Tensor comes after a Block has ended.\n  from:     HERE\n  try:      put the operation into a poptorch.Block, or start the block with poptorch.Block.start or poptorch.BeginBlock, which last until the next one",
    ),
    "8.2 twice": (
        "poptorch_py_error",
        "module has already been assigned to a block. Remove the first annotation with poptorch.removeBlocks(module).",
    ),
    "8.2 not callable": ("poptorch_py_error", "poptorch.BeginBlock needs a torch.nn.Module or a callable, got int"),
    "8.1 remove": ("AssertionError", "removeBlocks needs a torch.nn.Module, got int"),
    "8.2 unknown block": (
        "AssertionError",
        "Unknown Block 'back': the execution strategy expects one of ['front', 'rear']",
    ),
    "8.2 no ipu": (
        "AssertionError",
        "poptorch.AutoStage.SameAsIpu needs an ipu_id: block 'here' has none. Pass ipu_id to the block, or use poptorch.AutoStage.AutoIncrement.",
    ),
    "9.1 ids": ("AssertionError", "Block ids must be strings, got (1,)"),
    "9.1 ipu": ("AssertionError", "ipu must be an int, got str"),
    "9.3 twice": ("AssertionError", "Block 'a' is associated with more than one stage"),
    "9.3 list": (
        "AssertionError",
        "A stage is a poptorch.Stage, a block id (str) or a list of block ids, not ['a', 1]",
    ),
    "9.3 stage": ("AssertionError", "Unknown block 'b': expected one of ['a']"),
    "9.4 accumulation": (
        "poptorch_cpp_error",
        "gradient accumulation too small [IPU-E401]: Training.gradientAccumulation is 2, and this pipeline needs at least 3: the forward pass has 2 stages and the backward pass adds 1 stage. Set options.Training.gradientAccumulation(3) or more, or use poptorch.ShardedExecution.",
    ),
    "9.4 iterations": (
        "poptorch_cpp_error",
        "device iterations too small [IPU-E402]: deviceIterations is 1, and a pipeline of 2 stages needs at least 2 to fill. Set options.deviceIterations(2) or more, or use poptorch.ShardedExecution.",
    ),
    "9.4 back": (
        "poptorch_cpp_error",
        "pipeline stage going back [IPU-E409]: 'mul' at HERE in block 'b1' (stage 0, IPU 1) reads a result of 'mul' at HERE in block 'b0' (stage 1, IPU 0). In a pipeline data never flow to an earlier stage: give the second op a block of its own in a later stage, which may be on the same IPU, or use poptorch.ShardedExecution.",
    ),
    "9.7 power": (
        "poptorch_cpp_error",
        "number of IPUs is not a power of two [IPU-E403]: 3 IPUs are specified (3 for the model, 1 replica), 4 must be reserved. Set Options.autoRoundNumIPUs(True) to reserve 4 IPUs and leave 1 idle, or place the model on a power of two of IPUs.",
    ),
    "9.7 many": (
        "poptorch_cpp_error",
        "too many IPUs for one process [IPU-E403]: 65 IPUs are specified (65 for the model, 1 replica), one process can use 64. Distributed execution is required: run several processes with Options.Distributed.",
    ),
    "13.1 reduction": ("AssertionError", "Unsupported reduction type 'max': expected one of ('sum', 'mean', 'none')"),
    "13.2 nop": ("poptorch_py_error", "poptorch.nop needs a tensor, got int"),
    "13.2 checkpoint": ("ValueError", "poptorch.recomputationCheckpoint needs tensors, got int"),
    "13.9 scope": ("AssertionError", "NameScope needs a str, got int"),
    "13.10 id": ("poptorch_cpp_error", "Expected an IPU tensor [IPU-E103]: getIpuTensorId got a tensor on cpu"),
    "14.1 complex": (
        "poptorch_cpp_error",
        "unsupported element type [IPU-E201]: ComplexFloat does not exist on the IPU",
    ),
    "16.1 options": ("AssertionError", "options must be a poptorch.Options, got dict"),
    "16.1 async options": (
        "AssertionError",
        "async_options must not contain 'rebatched_size': use mode=DataLoaderMode.AsyncRebatched",
    ),
    "16.1 worker size": ("AssertionError", "rebatched_worker_size (2) must not exceed the combined batch size (1)"),
    "16.1 batch sampler": (
        "poptorch_py_error",
        "batch_sampler cannot be combined with batch_size or shuffle: it decides both.",
    ),
    "16.4 rebatched": ("AssertionError", "rebatched_size must be greater than 1, got 1"),
    "10.3 layer": ("AttributeError", "'Parameter' object has no attribute 'replicaGrouping'"),
    "13.7 nested": (
        "poptorch_cpp_error",
        "nested MultiConv [IPU-E110]: a poptorch.MultiConv is entered inside another.\n  try:      leave the outer one first",
    ),
    "13.7 empty": (
        "poptorch_cpp_error",
        "empty MultiConv [IPU-E110]: no convolution was captured inside a poptorch.MultiConv.\n  try:      call the convolutions inside the with statement",
    ),
    "13.7 proportions": (
        "AssertionError",
        "MultiConv.availableMemoryProportions needs a float in 0..1 or a non-empty list of them, got 'a'",
    ),
    "13.7 partials": (
        "ValueError",
        "MultiConv.partialsTypes needs torch.float, torch.half or a list of them, got torch.int32",
    ),
    "13.7 dithering": ("ValueError", "MultiConv.enableConvDithering needs a bool or a list of bools, got 3"),
    "13.7 plan": ("AssertionError", "MultiConv.planType needs a poptorch.MultiConvPlanType, got 'Serial'"),
    "13.7 tiles": ("AssertionError", "MultiConv.perConvReservedTiles needs an int, got 1.5"),
    "13.7 back off": ("AssertionError", "MultiConv.cycleBackOff needs a float, got 'a'"),
    "13.2 print": ("poptorch_py_error", "poptorch.ipu_print_tensor needs a tensor, got int"),
    "13.2 print format": ("KeyError", "'hex'"),
    "13.2 memory": ("poptorch_py_error", "poptorch.set_available_memory needs a tensor, got int"),
    "13.2 serialized type": ("AssertionError", "serializedMatMul needs two tensors, got int and Tensor"),
    "13.2 serialized factor": (
        "AssertionError",
        "serializedMatMul: InputChannels has size 6, which is not divisible by factor 4 (shapes [6, 4] and [4, 6])",
    ),
    "13.9 attribute": ("AssertionError", "poptorch.Attribute: 'a' must be a dict from str to str, got 1"),
    "15.2 buffers": (
        "poptorch_cpp_error",
        "buffers cannot be broadcast [IPU-E109]: forward writes the buffer 'count' in place, and 2 groups of replicas with inputs of their own would each write another value.\n  try:      Options.broadcastBuffers(False): each replica keeps its own value, and one of them is read back",
    ),
    "3.6 environment": (
        "ValueError",
        "the environment variable OMPI_COMM_WORLD_SIZE must be an integer, got 'two'",
    ),
    "17.1 version": ("AssertionError", "there is no IPU hardware: an IPU model is selected by the environment"),
    "17.2 offline model": (
        "poptorch_cpp_error",
        "options exclude each other [IPU-E414]: poptorch.ConnectionType.Never (offline compilation) and the IPU model. Use another connection type, or useIpuModel(False)",
    ),
    "17.2 offline id": (
        "poptorch_cpp_error",
        "options exclude each other [IPU-E414]: poptorch.ConnectionType.Never (offline compilation) and useIpuId. Nothing is attached offline: leave one of them out",
    ),
    "17.2 cycles": (
        "poptorch_cpp_error",
        "cycles cannot be counted [IPU-E414]: logCycleCount needs hardware, and the IPU model is selected. Leave one of them out",
    ),
    "17.2 busy": (
        "poptorch_cpp_error",
        "Failed to acquire 1 IPU(s) [IPU-E404]: the emulated system 'pod4' has 4, of which 0 are free; IPUs are given in aligned groups of a power of two. Detach a model that is not in use, or choose a larger system with POPTORCH_EMULATED_SYSTEM (bow, bow-pod16, bow-pod64, c600, gc2, gc200, mk1-16, pod16, pod4, pod64, toy).",
    ),
    "17.2 small": (
        "poptorch_cpp_error",
        "Failed to acquire device Id 0 [IPU-E404]: it has 1 IPU(s), and the model needs 2 (replicas x IPUs of one replica).",
    ),
    "17.2 device in use": (
        "poptorch_cpp_error",
        "Failed to acquire device Id 0 [IPU-E404]: it is in use. Detach the model that holds it.",
    ),
    "17.2 no such id": (
        "poptorch_cpp_error",
        "Failed to acquire device Id 9 [IPU-E404]: the emulated system 'pod4' has devices 0 to 6.",
    ),
    "18.2 name": ("ValueError", "Unknown log level 'LOUD'. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN."),
    "18.2 number": ("ValueError", "Invalid log level integer 5: expected one of 0, 1, 2, 3, 4, 6."),
    "18.2 back end": (
        "ValueError",
        "Unknown log level 'LOUD'. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN.",
    ),
    "18.4 anchor": (
        "poptorch_cpp_error",
        'unknown tensor [IPU-E412]: anchorTensor("a", "Gradient___a.weight") names none of the 9 tensors of the model. Nearest are input, a.bias, a.weight\n  try:      getTensorNames() of the compiled model lists them all',
    ),
    "18.4 anchor mode": ("AssertionError", "output_mode must be a poptorch.OutputMode"),
}


def test_every_situation_has_its_message():
    assert set(MESSAGES) == set(CASES)
    assert not set(ROWS) & set(CASES) and not set(OPTION_ROWS) & {*CASES, *ROWS}


ALL = {**{name: (case, *MESSAGES[name]) for name, case in CASES.items()}, **OPTION_ROWS, **ROWS}


def in_general(message):
    """A message without the places of this run: HERE is the user's line, TMP a temporary folder."""
    message = re.sub(r"[^\s']*error_\w+\.py:\d+", "HERE", message)
    return re.sub(r"/\S*/poptorch-errors-\w+", "TMP", message)


@pytest.fixture(scope="module")
def few_objects():
    """A collection looks at what came after the imports only, and at no model of an earlier test, which would keep its IPUs."""
    gc.collect()
    gc.freeze()
    yield
    gc.unfreeze()


@pytest.mark.parametrize("name", list(ALL))
def test_error_is_the_documented_one(name, few_objects, idle_ipus):
    gc.collect()  # models of other tests hold IPUs
    case, kind, message = ALL[name]
    with pytest.raises(Exception) as raised:
        case()
    error = raised.value
    if not isinstance(error, poptorch.Error):
        assert (type(error).__name__, in_general(str(error))) == (kind, message)
        return
    assert not isinstance(error, (poptorch.RecoverableError, poptorch.UnrecoverableError)) and error.type == kind
    assert in_general(error.message) == message
    assert isinstance(error.location, str)
    if kind == "poptorch_py_error":
        assert str(error) == f"'poptorch_py_error': {error.message}" and error.location == ""
        return
    (code,) = re.findall(r"\[IPU-E(\d+)\]", error.message)
    line = re.match(r"In (\S+:\d+): ", str(error)).group(1)
    text = f"'{kind}': {error.message}\n  read:     docs/errors/E{code}.md"
    text += f"\nError raised in:\n{error.location}" if error.location else ""
    assert str(error) == f"In {line}: {text}"
    assert re.search(r"error_\w+\.py:", line)


def test_an_error_of_the_core_carries_what_decides_about_it(few_objects, idle_ipus):
    gc.collect()
    with pytest.raises(poptorch.Error) as raised:
        ALL["9.7 many"][0]()
    error = raised.value
    assert (error.code, error.reason) == (403, "too_many_ipus")
    assert error.parameters == {"count": "65 IPUs are specified (65 for the model, 1 replica)", "most": 64}
    with pytest.raises(poptorch.Error) as raised:
        ALL["13.2 nop"][0]()
    assert (raised.value.code, raised.value.reason, raised.value.parameters) == (None, "", {})


@pytest.mark.parametrize(
    "name, kind, type_, action",
    [
        ("Popart", poptorch.Error, "popart_exception", ""),
        ("PopartInternal", poptorch.Error, "popart_internal_exception", ""),
        ("Poplibs", poptorch.Error, "poplibs_exception", ""),
        ("PoplarUnrecoverable", poptorch.UnrecoverableError, "poplar_unrecoverable_runtime_error", ""),
        ("PoplarUnknown", poptorch.Error, "poplar_unknown_runtime_error", ""),
        ("PoplarRecoverableFullReset", poptorch.RecoverableError, "poplar_recoverable_runtime_error", "FULL_RESET"),
        ("PoplarLinkError", poptorch.Error, "poplar_link_error", ""),
    ],
)
def test_provoked_errors_have_their_class_attributes_and_text(name, kind, type_, action):
    message = "This is a test error" + ("\nOutput of the linker: library -lfoo not found" if "Link" in name else "")
    location = "  [0] throwTestError::bottomLevel\n  [1] throwTestError::topLevel"
    for _ in range(2):  # contexts do not pile up
        with pytest.raises(poptorch.Error) as raised:
            poptorch.poptorch_core._throwTestError(getattr(poptorch.poptorch_core.TestErrorType, name))
        error = raised.value
        assert type(error) is kind and (error.message, error.type, error.location) == (message, type_, location)
        assert getattr(error, "recovery_action", "") == action
        required = f"\nRecovery action required: {action}" if action else ""
        assert re.sub(r"In \S+test_error_catalogue\.py:\d+", "In HERE", str(error)) == (
            f"In HERE: '{type_}': {message}{required}\nError raised in:\n{location}"
        )


def test_a_provoked_error_of_poptorch_has_the_same_contexts():
    for _ in range(2):
        with pytest.raises(poptorch.Error) as raised:
            poptorch.poptorch_core._throwTestError(poptorch.poptorch_core.TestErrorType.Poptorch)
        assert raised.value.location == "  [0] throwTestError::bottomLevel\n  [1] throwTestError::topLevel"
        assert raised.value.message == "This is a test error [IPU-E407]"


def test_the_context_stack_is_numbered_from_the_inside():
    with pytest.raises(poptorch.Error) as raised:
        CASES["9.4 back"]()
    assert raised.value.location == "  [0] running pass 'place'\n  [1] compiling the model"
