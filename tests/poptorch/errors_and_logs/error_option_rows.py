"""Situations with a documented error around options, files of options and logs, each with its message."""

import os
import tempfile

import error_cases as cases
from error_cases import Net, O, frozen, infer

import poptorch

P = poptorch


def environment(name, value, action):
    """`action()` while an environment variable is set."""
    saved = os.environ.get(name)
    os.environ[name] = value
    try:
        return action()
    finally:
        os.environ.pop(name)
        if saved is not None:
            os.environ[name] = saved


def in_a_folder(action):
    """`action(folder)` with a temporary folder (TMP in messages)."""
    with tempfile.TemporaryDirectory(prefix="poptorch-errors-") as folder:
        return action(folder)


def option_file(text):
    def load(folder):
        path = os.path.join(folder, "bench.conf")
        with open(path, "w") as file:
            file.write(text)
        O().loadFromFile(path)

    return lambda: in_a_folder(load)


# Situation → (action, type of a poptorch.Error or name of a Python exception, message).
OPTION_ROWS = {
    "1.1 unknown name": (
        lambda: poptorch.nothing,
        "AttributeError",
        "module 'poptorch' has no attribute 'nothing'",
    ),
    "1.1 not there yet": (
        lambda: poptorch.registerGeometricCustomArgParsers,
        "AttributeError",
        "poptorch.registerGeometricCustomArgParsers is part of the PopTorch API but not available in this version. See docs/compatibility.md for what works.",
    ),
    "1.5 test error": (
        lambda: poptorch.poptorch_core._throwTestError(poptorch.poptorch_core.TestErrorType.Poptorch),
        "poptorch_cpp_error",
        "This is a test error [IPU-E407]",
    ),
    "3.1 frozen attribute": (
        lambda: setattr(frozen(), "device_iterations", 2),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen private attribute": (
        lambda: setattr(frozen(), "_strategy", None),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen strategy": (
        lambda: frozen().setExecutionStrategy(poptorch.ShardedExecution()),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen Precision": (
        lambda: frozen().Precision.enableStochasticRounding(True),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen Distributed": (
        lambda: frozen().Distributed.disable(),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen TensorLocations": (
        lambda: frozen().TensorLocations.numIOTiles(32),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen progress bar": (
        lambda: frozen().showCompilationProgressBar(False),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 frozen by a loader": (
        lambda: (lambda o: (P.DataLoader(o, [1]), o.deviceIterations(2)))(O()),
        "AttributeError",
        "Can't modify frozen Options",
    ),
    "3.1 bool from int": (
        lambda: setattr(O(), "broadcast_buffers", 1),
        "AssertionError",
        "Unexpected type for option 'broadcast_buffers': expected bool, got int (1)",
    ),
    "3.1 call": (
        lambda: O().Training("nothing"),
        "AttributeError",
        "_TrainingOptions has no option 'nothing'. Options are: accumulation_and_replication_reduction_type, gradient_accumulation, meanAccumulationAndReplicationReductionStrategy",
    ),
    "3.1 read-only part": (
        lambda: setattr(O(), "_Popart", 1),
        "AttributeError",
        "Options has no attribute '_Popart'",
    ),
    "3.1 twice in toDict": (
        lambda: (lambda o: (o.Training._values.update(log_dir=1), o.toDict()))(O().outputMode(P.OutputMode.All)),
        "AssertionError",
        "option 'log_dir' is defined twice",
    ),
    "3.3 no iterations": (
        lambda: O().deviceIterations(0),
        "AssertionError",
        "device_iterations must be at least 1, got 0",
    ),
    "3.3 no replicas": (
        lambda: O().replicationFactor(0),
        "AssertionError",
        "replication_factor must be at least 1, got 0",
    ),
    "3.3 grouping size": (
        lambda: O().inputReplicaGrouping("2", P.CommGroupType.Consecutive),
        "AssertionError",
        "input_group_size must be an int, got str ('2')",
    ),
    "3.3 grouping type": (
        lambda: O().inputReplicaGrouping(1, "Consecutive"),
        "AssertionError",
        "input_group_type must be a poptorch.CommGroupType, got str ('Consecutive')",
    ),
    "3.3 memory dict": (
        lambda: O().setAvailableMemoryProportion([0.1]),
        "AssertionError",
        "available_memory_proportion must be a dict such as {'IPU0': 0.3}, got list",
    ),
    "3.3 output period 0": (
        lambda: O().outputMode(P.OutputMode.EveryN, 0),
        "AssertionError",
        "poptorch.OutputMode.EveryN needs output_return_period, a positive int",
    ),
    "3.3 anchor name": (
        lambda: O().anchorTensor(1, "a"),
        "AssertionError",
        "short_name must be a str, got int",
    ),
    "3.3 anchor long name": (
        lambda: O().anchorTensor("a", 1),
        "AssertionError",
        "long_name must be a str, got int",
    ),
    "3.3 anchor period": (
        lambda: O().anchorTensor("a", "b", P.OutputMode.EveryN, 0),
        "AssertionError",
        "poptorch.OutputMode.EveryN needs output_return_period, a positive int",
    ),
    "3.3 more excludes": (
        lambda: O().appendToLocationExcludes(1),
        "AssertionError",
        "excludes must be str",
    ),
    "3.3 profiling folder": (
        lambda: O().enableProfiling(1),
        "AssertionError",
        "profile_dir must be a str, got int",
    ),
    "3.3 buffers": (
        lambda: O().updatableNamedBuffers(["a", 1]),
        "AssertionError",
        "buffers must be a list of buffer names",
    ),
    "3.4 partials type": (
        lambda: O().Precision.setPartialsType("half"),
        "ValueError",
        "setPartialsType needs torch.float32 or torch.float16, got 'half'.",
    ),
    "3.5 no accumulation": (
        lambda: O().Training.gradientAccumulation(0),
        "AssertionError",
        "gradient_accumulation must be at least 1, got 0",
    ),
    "3.6 id": (
        lambda: O().Distributed.configureProcessId("0", 2),
        "AssertionError",
        "Unexpected type for option 'distributed_process_id': expected int, got str ('0')",
    ),
    "3.6 processes": (
        lambda: O().Distributed.configureProcessId(0, 2.0),
        "AssertionError",
        "Unexpected type for option 'num_distributed_processes': expected int, got float (2.0)",
    ),
    "3.6 rank in the environment": (
        lambda: environment("OMPI_COMM_WORLD_RANK", "first", O),
        "ValueError",
        "the environment variable OMPI_COMM_WORLD_RANK must be an integer, got 'first'",
    ),
    "3.7 minElements for sharding": (
        lambda: P.TensorLocationSettings().minElementsForReplicatedTensorSharding(1.5),
        "AssertionError",
        "minElementsForReplicatedTensorSharding must be of type int, got float (1.5)",
    ),
    "3.7 sharding": (
        lambda: P.TensorLocationSettings().useReplicatedTensorSharding(1),
        "AssertionError",
        "useReplicatedTensorSharding must be of type bool, got int (1)",
    ),
    "3.7 load": (
        lambda: P.TensorLocationSettings().useIOTilesToLoad("yes"),
        "AssertionError",
        "useIOTilesToLoad must be of type bool, got str ('yes')",
    ),
    "3.7 store": (
        lambda: P.TensorLocationSettings().useIOTilesToStore(None),
        "AssertionError",
        "useIOTilesToStore must be of type bool, got NoneType (None)",
    ),
    "3.7 few io tiles": (
        lambda: O().TensorLocations.numIOTiles(30),
        "AssertionError",
        "numIOTiles must be an even number from 32 to 192, got 30",
    ),
    "3.7 many io tiles": (
        lambda: O().TensorLocations.numIOTiles(194),
        "AssertionError",
        "numIOTiles must be an even number from 32 to 192, got 194",
    ),
    "3.7 io tiles type": (
        lambda: O().TensorLocations.numIOTiles("64"),
        "AssertionError",
        "numIOTiles must be an even number from 32 to 192, got '64'",
    ),
    "3.7 activation": (
        lambda: O().TensorLocations.setActivationLocation({"onChip": 1}),
        "AssertionError",
        "expected poptorch.TensorLocationSettings, got dict",
    ),
    "3.7 optimizer": (
        lambda: O().TensorLocations.setOptimizerLocation(None),
        "AssertionError",
        "expected poptorch.TensorLocationSettings, got NoneType",
    ),
    "3.7 accumulator": (
        lambda: O().TensorLocations.setAccumulatorLocation(1),
        "AssertionError",
        "expected poptorch.TensorLocationSettings, got int",
    ),
    "3.9 name": (
        lambda: O()._Popart.set(1, True),
        "AssertionError",
        "the name of a setting must be a str, got int",
    ),
    "3.9 level type": (
        lambda: O()._Popart.setPatterns({}, "2"),
        "AssertionError",
        "level must be an int, got str",
    ),
    "3.9 float": (
        lambda: cases.popart("timeLimitScheduler", 1),
        "poptorch_cpp_error",
        'unknown back-end option [IPU-E414]: _Popart.set("timeLimitScheduler", ...) with a value of type int (or an enumeration). The option takes a value of type float',
    ),
    "3.9 str": (
        lambda: cases.popart("partialsTypeMatMuls", True),
        "poptorch_cpp_error",
        'unknown back-end option [IPU-E414]: _Popart.set("partialsTypeMatMuls", ...) with a value of type bool. The option takes a value of type str',
    ),
    "3.9 map": (
        lambda: cases.popart("engineOptions", "a"),
        "poptorch_cpp_error",
        'unknown back-end option [IPU-E414]: _Popart.set("engineOptions", ...) with a value of type str. The option takes a value of type list, set or dict of str',
    ),
    "3.9 class": (
        lambda: cases.popart("cachePath", object()),
        "poptorch_cpp_error",
        'unknown value type [IPU-E414]: _Popart.set("cachePath", ...) got a value of type object; bool, float, int, str, list, tuple, set and dict are possible',
    ),
    "3.10 no json": (
        lambda: O().from_json("{"),
        "JSONDecodeError",
        "Expecting property name enclosed in double quotes: line 1 column 2 (char 1)",
    ),
    "3.10 part": (
        lambda: O().from_json('{"Trainin.gradientAccumulation": 1}'),
        "AttributeError",
        "Options has no option 'Trainin'. Options are: anchored_tensors, auto_round_num_ipus, available_memory_proportion, broadcast_buffers, connection_type, device_iterations, input_cgt, input_group_size, log_dir, max_repeat_logs, output_mode, output_return_period, replication_factor, sync_pattern",
    ),
    "3.10 setter": (
        lambda: O().from_json('{"deviceIterations": "4"}'),
        "AssertionError",
        "device_iterations must be an int, got str",
    ),
    "3.10 enum in a list": (
        lambda: O().from_json('{"outputMode": ["OutputMode.EveryN", 2]}'),
        "AssertionError",
        "output_mode must be a poptorch.OutputMode",
    ),
    "3.10 no such member": (
        lambda: O().from_json('{"outputMode": "OutputMode.Some"}'),
        "AssertionError",
        "output_mode must be a poptorch.OutputMode",
    ),
    "3.10 defaults of the environment": (
        lambda: environment("POPTORCH_DEFAULT_OPTIONS", '{"deviceIteration": 2}', O),
        "AttributeError",
        "Options has no option 'deviceIteration'. Options are: anchored_tensors, auto_round_num_ipus, available_memory_proportion, broadcast_buffers, connection_type, device_iterations, input_cgt, input_group_size, log_dir, max_repeat_logs, output_mode, output_return_period, replication_factor, sync_pattern",
    ),
    "3.11 syntax": (
        option_file("# comment\n\ndeviceIterations(2)\n  deviceIterations(\n"),
        "ConfigFileError",
        "SyntaxError at line 2 of bench.conf: '(' was never closed\n> options.deviceIterations(",
    ),
    "3.11 no call": (
        option_file("deviceIterations"),
        "ConfigFileError",
        "SyntaxError at line 1 of bench.conf: expected a call such as deviceIterations(4)\n> options.deviceIterations",
    ),
    "3.11 code": (
        option_file("deviceIterations(open('x'))"),
        "ConfigFileError",
        "SyntaxError at line 1 of bench.conf: the call 'open('x')' is not allowed\n> options.deviceIterations(open('x'))",
    ),
    "3.11 option": (
        option_file("deviceIteration(2)"),
        "AttributeError",
        "Options has no option 'deviceIteration'. Options are: anchored_tensors, auto_round_num_ipus, available_memory_proportion, broadcast_buffers, connection_type, device_iterations, input_cgt, input_group_size, log_dir, max_repeat_logs, output_mode, output_return_period, replication_factor, sync_pattern",
    ),
    "3.11 value": (
        option_file("deviceIterations('2')"),
        "AssertionError",
        "device_iterations must be an int, got str",
    ),
    "3.11 missing file": (
        lambda: O().loadFromFile("/nowhere/bench.conf"),
        "FileNotFoundError",
        "[Errno 2] No such file or directory: '/nowhere/bench.conf'",
    ),
    "18.2 none": (
        lambda: P.setLogLevel(None),
        "ValueError",
        "Unknown log level None. Valid values are DEBUG, ERR, INFO, OFF, TRACE and WARN.",
    ),
    "18.2 seven": (
        lambda: P.setLogLevel(7),
        "ValueError",
        "Invalid log level integer 7: expected one of 0, 1, 2, 3, 4, 6.",
    ),
    "18.2 native number": (
        lambda: P.poptorch_core.setLogLevel(5),
        "poptorch_cpp_error",
        "invalid log level [IPU-E503]: 5; expected 0, 1, 2, 3, 4 or 6",
    ),
    "3.9 unknown pattern": (
        lambda: (lambda o: (o._Popart.setPatterns({"Nothing": True}), infer(Net(), options=o)))(O()),
        "poptorch_cpp_error",
        'unknown pattern [IPU-E414]: _Popart.setPatterns({"Nothing": ...}); PopART has no pattern of that name',
    ),
    "3.9 mandatory pattern": (
        lambda: (lambda o: (o._Popart.setPatterns({"MatMulOp": False}), infer(Net(), options=o)))(O()),
        "poptorch_cpp_error",
        'mandatory pattern [IPU-E414]: _Popart.setPatterns({"MatMulOp": False}); the back end cannot do without it',
    ),
}
