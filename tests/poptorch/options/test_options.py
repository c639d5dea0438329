"""Options: typed setters, freezing, cloning, JSON defaults, and options that are not there yet."""

import copy
import json
import pickle

import pytest
import torch

import poptorch


@pytest.mark.tiny
def test_setters_chain_and_store():
    options = poptorch.Options().deviceIterations(4).autoRoundNumIPUs().outputMode(poptorch.OutputMode.EveryN, 2)
    assert options.device_iterations == 4 and options("device_iterations") == 4
    assert options.auto_round_num_ipus is True
    assert options.output_mode == 1 and options.output_return_period == 2 and not options.defaultOutputMode()


@pytest.mark.shows("Options.defaultOutputMode")
def test_defaults_are_the_published_ones():
    options = poptorch.Options()
    assert options.replication_factor == 1 and options.device_iterations == 1
    assert options.output_mode == 4 and options.defaultOutputMode() is True
    assert options.Training.gradient_accumulation == 1
    assert options.Training.accumulation_and_replication_reduction_type is poptorch.ReductionType.Mean
    assert options.Distributed.numProcesses == 1 and options.Distributed.processId == 0


@pytest.mark.parametrize(
    "call",
    [
        lambda o: o.deviceIterations("4"),
        lambda o: o.deviceIterations(2.0),
        lambda o: o.autoRoundNumIPUs(1),
        lambda o: o.outputMode(2),
        lambda o: o.outputMode(poptorch.OutputMode.EveryN),
        lambda o: o.outputMode(poptorch.OutputMode.EveryN, 0),
        lambda o: o.randomSeed(1.5),
        lambda o: o.setExecutionStrategy("pipelined"),
        lambda o: o.Training.gradientAccumulation("2"),
        lambda o: setattr(o, "device_iterations", "4"),
        lambda o: setattr(o, "device_iteration", 4),
    ],
)
def test_wrong_types_and_unknown_names_are_assertion_errors(call):
    with pytest.raises(AssertionError):
        call(poptorch.Options())


def test_unknown_name_lists_the_valid_ones():
    with pytest.raises(
        AssertionError, match=r"Unknown option 'device_iteration'. Valid options are: .*device_iterations"
    ):
        poptorch.Options().device_iteration = 4


def test_reading_an_unknown_option_is_an_attribute_error():
    with pytest.raises(AttributeError, match="has no option 'devices'"):
        poptorch.Options().devices


def test_reduction_type_must_be_sum_or_mean():
    with pytest.raises(ValueError):
        poptorch.Options().Training.accumulationAndReplicationReductionType(poptorch.ReductionType.NoReduction)


@pytest.mark.shows("Options.clone")
@pytest.mark.edge("22.20")
def test_options_given_to_a_wrapper_are_frozen_with_all_their_parts_and_clones_are_not():
    options = poptorch.Options().deviceIterations(2)
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    for change in (
        lambda: options.deviceIterations(3),
        lambda: setattr(options, "device_iterations", 3),
        lambda: options.Training.gradientAccumulation(2),
        lambda: options.setExecutionStrategy(poptorch.ShardedExecution()),
    ):
        with pytest.raises(AttributeError, match="Can't modify frozen Options"):
            change()
    variant = options.clone().deviceIterations(3)
    assert variant.device_iterations == 3 and options.device_iterations == 2
    assert copy.deepcopy(options).deviceIterations(5).device_iterations == 5


def test_equal_options_compare_equal_and_survive_pickling():
    options = poptorch.Options().deviceIterations(2)
    options.Training.gradientAccumulation(3)
    assert options == options.clone()
    assert pickle.loads(pickle.dumps(options)) == options
    assert options != options.clone().deviceIterations(3)


def test_options_and_strategies_can_be_members_of_sets():
    options = poptorch.Options()
    assert options.clone() in {options} and options.clone().deviceIterations(2) not in {options}
    stages = {poptorch.Stage("a").ipu(1): 1}
    assert stages[poptorch.Stage("a").ipu(1)] == 1 and poptorch.Stage("a") not in stages
    assert poptorch.PipelinedExecution("a") in {poptorch.PipelinedExecution("a")}


def test_bool_counts_as_int_and_enums_too_but_int_is_no_bool():
    options = poptorch.Options().deviceIterations(True).maxRepeatLogs(True)
    options.output_return_period = poptorch.OutputMode.EveryN
    assert (options.device_iterations, options.max_repeat_logs, options.output_return_period) == (1, 1, 1)
    poptorch.TensorLocationSettings().minElementsForOffChip(True)
    with pytest.raises(AssertionError):
        options.broadcast_buffers = 1


