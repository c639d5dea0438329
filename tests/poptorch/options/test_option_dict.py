"""`Options.toDict()` is one flat dict, and `poptorch_core._validateOptions` parses it as compilation does."""

import pytest
import torch

import poptorch
from poptorch.poptorch_core import _validateOptions


def decided():
    return poptorch.Options().outputMode(poptorch.OutputMode.All)


@pytest.mark.shows("Options.toDict")
def test_all_parts_are_one_flat_dict():
    values = decided().showCompilationProgressBar(False).toDict()
    assert values == {
        "execution_mode": 0,
        "instrumentWithHardwareCycleCounter": False,
        "rearrangeAnchorsOnHost": False,
        "gradient_accumulation": 1,
        "accumulation_and_replication_reduction_type": poptorch.ReductionType.Mean,
        "meanAccumulationAndReplicationReductionStrategy": poptorch.MeanReductionStrategy.Post,
        "num_distributed_processes": 1,
        "distributed_process_id": 0,
        "ipuof_configs": {},
        "replication_factor": 1,
        "input_group_size": 1,
        "input_cgt": poptorch.CommGroupType.Consecutive,
        "broadcast_buffers": True,
        "device_iterations": 1,
        "log_dir": ".",
        "max_repeat_logs": 4,
        "auto_round_num_ipus": False,
        "anchored_tensors": {},
        "output_mode": 2,
        "output_return_period": 1,
        "connection_type": 0,
        "sync_pattern": 0,
        "available_memory_proportion": {},
    }


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda o: o.setExecutionStrategy(poptorch.ShardedExecution()), {"execution_mode": 1}),
        (lambda o: o._Popart.setPatterns({"PadSum": True}, 1), {"patterns": {"PadSum": True}, "patterns_level": 1}),
        (lambda o: o.TensorLocations.numIOTiles(32), {"numIOTiles": 32}),
        (
            lambda o: o.TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(False)),
            {"location_weight": {"onChip": 0}},
        ),
        (lambda o: o.updatableNamedBuffers(["a"]), {"updatableNamedBuffers": ["a"]}),
        (lambda o: o.Precision.setPartialsType(torch.half), {"partialsTypeMatMuls": "half"}),
        (lambda o: o.modelName("x"), {"model_name": "x"}),
    ],
)
def test_what_is_set_is_in_the_dict_by_its_published_name(change, expected):
    options = decided()
    assert not set(expected) & (set(options.toDict()) - {"execution_mode"})
    change(options)
    values = options.toDict()
    assert {name: values[name] for name in expected} == expected
    _validateOptions(values)


def test_the_progress_bar_is_a_function_of_the_dict():
    assert callable(decided().toDict()["compilation_progress_bar_fn"])


def test_a_name_in_two_parts_is_refused():
    options = decided()
    options.TensorLocations.numIOTiles(32)
    options._Popart.set("numIOTiles", 64)
    with pytest.raises(AssertionError, match="option 'numIOTiles' is defined twice"):
        options.toDict()


@pytest.mark.shows("poptorch_core._validateOptions")
@pytest.mark.parametrize(
    "change",
    [
        {"noSuchKey": True},
        {"replication_factor": "2"},
        {"broadcast_buffers": 1},
        {"enableOutlining": 1},
        {"partialsTypeMatMuls": None},
        {"partialsTypeMatMuls": object()},
        {"outlineThreshold": "high"},
        {"output_mode": 4},
        {"output_mode": -1},
        {"connection_type": 3},
        {"sync_pattern": 10**30},
        {"execution_mode": 3},
        {"virtualGraphMode": 4},
        {"autoRecomputation": 5},
        {"patterns": {"PadSum": True}},
        {"patterns": {"Unknown": True}, "patterns_level": 2},
        {"patterns": ["PadSum"], "patterns_level": 2},
        {"patterns": {}, "patterns_level": 4},
        {"engineOptions": {"a": 1}},
        {"customCodelets": [1.5]},
        {1: 2},
        {"compilation_progress_bar_fn": 3},
    ],
)
def test_what_compilation_would_not_take_is_an_error(change):
    _validateOptions(decided().toDict())
    with pytest.raises(poptorch.Error):
        _validateOptions({**decided().toDict(), **change})


@pytest.mark.parametrize(
    "values",
    [
        {},
        {"hardwareInstrumentations": {0, 1}},
        {"hardwareInstrumentations": {"0"}},
        {"customCodelets": ("a.cpp",)},
        {"patterns": {"PadSum": True, "InPlace": False}, "patterns_level": 0},
        {"device_iterations": True},
        {"anchored_tensors": object()},
        {"accumulateOuterFragmentSettings.excludedVirtualGraphs": ["0"]},
    ],
)
def test_what_compilation_takes_is_no_error(values):
    assert _validateOptions(values) is None


def test_a_setting_that_does_not_exist_is_found_without_a_model():
    options = decided()
    options._Popart.set("noSuchKey", True)
    with pytest.raises(poptorch.Error, match="noSuchKey"):
        _validateOptions(options.toDict())


def test_the_back_end_dict_takes_no_option_of_poptorch():
    options = poptorch.Options()
    options._Popart.set("random_seed", 3)
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(torch.nn.ReLU(), options)(torch.ones(2))
    assert raised.value.message == (
        "unknown back-end option: _Popart.set('random_seed', ...). It is an option of poptorch.Options: set it there."
    )
