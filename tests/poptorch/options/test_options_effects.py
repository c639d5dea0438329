"""What poptorch.Options do: anchors, counters, synthetic data, float exceptions, devices, reports, excludes."""

import collections
import datetime
import gc
import itertools
import json
import logging
import re
import sqlite3
import threading
import types

import pytest
import torch
from models import Mlp

import poptorch
from poptorch import OutputMode
from poptorch._impl.session import compilation


@pytest.fixture(autouse=True)
def no_model_of_other_tests_is_attached():
    gc.collect()


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.fc1 = torch.nn.Linear(4, 3)
        self.fc2 = torch.nn.Linear(3, 2)

    def forward(self, x, y=None):
        out = self.fc2(torch.relu(self.fc1(x)))
        return out if y is None else (out, torch.nn.functional.mse_loss(out, y))


def log_lines(function, level=logging.INFO):
    """What `function` logs on the Python side."""
    lines = []
    handler = logging.Handler()
    handler.emit = lambda record: lines.append(record.getMessage())
    previous = poptorch.logger.level
    poptorch.logger.addHandler(handler)
    poptorch.logger.setLevel(level)
    try:
        function()
    finally:
        poptorch.logger.removeHandler(handler)
        poptorch.logger.setLevel(previous)
    return lines


# --- anchors ---


def gradients(net, batches):
    """Gradient of fc1.weight for each (x, y)."""
    found = []
    for x, y in batches:
        net.zero_grad()
        net(x, y)[1].backward()
        found.append(net.fc1.weight.grad.clone())
    return found


@pytest.mark.parametrize("pipelined", [False, True])
def test_gradients_of_every_micro_batch_can_be_anchored(pipelined):
    net, reference = Net(), Net()
    options = poptorch.Options()
    options.Training.gradientAccumulation(3)
    if pipelined:
        poptorch.BeginBlock(net.fc1, "front", ipu_id=0)
        poptorch.BeginBlock(net.fc2, "back", ipu_id=1)
    options.anchorTensor("g", "Gradient___fc1.weight", OutputMode.All)
    options.anchorTensor("last", "Gradient___fc1.weight")
    trainer = poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
    x, y = torch.randn(6, 4), torch.randn(6, 2)
    trainer(x, y)
    expected = gradients(reference, [(x[i : i + 2], y[i : i + 2]) for i in (0, 2, 4)])
    torch.testing.assert_close(trainer.getAnchoredTensor("g"), torch.cat(expected))
    torch.testing.assert_close(trainer.getAnchoredTensor("last"), expected[-1])


def test_updated_weights_can_be_anchored():
    net = Net()
    options = poptorch.Options().deviceIterations(2)
    options.anchorTensor("all", "UpdatedVar___fc2.bias", OutputMode.All)
    options.anchorTensor("last", "UpdatedVar___fc2.bias")
    trainer = poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
    trainer(torch.randn(4, 4), torch.randn(4, 2))
    updates = trainer.getAnchoredTensor("all").reshape(2, 2)
    assert not torch.equal(updates[0], updates[1])
    assert torch.equal(updates[1], net.fc2.bias) and torch.equal(trainer.getAnchoredTensor("last"), net.fc2.bias)


@pytest.mark.parametrize("pipelined", [False, True])
def test_updated_weights_have_an_item_for_each_micro_batch_of_their_update(pipelined, tmp_path):
    net = Net()
    options = poptorch.Options().deviceIterations(2).replicationFactor(2)
    options.Training.gradientAccumulation(3)
    if pipelined:
        poptorch.BeginBlock(net.fc1, "front", ipu_id=0)
        poptorch.BeginBlock(net.fc2, "back", ipu_id=1)
    for mode in OutputMode:
        options.anchorTensor(mode.name, "UpdatedVar___fc2.bias", mode, 2)
    trainer = poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))
    path = str(tmp_path / "trainer.poptorch")
    start = {name: value.clone() for name, value in net.state_dict().items()}
    trainer.compileAndExport(path, torch.zeros(12, 4), torch.zeros(12, 2))
    x, y = torch.randn(12, 4), torch.randn(12, 2)

    def check(trainer):
        trainer(x, y)
        items = trainer.getAnchoredTensor("All").reshape(2, 3, 2, 2)  # iterations, micro-batches, replicas
        updates = items[:, 0, 0]
        assert torch.equal(items, updates[:, None, None].expand(2, 3, 2, 2)) and not torch.equal(*updates)
        bias = trainer.model.fc2.bias
        assert torch.equal(updates[1], bias)
        for mode in ("Final", "Default"):
            assert torch.equal(trainer.getAnchoredTensor(mode), bias.repeat(2))
        assert torch.equal(trainer.getAnchoredTensor("EveryN"), bias.repeat(6))
        torch.testing.assert_close(trainer.getAnchoredTensor("Sum"), (3 * updates.sum(0)).repeat(2))
        return items

    items = check(trainer)
    trainer.destroy()
    loaded = poptorch.load(path)
    assert all(torch.equal(value, start[name]) for name, value in loaded.model.state_dict().items())
    assert torch.equal(check(loaded), items)


