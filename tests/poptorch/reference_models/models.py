"""Small models of the tests, cut into blocks for any number of IPUs."""

import torch
import torch.nn.functional as F

import poptorch


class Call(torch.nn.Module):
    """A function as a module."""

    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


class _Cut(torch.nn.Module):
    """A chain of parts; part i of n runs in block i on IPU i * ipus // n."""

    def __init__(self, parts, ipus):
        super().__init__()
        self.parts = torch.nn.ModuleList(parts)
        self.ipus = ipus

    def chain(self, x):
        for index, part in enumerate(self.parts):
            ipu = index * self.ipus // len(self.parts)
            poptorch.Block.start(f"b{ipu}", ipu_id=ipu)
            x = part(x)
        return x


class Mlp(_Cut):
    def __init__(self, ipus=1):
        sizes = [12, 16, 16, 16, 5]
        parts = [torch.nn.Sequential(torch.nn.Linear(a, b), torch.nn.Tanh()) for a, b in zip(sizes, sizes[1:])]
        super().__init__(parts, ipus)

    def forward(self, x, target=None):
        out = self.chain(x)
        return out if target is None else (out, F.mse_loss(out, target))

    @staticmethod
    def inputs(count, generator, rows=2):
        return (torch.randn(rows * count, 12, generator=generator), torch.randn(rows * count, 5, generator=generator))


class Cnn(_Cut):
    def __init__(self, ipus=1):
        parts = [
            torch.nn.Sequential(torch.nn.Conv2d(1, 6, 3, padding=1), torch.nn.ReLU(), torch.nn.MaxPool2d(2)),
            torch.nn.Sequential(torch.nn.Conv2d(6, 8, 3), torch.nn.ReLU()),
            torch.nn.Sequential(torch.nn.Conv2d(8, 8, 1, stride=1), torch.nn.AvgPool2d(2), torch.nn.Flatten()),
            torch.nn.Linear(8, 4),
        ]
        super().__init__(parts, ipus)

    def forward(self, x, target=None):
        out = self.chain(x)
        return out if target is None else (out, F.cross_entropy(out, target))

    @staticmethod
    def inputs(count, generator, rows=2):
        return (
            torch.randn(rows * count, 1, 8, 8, generator=generator),
            torch.randint(0, 4, (rows * count,), generator=generator),
        )


class TiedEmbedding(_Cut):
    """Words in, scores of words out; the output layer shares the embedding's weight, also across IPUs."""

    def __init__(self, ipus=1):
        super().__init__([torch.nn.Linear(8, 8), torch.nn.GELU(), torch.nn.Linear(8, 8), torch.nn.Tanh()], ipus)
        self.embedding = torch.nn.Embedding(11, 8)
        self.head = torch.nn.Linear(8, 11, bias=False)
        self.head.weight = self.embedding.weight

    def forward(self, words, target=None):
        poptorch.Block.start("b0", ipu_id=0)
        out = self.head(self.chain(self.embedding(words)))
        return out if target is None else (out, F.cross_entropy(out.flatten(0, 1), target.flatten()))

    @staticmethod
    def inputs(count, generator, rows=2):
        return (
            torch.randint(0, 11, (rows * count, 3), generator=generator),
            torch.randint(0, 11, (rows * count, 3), generator=generator),
        )
