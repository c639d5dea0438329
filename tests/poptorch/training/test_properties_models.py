"""Random models of many kinds on random plans give torch's numbers: layers, element types, several inputs and outputs, state.

What is drawn: layers of one width (products, norms, convolution, embedding, slices, in-place writes, gradients taken
inside forward, a custom backward pass), on which IPU each one runs and by which strategy, batching, replicas, output
mode, what is returned and in which structure, training or inference. Everything drawn is legal.
"""

import copy
import dataclasses
import os

import pytest
import torch
import torch.nn.functional as F
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

import poptorch
from poptorch import OutputMode


class Scaled(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, weight):
        ctx.save_for_backward(x, weight)
        return x * weight

    @staticmethod
    def backward(ctx, gradient):
        x, weight = ctx.saved_tensors
        return gradient * weight, (gradient * x).sum(0) * 0.5


class Convolve(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.conv = torch.nn.Conv1d(1, 2, 3, padding=1)

    def forward(self, x):
        return self.conv(x[:, None]).tanh().sum(1)


class Count(torch.nn.Module):
    """State that every micro-batch changes."""

    def __init__(self, width):
        super().__init__()
        self.register_buffer("count", torch.zeros(()))

    def forward(self, x):
        self.count.add_(1)
        return x + 0.1 * self.count


class Custom(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(0.5, 1.5, width))

    def forward(self, x):
        return Scaled.apply(x, self.weight)


class Slope(torch.nn.Module):
    """Adds the gradient of an energy by its input."""

    def __init__(self, width):
        super().__init__()
        self.weight = torch.nn.Parameter(torch.linspace(-1, 1, width))

    def forward(self, x):
        with torch.enable_grad():
            leaf = x.detach().requires_grad_()
            slope = torch.autograd.grad((leaf * self.weight).tanh().sum(), leaf)[0]
        return x + 0.3 * slope


class Write(torch.nn.Module):
    def __init__(self, width):
        super().__init__()
        self.bias = torch.nn.Parameter(torch.full((1,), 0.2))

    def forward(self, x):
        y = x.clone()
        y[:, 0] = y[:, -1] * 0.5 + self.bias
        y[::2].mul_(0.9)
        return y


class Lambda(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


LAYERS = {
    "linear": lambda d: torch.nn.Sequential(torch.nn.Linear(d, d), torch.nn.Tanh()),
    "no bias": lambda d: torch.nn.Sequential(torch.nn.Linear(d, d, bias=False), torch.nn.Sigmoid()),
    "norm": lambda d: torch.nn.Sequential(torch.nn.LayerNorm(d, eps=1e-1), torch.nn.Linear(d, d)),
    "conv": Convolve,
    "count": Count,
    "custom": Custom,
    "slope": Slope,
    "write": Write,
    "shift": lambda d: Lambda(lambda x: torch.cat([x[:, 1:], x[:, :1]], 1) * 0.7),
    "softmax": lambda d: Lambda(lambda x: x + torch.softmax(x, 1)),
    "leaky": lambda d: Lambda(lambda x: torch.where(x > 0, x, x * 0.2)),
    "detached": lambda d: Lambda(lambda x: x * 0.5 + x.detach().cos()),
}
OUTPUTS = {
    "last": lambda v: v["x"],
    "early": lambda v: v["early"],
    "mean": lambda v: v["x"].mean(),
    "largest": lambda v: v["given"].argmax(1),
    "any": lambda v: (v["given"] > 0).any(1),
    "count": lambda v: (v["given"] > 0).sum(),
    "index": lambda v: v["index"],
    "given": lambda v: v["given"],
    "constant": lambda v: v["given"].new_zeros(()).detach() + v["index"].sum() * 0,
}


class Model(torch.nn.Module):
    def __init__(self, plan):
        super().__init__()
        self.plan = plan
        self.embedding = torch.nn.Embedding(5, plan.width)
        self.layers = torch.nn.ModuleList(LAYERS[kind](plan.width) for kind in plan.layers)

    def forward(self, given, index, late, target=None):
        x = early = None
        for number, (layer, ipu) in enumerate(zip(self.layers, self.plan.ipus)):
            poptorch.Block.start(str(number), ipu_id=ipu)
            if x is None:
                x = early = given.float() + self.embedding(index)
            x = layer(x)
        x = x * late
        values = {"x": x, "early": early, "given": given, "index": index}
        results = [OUTPUTS[name](values) for name in self.plan.outputs]
        if target is not None:
            loss = {"mse": F.mse_loss, "l1": F.smooth_l1_loss}[self.plan.loss]
            results.append(loss(x, target, reduction=self.plan.reduction))
        if self.plan.structure == "dict":
            return {str(number): value for number, value in enumerate(results)}
        return [results[0], tuple(results[1:])] if self.plan.structure == "nested" else tuple(results)


def flat(result):
    return list(poptorch._impl.structures.tensors_of(result))


@dataclasses.dataclass(frozen=True)
class Plan:
    width: int
    layers: tuple
    ipus: tuple
    strategy: str
    outputs: tuple
    structure: str
    loss: str
    reduction: str
    dtype: str
    training: bool
    accumulation: int
    iterations: int
    replicas: int
    mode: OutputMode
    period: int
    rows: int
    optimizer: str
    mean: bool
    calls: int
    seed: int


OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.03),
    "momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.02, momentum=0.9, weight_decay=0.01),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.02, eps=1e-2),
}


