"""Random operations: distributions, what the numbers depend on and what they do not, seeds, states, errors."""

import math

import pytest
import torch
import torch.nn.functional as F
from python_programs import run_program
from torch import nn
from models import Call

import poptorch


def options(seed=42):
    # The option also seeds torch, once; tests draw their inputs from generators of their own.
    return poptorch.Options().randomSeed(seed)


def draw(function, *inputs, seed=42, calls=1):
    """The result of the last of `calls` calls of a model that is `function`."""
    inputs = inputs or (torch.zeros(1),)
    model = poptorch.inferenceModel(Call(function), options(seed))
    for _ in range(calls):
        result = model(*inputs)
    return result


N = 100_000


def normal_cdf(x):
    return 0.5 * torch.special.erfc(-x / math.sqrt(2))


def kolmogorov_smirnov(sample, cdf):
    """Largest distance of the distributions times sqrt(n): above 1.95 once in a thousand samples."""
    expected = cdf(sample.double().flatten().sort().values)
    n = expected.numel()
    steps = torch.arange(n + 1, dtype=torch.float64) / n
    return max((expected - steps[:-1]).abs().max(), (steps[1:] - expected).abs().max()).item() * math.sqrt(n)


CONTINUOUS = {
    "rand": (lambda x: torch.rand(N, device=x.device), lambda v: v),
    "rand_like": (lambda x: torch.rand_like(x.expand(N)), lambda v: v),
    "uniform_": (lambda x: x.expand(N).clone().uniform_(-2, 3), lambda v: (v + 2) / 5),
    "randn": (lambda x: torch.randn(N, device=x.device), normal_cdf),
    "randn_like": (lambda x: torch.randn_like(x.expand(N)), normal_cdf),
    "normal_": (lambda x: x.expand(N).clone().normal_(1, 2), lambda v: normal_cdf((v - 1) / 2)),
    "normal": (lambda x: torch.normal(1.0, 2.0, (N,)), lambda v: normal_cdf((v - 1) / 2)),
    "normal, mean": (lambda x: torch.normal(x.expand(N) + 1, 2.0), lambda v: normal_cdf((v - 1) / 2)),
    "normal, std": (lambda x: torch.normal(1.0, x.expand(N) + 2), lambda v: normal_cdf((v - 1) / 2)),
    "normal, both": (lambda x: torch.normal(x.expand(N) + 1, x.expand(N) + 2), lambda v: normal_cdf((v - 1) / 2)),
    "exponential_": (lambda x: x.expand(N).clone().exponential_(2.0), lambda v: 1 - torch.exp(-2 * v)),
    "log_normal_": (lambda x: x.expand(N).clone().log_normal_(0, 1), lambda v: normal_cdf(v.log())),
    "cauchy_": (lambda x: x.expand(N).clone().cauchy_(1, 2), lambda v: torch.atan((v - 1) / 2) / math.pi + 0.5),
    "distributions.Uniform": (lambda x: torch.distributions.Uniform(x - 1, x + 1).rsample((N,)), lambda v: (v + 1) / 2),
    "distributions.Normal": (lambda x: torch.distributions.Normal(x, x + 2).rsample((N,)), lambda v: normal_cdf(v / 2)),
    "distributions.Exponential": (
        lambda x: torch.distributions.Exponential(x + 2).rsample((N,)),
        lambda v: 1 - torch.exp(-2 * v),
    ),
}


@pytest.mark.parametrize("name", CONTINUOUS)
def test_sample_has_the_distribution(name):
    function, cdf = CONTINUOUS[name]
    sample = draw(function)
    assert sample.dtype == torch.float32 and sample.numel() == N
    assert kolmogorov_smirnov(sample, cdf) < 1.95


