"""Recurrent layers against torch: values, gradients and training, in every configuration of nn.RNN, nn.LSTM and nn.GRU."""

import copy
import itertools

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from reference import assert_follows_rule, compare_training, samples

import poptorch

KINDS = {"rnn": torch.nn.RNN, "lstm": torch.nn.LSTM, "gru": torch.nn.GRU}


class Recurrent(torch.nn.Module):
    """All results, and a loss that reads them all with weights of their own."""

    def __init__(self, kind, inputs=5, hidden=7, **arguments):
        super().__init__()
        self.layer = KINDS[kind](inputs, hidden, **arguments)

    def forward(self, x, *states):
        y, last = self.layer(x, *([states] if len(states) > 1 else states))
        results = (y, *last) if isinstance(last, tuple) else (y, last)
        loss = sum((r * torch.linspace(-1, 1, r.numel(), dtype=r.dtype).reshape(r.shape)).sum() for r in results)
        return *results, poptorch.identity_loss(loss, reduction="none")


def made(kind, steps=4, batch=3, states=True, dtype=torch.float32, **arguments):
    """(model, inputs): a sequence, and initial states on demand."""
    torch.manual_seed(3)
    model = Recurrent(kind, **arguments).to(dtype)
    layer = model.layer
    shape = (batch, steps) if layer.batch_first else (steps, batch)
    x = torch.randn(*shape, layer.input_size, dtype=dtype)
    count = layer.num_layers * (2 if layer.bidirectional else 1)
    inputs = [x]
    if states:
        inputs.append(torch.randn(count, batch, layer.proj_size or layer.hidden_size, dtype=dtype))
        if kind == "lstm":
            inputs.append(torch.randn(count, batch, layer.hidden_size, dtype=dtype))
    return model, inputs


def gradients(model, inputs, dtype):
    """Results in torch, and gradients of all parameters."""
    model = copy.deepcopy(model).to(dtype)
    results = model(*(t.to(dtype) for t in inputs))
    results[-1].backward()
    return [r.detach() for r in results], {name: p.grad for name, p in model.named_parameters()}


def stepped(model, inputs):
    """Results on the device, and gradients: what an update with lr 1 took off the parameters."""
    ours = copy.deepcopy(model)
    options = poptorch.Options().deviceIterations(1)
    trainer = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=1.0))
    results = trainer(*inputs)
    trainer.destroy()
    before = dict(model.named_parameters())
    return list(results), {name: before[name].detach() - p.detach() for name, p in ours.named_parameters()}


def compare(kind, **arguments):
    """By the numerics rule."""
    model, inputs = made(kind, **arguments)
    results, taken = stepped(model, inputs)
    r32, g32 = zip(*(gradients(*sample, torch.float32) for sample in samples(model, inputs)))
    r64, g64 = gradients(model, inputs, torch.float64)
    for i, (ours, f64) in enumerate(zip(results, r64)):
        assert_follows_rule(ours, [r[i] for r in r32], f64, f"result {i}")
    for name, f64 in g64.items():
        # The difference of two weights knows a gradient to a rounding of the weight only.
        weight = dict(model.named_parameters())[name].detach()
        floats = [weight - (weight - g[name]) for g in g32]
        assert_follows_rule(taken[name], floats, f64, f"gradient of {name}", rounding=2e-7 * weight.double().norm())


CONFIGURATIONS = [
    {},
    {"states": False},
    {"bias": False},
    {"num_layers": 2},
    {"bidirectional": True},
    {"batch_first": True},
    {"num_layers": 3, "bidirectional": True, "batch_first": True},
    {"num_layers": 2, "bidirectional": True, "bias": False, "states": False},
    {"steps": 1},
    {"steps": 1, "states": False},
    {"batch": 1, "hidden": 1},
    {"batch": 9, "hidden": 33, "steps": 5},
]


@pytest.mark.parametrize("arguments", CONFIGURATIONS, ids=str)
@pytest.mark.parametrize("kind", KINDS)
def test_results_and_gradients_are_those_of_torch(kind, arguments):
    compare(kind, **arguments)


@pytest.mark.parametrize("arguments", CONFIGURATIONS[:7], ids=str)
def test_relu_in_place_of_tanh(arguments):
    compare("rnn", nonlinearity="relu", **arguments)


def test_what_is_no_number_goes_back_through_relu_as_in_torch():
    model, inputs = made("rnn", nonlinearity="relu", states=False)
    inputs[0][2, 1, 0] = torch.nan
    _, taken = stepped(model, inputs)
    _, expected = gradients(model, inputs, torch.float32)
    for name, gradient in expected.items():
        assert torch.equal(taken[name].isnan(), gradient.isnan()), name
    assert any(gradient.isnan().any() for gradient in expected.values())