@pytest.mark.shows("Options.anchorTensor", "PoplarExecutor.getAnchoredTensor")
def test_values_inside_the_model_can_be_anchored_in_every_mode():
    net = Net().eval()
    shapes = {OutputMode.All: 8, OutputMode.Final: 2, OutputMode.EveryN: 4, OutputMode.Sum: 2}
    options = poptorch.Options().deviceIterations(4)
    for mode in shapes:
        options.anchorTensor(mode.name, "Relu:0", mode, 2)
    options.anchorTensor("wrapper", "Relu:0")
    options.anchorTensor("input", "input")
    run = poptorch.inferenceModel(net, options)
    x = torch.randn(8, 4)
    run(x)
    hidden = torch.relu(net.fc1(x)).detach()
    for mode, rows in shapes.items():
        assert run.getAnchoredTensor(mode.name).shape == (rows, 3)
    torch.testing.assert_close(run.getAnchoredTensor("All"), hidden)
    torch.testing.assert_close(run.getAnchoredTensor("wrapper"), hidden)
    torch.testing.assert_close(run.getAnchoredTensor("EveryN"), torch.cat([hidden[2:4], hidden[6:8]]))
    torch.testing.assert_close(run.getAnchoredTensor("Sum"), hidden.reshape(4, 2, 3).sum(0))
    assert torch.equal(run.getAnchoredTensor("input"), x)


@pytest.mark.shows("NameScope", "Options.disableModuleNamescope", "PoplarExecutor.getTensorNames")
def test_names_of_tensors_are_those_of_modules_and_scopes():
    class Scoped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            with poptorch.NameScope("outer"):
                x = self.fc(x)
                with poptorch.NameScope("inner"):
                    return torch.relu(self.fc(x))

    run = poptorch.inferenceModel(Scoped())
    run.compile(torch.randn(2, 4))
    assert run.getTensorNames() == [
        "input",
        "fc.bias",
        "fc.weight",
        "outer/fc/MatMul:0",
        "outer/fc/Add:0",
        "outer/inner/fc/MatMul:0",
        "outer/inner/fc/Add:0",
        "outer/inner/Relu:0",
    ]
    plain = poptorch.inferenceModel(Scoped(), poptorch.Options().disableModuleNamescope())
    plain.compile(torch.randn(2, 4))
    assert "outer/inner/MatMul:0" in plain.getTensorNames()


# --- numbers ---


@pytest.mark.parametrize(
    "make, what",
    [
        (lambda x: x / (x - x), "overflow or division by zero: a result is infinite, and no operand was"),
        (lambda x: (x - x) / (x - x), "invalid operation: a result is not a number, and no operand was"),
        (lambda x: torch.sqrt(-x), "invalid operation: a result is not a number, and no operand was"),
        (lambda x: torch.exp(x * 1000), "overflow or division by zero: a result is infinite, and no operand was"),
    ],
)
@pytest.mark.shows("Options.Precision.enableFloatingPointExceptions", "Error")
def test_floating_point_exceptions_stop_with_the_operation_and_its_line(make, what):
    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)
    run = poptorch.inferenceModel(make, options)
    with pytest.raises(poptorch.Error) as raised:
        run(torch.ones(3))
    assert raised.value.message.startswith(f"floating-point exception [IPU-E415]: {what}\n  at: IPU 0, instruction ")
    assert "test_options_effects.py" in str(raised.value)
    poptorch.inferenceModel(make)(torch.ones(3))  # off: goes on as torch does


def test_infinite_masks_are_no_floating_point_exception():
    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)

    def attention(x, mask):
        return torch.softmax(x.masked_fill(mask, float("-inf")), -1) + torch.log(x * x + 1)

    x, mask = torch.randn(4, 4), torch.eye(4, dtype=torch.bool)
    torch.testing.assert_close(poptorch.inferenceModel(attention, options)(x, mask), attention(x, mask))


