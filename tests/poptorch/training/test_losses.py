"""Losses: every function of the supported list trains as in torch, and which value of forward is trained on."""

import pytest
import torch
import torch.nn.functional as F
from reference import compare_training
from torch import nn

import poptorch


class Net(nn.Module):
    """Scores of a linear layer and a loss of them; an unreduced loss is reduced by identity_loss."""

    def __init__(self, loss, shape):
        super().__init__()
        self.layer = nn.Linear(shape[-1], shape[-1])
        self.loss = loss

    def forward(self, x, *targets):
        loss = self.loss(self.layer(x), *targets)
        return poptorch.identity_loss(loss, "none" if loss.dim() == 0 else "sum")


def train(loss, *shapes, steps=4):
    """`shapes`: of the scores, then per target a shape (normal numbers) or a function of the generator."""

    def inputs(count, generator):
        return tuple(
            torch.randn(shape, generator=generator) if isinstance(shape, tuple) else shape(generator)
            for shape in shapes
        )

    compare_training(
        lambda: Net(loss, shapes[0]),
        inputs,
        lambda net, optimizer: poptorch.trainingModel(
            net, poptorch.Options().outputMode(poptorch.OutputMode.All), optimizer
        ),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05),
        1,
        1,
        steps,
    )


N, C = 6, 4


def classes(*shape):
    return lambda generator: torch.randint(0, C, shape or (N,), generator=generator)


def signs(*shape):
    return lambda generator: torch.randint(0, 2, shape or (N, C), generator=generator).mul(2).sub(1).float()


def uniform(generator):
    return torch.rand(N, C, generator=generator)


def probabilities(generator):
    return torch.rand(N, C, generator=generator).softmax(1)


def counts(generator):
    return torch.randint(0, 6, (N, C), generator=generator).float()


WEIGHT = torch.tensor([1.0, 2.0, 0.5, 3.0])
LOSSES = {
    "l1": (nn.L1Loss, {}, [(N, C)]),
    "mse": (nn.MSELoss, {}, [(N, C)]),
    "smooth l1": (nn.SmoothL1Loss, {"beta": 0.3}, [(N, C)]),
    "huber": (nn.HuberLoss, {"delta": 0.5}, [(N, C)]),
    "cross-entropy": (nn.CrossEntropyLoss, {"ignore_index": 1}, [classes()]),
    "cross-entropy, smoothed": (nn.CrossEntropyLoss, {"label_smoothing": 0.2}, [classes()]),
    "cross-entropy, probabilities": (nn.CrossEntropyLoss, {}, [probabilities]),
    "cross-entropy, probabilities smoothed": (nn.CrossEntropyLoss, {"label_smoothing": 0.2}, [probabilities]),
    "bce": (nn.BCEWithLogitsLoss, {"weight": WEIGHT, "pos_weight": WEIGHT.flip(0)}, [uniform]),
    "kl": (lambda **a: lambda x, t: F.kl_div(x.log_softmax(1), t, **a), {}, [probabilities]),
    "kl, log target": (
        lambda **a: lambda x, t: F.kl_div(x.log_softmax(1), t.log(), log_target=True, **a),
        {},
        [probabilities],
    ),
    "nll": (lambda **a: lambda x, t: F.nll_loss(x.log_softmax(1), t, **a), {"ignore_index": 2}, [classes()]),
    "poisson": (nn.PoissonNLLLoss, {"full": True}, [counts]),
    "poisson, plain": (
        lambda **a: lambda x, t: F.poisson_nll_loss(x.exp(), t, log_input=False, eps=1e-3, **a),
        {},
        [counts],
    ),
    "hinge embedding": (nn.HingeEmbeddingLoss, {"margin": 0.7}, [signs()]),
    "soft margin": (nn.SoftMarginLoss, {}, [signs()]),
    "margin ranking": (nn.MarginRankingLoss, {"margin": 0.2}, [(N, C), signs()]),
    "cosine embedding": (nn.CosineEmbeddingLoss, {"margin": 0.1}, [(N, C), signs(N)]),
    "triplet": (nn.TripletMarginLoss, {}, [(N, C), (N, C)]),
    "triplet, swapped": (nn.TripletMarginLoss, {"swap": True, "p": 1.0, "margin": 2.0}, [(N, C), (N, C)]),
    "multi-label soft margin": (nn.MultiLabelSoftMarginLoss, {"weight": WEIGHT}, [lambda g: uniform(g).round()]),
}


@pytest.mark.parametrize("reduction", ["mean", "sum", "none"])
@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_trains_as_in_torch(name, reduction):
    make, arguments, targets = LOSSES[name]
    loss = make(**arguments, reduction=reduction)
    if isinstance(loss, nn.BCEWithLogitsLoss | nn.MultiLabelSoftMarginLoss):
        loss = loss.float()
    train(loss, (N, C), *targets)


