#!/usr/bin/env python3
"""What PopART costs: importing it, building and preparing a model of 1,000 nodes, and training, beside the same network through
poptorch.

    python benchmarks/popart_programs.py

Training is examples/popart/train_digits.py: 44 batches of 32 images, Adam, in one run. The same network goes through
`poptorch.trainingModel` with 44 device iterations. Epochs of both alternate; medians.
"""

import pathlib
import re
import statistics
import subprocess
import sys
import time

import numpy as np
import torch
from sklearn.datasets import load_digits

import popart
import poptorch

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "examples" / "popart"))
import train_digits  # noqa: E402

NODES, BATCHES, EPOCHS = 1000, 44, 40


def import_milliseconds():
    def once():
        result = subprocess.run(
            [sys.executable, "-X", "importtime", "-c", "import popart"], capture_output=True, text=True, cwd=ROOT
        )
        return int(re.search(r"\| *(\d+) \| popart$", result.stderr, re.M)[1]) / 1e3

    return statistics.median(once() for _ in range(5))


def model_of_many_nodes():
    """Layers of a product, a sum, an activation and a scaling; microseconds of a builder's call."""
    generator = np.random.default_rng(0)
    builder = popart.Builder()
    value = builder.addInputTensor("FLOAT", [4, 16])
    start = time.perf_counter()
    for _ in range(NODES // 4):
        weight = builder.addInitializedInputTensor(generator.normal(0, 0.2, (16, 16)).astype(np.float32))
        value = builder.aiOnnx.relu([builder.aiOnnx.add([builder.aiOnnx.matmul([value, weight]), value])])
        value = builder.aiGraphcore.scale([value], 0.7)
    loss = builder.aiGraphcore.l1loss([value], 0.1)
    elapsed = time.perf_counter() - start
    return builder.getModelProto(), loss, elapsed / (NODES + NODES // 4) * 1e6


def session_seconds(model, loss, training):
    device = popart.DeviceManager().createCpuDevice()
    flow = popart.DataFlow(1, [loss])
    start = time.perf_counter()
    if training:
        session = popart.TrainingSession(model, flow, loss, popart.ConstSGD(0.01), device)
    else:
        session = popart.InferenceSession(model, flow, device)
    built = time.perf_counter()
    session.prepareDevice()
    return built - start, time.perf_counter() - built


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(64, 128), torch.nn.GELU(approximate="tanh"), torch.nn.Linear(128, 10)
        )

    def forward(self, images, labels):
        return poptorch.identity_loss(torch.nn.functional.cross_entropy(self.layers(images), labels.long()), "none")


def epochs():
    """Milliseconds of an epoch: popart, poptorch."""
    digits = load_digits()
    count = BATCHES * train_digits.BATCH
    images, labels = (digits.data[:count] / 16).astype(np.float32), digits.target[:count].astype(np.int32)
    device = popart.DeviceManager().createIpuModelDevice({})
    session, image_id, label_id, _, _ = train_digits.training_session(device, BATCHES, np.random.default_rng(0))
    step = popart.PyStepIO({image_id: images, label_id: labels}, session.initAnchorArrays())
    options = poptorch.Options().deviceIterations(BATCHES).showCompilationProgressBar(False)
    net = Net()
    wrapper = poptorch.trainingModel(net, options, poptorch.optim.Adam(net.parameters(), lr=train_digits.RATE))
    given = torch.from_numpy(images), torch.from_numpy(labels)
    runs = {"popart": lambda: session.run(step), "poptorch": lambda: wrapper(*given)}
    times = {name: [] for name in runs}
    for epoch in range(EPOCHS + 5):
        for name, run in runs.items():
            start = time.perf_counter()
            run()
            if epoch >= 5:
                times[name].append(time.perf_counter() - start)
    return [statistics.median(times[name]) * 1e3 for name in runs]


def main():
    print(f"import popart: {import_milliseconds():.0f} ms")
    model, loss, call = model_of_many_nodes()
    print(f"a call of the builder: {call:.0f} us")
    for training in (False, True):
        built, prepared = min(session_seconds(model, loss, training) for _ in range(3))
        what = "training" if training else "inference"
        print(f"{NODES} nodes, {what}: session {built:.2f} s, prepareDevice {prepared:.2f} s")
    ours, theirs = epochs()
    print(f"epoch of digits: popart {ours:.2f} ms, poptorch {theirs:.2f} ms, ratio {ours / theirs:.2f}")


if __name__ == "__main__":
    main()