def test_a_copy_of_frozen_options_is_free_and_containers_are_its_own():
    options = poptorch.Options().setAvailableMemoryProportion({"IPU0": 0.5})
    options.anchorTensor("a", "b")
    options._Popart.setEngineOptions({"x": "y"})
    poptorch.DataLoader(options, [1])
    variant = options.clone()
    variant.available_memory_proportion[0] = 0.1
    variant.anchorTensor("c", "d")
    variant._Popart.options["engineOptions"]["x"] = "z"
    variant.appendToLocationExcludes("e")
    variant._strategy.stage("s").ipu(2)
    variant.Precision.setPartialsType(torch.half)
    assert options.available_memory_proportion == {0: 0.5} and list(options.anchored_tensors) == ["a"]
    assert options._Popart.options["engineOptions"] == {"x": "y"}
    assert options != variant and options == options.clone()
    assert "e" not in options._location_excludes and "partialsTypeMatMuls" not in options._Popart.options
    # Two changes are made in place and pass the freeze; the wrapper has a copy of its own.
    wrapper = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    options.anchorTensor("late", "x")
    options.appendToLocationExcludes("late")
    assert list(options.anchored_tensors) == ["a", "late"] and list(wrapper.options.anchored_tensors) == ["a"]


def test_frozen_options_stay_frozen_in_a_pickle():
    options = poptorch.Options()
    poptorch.DataLoader(options, [1])
    with pytest.raises(AttributeError, match="Can't modify frozen Options"):
        pickle.loads(pickle.dumps(options)).deviceIterations(2)


@pytest.mark.shows("Options.toDict")
def test_to_dict_needs_a_decided_output_mode():
    options = poptorch.Options()
    with pytest.raises(AssertionError, match="output mode"):
        options.toDict()
    values = options.outputMode(poptorch.OutputMode.All).toDict()
    assert values["output_mode"] == 2 and values["gradient_accumulation"] == 1


@pytest.mark.shows("Options.from_json")
def test_json_and_environment_defaults(monkeypatch):
    monkeypatch.setenv(
        "POPTORCH_DEFAULT_OPTIONS",
        '{"deviceIterations": 8, "Training.gradientAccumulation": 4, "outputMode": "OutputMode.All"}',
    )
    options = poptorch.Options()
    assert (options.device_iterations, options.Training.gradient_accumulation, options.output_mode) == (8, 4, 2)
    with pytest.raises(AttributeError):
        options.from_json('{"deviceIteration": 8}')


def test_strings_with_a_dot_are_enums_only_when_they_name_a_member():
    options = poptorch.Options().from_json('{"modelName": "enum.Enum", "logDir": "OutputMode.Nothing"}')
    assert options.model_name == "enum.Enum" and options.log_dir == "OutputMode.Nothing"
    options.from_json('{"_Popart.set": ["enableOutlining", false], "connectionType": "ConnectionType.OnDemand"}')
    assert options._Popart.options["enableOutlining"] is False and options.connection_type == 1


def test_cache_folder_of_the_environment_is_used_and_named(monkeypatch, caplog):
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "/tmp/x")
    poptorch.setLogLevel("INFO")
    try:
        options = poptorch.Options()
        monkeypatch.setenv("POPTORCH_CACHE_DIR", "")
        assert "cachePath" not in poptorch.Options()._Popart.options
    finally:
        poptorch.setLogLevel("WARN")
    assert options._Popart.options["cachePath"] == "/tmp/x"
    assert [record.getMessage() for record in caplog.records] == [
        "POPTORCH_CACHE_DIR is set: executables are cached in /tmp/x"
    ]


@pytest.mark.shows("Options.randomSeed")
def test_random_seed_seeds_torch_at_once():
    poptorch.Options().randomSeed(3)
    first = torch.rand(2)
    poptorch.Options().randomSeed(3)
    assert torch.equal(first, torch.rand(2))


def test_module_name_that_is_not_there_yet_says_so():
    with pytest.raises(AttributeError, match="poptorch.registerGeometricCustomArgParsers is part of the PopTorch API but not available"):
        poptorch.registerGeometricCustomArgParsers
    with pytest.raises(AttributeError, match="has no attribute 'conds'"):
        poptorch.conds


