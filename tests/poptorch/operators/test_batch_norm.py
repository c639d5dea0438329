"""Batch norm in both modes, with running statistics, against torch over the same micro-batches (one replica)."""

import pytest
import torch
from reference import compare_training

import poptorch


class Normed(torch.nn.Module):
    def __init__(self, ipus=1, **arguments):
        super().__init__()
        self.conv = torch.nn.Conv2d(2, 3, 3)
        self.norm = torch.nn.BatchNorm2d(3, **arguments)
        self.linear = torch.nn.Linear(27, 4)
        self.ipus = ipus

    def forward(self, x, y=None):
        poptorch.Block.start("first", ipu_id=0)
        x = torch.relu(self.norm(self.conv(x)))
        poptorch.Block.start("second", ipu_id=self.ipus - 1)
        out = self.linear(x.flatten(1))
        return out if y is None else (out, torch.nn.functional.cross_entropy(out, y))


def inputs(count, generator):
    return (
        torch.randn(4 * count, 2, 5, 5, generator=generator),
        torch.randint(0, 4, (4 * count,), generator=generator),
    )


@pytest.mark.parametrize("ipus, accumulation", [(1, 1), (1, 2), (2, 3)])
@pytest.mark.parametrize("arguments", [{}, {"momentum": 0.3, "eps": 1e-3}, {"affine": False}])
def test_training_updates_weights_and_running_statistics_as_torch_does(ipus, accumulation, arguments):
    options = poptorch.Options().deviceIterations(2).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    compare_training(
        lambda: Normed(ipus, **arguments).train(),
        inputs,
        lambda net, optimizer: poptorch.trainingModel(net, options, optimizer),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        2,
        accumulation,
    )


def test_inference_uses_the_running_statistics():
    model = Normed().eval()
    model.norm.running_mean.uniform_(-1, 1)
    model.norm.running_var.uniform_(0.5, 2)
    x = torch.randn(4, 2, 5, 5)
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), model(x))
