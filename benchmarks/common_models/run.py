#!/usr/bin/env python3
"""Times two dozen common models in inference and training (SGD with momentum) beside eager PyTorch.

    python benchmarks/common_models/run.py [--case mobile] [--batch 1] [--seconds 0.4]

Both run in one process with two threads, in blocks in turns; the rows are medians in microseconds. Training of eager uses fused SGD.
"""

import argparse
import os
import pathlib
import statistics
import sys
import time

THREADS = 2
TURNS = 4
sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2]))

import model_kinds as models  # noqa: E402
import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import poptorch  # noqa: E402


def numbers(*shape):
    return lambda batch: (torch.randn(batch, *shape),)


def tokens(vocabulary, steps):
    return lambda batch: (torch.randint(0, vocabulary, (batch, steps)),)


IMAGES = numbers(3, 32, 32)

# name: (model, inputs of a batch)
CASES = {
    "mobile": (models.mobile, numbers(3, 64, 64)),
    "mobile, hardswish": (lambda: models.mobile(nn.Hardswish), numbers(3, 64, 64)),
    "resnext, 32 groups": (lambda: models.resnext(32), IMAGES),
    "resnext, 8 groups": (lambda: models.resnext(8), IMAGES),
    "multiplier": (models.multiplier, IMAGES),
    "convnext": (models.convnext, IMAGES),
    "vgg": (models.vgg, IMAGES),
    "u-net": (models.UNet, numbers(3, 64, 64)),
    "dense": (models.Dense, IMAGES),
    "squeeze and excite": (models.SqueezeAndExcite, numbers(3, 64, 64)),
    "group norms": (models.group_norms, IMAGES),
    "instance norms": (models.instance_norms, IMAGES),
    "generator": (models.generator, numbers(64, 1, 1)),
    "signals": (models.convolutions_of_signals, numbers(8, 256)),
    "eeg": (models.eeg, numbers(1, 22, 256)),
    "volumes": (models.volumes, numbers(1, 16, 16, 16)),
    "autoencoder": (models.autoencoder, numbers(784)),
    "wide mlp": (models.wide_mlp, numbers(64)),
    "gru": (models.BidirectionalGru, tokens(1000, 32)),
    "lstm cell": (models.LstmCell, lambda batch: (torch.randn(16, batch, 32),)),
    "vision transformer": (models.VisionTransformer, IMAGES),
    "tagger": (models.Tagger, tokens(1000, 64)),
    "decoder": (models.Decoder, lambda batch: (*tokens(2000, 32)(batch), torch.randn(batch, 32, 128))),
    "mixer": (models.Mixer, IMAGES),
    "recommender": (
        models.Recommender,
        lambda batch: (torch.randn(batch, 13), torch.randint(0, 5000, (batch, 8, 4))),
    ),
}


class WithLoss(nn.Module):
    """Output and loss: cross entropy of classes, the mean square of anything else."""

    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, target, *inputs):
        output = self.model(*inputs)
        return output, F.mse_loss(output, target) if target.is_floating_point() else F.cross_entropy(output, target)


def target_of(output):
    """Classes for rows of scores; numbers for images and for the pixels of the autoencoder."""
    if output.dim() != 2 or output.shape[1] == 784:
        return torch.randn_like(output)
    return torch.randint(0, output.shape[1], (output.shape[0],))


def options():
    made = poptorch.Options()
    made.showCompilationProgressBar(False)
    return made


def make(case, batch):
    """(model, inputs), the same at every call."""
    torch.manual_seed(0)
    model, inputs = CASES[case]
    return model(), inputs(batch)


def inference_steps(case, batch):
    model, inputs = make(case, batch)
    ours = poptorch.inferenceModel(make(case, batch)[0].eval(), options())
    model.eval()

    def eager():
        with torch.inference_mode():
            return model(*inputs)

    return eager, lambda: ours(*inputs), ours


def training_steps(case, batch):
    model, inputs = make(case, batch)
    target = target_of(model(*inputs).detach())
    model, twin = WithLoss(model), WithLoss(make(case, batch)[0])
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)
    ours = poptorch.trainingModel(twin, options(), poptorch.optim.SGD(twin.parameters(), lr=1e-4, momentum=0.9))

    def eager():
        optimizer.zero_grad(set_to_none=True)
        output, loss = model(target, *inputs)
        loss.backward()
        optimizer.step()
        return output

    return eager, lambda: ours(target, *inputs)[0], ours


def medians(steps, seconds):
    """Times each step in blocks that take turns. First steps of a block wait for threads of the other, which spin."""
    samples = [[] for _ in steps]
    for _ in range(TURNS):
        for taken, step in zip(samples, steps):
            began = time.perf_counter()
            for _ in range(2):
                step()
            time.sleep(0.01)
            while not taken or time.perf_counter() - began < seconds / TURNS:
                start = time.perf_counter()
                step()
                taken.append((time.perf_counter() - start) * 1e6)
    return [statistics.median(taken) for taken in samples]


def row(case, batch, seconds):
    """The cells of a case and batch, and eager's time as a multiple of ours in inference and training."""
    cells, ratios = [case, str(batch)], []
    for make_steps in (inference_steps, training_steps):
        eager, ours, wrapper = make_steps(case, batch)
        theirs, mine = medians([eager, ours], seconds)
        wrapper.destroy()
        cells += [f"{mine:.0f}", f"{theirs:.0f}", f"{theirs / mine:.2f}"]
        ratios.append(theirs / mine)
    return cells, ratios


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", action="append", choices=list(CASES))
    parser.add_argument("--batch", action="append", type=int)
    parser.add_argument("--seconds", type=float, default=0.4, help="for each of the two, a row and mode")
    arguments = parser.parse_args()
    os.environ.setdefault("POPTORCH_HOST_THREADS", str(THREADS))
    if "POPTORCH_LOG_LEVEL" not in os.environ:
        poptorch.setLogLevel("ERR")
    torch.set_num_threads(THREADS)
    print("| model | batch | inference µs | eager µs | × eager | training µs | eager µs | × eager |")
    print("|---|---|---|---|---|---|---|---|")
    ratios = []
    for case in arguments.case or CASES:
        for batch in arguments.batch or (2, 16):  # batch norms of one pixel need two images
            cells, of_row = row(case, batch, arguments.seconds)
            ratios.append(of_row)
            print(f"| {' | '.join(cells)} |", flush=True)
    inference, training = (statistics.geometric_mean(column) for column in zip(*ratios))
    print(f"\nGeometric mean: {inference:.2f} x eager in inference, {training:.2f} x in training.")


if __name__ == "__main__":
    main()