class Sequence(nn.Module):
    """Labels over time: 9 times, 2 samples, 4 classes and a blank."""

    def __init__(self, reduction, as_tensors):
        super().__init__()
        self.layer = nn.Linear(C, 5)
        self.loss = nn.CTCLoss(blank=4, reduction=reduction, zero_infinity=True)
        self.as_tensors = as_tensors

    def forward(self, x, labels, times, lengths):
        out = self.layer(x.view(9, 2, C)).log_softmax(-1)
        if not self.as_tensors:
            times, lengths = (9, 7), (3, 2)
        return self.loss(out, labels, times, lengths)


@pytest.mark.parametrize("as_tensors", [False, True])
@pytest.mark.parametrize("reduction", ["mean", "sum"])
def test_labels_over_time_train_as_in_torch(reduction, as_tensors):
    def inputs(count, generator):
        return (
            torch.randn(2, 9 * C, generator=generator).view(2, 9, C),
            torch.randint(0, 4, (2, 3), generator=generator),
            torch.tensor([9, 7]),
            torch.tensor([3, 2]),
        )

    compare_training(
        lambda: Sequence(reduction, as_tensors),
        inputs,
        lambda net, optimizer: poptorch.trainingModel(
            net, poptorch.Options().outputMode(poptorch.OutputMode.All), optimizer
        ),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05),
        1,
        1,
        6,
    )


class Marked(nn.Module):
    """The loss alone marks what is trained on: forward says nothing itself."""

    def __init__(self, loss):
        super().__init__()
        self.layer = nn.Linear(C, C)
        self.loss = loss

    def forward(self, x, *targets):
        out = self.layer(x)
        return out, self.loss(out, *targets)


def one_step(model, *inputs):
    """(weight after a step of size 1 on the device, the same in torch)."""
    start = model.layer.weight.detach().clone()
    model(*inputs)[-1].backward()
    expected = start - model.layer.weight.grad
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    trainer(*inputs)
    trainer.destroy()
    return model.layer.weight.detach(), expected


MARKS = {
    "batch mean": (lambda x, t: F.kl_div(x.log_softmax(1), t, reduction="batchmean"), probabilities),
    "weighted squares": (lambda x, t: F.mse_loss(x, t, weight=t + 0.5), probabilities),
    "labels": (lambda x, t: F.multilabel_soft_margin_loss(x, t), lambda g: uniform(g).round()),
    "rates": (F.poisson_nll_loss, counts),
    "sides": (F.hinge_embedding_loss, signs()),
    "soft sides": (F.soft_margin_loss, signs()),
    "order": (lambda x, t: F.margin_ranking_loss(x, x.flip(0), t), signs()),
    "angles": (lambda x, t: F.cosine_embedding_loss(x, x.flip(1), t), signs(N)),
    "triplets": (lambda x, t: F.triplet_margin_loss(x, t, t.flip(0)), uniform),
}


@pytest.mark.parametrize("name", MARKS)
def test_the_value_of_a_loss_function_is_what_is_trained_on(name):
    loss, target = MARKS[name]
    generator = torch.Generator().manual_seed(3)
    ours, expected = one_step(Marked(loss), torch.randn(N, C, generator=generator), target(generator))
    torch.testing.assert_close(ours, expected, rtol=1e-4, atol=1e-5)


def test_losses_functions_are_those_of_torch_after_a_capture():
    before = (F.kl_div, F.mse_loss, nn.BatchNorm1d.forward)
    trainer = poptorch.trainingModel(Marked(F.mse_loss))
    trainer(torch.randn(N, C), torch.randn(N, C))
    assert (F.kl_div, F.mse_loss, nn.BatchNorm1d.forward) == before


def test_targets_of_ctc_that_are_not_padded_are_refused():
    targets = torch.zeros(4, dtype=torch.int64)
    model = Marked(lambda x, t: F.ctc_loss(x.view(3, 2, C), t, (3, 3), (2, 2)))
    with pytest.raises(poptorch.Error, match=r"targets one behind the other; \[N, S\] is supported"):
        poptorch.trainingModel(model)(torch.randn(N, C), targets)


def test_what_follows_the_loss_is_warned_about(capfd):
    trainer = poptorch.trainingModel(Marked(lambda x, t: 3 * F.mse_loss(x, t)))
    trainer(torch.randn(N, C), torch.randn(N, C))
    text = capfd.readouterr().err
    assert "The value that is trained on is 'mse_loss' at" in text
    assert "What forward computes from it, 'mul' at" in text
    assert (
        "does not change the gradients. To train on that value, wrap it in "
        'poptorch.identity_loss(value, reduction="none").' in text
    )


@pytest.mark.parametrize(
    "loss",
    [
        F.mse_loss,
        lambda x, t: poptorch.identity_loss(3 * F.mse_loss(x, t), "none"),
        lambda x, t: poptorch.ipu_print_tensor(F.mse_loss(x, t)),
    ],
)
def test_a_loss_that_ends_the_graph_is_not_warned_about(loss, capfd):
    poptorch.trainingModel(Marked(loss))(torch.randn(N, C), torch.randn(N, C))
    assert "does not change the gradients" not in capfd.readouterr().err
