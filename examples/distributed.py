"""Trains a small network on handwritten digits in a job of several processes, each with replicas of its own.

    poprun -n 2 --num-replicas 4 python examples/distributed.py

Each instance loads its part of the images; gradients are summed over all replicas, so all instances have the same weights. A
log line is said once, of all instances together. Without poprun the program runs as one instance with one replica.
"""

import hashlib

import popdist
import popdist.collectives
import popdist.poptorch
import torch
from digits import load

import poptorch

SEED, EPOCHS, MICRO_BATCH = 3, 12, 8


class Net(torch.nn.Module):
    """Scores of the ten digits, and the loss when labels are given."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Flatten(), torch.nn.Linear(64, 64), torch.nn.ReLU(), torch.nn.Linear(64, 10)
        )

    def forward(self, images, labels=None):
        scores = self.layers(images)
        return scores if labels is None else (scores, torch.nn.functional.cross_entropy(scores, labels))


def say(text):
    """Once in the whole job."""
    popdist.execute_on_instances({0}, print, text, flush=True)


def train(model, images):
    options = popdist.poptorch.Options().deviceIterations(2).randomSeed(SEED).showCompilationProgressBar(False)
    loader = poptorch.DataLoader(options, images, batch_size=MICRO_BATCH, shuffle=True)
    trainer = poptorch.trainingModel(model, options, poptorch.optim.Adam(model.parameters(), lr=0.005))
    for epoch in range(EPOCHS):
        losses = [trainer(x, y)[1].mean() for x, y in loader]
        mean = popdist.collectives.all_reduce(torch.stack(losses).mean(), "mean")
        say(f"epoch {epoch + 1}: loss {mean:.4f}")
    trainer.destroy()


def hits(model, images):
    """(right answers, images) of all instances; each looks at its own part."""
    options = popdist.poptorch.Options().showCompilationProgressBar(False)
    loader = poptorch.DataLoader(options, images, batch_size=MICRO_BATCH)
    scorer = poptorch.inferenceModel(model.eval(), options)
    right = seen = 0
    for x, y in loader:
        right += int((scorer(x).argmax(1) == y).sum())
        seen += len(y)
    scorer.destroy()
    return popdist.collectives.all_reduce([right, seen]).tolist()


def weights_hash(model):
    data = b"".join(parameter.detach().numpy().tobytes() for parameter in model.parameters())
    return int(hashlib.sha256(data).hexdigest()[:12], 16)


def main():
    popdist.init()
    say(f"{popdist.getNumInstances()} instance(s), {popdist.getNumTotalReplicas()} replica(s)")
    torch.manual_seed(SEED)  # the same first weights everywhere
    model = Net()
    training, testing = load()
    train(model, training)
    right, seen = hits(model, testing)
    say(f"accuracy: {right}/{seen}")
    hashes = popdist.collectives.all_gather(weights_hash(model)).tolist()
    say(f"all instances have the same weights: {len(set(hashes)) == 1}")


if __name__ == "__main__":
    main()