@pytest.mark.parametrize(
    "make",
    [
        lambda x: x < 1,
        lambda x: x <= x.flip(0),
        lambda x: torch.gt(x, 2.0),
        lambda x: torch.where(x >= 0, 1.0, 2.0),
        lambda x: (x.half() < 1).int() + 3,
        lambda x: ((x * 2 + 1) < 1).any(),
    ],
)
def test_comparing_with_nan_is_a_floating_point_exception(make):
    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)
    run = poptorch.inferenceModel(make, options)
    good, bad = torch.tensor([1.0, 2.0, 3.0]), torch.tensor([1.0, float("nan"), 3.0])
    assert torch.equal(run(good), make(good).to(run(good).dtype))
    with pytest.raises(poptorch.Error) as raised:
        run(bad)
    what = "invalid operation: an operand of a comparison is not a number"
    assert raised.value.message.startswith(f"floating-point exception [IPU-E415]: {what}\n  at: IPU 0, instruction ")
    assert "test_options_effects.py" in str(raised.value)
    assert torch.equal(run(good), make(good).to(run(good).dtype))
    poptorch.inferenceModel(make)(bad)  # off: goes on as torch does


def test_asking_for_nan_is_no_floating_point_exception():
    options = poptorch.Options()
    options.Precision.enableFloatingPointExceptions(True)
    x = torch.tensor([1.0, float("nan"), -3.0])

    def function(x):
        return x == x, x != 1, torch.isnan(x), torch.isnan(x).int() < 1

    for a, e in zip(poptorch.inferenceModel(function, options)(x), function(x), strict=True):
        assert torch.equal(a, e)


@pytest.mark.shows("Options.enableSyntheticData")
def test_synthetic_data_needs_no_data_and_gives_none():
    net = Net()
    seen = {}
    options = poptorch.Options().enableSyntheticData(True)
    options.anchorTensor("x", "input", OutputMode.All)
    run = poptorch.inferenceModel(net, options)
    for value in (0.0, 100.0):
        assert torch.equal(run(torch.full((64, 4), value)), torch.zeros(64, 2))
        seen[value] = run.getAnchoredTensor("x").clone()
    assert torch.equal(seen[0.0], seen[100.0]) and 0.8 < seen[0.0].std() < 1.2
    assert run.getPerfCounters() == dict.fromkeys(("input", "input_complete", "output", "output_complete"), [[]])
    assert run.getLatency() == (0.0, 0.0, 0.0)
    run = poptorch.inferenceModel(lambda x, y: x + y, poptorch.Options().enableSyntheticData(True))
    run(torch.ones(2), torch.ones(2))
    assert run.getPerfCounters() == {
        "input": [[], []],
        "input_complete": [[], []],
        "output": [[]],
        "output_complete": [[]],
    }
    assert run.getHostIpuLatency() == run.getComputeLatency() == (0.0, 0.0, 0.0)
    plain = poptorch.inferenceModel(net, poptorch.Options().enableSyntheticData(False))
    x = torch.randn(2, 4)
    torch.testing.assert_close(plain(x), net(x))


# --- counters ---


@pytest.mark.parametrize(
    "mode, outputs", [(OutputMode.All, 4), (OutputMode.Final, 1), (OutputMode.Sum, 1), (OutputMode.EveryN, 2)]
)
@pytest.mark.shows("PoplarExecutor.getPerfCounters")
def test_performance_counters_have_a_time_for_every_transfer(mode, outputs):
    run = poptorch.inferenceModel(Mlp(1), poptorch.Options().deviceIterations(4).outputMode(mode, 2))
    assert run.getPerfCounters() == dict.fromkeys(("input", "input_complete", "output", "output_complete"), [[]])
    run(Mlp.inputs(4, torch.Generator().manual_seed(1))[0])
    counters = run.getPerfCounters()
    assert {name: [len(t) for t in times] for name, times in counters.items()} == {
        "input": [4],
        "input_complete": [4],
        "output": [outputs],
        "output_complete": [outputs],
    }
    assert all(a <= b for a, b in zip(counters["input"][0], counters["input_complete"][0]))
    assert all(a <= b for a, b in zip(counters["output"][0], counters["output_complete"][0]))
    assert counters["input"][0] == sorted(counters["input"][0])
    for latency in (run.getLatency(), run.getHostIpuLatency(), run.getComputeLatency(), run.getIpuHostLatency()):
        low, high, mean = latency
        assert 0 <= low <= mean <= high


