"""Parameters and buffers of every kind: shared, views, frozen, parametrised, written in forward, updated by the host."""

import pytest
import torch
import torch.nn.functional as F
from reference import compare_training
from torch import nn
from torch.nn.utils import parametrizations

import poptorch


def train(make, *shapes, steps=5, classes=None):
    def inputs(count, generator):
        tensors = [torch.randn(shape, generator=generator) for shape in shapes]
        if classes is not None:
            tensors[0] = torch.randint(0, classes, shapes[0], generator=generator)
        return tuple(tensors)

    compare_training(
        make,
        inputs,
        lambda net, optimizer: poptorch.trainingModel(
            net, poptorch.Options().outputMode(poptorch.OutputMode.All), optimizer
        ),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.5),
        1,
        1,
        steps,
    )


class Regression(nn.Module):
    def __init__(self, *layers):
        super().__init__()
        self.net = nn.Sequential(*layers)

    def forward(self, x, y):
        return F.mse_loss(self.net(x), y)


# --- parameters ---


class Views(nn.Module):
    def __init__(self):
        super().__init__()
        whole = torch.randn(6, 4)
        self.first = nn.Parameter(whole[:3])
        self.turned = nn.Parameter(torch.randn(4, 3).t())
        self.register_buffer("rest", whole[3:])

    def forward(self, x, y):
        return F.mse_loss(x @ self.first.t() + x @ self.turned.t() + x @ self.rest.t(), y)


class Lists(nn.Module):
    def __init__(self):
        super().__init__()
        self.list = nn.ParameterList([nn.Parameter(torch.randn(3, 4) / 2) for _ in range(3)])
        self.dict = nn.ParameterDict({"a": nn.Parameter(torch.randn(3)), "b": nn.Parameter(torch.randn(3))})
        self.modules_ = nn.ModuleDict({"x": nn.ModuleList([nn.Linear(3, 3)])})
        self.register_parameter("nothing", None)
        self.register_buffer("no_buffer", None)

    def forward(self, x, y):
        out = sum(x @ weight.t() for weight in self.list) + self.dict["a"] * self.dict["b"]
        return F.mse_loss(self.modules_["x"][0](out), y)


def frozen():
    model = Regression(nn.Linear(4, 4), nn.Tanh(), nn.Linear(4, 3))
    model.net[0].weight.requires_grad_(False)
    return model


@pytest.mark.parametrize(
    "make",
    [
        Views,
        Lists,
        frozen,
        lambda: Regression(parametrizations.weight_norm(nn.Linear(4, 3))),
        lambda: Regression(parametrizations.weight_norm(nn.Linear(4, 3), dim=1)),
        lambda: Regression(parametrizations.weight_norm(nn.Linear(4, 3), dim=None)),
        lambda: Regression(nn.Linear(4, 4), parametrizations.spectral_norm(nn.Linear(4, 3)).eval()),
    ],
    ids=["views", "lists", "frozen", "weight norm", "weight norm 1", "weight norm all", "spectral norm"],
)
def test_parameters_train_as_in_torch(make):
    train(make, (5, 4), (5, 3))


class Embedded(nn.Module):
    def __init__(self, **arguments):
        super().__init__()
        self.table = nn.Embedding(7, 4, **arguments)

    def forward(self, index, y):
        return F.mse_loss(self.table(index), y)


@pytest.mark.parametrize("padding", [None, 2, -1])
def test_embeddings_train_as_in_torch(padding):
    train(lambda: Embedded(padding_idx=padding), (9,), (9, 4), classes=7)


# --- buffers that forward writes ---


class Averages(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(3))
        self.register_buffer("steps", torch.zeros((), dtype=torch.int64))
        self.register_buffer("seen", torch.zeros(3, dtype=torch.bool))
        self.register_buffer("scale", torch.ones(3), persistent=False)

    def forward(self, x, y):
        out = self.fc(x)
        self.mean.mul_(0.9).add_(out.detach().mean(0), alpha=0.1)
        self.steps += 1
        self.seen.logical_or_((out > 1).any(0))
        self.scale.copy_(1 / self.steps)
        return F.mse_loss((out + self.mean) * self.scale, y)


def test_written_buffers_keep_their_values_from_call_to_call():
    train(Averages, (5, 4), (5, 3))


class InTwoStages(nn.Module):
    """State that one stage writes and another reads, or that is written and trained."""

    def __init__(self, ipus=1):
        super().__init__()
        self.first, self.second = nn.Linear(4, 4), nn.Linear(4, 3)
        self.register_buffer("mean", torch.zeros(4))
        self.register_buffer("steps", torch.tensor(0))
        self.ipus = ipus

    def forward(self, x, y):
        poptorch.Block.start("first", ipu_id=0)
        with torch.no_grad():
            self.first.weight.clamp_(-0.3, 0.3)
            self.second.weight[0].mul_(0.9)
        self.steps += 1
        hidden = torch.tanh(self.first(x))
        self.mean.mul_(0.9).add_(hidden.detach().mean(0), alpha=0.1)
        poptorch.Block.start("second", ipu_id=self.ipus - 1)
        return F.mse_loss(self.second(hidden - self.mean) * (1 + 0.1 * self.steps), y)


