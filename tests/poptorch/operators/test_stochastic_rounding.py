"""Stochastic rounding of float16: means are exact, halves stay, bits depend on seed and place alone, updates are not lost."""

import math

import pytest
import torch
from models import Call, Mlp
from python_programs import run_program

import poptorch

pytestmark = pytest.mark.shows("Options.Precision.enableStochasticRounding")
HALF = torch.float16
COUNT = 40_000


def options_of(seed=42, is_random=True, **settings):
    options = poptorch.Options().randomSeed(seed)
    options.Precision.enableStochasticRounding(is_random)
    for name, value in settings.items():
        getattr(options, name)(value)
    return options


def run(function, *inputs, **settings):
    model = poptorch.inferenceModel(Call(function), options_of(**settings))
    result = model(*inputs)
    model.destroy()
    return result


def assert_mean(rounded, exact):
    """`rounded`: many roundings of the number `exact`: both neighbours, and their mean within five sigma."""
    low, high = rounded.min().double(), rounded.max().double()
    assert set(rounded.unique().tolist()) == {low.item(), high.item()}
    assert low < exact < high
    share = (exact - low) / (high - low)
    sigma = (high - low) * math.sqrt(share * (1 - share) / rounded.numel())
    assert abs(rounded.double().mean() - exact) < 5 * sigma


