"""Updates on the emulated IPUs follow torch's optimizers, or the documented equations where torch has none, step by step."""

import copy

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from examples import examples
from models import Mlp, TiedEmbedding
from optimizer_equations import Equations
from reference import TorchRuns

import poptorch

# name → (strategy, IPUs, device iterations, accumulation, replicas)
PLANS = {
    "one": (poptorch.PipelinedExecution, 1, 1, 1, 1),
    "accumulated": (poptorch.PipelinedExecution, 1, 2, 4, 1),
    "sharded": (poptorch.ShardedExecution, 2, 2, 1, 1),
    "pipelined": (poptorch.PipelinedExecution, 2, 1, 4, 1),
    "replicated": (poptorch.PipelinedExecution, 2, 2, 3, 2),
}


def follow(make_ours, make_torch, plan="one", model=Mlp, steps=20, change=None, reduction="Mean"):
    """`steps` updates on the IPUs and in torch, f32 and f64: every loss and every weight obeys the numerics rule.

    `make_ours` and `make_torch` make optimizers of a module. `change(optimizer, update)` is called for every optimizer
    before each call of the trainer from the second on; ours is then passed to setOptimizer.
    """
    strategy, ipus, device_iterations, accumulation, replicas = PLANS[plan]
    micro_batches = accumulation * replicas  # of one update
    torch.manual_seed(11)
    ours = model(ipus)
    runs = TorchRuns(ours, make_torch, micro_batches, reduction.lower())
    options = poptorch.Options().deviceIterations(device_iterations).outputMode(poptorch.OutputMode.All)
    options.setExecutionStrategy(strategy()).replicationFactor(replicas)
    options.Training.gradientAccumulation(accumulation)
    options.Training.accumulationAndReplicationReductionType(getattr(poptorch.ReductionType, reduction))
    options.relaxOptimizerAttributesChecks()
    optimizer = make_ours(ours)
    trainer = poptorch.trainingModel(ours, options, optimizer)
    generator = torch.Generator().manual_seed(5)
    for done in range(0, steps, device_iterations):
        if change is not None and done > 0:
            for each in (optimizer, *runs.optimizers()):
                change(each, done)
            trainer.setOptimizer(optimizer)
        inputs = model.inputs(device_iterations * micro_batches, generator)
        losses = trainer(*inputs)[-1].reshape(device_iterations, micro_batches)
        for iteration, parts in enumerate(zip(*(tensor.chunk(device_iterations) for tensor in inputs))):
            runs.check_update(losses[iteration], parts, done + iteration)
        runs.check_state(ours.state_dict(), done)
    trainer.destroy()


# --- torch's classes, as they are ---


def decay_groups(model):
    """Weights decay, biases do not, and learn faster."""
    named = list(model.named_parameters())
    return [
        {"params": [p for name, p in named if not name.endswith("bias")], "weight_decay": 0.05},
        {"params": [p for name, p in named if name.endswith("bias")], "lr": 0.02},
    ]


TORCH = {
    "sgd-nesterov": lambda m: torch.optim.SGD(m.parameters(), lr=0.05, momentum=0.9, nesterov=True, weight_decay=0.01),
    "adam": lambda m: torch.optim.Adam(m.parameters(), lr=0.01, eps=1e-6),
    "adam-groups": lambda m: torch.optim.Adam(decay_groups(m), lr=0.01, betas=(0.8, 0.95)),
    "adamw": lambda m: torch.optim.AdamW(m.parameters(), lr=0.01),
    "adamw-groups": lambda m: torch.optim.AdamW(decay_groups(m), lr=0.01, betas=(0.5, 0.9), eps=1e-5),
    "rmsprop": lambda m: torch.optim.RMSprop(m.parameters(), lr=0.005, weight_decay=0.02),
    "rmsprop-centred": lambda m: torch.optim.RMSprop(
        decay_groups(m), lr=0.002, alpha=0.9, eps=1e-4, momentum=0.5, centered=True
    ),
}


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("name", TORCH)
def test_torch_optimizers_give_torchs_updates(name, plan):
    follow(TORCH[name], TORCH[name], plan)


def test_sum_of_gradients_and_tied_parameters():
    make = TORCH["adamw"]
    follow(make, make, "pipelined", TiedEmbedding, reduction="Sum")


