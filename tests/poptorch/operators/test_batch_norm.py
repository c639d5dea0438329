"""Batch norm in both modes, with running statistics, against torch over the same micro-batches (one replica)."""

import copy

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


class Residual(torch.nn.Module):
    """A block of ResNet whose images and channels choose how its convolutions are done."""

    def __init__(self, channels, bias):
        super().__init__()
        self.conv1 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=bias)
        self.norm1 = torch.nn.BatchNorm2d(channels)
        self.conv2 = torch.nn.Conv2d(channels, channels, 3, padding=1, bias=bias)
        self.norm2 = torch.nn.BatchNorm2d(channels, affine=False)

    def forward(self, x):
        x = torch.relu(x)  # channels last only where convolutions are
        out = torch.relu(self.norm1(self.conv1(x)))
        return torch.relu(self.norm2(self.conv2(out)) + x)


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("batch, channels, extent", [(1, 64, 6), (5, 40, 6), (1, 3, 9), (2, 64, 12)])
def test_in_inference_it_ends_convolutions_with_the_statistics_of_the_call(batch, channels, extent, bias):
    torch.manual_seed(0)
    net = Residual(channels, bias).eval()
    model = poptorch.inferenceModel(net)
    for _ in range(2):
        with torch.no_grad():
            for tensor in (*net.parameters(), *net.buffers()):
                if tensor.is_floating_point():
                    tensor.copy_(torch.rand_like(tensor) * 0.2 + 0.05)
        if model.isCompiled():
            model.copyWeightsToDevice()
        x = torch.randn(batch, channels, extent, extent)
        torch.testing.assert_close(model(x), net(x).detach(), rtol=1e-4, atol=1e-4)
    kernels = {event["kernel"] for event in traced(model, x)}
    assert "fused_conv" in kernels and "conv" not in kernels


def traced(model, x):
    model._executable.trace(True)
    model(x)
    events = model._executable.take_trace()
    model._executable.trace(False)
    return events


class OwnStatistics(torch.nn.Module):
    """Batch norm by the function, with buffers of any name."""

    def __init__(self, channels):
        super().__init__()
        self.register_buffer("centre", torch.zeros(channels))
        self.register_buffer("spread", torch.ones(channels))

    def forward(self, x):
        return torch.nn.functional.batch_norm(x, self.centre, self.spread, training=True)


class WithoutGradients(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        with torch.no_grad():
            return self.norm(x)


class Twice(torch.nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.norm = torch.nn.BatchNorm2d(channels)

    def forward(self, x):
        return self.norm(self.norm(x) + x)


NORMS = {
    "batch_norm": torch.nn.BatchNorm2d,
    "cumulative": lambda channels: torch.nn.BatchNorm2d(channels, momentum=None),
    "function": OwnStatistics,
    "without_gradients": WithoutGradients,
    "twice": Twice,
    "two": lambda channels: torch.nn.Sequential(torch.nn.BatchNorm2d(channels), torch.nn.BatchNorm2d(channels)),
}


class Convolutional(torch.nn.Module):
    def __init__(self, norm):
        super().__init__()
        self.conv, self.norm, self.linear = torch.nn.Conv2d(2, 3, 3), norm, torch.nn.Linear(27, 4)

    def forward(self, x, y):
        out = self.linear(torch.relu(self.norm(self.conv(x))).flatten(1))
        return out, torch.nn.functional.cross_entropy(out, y)


@pytest.mark.parametrize("broadcast", [True, False])
@pytest.mark.parametrize("name", NORMS)
def test_replicas_train_with_running_statistics_of_their_own(name, broadcast):
    torch.manual_seed(4)
    model = Convolutional(NORMS[name](3))
    replicas = [copy.deepcopy(model) for _ in range(2)]
    optimizers = [torch.optim.SGD(replica.parameters(), lr=0.05) for replica in replicas]
    options = poptorch.Options().replicationFactor(2).broadcastBuffers(broadcast)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.05))
    for _ in range(2):
        x, y = torch.randn(8, 2, 5, 5), torch.randint(0, 4, (8,))
        trainer(x, y)
        for replica, x_part, y_part in zip(replicas, x.chunk(2), y.chunk(2)):
            replica.zero_grad()
            replica(x_part, y_part)[1].backward()
        for first, second in zip(*(replica.parameters() for replica in replicas)):
            if first.grad is not None:
                first.grad = (first.grad + second.grad) / 2
                second.grad = first.grad.clone()
        for optimizer in optimizers:
            optimizer.step()
    for key, tensor in replicas[0].state_dict().items():  # those of the first replica are read back
        torch.testing.assert_close(model.state_dict()[key], tensor, rtol=1e-4, atol=1e-5, msg=lambda t: f"{key}: {t}")
    trainer.destroy()


def test_other_buffers_beside_running_statistics_are_refused_by_name():
    class Counting(Convolutional):
        def __init__(self):
            super().__init__(torch.nn.BatchNorm2d(3))
            self.register_buffer("seen", torch.zeros(1))

        def forward(self, x, y):
            self.seen.add_(x.sum())
            return super().forward(x, y)

    model = Counting()
    trainer = poptorch.trainingModel(model, poptorch.Options().replicationFactor(2))
    with pytest.raises(poptorch.Error, match="forward writes the buffer 'seen' in place"):
        trainer(torch.randn(4, 2, 5, 5), torch.zeros(4, dtype=torch.long))
