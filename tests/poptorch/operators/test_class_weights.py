"""Class weights of cross_entropy and nll_loss: values, gradients, training, against PyTorch."""

import itertools

import pytest
import torch
from torch.nn import functional

import poptorch

WEIGHTS = torch.tensor([0.5, 2.0, 0.0, 1.5])
IGNORED = 1
TARGETS = {
    "a batch": torch.tensor([0, 3, 1, 2, 3]),
    "ignored ones": torch.tensor([0, IGNORED, 3, IGNORED, 2]),
    "an image": torch.tensor([[[0, 1], [3, 2]], [[1, 1], [0, 3]]]),
    "one": torch.tensor(3),
    "probabilities": torch.rand(5, 4, generator=torch.Generator().manual_seed(2)).softmax(1),
}
ROWS = list(itertools.product(("none", "sum", "mean"), (0.0, 0.2)))


def scores_for(target):
    shape = target.shape if target.is_floating_point() else (*target.shape[:1], 4, *target.shape[1:])
    return torch.randn(shape, generator=torch.Generator().manual_seed(1))


class Losses(torch.nn.Module):
    """Each loss of the table, and its gradient for the scores."""

    def __init__(self, probabilities):
        super().__init__()
        self.probabilities = probabilities

    def losses(self, x, target, weight):
        for reduction, smoothing in ROWS:
            options = {"weight": weight, "reduction": reduction}
            if not self.probabilities:
                options["ignore_index"] = IGNORED
                if smoothing == 0.0:
                    yield functional.nll_loss(x.log_softmax(0 if x.dim() == 1 else 1), target, **options)
            yield functional.cross_entropy(x, target, label_smoothing=smoothing, **options)

    def forward(self, x, target, weight):
        x = x.clone().requires_grad_()
        return [
            r for loss in self.losses(x, target, weight) for r in (loss, torch.autograd.grad(loss.cos().sum(), x)[0])
        ]


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize("name", TARGETS)
def test_losses_with_class_weights_are_those_of_torch(name, dtype):
    target = TARGETS[name]
    target = target.to(dtype) if target.is_floating_point() else target
    model = Losses(target.is_floating_point())
    arguments = scores_for(target).to(dtype), target, WEIGHTS.to(dtype)
    bound = 1e-5 if dtype == torch.float32 else 4e-3
    for ours, theirs in zip(poptorch.inferenceModel(model)(*arguments), model(*arguments), strict=True):
        torch.testing.assert_close(ours, theirs, rtol=bound, atol=bound)


class Trained(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layer = torch.nn.Linear(3, 4)
        self.loss = torch.nn.CrossEntropyLoss(weight=WEIGHTS.clone(), label_smoothing=0.1)

    def forward(self, x, target):
        return self.loss(self.layer(x), target)


def test_a_weighted_loss_is_one_that_training_starts_from():
    x, target = torch.randn(5, 3, generator=torch.Generator().manual_seed(3)), TARGETS["a batch"]
    torch.manual_seed(4)
    ours, theirs = Trained(), Trained()
    theirs.load_state_dict(ours.state_dict())
    wrapper = poptorch.trainingModel(ours, optimizer=torch.optim.SGD(ours.parameters(), lr=0.5))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.5)
    for _ in range(3):
        loss = theirs(x, target)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        torch.testing.assert_close(wrapper(x, target), loss.detach())
    torch.testing.assert_close(ours.layer.weight, theirs.layer.weight)


def test_weights_are_one_for_each_class():
    run = poptorch.inferenceModel(Losses(False))
    with pytest.raises((AssertionError, poptorch.Error, RuntimeError), match="weight"):  # torch has its own words
        run(torch.ones(2, 4), torch.tensor([0, 1]), torch.ones(3))


def test_a_target_that_is_no_class_is_an_error():
    run = poptorch.inferenceModel(Losses(False))
    with pytest.raises(poptorch.Error, match="out of range"):
        run(torch.ones(2, 4), torch.tensor([0, 4]), WEIGHTS)
