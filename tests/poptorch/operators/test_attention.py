"""Attention runs fused, in inference and training: the numbers are torch's, and both make the same bits."""

import copy
import math

import pytest
import torch
import torch.nn.functional as F
from torch import nn

from reference import samples

import poptorch

HEADS, WIDTH = 2, 8


class Attention(nn.Module):
    """Heads of one product, as models cut them; `attend` gives what stands between."""

    def __init__(self, attend):
        super().__init__()
        self.project = nn.Linear(HEADS * WIDTH, 3 * HEADS * WIDTH)
        self.attend = attend

    def forward(self, x, *masks):
        batch, rows, _ = x.shape
        query, key, value = self.project(x).view(batch, rows, 3, HEADS, WIDTH).permute(2, 0, 3, 1, 4)
        return self.attend(query, key, value, *masks).transpose(1, 2).reshape(batch, rows, -1)


class Trained(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, *inputs):
        y = self.model(*inputs)
        return y, poptorch.identity_loss(y * y, reduction="mean")


def by_hand(query, key, value, blocked):
    scores = query @ key.transpose(-2, -1) * (1.0 / math.sqrt(WIDTH))
    return F.softmax(scores.masked_fill(blocked, -1e4), dim=-1) @ value


def causal_by_hand(query, key, value):
    rows = query.shape[-2]
    sees = torch.ones(rows, rows, dtype=torch.bool, device=query.device).tril()
    return F.softmax((query @ key.transpose(-2, -1)).masked_fill(~sees, -math.inf), dim=-1) @ value


def with_position_bias(query, key, value, bias):
    return F.softmax(query @ key.transpose(-2, -1) + bias, dim=-1) @ value


def kernels(wrapper, inputs):
    """Returns the kernels that one call ran."""
    wrapper._executable.trace(True)
    wrapper(*inputs)
    events = wrapper._executable.take_trace()
    wrapper._executable.trace(False)
    return {event["kernel"] for event in events}


CASES = {
    "plain": (F.scaled_dot_product_attention, lambda n: ()),
    "causal": (lambda q, k, v: F.scaled_dot_product_attention(q, k, v, is_causal=True), lambda n: ()),
    "boolean mask": (F.scaled_dot_product_attention, lambda n: (torch.rand(2, 1, 1, n) > 0.3,)),
    "mask that blocks rows": (
        F.scaled_dot_product_attention,
        lambda n: ((torch.arange(n) % 3 > 0).view(n, 1).expand(n, n),),
    ),
    "mask of numbers": (F.scaled_dot_product_attention, lambda n: (torch.randn(n, n),)),
    "by hand": (by_hand, lambda n: (torch.rand(2, 1, n, n) > 0.7,)),
    "causal by hand": (causal_by_hand, lambda n: ()),
    "position bias": (with_position_bias, lambda n: (torch.randn(1, HEADS, n, n),)),
}


@pytest.mark.parametrize("rows", [16, 100, 300])
@pytest.mark.parametrize("case", CASES)
def test_fused_attention_has_torchs_numbers(case, rows):
    torch.manual_seed(rows)
    attend, masks = CASES[case]
    model = Attention(attend)
    inputs = (torch.randn(2, rows, HEADS * WIDTH), *masks(rows))
    inference = poptorch.inferenceModel(model)
    got = inference(*inputs)
    torch.testing.assert_close(got, model(*inputs).detach(), rtol=1e-5, atol=1e-6)
    fused = kernels(inference, inputs)
    assert "fused_attention" in fused and "softmax" not in fused

    training = poptorch.trainingModel(Trained(model), optimizer=poptorch.optim.SGD(model.parameters(), lr=0.0))
    assert torch.equal(training(*inputs)[0], got)
    fused = kernels(training, inputs)
    assert {"fused_attention_with_weights", "fused_attention_gradient"} <= fused and not {"softmax", "softmax_gradient"} & fused


@pytest.mark.parametrize("case", CASES)
def test_steps_of_training_are_torchs(case):
    torch.manual_seed(2)
    attend, masks = CASES[case]
    model = Attention(attend)
    plain = copy.deepcopy(model)
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    inputs = (torch.randn(2, 100, HEADS * WIDTH), *masks(100))
    training = poptorch.trainingModel(Trained(model), optimizer=poptorch.optim.SGD(model.parameters(), lr=0.1))
    for _ in range(3):
        training(*inputs)
        optimizer.zero_grad()
        plain(*inputs).square().mean().backward()
        optimizer.step()
    training.copyWeightsToHost()
    for ours, theirs in zip(model.parameters(), plain.parameters()):
        torch.testing.assert_close(ours, theirs, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("case", CASES)
def test_halves_are_as_near_as_torchs_own(case):
    torch.manual_seed(1)
    attend, masks = CASES[case]
    model = Attention(attend)
    inputs = (torch.randn(2, 100, HEADS * WIDTH), *masks(100))
    exact = model.double()(*(x.double() if x.is_floating_point() else x for x in inputs))
    halves = [x.half() if x.is_floating_point() else x for x in inputs]
    theirs = [each(*nudged) for each, nudged in samples(model.half(), halves)]
    inference = poptorch.inferenceModel(model)
    got = inference(*halves)
    assert "fused_attention" in kernels(inference, halves)
    assert got.dtype == torch.half
    assert (got - exact).abs().max() <= 2 * max((each - exact).abs().max() for each in theirs)
