"""Replicas: the numbers of plain torch on the combined batch, whatever the plan; buffers, groups of inputs and weights."""

import itertools
import copy
import re
import resource

import pytest
import torch
from models import Cnn, Mlp
from reference import compare_training

import poptorch
from poptorch import CommGroupType, OutputMode, VariableRetrievalMode

PLANS = {
    "one IPU": (1, poptorch.ShardedExecution),
    "sharded": (2, poptorch.ShardedExecution),
    "pipelined": (2, poptorch.PipelinedExecution),
}


def options_of(replicas=1, iterations=1, accumulation=1, strategy=poptorch.ShardedExecution):
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    options.setExecutionStrategy(strategy()).outputMode(OutputMode.All).showCompilationProgressBar(False)
    options.Training.gradientAccumulation(accumulation)
    return options


def adamw(parameters):
    return torch.optim.AdamW(parameters, lr=0.01, weight_decay=0.1)


def momentum(parameters):
    return torch.optim.SGD(parameters, lr=0.05, momentum=0.9)


QUICK_BATCHINGS = [(2, 1, 1), (4, 1, 3), (1, 4, 3), (2, 4, 1), (4, 4, 3)]  # in the default tier
# (replicas, accumulation, iterations)
BATCHINGS = [
    pytest.param(*batching, marks=() if batching in QUICK_BATCHINGS else pytest.mark.slow)
    for batching in itertools.product((1, 2, 4), (1, 4, 8), (1, 3))
]


@pytest.mark.parametrize("make_optimizer", [momentum, adamw], ids=["SGD momentum", "AdamW"])
@pytest.mark.parametrize("replicas, accumulation, iterations", BATCHINGS)
@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.edge("22.19")
def test_training_is_plain_torch_on_the_combined_batch(plan, replicas, accumulation, iterations, make_optimizer):
    ipus, strategy = PLANS[plan]
    options = options_of(replicas, iterations, accumulation, strategy)
    if strategy is poptorch.PipelinedExecution and accumulation < 2 * ipus - 1:
        model = Mlp(ipus)
        trainer = poptorch.trainingModel(model, options, momentum(model.parameters()))
        with pytest.raises(poptorch.Error, match=r"gradientAccumulation.* at least 3"):
            trainer(*Mlp.inputs(iterations * accumulation * replicas, torch.Generator()))
        return
    compare_training(
        lambda: Mlp(ipus),
        Mlp.inputs,
        lambda model, optimizer: poptorch.trainingModel(model, options, optimizer),
        make_optimizer,
        iterations,
        accumulation * replicas,
    )


@pytest.mark.parametrize("combined", [False, True])
def test_convolutions_and_both_variants_of_sgd(combined):
    options = options_of(2, 1, 4, poptorch.PipelinedExecution)

    def make_trainer(model, optimizer):
        optimizer = poptorch.optim.SGD(
            model.parameters(), lr=0.05, momentum=0.9, weight_decay=0.01, use_combined_accum=combined
        )
        return poptorch.trainingModel(model, options, optimizer)

    compare_training(
        lambda: Cnn(2),
        Cnn.inputs,
        make_trainer,
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9, weight_decay=0.01),
        1,
        8,
    )


@pytest.mark.shows("ReductionType", "Options.Training.accumulationAndReplicationReductionType")
def test_sum_reduction_adds_over_replicas_and_micro_batches():
    torch.manual_seed(0)
    model = Mlp()
    plain = copy.deepcopy(model)
    options = options_of(2, 1, 3)
    options.Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.01))
    x, y = Mlp.inputs(6, torch.Generator().manual_seed(1))
    trainer(x, y)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01)
    for part, target in zip(x.chunk(6), y.chunk(6)):
        plain(part, target)[1].backward()
    optimizer.step()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-6)


class Identity(torch.nn.Module):
    def forward(self, x):
        return x * 1.0


def test_rows_go_by_iteration_then_replica():
    x = torch.arange(12.0).reshape(12, 1)
    runner = poptorch.inferenceModel(Identity(), options_of(2, 2))
    assert torch.equal(runner(x), x)
    final = poptorch.inferenceModel(Identity(), options_of(2, 2).outputMode(OutputMode.Final))
    assert final(x).flatten().tolist() == [6, 7, 8, 9, 10, 11]
    total = poptorch.inferenceModel(Identity(), options_of(2, 2).outputMode(OutputMode.Sum))
    assert total(x).flatten().tolist() == [6, 8, 10, 12, 14, 16]


