"""Models of transformers as their users write them: inference and training follow torch on the CPU.

What is measured is recorded with each test: scripts/model_table.py writes docs/models.md from it.
"""

import copy

import pytest
import torch

pytest.importorskip("transformers", reason="models of transformers need that package (scripts/requirements.txt)")

import poptorch
from hugging_face import MODELS
from reference import assert_follows_rule, compare_training, to_double

pytestmark = [pytest.mark.slow, pytest.mark.parametrize("attention", ["eager", "sdpa"])]
ROWS = 2


def options():
    return poptorch.Options().showCompilationProgressBar(False)


@pytest.mark.parametrize("name", list(MODELS))
def test_inference_follows_torch(name, attention, record_property):
    make, inputs_of = MODELS[name]
    torch.manual_seed(3)
    model = make(attn_implementation=attention).eval()
    inputs = inputs_of(ROWS, torch.Generator().manual_seed(4))
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*map(to_double, inputs))
        theirs = model(*inputs)
    run = poptorch.inferenceModel(copy.deepcopy(model), options())
    ours = run(*inputs)
    run.destroy()
    for ours_one, theirs_one, exact_one, what in zip(ours, theirs, exact, ("scores", "loss")):
        assert_follows_rule(ours_one, theirs_one, exact_one, what)
    scale = exact[0].norm()
    record_property("error", f"{((ours[0].double() - exact[0]).norm() / scale).item():.1e}")
    record_property("error of torch", f"{((theirs[0].double() - exact[0]).norm() / scale).item():.1e}")


@pytest.mark.parametrize("name", list(MODELS))
def test_training_follows_torch(name, attention, record_property):
    make, inputs_of = MODELS[name]
    updates = 3
    compare_training(
        lambda: make(attn_implementation=attention).train(),
        lambda factor, generator: inputs_of(ROWS * factor, generator),
        lambda model, optimizer: poptorch.trainingModel(
            model, options().outputMode(poptorch.OutputMode.All), optimizer
        ),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        device_iterations=1,
        accumulation=1,
        steps=updates,
    )
    record_property("updates", str(updates))
