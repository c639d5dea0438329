"""Training on the emulated IPUs follows torch, step by step, for every strategy and batching."""

import itertools

import pytest
import torch
from models import Cnn, Mlp, TiedEmbedding
from reference import compare_training

import poptorch

# name → (strategy, IPUs, stages of the training pipeline that bound accumulation from below)
STRATEGIES = {
    "one": (poptorch.PipelinedExecution, 1, 1),
    "sharded2": (poptorch.ShardedExecution, 2, 1),
    "sharded3": (poptorch.ShardedExecution, 3, 1),
    "pipelined2": (poptorch.PipelinedExecution, 2, 3),
    "pipelined4": (poptorch.PipelinedExecution, 4, 7),
}


def training_options(strategy, device_iterations, accumulation):
    kind, ipus, _ = STRATEGIES[strategy]
    options = poptorch.Options().deviceIterations(device_iterations).outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(accumulation)
    options.setExecutionStrategy(kind())
    options.autoRoundNumIPUs(ipus == 3)
    return options


def is_quick(model, strategy, iterations, factor):
    """In the default tier: all batchings in a pipeline, all strategies with one batching, larger models in two of them."""
    if model is Mlp and strategy == "pipelined2":
        return True
    return (iterations, factor) == (3, 1) and (model is Mlp or strategy in ("one", "pipelined2"))


# (model, strategy, device iterations, multiple of the least accumulation)
TRAININGS = [
    pytest.param(*training, marks=() if is_quick(*training) else pytest.mark.slow)
    for training in itertools.product((Mlp, Cnn, TiedEmbedding), STRATEGIES, (1, 3), (1, 2))
]


@pytest.mark.parametrize("model, strategy, device_iterations, factor", TRAININGS)
def test_sgd_with_momentum_follows_torch(model, strategy, device_iterations, factor):
    _, ipus, minimum = STRATEGIES[strategy]
    accumulation = minimum * factor
    options = training_options(strategy, device_iterations, accumulation)
    compare_training(
        lambda: model(ipus),
        model.inputs,
        lambda net, optimizer: poptorch.trainingModel(net, options, optimizer),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.9),
        device_iterations,
        accumulation,
    )


@pytest.mark.parametrize(
    "arguments",
    [
        {"lr": 0.1},
        {"lr": 0.1, "weight_decay": 0.05},
        {"lr": 0.1, "momentum": 0.8, "weight_decay": 0.05},
        {"lr": 0.1, "momentum": 0.8, "nesterov": True},
    ],
)
@pytest.mark.parametrize("accumulation", [1, 3])
def test_sgd_variants_follow_torch(arguments, accumulation):
    options = training_options("one", 1, accumulation)
    compare_training(
        Mlp,
        Mlp.inputs,
        lambda net, optimizer: poptorch.trainingModel(net, options, optimizer),
        lambda parameters: torch.optim.SGD(parameters, **arguments),
        1,
        accumulation,
    )


@pytest.mark.parametrize("strategy, accumulation", [("pipelined2", 2), ("pipelined4", 6)])
def test_too_little_accumulation_for_the_pipeline_is_refused_and_the_device_stays_usable(strategy, accumulation):
    _, ipus, minimum = STRATEGIES[strategy]
    trainer = poptorch.trainingModel(Mlp(ipus), training_options(strategy, 1, accumulation))
    with pytest.raises(poptorch.Error, match=rf"gradientAccumulation.*\b{minimum}\b"):
        trainer(*Mlp.inputs(accumulation, torch.Generator().manual_seed(0)))
    good = poptorch.trainingModel(Mlp(ipus), training_options(strategy, 1, minimum))
    good(*Mlp.inputs(minimum, torch.Generator().manual_seed(0)))


def test_the_number_of_ipus_is_checked_before_accumulation_and_device_iterations():
    trainer = poptorch.trainingModel(Mlp(3), training_options("pipelined2", 1, 1))
    with pytest.raises(poptorch.Error, match="number of IPUs is not a power of two"):
        trainer(*Mlp.inputs(1, torch.Generator().manual_seed(0)))
    runner = poptorch.inferenceModel(Mlp(3))
    with pytest.raises(poptorch.Error, match="number of IPUs is not a power of two"):
        runner(Mlp.inputs(1, torch.Generator().manual_seed(0))[0])


def test_inference_pipeline_needs_as_many_device_iterations_as_stages():
    runner = poptorch.inferenceModel(Mlp(4), poptorch.Options().deviceIterations(3))
    with pytest.raises(poptorch.Error, match=r"deviceIterations.*\b4\b"):
        runner(torch.randn(6, 12))


def test_three_ipus_need_rounding():
    options = poptorch.Options()
    options.setExecutionStrategy(poptorch.ShardedExecution())
    trainer = poptorch.trainingModel(Mlp(3), options)
    with pytest.raises(poptorch.Error, match=r"(?s)3.*4"):
        trainer(*Mlp.inputs(1, torch.Generator().manual_seed(0)))
