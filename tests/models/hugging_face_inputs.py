"""What the tables of models share: what a row says, how a model is called, and inputs for a number of rows."""

import typing

import torch

WORDS, LENGTH, CLASSES = 128, 16, 3
TEXT = {"vocab_size": WORDS, "max_position_embeddings": 64, "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
SIZES = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 2, "intermediate_size": 64}
UNDROPPED = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
ATTENTIONS = ("eager", "sdpa")


class Model(typing.NamedTuple):
    """How one model is made and called."""

    make: typing.Callable  # keywords of the configuration → the module
    inputs: typing.Callable  # rows, generator → tensors
    second: str  # the module where the second of two IPUs begins, a path in the module that `make` gives
    attention: tuple = ATTENTIONS  # the implementations it has; "none": the model has no attention
    switches: str = ""  # what must be said for the device, for docs/models.md
    updates: int = 3  # of training with one IPU


class ByPosition(torch.nn.Module):
    """A model of transformers that is called with the inputs of these names; keywords are those of each call."""

    def __init__(self, model, names, **keywords):
        super().__init__()
        self.model, self.names, self.keywords = model, names, keywords

    def forward(self, *inputs):
        out = self.model(**dict(zip(self.names, inputs)), **self.keywords, return_dict=False)
        return out[1], out[0]


def words(rows, generator):
    """Word numbers int64 [rows, LENGTH]."""
    return torch.randint(3, WORDS, (rows, LENGTH), generator=generator)


def padding(rows):
    """1 where a word is, int64 [rows, LENGTH]: every other row is shorter."""
    return (torch.arange(LENGTH) < torch.tensor([LENGTH, LENGTH - 5]).repeat(rows)[:rows, None]).long()


def classes(rows, generator):
    return torch.randint(CLASSES, (rows,), generator=generator)


def classified(rows, generator):
    return words(rows, generator), padding(rows), classes(rows, generator)


def filled_in(rows, generator):
    return words(rows, generator), padding(rows), words(rows, generator)


def continued(rows, generator):
    """Text, its padding, and the words to tell: the same text, without what is padded."""
    text, mask = words(rows, generator), padding(rows)
    return text, mask, torch.where(mask == 1, text, -100)


def images(rows, generator, size=16):
    return torch.randn(rows, 3, size, size, generator=generator), classes(rows, generator)


TEXT_NAMES, IMAGE_NAMES = ("input_ids", "attention_mask", "labels"), ("pixel_values", "labels")
