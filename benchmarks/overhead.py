#!/usr/bin/env python3
"""Time of a call that computes next to nothing, and where it goes.

    python benchmarks/overhead.py

A 4-element addition: the native call, the wrapper's `__call__`, and the same with a training wrapper; against eager.
"""

import statistics
import time

import torch

import poptorch


def microseconds(function, *args):
    for _ in range(2000):
        function(*args)
    samples = []
    for _ in range(30):
        start = time.perf_counter()
        for _ in range(2000):
            function(*args)
        samples.append((time.perf_counter() - start) / 2000 * 1e6)
    return statistics.median(samples)


class Add(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return poptorch.identity_loss(x + self.w, "sum") if self.training else x + self.w


def main():
    x = torch.ones(4)
    predict = poptorch.inferenceModel(Add().eval())
    predict(x)
    train = poptorch.trainingModel(Add().train())
    train(x)
    native = predict._executable.call
    with torch.inference_mode():
        eager = microseconds(torch.add, x, x)
    print(f"eager torch.add                     {eager:6.2f} µs")
    print(f"allocating the result (torch.empty) {microseconds(torch.empty, 4):6.2f} µs")
    print(f"native call, inference              {microseconds(native, (x,)):6.2f} µs")
    print(f"wrapper call, inference             {microseconds(predict, x):6.2f} µs")
    print(f"wrapper call, training step         {microseconds(train, x):6.2f} µs")


if __name__ == "__main__":
    main()
