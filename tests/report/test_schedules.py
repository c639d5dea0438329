"""The time of programs as they are scheduled against the short formulas of docs/device-model.md."""

import pytest
import torch

from ipu_core import _native
import poptorch

STAGES, WIDTH, ROWS = 4, 256, 64


class Layers(torch.nn.Module):
    """A layer on each stage, the loss on the last one."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(STAGES))

    def forward(self, x, target=None):
        for number, layer in enumerate(self.layers):
            poptorch.Block.start(f"B{number}", ipu_id=number)
            x = torch.relu(layer(x))
        return x if target is None else (x, poptorch.identity_loss(torch.sum((x - target) ** 2), "sum"))


def options_of(strategy, **changes):
    options = poptorch.Options().useOfflineIpuTarget().connectionType(poptorch.ConnectionType.Never)
    options.setExecutionStrategy(strategy).showCompilationProgressBar(False)
    for name, value in changes.items():
        getattr(options, name)(value)
    return options


def inference(strategy, micro_batches):
    with torch.device("meta"):
        module = Layers().half().eval()
    wrapper = poptorch.inferenceModel(module, options_of(strategy, deviceIterations=micro_batches))
    wrapper.compile(torch.empty(ROWS * micro_batches, WIDTH, dtype=torch.half, device="meta"))
    return wrapper.report().to_dict()["time"]


def training(micro_batches, replicas=1):
    with torch.device("meta"):
        module = Layers().half().train()
    options = options_of(poptorch.PipelinedExecution(), replicationFactor=replicas)
    options.Training.gradientAccumulation(micro_batches)
    optimizer = poptorch.optim.SGD(module.parameters(), lr=0.1, momentum=0.9)
    wrapper = poptorch.trainingModel(module, options, optimizer)
    x = torch.empty(ROWS * micro_batches * replicas, WIDTH, dtype=torch.half, device="meta")
    wrapper.compile(x, x)
    return wrapper.report().to_dict()["time"]


def busy(time):
    return [ipu["busy"]["total"] for ipu in time["ipus"]]


def test_a_pipeline_of_inference_takes_its_micro_batches_and_three_quarters_of_its_fill():
    few, many = (inference(poptorch.PipelinedExecution(), count)["cycles"] for count in (16, 32))
    time = inference(poptorch.PipelinedExecution(), 16)
    cycle = max(busy(time)) / 16
    assert (many - few) / 16 == pytest.approx(cycle, rel=0.1)
    assert 16 * cycle <= time["cycles"] <= (16 + STAGES - 1) * (many - few) / 16 + 1
    assert time["cycles"] == pytest.approx((16 + 0.75 * (STAGES - 1)) * cycle, rel=0.1)


def test_a_pipeline_of_training_takes_its_micro_batches_its_fill_and_the_update():
    few, many = training(16), training(32)
    cycle = (many["cycles"] - few["cycles"]) / 16
    works = [(b - a) / 16 for a, b in zip(busy(few), busy(many))]
    update = max(a - 16 * work for a, work in zip(busy(few), works))
    assert cycle == pytest.approx(max(works), rel=0.2) and update > 0
    depth = 2 * STAGES - 1
    assert few["cycles"] == pytest.approx((16 + 0.75 * (depth - 1)) * cycle + update, rel=0.15)


def test_shards_take_turns():
    time = inference(poptorch.ShardedExecution(), 8)
    copies = sum(of["cycles"]["total"] for of in time["kinds"] if of["what"] == "ipu_copy") / 2
    assert time["cycles"] == sum(busy(time)) - copies  # which take both IPUs at once
    assert time["cycles"] == pytest.approx(8 * inference(poptorch.ShardedExecution(), 1)["cycles"], rel=0.05)


def test_phases_on_one_ipu_are_the_sum_of_their_operations():
    phases = poptorch.SerialPhasedExecution(*(poptorch.Phase(f"B{number}") for number in range(STAGES)))
    time = inference(phases, 1)
    assert time["cycles"] >= sum(of["cycles"]["total"] for of in time["kinds"]) / len(time["ipus"])
    for ipu in time["ipus"]:
        assert ipu["busy"]["total"] + ipu["waiting"] == time["cycles"]


def test_gradients_of_replicas_take_a_ring():
    replicas, parameters = 4, WIDTH * WIDTH + WIDTH
    alone, many = (training(16, count)["ipus"][0]["busy"]["links"] for count in (1, replicas))
    of = _native.machine_numbers("pod16")
    number = {name: of[name][0] for name in ("clock_hz", "link_bytes_per_second", "link_rung_seconds")}
    step = number["link_rung_seconds"] + min(of["ring_step_seconds"][0], replicas * of["small_step_ipu_seconds"][0])
    for_bytes = 2 * (replicas - 1) / replicas * 4 * parameters / number["link_bytes_per_second"]
    seconds = for_bytes + 2 * (replicas - 1) * step
    assert many - alone == pytest.approx(seconds * number["clock_hz"], rel=1e-3)