@pytest.mark.shows(
    "PoplarExecutor.getLatency",
    "PoplarExecutor.getHostIpuLatency",
    "PoplarExecutor.getComputeLatency",
    "PoplarExecutor.getIpuHostLatency",
)
def test_latencies_are_the_times_between_the_counters():
    run = poptorch.inferenceModel(lambda x, y: (x @ y.T, y * 2), poptorch.Options().deviceIterations(3))
    run(torch.randn(12, 64), torch.randn(12, 64))
    counters = run.getPerfCounters()
    times = {name: [[tensor[step] for tensor in tensors] for step in range(3)] for name, tensors in counters.items()}

    def between(start, end):
        steps = [b - a for a, b in zip(start, end)]
        return pytest.approx((min(steps), max(steps), sum(steps) / 3))

    begin, given = [min(t) for t in times["input"]], [max(t) for t in times["input_complete"]]
    taken = [max(t) for t in times["output_complete"]]
    assert run.getLatency() == between(begin, taken) and run.getLatency()[0] > 0
    assert run.getHostIpuLatency() == between(begin, given)
    assert run.getComputeLatency() == between(given, [max(t) for t in times["output"]])
    assert run.getIpuHostLatency() == between([min(t) for t in times["output"]], taken)


@pytest.mark.shows("PoplarExecutor.compilationTime")
def test_compilation_time_is_that_between_the_begin_and_the_end_of_compiling(monkeypatch):
    minute, readings = datetime.timedelta(minutes=1), itertools.count()
    clock = types.SimpleNamespace(now=lambda: datetime.datetime(2026, 1, 1) + next(readings) * minute)
    monkeypatch.setattr(compilation, "datetime", types.SimpleNamespace(datetime=clock))
    run = poptorch.inferenceModel(Net())
    run.compile(torch.randn(2, 4))
    assert run.compilationTime() == minute


@pytest.mark.shows("Options.logCycleCount", "PoplarExecutor.cycleCount")
def test_cycle_count_is_positive_after_a_run_and_an_error_before():
    run = poptorch.inferenceModel(Net(), poptorch.Options().logCycleCount(True))
    with pytest.raises(poptorch.Error, match="not been compiled"):
        run.cycleCount()
    run.compile(torch.randn(2, 4))
    with pytest.raises(poptorch.Error) as raised:
        run.cycleCount()
    assert raised.value.message == "no cycle count [IPU-E407]: the model has not run yet"
    run(torch.randn(2, 4))
    assert isinstance(run.cycleCount(), int) and run.cycleCount() > 0


# --- devices ---


@pytest.mark.shows("Options.useIpuId")
def test_fixed_devices_are_groups_of_growing_size(monkeypatch, idle_ipus):
    monkeypatch.setenv("POPTORCH_EMULATED_SYSTEM", "pod4")
    for ipu_id, first in ((3, 3), (5, 2), (6, 0)):
        run = poptorch.inferenceModel(Mlp(1), poptorch.Options().useIpuId(ipu_id))
        run(torch.randn(2, 12))
        assert run._executable.first_ipu == first
        run.destroy()


@pytest.mark.shows("Options.useIpuModel")
def test_ipu_model_needs_no_power_of_two(monkeypatch):
    class Three(torch.nn.Module):
        def forward(self, x):
            for ipu in range(3):
                poptorch.Block.start(f"b{ipu}", ipu_id=ipu)
                x = x * 2
            return x

    options = poptorch.Options().useIpuModel(True).setExecutionStrategy(poptorch.ShardedExecution())
    assert torch.equal(poptorch.inferenceModel(Three(), options)(torch.ones(2)), torch.full((2,), 8.0))
    monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    assert not poptorch.ipuHardwareIsAvailable()
    sharded = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    poptorch.inferenceModel(Three(), sharded)(torch.ones(2))
    with pytest.raises(poptorch.Error, match="number of IPUs is not a power of two"):
        poptorch.inferenceModel(Three(), sharded.clone().useIpuModel(False))(torch.ones(2))


