"""Recomputation: planned by mode and checkpoints, executed on demand, never a different bit."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn

import poptorch


class Stack(nn.Module):
    """`depth` layers with dropout over `ipus` IPUs; the output of layer `checkpoint` is kept."""

    def __init__(self, ipus=1, depth=6, checkpoint=None):
        super().__init__()
        self.ipus, self.checkpoint = ipus, checkpoint
        self.layers = nn.ModuleList(nn.Linear(16, 16) for _ in range(depth))
        self.norms = nn.ModuleList(nn.LayerNorm(16) for _ in range(depth))

    def forward(self, x):
        depth = len(self.layers)
        for i, (layer, norm) in enumerate(zip(self.layers, self.norms)):
            ipu = i * self.ipus // depth
            poptorch.Block.start(f"b{ipu}", ipu_id=ipu)
            x = F.dropout(F.gelu(norm(layer(x))), 0.2, training=True) + x
            if i == self.checkpoint:
                x = poptorch.recomputationCheckpoint(x)
        return x, poptorch.identity_loss((x**2).mean(), reduction="none")


def train(mode, ipus=1, strategy=poptorch.PipelinedExecution, checkpoint=None):
    """Outputs of two calls, weights after them, statistics of the compilation."""
    torch.manual_seed(3)
    model = Stack(ipus, checkpoint=checkpoint)
    options = poptorch.Options().randomSeed(4).outputMode(poptorch.OutputMode.All).autoRoundNumIPUs(True)
    options.setExecutionStrategy(strategy())
    options.Training.gradientAccumulation(6)
    if mode is not None:
        options._Popart.options["autoRecomputation"] = mode
    training = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    generator = torch.Generator().manual_seed(5)
    outputs = [training(torch.randn(12, 16, generator=generator))[0] for _ in range(2)]
    weights = torch.cat([p.detach().flatten() for p in model.parameters()])
    return torch.cat(outputs), weights, training._executable.statistics()


@pytest.mark.parametrize("checkpoint", [None, 1])
@pytest.mark.parametrize("ipus", [2, 3])
@pytest.mark.parametrize("mode", [None, 1, 4])
def test_pipelines_give_the_same_bits_executed_or_not(mode, ipus, checkpoint, monkeypatch):
    monkeypatch.setenv("POPTORCH_EXECUTE_RECOMPUTE", "0")
    outputs, weights, planned = train(mode, ipus, checkpoint=checkpoint)
    assert planned["ops recomputed"] > 0 and planned["recomputation executed"] == 0
    monkeypatch.setenv("POPTORCH_EXECUTE_RECOMPUTE", "1")
    again, other, executed = train(mode, ipus, checkpoint=checkpoint)
    assert executed["recomputation executed"] == 1
    assert executed["stash bytes"] == planned["stash bytes"]
    assert torch.equal(again, outputs) and torch.equal(other, weights)


@pytest.mark.parametrize("strategy, ipus", [(poptorch.PipelinedExecution, 1), (poptorch.ShardedExecution, 2)])
@pytest.mark.parametrize("mode", [1, 2, 4])
def test_other_modes_give_the_same_bits_executed_or_not(mode, strategy, ipus, monkeypatch):
    outputs, weights, planned = train(0, ipus, strategy)
    assert "ops recomputed" not in planned
    monkeypatch.setenv("POPTORCH_EXECUTE_RECOMPUTE", "1")
    again, other, executed = train(mode, ipus, strategy)
    assert executed["ops recomputed"] > 0 and executed["recomputation executed"] == 1
    assert executed["stash bytes with recomputation"] < executed["stash bytes"]
    assert torch.equal(again, outputs) and torch.equal(other, weights)


@pytest.mark.shows("recomputationCheckpoint")
def test_a_checkpoint_is_kept():
    _, _, without = train(None, 2)
    _, _, kept = train(None, 2, checkpoint=1)
    # 2 rows of 16 floats, of as many micro-batches as are under way
    assert kept["stash bytes with recomputation"] > without["stash bytes with recomputation"]


@pytest.mark.parametrize("strategy, ipus", [(poptorch.PipelinedExecution, 1), (poptorch.ShardedExecution, 2)])
def test_without_a_pipeline_nothing_is_recomputed_by_default(strategy, ipus):
    _, _, statistics = train(None, ipus, strategy)
    assert statistics.get("ops recomputed", 0) == 0


def test_it_is_executed_when_the_stash_exceeds_the_memory_of_the_host(monkeypatch):
    monkeypatch.delenv("POPTORCH_EXECUTE_RECOMPUTE", raising=False)
    monkeypatch.setenv("POPTORCH_HOST_MEMORY", "1000")
    _, _, statistics = train(None, 2)
    assert statistics["stash bytes"] > 1000 and statistics["recomputation executed"] == 1
    monkeypatch.setenv("POPTORCH_HOST_MEMORY", "1e9")
    _, _, statistics = train(None, 2)
    assert statistics["recomputation executed"] == 0


@pytest.mark.parametrize(
    "name, value, message",
    [
        (
            "POPTORCH_EXECUTE_RECOMPUTE",
            "yes",
            "POPTORCH_EXECUTE_RECOMPUTE is not understood: 'yes' is neither 0 nor 1.",
        ),
        ("POPTORCH_HOST_MEMORY", "much", "POPTORCH_HOST_MEMORY is not understood: 'much' is no number of bytes."),
    ],
)
def test_what_the_environment_says_must_be_understood(name, value, message, monkeypatch):
    monkeypatch.setenv(name, value)
    with pytest.raises(poptorch.Error) as raised:
        train(None, 2)
    key, rest = message.split(":", 1)
    assert f"{key} [IPU-E503]:{rest}" in str(raised.value)
