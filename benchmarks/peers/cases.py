"""Models, inputs and targets of the comparison with peers, the same for every peer."""

import dataclasses
from collections.abc import Callable

import torch
from models import HuggingFaceBert, LeNet, Mlp, Pointwise, ResNet18, Sequence, Transformer, WideAndDeep


@dataclasses.dataclass(frozen=True)
class Case:
    """model(): a new model; inputs(batch): its inputs; targets(batch): what its loss takes; batches: sizes of the table."""

    model: Callable[[], torch.nn.Module]
    inputs: Callable[[int], tuple[torch.Tensor, ...]]
    targets: Callable[[int], torch.Tensor]
    batches: tuple[int, ...] = (1, 32)


def numbers(*shape):
    return lambda batch: (torch.randn(batch, *shape),)


def tokens(vocabulary, steps):
    return lambda batch: (torch.randint(0, vocabulary, (batch, steps)),)


def classes(count, *shape):
    return lambda batch: torch.randint(0, count, (batch, *shape))


def categories_and_numbers(batch):
    return torch.randint(0, 1000, (batch, 26)), torch.randn(batch, 13)


CASES = {
    "mlp": Case(Mlp, numbers(784), classes(10)),
    "lenet": Case(LeNet, numbers(1, 28, 28), classes(10)),
    "resnet18": Case(ResNet18, numbers(3, 32, 32), classes(10)),
    "bert-small": Case(lambda: Transformer(256, 4, 4, 30522), tokens(30522, 128), classes(2)),
    "bert-base-4": Case(lambda: Transformer(768, 4, 12, 30522), tokens(30522, 128), classes(2), (1, 8)),
    "gpt2-4": Case(
        lambda: Transformer(768, 4, 12, 50257, causal=True), tokens(50257, 128), classes(50257, 128), (1, 8)
    ),
    "lstm": Case(lambda: Sequence(torch.nn.LSTM), numbers(32, 256), classes(10)),
    "wide-and-deep": Case(WideAndDeep, categories_and_numbers, classes(2)),
    "pointwise": Case(Pointwise, numbers(64, 1024), lambda batch: torch.zeros(batch, 64, 1024)),
    "hf-bert": Case(HuggingFaceBert, tokens(30522, 64), classes(2)),
    "gru": Case(lambda: Sequence(torch.nn.GRU), numbers(32, 256), classes(10)),
}
TABLE = tuple(name for name in CASES if name != "gru")  # the ten models of the table


def make(case, batch, dtype=torch.float32):
    """(model, inputs, targets): parameters and floating-point inputs of this type."""
    torch.manual_seed(0)
    of = CASES[case]
    inputs = tuple(x.to(dtype) if x.is_floating_point() else x for x in of.inputs(batch))
    return of.model().to(dtype), inputs, of.targets(batch)