# --- strategies ---


@pytest.mark.shows("Stage")
def test_stages_in_order_of_the_arguments():
    strategy = poptorch.PipelinedExecution("a", ["b", "c"], poptorch.Stage("d").ipu(3))
    assert strategy._places([("a", None), ("b", None), ("c", 7), ("d", 0)]) == [(0, 0), (1, 1), (1, 7), (2, 3)]
    strategy.stage("b").ipu(5)
    assert strategy._places([("c", None)]) == [(1, 5)]


@pytest.mark.shows("AutoStage")
def test_same_as_ipu_and_auto_increment():
    same = poptorch.PipelinedExecution()
    assert same._places([("x", 2)]) == [(2, 2)]
    with pytest.raises(AssertionError, match="block 'x' has none"):
        same._places([("x", None)])
    grow = poptorch.ShardedExecution(poptorch.AutoStage.AutoIncrement)
    assert grow._places([("x", None), ("y", 0)]) == [(1, 1), (2, 0)]


def test_an_id_on_two_ipus_is_one_stage_unless_stages_are_ipus():
    entries = [("a", 0), ("b", 1), ("a", 2)]
    assert poptorch.PipelinedExecution("a", "b")._places(entries) == [(0, 0), (1, 1), (0, 2)]
    assert poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement)._places(entries) == [(1, 0), (2, 1), (1, 2)]
    assert poptorch.PipelinedExecution()._places(entries) == [(0, 0), (1, 1), (2, 2)]
    fixed = poptorch.PipelinedExecution(poptorch.Stage("a").ipu(3), "b")
    assert fixed._places(entries) == [(0, 3), (1, 1), (0, 3)]
    assert poptorch.SerialPhasedExecution("a", "b")._places(entries) == [(0, 0, 0), (0, 1, 1), (0, 2, 0)]


@pytest.mark.parametrize(
    "arguments, text", [(("a", "a"), "more than one stage"), ((["a", 1],), "A stage is"), ((3,), "A stage is")]
)
def test_arguments_that_are_no_stages_are_refused(arguments, text):
    with pytest.raises(AssertionError, match=text):
        poptorch.PipelinedExecution(*arguments)


def test_unknown_block_lists_the_expected_ones():
    with pytest.raises(AssertionError, match=r"Unknown block 'z': expected one of \['a'\]"):
        poptorch.PipelinedExecution("a").stage("z")


# --- option files ---

FILE = """
# bench.conf
deviceIterations(16)
Training.gradientAccumulation(8)     # micro-batches per update
setAvailableMemoryProportion({"IPU0": 0.3, "IPU1": 0.5})
outputMode(poptorch.OutputMode.EveryN, output_return_period=4)
setExecutionStrategy(poptorch.ShardedExecution("a", ["b", "c"]))
TensorLocations.numIOTiles(64)
TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(8))
deviceIterations(2 * 16).modelName("bench")
log_dir = "logs"
"""


def write(tmp_path, text):
    path = tmp_path / "bench.conf"
    path.write_text(text)
    return str(path)


@pytest.mark.shows("Options.loadFromFile")
def test_options_file_is_applied_from_top_to_bottom(tmp_path):
    options = poptorch.Options().loadFromFile(write(tmp_path, FILE))
    assert options.device_iterations == 32 and options.Training.gradient_accumulation == 8
    assert options.available_memory_proportion == {0: 0.3, 1: 0.5}
    assert options.output_mode == 1 and options.output_return_period == 4
    assert options._strategy == poptorch.ShardedExecution("a", ["b", "c"])
    assert options.TensorLocations.num_io_tiles == 64
    assert options.TensorLocations.location_weight == {"onChip": 0, "minElementsForOffChip": 8}
    assert options.model_name == "bench" and options.log_dir == "logs"


