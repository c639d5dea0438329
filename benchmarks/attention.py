#!/usr/bin/env python3
"""Times attention over sequences of several lengths, between two linear layers, beside eager PyTorch.

    python benchmarks/attention.py [--seconds 0.5] [--dtype float16]

Inference, and training with SGD and momentum, both with two threads in blocks in turns; the better of two medians each, in milliseconds.
"""

import argparse
import copy
import os
import pathlib
import statistics
import sys
import time

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[1]))

import torch  # noqa: E402
import torch.nn.functional as F  # noqa: E402
from torch import nn  # noqa: E402

import poptorch  # noqa: E402

THREADS = 2
TURNS = 2

# batch, heads, width of a head, tokens, mask
CASES = [
    (64, 8, 64, 48, "boolean"),
    (8, 12, 64, 128, "boolean"),
    (8, 12, 64, 128, "causal"),
    (16, 4, 16, 512, "none"),
    (4, 8, 64, 512, "none"),
    (4, 8, 64, 512, "causal"),
    (2, 8, 64, 1024, "none"),
    (2, 8, 64, 1024, "causal"),
    (1, 8, 64, 2048, "none"),
    (1, 8, 64, 2048, "causal"),
]


class Attention(nn.Module):
    def __init__(self, heads, width, mask):
        super().__init__()
        self.heads, self.width, self.mask = heads, width, mask
        self.project = nn.Linear(heads * width, 3 * heads * width)
        self.out = nn.Linear(heads * width, heads * width)

    def forward(self, x, mask=None):
        batch, tokens, _ = x.shape
        query, key, value = self.project(x).view(batch, tokens, 3, self.heads, self.width).permute(2, 0, 3, 1, 4)
        y = F.scaled_dot_product_attention(query, key, value, attn_mask=mask, is_causal=self.mask == "causal")
        return self.out(y.transpose(1, 2).reshape(batch, tokens, -1))


class Trained(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, target, *inputs):
        y = self.model(*inputs)
        return y, F.mse_loss(y, target)


def median(step, seconds):
    for _ in range(2):
        step()
    times, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end or len(times) < 3:
        began = time.perf_counter()
        step()
        times.append(time.perf_counter() - began)
    return statistics.median(times) * 1e3


def in_turns(ours, eager, seconds):
    turns = [(median(ours, seconds / TURNS), median(eager, seconds / TURNS)) for _ in range(TURNS)]
    return [min(column) for column in zip(*turns)]


def inputs_of(case, dtype):
    batch, heads, width, tokens, mask = case
    x = torch.randn(batch, tokens, heads * width).to(dtype)
    return (x, torch.rand(batch, 1, 1, tokens) > 0.1) if mask == "boolean" else (x,)


def inference(case, dtype, seconds):
    model, inputs = Attention(case[1], case[2], case[4]).to(dtype).eval(), inputs_of(case, dtype)
    wrapper = poptorch.inferenceModel(model)
    with torch.inference_mode():
        times = in_turns(lambda: wrapper(*inputs), lambda: model(*inputs), seconds)
    wrapper.destroy()
    return times


def training(case, dtype, seconds):
    model, inputs = Trained(Attention(case[1], case[2], case[4]).to(dtype)), inputs_of(case, dtype)
    inputs = (torch.randn_like(inputs[0]), *inputs)
    plain = copy.deepcopy(model)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.01, momentum=0.9, fused=dtype == torch.float32)
    wrapper = poptorch.trainingModel(model, optimizer=poptorch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9))

    def eager():
        optimizer.zero_grad()
        plain(*inputs)[1].backward()
        optimizer.step()

    times = in_turns(lambda: wrapper(*inputs), eager, seconds)
    wrapper.destroy()
    return times


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seconds", type=float, default=0.5, help="for each of the two, a row and mode")
    parser.add_argument("--dtype", choices=["float32", "float16"], default="float32")
    parser.add_argument("--tokens", type=int, action="append", help="only rows with so many")
    arguments = parser.parse_args()
    os.environ.setdefault("POPTORCH_HOST_THREADS", str(THREADS))
    if "POPTORCH_LOG_LEVEL" not in os.environ:
        poptorch.setLogLevel("ERR")
    torch.set_num_threads(THREADS)
    dtype = getattr(torch, arguments.dtype)
    print(
        "| batch | heads | width | tokens | mask | inference ms | eager ms | × eager | training ms | eager ms | × eager |"
    )
    print("|" + "---|" * 11)
    ratios = []
    for case in CASES:
        if arguments.tokens and case[3] not in arguments.tokens:
            continue
        torch.manual_seed(0)
        cells, of_row = [str(cell) for cell in case], []
        for measure in (inference, training):
            ours, eager = measure(case, dtype, arguments.seconds)
            of_row.append(eager / ours)
            cells += [f"{ours:.2f}", f"{eager:.2f}", f"{eager / ours:.2f}"]
        ratios.append(of_row)
        print(f"| {' | '.join(cells)} |", flush=True)
    means = [statistics.geometric_mean(column) for column in zip(*ratios)]
    print(f"\nGeometric mean: {means[0]:.2f} x eager in inference, {means[1]:.2f} x in training.")


if __name__ == "__main__":
    main()
