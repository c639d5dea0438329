"""Shapes and values of results for every output mode: the worked examples A to E of batching."""

import pytest
import torch

import poptorch
from poptorch import OutputMode


class Scores(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3 * 8 * 8, 7)

    def forward(self, x):
        logits = self.layer(x.flatten(1))
        return logits, logits.sum()


def micro_batches(tensor, rows):
    return list(tensor.split(rows))


@pytest.mark.parametrize(
    "mode, period, kept",
    [
        (OutputMode.All, None, range(5)),
        (OutputMode.Final, None, [4]),
        (OutputMode.EveryN, 5, [4]),
        (OutputMode.EveryN, 1, range(5)),
        (OutputMode.Sum, None, None),
    ],
)
@pytest.mark.shows(
    "inferenceModel",
    "Options",
    "Options.deviceIterations",
    "Options.outputMode",
    "OutputMode",
    "PoplarExecutor.__call__",
)
@pytest.mark.edge("22.15")
def test_inference_returns_the_micro_batches_that_the_output_mode_keeps(mode, period, kept):
    model = Scores()
    options = poptorch.Options().deviceIterations(5).outputMode(mode, period)
    x = torch.randn(20, 3, 8, 8)
    logits, total = poptorch.inferenceModel(model, options)(x)
    expected = [model(part) for part in micro_batches(x, 4)]
    if kept is None:
        want_logits, want_total = sum(e[0] for e in expected), sum(e[1] for e in expected)
        assert logits.shape == (4, 7) and total.shape == ()
    else:
        want_logits = torch.cat([expected[i][0] for i in kept])
        want_total = torch.stack([expected[i][1] for i in kept])
        want_total = want_total[0] if len(want_total) == 1 else want_total
        assert logits.shape == (4 * len(list(kept)), 7)
        assert total.shape == want_total.shape
    torch.testing.assert_close(logits, want_logits)
    torch.testing.assert_close(total, want_total, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize(
    "mode, period, k",
    [(OutputMode.All, None, 10), (OutputMode.Final, None, 2), (OutputMode.Sum, None, 2), (OutputMode.EveryN, 5, 2)],
)
@pytest.mark.shows("Options.replicationFactor")
def test_inference_with_two_replicas_returns_what_the_output_mode_keeps_of_each(mode, period, k):
    model = Scores()
    options = poptorch.Options().deviceIterations(5).replicationFactor(2).outputMode(mode, period)
    x = torch.randn(40, 3, 8, 8)
    logits, total = poptorch.inferenceModel(model, options)(x)
    assert logits.shape == (4 * k, 7) and total.shape == (k,)
    expected = [model(part) for part in micro_batches(x, 4)]
    if mode == OutputMode.Sum:
        kept = [tuple(sum(e[i] for e in expected[r::2]) for i in range(2)) for r in range(2)]
    else:
        kept = expected if mode == OutputMode.All else expected[-2:]
    torch.testing.assert_close(logits, torch.cat([e[0] for e in kept]))
    torch.testing.assert_close(total, torch.stack([e[1] for e in kept]), rtol=1e-5, atol=1e-5)


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(6, 5)

    def forward(self, x, y):
        out = self.layer(x)
        return out, torch.nn.functional.mse_loss(out, y)


@pytest.mark.parametrize(
    "mode, period, out_shape, loss_shape",
    [
        (OutputMode.Default, None, (2, 5), ()),
        (OutputMode.All, None, (48, 5), (24,)),
        (OutputMode.EveryN, 3, (16, 5), (8,)),
        (OutputMode.Sum, None, (2, 5), ()),
    ],
)
@pytest.mark.shows("trainingModel", "Options.Training.gradientAccumulation")
@pytest.mark.edge("22.14")
def test_training_with_accumulation_returns_what_the_output_mode_keeps(mode, period, out_shape, loss_shape):
    torch.manual_seed(0)
    model = Trained()
    state = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    options = poptorch.Options().deviceIterations(3)
    if mode != OutputMode.Default:
        options.outputMode(mode, period)
    options.Training.gradientAccumulation(8)
    x, y = torch.randn(48, 6), torch.randn(48, 5)
    out, loss = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))(x, y)
    assert out.shape == out_shape and loss.shape == loss_shape

    plain = Trained()
    plain.load_state_dict(state)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    outs, losses = [], []
    for iteration in range(3):
        optimizer.zero_grad()
        for step in range(8):
            row = 16 * iteration + 2 * step
            o, l = plain(x[row : row + 2], y[row : row + 2])
            (l / 8).backward()
            outs.append(o.detach())
            losses.append(l.detach())
        optimizer.step()
    if mode == OutputMode.All:
        want = torch.cat(outs), torch.stack(losses)
    elif mode == OutputMode.EveryN:
        want = torch.cat(outs[16:]), torch.stack(losses[16:])
    elif mode == OutputMode.Sum:
        want = sum(outs), sum(losses)
    else:
        want = outs[-1], losses[-1]
    torch.testing.assert_close(out, want[0], rtol=1e-4, atol=1e-5)
    torch.testing.assert_close(loss, want[1], rtol=1e-4, atol=1e-5)