@pytest.mark.parametrize(
    "kind, order", [(CommGroupType.Consecutive, [0, 0, 1, 1]), (CommGroupType.Orthogonal, [0, 1, 0, 1])]
)
@pytest.mark.parametrize("iterations", [1, 2])
@pytest.mark.shows("CommGroupType", "Options.inputReplicaGrouping")
@pytest.mark.edge("22.58")
def test_replicas_of_an_input_group_read_the_same_rows(kind, order, iterations):
    options = options_of(4, iterations).inputReplicaGrouping(2, kind)
    x = torch.arange(2.0 * iterations).reshape(-1, 1)
    want = [float(2 * iteration + group) for iteration in range(iterations) for group in order]
    assert poptorch.inferenceModel(Identity(), options)(x).flatten().tolist() == want


def test_an_input_written_by_grouped_replicas_comes_back_once():
    class Doubles(torch.nn.Module):
        def forward(self, x):
            x.mul_(2)
            return x.sum()

    options = options_of(4).inputReplicaGrouping(2, CommGroupType.Consecutive)
    x = torch.arange(4.0).reshape(4, 1)
    poptorch.inferenceModel(Doubles(), options)(x)
    assert x.flatten().tolist() == [0, 2, 4, 6]


def test_grouped_inputs_train_like_their_groups():
    torch.manual_seed(0)
    model = Mlp()
    plain = copy.deepcopy(model)
    options = options_of(4, 1, 2).inputReplicaGrouping(2, CommGroupType.Orthogonal)
    trainer = poptorch.trainingModel(model, options, momentum(model.parameters()))
    x, y = Mlp.inputs(4, torch.Generator().manual_seed(1))
    optimizer = momentum(plain.parameters())
    for _ in range(3):
        trainer(x, y)
        optimizer.zero_grad()
        plain(x, y)[1].backward()
        optimizer.step()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(ours.detach(), theirs.detach(), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "arguments, error, message",
    [
        ((8, CommGroupType.Consecutive), ValueError, "a group of 8 replicas does not fit replicationFactor 4"),
        ((3, CommGroupType.Consecutive), ValueError, "replicationFactor 4 is not a multiple of the group size 3"),
        ((2, CommGroupType.All), ValueError, "does not take poptorch.CommGroupType.All"),
        ((2.0, CommGroupType.Consecutive), AssertionError, "input_group_size must be an int, got float"),
        ((2, "Consecutive"), AssertionError, "input_group_type must be a poptorch.CommGroupType, got str"),
    ],
)
@pytest.mark.edge("22.22")
def test_input_groups_that_do_not_fit_are_refused(arguments, error, message):
    with pytest.raises(error, match=re.escape(message)):
        poptorch.Options().replicationFactor(4).inputReplicaGrouping(*arguments)


def test_no_grouping_is_stored_as_groups_of_one():
    options = poptorch.Options().replicationFactor(4).inputReplicaGrouping(4, CommGroupType.NoGrouping)
    assert (options.input_group_size, options.input_cgt) == (1, CommGroupType.Consecutive)