def test_adam_with_decoupled_decay_is_adamw():
    follow(
        lambda m: torch.optim.Adam(m.parameters(), lr=0.01, weight_decay=0.05, decoupled_weight_decay=True),
        lambda m: torch.optim.AdamW(m.parameters(), lr=0.01, weight_decay=0.05),
    )


def test_parameters_in_no_group_stay_as_they_are():
    torch.manual_seed(1)
    model = Mlp()
    start = copy.deepcopy(model.state_dict())
    others = [p for name, p in model.named_parameters() if name != "parts.1.0.weight"]
    trainer = poptorch.trainingModel(model, None, torch.optim.AdamW(others, lr=0.1))
    trainer(*Mlp.inputs(1, torch.Generator().manual_seed(1)))
    for name, tensor in model.state_dict().items():
        assert torch.equal(tensor, start[name]) == (name == "parts.1.0.weight"), name
    trainer.destroy()


# --- poptorch's classes, constant and variable ---

POPTORCH = {
    "sgd": (poptorch.optim.SGD, torch.optim.SGD, {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}),
    "adam": (
        poptorch.optim.Adam,
        torch.optim.Adam,
        {"lr": 0.01, "betas": (0.8, 0.99), "eps": 1e-6, "weight_decay": 0.1},
    ),
    "adamw": (poptorch.optim.AdamW, torch.optim.AdamW, {"lr": 0.01, "betas": (0.8, 0.99), "weight_decay": 0.1}),
    "rmsprop": (poptorch.optim.RMSprop, torch.optim.RMSprop, {"lr": 0.005, "alpha": 0.9, "momentum": 0.3}),
}


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("name", POPTORCH)
def test_constant_and_variable_hyper_parameters_give_the_same_updates(name, constant):
    ours, theirs, hyper = POPTORCH[name]

    def make(model):
        optimizer = ours(model.parameters(), **hyper, loss_scaling=1024.0)
        for attribute in [*hyper, "loss_scaling"]:
            assert not optimizer.variable_attrs.isConstant(attribute)
            if constant:
                optimizer.variable_attrs.markAsConstant(attribute)
        return optimizer

    follow(make, lambda m: theirs(m.parameters(), **hyper), "accumulated")


def test_defaults_are_those_of_torch():
    follow(lambda m: poptorch.optim.Adam(m.parameters()), lambda m: torch.optim.Adam(m.parameters()))
    follow(lambda m: poptorch.optim.RMSprop(m.parameters()), lambda m: torch.optim.RMSprop(m.parameters()))


def test_combined_sgd_gives_the_updates_of_separate_sgd():
    hyper = {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}
    for plan in ("accumulated", "pipelined", "replicated"):
        follow(
            lambda m: poptorch.optim.SGD(
                m.parameters(), **hyper, use_combined_accum=True, velocity_scaling=8.0, loss_scaling=64.0
            ),
            lambda m: torch.optim.SGD(m.parameters(), **hyper),
            plan,
        )


# --- changes through setOptimizer ---


@pytest.mark.filterwarnings("ignore:Detected call of")
def test_learning_rate_schedules_need_no_recompilation():
    schedulers = {}

    def change(optimizer, update):
        if id(optimizer) not in schedulers:
            schedulers[id(optimizer)] = torch.optim.lr_scheduler.CosineAnnealingLR(optimizer, T_max=20, eta_min=1e-4)
        schedulers[id(optimizer)].step()

    for name in ("sgd-nesterov", "adam", "rmsprop-centred"):
        schedulers.clear()
        follow(TORCH[name], TORCH[name], change=change)


@pytest.mark.parametrize("library", [torch.optim, poptorch.optim])
def test_schedules_see_that_the_device_takes_the_steps(library, recwarn):
    model = Mlp(1)
    optimizer = library.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    trainer = poptorch.trainingModel(model, optimizer=optimizer)
    trainer(*Mlp.inputs(1, torch.Generator().manual_seed(0)))
    schedule.step()
    assert not [str(w.message) for w in recwarn if "lr_scheduler" in str(w.message)]
    trainer.destroy()


