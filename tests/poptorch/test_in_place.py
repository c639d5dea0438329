"""Writing in place in forward: what the gradient sees of it, and inputs that forward writes."""

import pytest
import torch
import torch.nn.functional as F
from reference import compare_training
from torch import nn

import poptorch


class Layer(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.write = write

    def forward(self, x, y):
        return F.mse_loss(self.write(self.fc, x), y)


def clamped(fc, x):
    with torch.no_grad():
        fc.weight.clamp_(-0.3, 0.3)
    return fc(x)


def clamped_data(fc, x):
    fc.weight.data.clamp_(-0.3, 0.3)
    return fc(x)


def parts_written(fc, x):
    with torch.no_grad():
        fc.weight[0].mul_(0.5)
        fc.weight[:, 1].fill_(0.25)
        fc.weight.data[2, 2] = 0.0
    return fc(x)


def rounded(fc, x):
    out = fc(x)
    with torch.no_grad():
        out.mul_(8).round_().div_(8)
    return out * 2


def written_view(fc, x):
    out = fc(x)
    first = out[:, 0]
    with torch.no_grad():
        first.clamp_(min=0.0)
    return out + first.unsqueeze(1)


def written_with_gradient(fc, x):
    out = fc(x)
    out[:, 0].mul_(2.0)
    return out


def detached_copy(fc, x):
    out = fc(x)
    stopped = out.detach().clone()
    with torch.no_grad():
        stopped.mul_(2.0)
    return out * stopped


@pytest.mark.parametrize(
    "write", [clamped, clamped_data, parts_written, rounded, written_view, written_with_gradient, detached_copy]
)
def test_gradients_are_those_of_torch(write):
    compare_training(
        lambda: Layer(write),
        lambda count, generator: (torch.randn(5, 4, generator=generator), torch.randn(5, 3, generator=generator)),
        lambda net, optimizer: poptorch.trainingModel(
            net, poptorch.Options().outputMode(poptorch.OutputMode.All), optimizer
        ),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.5),
        1,
        1,
        8,
    )


class Doubling(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x, x + 1


@pytest.mark.parametrize("iterations", [1, 3])
def test_an_input_that_is_written_and_returned(iterations):
    model = poptorch.inferenceModel(Doubling(), poptorch.Options().deviceIterations(iterations))
    x = torch.arange(6.0 * iterations).view(2 * iterations, 3)
    expected = 2 * x
    same, more = model(x)
    assert torch.equal(x, expected)
    assert torch.equal(same, expected)
    assert torch.equal(more, expected + 1)


class DoublingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        x.mul_(2)
        return x, F.mse_loss(self.fc(x), x)


def test_all_of_a_written_input_comes_back_whatever_the_output_mode():
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    x = torch.randn(4, 3)
    expected = 2 * x
    returned, _ = poptorch.trainingModel(DoublingNet(), options)(x)
    assert torch.equal(x, expected)
    assert torch.equal(returned, expected[2:])  # output mode Final