CASES = {
    "conversion": (lambda x: x.half(), [torch.full((COUNT,), 1 + 2**-13)], 1 + 2**-13),
    "negative": (lambda x: x.to(HALF), [torch.full((COUNT,), -0.1)], -torch.tensor(0.1).double().item()),
    "tiny": (lambda x: x.half(), [torch.full((COUNT,), 1e-8)], torch.tensor(1e-8).double().item()),
    "addition": (
        lambda x, y: x + y,
        [torch.full((COUNT,), 1.0, dtype=HALF), torch.full((COUNT,), 2**-12, dtype=HALF)],
        1 + 2**-12,
    ),
    "fused": (
        lambda x, y: (x * y).relu(),
        [torch.full((COUNT,), 1 + 2**-10, dtype=HALF), torch.full((COUNT,), 1 + 3 * 2**-10, dtype=HALF)],
        (1 + 2**-10) * (1 + 3 * 2**-10),
    ),
    "product": (
        lambda x, w: torch.nn.functional.linear(x, w),
        [torch.ones(COUNT // 4, 3, dtype=HALF), torch.tensor([[1.0, 2**-12, 2**-14]] * 4, dtype=HALF)],
        1 + 2**-12 + 2**-14,
    ),
    "mean": (
        lambda x: x.mean(1),
        [torch.tensor([[1.0, 1.0, 1 + 2**-10]] * COUNT, dtype=HALF)],
        (torch.tensor(3 + 2**-10) / 3).double().item(),
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_the_mean_of_many_roundings_is_the_exact_value(name):
    function, inputs, exact = CASES[name]
    rounded = run(function, *inputs)
    assert rounded.dtype == HALF
    assert_mean(rounded, exact)
    assert len(run(function, *inputs, is_random=False).unique()) == 1


def test_what_is_a_half_stays():
    x = torch.arange(-1024, 1024, dtype=HALF)
    w = torch.eye(4, dtype=HALF) * 2
    assert torch.equal(run(lambda x: x + x, x), x + x)
    assert torch.equal(run(lambda x: x.float().half(), x), x)
    assert torch.equal(run(lambda x, w: x.reshape(-1, 4) @ w, x, w), x.reshape(-1, 4) * 2)
    assert torch.equal(run(lambda x: x.relu().neg().clamp(-3, 3).abs(), x), x.relu().clamp(max=3))
    special = torch.tensor([math.inf, -math.inf, math.nan, 0.0], dtype=torch.float32)
    assert torch.equal(run(lambda x: x.half(), special), special.half()) or run(lambda x: x.half(), special)[2].isnan()


def test_ops_that_move_or_choose_are_the_same_program():
    def moves(x):
        return torch.cat([x.t().relu(), x[:, :2].t().clamp(-1, 1)]).max(1).values, torch.where(x > 0, x, -x)

    texts = []
    for is_random in (True, False):
        model = poptorch.inferenceModel(Call(moves), options_of(is_random=is_random))
        results = model(torch.randn(4, 4).half())
        texts.append(model._debugGetPopartIR())
        assert all(result.dtype == HALF for result in results)
        model.destroy()
    assert texts[0] == texts[1]


def noise(seed=42, calls=1, **settings):
    model = poptorch.inferenceModel(Call(lambda x: x.half()), options_of(seed, **settings))
    results = [model(torch.full((4096,), 1 + 2**-11)) for _ in range(calls)]
    model.destroy()
    return results


def test_seeds_reproduce_and_calls_and_micro_batches_differ():
    first, second = noise(calls=2)
    again = noise(calls=2)
    assert torch.equal(first, again[0]) and torch.equal(second, again[1])
    assert not torch.equal(first, second)
    assert not torch.equal(first, noise(43)[0])
    (rows,) = noise(deviceIterations=4)
    parts = rows.chunk(4)
    assert all(not torch.equal(a, b) for i, a in enumerate(parts) for b in parts[:i])
    (rows,) = noise(replicationFactor=2)
    assert not torch.equal(*rows.chunk(2))


def test_two_operations_round_equal_values_independently():
    a, b = run(lambda x, y: (x.half(), y.half()), *(torch.full((4096,), 1 + 2**-11) for _ in range(2)))
    assert not torch.equal(a, b)
    same = (a == b).double().mean()
    assert abs(same - 0.5) < 5 * 0.5 / math.sqrt(4096)


DIGEST = """
import hashlib, torch, poptorch
class Net(torch.nn.Module):
    def forward(self, x):
        y = x.half()
        return y * y + y, (y.reshape(-1, 50) @ y[:2500].reshape(50, 50)).sum(0)
options = poptorch.Options().randomSeed(42)
options.Precision.enableStochasticRounding(True)
results = poptorch.inferenceModel(Net(), options)(torch.arange(200_000) * 2.0**-17)
print(hashlib.sha256(b"".join(result.numpy().tobytes() for result in results)).hexdigest())
"""


def test_bits_do_not_depend_on_workers_and_instruction_set():
    digests = set()
    for workers, isa in (("1", "native"), ("2", "native"), ("8", "native"), ("2", "avx2")):
        run = run_program(DIGEST, environment={"POPTORCH_HOST_THREADS": workers, "POPTORCH_ISA": isa})
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout)
    assert len(digests) == 1


class HalfMlp(torch.nn.Module):
    def __init__(self, ipus):
        super().__init__()
        torch.manual_seed(3)
        self.inner = Mlp(ipus).half()

    def forward(self, x, target):
        return poptorch.identity_loss(((self.inner(x) - target) ** 2).float().mean(), reduction="none")


def trained(ipus, strategy, **training):
    model = HalfMlp(ipus)
    options = options_of().setExecutionStrategy(strategy()).deviceIterations(2)
    options.Training.gradientAccumulation(4)
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.01, loss_scaling=64.0, accum_type=HALF)
    trainer = poptorch.trainingModel(model, options, optimizer)
    generator = torch.Generator().manual_seed(1)
    for _ in range(3):
        x, y = torch.randn(16, 12, generator=generator), torch.randn(16, 5, generator=generator)
        trainer(x.half(), y.half())
    state = {name: value.clone() for name, value in model.state_dict().items()}
    trainer.destroy()
    return state


def test_training_gives_the_same_bits_however_it_is_placed():
    expected = trained(1, poptorch.ShardedExecution)
    for ipus, strategy in (
        (1, poptorch.PipelinedExecution),
        (2, poptorch.ShardedExecution),
        (2, poptorch.PipelinedExecution),
    ):
        others = trained(ipus, strategy)
        assert all(torch.equal(expected[name], others[name]) for name in expected), (ipus, strategy)


class Drift(torch.nn.Module):
    """Gradients of all weights are 1."""

    def __init__(self, size=20_000):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(size, dtype=HALF))

    def forward(self, x):
        return poptorch.identity_loss((self.w.float() * x).sum(), reduction="none")


@pytest.mark.parametrize(
    "make",
    [
        lambda p: poptorch.optim.SGD(p, lr=1e-5),
        lambda p: poptorch.optim.Adam(p, lr=1e-5),
        lambda p: poptorch.optim.RMSprop(p, lr=1e-6, alpha=0.99),
    ],
    ids=["sgd", "adam", "rmsprop"],
)
def test_updates_far_below_the_spacing_of_the_weights_are_not_lost(make):
    steps, means = 10, {}
    for is_random in (True, False):
        model = Drift()
        trainer = poptorch.trainingModel(model, options_of(is_random=is_random), make(model.parameters()))
        for _ in range(steps):
            trainer(torch.ones(20_000))
        means[is_random] = model.w.detach().double().mean().item()
        trainer.destroy()
    wide = torch.nn.Parameter(torch.ones(1))
    family = type(make([wide])).__name__
    options = {"SGD": {"lr": 1e-5}, "Adam": {"lr": 1e-5}, "RMSprop": {"lr": 1e-6}}[family]
    reference = getattr(torch.optim, family)([wide], **options)
    for _ in range(steps):
        wide.grad = torch.ones(1)
        reference.step()
    assert means[False] == 1.0
    moved = 1 - wide.item()
    assert moved < 2**-11  # less than half a step between the halves below 1
    # Each update rounds down by 2^-11 with the probability that its size asks for.
    sigma = math.sqrt(moved * 2**-11 / 20_000)
    assert abs((1 - means[True]) - moved) < 5 * sigma


def test_gradients_are_rounded_too():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(COUNT, dtype=HALF))

        def forward(self, x):
            return poptorch.identity_loss((self.w * x * x).sum().float(), reduction="none")

    model = Net()
    options = options_of()
    options.anchorTensor("g", "Gradient___w")
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.0))
    x = torch.full((COUNT,), 1 + 2**-10, dtype=HALF)
    trainer(x)
    gradient = trainer.getAnchoredTensor("g")
    assert len(gradient.unique()) == 2  # x * x lies between two halves
    assert_mean(gradient, (1 + 2**-10) ** 2)
    trainer.destroy()