def test_a_schedule_before_the_first_step_is_warned_of_as_by_torch():
    model = Mlp(1)
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1)
    schedule = torch.optim.lr_scheduler.StepLR(optimizer, 1)
    poptorch.trainingModel(model, optimizer=optimizer)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        schedule.step()


def test_every_variable_hyper_parameter_may_change():
    def change(optimizer, update):
        for group in optimizer.param_groups:
            group["lr"] = 0.01 / update
            group["betas"] = (0.9 - 0.02 * update, 0.999 - 0.01 * update)
            group["eps"] = 1e-6 * update
            group["weight_decay"] = 0.01 * update
        if isinstance(optimizer, poptorch.optim.Optimizer):
            optimizer.loss_scaling = 2.0 ** (update % 12)

    hyper = {"lr": 0.01, "betas": (0.9, 0.999), "eps": 1e-6, "weight_decay": 0.01}
    follow(
        lambda m: poptorch.optim.AdamW(m.parameters(), **hyper, loss_scaling=2.0),
        lambda m: torch.optim.AdamW(m.parameters(), **hyper),
        "accumulated",
        change=change,
    )


# --- what torch does not have ---

EQUATIONS = {
    "sgd-dampening": (poptorch.optim.SGD, "sgd", {"lr": 0.05, "momentum": 0.9, "dampening": 0.5, "weight_decay": 0.01}),
    "adamw-no-bias": (poptorch.optim.AdamW, "adamw", {"lr": 0.002, "weight_decay": 0.1, "bias_correction": False}),
    "rmsprop-tf": (
        poptorch.optim.RMSprop,
        "rmsprop",
        {"lr": 0.01, "alpha": 0.9, "eps": 1e-3, "use_tf_variant": True, "momentum": 0.5, "centered": True},
    ),
    "lamb": (poptorch.optim.LAMB, "lamb", {"lr": 0.02, "weight_decay": 0.01, "eps": 1e-6}),
    "lamb-no-bias": (
        poptorch.optim.LAMB,
        "lamb",
        {"lr": 0.02, "weight_decay": 0.0, "eps": 1e-6, "bias_correction": False, "max_weight_norm": 0.7},
    ),
}


@pytest.mark.parametrize("plan", ["one", "pipelined", "replicated"])
@pytest.mark.parametrize("name", EQUATIONS)
@pytest.mark.edge("22.31", "22.36")
def test_variants_of_our_own_follow_their_equations(name, plan):
    ours, kind, hyper = EQUATIONS[name]
    follow(lambda m: ours(m.parameters(), **hyper), lambda m: Equations(m.parameters(), kind, **hyper), plan)


@pytest.mark.parametrize("plan", PLANS)
@pytest.mark.parametrize("clip", [0.02, 10.0])
@pytest.mark.shows("optim", "optim.SGD")
def test_gradients_are_clipped_by_their_global_norm(plan, clip):
    hyper = {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.01}
    follow(
        lambda m: poptorch.optim.SGD(m.parameters(), **hyper, loss_scaling=32.0, max_grad_norm=clip),
        lambda m: Equations(m.parameters(), "sgd", clip, **hyper),
        plan,
    )


@pytest.mark.parametrize("kind", ["adam", "adamw", "sgd-combined"])
@pytest.mark.parametrize("plan", ["pipelined", "replicated"])
@pytest.mark.shows("optim.Adam", "optim.AdamW")
def test_every_class_that_clips(kind, plan):
    if kind == "sgd-combined":
        hyper = {"lr": 0.5, "momentum": 0.9, "weight_decay": 0.01}
        make = lambda m: poptorch.optim.SGD(  # noqa: E731
            m.parameters(), **hyper, use_combined_accum=True, velocity_scaling=4.0, max_grad_norm=0.02
        )
        kind = "sgd"
    else:
        hyper = {"lr": 0.01, "eps": 1e-3, "weight_decay": 0.1}
        ours = poptorch.optim.Adam if kind == "adam" else poptorch.optim.AdamW
        make = lambda m: ours(m.parameters(), **hyper, max_grad_norm=0.02)  # noqa: E731
    follow(make, lambda m: Equations(m.parameters(), kind, 0.02, **hyper), plan)