def test_a_call_waits_until_another_wrapper_frees_its_ipus(monkeypatch, idle_ipus):
    monkeypatch.setenv("POPTORCH_EMULATED_SYSTEM", "pod4")
    monkeypatch.setenv("POPTORCH_WAIT_FOR_IPU", "1")
    holder = poptorch.inferenceModel(Mlp(4), poptorch.Options().deviceIterations(4))
    holder(torch.randn(8, 12))
    run = poptorch.inferenceModel(Mlp(1))
    timer = threading.Timer(0.2, holder.detachFromDevice)
    timer.start()
    run(torch.randn(2, 12))
    timer.join()
    run.destroy()


# --- what is written ---


@pytest.mark.shows("Options.enableProfiling", "Options.modelName")
def test_reports_are_written_where_profiling_says(tmp_path, monkeypatch):
    options = poptorch.Options().enableProfiling(str(tmp_path)).modelName("small")
    poptorch.inferenceModel(Net(), options)(torch.randn(2, 4))
    files = sorted(file.name for file in (tmp_path / "small").iterdir())
    assert files == ["host_ir.txt", "ir.txt", "memory.json", "profile.pop", "program.txt"]
    assert json.loads((tmp_path / "small" / "memory.json").read_text())["ipus"][0]["variables"]
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"autoReport.directory": "elsewhere"}')
    lines = log_lines(lambda: poptorch.Options().enableProfiling("here"))
    assert lines == ["POPLAR_ENGINE_OPTIONS sets autoReport.directory to 'elsewhere', which wins over enableProfiling."]


def test_engine_options_that_are_set_stay():
    options = poptorch.Options()
    options._Popart.setEngineOptions({"debug.x": "1"})
    options.enableProfiling()
    assert options._Popart.options["engineOptions"] == {
        "debug.x": "1",
        "autoReport.all": "true",
        "autoReport.directory": ".",
        "debug.allowOutOfMemory": "true",
    }


@pytest.mark.shows("Options._Popart.setEngineOptions")
def test_engine_options_ask_for_reports(tmp_path):
    options = poptorch.Options().modelName("small")
    options._Popart.setEngineOptions({"autoReport.all": "true", "autoReport.directory": str(tmp_path)})
    poptorch.inferenceModel(Net(), options)(torch.randn(2, 4))
    assert "linear" in (tmp_path / "small" / "ir.txt").read_text()
    assert not (tmp_path / "debug.cbor").exists()


def test_the_profile_is_a_database_of_operations_memory_and_statistics(tmp_path):
    for _ in range(2):  # the second program takes the place of the first
        run = poptorch.inferenceModel(Net(), poptorch.Options().enableProfiling(str(tmp_path)))
        run(torch.randn(2, 4))
    database = sqlite3.connect(tmp_path / "inference" / "profile.pop")
    listed = json.loads(run._debugGetPopartIR())["maingraph"]
    assert database.execute("SELECT name, type, ipu FROM operations ORDER BY number").fetchall() == [
        (op["name"], op["type"], 0) for op in listed
    ]
    (memory,) = database.execute("SELECT * FROM memory").fetchall()
    assert memory[0] == 0 and min(memory[1:]) > 0
    assert dict(database.execute("SELECT * FROM statistics")) == dict(run._executable.statistics())
    database.close()


def text_of(cbor, at):
    """A text of fewer than 256 bytes of CBOR."""
    length, start = (cbor[at + 1], at + 2) if cbor[at] == 0x78 else (cbor[at] & 31, at + 1)
    assert cbor[at] >> 5 == 3
    return cbor[start : start + length].decode(), start + length


def test_debug_information_says_where_operations_come_from(tmp_path):
    options = poptorch.Options().enableProfiling(str(tmp_path))
    options._Popart.setEngineOptions({**options._Popart.options["engineOptions"], "autoReport.outputDebugInfo": "true"})
    model = torch.nn.Sequential(collections.OrderedDict(fc=torch.nn.Linear(4, 4, bias=False)))
    poptorch.inferenceModel(model, options)(torch.randn(2, 4))  # the line
    cbor = (tmp_path / "debug.cbor").read_bytes()
    assert cbor[0] == 0xA1  # a map of one
    key, at = text_of(cbor, 1)
    assert key == "operations" and cbor[at : at + 2] == b"\x81\xa5"  # a list of one, a map of five
    entry, at = {}, at + 2
    for _ in range(4):
        key, at = text_of(cbor, at)
        entry[key], at = text_of(cbor, at)
    file = entry.pop("file")
    assert entry == {"name": "fc/MatMul", "type": "MatMul", "layer": "fc"} and file.endswith("test_options_effects.py")
    key, at = text_of(cbor, at)
    assert key == "line" and cbor[at] == 0x19  # a number of two bytes
    with open(__file__) as source:
        assert "# the line" in source.read().splitlines()[int.from_bytes(cbor[at + 1 :], "big") - 1]