def stages_of(ipus):
    return 1 + sum(a != b for a, b in zip(ipus, ipus[1:]))


@st.composite
def plans(draw):
    count = draw(st.integers(1, 5))
    ipus = tuple(draw(st.lists(st.integers(0, 3), min_size=count, max_size=count)))
    strategy = draw(st.sampled_from(["pipelined", "explicit", "increment", "sharded", "sharded explicit"]))
    training = draw(st.booleans())
    stages = stages_of(ipus) if "sharded" not in strategy else 1
    if strategy == "increment":  # `ipu_id` is given, so its stages are those of the others
        stages = stages_of(ipus)
    accumulation = draw(st.integers(2 * stages - 1, 2 * stages + 1)) if training else 1
    iterations = draw(st.integers(1, 3)) if training else draw(st.integers(stages, stages + 2))
    return Plan(
        width=draw(st.integers(2, 6)),
        layers=tuple(draw(st.lists(st.sampled_from(sorted(LAYERS)), min_size=count, max_size=count))),
        ipus=ipus,
        strategy=strategy,
        outputs=tuple(draw(st.lists(st.sampled_from(sorted(OUTPUTS)), min_size=1, max_size=4))),
        structure=draw(st.sampled_from(["tuple", "dict", "nested"])),
        loss=draw(st.sampled_from(["mse", "l1"])),
        reduction=draw(st.sampled_from(["mean", "sum"])),
        dtype=draw(st.sampled_from(["float32", "float64", "float16", "int32", "int64"])),
        training=training,
        accumulation=accumulation,
        iterations=iterations,
        replicas=draw(st.sampled_from([1, 1, 2, 4])),
        mode=draw(st.sampled_from([OutputMode.All, OutputMode.Final, OutputMode.Sum, OutputMode.EveryN])),
        period=draw(st.sampled_from([n for n in range(1, iterations + 1) if iterations % n == 0])),
        rows=draw(st.integers(1, 3)),
        optimizer=draw(st.sampled_from(sorted(OPTIMIZERS))),
        mean=draw(st.booleans()),
        calls=draw(st.integers(1, 2)),
        seed=draw(st.integers(0, 1000)),
    )


def options_of(plan):
    stages = [poptorch.Stage(str(number)).ipu(ipu) for number, ipu in enumerate(plan.ipus)]
    options = poptorch.Options().deviceIterations(plan.iterations).replicationFactor(plan.replicas)
    options.setExecutionStrategy(
        {
            "pipelined": lambda: poptorch.PipelinedExecution(),
            "explicit": lambda: poptorch.PipelinedExecution(*stages),
            "increment": lambda: poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement),
            "sharded": lambda: poptorch.ShardedExecution(),
            "sharded explicit": lambda: poptorch.ShardedExecution(*stages),
        }[plan.strategy]()
    )
    options.outputMode(plan.mode, plan.period if plan.mode == OutputMode.EveryN else None)
    options.autoRoundNumIPUs(True).broadcastBuffers(False)
    options.Training.gradientAccumulation(plan.accumulation)
    kind = poptorch.ReductionType.Mean if plan.mean else poptorch.ReductionType.Sum
    options.Training.accumulationAndReplicationReductionType(kind)
    return options