DISCRETE = {  # → values with their probabilities
    "bernoulli": (lambda x: torch.bernoulli(x.expand(N) + 0.3), {0: 0.7, 1: 0.3}),
    "bernoulli, p": (lambda x: torch.bernoulli(x.expand(N), 0.3), {0: 0.7, 1: 0.3}),
    "bernoulli_": (lambda x: x.expand(N).clone().bernoulli_(0.3), {0: 0.7, 1: 0.3}),
    "bernoulli_, tensor": (lambda x: x.expand(N).clone().bernoulli_(x.expand(N) + 0.3), {0: 0.7, 1: 0.3}),
    "distributions.Bernoulli": (
        lambda x: torch.distributions.Bernoulli(x + 0.3).sample((N,)),
        {0: 0.7, 1: 0.3},
    ),
    "randint": (lambda x: torch.randint(-2, 3, (N,), device=x.device), dict.fromkeys(range(-2, 3), 0.2)),
    "randint_like": (lambda x: torch.randint_like(x.expand(N), 5), dict.fromkeys(range(5), 0.2)),
    "random_": (lambda x: x.expand(N).clone().random_(1, 5), dict.fromkeys(range(1, 5), 0.25)),
    "random_, to": (lambda x: x.expand(N).int().random_(4), dict.fromkeys(range(4), 0.25)),
    "geometric_": (lambda x: x.expand(N).clone().geometric_(0.5), {k: 0.5**k for k in range(1, 12)}),
}


@pytest.mark.parametrize("name", DISCRETE)
def test_sample_has_the_probabilities(name):
    function, probabilities = DISCRETE[name]
    sample = draw(function)
    for value, p in probabilities.items():
        assert abs((sample == value).sum().item() - N * p) < 4.5 * math.sqrt(N * p * (1 - p)) + 1, value
    if sum(probabilities.values()) > 0.9999:
        assert set(sample.unique().tolist()) <= set(probabilities)


def test_integers_without_bounds_are_not_negative():
    values = draw(lambda x: x.expand(N).int().random_())
    assert values.min() >= 0 and values.max() > 2**30
    assert draw(lambda x: x.expand(N).clone().random_()).max() <= 2**24


def test_randperm_is_a_permutation_and_another_one_each_call():
    def shuffled(x):
        return torch.randperm(1000, device=x.device)

    first, second = draw(shuffled), draw(shuffled, calls=2)
    assert first.dtype == torch.int32
    for order in (first, second):
        assert torch.equal(order.sort().values, torch.arange(1000, dtype=torch.int32))
    assert not torch.equal(first, second)


def test_half_precision_samples_stay_in_range():
    values = draw(lambda x: torch.rand(N, dtype=torch.float16, device=x.device))
    assert values.dtype == torch.float16
    assert values.min() >= 0 and values.max() < 1 and abs(values.float().mean() - 0.5) < 0.01
    assert abs(draw(lambda x: torch.randn_like(x.half().expand(N))).float().std() - 1) < 0.02


# --- dropout


def test_dropout_keeps_the_fraction_and_scales_it():
    x = torch.rand(200, 500) + 1
    y = draw(lambda x: F.dropout(x, 0.3, training=True), x)
    kept = y != 0
    torch.testing.assert_close(y[kept], (x * (1 / 0.7))[kept])
    assert abs(kept.float().mean() - 0.7) < 0.007
    # Neither rows nor columns are favoured.
    assert abs(kept.float().mean(0) - 0.7).max() < 0.15 and abs(kept.float().mean(1) - 0.7).max() < 0.1


def test_dropout_of_everything_and_of_nothing():
    x = torch.randn(4, 5)
    assert torch.equal(draw(lambda x: F.dropout(x, 1.0, training=True), x).abs(), torch.zeros(4, 5))
    assert torch.equal(draw(lambda x: F.dropout(x, 0.0, training=True), x), x)


