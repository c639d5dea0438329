"""torch's own transformer modules with masks: torch decides by a mask's values whether it is the causal one, which no capture can."""

import copy

import pytest
import torch
from torch import nn

import poptorch

T, SOURCE, WIDTH = 6, 5, 8


def layer(kind, **more):
    return kind(WIDTH, 2, 16, dropout=0.0, batch_first=True, **more)


def causal():
    return nn.Transformer.generate_square_subsequent_mask(T)


class Encoder(nn.Module):
    """The mask is an input or a buffer; a hint may come with it."""

    def __init__(self, mask=None, hint=None, **more):
        super().__init__()
        self.encoder = nn.TransformerEncoder(layer(nn.TransformerEncoderLayer, **more), 2, enable_nested_tensor=False)
        self.register_buffer("mask", mask)
        self.hint = hint

    def forward(self, x, mask=None, padding=None):
        mask = self.mask if mask is None else mask
        return self.encoder(x, mask=mask, src_key_padding_mask=padding, is_causal=self.hint)


class Both(nn.Module):
    def __init__(self):
        super().__init__()
        self.both = nn.Transformer(WIDTH, 2, 1, 2, 16, dropout=0.0, batch_first=True)

    def forward(self, source, target, mask):
        return self.both(source, target, tgt_mask=mask)


def padding():
    return torch.tensor([[False] * (T - 2) + [True] * 2, [False] * T])


CASES = {
    "causal buffer": (lambda: Encoder(causal()), list),
    "causal input": (Encoder, lambda: [causal()]),
    "causal buffer with the hint": (lambda: Encoder(causal(), True), list),
    "causal buffer with a hint against it": (lambda: Encoder(causal(), False), list),
    "bool mask": (lambda: Encoder(causal().isinf()), list),
    "added scores": (Encoder, lambda: [torch.randn(T, T)]),
    "mask of each head": (Encoder, lambda: [torch.randn(2 * 2, T, T)]),
    "padding": (lambda: Encoder(causal().isinf()), lambda: [None, padding()]),
    "norm first, gelu": (lambda: Encoder(causal(), norm_first=True, activation="gelu"), list),
    "encoder and decoder": (Both, lambda: [torch.randn(2, T, WIDTH), causal()]),
}


@pytest.mark.parametrize("name", CASES)
def test_inference_equals_torch(name):
    torch.manual_seed(0)
    make, more = CASES[name]
    model, inputs = make().eval(), [torch.randn(2, T, WIDTH), *more()]
    expected = model(
        *inputs
    ).detach()  # not under no_grad, where torch's fast path makes NaN of masks that are not causal
    torch.testing.assert_close(poptorch.inferenceModel(model)(*inputs), expected, rtol=1e-5, atol=1e-5)


class Loss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        out = self.model(*inputs)
        return out, poptorch.identity_loss((out * out).mean(), "none")


@pytest.mark.parametrize("name", CASES)
def test_a_step_of_training_equals_torch(name):
    torch.manual_seed(0)
    make, more = CASES[name]
    model, inputs = make().train(), [torch.randn(2, T, WIDTH), *more()]
    reference = copy.deepcopy(model)
    optimizer = torch.optim.SGD(reference.parameters(), lr=0.1)
    trained = poptorch.trainingModel(Loss(model), optimizer=torch.optim.SGD(model.parameters(), lr=0.1))
    out = reference(*inputs)
    (out * out).mean().backward()
    optimizer.step()
    torch.testing.assert_close(trained(*inputs)[0], out.detach(), rtol=1e-5, atol=1e-5)
    trained.copyWeightsToHost()
    for key, value in reference.state_dict().items():
        torch.testing.assert_close(model.state_dict()[key], value, rtol=1e-4, atol=1e-5, msg=lambda m: f"{key}: {m}")


def test_a_mask_is_used_whatever_its_values_are():
    # The mask is causal when the program is captured, and another one afterwards.
    torch.manual_seed(0)
    model, x = Encoder().eval(), torch.randn(2, T, WIDTH)
    compiled = poptorch.inferenceModel(model)
    for mask in (causal(), causal().flip(0), torch.zeros(T, T)):
        expected = model(x, mask).detach()
        torch.testing.assert_close(compiled(x, mask), expected, rtol=1e-5, atol=1e-5)
