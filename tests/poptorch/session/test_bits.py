"""Results and trained weights have the same bits for every number of worker threads and every instruction set."""

import pytest
from python_programs import run_program

# Prints a digest of what a model gives in inference and of its weights after two steps of training.
DIGEST = """
import hashlib, sys
import torch
from torch import nn
import poptorch


class Residual(nn.Module):
    def __init__(self, channels):
        super().__init__()
        self.inner = nn.Sequential(nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels), nn.ReLU(),
                                   nn.Conv2d(channels, channels, 3, 1, 1, bias=False), nn.BatchNorm2d(channels))

    def forward(self, x):
        return torch.relu(self.inner(x) + x)


class Joined(nn.Module):
    def __init__(self):
        super().__init__()
        self.down, self.up = nn.Conv2d(3, 16, 3, 2, 1), nn.Conv2d(19, 8, 3, 1, 1)
        self.norm = nn.GroupNorm(4, 8)

    def forward(self, x):
        y = nn.functional.interpolate(nn.functional.gelu(self.down(x)), scale_factor=2)
        return nn.functional.silu(self.norm(self.up(torch.cat([y, x], 1))))


def convolutions(batch, side, channels):
    stem = nn.Sequential(nn.Conv2d(3, channels, 3, 1, 1), nn.BatchNorm2d(channels), nn.ReLU())
    end = nn.Sequential(nn.AdaptiveAvgPool2d(2), nn.Flatten(), nn.Linear(4 * channels, 10))
    return nn.Sequential(stem, Residual(channels), nn.MaxPool2d(2), Residual(channels), end), torch.randn(batch, 3, side, side)


def perceptron(dtype):
    layers = nn.Sequential(nn.Linear(300, 512), nn.GELU(), nn.Linear(512, 512), nn.ReLU(), nn.LayerNorm(512), nn.Linear(512, 10))
    return layers.to(dtype), torch.randn(48, 300, dtype=dtype)


def encoder():
    layer = nn.TransformerEncoderLayer(128, 4, 256, 0.0, batch_first=True, norm_first=True, activation="gelu")
    return nn.TransformerEncoder(layer, 2, enable_nested_tensor=False), torch.randn(3, 40, 128)


MODELS = {
    "one image, few pixels": lambda: convolutions(1, 8, 128),
    "two images": lambda: convolutions(2, 16, 64),
    "many images": lambda: convolutions(20, 16, 32),
    "joined images": lambda: (Joined(), torch.randn(4, 3, 32, 32)),
    "perceptron": lambda: perceptron(torch.float32),
    "perceptron of halves": lambda: perceptron(torch.float16),
    "encoder": encoder,
}


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return poptorch.identity_loss((self.model(x).float() ** 2).mean(), "none")


torch.manual_seed(5)
model, x = MODELS[sys.argv[1]]()
results = [poptorch.inferenceModel(model.eval())(x)]
trained = poptorch.trainingModel(Loss(model.train()), optimizer=torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))
results += [trained(x) for _ in range(2)]
trained.copyWeightsToHost()
results += model.state_dict().values()
assert all(result.isfinite().all() for result in results)
print(hashlib.sha256(b"".join(result.numpy().tobytes() for result in results)).hexdigest())
"""
MODELS = (
    "one image, few pixels",
    "two images",
    "many images",
    "joined images",
    "perceptron",
    "perceptron of halves",
    "encoder",
)


@pytest.mark.slow
@pytest.mark.parametrize("model", MODELS)
def test_bits_do_not_depend_on_workers_and_instruction_set(model):
    digests = {}
    for workers, isa in (("1", "native"), ("2", "native"), ("5", "native"), ("2", "avx2")):
        run = run_program(DIGEST, model, environment={"POPTORCH_HOST_THREADS": workers, "POPTORCH_ISA": isa})
        assert run.returncode == 0, run.stderr
        digests[workers, isa] = run.stdout
    assert len(set(digests.values())) == 1, digests