@pytest.mark.parametrize("layer", [nn.Dropout, nn.Dropout1d, nn.Dropout2d, nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_dropout_layers_are_the_identity_in_evaluation(layer):
    x = torch.randn(2, 3, 4, 4) if layer is not nn.Dropout1d else torch.randn(2, 3, 4)
    model = poptorch.inferenceModel(layer(0.5).eval(), options())
    assert torch.equal(model(x), x)


@pytest.mark.parametrize(
    "layer, shape", [(nn.Dropout1d, (8, 64, 5)), (nn.Dropout2d, (8, 64, 3, 5)), (nn.Dropout3d, (8, 64, 2, 3, 4))]
)
def test_channel_dropout_drops_whole_channels(layer, shape):
    y = poptorch.inferenceModel(layer(0.5).train(), options())(torch.ones(shape)).flatten(2)
    assert torch.equal(y, y[:, :, :1].expand_as(y))
    assert set(y.unique().tolist()) == {0.0, 2.0}
    assert 150 < (y[:, :, 0] == 0).sum() < 350


@pytest.mark.parametrize("layer", [nn.AlphaDropout, nn.FeatureAlphaDropout])
def test_alpha_dropout_keeps_mean_and_variance(layer):
    x = torch.randn(200, 500, 1, 1, generator=torch.Generator().manual_seed(1))
    y = poptorch.inferenceModel(layer(0.2).train(), options())(x)
    assert abs(y.mean()) < 0.02 and abs(y.std() - 1) < 0.02
    torch.manual_seed(0)
    expected = layer(0.2).train()(x)
    torch.testing.assert_close(y.unique()[:1], expected.unique()[:1], atol=2, rtol=0)
    # The value of dropped elements is a constant of p.
    dropped = y.flatten().mode().values
    torch.testing.assert_close(dropped, expected.flatten().mode().values, rtol=1e-4, atol=1e-5)


def test_attention_drops_weights():
    q = torch.randn(2, 4, 16, 8, generator=torch.Generator().manual_seed(2))
    v = torch.eye(16).expand(2, 4, 16, 16)
    weights = draw(lambda q, v: F.scaled_dot_product_attention(q, q, v, dropout_p=0.25), q, v)
    plain = F.scaled_dot_product_attention(q, q, v)
    kept = weights != 0
    torch.testing.assert_close(weights[kept], plain[kept] / 0.75, rtol=1e-4, atol=1e-6)
    assert abs(kept.float().mean() - 0.75) < 0.04


def test_rrelu_draws_slopes_in_training():
    x = -torch.ones(N)
    slopes = -draw(lambda x: F.rrelu(x, 0.1, 0.3, training=True), x)
    assert kolmogorov_smirnov(slopes, lambda v: (v - 0.1) / 0.2) < 1.95
    torch.testing.assert_close(draw(lambda x: F.rrelu(x, 0.1, 0.3), x), torch.full((N,), -0.2))


class Dropped(nn.Module):
    """A parameter seen through a dropout: its gradient is the mask."""

    def __init__(self, p=0.5):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(64, 32))
        self.p = p

    def forward(self, x):
        y = F.dropout(self.weight, self.p, training=True)
        return y, poptorch.identity_loss((y * x).sum(), reduction="none")


def test_gradient_of_dropout_is_its_mask():
    model = Dropped(0.4)
    x = torch.rand(64, 32, generator=torch.Generator().manual_seed(3)) + 0.5
    training = poptorch.trainingModel(model, options(), torch.optim.SGD(model.parameters(), lr=1.0))
    y, _ = training(x)
    gradient = 1 - model.weight.detach()
    torch.testing.assert_close(gradient, y * x, rtol=1e-6, atol=1e-6)


# --- what numbers depend on


def sample(x):
    return F.dropout(x, 0.5, training=True), torch.randn_like(x)


def test_each_call_and_each_op_draws_new_numbers():
    model = poptorch.inferenceModel(Call(lambda x: (torch.rand_like(x), torch.rand_like(x))), options())
    x = torch.zeros(1000)
    results = [*model(x), *model(x)]
    for i, a in enumerate(results):
        for b in results[i + 1 :]:
            assert (a == b).float().mean() < 0.01


@pytest.mark.shows("Options.randomSeed")
def test_seed_gives_the_same_numbers_again_and_another_seed_others():
    x = torch.ones(100)
    for a, b, c in zip(draw(sample, x), draw(sample, x), draw(sample, x, seed=43)):
        assert torch.equal(a, b) and not torch.equal(a, c)


def test_micro_batches_and_device_iterations_draw_different_numbers():
    opts = options().deviceIterations(4)
    model = poptorch.inferenceModel(Call(lambda x: torch.randn_like(x)), opts)
    results = model(torch.zeros(4 * 8, 100)).view(4, 800)
    assert len({tuple(row.tolist()) for row in results}) == 4
    # A device iteration is the same wherever it stands: the first one equals that of a run of one.
    alone = poptorch.inferenceModel(Call(lambda x: torch.randn_like(x)), options())(torch.zeros(8, 100))
    assert torch.equal(results[0], alone.flatten())


def test_replicas_draw_different_numbers():
    model = poptorch.inferenceModel(Call(lambda x: torch.randn_like(x)), options().replicationFactor(2))
    a, b = model(torch.zeros(2, 500))
    assert not torch.equal(a, b) and abs((a * b).mean()) < 0.25


def test_a_generator_of_torch_is_refused():
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(Call(lambda x: x + torch.rand(3, generator=torch.Generator())), options())(
            torch.ones(3)
        )
    assert (
        "generator=: random numbers of the IPU come from the seed of the program; leave the argument out. "
        "Options.randomSeed and PoplarExecutor.rng_state set that seed."
    ) in raised.value.message


def test_capture_leaves_the_generator_of_torch_alone():
    model = poptorch.inferenceModel(Call(lambda x: (*sample(x), torch.rand(3), torch.randperm(4))), options())
    before = torch.get_rng_state()
    model(torch.ones(5))
    model(torch.ones(5))
    assert torch.equal(torch.get_rng_state(), before)


def test_without_the_option_numbers_follow_the_seed_of_torch():
    def numbers():
        torch.manual_seed(7)
        return poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)))(torch.zeros(100))

    assert torch.equal(numbers(), numbers())


