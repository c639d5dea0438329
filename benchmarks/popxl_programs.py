#!/usr/bin/env python3
"""What PopXL costs: importing it, building a graph, and training, beside the same network through poptorch.

    python benchmarks/popxl_programs.py

Training is examples/popxl/train_digits.py: 44 batches of 32 images, Adam, in one run. The same network goes through
`poptorch.trainingModel` with 44 device iterations. Epochs of both alternate; medians.
"""

import pathlib
import re
import statistics
import subprocess
import sys
import time
import types

import numpy as np
import torch

import popxl
import poptorch
from popxl import ops

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "popxl"))
import train_digits  # noqa: E402

BATCHES = 44


def import_milliseconds():
    def once():
        result = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import popxl"], capture_output=True, text=True, cwd=ROOT
        )
        return int(re.search(r"\| *(\d+) \| popxl$", result.stderr, re.M)[1]) / 1e3

    return statistics.median(once() for _ in range(5))


# One op each, on what the op before gave, or on `o.square` where names of results grow with those of inputs.
FAMILIES = {
    "ops.add": lambda x, o: ops.add(x, o.square),
    "a + b": lambda x, o: x + o.square,
    "ops.matmul": lambda x, o: ops.matmul(x, o.square),
    "ops.gelu": lambda x, o: ops.gelu(x),
    "ops.softmax": lambda x, o: ops.softmax(x, 1),
    "ops.layer_norm": lambda x, o: ops.layer_norm(x, o.row, o.row),
    "ops.sum": lambda x, o: ops.sum(o.square, 1),
    "ops.reshape": lambda x, o: ops.reshape(o.square, (8, 8)),
    "ops.reshape_": lambda x, o: ops.reshape_(o.square, (8, 8)),
    "ops.transpose": lambda x, o: ops.transpose(o.square),
    "ops.slice": lambda x, o: ops.slice(o.square, 0, 8, axis=1),
    "ops.gather": lambda x, o: ops.gather(x, o.indices),
    "ops.add_": lambda x, o: ops.add_(x, o.square),
    "ops.call": lambda x, o: ops.call(o.graph, x)[0],
    "ops.interpolate": lambda x, o: ops.interpolate(x, (1.0, 1.0)),
}


def building_microseconds(make, count=3000):
    """Measures the time to build one op, in a graph in sequence."""
    ir = popxl.Ir()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(np.ones((8, 8), np.float32))
        others = types.SimpleNamespace(
            square=popxl.variable(np.ones((8, 8), np.float32)),
            row=popxl.variable(np.ones(8, np.float32)),
            indices=popxl.constant(np.arange(8, dtype=np.int32)),
            graph=ir.create_graph(ops.tanh, x),
        )
        start = time.perf_counter()
        for _ in range(count):
            x = make(x, others)
        return (time.perf_counter() - start) / count * 1e6


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(128, 10)
        )

    def forward(self, x, y):
        return poptorch.identity_loss(torch.nn.functional.cross_entropy(self.layers(x), y.long()), "none")


def main():
    print(f"import popxl                      {import_milliseconds():8.0f} ms")
    rounds = [{name: building_microseconds(make) for name, make in FAMILIES.items()} for _ in range(5)]
    medians = {name: statistics.median(times[name] for times in rounds) for name in FAMILIES}
    for name, median in medians.items():
        print(f"building {name:16}         {median:8.1f} µs an op")
    print(f"building, mean of them            {statistics.mean(medians.values()):8.1f} µs an op")
    generator = np.random.default_rng(0)
    x = generator.standard_normal((BATCHES, 32, 64)).astype(np.float32)
    y = generator.integers(0, 10, (BATCHES, 32)).astype(np.int32)
    ir, (images, labels, _), _ = train_digits.training_program(BATCHES, generator)
    options = poptorch.Options().deviceIterations(BATCHES).showCompilationProgressBar(False)
    options.outputMode(poptorch.OutputMode.All)
    net = Net()
    wrapper = poptorch.trainingModel(net, options, poptorch.optim.Adam(net.parameters(), lr=0.002))
    tx, ty = torch.from_numpy(x).reshape(-1, 64), torch.from_numpy(y).reshape(-1)
    times = {"popxl": [], "poptorch": []}
    with popxl.Session(ir, "ipu_hw") as session:
        calls = {"popxl": lambda: session.run({images: x, labels: y}), "poptorch": lambda: wrapper(tx, ty)}
        for call in calls.values():
            for _ in range(5):
                call()
        for _ in range(60):
            for name, call in calls.items():
                start = time.perf_counter()
                call()
                times[name].append(time.perf_counter() - start)
    here, there = (statistics.median(times[name]) * 1e3 for name in ("popxl", "poptorch"))
    print(f"digits, an epoch of 44 batches    {here:8.2f} ms through popxl, {there:.2f} ms through poptorch: {here / there:.2f}")


if __name__ == "__main__":
    main()
