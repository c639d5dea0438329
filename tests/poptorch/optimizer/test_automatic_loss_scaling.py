"""Automatic loss scaling: what counts, when the factor moves, that updates are those of the product, errors."""

import copy
import os
import sys

import pytest
import torch
from models import Mlp
from python_programs import run_program

import poptorch


class Product(torch.nn.Module):
    """The gradients of a micro-batch are the loss scaling S and S * x: n + 1 numbers in float16."""

    def __init__(self, size=4):
        super().__init__()
        self.w = torch.nn.Parameter(torch.ones(size, dtype=torch.float16))

    def forward(self, x):
        return poptorch.identity_loss((self.w * x).sum(), reduction="none")


def options_of(anchored=True, iterations=1, accumulation=1, replicas=1, **settings):
    options = poptorch.Options().deviceIterations(iterations).replicationFactor(replicas)
    options.outputMode(poptorch.OutputMode.All).Training.gradientAccumulation(accumulation)
    options.Training.setAutomaticLossScaling(True)
    for name, value in settings.items():
        options._Popart.set(f"automaticLossScalingSettings.{name}", value)
    if anchored:
        options.anchorTensor("ls", "finalLossScale", poptorch.OutputMode.All)
    return options


def factor_of(optimizer):
    return optimizer.state_dict()["ipu_state"]["lossScaleUpdateFactor"].item()


def factors(options, xs, loss_scaling=128.0, module=None):
    """The factor before the first call and after each of the calls with `xs`."""
    module = module or Product()
    optimizer = poptorch.optim.SGD(module.parameters(), lr=0.0, loss_scaling=loss_scaling)
    trainer = poptorch.trainingModel(module, options, optimizer)
    trainer.compile(xs[0])
    seen = [factor_of(optimizer)]
    for x in xs:
        trainer(x)
        seen.append(factor_of(optimizer))
    trainer.destroy()
    return seen


X = torch.tensor([1.0, 1.0, 1.0, 100.0], dtype=torch.float16)


@pytest.mark.shows("Options.Training.setAutomaticLossScaling")
def test_the_factor_readable_before_a_run_is_the_one_it_uses():
    module = Product()
    optimizer = poptorch.optim.Adam(module.parameters(), lr=0.0, loss_scaling=128.0)
    trainer = poptorch.trainingModel(module, options_of(), optimizer)
    trainer.compile(X)
    assert "finalLossScale" in trainer.getTensorNames()
    expected = 1.0
    for _ in range(4):  # 128 * 100 is above 65504 / 8, 64 * 100 is not
        assert factor_of(optimizer) == expected
        trainer(X)
        assert torch.equal(trainer.getAnchoredTensor("ls").flatten(), torch.tensor([128.0 * expected]))
        expected = 0.5 if expected == 1.0 else 1.0


def test_the_share_of_large_elements_decides():
    small = torch.ones(4, dtype=torch.float16)
    assert factors(options_of(), [small] * 3) == [1, 2, 4, 8]
    assert factors(options_of(binEdgeLocation=1.0), [X] * 4) == [1, 2, 4, 8, 4]  # 8 * 12800 is above 65504
    # One of five elements is not more than a fifth; with a factor of 64 the gradient of the loss is large, too.
    assert factors(options_of(thresholdUpperCountProportion=0.2), [X] * 8)[-3:] == [64, 32, 64]
    assert factors(options_of(thresholdUpperCountProportion=0.19), [X] * 2) == [1, 0.5, 1]


def test_infinite_and_undefined_gradients_are_large():
    class Undefined(Product):
        def forward(self, x):
            return poptorch.identity_loss((self.w * x * x).sum(), reduction="none") * 0

    infinite = torch.full((4,), 60000.0, dtype=torch.float16)
    assert factors(options_of(), [infinite, infinite]) == [1, 0.5, 0.25]
    nothing = torch.full((4,), float("nan"), dtype=torch.float16)
    assert factors(options_of(), [nothing]) == [1, 0.5]


