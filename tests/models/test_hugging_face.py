"""Models of transformers as their users write them: inference and training follow torch on the CPU.

What is measured is recorded with each test: scripts/model_table.py writes docs/models.md from it.
"""

import copy

import pytest
import torch

pytest.importorskip("transformers", reason="models of transformers need that package (scripts/requirements-test.txt)")

import poptorch
from hugging_face import MODELS
from hugging_face_inputs import TEXT_NAMES
from reference import assert_follows_rule, compare_training, samples, to_double

ROWS = 2
CASES = [(name, attention) for name, model in MODELS.items() for attention in model.attention]


def make(name, attention):
    """The model, whose parameters that begin with zeros get values: zeros hide errors, and have no norm to compare with."""
    model = MODELS[name].make(**({} if attention == "none" else {"attn_implementation": attention}))
    for parameter in model.parameters():
        if not parameter.any():
            torch.nn.init.normal_(parameter, std=0.1)
    return model


def options(device_iterations=1, accumulation=1):
    chosen = poptorch.Options().showCompilationProgressBar(False).outputMode(poptorch.OutputMode.All)
    chosen.deviceIterations(device_iterations).Training.gradientAccumulation(accumulation)
    return chosen


def on_two_ipus(name, model):
    poptorch.BeginBlock(model.get_submodule(MODELS[name].second), "second", ipu_id=1)
    return model


def exact_and_floats(model, inputs):
    """The results in f64, and those of each run in f32."""
    with torch.no_grad():
        exact = copy.deepcopy(model).double()(*map(to_double, inputs))
        return exact, [nudged(*values) for nudged, values in samples(model, inputs)]


@pytest.mark.parametrize("name, attention", CASES)
def test_inference_follows_torch(name, attention, record_property):
    torch.manual_seed(3)
    model = make(name, attention).eval()
    inputs = MODELS[name].inputs(ROWS, torch.Generator().manual_seed(4))
    exact, floats = exact_and_floats(model, inputs)
    run = poptorch.inferenceModel(copy.deepcopy(model), options())
    ours = run(*inputs)
    run.destroy()
    for ours_one, floats_of_one, exact_one, what in zip(ours, zip(*floats), exact, ("scores", "loss")):
        assert_follows_rule(ours_one, floats_of_one, exact_one, what)
    scale = exact[0].norm()
    record_property("error", f"{((ours[0].double() - exact[0]).norm() / scale).item():.1e}")
    record_property("error of torch", f"{((floats[0][0].double() - exact[0]).norm() / scale).item():.1e}")


@pytest.mark.parametrize("name, attention", CASES)
def test_training_follows_torch(name, attention, record_property):
    compare_training(
        lambda: make(name, attention).train(),
        lambda factor, generator: MODELS[name].inputs(ROWS * factor, generator),
        lambda model, optimizer: poptorch.trainingModel(model, options(), optimizer),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        device_iterations=1,
        accumulation=1,
        steps=MODELS[name].updates,
    )
    record_property("updates", str(MODELS[name].updates))


@pytest.mark.parametrize("name, attention", [(name, MODELS[name].attention[-1]) for name in MODELS])
def test_pipeline_follows_torch(name, attention):
    """Inference over two stages, and training over their four, on two IPUs."""
    torch.manual_seed(3)
    model = make(name, attention).eval()
    parts = [MODELS[name].inputs(ROWS, torch.Generator().manual_seed(seed)) for seed in (4, 5)]
    run = poptorch.inferenceModel(on_two_ipus(name, copy.deepcopy(model)), options(device_iterations=len(parts)))
    ours = run(*(torch.cat(tensors) for tensors in zip(*parts)))
    run.destroy()
    for one, inputs in enumerate(parts):
        exact, floats = exact_and_floats(model, inputs)
        for k, what in enumerate(("scores", "loss")):
            ours_one = ours[k].reshape(len(parts), *exact[k].shape)[one]
            assert_follows_rule(ours_one, [each[k] for each in floats], exact[k], what)
    compare_training(
        lambda: make(name, attention).train(),
        lambda factor, generator: MODELS[name].inputs(ROWS * factor, generator),
        lambda model, optimizer: poptorch.trainingModel(on_two_ipus(name, model), options(accumulation=4), optimizer),
        lambda parameters: torch.optim.SGD(parameters, lr=0.1),
        device_iterations=1,
        accumulation=4,
        steps=1,
    )


def test_a_model_as_it_is_takes_keywords_and_gives_its_own_kind_of_result():
    model = make("BertForSequenceClassification", "sdpa").model.eval()
    inputs = dict(
        zip(TEXT_NAMES, MODELS["BertForSequenceClassification"].inputs(ROWS, torch.Generator().manual_seed(4)))
    )
    run = poptorch.inferenceModel(copy.deepcopy(model), options())
    ours = run(**inputs)
    run.destroy()
    with torch.no_grad():
        floats = [each(**inputs) for each, _ in samples(model, [])]
        theirs, exact = floats[0], copy.deepcopy(model).double()(**inputs)
    assert type(ours) is type(theirs) and list(ours) == list(theirs)
    assert_follows_rule(ours.logits, [each.logits for each in floats], exact.logits, "scores")