@pytest.mark.parametrize("arguments", [*CONFIGURATIONS[:8], {"steps": 1}], ids=str)
def test_an_lstm_with_projections_follows_torch(arguments):
    compare("lstm", proj_size=3, **arguments)


# Enough work for lanes, panels of whole vectors, a remainder of rows.
@pytest.mark.parametrize("kind", KINDS)
def test_large_layers_are_cut_into_lanes(kind):
    compare(kind, steps=6, batch=37, inputs=64, hidden=160, bidirectional=True)


@settings(max_examples=examples(12))
@given(
    kind=st.sampled_from(sorted(KINDS)),
    sizes=st.tuples(*[st.integers(1, 9)] * 2, *[st.integers(1, 40)] * 2),
    directions=st.booleans(),
    batch_first=st.booleans(),
    states=st.booleans(),
)
def test_any_size(kind, sizes, directions, batch_first, states):
    steps, batch, inputs, hidden = sizes
    compare(
        kind,
        steps=steps,
        batch=batch,
        inputs=inputs,
        hidden=hidden,
        states=states,
        bidirectional=directions,
        batch_first=batch_first,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_gradients_reach_inputs_and_initial_states(kind):
    class Learned(torch.nn.Module):
        """Its inputs are parameters, so that their gradients show."""

        def __init__(self):
            super().__init__()
            self.inner, inputs = made(kind, num_layers=2)
            self.inputs = torch.nn.ParameterList(torch.nn.Parameter(t) for t in inputs)

        def forward(self, factor):
            return self.inner(self.inputs[0] * factor, *list(self.inputs)[1:])

    torch.manual_seed(0)
    model = Learned()
    _, taken = stepped(model, [torch.ones(1)])
    _, expected = gradients(model, [torch.ones(1)], torch.float64)
    for name, gradient in expected.items():
        scale = max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(
            taken[name].double(), gradient, rtol=2e-5, atol=5e-6 * scale, msg=lambda m: f"{name}\n{m}"
        )


@pytest.mark.parametrize("kind", KINDS)
def test_a_sequence_without_a_batch(kind):
    model, (x,) = made(kind, batch=1, states=False)
    x = x[:, 0]
    ours = poptorch.inferenceModel(copy.deepcopy(model))(x)
    for mine, theirs in zip(ours, model(x)):
        assert mine.shape == theirs.shape
        torch.testing.assert_close(mine, theirs, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "arguments", [{}, {"num_layers": 2, "bidirectional": True}, {"batch": 17, "hidden": 80}], ids=str
)
@pytest.mark.parametrize("kind", KINDS)
def test_inference_in_float16_follows_float32(kind, arguments):
    model, inputs = made(kind, dtype=torch.float16, **arguments)
    ours = poptorch.inferenceModel(copy.deepcopy(model))(*inputs)
    theirs = copy.deepcopy(model).float()(*(t.float() for t in inputs))
    for mine, wanted in zip(ours[:-1], theirs):
        assert mine.dtype == torch.float16
        torch.testing.assert_close(mine.float(), wanted, rtol=2e-3, atol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_training_in_float16_follows_float32(kind):
    model, inputs = made(kind, dtype=torch.float16)
    _, taken = stepped(model, inputs)
    _, expected = gradients(model, inputs, torch.float32)
    for name, gradient in expected.items():
        scale = max(1.0, gradient.abs().max().item())
        torch.testing.assert_close(taken[name].float(), gradient, rtol=1e-2, atol=4e-3 * scale)


class Tagger(torch.nn.Module):
    """Layers on several IPUs, each behind the other; reads the sequence and the last state."""

    def __init__(self, kind, ipus):
        super().__init__()
        self.layers = torch.nn.ModuleList([KINDS[kind](6, 6, batch_first=True) for _ in range(max(ipus, 2))])
        self.head = torch.nn.Linear(6, 3)
        self.ipus = ipus

    def forward(self, x, target):
        for i, layer in enumerate(self.layers):
            poptorch.Block.start(f"layer{i}", ipu_id=min(i, self.ipus - 1))
            x, last = layer(x)
        last = last[0] if isinstance(last, tuple) else last
        out = self.head(x).sum(1) + self.head(last[-1])
        return out, torch.nn.functional.cross_entropy(out, target)


def tagger_inputs(factor, generator):
    rows = 2 * factor
    return torch.randn(rows, 4, 6, generator=generator), torch.randint(0, 3, (rows,), generator=generator)


@pytest.mark.parametrize(
    "ipus, accumulation", [*(pytest.param(*p, marks=pytest.mark.slow) for p in [(1, 1), (1, 3), (4, 7)]), (2, 3)]
)
@pytest.mark.parametrize("kind", KINDS)
def test_training_follows_torch_in_pipelines_and_with_accumulation(kind, ipus, accumulation):
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    compare_training(
        lambda: Tagger(kind, ipus),
        tagger_inputs,
        lambda net, optimizer: poptorch.trainingModel(net, options, optimizer),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        1,
        accumulation,
        steps=5,
    )


@pytest.mark.parametrize("kind", KINDS)
def test_dropout_between_layers(kind):
    torch.manual_seed(0)
    layer = KINDS[kind](4, 64, num_layers=2, dropout=0.5)
    x = torch.randn(3, 8, 4)
    trained = poptorch.inferenceModel(layer.train())(x)[0]
    again = poptorch.inferenceModel(copy.deepcopy(layer).eval())(x)[0]
    torch.testing.assert_close(again, copy.deepcopy(layer).eval()(x)[0], rtol=1e-5, atol=1e-5)
    assert (trained - again).abs().max() > 1e-2
    whole = KINDS[kind](4, 64, num_layers=2, dropout=1.0)  # nothing is left of the first layer
    y = poptorch.inferenceModel(whole.train())(x)[0]
    torch.testing.assert_close(y, whole.train()(x)[0], rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("workers", ["1", "2", "8"])
@pytest.mark.parametrize("kind", KINDS)
def test_bits_do_not_depend_on_workers(kind, workers, monkeypatch):
    model, inputs = made(kind, steps=5, batch=40, inputs=32, hidden=96)
    alone = poptorch.inferenceModel(copy.deepcopy(model))
    expected = alone(*inputs)
    monkeypatch.setenv("POPTORCH_HOST_THREADS", workers)
    wrapped = poptorch.inferenceModel(copy.deepcopy(model))
    for mine, theirs in zip(wrapped(*inputs), expected):
        assert torch.equal(mine, theirs)


@pytest.mark.parametrize("kind", KINDS)
def test_an_executable_with_recurrent_layers_comes_back(kind, tmp_path):
    model, inputs = made(kind, num_layers=2, bidirectional=True)
    first, second = (
        poptorch.trainingModel(m, None, torch.optim.SGD(m.parameters(), lr=0.1))
        for m in (copy.deepcopy(model), copy.deepcopy(model))
    )
    first.compileAndExport(tmp_path / "model.poptorch", *inputs, export_model=False)
    second.loadExecutable(tmp_path / "model.poptorch")
    for mine, theirs in zip(second(*inputs), first(*inputs)):
        assert torch.equal(mine, theirs)


CELLS = {"rnn": torch.nn.RNNCell, "lstm": torch.nn.LSTMCell, "gru": torch.nn.GRUCell}


class Unrolled(torch.nn.Module):
    def __init__(self, kind, **arguments):
        super().__init__()
        self.cell = CELLS[kind](4, 6, **arguments)

    def forward(self, x, y):
        state = None
        for step in x:
            state = self.cell(step, state)
        h = state[0] if isinstance(state, tuple) else state
        return h, torch.nn.functional.mse_loss(h, y)


@pytest.mark.parametrize(
    "kind, arguments", [*itertools.product(CELLS, [{}, {"bias": False}]), ("rnn", {"nonlinearity": "relu"})], ids=str
)
def test_loops_over_cells_train_as_in_torch(kind, arguments):
    torch.manual_seed(0)
    model = Unrolled(kind, **arguments)
    inputs = [torch.randn(3, 2, 4), torch.randn(2, 6)]
    results, taken = stepped(model, inputs)
    expected, wanted = gradients(model, inputs, torch.float32)
    torch.testing.assert_close(results[0], expected[0], rtol=1e-5, atol=1e-5)
    for name, gradient in wanted.items():
        torch.testing.assert_close(taken[name], gradient, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(4, 3, 6), (4,), (1, 4, 3, 5)])
@pytest.mark.parametrize("kind", KINDS)
def test_errors_of_bad_shapes_are_those_of_torch(kind, shape):
    model, _ = made(kind, states=False)
    with pytest.raises(Exception) as theirs:
        model(torch.zeros(shape))
    with pytest.raises(Exception) as ours:
        poptorch.inferenceModel(model)(torch.zeros(shape))
    assert str(theirs.value) in str(ours.value)
