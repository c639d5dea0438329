"""Random small models on random plans give torch's numbers: every strategy, batching and output mode is the same."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples

import poptorch
from poptorch import OutputMode


class Chain(torch.nn.Module):
    def __init__(self, sizes, activations, ipus):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(a, b) for a, b in zip(sizes, sizes[1:]))
        self.activations = activations
        self.ipus = ipus

    def forward(self, x, y=None):
        for index, (layer, activation) in enumerate(zip(self.layers, self.activations)):
            ipu = index * self.ipus // len(self.layers)
            poptorch.Block.start(f"b{ipu}", ipu_id=ipu)
            x = activation(layer(x))
        return x if y is None else (x, torch.nn.functional.mse_loss(x, y))


ACTIVATIONS = [torch.relu, torch.tanh, torch.sigmoid, torch.nn.functional.gelu, lambda x: x * 0.5 + 1]


# A large epsilon: AdamW would blow rounding errors of gradients near zero up to whole steps.
OPTIMIZERS = {
    "SGD": lambda parameters: torch.optim.SGD(parameters, lr=0.05),
    "SGD momentum": lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
    "AdamW": lambda parameters: torch.optim.AdamW(parameters, lr=0.05, eps=1e-2),
}


@st.composite
def plans(draw):
    layers = draw(st.integers(2, 4))
    ipus = draw(st.sampled_from([n for n in (1, 2, 4) if n <= layers]))
    pipelined = draw(st.booleans())
    stages = ipus if pipelined else 1
    iterations = draw(st.integers(1, 3))
    mode = draw(st.sampled_from([OutputMode.All, OutputMode.Final, OutputMode.Sum, OutputMode.EveryN]))
    return {
        "sizes": draw(st.lists(st.integers(1, 9), min_size=layers + 1, max_size=layers + 1)),
        "activations": draw(st.lists(st.sampled_from(ACTIVATIONS), min_size=layers, max_size=layers)),
        "ipus": ipus,
        "strategy": poptorch.PipelinedExecution if pipelined else poptorch.ShardedExecution,
        "accumulation": draw(st.integers(2 * stages - 1, 4 * stages)),
        "iterations": iterations,
        "mode": mode,
        "period": draw(st.sampled_from([n for n in (1, 2, 3) if iterations % n == 0])),
        "rows": draw(st.integers(1, 3)),
        "replicas": draw(st.sampled_from([1, 2, 4])),
        "optimizer": draw(st.sampled_from(sorted(OPTIMIZERS))),
        "seed": draw(st.integers(0, 1000)),
    }


def expected_rows(values, plan):
    """What the output mode keeps of one value per micro-batch, in order of iteration, accumulation step, replica."""
    replicas = plan["replicas"]
    if plan["mode"] == OutputMode.Sum:
        return [sum(values[r + replicas :: replicas], values[r]) for r in range(replicas)]
    if plan["mode"] == OutputMode.Final:
        return values[-replicas:]
    period = plan["period"] if plan["mode"] == OutputMode.EveryN else 1
    per_iteration = plan["accumulation"] * replicas
    return [value for i, value in enumerate(values) if (i // per_iteration + 1) % period == 0]


@settings(max_examples=examples(60))
@given(plans())
@pytest.mark.usefixtures("idle_ipus")
def test_training_on_any_plan_equals_torch(plan):
    torch.manual_seed(plan["seed"])
    ours = Chain(plan["sizes"], plan["activations"], plan["ipus"])
    plain = copy.deepcopy(ours)
    options = poptorch.Options().deviceIterations(plan["iterations"]).setExecutionStrategy(plan["strategy"]())
    options.outputMode(plan["mode"], plan["period"] if plan["mode"] == OutputMode.EveryN else None)
    options.Training.gradientAccumulation(plan["accumulation"])
    options.replicationFactor(plan["replicas"])
    per_update = plan["accumulation"] * plan["replicas"]
    count = plan["iterations"] * per_update
    x = torch.randn(plan["rows"] * count, plan["sizes"][0])
    y = torch.randn(plan["rows"] * count, plan["sizes"][-1])
    make = lambda net: OPTIMIZERS[plan["optimizer"]](net.parameters())  # noqa: E731
    trainer = poptorch.trainingModel(ours, options, make(ours))
    out, loss = trainer(x, y)
    optimizer = make(plain)
    outs, losses = [], []
    for part_x, part_y in zip(x.chunk(plan["iterations"]), y.chunk(plan["iterations"])):
        optimizer.zero_grad()
        for micro_x, micro_y in zip(part_x.split(plan["rows"]), part_y.split(plan["rows"])):
            o, micro_loss = plain(micro_x, micro_y)
            (micro_loss / per_update).backward()
            outs.append(o.detach())
            losses.append(micro_loss.detach())
        optimizer.step()
    want_loss = torch.stack(expected_rows(losses, plan))
    close = {"rtol": 1e-4, "atol": 1e-5}
    torch.testing.assert_close(out, torch.cat(expected_rows(outs, plan)), **close)
    torch.testing.assert_close(loss, want_loss[0] if len(want_loss) == 1 else want_loss, **close)
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor, **close)
    trainer.destroy()