def test_gradients_of_all_micro_batches_and_replicas_count():
    ones = torch.ones(4, dtype=torch.float16)
    xs = torch.stack([ones, ones, ones, ones, ones, ones, X, ones]).reshape(8, 4)

    class Rows(Product):
        def forward(self, x):
            return super().forward(x[0])

    # One large element of 40: of 8 micro-batches, or of 4 on 2 replicas each.
    for accumulation, replicas in ((8, 1), (4, 2)):
        for proportion, factor in ((0.025, 2), (0.024, 0.5)):
            options = options_of(accumulation=accumulation, replicas=replicas, thresholdUpperCountProportion=proportion)
            assert factors(options, [xs], module=Rows()) == [1, factor]


def test_an_update_period_counts_weight_updates_over_calls():
    ones = torch.ones(4, dtype=torch.float16)
    assert factors(options_of(updatePeriod=3), [ones] * 7) == [1, 1, 1, 2, 2, 2, 4, 4]

    class Rows(Product):
        def forward(self, x):
            return super().forward(x[0])

    options = options_of(updatePeriod=3, iterations=4)
    assert factors(options, [ones.expand(4, 4).contiguous()] * 3, module=Rows()) == [1, 2, 4, 16]


class Mixed(torch.nn.Module):
    """`scaled` has large gradients; it reaches no product."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(3)
        self.layer = torch.nn.Linear(4, 4).half()
        self.scaled = torch.nn.Parameter(torch.ones(4, dtype=torch.float16))

    def forward(self, x):
        return poptorch.identity_loss((self.layer(x) + self.scaled * 1000.0).sum(), reduction="none")


def test_only_inputs_of_products_count_with_the_other_tracking_method():
    x = torch.full((1, 4), 0.125, dtype=torch.float16)
    assert factors(options_of(), [x], 64.0, Mixed()) == [1, 0.5]
    assert factors(options_of(gradientTensorTrackingMethod=1), [x], 64.0, Mixed()) == [1, 2]


MAKERS = {
    "sgd": lambda p: poptorch.optim.SGD(p, lr=0.05, loss_scaling=64.0),
    "momentum": lambda p: poptorch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.01, loss_scaling=64.0),
    "combined": lambda p: poptorch.optim.SGD(
        p, lr=0.05, momentum=0.9, weight_decay=0.01, loss_scaling=64.0, use_combined_accum=True
    ),
    "clipped": lambda p: poptorch.optim.SGD(p, lr=0.05, loss_scaling=64.0, max_grad_norm=0.1),
    "adam": lambda p: poptorch.optim.Adam(p, lr=0.01, loss_scaling=64.0),
    "adamw-half": lambda p: poptorch.optim.AdamW(p, lr=0.01, loss_scaling=64.0, accum_type=torch.float16),
    "rmsprop": lambda p: poptorch.optim.RMSprop(p, lr=0.01, loss_scaling=64.0),
    "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01, loss_scaling=64.0),
}


class HalfMlp(torch.nn.Module):
    """The loss is taken in float32 and is large, so that products with the loss scaling come near the largest half."""

    def __init__(self, ipus):
        super().__init__()
        torch.manual_seed(7)
        self.inner = Mlp(ipus).half()

    def forward(self, x, target):
        return poptorch.identity_loss(((self.inner(x).float() - target) ** 2).mean() * 100.0, reduction="none")


def batches(count, rows):
    generator = torch.Generator().manual_seed(2)
    return [
        (torch.randn(rows, 12, generator=generator).half(), torch.randn(rows, 5, generator=generator))
        for _ in range(count)
    ]


@pytest.mark.parametrize("name", MAKERS)
def test_updates_are_those_of_the_product_as_loss_scaling(name):
    data, weights, scalings = batches(6, 8), [], []
    for is_automatic in (True, False):
        model = HalfMlp(1)
        optimizer = MAKERS[name](model.parameters())
        options = options_of(accumulation=4) if is_automatic else poptorch.Options()
        if not is_automatic:
            options.Training.gradientAccumulation(4)
            options.outputMode(poptorch.OutputMode.All)
        trainer = poptorch.trainingModel(model, options, optimizer)
        for step, batch in enumerate(data):
            if not is_automatic:
                optimizer.loss_scaling = scalings[step]
                trainer.setOptimizer(optimizer)
            trainer(*batch)
            if is_automatic:
                used = trainer.getAnchoredTensor("ls").flatten()
                assert len(used) == 4 and len(set(used.tolist())) == 1
                scalings.append(used[0].item())
        weights.append({key: value.clone() for key, value in model.state_dict().items()})
        trainer.destroy()
    ups = {later / earlier for earlier, later in zip(scalings, scalings[1:])}
    assert ups == {0.5, 2.0}, scalings  # it went up and down
    assert all(torch.equal(weights[0][key], weights[1][key]) for key in weights[0])
    assert all(torch.isfinite(value).all() for value in weights[0].values())


PLANS = {
    "one": (poptorch.ShardedExecution, 1, 1, 4),
    "sharded": (poptorch.ShardedExecution, 2, 1, 4),
    "pipelined": (poptorch.PipelinedExecution, 2, 1, 4),
    "replicated": (poptorch.ShardedExecution, 1, 2, 2),
    "pipelined and replicated": (poptorch.PipelinedExecution, 2, 2, 3),
}


def trajectory(plan):
    strategy, ipus, replicas, accumulation = PLANS[plan]
    model = HalfMlp(ipus)
    options = options_of(accumulation=accumulation, replicas=replicas, iterations=3)
    options.setExecutionStrategy(strategy())
    optimizer = poptorch.optim.AdamW(model.parameters(), lr=0.001, loss_scaling=64.0)
    trainer = poptorch.trainingModel(model, options, optimizer)
    seen = []
    for batch in batches(4, 2 * 3 * accumulation * replicas):
        trainer(*batch)
        seen += trainer.getAnchoredTensor("ls").flatten()[:: accumulation * replicas].tolist()
    trainer.destroy()
    return seen, model.state_dict()


def test_factor_and_weights_are_the_same_on_one_ipu_sharded_and_pipelined():
    expected, weights = trajectory("one")
    assert min(expected) < max(expected) / 2
    for plan in ("sharded", "pipelined"):
        seen, others = trajectory(plan)
        assert seen == expected
        assert all(torch.equal(weights[key], others[key]) for key in weights), plan


@pytest.mark.parametrize("plan", ["replicated", "pipelined and replicated"])
def test_replicas_use_one_factor(plan):
    seen, _ = trajectory(plan)
    assert len(seen) == 12 and {later / earlier for earlier, later in zip(seen, seen[1:])} == {0.5, 2.0}


def test_the_factor_goes_with_the_state_of_the_optimizer(tmp_path):
    ones = torch.ones(4, dtype=torch.float16)
    module = Product()
    optimizer = poptorch.optim.SGD(module.parameters(), lr=0.0, loss_scaling=2.0)
    trainer = poptorch.trainingModel(module, options_of(), optimizer)
    for _ in range(3):
        trainer(ones)
    kept = copy.deepcopy(optimizer.state_dict())
    assert kept["ipu_state"]["lossScaleUpdateFactor"] == 8 and kept["ipu_param"]["lossScaling_FLOAT"] == 2
    trainer.copyWeightsToHost()
    trainer.detachFromDevice()
    trainer.attachToDevice()
    trainer(ones)
    assert trainer.getAnchoredTensor("ls") == 2 * 8 and factor_of(optimizer) == 16
    trainer.save(os.fspath(tmp_path / "executable"), save_rng_state=False)
    trainer.destroy()

    second = poptorch.optim.SGD(module.parameters(), lr=0.0, loss_scaling=2.0)
    second.load_state_dict(kept)
    again = poptorch.trainingModel(module, options_of(), second)
    again(ones)
    assert again.getAnchoredTensor("ls") == 2 * 8 and factor_of(second) == 16
    again.destroy()

    code = """
