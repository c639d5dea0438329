#!/usr/bin/env python3
"""How soon Ctrl-C is answered: while compiling a large model, and within long kernels. The documents promise half a second.

    python benchmarks/interruption.py [--moments 11] [--kind compile --kind matmul ...]

For each kind: the seconds that the work takes, and the longest from the signal to KeyboardInterrupt, over signals at that many
moments of it.
"""

import argparse
import os
import signal
import threading
import time

import torch

import poptorch

KERNELS = {
    "matmul": (lambda x: (x.reshape(4096, 4096) @ x.reshape(4096, 4096).t()).sum(0, keepdim=True), 4096 * 4096),
    "sort": (lambda x: torch.sort(x, 1)[0], 1 << 24),
    "cumsum": (lambda x: torch.cumsum(x, 1), 1 << 27),
    "reduction": (lambda x: x.sum(1), 1 << 28),
    "pointwise": (lambda x: torch.sin(torch.exp(torch.tanh(x))), 1 << 26),
}


class Chain(torch.nn.Module):
    """Thousands of operations that do not fold into one."""

    def __init__(self, length, is_training):
        super().__init__()
        self.length, self.is_training = length, is_training
        self.weight = torch.nn.Parameter(torch.eye(4) * 0.5)

    def forward(self, x):
        for _ in range(self.length):
            x = torch.softmax(x @ self.weight, 1)
        return poptorch.identity_loss(x, "sum") if self.is_training else x


class Kernel(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.function(x)


def answered_after(moment, work):
    """Seconds from a signal at that moment to its answer; None where the work was over."""
    sent, is_inside = [], True

    def send():
        sent.append(time.monotonic())
        os.kill(os.getpid(), signal.SIGINT)

    def answer(number, frame):
        if is_inside:
            raise KeyboardInterrupt

    timer = threading.Timer(moment, send)
    before = signal.signal(signal.SIGINT, answer)
    timer.start()
    try:
        try:
            work()
        finally:
            is_inside = False
    except KeyboardInterrupt:
        return time.monotonic() - sent[0]
    finally:
        timer.cancel()
        timer.join()
        signal.signal(signal.SIGINT, before)
    return None


def work_of(kind):
    options = poptorch.Options().showCompilationProgressBar(False)
    if kind in KERNELS:
        function, elements = KERNELS[kind]
        run, x = poptorch.inferenceModel(Kernel(function), options), torch.rand(1, elements)
        run(x)
        return lambda: run(x)
    is_training = kind == "compile, training"
    net = Chain(4000 if is_training else 16000, is_training)
    wrapper = poptorch.trainingModel(net, options) if is_training else poptorch.inferenceModel(net, options)

    def compile_anew():
        if wrapper.isCompiled():
            wrapper.destroy()
        wrapper.compile(torch.ones(2, 4))

    return compile_anew


def main():
    kinds = ["compile", "compile, training", *KERNELS]
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--moments", type=int, default=11)
    parser.add_argument("--kind", action="append", choices=kinds)
    given = parser.parse_args()
    print(f"{'':20} {'work, s':>8} {'answer, s':>10} {'moments':>8}")
    for kind in given.kind or kinds:
        work, times = work_of(kind), []
        for _ in range(3):  # the first runs may wait for pages of the system
            began = time.monotonic()
            work()
            times.append(time.monotonic() - began)
        whole = min(times)
        moments = [whole * part / (given.moments + 1) for part in range(1, given.moments + 1)]
        answers = [seconds for moment in moments if (seconds := answered_after(moment, work)) is not None]
        print(f"{kind:20} {whole:8.2f} {max(answers, default=float('nan')):10.3f} {len(answers):8}", flush=True)


if __name__ == "__main__":
    main()