class Counter(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("total", torch.zeros(1))

    def forward(self, x):
        self.total.add_(x.sum())
        return x + self.total


@pytest.mark.edge("22.38")
def test_a_written_buffer_under_replication_needs_broadcast_buffers_false():
    runner = poptorch.inferenceModel(Counter(), options_of(2))
    with pytest.raises(poptorch.Error) as caught:
        runner(torch.ones(2, 1))
    assert caught.value.message.split("\n")[:2] == [
        "buffers cannot be broadcast [IPU-E109]: forward writes the buffer 'total' in place, and 2 groups of "
        "replicas with inputs of their own would each write another value.",
        "  try:      Options.broadcastBuffers(False): each replica keeps its own value, and one of them is read back",
    ]
    assert caught.value.type == "poptorch_cpp_error"


def test_a_written_buffer_is_fine_when_all_replicas_get_the_same_input():
    options = options_of(2).inputReplicaGrouping(2, CommGroupType.Consecutive)
    assert poptorch.inferenceModel(Counter(), options)(torch.ones(1, 1)).flatten().tolist() == [2, 2]


@pytest.mark.shows("Options.broadcastBuffers")
def test_without_broadcast_each_replica_keeps_its_own_buffer():
    model = Counter()
    runner = poptorch.inferenceModel(model, options_of(2, 2).broadcastBuffers(False))
    x = torch.tensor([[1.0], [10.0], [2.0], [20.0]])
    assert runner(x).flatten().tolist() == [2, 20, 5, 50]
    runner.copyWeightsToHost()
    assert model.total.tolist() == [3]  # of one replica
    runner.copyWeightsToDevice()  # all replicas get the host's value
    assert runner(torch.zeros(4, 1)).flatten().tolist() == [3, 3, 3, 3]


def test_weights_that_are_never_written_are_stored_once():
    megabytes = 16
    model = torch.nn.Linear(2048, 2048, bias=False)  # 16 MiB
    runner = poptorch.inferenceModel(model, options_of(8).connectionType(poptorch.ConnectionType.OnDemand))
    runner.compile(torch.randn(8, 2048))

    def resident():
        with open("/proc/self/statm") as file:
            return int(file.read().split()[1]) * resource.getpagesize() / 2**20

    before = resident()
    runner.attachToDevice()
    assert resident() - before < 3 * megabytes


@pytest.mark.parametrize("threads", ["1", "2", "8"])
def test_results_do_not_depend_on_threads(threads, monkeypatch):
    def run(count):
        monkeypatch.setenv("POPTORCH_HOST_THREADS", count)
        torch.manual_seed(0)
        model = Cnn(2)
        trainer = poptorch.trainingModel(
            model, options_of(4, 2, 4, poptorch.PipelinedExecution), momentum(model.parameters())
        )
        inputs = Cnn.inputs(32, torch.Generator().manual_seed(2))
        losses = torch.cat([trainer(*inputs)[1] for _ in range(3)])
        return losses, [p.detach().clone() for p in model.parameters()]

    (losses, weights), (expected_losses, expected_weights) = run(threads), run("1")
    assert torch.equal(losses, expected_losses)
    assert all(torch.equal(a, b) for a, b in zip(weights, expected_weights))


# --- weights that differ between groups of replicas ---


class Scale(torch.nn.Module):
    def __init__(self, groups):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.arange(1.0, groups + 1).reshape(groups, 1) * torch.ones(groups, 2))
        self.layer = torch.nn.Linear(2, 2)

    def forward(self, x, y=None):
        out = x * self.weight
        return out if y is None else (out, torch.nn.functional.mse_loss(out, y))


@pytest.mark.parametrize(
    "kind, shards, of_replica",
    [
        (CommGroupType.All, 0, [0, 0, 0, 0]),
        (CommGroupType.Consecutive, 2, [0, 0, 1, 1]),
        (CommGroupType.Orthogonal, 2, [0, 1, 0, 1]),
        (CommGroupType.NoGrouping, 0, [0, 1, 2, 3]),
    ],
)
@pytest.mark.parametrize("mode", list(VariableRetrievalMode))
@pytest.mark.shows("VariableRetrievalMode")
def test_each_group_trains_its_own_value(kind, shards, of_replica, mode):
    groups = max(of_replica) + 1
    model = Scale(groups)
    start = model.weight.detach().clone()
    x, y = torch.randn(4, 2), torch.randn(4, 2)
    trainer = poptorch.trainingModel(model, options_of(4), momentum(model.parameters()))
    assert trainer.weight.replicaGrouping(kind, shards, mode) is None
    out = trainer(x, y)[0]
    values = start[of_replica]
    torch.testing.assert_close(out, x * values)
    velocity = torch.zeros_like(start)
    for step in range(3):
        if step > 0:
            trainer(x, y)
        for group in range(groups):
            mine = [r for r in range(4) if of_replica[r] == group]
            weight = start[group].clone().requires_grad_()
            (torch.stack([torch.nn.functional.mse_loss(x[r] * weight, y[r]) for r in mine]).sum() / 4).backward()
            velocity[group] = 0.9 * velocity[group] + weight.grad
            start[group] -= 0.05 * velocity[group]
    held = start[of_replica] if mode == VariableRetrievalMode.AllReplicas else start
    torch.testing.assert_close(model.weight.detach(), held, rtol=1e-5, atol=1e-6)
    state = trainer._executable.read_optimizer_state()["Accl1___weight"]
    torch.testing.assert_close(
        state, velocity[of_replica] if mode == VariableRetrievalMode.AllReplicas else velocity, rtol=1e-5, atol=1e-6
    )
    # What was read back is a legal upload, for another wrapper too.
    trainer.detachFromDevice()
    runner = poptorch.inferenceModel(model, options_of(4))
    runner.weight.replicaGrouping(kind, shards, mode)
    torch.testing.assert_close(runner(x), x * start[of_replica], rtol=1e-5, atol=1e-6)


class GivenGradient(torch.nn.Module):
    """Micro-batch x gives the weight of its group the gradient x."""

    def __init__(self, groups):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.zeros(groups, 1))

    def forward(self, x):
        return poptorch.identity_loss(x * self.weight, "sum")


