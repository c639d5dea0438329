#!/usr/bin/env python3
"""Time of a half precision model against the same model in float32, and against eager PyTorch.

    python benchmarks/half.py [--case mlp] [--mode inference] [--batch 1] [--eager]

Inference of an MLP, LeNet, a transformer block and a wide linear layer (one that does not fit the caches), training with SGD
momentum of the first three. Both models run in this process, in turns; a row is the median over turns, in microseconds, and
the ratio of float16 to float32 (below 1: half is faster). `--eager` adds eager PyTorch in float32, float16 and bfloat16.
"""

import argparse
import copy
import statistics
import time

import torch
from torch import nn

import poptorch


class LeNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(1, 6, 5, padding=2), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(6, 16, 5), nn.ReLU(), nn.MaxPool2d(2)
        )
        self.classifier = nn.Sequential(
            nn.Flatten(), nn.Linear(400, 120), nn.ReLU(), nn.Linear(120, 84), nn.ReLU(), nn.Linear(84, 10)
        )

    def forward(self, x):
        return self.classifier(self.features(x))


def mlp():
    return nn.Sequential(nn.Linear(784, 512), nn.ReLU(), nn.Linear(512, 512), nn.ReLU(), nn.Linear(512, 10))


def block():
    return nn.TransformerEncoderLayer(256, 4, 1024, dropout=0.0, batch_first=True, activation="gelu")


CASES = {
    "mlp": (mlp, (784,)),
    "lenet": (LeNet, (1, 28, 28)),
    "block": (block, (128, 256)),
    "wide": (lambda: nn.Linear(4096, 8192), (4096,)),
}


class WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return poptorch.identity_loss((self.model(x).float() ** 2).mean(), "none")


def ours(model, x, mode):
    if mode == "inference":
        call = poptorch.inferenceModel(model.eval())
    else:
        wrapped = WithLoss(model.train())
        call = poptorch.trainingModel(
            wrapped, optimizer=poptorch.optim.SGD(wrapped.parameters(), lr=1e-4, momentum=0.9)
        )
    return lambda: call(x)


def eager(model, x, mode):
    if mode == "inference":
        model.eval()

        def call():
            with torch.inference_mode():
                model(x)

        return call
    optimizer = torch.optim.SGD(model.parameters(), lr=1e-4, momentum=0.9, fused=True)

    def step():
        optimizer.zero_grad()
        (model(x).float() ** 2).mean().backward()
        optimizer.step()

    return step


def medians(calls, seconds):
    """Median time of each call in microseconds; turns interleave them, so all see the same machine."""
    repeat = {}
    for name, call in calls.items():
        for _ in range(3):
            call()
        start = time.perf_counter()
        call()
        repeat[name] = max(1, int(0.02 / (time.perf_counter() - start)))
    samples = {name: [] for name in calls}
    end = time.perf_counter() + seconds * len(calls)
    while time.perf_counter() < end or len(samples[name]) < 5:
        for name, call in calls.items():
            start = time.perf_counter()
            for _ in range(repeat[name]):
                call()
            samples[name].append((time.perf_counter() - start) / repeat[name] * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--mode", choices=["inference", "training"], action="append")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=2.0, help="for each model of a row")
    parser.add_argument("--eager", action="store_true")
    arguments = parser.parse_args()
    torch.manual_seed(0)
    names = ["eager f32", "eager f16", "eager bf16"] if arguments.eager else []
    print("| case | mode | batch | f32 µs | f16 µs | f16 / f32 |" + "".join(f" {name} µs |" for name in names))
    print("|---|---|---|---|---|---|" + "---|" * len(names))
    ratios = []
    for mode in arguments.mode or ("inference", "training"):
        for case in arguments.case or CASES:
            make, shape = CASES[case]
            if case == "wide" and mode == "training":
                continue
            for batch in arguments.batch or (1, 32):
                model, x = make(), torch.randn(batch, *shape)
                calls = {
                    "f32": ours(copy.deepcopy(model), x, mode),
                    "f16": ours(copy.deepcopy(model).half(), x.half(), mode),
                }
                for name, dtype in zip(names, (torch.float32, torch.float16, torch.bfloat16), strict=False):
                    calls[name] = eager(copy.deepcopy(model).to(dtype), x.to(dtype), mode)
                time_of = medians(calls, arguments.seconds)
                ratio = time_of["f16"] / time_of["f32"]
                ratios.append(ratio)
                row = f"| {case} | {mode} | {batch} | {time_of['f32']:.1f} | {time_of['f16']:.1f} | {ratio:.2f} |"
                print(row + "".join(f" {time_of[name]:.1f} |" for name in names), flush=True)
    print(f"\nf16 / f32, geometric mean: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