class Net(nn.Module):
    """Three blocks with dropout, a loss."""

    def __init__(self, ipus):
        super().__init__()
        self.ipus = ipus
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(3))

    def forward(self, x):
        for i, layer in enumerate(self.layers):
            poptorch.Block.start(f"b{i}", ipu_id=i * self.ipus // 3)
            x = F.dropout(torch.tanh(layer(x)), 0.3, training=True)
        x = x + 0.1 * torch.randn_like(x)
        return x, poptorch.identity_loss((x**2).mean(), reduction="none")


def train(strategy, ipus, accumulation=8, recompute=None, monkeypatch=None):
    """Outputs of three calls and the weights after them."""
    torch.manual_seed(5)
    model = Net(ipus)
    opts = options().deviceIterations(2).outputMode(poptorch.OutputMode.All)
    opts.setExecutionStrategy(strategy()).autoRoundNumIPUs(True)
    opts.Training.gradientAccumulation(accumulation)
    training = poptorch.trainingModel(model, opts, torch.optim.SGD(model.parameters(), lr=0.1))
    generator = torch.Generator().manual_seed(6)
    outputs = [training(torch.randn(2 * accumulation * 2, 16, generator=generator))[0] for _ in range(3)]
    return torch.cat(outputs), torch.cat([p.detach().flatten() for p in model.parameters()]), training


@pytest.mark.parametrize("strategy", [poptorch.ShardedExecution, poptorch.PipelinedExecution])
@pytest.mark.parametrize("ipus", [2, 3])
def test_numbers_do_not_depend_on_the_strategy(strategy, ipus):
    expected, weights, _ = train(poptorch.PipelinedExecution, 1)
    outputs, other, _ = train(strategy, ipus)
    assert torch.equal(outputs, expected)
    torch.testing.assert_close(other, weights, rtol=1e-6, atol=1e-7)


@pytest.mark.parametrize("ipus", [2, 3])
def test_recomputation_changes_no_bit(ipus, monkeypatch):
    expected, weights, kept = train(poptorch.PipelinedExecution, ipus)
    statistics = kept._executable.statistics()
    assert statistics["recomputation executed"] == 0
    assert statistics["ops recomputed"] > 0
    assert statistics["stash bytes with recomputation"] < statistics["stash bytes"]
    monkeypatch.setenv("POPTORCH_EXECUTE_RECOMPUTE", "1")
    outputs, other, again = train(poptorch.PipelinedExecution, ipus)
    assert again._executable.statistics()["recomputation executed"] == 1
    assert torch.equal(outputs, expected) and torch.equal(other, weights)
    host = [sum(m["host_bytes"] for m in t._executable.memory()) for t in (kept, again)]
    assert host[1] < host[0]


THREADS = """
import torch, poptorch, torch.nn.functional as F, hashlib
class M(torch.nn.Module):
    def forward(self, x):
        return F.dropout(x, 0.3, training=True), torch.randn_like(x), torch.rand(300000), torch.randperm(5000)
model = poptorch.inferenceModel(M(), poptorch.Options().randomSeed(9))
digest = hashlib.sha256()
for _ in range(2):
    for t in model(torch.ones(600, 1000)):
        digest.update(t.numpy().tobytes())
print(digest.hexdigest())
"""


def test_numbers_do_not_depend_on_threads():
    digests = set()
    for threads in ("1", "2", "8"):
        run = run_program(THREADS, environment={"POPTORCH_HOST_THREADS": threads})
        assert run.returncode == 0, run.stderr
        digests.add(run.stdout.strip())
    assert len(digests) == 1


# --- rng_state


@pytest.mark.shows("PoplarExecutor.rng_state")
def test_rng_state_repeats_numbers():
    model = poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)), options(11))
    x = torch.zeros(50)
    model.compile(x)
    assert model.rng_state == [11]
    first = model(x)
    state = model.rng_state
    assert state == [11, 1]
    second, third = model(x), model(x)
    model.rng_state = state
    assert torch.equal(model(x), second) and torch.equal(model(x), third)
    model.rng_state = [11]
    assert torch.equal(model(x), first)