@pytest.mark.parametrize("recompute", ["0", "1"])
@pytest.mark.parametrize(
    "strategy, ipus, iterations, accumulation",
    [
        (poptorch.PipelinedExecution, 1, 3, 4),
        (poptorch.ShardedExecution, 2, 2, 3),
        (poptorch.PipelinedExecution, 2, 2, 5),
    ],
)
def test_written_state_is_the_same_in_every_plan(strategy, ipus, iterations, accumulation, recompute, monkeypatch):
    monkeypatch.setenv("POPTORCH_EXECUTE_RECOMPUTE", recompute)
    options = poptorch.Options().deviceIterations(iterations).outputMode(poptorch.OutputMode.All)
    options.setExecutionStrategy(strategy())
    options.Training.gradientAccumulation(accumulation)
    compare_training(
        lambda: InTwoStages(ipus),
        lambda count, generator: (
            torch.randn(5 * count, 4, generator=generator),
            torch.randn(5 * count, 3, generator=generator),
        ),
        lambda net, optimizer: poptorch.trainingModel(net, options, optimizer),
        lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9),
        iterations,
        accumulation,
        6,
    )


def evaluated():
    model = Regression(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model.net[1].running_mean.uniform_(-1, 1)
    model.net[1].eval()
    return model


def frozen_norm():
    model = Regression(nn.Linear(4, 4), nn.BatchNorm1d(4))
    model.net[1].requires_grad_(False)
    return model


@pytest.mark.parametrize(
    "make",
    [
        lambda: Regression(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None)),
        lambda: Regression(nn.Linear(4, 4), nn.BatchNorm1d(4, track_running_stats=False)),
        lambda: Regression(nn.Linear(4, 4), nn.BatchNorm1d(4, affine=False, momentum=None)),
        evaluated,
        frozen_norm,
    ],
    ids=["cumulative", "without statistics", "cumulative, plain", "evaluated", "frozen"],
)
def test_batch_norm_of_every_kind(make):
    train(make, (6, 4), (6, 4))


# --- buffers that the host changes ---


class Shifts(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("shift", torch.ones(3))
        self.register_buffer("steps", torch.tensor([1, 2, 3]))
        self.register_buffer("other", torch.ones(3))

    def forward(self, x):
        return x * self.shift + self.steps + self.other


def change(model):
    model.shift.fill_(2)
    model.steps.fill_(7)
    model.other.fill_(100)


@pytest.mark.shows("Options.updatableNamedBuffers", "PoplarExecutor.copyNamedBuffersToDevice")
def test_updatable_buffers_of_every_type_reach_the_device_alone():
    model = Shifts()
    wrapper = poptorch.inferenceModel(model, poptorch.Options().updatableNamedBuffers(["shift", "steps"]))
    assert wrapper(torch.ones(3)).tolist() == [3, 4, 5]
    change(model)
    assert wrapper(torch.ones(3)).tolist() == [3, 4, 5]
    wrapper.copyNamedBuffersToDevice()
    assert wrapper(torch.ones(3)).tolist() == [10, 10, 10]
    wrapper.copyWeightsToDevice()
    assert wrapper(torch.ones(3)).tolist() == [109, 109, 109]


@pytest.mark.edge("22.7")
def test_integer_buffers_nobody_writes_are_constants():
    model = Shifts()
    wrapper = poptorch.inferenceModel(model)
    wrapper(torch.ones(3))
    change(model)
    wrapper.copyWeightsToDevice()
    assert wrapper(torch.ones(3)).tolist() == [103, 104, 105]


def test_the_value_of_an_updatable_integer_buffer_is_not_known_in_forward():
    class Branching(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("steps", torch.tensor(1))

        def forward(self, x):
            return x if self.steps.item() == 1 else -x

    assert poptorch.inferenceModel(Branching())(torch.ones(2)).tolist() == [1, 1]
    wrapper = poptorch.inferenceModel(Branching(), poptorch.Options().updatableNamedBuffers(["steps"]))
    with pytest.raises(poptorch.Error, match="value needed"):
        wrapper(torch.ones(2))


@pytest.mark.shows("PoplarExecutor.copyWeightsToHost")
@pytest.mark.edge("22.45")
def test_buffers_written_in_inference_come_back_when_asked_for():
    class Counting(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("count", torch.zeros(1))

        def forward(self, x):
            return x + self.count.add_(1)

    model = Counting()
    wrapper = poptorch.inferenceModel(model)
    wrapper(torch.ones(2))
    assert wrapper(torch.ones(2)).tolist() == [3, 3]
    assert model.count.item() == 0
    wrapper.copyWeightsToHost()
    assert model.count.item() == 2


def test_grouping_of_a_parameter_that_was_replaced_is_an_error():
    model = torch.nn.Linear(2, 2)
    predict = poptorch.inferenceModel(model)
    grouping = predict.weight.replicaGrouping
    model.weight = torch.nn.Parameter(torch.ones(2, 2))
    with pytest.raises(poptorch.Error, match="replicaGrouping of 'weight': its parameter is gone"):
        grouping(poptorch.CommGroupType.All, 0, poptorch.VariableRetrievalMode.OnePerGroup)