@pytest.mark.parametrize(
    "line, detail",
    [
        ("deviceIterations(", "never closed"),
        ("deviceIterations 4", "invalid syntax"),
        ("__class__ = 4", "expected a dotted option name"),
        ("deviceIterations(4); broadcastBuffers(False)", "expected a call"),
        ("deviceIterations(1 / 0)", "division by zero"),
        ("modelName('a' * 9)", "arithmetic is on numbers"),
        ("deviceIterations(4).__class__(3)", "expected a dotted option name"),
        ("setExecutionStrategy(poptorch.Stage('a').__class__('b'))", "expected a dotted option name"),
        ("deviceIterations", "expected a call"),
        ("deviceIterations(open('x'))", r"the call 'open\('x'\)' is not allowed"),
        ("deviceIterations(__import__('os').getpid())", "is not allowed"),
        ("__class__.__init__(4)", "expected a dotted option name"),
        ("outputMode(poptorch.OutputMode.Never)", "is not a member"),
        ("outputMode(poptorch.Options)", "is not allowed"),
        ("deviceIterations(*[4])", "is not allowed"),
        ("deviceIterations(**{'a': 4})", r"\*\* is not allowed"),
    ],
)
@pytest.mark.shows("ConfigFileError")
def test_line_that_is_no_legal_call_is_refused_and_nothing_is_applied(tmp_path, line, detail):
    options = poptorch.Options()
    with pytest.raises(poptorch.ConfigFileError, match=rf"(?s)SyntaxError at line 2 of bench.conf: .*{detail}"):
        options.loadFromFile(write(tmp_path, f"# comment\ndeviceIterations(7)\n\n{line}\n"))
    assert options.device_iterations == 1


def test_file_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bench.conf").write_bytes(b"deviceIterations(2)\n\xff")
    with pytest.raises(poptorch.ConfigFileError) as raised:
        poptorch.Options().loadFromFile(str(tmp_path / "bench.conf"))
    assert str(raised.value) == ("SyntaxError in bench.conf: it is not a text in UTF-8 (invalid start byte at byte 20)")


def test_errors_of_options_in_a_file_pass_through(tmp_path):
    options = poptorch.Options()
    with pytest.raises(AssertionError, match="must be an int"):
        options.loadFromFile(write(tmp_path, "deviceIterations(3)\nTraining.gradientAccumulation('x')"))
    assert options.device_iterations == 3
    with pytest.raises(AttributeError):
        options.loadFromFile(write(tmp_path, "deviceIteration(3)"))
    with pytest.raises(FileNotFoundError):
        options.loadFromFile(str(tmp_path / "none.conf"))


# --- names that texts may use ---


@pytest.mark.parametrize(
    "accessor",
    [
        "deviceIterations.__func__.__builtins__.update",
        "__class__.__init__.__globals__.update",
        "_values.update",
        "Training._values.update",
        "_Popart.options.update",
        "anchored_tensors.update",
        "clone",
        "_freeze",
        "Training",
        "",
        "Training.",
        "Precision._popart.set",
    ],
)
def test_texts_reach_published_setters_and_nothing_else(tmp_path, accessor):
    import builtins

    before = dict(vars(builtins))
    options = poptorch.Options()
    with pytest.raises(AttributeError, match="has no option"):
        options.from_json(json.dumps({accessor: {"print": 3}}))
    with pytest.raises((AttributeError, poptorch.ConfigFileError)):
        options.loadFromFile(write(tmp_path, accessor + '({"print": 3})'))
    assert vars(builtins) == before and options == poptorch.Options()


def test_every_setter_is_published():
    """A public method of an options object is a setter, or is known to be none."""
    from poptorch._impl.options import names as option_names

    readers = {
        "exists", "deleteIfExists", "clone", "toDict", "defaultOutputMode", "options", "patterns",
        "patterns_level", "Training", "Precision", "Distributed", "TensorLocations", "Jit", "processId", "numProcesses",
    }  # fmt: skip
    options = poptorch.Options()
    for part in (options, *options._parts().values(), poptorch.TensorLocationSettings(), poptorch.Stage("a")):
        public = {name for name in dir(type(part)) if not name.startswith("_")} - readers - {"blocks"}
        assert public == option_names.published(type(part)), type(part).__name__


def test_assignments_in_a_file_are_to_registered_options(tmp_path):
    options = poptorch.Options()
    for line in (
        "clone = 3",
        "Training.gradientAccumulation = 3",
        "_Popart.options = {}",
        "nothing = 1",
        "_Popart.set = 1",
    ):
        with pytest.raises(AttributeError, match="has no option"):
            options.loadFromFile(write(tmp_path, line))
    assert options == poptorch.Options() and callable(options.clone)


