"""Trains one network on one IPU and in phases, with the same numbers, and shows what the phases save and cost.

In phases, weights, optimizer state and activations wait in streaming memory until the phase that needs them: less is on the
chip at a time, and more is moved. Prints the losses of each way, the bytes on chip at the peak, and the bytes that one call
moves between chip and streaming memory.
"""

import json
import os
import tempfile

import torch
import torch.nn.functional as F

import poptorch
from poptorch import Liveness

DEPTH, WIDTH, ROWS = 6, 64, 128


class Deep(torch.nn.Module):
    """Each layer is a block, so that a strategy can give it a phase of its own."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(WIDTH, WIDTH) for _ in range(DEPTH))

    def forward(self, x, target):
        for index, layer in enumerate(self.layers):
            poptorch.Block.start(f"layer{index}", ipu_id=0)
            x = F.gelu(layer(x)) + x
        return F.mse_loss(x, target)


def serial(liveness):
    return poptorch.SerialPhasedExecution(*(f"layer{i}" for i in range(DEPTH))).setTensorsLiveness(liveness)


def parallel():
    """Odd phases on IPU 1: while one IPU computes, the other loads and stores."""
    strategy = poptorch.ParallelPhasedExecution(*(f"layer{i}" for i in range(DEPTH)))
    for index in range(DEPTH):
        strategy.phase(index).ipus(index % 2)
    return strategy.sendTensorsOffChipAfterFwd()


def train(strategy):
    """Losses of four calls, weights after them, and the report of the compilation."""
    torch.manual_seed(1)
    model = Deep()
    data = torch.randn(4, 2 * ROWS, WIDTH)
    with tempfile.TemporaryDirectory() as folder:
        options = poptorch.Options().setExecutionStrategy(strategy).enableProfiling(folder)
        options.Training.gradientAccumulation(2)
        trainer = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=1e-3))
        losses = [trainer(x, x.roll(1, 1)).item() for x in data]
        trainer.destroy()
        with open(os.path.join(folder, "training", "memory.json"), encoding="utf-8") as file:
            report = json.load(file)
    return losses, [parameter.detach().clone() for parameter in model.parameters()], report


def main():
    ways = {
        "one IPU": poptorch.ShardedExecution(poptorch.Stage(*(f"layer{i}" for i in range(DEPTH))).ipu(0)),
        "phases, activations stay": serial(Liveness.AlwaysLive),
        "phases, off chip after forward": serial(Liveness.OffChipAfterFwd),
        "phases, off chip after each": serial(Liveness.OffChipAfterEachPhase),
        "parallel phases on two IPUs": parallel(),
    }
    results = {name: train(strategy) for name, strategy in ways.items()}
    first_losses, first_weights, _ = results["one IPU"]
    for name, (losses, weights, report) in results.items():
        peak = max(ipu["peak_bytes"] for ipu in report["ipus"])
        loaded, stored = (report["statistics"][f"remote bytes {way}"] for way in ("loaded", "stored"))
        print(f"{name:31}  loss {losses[-1]:.6f}  peak {peak:8,}  loaded {loaded:9,}  stored {stored:9,}")
        assert losses == first_losses and all(map(torch.equal, weights, first_weights))
    print("the same bits in every way: True")


if __name__ == "__main__":
    main()
