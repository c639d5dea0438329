"""The handwritten-digit scans that ship with scikit-learn, and a small convolutional network for them.

A module of its own so that other programs (and pickles) can import the model's class.
"""

import importlib.util
import pathlib

import numpy as np
import torch

import poptorch


def read_scans():
    """What sklearn.datasets.load_digits reads, without importing scikit-learn, which takes a second: [1797, 8*8 + 1]."""
    folder = pathlib.Path(importlib.util.find_spec("sklearn").origin).parent
    return np.loadtxt(folder / "datasets" / "data" / "digits.csv.gz", delimiter=",")


def load(every=5):
    """(train, test) data sets of (image [1,8,8] in 0..1, label). Every fifth image tests; the split is by index."""
    scans = read_scans()
    images = torch.from_numpy((scans[:, :-1].reshape(-1, 8, 8) / 16.0).astype(np.float32)).unsqueeze(1)
    labels = torch.from_numpy(scans[:, -1].astype(np.int64))
    index = torch.arange(len(labels))
    test = index % every == 0
    train_index, test_index = index[~test], index[test]
    assert not set(train_index.tolist()) & set(test_index.tolist())
    return (
        torch.utils.data.TensorDataset(images[train_index], labels[train_index]),
        torch.utils.data.TensorDataset(images[test_index], labels[test_index]),
    )


class DigitNet(torch.nn.Module):
    """Two convolutions on IPU 0, two linear layers on IPU 1. Returns class scores, and the loss when given labels."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 32, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.Conv2d(32, 64, 3, padding=1),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        )
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(64 * 4 * 4, 128), torch.nn.ReLU(), torch.nn.Linear(128, 10)
        )

    def forward(self, images, labels=None):
        with poptorch.Block("features", ipu_id=0):
            hidden = self.features(images)
        with poptorch.Block("classifier", ipu_id=1):
            scores = self.classifier(hidden.flatten(1))
            if labels is None:
                return scores
            return scores, torch.nn.functional.cross_entropy(scores, labels)