def kept(values, plan):
    """What the output mode keeps of one output; `values` in order of iteration, accumulation step, replica."""
    replicas = plan.replicas
    if plan.mode == OutputMode.Sum:
        chosen = []
        for replica in range(replicas):
            total = values[replica]
            for value in values[replica + replicas :: replicas]:
                total = total + value
            chosen.append(total)
    elif plan.mode == OutputMode.Final:
        chosen = values[-replicas:]
    else:
        period = plan.period if plan.mode == OutputMode.EveryN else 1
        per_iteration = plan.accumulation * replicas
        chosen = [value for i, value in enumerate(values) if (i // per_iteration + 1) % period == 0]
    if chosen[0].dim() == 0:
        return chosen[0] if len(chosen) == 1 else torch.stack(chosen)
    return torch.cat(chosen)


NARROW = {torch.int64: torch.int32, torch.float64: torch.float32}


def run_in_torch(model, optimizer, parts, plan):
    """One call, micro-batch by micro-batch; returns the results of each as lists."""
    counts = [module for module in model.modules() if isinstance(module, Count)]
    before = [module.count.clone() for module in counts]
    results = []
    steps = iter(zip(*parts))
    for iteration in range(plan.iterations):
        if optimizer is not None:
            optimizer.zero_grad()
        for step in range(plan.accumulation):
            for _ in range(plan.replicas):  # each has state of its own, which went through as many micro-batches
                for module, start in zip(counts, before):
                    module.count.copy_(start + iteration * plan.accumulation + step)
                result = flat(model(*next(steps)))
                if optimizer is not None:
                    divisor = plan.accumulation * plan.replicas if plan.mean else 1
                    (result[-1] / divisor).backward()
                results.append([tensor.detach() for tensor in result])
        if optimizer is not None:
            optimizer.step()
    return results


def check(plan):
    torch.manual_seed(plan.seed)
    ours = Model(plan)
    plain = copy.deepcopy(ours)
    micro_batches = plan.iterations * plan.accumulation * plan.replicas
    rows = plan.rows * micro_batches
    make = OPTIMIZERS[plan.optimizer]
    if plan.training:
        run = poptorch.trainingModel(ours, options_of(plan), make(ours.parameters()))
        optimizer = make(plain.parameters())
    else:
        run, optimizer = poptorch.inferenceModel(ours, options_of(plan)), None
    for _ in range(plan.calls):
        given = (torch.randn(rows, plan.width) * 2).to(getattr(torch, plan.dtype))
        inputs = [given, torch.randint(0, 5, (rows,)), torch.rand(rows, 1)]
        if plan.training:
            inputs.append(torch.randn(rows, plan.width))
        got = run(*inputs)
        want = run_in_torch(plain, optimizer, [tensor.split(plan.rows) for tensor in inputs], plan)
        tensors = flat(got)
        assert len(tensors) == len(want[0])
        for number, tensor in enumerate(tensors):
            expected = kept([values[number] for values in want], plan)
            expected = expected.to(NARROW.get(expected.dtype, expected.dtype))
            torch.testing.assert_close(tensor, expected, rtol=2e-4, atol=2e-5, msg=lambda m: f"output {number}: {m}")
    run.copyWeightsToHost()
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor, rtol=2e-4, atol=2e-5, msg=lambda m: f"{name}: {m}")
    run.destroy()


# More examples with other seeds: POPTORCH_PROPERTY_EXAMPLES=500 POPTORCH_TEST_FRESH=1.
@settings(max_examples=int(os.environ.get("POPTORCH_PROPERTY_EXAMPLES") or examples(25)))
@given(plans())
@pytest.mark.usefixtures("idle_ipus")
def test_models_of_many_kinds_on_any_plan_equal_torch(plan):
    check(plan)
