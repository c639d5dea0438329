"""The report on a compiled model: what it says, and that it is one object whichever way it is asked for."""

import json

import pytest
import torch

import poptorch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(16, 32)
        self.second = torch.nn.Linear(32, 4)

    def forward(self, x):
        with poptorch.Block("front", ipu_id=0):
            x = torch.relu(self.first(x))
        with poptorch.Block("back", ipu_id=1):
            return self.second(x)


def compiled(batch=8, device_iterations=1, io_tiles=0):
    options = poptorch.Options().deviceIterations(device_iterations)
    if io_tiles:
        options.TensorLocations.numIOTiles(io_tiles)
    options.setExecutionStrategy(poptorch.ShardedExecution())
    options.connectionType(poptorch.ConnectionType.Never)
    options.useOfflineIpuTarget()
    torch.manual_seed(0)
    model = poptorch.inferenceModel(Net().eval(), options)
    model.compile(torch.zeros(batch * device_iterations, 16))
    return model


def test_a_report_needs_a_compiled_model():
    with pytest.raises(poptorch.Error, match="report: the model has not been compiled.*compile.. first"):
        poptorch.inferenceModel(Net()).report()


def test_figures_of_a_report_are_those_of_its_json():
    report = compiled(8, 3).report()
    assert isinstance(report, poptorch.Report)
    figures = json.loads(report.json())
    assert figures == report.to_dict() and figures["schema"] == "poptorch.report" and figures["version"] == 2
    assert report.cycles == figures["time"]["cycles"] > 0 and report.seconds == figures["time"]["seconds"] > 0
    assert report.milliseconds == 1e3 * report.seconds
    assert report.machine == "pod16" and report.fits and not report.is_maximum
    assert list(report.busy) == list(report.memory) == [0, 1]
    assert sum(report.busy.values()) == sum(of["cycles"]["total"] for of in figures["time"]["kinds"])
    assert max(report.memory.values()) == figures["verdict"]["bytes"] > 0 and report.streaming_bytes == 0
    assert report.verdict == "fits" and figures["memory"]["ipus"][0]["logical"]["variables"] == 4 * (16 * 32 + 32)
    assert figures["program"]["samples"] == 24 and figures["program"]["micro_batches"] == 3
    assert report.samples_per_second == pytest.approx(24 / report.seconds)
    assert report.guessed == [of["what"] for of in figures["time"]["guesses"]]
    assert repr(report).startswith(f"Report({report.cycles} cycles, ")


def test_the_text_names_lines_and_modules_of_the_user():
    text = str(compiled().report())
    assert text.startswith("fits: IPU ") and "a run takes " in text.splitlines()[1] and " on pod16, " in text
    assert "test_report.py:" in text and "first" in text and "  IPU 1: busy " in text
    assert "[8, 16] x [16, 32] at " in text and "    chosen: " in text


def test_io_tiles_compute_nothing():
    whole, fewer = (compiled(1000, io_tiles=number).report() for number in (0, 192))
    assert fewer.to_dict()["program"]["io_tiles"] == 192 and ", 192 I/O tiles on each" in str(fewer)
    assert whole.to_dict()["program"]["io_tiles"] == 0 and "I/O tiles" not in str(whole)
    assert fewer.cycles > whole.cycles
    for product in fewer.to_dict()["products"]:
        assert product["chosen"]["tiles"] <= 1472 - 192


def test_equal_programs_have_equal_reports_and_other_machines_other_prices():
    model = compiled()
    assert model.report().json() == compiled().report().json()
    bow = model.report(machine="bow-pod16")
    assert bow.machine == "bow-pod16" and bow.seconds < model.report().seconds
    with pytest.raises(poptorch.Error, match=r"unknown machine 'pod61' \(did you mean 'pod64'\?\)"):
        model.report(machine="pod61")


def test_a_path_is_a_machine_of_its_own(tmp_path):
    slow = tmp_path / "slow.json"
    slow.write_text('{"inherits": "pod16", "clock_hz": 665e6}')
    model = compiled()
    assert model.report(machine=slow).machine == "slow" and model.report(machine=slow).seconds > model.report().seconds


def test_inputs_that_differ_do_not_say_how_many_samples_there_are():
    for second, samples in ((torch.zeros(5), 0), (torch.zeros(3, 2), 3), ((torch.zeros(3), torch.zeros(2)), 0)):
        model = poptorch.inferenceModel(
            lambda x, y: x.sum() + (sum(part.sum() for part in y) if isinstance(y, tuple) else y.sum())
        )
        model.compile(torch.zeros(3), second)
        report = model.report()
        assert report.to_dict()["program"]["samples"] == samples
        assert (report.samples_per_second is None) == (samples == 0)


def test_a_training_is_reported_with_its_micro_batches():
    class Training(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.net = torch.nn.Linear(16, 4)

        def forward(self, x):
            return poptorch.identity_loss(self.net(x), "mean")

    options = poptorch.Options()
    options.Training.gradientAccumulation(5)
    options.useOfflineIpuTarget()
    module = Training()
    model = poptorch.trainingModel(module, options, torch.optim.SGD(module.parameters(), lr=0.1))
    model.compile(torch.zeros(10, 16))
    figures = model.report().to_dict()
    assert figures["program"]["micro_batches"] == 5 and figures["program"]["samples"] == 10


def test_a_model_on_meta_is_reported_as_with_values():
    options = poptorch.Options().replicationFactor(2)
    options.useOfflineIpuTarget()
    reports = []
    for device in ("cpu", "meta"):
        model = poptorch.inferenceModel(torch.nn.Linear(4, 2, device=device), options)
        model.compile(torch.zeros(6, 4, device=device))
        reports.append(model.report().to_dict())
    assert reports[0] == reports[1]
    assert reports[0]["program"]["replicas"] == 2 and reports[0]["program"]["samples"] == 6


class Pair(torch.nn.Module):
    """Two convolutions, one of twice as many channels, in a MultiConv of a plan; None: in none."""

    def __init__(self, plan):
        super().__init__()
        self.wide, self.narrow = torch.nn.Conv2d(16, 32, 3), torch.nn.Conv2d(16, 16, 3)
        self.plan = plan

    def forward(self, x):
        if self.plan is None:
            return self.wide(x), self.narrow(x)
        with poptorch.MultiConv().planType(self.plan):
            return self.wide(x), self.narrow(x)


def convolutions_of(plan):
    options = poptorch.Options().connectionType(poptorch.ConnectionType.Never).useOfflineIpuTarget()
    model = poptorch.inferenceModel(Pair(plan).eval(), options)
    model.compile(torch.zeros(1, 16, 10, 10))
    report = model.report().to_dict()
    (kind,) = (kind for kind in report["time"]["kinds"] if kind["what"] == "conv")
    return kind["cycles"]["total"], [product["chosen"] for product in report["products"]]


def test_convolutions_of_a_multi_conv_share_the_tiles():
    together, plans = convolutions_of(poptorch.MultiConvPlanType.Parallel)
    alone, _ = convolutions_of(None)
    assert sum(plan["tiles"] for plan in plans) <= 1472
    assert together < alone
    assert convolutions_of(poptorch.MultiConvPlanType.Serial)[0] == alone