def momentum(parameters):
    return poptorch.optim.SGD(parameters, lr=1e-3, momentum=0.9, use_combined_accum=False, accum_type=HALF, loss_scaling=8.0)


def adam(parameters):
    return poptorch.optim.AdamW(parameters, lr=1e-3, accum_type=HALF, loss_scaling=8.0)


@pytest.mark.parametrize("make", [momentum, adam])
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("is_sharded", [False, True])
def test_replicas_keep_the_same_weights(make, accumulation, is_sharded):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(16, 16, bias=False).half()

        def forward(self, x):
            loss = (self.layer(x).float() ** 2).mean()
            return self.layer.weight.float().unsqueeze(0), poptorch.identity_loss(loss, reduction="none")

    options = options_of().replicationFactor(2).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    if is_sharded:
        location = poptorch.TensorLocationSettings().minElementsForReplicatedTensorSharding(2)
        options.TensorLocations.setOptimizerLocation(location.useReplicatedTensorSharding(True))
    net = Net()
    trainer = poptorch.trainingModel(net, options, make(net.parameters()))
    generator = torch.Generator().manual_seed(1)
    for _ in range(10):
        weights, _ = trainer(torch.randn(4 * accumulation, 16, generator=generator).half())
    assert torch.equal(weights[0], weights[accumulation])  # of the two replicas, in their last micro-batch but one
    assert not torch.equal(weights[0], Net().layer.weight.float())
    trainer.destroy()


def test_products_of_a_scatter_are_arithmetic():
    x = torch.full((COUNT,), 1.1, dtype=HALF)
    index = torch.arange(COUNT)
    assert_mean(run(lambda x: x.scatter_reduce(0, index, x, "prod"), x), x[0].double() ** 2)