import sys, torch, poptorch
ones = torch.ones(4, dtype=torch.float16)
trainer = poptorch.load(sys.argv[1])
trainer(ones)
trainer(ones)
print(trainer.getAnchoredTensor("ls").item())
"""
    here = os.path.dirname(__file__)
    path = [here, *sys.path]
    code = "from test_automatic_loss_scaling import Product\n" + code
    run = run_program(code, tmp_path / "executable", environment={"PYTHONPATH": os.pathsep.join(path)})
    assert run.returncode == 0, run.stderr
    print(run.stdout)
    assert float(run.stdout) == 2 * 16 * 2


@pytest.mark.parametrize("optim", [torch.optim, poptorch.optim])
def test_loss_scaling_is_variable(optim):
    module = Product()
    optimizer = optim.SGD(module.parameters(), lr=0.1)
    trainer = poptorch.trainingModel(module, options_of(), optimizer)
    trainer(X)
    optimizer.loss_scaling = 64.0
    trainer.setOptimizer(optimizer)
    trainer(X)
    assert trainer.getAnchoredTensor("ls") == 2 * 64.0
    trainer.destroy()


def test_inference_has_no_gradients_to_scale():
    run = poptorch.inferenceModel(Product(), options_of(anchored=False))
    assert run(X) == 103


# --- errors ---


def refused(model, options, *inputs):
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.1))
    with pytest.raises(poptorch.Error) as raised:
        trainer.compile(*inputs)
    assert raised.value.type == "popart_exception"
    return raised.value.message


def test_a_model_without_float16_gradients_is_refused():
    text = refused(Product().float(), options_of(), X.float())
    assert text.startswith("no float16 gradient [IPU-E414]: automatic loss scaling counts large elements of float16 ")
    text = refused(Product(), options_of(gradientTensorTrackingMethod=1), X)
    assert "none is one of an input of a product or convolution" in text


@pytest.mark.parametrize("name", ["binEdgeLocation", "thresholdUpperCountProportion"])
@pytest.mark.parametrize("value", [-0.25, 1.5])
def test_proportions_outside_of_0_to_1_are_refused(name, value):
    text = refused(Product(), options_of(**{name: value}), X)
    assert text == (
        f"proportion out of range [IPU-E414]: automaticLossScalingSettings.{name} is {value}, and a proportion is from 0 "
        "to 1."
    )


def test_a_pipeline_without_accumulation_is_refused():
    options = options_of().setExecutionStrategy(poptorch.PipelinedExecution())
    text = refused(HalfMlp(2), options, *batches(1, 2)[0])
    assert text.startswith(
        "automatic loss scaling in a pipeline without accumulation [IPU-E414]: the pipeline has 2 stages, and "
        "Training.gradientAccumulation is 1."
    )


def test_other_settings_that_mean_nothing_are_refused():
    text = refused(Product(), options_of(gradientTensorTrackingMethod=2), X)
    assert text.startswith("unsupported tracking of gradients [IPU-E414]: ")
    text = refused(Product(), options_of(updatePeriod=0), X)
    assert text.startswith("update period out of range [IPU-E414]: automaticLossScalingSettings.updatePeriod is 0, ")


@pytest.mark.parametrize("more", [1.0, 4096.0])
def test_the_scaling_of_a_float16_loss_stays_a_float16_number(more):
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.layer = torch.nn.Linear(8, 8).half()

        def forward(self, x):
            return poptorch.identity_loss((self.layer(x) ** 2).mean(), reduction="none")

    net = Net()
    options = options_of(gradientTensorTrackingMethod=1)  # the gradient of the loss does not count
    trainer = poptorch.trainingModel(net, options, poptorch.optim.SGD(net.parameters(), lr=0.01, loss_scaling=1024.0))
    x = torch.randn(512, 8, generator=torch.Generator().manual_seed(1)).half()
    for _ in range(10):
        assert trainer(x).isfinite().all()
        assert trainer.getAnchoredTensor("ls") <= 65504
    trainer.setOptimizer(poptorch.optim.SGD(net.parameters(), lr=0.01, loss_scaling=1024.0 * more))
    for _ in range(3):
        assert trainer(x).isfinite().all()
    assert net.layer.weight.isfinite().all()
    trainer.destroy()