def test_rng_state_moves_to_another_wrapper():
    x = torch.zeros(50)
    source = poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)), options(12))
    source(x)
    target = poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)), options(13))
    target.compile(x)
    target.rng_state = source.rng_state
    assert torch.equal(target(x), source(x))


def test_rng_state_survives_detaching():
    x = torch.zeros(50)
    model = poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)), options(14))
    model(x)
    second = draw(lambda x: torch.rand_like(x), x, seed=14, calls=2)
    model.detachFromDevice()
    assert model.rng_state == [14, 1]
    model.attachToDevice()
    assert torch.equal(model(x), second)


def test_rng_state_before_the_first_call_without_the_option():
    model = poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)))
    model.compile(torch.zeros(2))
    assert model.rng_state is None


def test_rng_state_needs_an_executable():
    model = poptorch.inferenceModel(Call(lambda x: x + 1), options())
    with pytest.raises(poptorch.Error, match="rng_state: the model has not been compiled"):
        _ = model.rng_state
    with pytest.raises(poptorch.Error, match="rng_state: the model has not been compiled"):
        model.rng_state = [1]


@pytest.mark.parametrize("state", [None, [], [1, 2, 3], ["1"], [1.5], 7, [1, -1]])
def test_rng_state_of_another_form_is_refused(state):
    model = poptorch.inferenceModel(Call(lambda x: torch.rand_like(x)), options())
    model(torch.zeros(2))
    with pytest.raises(poptorch.Error, match="rng_state"):
        model.rng_state = state
    assert model.rng_state == [42, 1]


# --- errors


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x: torch.multinomial(x.softmax(0), 2), "aten::multinomial"),
        (lambda x: torch.poisson(x), "aten::poisson"),
        (lambda x: torch.randint_like(x, 3, 3), "an empty range"),
        (lambda x: torch.randint_like(x, 0, 2**40), "the IPU has 32-bit integers"),
        (lambda x: x.clone().exponential_(0.0), "lambda > 0.0"),
        (lambda x: torch.rand(3, generator=torch.Generator(), device="ipu"), "generator"),
        (lambda x: nn.functional.alpha_dropout(x, 1.5, True), "1.5"),
    ],
)
def test_what_cannot_be_drawn_is_an_error(function, message):
    with pytest.raises((poptorch.Error, ValueError, RuntimeError), match=message):
        draw(function, torch.ones(4))


# --- files


class Noise(nn.Module):
    def forward(self, x):
        return torch.rand_like(x)


def saved_after_one_call(path):
    model = poptorch.inferenceModel(Noise(), options(21))
    x = torch.zeros(40)
    model(x)
    model.save(path)
    return x, model(x)


def test_a_loaded_executable_goes_on_where_the_saved_one_was(tmp_path):
    x, second = saved_after_one_call(tmp_path / "noise.poptorch")
    assert torch.equal(poptorch.load(tmp_path / "noise.poptorch")(x), second)
    into = poptorch.inferenceModel(Noise(), options(21))
    into.loadExecutable(tmp_path / "noise.poptorch")
    assert into.rng_state == [21, 1]
    assert torch.equal(into(x), second)


def test_a_loaded_executable_takes_another_seed(tmp_path):
    x, _ = saved_after_one_call(tmp_path / "noise.poptorch")
    loaded = poptorch.load(tmp_path / "noise.poptorch", lambda opts: opts.randomSeed(22))
    assert loaded.rng_state == [22]
    assert torch.equal(loaded(x), draw(lambda x: torch.rand_like(x), x, seed=22))