@pytest.mark.parametrize("reduction, divisor", [(poptorch.ReductionType.Mean, 8), (poptorch.ReductionType.Sum, 1)])
@pytest.mark.parametrize("strategy", [poptorch.MeanReductionStrategy.Post, poptorch.MeanReductionStrategy.Running])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("combined", [False, True])
def test_the_mean_of_a_grouped_gradient_divides_by_all_replicas(reduction, divisor, strategy, accumulation, combined):
    if combined and strategy == poptorch.MeanReductionStrategy.Running:
        pytest.skip("the combined variant has no running means")
    model = GivenGradient(4)
    options = options_of(8, 1, accumulation)
    options.Training.accumulationAndReplicationReductionType(reduction)
    options.Training.setMeanAccumulationAndReplicationReductionStrategy(strategy)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, momentum=0.5, use_combined_accum=combined)
    trainer = poptorch.trainingModel(model, options, optimizer)
    trainer.weight.replicaGrouping(CommGroupType.Consecutive, 2, VariableRetrievalMode.OnePerGroup)
    x = torch.arange(1.0, 8 * accumulation + 1).reshape(-1, 1)
    trainer(x)
    by_group = x.reshape(accumulation, 4, 2).sum(dim=(0, 2))
    divisor *= accumulation if reduction == poptorch.ReductionType.Mean else 1
    torch.testing.assert_close(model.weight.detach().flatten(), -by_group / divisor)


def test_clipping_measures_grouped_gradients_as_they_are_used():
    model = GivenGradient(2)
    optimizer = poptorch.optim.SGD(model.parameters(), lr=1.0, max_grad_norm=1.0)
    trainer = poptorch.trainingModel(model, options_of(4), optimizer)
    trainer.weight.replicaGrouping(CommGroupType.Consecutive, 2, VariableRetrievalMode.OnePerGroup)
    trainer(torch.tensor([[0.25], [0.75], [4.0], [8.0]]))
    # (0.25 + 0.75) / 4 is short enough, (4 + 8) / 4 is not.
    torch.testing.assert_close(model.weight.detach().flatten(), torch.tensor([-0.25, -1.0]))


def test_tensor_parallel_layout_pairs_weight_shards_with_data_chunks():
    model = torch.nn.Module()
    model.weight = torch.nn.Parameter(torch.arange(4.0).reshape(4, 1) + 1)
    model.forward = lambda x: x * model.weight
    options = options_of(8).inputReplicaGrouping(4, CommGroupType.Consecutive)
    runner = poptorch.inferenceModel(model, options)
    runner.weight.replicaGrouping(CommGroupType.Orthogonal, 2, VariableRetrievalMode.OnePerGroup)
    x = torch.tensor([[1.0], [10.0]])
    assert runner(x).flatten().tolist() == [1, 2, 3, 4, 10, 20, 30, 40]


def test_only_direct_parameters_have_replica_grouping():
    model = Scale(2)
    runner = poptorch.inferenceModel(model, options_of(2))
    assert hasattr(runner.weight, "replicaGrouping")
    assert runner.weight is model.weight
    assert not hasattr(runner.layer.weight, "replicaGrouping")
    assert getattr(copy.deepcopy(model).weight, "replicaGrouping", None) is None


def test_replica_grouping_refuses_groups_that_do_not_fit_the_parameter():
    model = Scale(2)
    model.scalar = torch.nn.Parameter(torch.tensor(1.0))
    runner = poptorch.inferenceModel(model, options_of(2))
    one = VariableRetrievalMode.OnePerGroup

    def message(call, *arguments):
        with pytest.raises(poptorch.Error) as caught:
            call(*arguments)
        return caught.value.message

    assert message(runner.scalar.replicaGrouping, CommGroupType.NoGrouping, 0, one) == (
        "replicaGrouping of 'scalar': a scalar parameter has no dimension for the groups. Give it a leading dimension."
    )
    assert message(runner.weight.replicaGrouping, CommGroupType.Consecutive, 2, one) == (
        "replicaGrouping of 'weight': the first dimension must be the number of groups, 1; the parameter has shape "
        "[2, 2]."
    )
    assert message(runner.weight.replicaGrouping, CommGroupType.Consecutive, 3, one) == (
        "replicaGrouping of 'weight': 2 replicas cannot be cut into groups of 3. Use a divisor of 2."
    )
    with pytest.raises(AssertionError, match="comm_group_type must be a poptorch.CommGroupType"):
        runner.weight.replicaGrouping("All", 0, one)
    runner.weight.replicaGrouping(CommGroupType.NoGrouping, 0, one)
    runner(torch.ones(2, 2))
    assert message(runner.weight.replicaGrouping, CommGroupType.NoGrouping, 0, one) == (
        "replicaGrouping of 'weight': call it before the first compilation."
    )
