"""Moves the tensors of a training step off the chip, family by family, and into shards over replicas.

Prints for each plan what one call moves between chip and streaming memory, in all and per tensor family, and that the weights
are equal to the last bit: places change cost, never values.
"""

import json
import os
import tempfile

import torch
import torch.nn.functional as F

import poptorch

WIDTH, ROWS, ACCUMULATION, REPLICAS = 48, 8, 4, 2


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first, self.second = torch.nn.Linear(WIDTH, WIDTH), torch.nn.Linear(WIDTH, WIDTH)

    def forward(self, x, target):
        return F.mse_loss(self.second(torch.tanh(self.first(x))), target)


def off_chip(shards=False, io_tiles=False):
    """Biases are smaller than 100 elements and stay on chip; a shard is worth it for as few."""
    settings = poptorch.TensorLocationSettings().useOnChipStorage(False).minElementsForOffChip(100)
    if shards:
        settings.useReplicatedTensorSharding(True).minElementsForReplicatedTensorSharding(100)
    return settings.useIOTilesToLoad(io_tiles).useIOTilesToStore(io_tiles)


def train(place):
    """Weights after three calls, and the statistics of the compilation."""
    torch.manual_seed(1)
    model = Net()
    with tempfile.TemporaryDirectory() as folder:
        options = poptorch.Options().replicationFactor(REPLICAS).enableProfiling(folder)
        options.Training.gradientAccumulation(ACCUMULATION)
        place(options.TensorLocations)
        trainer = poptorch.trainingModel(model, options, torch.optim.AdamW(model.parameters(), lr=1e-3))
        for x in torch.randn(3, ROWS * ACCUMULATION * REPLICAS, WIDTH):
            trainer(x, -x)
        trainer.destroy()
        with open(os.path.join(folder, "training", "memory.json"), encoding="utf-8") as file:
            return [p.detach().clone() for p in model.parameters()], json.load(file)["statistics"]


def through_io_tiles(locations):
    locations.numIOTiles(32)
    locations.setWeightLocation(off_chip(io_tiles=True))


PLANS = {
    "on chip": lambda locations: None,
    "optimizer state off chip": lambda locations: locations.setOptimizerLocation(off_chip()),
    "the same in shards": lambda locations: locations.setOptimizerLocation(off_chip(shards=True)),
    "weights off chip": lambda locations: locations.setWeightLocation(off_chip()),
    "the same over I/O tiles": through_io_tiles,
    "accumulators off chip": lambda locations: locations.setAccumulatorLocation(off_chip()),
    "activations off chip": lambda locations: locations.setActivationLocation(off_chip()),
}


def main():
    results = {name: train(place) for name, place in PLANS.items()}
    weights = results["on chip"][0]
    for name, (found, moved) in results.items():
        loaded, stored, gathered = (
            moved[key] for key in ("remote bytes loaded", "remote bytes stored", "bytes gathered from shards")
        )
        print(f"{name:25}  loaded {loaded:8,}  stored {stored:8,}  gathered {gathered:8,} bytes a call and replica")
        assert all(map(torch.equal, found, weights))
    print("the same weights, to the last bit: True")


if __name__ == "__main__":
    main()