@pytest.mark.shows("Options.sourceLocationExcludes", "Options.appendToLocationExcludes")
def test_source_lines_skip_the_excluded_files():
    def fails(x):
        return torch.special.bessel_j0(x)

    for excludes, named in (([], True), (["test_options_effects"], False)):
        for options in (
            poptorch.Options().sourceLocationExcludes(excludes),
            poptorch.Options().appendToLocationExcludes(*excludes),
        ):
            with pytest.raises(poptorch.Error) as raised:
                poptorch.inferenceModel(fails, options)(torch.ones(2))
            assert ("test_options_effects.py" in raised.value.message) == named


@pytest.mark.shows("Options.autoRoundNumIPUs")
@pytest.mark.edge("22.55")
def test_idle_ipus_are_reported(capfd):
    class Three(torch.nn.Module):
        def forward(self, x):
            for ipu in range(3):
                poptorch.Block.start(f"b{ipu}", ipu_id=ipu)
                x = x * 2
            return x

    options = poptorch.Options().autoRoundNumIPUs().setExecutionStrategy(poptorch.ShardedExecution())
    poptorch.inferenceModel(Three(), options)(torch.ones(2))
    assert "4 IPUs are reserved, 1 of them stay idle: the model uses 3" in capfd.readouterr().err


@pytest.mark.shows("Options._Popart.set")
def test_back_end_settings_that_disagree_with_the_chosen_ones_are_named_with_what_becomes_of_them(capfd):
    options = poptorch.Options().replicationFactor(2)
    for key, value in (
        ("enablePipelining", True),  # one IPU
        ("enableReplicatedGraphs", False),
        ("constantWeights", False),  # agrees
        ("globalReplicationFactor", 5),
        ("logDir", "x"),
        ("virtualGraphMode", 1),
    ):
        options._Popart.set(key, value)
    poptorch.inferenceModel(torch.nn.Linear(2, 2), options)(torch.ones(2, 2))
    ignored = "%s: your value %d is ignored, this model runs with %d, which poptorch chooses."
    assert re.findall(r"\[poptorch:cpp\] \[warning\] (.*)", capfd.readouterr().err) == [
        'logDir: the value of _Popart.set("logDir", ...) is ignored. Use Options.logDir.',
        "enablePipelining: your value 1 is kept, 0, which poptorch chooses for this model, is ignored.",
        ignored % ("virtualGraphMode", 1, 2),
        ignored % ("globalReplicationFactor", 5, 2),
        ignored % ("enableReplicatedGraphs", 0, 1),
    ]
    assert options._Popart.options["globalReplicationFactor"] == 5


def two_stages(x):
    with poptorch.Block("a", ipu_id=0):
        x = x * 2
    with poptorch.Block("b", ipu_id=1):
        return x + 1


def test_pipelining_can_be_switched_by_the_back_end_setting(capfd):
    options = poptorch.Options()
    options._Popart.set("enablePipelining", False)
    run = poptorch.inferenceModel(two_stages, options)
    run(torch.ones(1))  # as a pipeline it needs a device iteration for each stage
    assert "enablePipelining: your value 0 is kept, 1, which poptorch" in capfd.readouterr().err
    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    options._Popart.set("enablePipelining", True)
    with pytest.raises(poptorch.Error, match="device iterations"):
        poptorch.inferenceModel(two_stages, options)(torch.ones(1))


@pytest.mark.parametrize(
    "given, text",
    [
        (
            {"product_partial": "half"},
            "unknown setting .*: 'product_partial' of the compiler; known are .*product_partials",
        ),
        ({"location_weight": {"onchip": 1}}, "'onchip' of location_weight; known are minElementsForOffChip, .*onChip"),
        ({"io_tiles": "32"}, "wrong kind of data .*: 'io_tiles' of the compiler"),
    ],
)
def test_a_setting_that_the_compiler_does_not_read_is_an_error(given, text, monkeypatch):
    known = compilation.inspection.compile_settings
    monkeypatch.setattr(compilation.inspection, "compile_settings", lambda options: {**known(options), **given})
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(torch.nn.Linear(2, 2))(torch.ones(1, 2))