def test_an_options_file_that_loads_itself_is_refused(tmp_path):
    path = tmp_path / "bench.conf"
    path.write_text(f"deviceIterations(3)\nloadFromFile({str(path)!r})\n")
    with pytest.raises(poptorch.ConfigFileError, match="bench.conf loads itself"):
        poptorch.Options().loadFromFile(str(path))
    (tmp_path / "other.conf").write_text("deviceIterations(5)")
    path.write_text(f"loadFromFile({str(tmp_path / 'other.conf')!r})")
    assert poptorch.Options().loadFromFile(str(path)).device_iterations == 5


def test_what_is_no_regular_file_is_no_options_file(tmp_path):
    for path in (str(tmp_path), "/dev/zero"):
        with pytest.raises(poptorch.ConfigFileError) as error:
            poptorch.Options().loadFromFile(path)
        assert str(error.value) == f"{path} is not a regular file"


def test_json_that_is_no_object_or_too_deep_is_an_error():
    for text, message in (("[1]", "needs one JSON object, got a list"), ("[" * 100_000, "nested too deeply")):
        with pytest.raises(ValueError, match=message):
            poptorch.Options().from_json(text)


# --- memory placement and processes ---


def test_tensor_locations_are_copied_and_checked():
    settings = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(100).useIOTilesToLoad()
    options = poptorch.Options()
    options.TensorLocations.setOptimizerLocation(settings)
    settings.minElementsForOffChip(7)
    assert options.TensorLocations.location_optimizer == {
        "onChip": 0,
        "minElementsForOffChip": 100,
        "useIOTilesToLoad": True,
    }
    settings.useOnChipStorage(None)
    assert not settings.exists("onChip")
    for mistake in (
        lambda: settings.useOnChipStorage(1),
        lambda: settings.minElementsForOffChip(1.5),
        lambda: options.TensorLocations.numIOTiles(33),
        lambda: options.TensorLocations.numIOTiles(200),
        lambda: options.TensorLocations.setWeightLocation({}),
    ):
        with pytest.raises(AssertionError):
            mistake()


@pytest.mark.shows("Options.Distributed.disable", "Options.Distributed.processId", "Options.Distributed.numProcesses")
def test_processes_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "4")
    monkeypatch.setenv("OMPI_COMM_WORLD_RANK", "2")
    options = poptorch.Options()
    assert (options.Distributed.numProcesses, options.Distributed.processId) == (4, 2)
    assert options.Distributed.disable().numProcesses == 1
    monkeypatch.setenv("OMPI_COMM_WORLD_SIZE", "four")
    with pytest.raises(ValueError):
        poptorch.Options()


@pytest.mark.shows("Options.Distributed.setEnvVarNames")
def test_names_of_the_variables_that_say_the_process_can_be_chosen(monkeypatch):
    monkeypatch.setenv("JOB_SIZE", "8")
    monkeypatch.setenv("JOB_RANK", "5")
    options = poptorch.Options()
    assert (options.Distributed.numProcesses, options.Distributed.processId) == (1, 0)
    assert options.Distributed.setEnvVarNames("JOB_SIZE", "JOB_RANK") is options.Distributed
    assert (options.Distributed.numProcesses, options.Distributed.processId) == (8, 5)


def test_offline_target_compiles_and_refuses_to_run():
    options = poptorch.Options().useOfflineIpuTarget(21)
    wrapper = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    wrapper.compile(torch.ones(1, 2))
    assert wrapper.isCompiled() and not wrapper.isAttachedToDevice()
    with pytest.raises(AssertionError, match="ConnectionType.Never"):
        wrapper(torch.ones(1, 2))
    with pytest.raises(AssertionError):
        poptorch.Options().useOfflineIpuTarget(3)


@pytest.mark.shows("ConnectionType", "Options.connectionType")
def test_on_demand_attaches_at_the_first_call():
    options = poptorch.Options().connectionType(poptorch.ConnectionType.OnDemand)
    wrapper = poptorch.inferenceModel(torch.nn.Linear(2, 2), options)
    wrapper.compile(torch.ones(1, 2))
    assert not wrapper.isAttachedToDevice()
    wrapper(torch.ones(1, 2))
    assert wrapper.isAttachedToDevice()


def test_a_stage_in_two_strategies_has_its_place_in_each():
    a, b = poptorch.Stage("a").ipu(0), poptorch.Stage("b").ipu(1)
    first = poptorch.PipelinedExecution(a, b)
    second = poptorch.PipelinedExecution(b, a)
    blocks = [("a", None), ("b", None)]
    assert first._places(blocks) == [(0, 0), (1, 1)]
    assert second._places(blocks) == [(1, 0), (0, 1)]
