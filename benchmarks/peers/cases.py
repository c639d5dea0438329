"""Models and inputs of the comparison with peers. Losses are computed by the model when it gets a target."""

import torch
import torch.nn.functional as F


class Mlp(torch.nn.Module):
    """784-512-512-10."""

    def __init__(self):
        super().__init__()
        self.layers = torch.nn.Sequential(
            torch.nn.Linear(784, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 512),
            torch.nn.ReLU(),
            torch.nn.Linear(512, 10),
        )

    def forward(self, x, y=None):
        out = self.layers(x)
        return out if y is None else (out, F.cross_entropy(out, y))


class LeNet(torch.nn.Module):
    """LeNet-5 on 28x28 images, ReLU and max pooling."""

    def __init__(self):
        super().__init__()
        self.features = torch.nn.Sequential(
            torch.nn.Conv2d(1, 6, 5, padding=2),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
            torch.nn.Conv2d(6, 16, 5),
            torch.nn.ReLU(),
            torch.nn.MaxPool2d(2),
        )
        self.classifier = torch.nn.Sequential(
            torch.nn.Linear(400, 120),
            torch.nn.ReLU(),
            torch.nn.Linear(120, 84),
            torch.nn.ReLU(),
            torch.nn.Linear(84, 10),
        )

    def forward(self, x, y=None):
        out = self.classifier(self.features(x).flatten(1))
        return out if y is None else (out, F.cross_entropy(out, y))


class Sequence(torch.nn.Module):
    """A recurrent net of 2 layers of 256 over 32 steps, classified by its last output."""

    def __init__(self, kind):
        super().__init__()
        self.layers = kind(256, 256, num_layers=2, batch_first=True)
        self.head = torch.nn.Linear(256, 10)

    def forward(self, x, y=None):
        out = self.head(self.layers(x)[0][:, -1])
        return out if y is None else (out, F.cross_entropy(out, y))


CASES = {
    "mlp": (Mlp, (784,)),
    "lenet": (LeNet, (1, 28, 28)),
    "lstm": (lambda: Sequence(torch.nn.LSTM), (32, 256)),
    "gru": (lambda: Sequence(torch.nn.GRU), (32, 256)),
}


def make(case, batch):
    """(model, inputs, targets), the same for every peer."""
    torch.manual_seed(0)
    kind, shape = CASES[case]
    return kind(), torch.randn(batch, *shape), torch.randint(0, 10, (batch,))