@pytest.mark.edge("22.57")
def test_period_that_does_not_divide_the_device_iterations_is_refused():
    options = poptorch.Options().deviceIterations(3).outputMode(OutputMode.EveryN, 2)
    options.Training.gradientAccumulation(8)
    trainer = poptorch.trainingModel(Trained(), options)
    with pytest.raises(poptorch.Error, match=r"(?s)2.*3") as raised:
        trainer(torch.randn(48, 6), torch.randn(48, 5))
    assert raised.value.type == "popart_exception"


@pytest.mark.parametrize("mode, k", [(OutputMode.All, 32), (OutputMode.Final, 4)])
def test_output_modes_count_iterations_replicas_and_accumulation_together(mode, k):
    torch.manual_seed(0)
    model = Trained()
    options = poptorch.Options().deviceIterations(2).replicationFactor(4).outputMode(mode)
    options.inputReplicaGrouping(2, poptorch.CommGroupType.Consecutive)
    options.Training.gradientAccumulation(4)
    x, y = torch.randn(16, 6), torch.randn(16, 5)
    plain = Trained()
    plain.load_state_dict(model.state_dict())
    out, loss = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))(x, y)
    assert out.shape == (k, 5) and loss.shape == (k,)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    outs = []
    for iteration in range(2):
        rows = slice(8 * iteration, 8 * iteration + 8)
        optimizer.zero_grad()
        o, l = plain(x[rows], y[rows])
        l.backward()
        outs.append(o.detach())
        optimizer.step()
    each_row_twice = torch.cat(outs).repeat_interleave(2, 0)  # (DI, GA, replica): two replicas see each row
    torch.testing.assert_close(out, each_row_twice[-k:], rtol=1e-4, atol=1e-5)


class Uneven(torch.nn.Module):
    def forward(self, images, masks):
        return images.sum(0, keepdim=True), masks * 2, torch.tensor(float(images.shape[0])) + images.sum() * 0


def test_each_input_is_split_over_replicas_by_its_own_size():
    options = poptorch.Options().replicationFactor(2)
    images, masks = torch.randn(12, 3), torch.randn(2, 9)
    total, doubled, rows = poptorch.inferenceModel(Uneven(), options)(images, masks)
    torch.testing.assert_close(total, torch.stack([images[:6].sum(0), images[6:].sum(0)]))
    torch.testing.assert_close(doubled, masks * 2)
    assert rows.tolist() == [6, 6]


class Hits(torch.nn.Module):
    def forward(self, scores, target):
        return (scores.argmax(1) == target).sum()


def test_the_sum_mode_counts_hits_over_all_device_iterations():
    options = poptorch.Options().deviceIterations(10).outputMode(OutputMode.Sum)
    scores, target = torch.randn(160, 4), torch.randint(0, 4, (160,))
    hits = poptorch.inferenceModel(Hits(), options)(scores, target)
    assert hits.shape == () and hits.item() == (scores.argmax(1) == target).sum().item()


def test_the_sum_mode_counts_hits_of_each_replica():
    options = poptorch.Options().deviceIterations(10).replicationFactor(2).outputMode(OutputMode.Sum)
    scores, target = torch.randn(320, 4), torch.randint(0, 4, (320,))
    hits = poptorch.inferenceModel(Hits(), options)(scores, target)
    assert hits.shape == (2,) and hits.sum().item() == (scores.argmax(1) == target).sum().item()


def test_the_sum_of_truth_values_is_their_or():
    options = poptorch.Options().deviceIterations(3).outputMode(poptorch.OutputMode.Sum)
    values = torch.tensor([True, False, False, False, True, False])
    got = poptorch.inferenceModel(lambda t: (t, t.int(), t.half()), options)(values)
    torch.testing.assert_close(got[0], torch.tensor([True, False]))
    torch.testing.assert_close(got[1], torch.tensor([2, 0], dtype=torch.int32))
    torch.testing.assert_close(got[2], torch.tensor([2.0, 0.0], dtype=torch.float16))
