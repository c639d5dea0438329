"""Norms, attention, interpolation and losses keep their name from the capture through autodiff, until `decompose`."""

import re

import pytest
import torch
import torch.nn.functional as F

import poptorch


class Layer(torch.nn.Module):
    def __init__(self, **arguments):
        super().__init__()
        self.arguments = arguments
        self.qkv = torch.nn.Linear(8, 24)
        self.norm = torch.nn.RMSNorm(8)

    def forward(self, x):
        q, k, v = self.qkv(x).chunk(3, -1)
        return self.norm(x + F.scaled_dot_product_attention(q, k, v, **self.arguments))


class Stack(torch.nn.Module):
    def __init__(self, ipus=1, **arguments):
        super().__init__()
        self.layers = torch.nn.ModuleList([Layer(**arguments) for _ in range(2)])
        self.ipus = ipus

    def forward(self, x, y):
        for i, layer in enumerate(self.layers):
            poptorch.Block.start(f"layer{i}", ipu_id=i % self.ipus)
            x = layer(x)
        return x, F.huber_loss(x, y)


def trained(tmp_path, monkeypatch, moments, model, options=None, micro_batches=1):
    """Texts of the module at these moments of the compilation of a training step, by moment."""
    monkeypatch.setenv("IPU_DUMP", ",".join(moments))
    monkeypatch.setenv("IPU_DUMP_DIR", str(tmp_path))
    monkeypatch.setenv("POPTORCH_CACHE_DIR", "")
    options = options or poptorch.Options()
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer(torch.randn(2 * micro_batches, 5, 8), torch.randn(2 * micro_batches, 5, 8))
    trainer.destroy()
    texts = {}
    for moment in moments:
        (path,) = tmp_path.glob(f"*-{moment.replace(':', '-')}.ir")
        texts[moment] = path.read_text()
    return texts


def kinds(text):
    return re.findall(r"= ([a-z_][\w.]*)\(", text)


COMPOUNDS = ["rms_norm", "attention", "huber_loss"]


def test_compounds_and_their_gradients_stand_by_name_until_they_are_decomposed(tmp_path, monkeypatch):
    moments = ["at:Fwd0", "before:decompose", "after:decompose"]
    texts = trained(tmp_path, monkeypatch, moments, Stack())
    for moment in moments[:2]:
        found = kinds(texts[moment])
        for kind, count in zip(COMPOUNDS, (2, 2, 1)):
            assert found.count(kind) == count, (moment, kind)
            assert found.count(kind + "_gradient") == count, (moment, kind)
        assert "rsqrt" not in found and "softmax" not in found
    found = kinds(texts["after:decompose"])
    assert not [kind for kind in found if kind.removesuffix("_gradient") in COMPOUNDS]
    # The gradients read what the forward pass made: nothing of it is there twice.
    assert (found.count("rsqrt"), found.count("softmax"), found.count("softmax_gradient")) == (2, 2, 2)


def test_a_norm_with_a_kernel_stays_by_name(tmp_path, monkeypatch):
    model = Stack()
    for layer in model.layers:
        layer.norm = torch.nn.LayerNorm(8)
    found = kinds(trained(tmp_path, monkeypatch, ["after:decompose"], model)["after:decompose"])
    assert (found.count("layer_norm"), found.count("layer_norm_gradient"), found.count("rsqrt")) == (2, 2, 0)


def test_parts_stand_at_the_users_line_and_in_the_users_module(tmp_path, monkeypatch):
    texts = trained(tmp_path, monkeypatch, ["after:decompose"], Stack())
    lines = texts["after:decompose"].splitlines()
    for kind, module in (("rsqrt", "layers.0.norm"), ("softmax_gradient", "layers.0")):
        first = [line for line in lines if f"= {kind}(" in line]
        assert any(f'"{module}"' in line and "loc(" in line for line in first), (kind, first)


@pytest.mark.parametrize("recompute", [False, True])
def test_gradients_of_another_pipeline_stage_read_the_forward_values(tmp_path, monkeypatch, recompute):
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    options.setExecutionStrategy(poptorch.PipelinedExecution())
    if recompute:
        options._Popart.options["autoRecomputation"] = 3
    texts = trained(tmp_path, monkeypatch, ["after:decompose"], Stack(ipus=2), options, micro_batches=4)
    found = kinds(texts["after:decompose"])
    assert (found.count("rsqrt"), found.count("softmax"), found.count("softmax_gradient")) == (2, 2, 2)


def test_rows_that_a_mask_blocks_give_zeros_and_no_gradient():
    class Masked(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.randn(3, 4))

        def forward(self, x, mask):
            y = F.scaled_dot_product_attention(x * self.weight, x, x, attn_mask=mask)
            return y, poptorch.identity_loss(y.square(), reduction="sum")

    for mask in (torch.tensor([[True, False, True], [False] * 3, [True] * 3]), torch.zeros(3, 3)):
        if mask.dtype != torch.bool:
            mask[1] = float("-inf")
        torch.manual_seed(0)
        ours, x = Masked(), torch.randn(1, 3, 4)
        plain = Masked()
        plain.load_state_dict(ours.state_dict())
        y, loss = plain(x, mask)
        loss.backward()
        trainer = poptorch.trainingModel(ours, optimizer=torch.optim.SGD(ours.parameters(), lr=1.0))
        got, _ = trainer(x, mask)
        torch.testing.assert_close(got, y.detach())
        assert not got[0, 1].any() and not plain.weight.grad[1].any()
        torch.testing.assert_close(ours.weight.detach(), (plain.weight - plain.weight.grad).detach())
        trainer.destroy()