def test_clipping_of_a_torch_optimizer_by_an_attribute_set_by_hand():
    def make(model):
        optimizer = torch.optim.Adam(model.parameters(), lr=0.01, eps=1e-3)
        optimizer.max_grad_norm = 0.02
        optimizer.loss_scaling = 16.0
        return optimizer

    follow(make, lambda m: Equations(m.parameters(), "adam", 0.02, lr=0.01, eps=1e-3), "accumulated")


def test_lamb_steps_on_the_cpu_too():
    torch.manual_seed(2)
    model = torch.nn.Linear(4, 3).double()
    twin = copy.deepcopy(model)
    ours = poptorch.optim.LAMB(model.parameters(), lr=0.1, weight_decay=0.05, max_weight_norm=0.8)
    theirs = Equations(twin.parameters(), "lamb", lr=0.1, weight_decay=0.05, max_weight_norm=0.8)
    for _ in range(5):
        x = torch.randn(6, 4, dtype=torch.double)

        def closure(x=x):
            ours.zero_grad()
            loss = model(x).square().sum()
            loss.backward()
            return loss

        loss = ours.step(closure)
        theirs.zero_grad()
        expected = twin(x).square().sum()
        expected.backward()
        theirs.step()
        assert loss.item() == pytest.approx(expected.item(), rel=1e-12)
    for a, b in zip(model.parameters(), twin.parameters()):
        torch.testing.assert_close(a, b, rtol=1e-12, atol=1e-12)


# --- cost ---


@pytest.mark.parametrize("name", [*TORCH, *EQUATIONS])
def test_an_update_is_one_program_of_the_parameter_and_one_of_scalars(name):
    model = Mlp()
    if name in TORCH:
        optimizer = TORCH[name](model)
    else:
        ours, _, hyper = EQUATIONS[name]
        optimizer = ours(model.parameters(), **hyper)
    trainer = poptorch.trainingModel(model, None, optimizer)
    trainer(*Mlp.inputs(1, torch.Generator().manual_seed(1)))
    lines = [line for line in trainer._executable.ir_text().splitlines() if 'context="accumulate_outer"' in line]
    trainer.destroy()
    tensors = [line for line in lines if "fused_pointwise" in line and "] : f32[]" not in line and "f32[1" in line]
    parameters = [p for p in model.parameters() if p.shape[0] > 5]  # the others are f32[5...]
    whole = 2 if name.startswith("lamb") else 1  # LAMB needs its direction's norm before it can go on
    assert len(tensors) == whole * len(parameters), "\n".join(tensors)
    for line in lines:
        is_scalar = line.split(" loc(")[0].rstrip().endswith("f32[]") or "bool[]" in line
        is_known = any(
            word in line for word in ("variable.", "host_load", "constant(", "fused_pointwise", "square_sum")
        )
        assert is_scalar or is_known, line


# --- half precision state ---


HALF = torch.float16
MOMENTS = {"first_order_momentum_accum_type": HALF, "second_order_momentum_accum_type": HALF}
# class → (equation, hyper-parameters, types, state in half precision)
HALVES = {
    "SGD": ("sgd", {"lr": 0.05, "momentum": 0.9, "weight_decay": 0.01}, {"velocity_accum_type": HALF}, "v"),
    "Adam": ("adam", {"lr": 0.01, "eps": 1e-4, "betas": (0.9, 0.99)}, MOMENTS, "mv"),
    "AdamW": ("adamw", {"lr": 0.01, "eps": 1e-4, "betas": (0.9, 0.99), "weight_decay": 0.1}, MOMENTS, "mv"),
    "RMSprop": ("rmsprop", {"lr": 0.005, "eps": 1e-2, "alpha": 0.9, "momentum": 0.5, "centered": True}, MOMENTS, "sq"),
    "LAMB": ("lamb", {"lr": 0.01, "eps": 1e-4, "weight_decay": 0.01}, MOMENTS, "mv"),
}


@pytest.mark.parametrize("accumulation", [1, 4])
@pytest.mark.parametrize("name", HALVES)
def test_half_precision_state_is_rounded_when_stored_and_computed_in_single(name, accumulation):
    kind, hyper, types, halves = HALVES[name]
    torch.manual_seed(3)
    model = Mlp()
    plain = copy.deepcopy(model)
    make = getattr(poptorch.optim, name)
    optimizer = make(model.parameters(), **hyper, **types, accum_type=HALF, loss_scaling=256.0)
    options = poptorch.Options()
    options.Training.gradientAccumulation(accumulation)
    trainer = poptorch.trainingModel(model, options, optimizer)
    assert trainer.options.Training.meanAccumulationAndReplicationReductionStrategy == (
        poptorch.MeanReductionStrategy.Running
    )
    reference = Equations(plain.parameters(), kind, **hyper)
    generator = torch.Generator().manual_seed(4)
    for _ in range(20):
        inputs = Mlp.inputs(accumulation, generator)
        trainer(*inputs)
        reference.zero_grad()
        (plain(*inputs)[1]).backward()
        reference.step()
        for state in reference.state.values():
            for key in halves:
                state[key] = state[key].half().float()
    for parameter, tensor in plain.state_dict().items():
        error = (model.state_dict()[parameter] - tensor).norm() / tensor.norm()
        assert error < 2e-3, parameter
    state = optimizer.state_dict()["ipu_state"]
    kept = [f"Accl{n + 1}" for n in range(len(halves))]
    assert {tensor.dtype for key, tensor in state.items() if key.startswith(tuple(kept))} == {HALF}
    trainer.destroy()


# --- random hyper-parameters ---


@st.composite
def cases(draw):
    kind = draw(st.sampled_from(["sgd", "adam", "adamw", "rmsprop", "lamb"]))
    hyper = {
        "lr": draw(st.floats(1e-4, 0.05)),
        "weight_decay": draw(st.sampled_from([0.0, 1e-3, 0.1])),
    }
    if kind == "sgd":
        hyper["momentum"] = draw(st.sampled_from([0.0, 0.5, 0.95]))
        hyper["nesterov"] = hyper["momentum"] > 0 and draw(st.booleans())
        hyper["dampening"] = 0.0 if hyper["nesterov"] else draw(st.sampled_from([0.0, 0.3]))
    else:
        # A tiny eps lets single precision decide the sign of gradients that are 0 but for rounding.
        hyper["eps"] = draw(st.sampled_from([1e-5, 1e-3, 0.1]))
    if kind in ("adam", "adamw", "lamb"):
        hyper["betas"] = (draw(st.floats(0.0, 0.99)), draw(st.floats(0.5, 0.9999)))
    if kind == "rmsprop":
        hyper["alpha"] = draw(st.floats(0.5, 0.999))
        hyper["momentum"] = draw(st.sampled_from([0.0, 0.9]))
        hyper["centered"] = draw(st.booleans())
        hyper["use_tf_variant"] = draw(st.booleans())
    if kind in ("adamw", "lamb"):
        hyper["bias_correction"] = draw(st.booleans())
    if kind == "lamb":
        hyper["max_weight_norm"] = draw(st.sampled_from([65500.0, 0.5]))
    return {
        "kind": kind,
        "hyper": hyper,
        "clip": draw(st.sampled_from([float("inf"), 0.05])) if kind in ("sgd", "adam", "adamw") else float("inf"),
        "loss_scaling": draw(st.sampled_from([None, 128.0, 3.0])),
        "constants": draw(st.booleans()),
        "plan": draw(st.sampled_from(list(PLANS))),
    }


@settings(max_examples=examples(30))
@given(cases())
def test_random_hyper_parameters_follow_the_equations(case):
    classes = {"sgd": "SGD", "adam": "Adam", "adamw": "AdamW", "rmsprop": "RMSprop", "lamb": "LAMB"}
    further = {"max_grad_norm": case["clip"]} if case["clip"] != float("inf") else {}

    def make(model):
        optimizer = getattr(poptorch.optim, classes[case["kind"]])(
            model.parameters(), **case["hyper"], loss_scaling=case["loss_scaling"], **further
        )
        if case["constants"]:
            for name in list(optimizer.defaults):
                optimizer.variable_attrs.markAsConstant(name)
        return optimizer

    follow(
        make,
        lambda m: Equations(m.parameters(), case["kind"], case["clip"], **case["hyper"]),
        case["plan"],
        steps=8,
    )
