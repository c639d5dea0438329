"""Constructors, constant and variable marks, what setOptimizer refuses: every message of an optimizer in full."""

import inspect
import logging
import pickle

import pytest
import torch

import poptorch
from poptorch._impl import log


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(3, 2)

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.fc(x), y)


X, Y = torch.linspace(-1, 1, 12).reshape(4, 3), torch.linspace(2, -2, 8).reshape(4, 2)
ALL = [poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB]
SUPPORTED = (
    "torch.optim.SGD, torch.optim.Adam, torch.optim.AdamW, torch.optim.RMSprop, poptorch.optim.SGD, "
    "poptorch.optim.Adam, poptorch.optim.AdamW, poptorch.optim.RMSprop, poptorch.optim.LAMB"
)


def compiled(make, options=None):
    torch.manual_seed(0)
    net = Net()
    trainer = poptorch.trainingModel(net, options, make(net.parameters()))
    trainer(X, Y)
    return trainer


@pytest.fixture
def records():
    """Log records of the Python side; warnings that are given once are given again."""
    taken = []

    class Handler(logging.Handler):
        def emit(self, record):
            taken.append((record.levelname, record.getMessage()))

    handler = Handler()
    log.logger.addHandler(handler)
    warned, log._warned = log._warned, set()
    yield taken
    log._warned = warned
    log.logger.removeHandler(handler)


# --- constructors ---


@pytest.mark.parametrize(
    "optimizer, arguments",
    [
        (
            poptorch.optim.SGD,
            "params lr momentum dampening weight_decay nesterov maximize foreach differentiable loss_scaling "
            "velocity_scaling use_combined_accum accum_type velocity_accum_type max_grad_norm",
        ),
        (
            poptorch.optim.Adam,
            "params lr betas eps weight_decay amsgrad foreach maximize capturable differentiable fused loss_scaling "
            "accum_type first_order_momentum_accum_type second_order_momentum_accum_type max_grad_norm",
        ),
        (
            poptorch.optim.AdamW,
            "params lr betas eps weight_decay amsgrad maximize foreach capturable differentiable fused loss_scaling "
            "bias_correction accum_type first_order_momentum_accum_type second_order_momentum_accum_type max_grad_norm",
        ),
        (
            poptorch.optim.RMSprop,
            "params lr alpha eps weight_decay momentum centered foreach maximize differentiable loss_scaling accum_type "
            "first_order_momentum_accum_type second_order_momentum_accum_type use_tf_variant",
        ),
        (
            poptorch.optim.LAMB,
            "params lr betas eps weight_decay bias_correction loss_scaling max_weight_norm accum_type "
            "first_order_momentum_accum_type second_order_momentum_accum_type",
        ),
    ],
)
def test_arguments_stand_in_the_published_order(optimizer, arguments):
    names = list(inspect.signature(optimizer).parameters)
    assert names == arguments.split()


@pytest.mark.parametrize(
    "optimizer, expected",
    [
        (poptorch.optim.SGD, {"lr": 0.1, "momentum": 0, "dampening": 0, "weight_decay": 0, "velocity_scaling": 1.0}),
        (poptorch.optim.Adam, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 0}),
        (poptorch.optim.AdamW, {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2}),
        (
            poptorch.optim.RMSprop,
            {"lr": 1e-2, "alpha": 0.99, "eps": 1e-8, "weight_decay": 0, "momentum": 0, "centered": False},
        ),
        (
            poptorch.optim.LAMB,
            {"lr": 1e-3, "betas": (0.9, 0.999), "eps": 1e-8, "weight_decay": 1e-2, "max_weight_norm": 65500.0},
        ),
    ],
)
def test_optimizers_have_the_documented_defaults(optimizer, expected):
    made = optimizer(Net().parameters(), **({"lr": 0.1} if optimizer is poptorch.optim.SGD else {}))
    assert {name: made.defaults[name] for name in expected} == expected
    assert {name: made.param_groups[0][name] for name in expected} == expected
    assert made.loss_scaling == 1.0 and made.accum_type == torch.float32
    assert isinstance(made, poptorch.optim.Optimizer)
    base = getattr(torch.optim, optimizer.__name__, torch.optim.Optimizer)
    assert isinstance(made, base)
    if optimizer in (poptorch.optim.SGD, poptorch.optim.Adam, poptorch.optim.AdamW):
        assert made.max_grad_norm == float("inf")


@pytest.mark.parametrize("optimizer", ALL)
def test_dtypes_are_float16_or_float32(optimizer):
    for name in inspect.signature(optimizer).parameters:
        if not name.endswith("accum_type"):
            continue
        with pytest.raises(AssertionError) as raised:
            optimizer(Net().parameters(), lr=0.1, **{name: torch.float64})
        assert str(raised.value) == f"{name} must be torch.float16 or torch.float32, not torch.float64"


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda p: poptorch.optim.SGD(p, lr=-1.0), "Invalid learning rate: -1.0"),
        (
            lambda p: poptorch.optim.SGD(p, lr=0.1, nesterov=True),
            "Nesterov momentum requires a momentum and zero dampening",
        ),
        (lambda p: poptorch.optim.Adam(p, betas=(1.0, 0.9)), "Invalid beta parameter at index 0: 1.0"),
        (lambda p: poptorch.optim.LAMB(p, lr=-1.0), "Invalid lr value: -1.0"),
        (lambda p: poptorch.optim.LAMB(p, betas=(0.9, 1.0)), "Invalid beta parameter at index 1: 1.0"),
        (lambda p: poptorch.optim.LAMB(p, max_weight_norm=-1.0), "Invalid max_weight_norm value: -1.0"),
    ],
)
def test_values_out_of_range(make, message):
    with pytest.raises(ValueError) as raised:
        make(Net().parameters())
    assert str(raised.value) == message


# --- reading at wrap time ---


def with_group_value(name, value):
    def make(parameters):
        optimizer = poptorch.optim.AdamW(parameters, lr=0.1)
        optimizer.param_groups[0][name] = value
        return optimizer

    return make


def with_attribute(optimizer, name, value):
    def make(parameters):
        made = optimizer(parameters, lr=0.1)
        setattr(made, name, value)
        return made

    return make


def without(name, optimizer=poptorch.optim.AdamW):
    def make(parameters):
        made = optimizer(parameters, lr=0.1)
        del made.param_groups[0][name]
        return made

    return make


def disagreeing(parameters):
    weight, bias = parameters
    return torch.optim.RMSprop([{"params": [weight]}, {"params": [bias], "centered": True}])


@pytest.mark.parametrize(
    "make, kind, message",
    [
        (
            lambda p: torch.optim.Adagrad(p),
            AssertionError,
            f"Unsupported optimizer type torch.optim.adagrad.Adagrad. Supported types are: {SUPPORTED}",
        ),
        (
            lambda p: torch.optim.LBFGS(p),
            AssertionError,
            f"Unsupported optimizer type torch.optim.lbfgs.LBFGS. Supported types are: {SUPPORTED}",
        ),
        (
            lambda p: poptorch.optim.Adam(p, amsgrad=True),
            ValueError,
            "amsgrad=True (group 0 of Adam) is not supported on IPUs: use amsgrad=False, which keeps the running mean "
            "of squares instead of its maximum.",
        ),
        (
            with_group_value("lr", torch.tensor(0.1)),
            AssertionError,
            f"optimizer attribute 'lr' must be a number, got Tensor ({torch.tensor(0.1)!r})",
        ),
        (
            with_group_value("betas", [0.9, 0.99]),
            AssertionError,
            "optimizer attribute 'betas' must be a tuple of two numbers, got list ([0.9, 0.99])",
        ),
        (
            with_group_value("betas", (0.9, "x")),
            AssertionError,
            "optimizer attribute 'betas' must be a number, got str ('x')",
        ),
        (without("eps"), AssertionError, "optimizer attribute 'eps' is missing in group 0"),
        (without("betas"), AssertionError, "optimizer attribute 'betas' is missing in group 0"),
        (
            without("nesterov", torch.optim.SGD),
            AssertionError,
            "optimizer attribute 'nesterov' is missing in group 0",
        ),
        (
            disagreeing,
            AssertionError,
            "optimizer attribute 'centered' must be the same in all groups, got False, True",
        ),
        (
            with_attribute(torch.optim.Adam, "loss_scaling", "8"),
            AssertionError,
            "optimizer attribute 'loss_scaling' must be a number, got str ('8')",
        ),
        (
            with_attribute(torch.optim.Adam, "accum_type", torch.bfloat16),
            ValueError,
            "optimizer attribute 'accum_type' must be torch.float16 or torch.float32, not torch.bfloat16",
        ),
        (
            with_attribute(torch.optim.SGD, "max_grad_norm", None),
            AssertionError,
            "optimizer attribute 'max_grad_norm' must be a number, got NoneType (None)",
        ),
        (
            with_attribute(poptorch.optim.RMSprop, "max_grad_norm", 1.0),
            AssertionError,
            "max_grad_norm=1.0 is set on RMSprop: gradient clipping is available for SGD, Adam and AdamW only",
        ),
    ],
)
def test_what_cannot_be_read_is_refused_when_the_model_is_wrapped(make, kind, message):
    net = Net()
    with pytest.raises(kind) as raised:
        poptorch.trainingModel(net, None, make(net.parameters()))
    assert str(raised.value) == message
    poptorch.trainingModel(net).destroy()  # nothing was left behind


def test_parameters_of_another_model_are_refused_at_capture():
    net = Net()
    trainer = poptorch.trainingModel(net, None, torch.optim.Adam(Net().parameters()))
    with pytest.raises(KeyError) as raised:
        trainer(X, Y)
    assert raised.value.args[0] == (
        "group 0 of the optimizer holds a parameter of shape [2, 3] that is not in the model: build the optimizer from "
        "model.parameters()"
    )
    trainer.setOptimizer(torch.optim.Adam(net.parameters()))
    trainer(X, Y)
    trainer.destroy()


@pytest.mark.parametrize("bound, text", [(float("nan"), "nan"), (-1.0, "-1.0")])
def test_bounds_of_the_norm_that_cannot_be_meant_are_refused_at_compile(bound, text):
    net = Net()
    trainer = poptorch.trainingModel(net, None, poptorch.optim.Adam(net.parameters(), max_grad_norm=bound))
    with pytest.raises(poptorch.Error) as raised:
        trainer(X, Y)
    assert raised.value.message == (
        f"optimizer attribute invalid [IPU-E410]: max_grad_norm is {text} and must be a number from 0 to infinity."
    )
    assert raised.value.type == "poptorch_cpp_error"


@pytest.mark.edge("22.35")
def test_ignored_arguments_warn_or_are_silent(records):
    net = Net()
    optimizer = poptorch.optim.Adam(
        net.parameters(), maximize=True, foreach=True, capturable=True, differentiable=False, fused=False
    )
    poptorch.trainingModel(net, None, optimizer).destroy()
    other = Net()
    poptorch.trainingModel(other, None, torch.optim.AdamW(other.parameters(), maximize=True)).destroy()
    assert records == [("WARNING", "maximize=True is ignored on the device: negate the loss instead.")]


def test_a_subclass_counts_as_its_base_and_its_step_is_not_used(records):
    class Mine(torch.optim.AdamW):
        def step(self, closure=None):
            raise RuntimeError("called")

    trainer = compiled(lambda p: Mine(p, lr=0.1))
    assert records == [
        ("WARNING", "Mine.step() is not used: the device applies the update of its base class."),
    ]
    trainer.destroy()


@pytest.mark.edge("22.37")
def test_velocity_scaling_without_the_combined_variant_is_ignored(records):
    net = Net()
    poptorch.trainingModel(net, None, poptorch.optim.SGD(net.parameters(), lr=0.1, velocity_scaling=4.0))
    assert records == [("WARNING", "velocity_scaling is only used with use_combined_accum=True: ignored.")]


# --- marks ---


@pytest.mark.shows("optim.VariableAttributes")
def test_explicit_arguments_are_variable_and_the_others_constant():
    attrs = poptorch.optim.Adam(Net().parameters(), lr=0.1, loss_scaling=2.0).variable_attrs
    assert not attrs.isConstant("lr") and not attrs.isConstant("loss_scaling")
    assert all(attrs.isConstant(name) for name in ("betas", "eps", "weight_decay", "amsgrad", "no such name"))
    assert poptorch.optim.Adam(Net().parameters()).variable_attrs.isConstant("lr")
    attrs.markAsConstant("lr")
    attrs.markAsVariable("betas")
    assert attrs.isConstant("lr") and not attrs.isConstant("betas")


@pytest.mark.parametrize("mark", ["markAsConstant", "markAsVariable"])
def test_unknown_names_cannot_be_marked(mark):
    attrs = poptorch.optim.LAMB(Net().parameters()).variable_attrs
    with pytest.raises(AssertionError) as raised:
        getattr(attrs, mark)("alpha")
    assert str(raised.value) == (
        "Unknown attribute 'alpha'. Valid attributes are: betas, eps, loss_scaling, lr, max_weight_norm, weight_decay"
    )


MARK = ". Mark it with optimizer.variable_attrs.markAsVariable before the first compilation, or compile again."
NEW = ". It is fixed when the model is compiled: create a new trainingModel to change it."
CHANGED = "optimizer constant changed [IPU-E410]: "


@pytest.mark.parametrize(
    "make, name, value, message",
    [
        (
            lambda p: poptorch.optim.Adam(p),
            "lr",
            0.5,
            CHANGED + "lr of group 0 was compiled as the constant 0.001 and is now 0.5" + MARK,
        ),
        (
            lambda p: torch.optim.Adam(p, lr=0.1),
            "betas",
            (0.5, 0.999),
            CHANGED + "beta1 of group 0 was compiled as the constant 0.9 and is now 0.5" + MARK,
        ),
        (
            lambda p: torch.optim.AdamW(p, lr=0.1),
            "weight_decay",
            0.5,
            CHANGED + "weight_decay of group 0 was compiled as the constant 0.01 and is now 0.5" + MARK,
        ),
        (
            lambda p: torch.optim.RMSprop(p, lr=0.1),
            "alpha",
            0.5,
            CHANGED + "alpha of group 0 was compiled as the constant 0.99 and is now 0.5" + MARK,
        ),
        (
            lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9),
            "nesterov",
            True,
            CHANGED + "nesterov of group 0 was compiled as False and is now True" + NEW,
        ),
    ],
)
def test_changed_constants_are_refused_by_set_optimizer(make, name, value, message):
    trainer = compiled(make)
    optimizer = trainer._optimizer
    optimizer.param_groups[0][name] = value
    with pytest.raises(poptorch.Error) as raised:
        trainer.setOptimizer(optimizer)
    assert raised.value.message == message and raised.value.type == "poptorch_cpp_error"
    trainer(X, Y)
    trainer.destroy()


def test_torch_attributes_away_from_their_default_are_variable():
    net = Net()
    optimizer = torch.optim.AdamW(net.parameters(), lr=0.1, eps=1e-6, weight_decay=0.2)
    optimizer.loss_scaling = 4.0
    trainer = poptorch.trainingModel(net, None, optimizer)
    trainer(X, Y)
    optimizer.param_groups[0].update(lr=0.2, eps=1e-5, weight_decay=0.01)
    optimizer.loss_scaling = 1.0
    trainer.setOptimizer(optimizer)
    trainer(X, Y)
    trainer.destroy()


@pytest.mark.parametrize(
    "make, message",
    [
        (
            lambda p: poptorch.optim.AdamW(p, lr=0.1, bias_correction=False),
            "optimizer kind changed [IPU-E410]: the model was compiled for AdamW and got AdamW with "
            "bias_correction=False. Create a new trainingModel for it.",
        ),
        (
            lambda p: torch.optim.SGD(p, lr=0.1),
            "optimizer kind changed [IPU-E410]: the model was compiled for AdamW and got SGD with "
            "use_combined_accum=False. Create a new trainingModel for it.",
        ),
        (
            lambda p: poptorch.optim.AdamW(p, lr=0.1, max_grad_norm=2.0),
            CHANGED + "max_grad_norm was compiled as inf and is now 2.0" + NEW,
        ),
        (
            lambda p: poptorch.optim.AdamW(p, lr=0.1, second_order_momentum_accum_type=torch.float16),
            CHANGED + "second_order_momentum_accum_type was compiled as f32 and is now f16" + NEW,
        ),
        (
            lambda p: poptorch.optim.AdamW([{"params": [q]} for q in p], lr=0.1),
            "optimizer groups changed [IPU-E410]: the model was compiled for 1 parameter groups and got 2.",
        ),
        (
            lambda p: poptorch.optim.AdamW(list(p)[:1], lr=0.1),
            "optimizer groups changed [IPU-E410]: parameter 'fc.bias' was compiled in group 0 and is now in none.",
        ),
    ],
)
def test_what_is_fixed_at_compilation_is_refused_in_a_new_optimizer(make, message):
    trainer = compiled(lambda p: poptorch.optim.AdamW(p, lr=0.1))
    with pytest.raises(poptorch.Error) as raised:
        trainer.setOptimizer(make(trainer.model.parameters()))
    assert raised.value.message == message
    trainer(X, Y)
    trainer.destroy()


def test_half_accumulators_cannot_come_after_compilation_with_post():
    trainer = compiled(lambda p: torch.optim.Adam(p, lr=0.1))
    with pytest.raises(ValueError) as raised:
        trainer.setOptimizer(poptorch.optim.Adam(trainer.model.parameters(), lr=0.1, accum_type=torch.float16))
    assert str(raised.value) == (
        "An optimizer with accum_type=torch.float16 needs poptorch.MeanReductionStrategy.Running, and the model was "
        "compiled with Post. Set the optimizer before the first call, or create a new trainingModel."
    )
    trainer.destroy()


def test_combined_sgd_needs_post():
    options = poptorch.Options()
    options.Training.setMeanAccumulationAndReplicationReductionStrategy(poptorch.MeanReductionStrategy.Running)
    net = Net()
    with pytest.raises(ValueError) as raised:
        poptorch.trainingModel(net, options, poptorch.optim.SGD(net.parameters(), lr=0.1, use_combined_accum=True))
    assert str(raised.value) == (
        "SGD with use_combined_accum=True needs poptorch.MeanReductionStrategy.Post: its accumulator is the velocity, "
        "which has no running mean. Use Post, or use_combined_accum=False."
    )


def test_running_means_give_the_same_updates():
    weights = []
    for strategy in poptorch.MeanReductionStrategy:
        options = poptorch.Options()
        options.Training.gradientAccumulation(4).setMeanAccumulationAndReplicationReductionStrategy(strategy)
        trainer = compiled(lambda p: torch.optim.Adam(p, lr=0.1), options)
        weights.append(trainer.model.fc.weight.detach().clone())
        trainer.destroy()
    for other in weights[1:]:
        torch.testing.assert_close(other, weights[0])
    with pytest.raises(AssertionError) as raised:
        poptorch.Options().Training.setMeanAccumulationAndReplicationReductionStrategy(1)
    assert str(raised.value) == "the strategy must be a poptorch.MeanReductionStrategy, got int (1)"


@pytest.mark.shows("Options.Training.setMeanAccumulationAndReplicationReductionStrategy", "MeanReductionStrategy")
def test_running_means_do_not_overflow_where_a_sum_does():
    after = {}
    for strategy in (poptorch.MeanReductionStrategy.Post, poptorch.MeanReductionStrategy.Running):
        options = poptorch.Options()
        options.Training.gradientAccumulation(4).setMeanAccumulationAndReplicationReductionStrategy(strategy)
        net = torch.nn.Linear(1, 1, bias=False)
        torch.nn.init.zeros_(net.weight)
        forward = lambda x, net=net: poptorch.identity_loss(net(x), "sum")  # noqa: E731
        wrapped = torch.nn.Module()
        wrapped.net, wrapped.forward = net, forward
        trainer = poptorch.trainingModel(wrapped, options, torch.optim.SGD(net.parameters(), lr=2e-38))
        trainer(torch.full((4, 1), 2e38))
        after[strategy.name] = net.weight.item()
        trainer.destroy()
    assert after["Post"] == -float("inf") and after["Running"] == pytest.approx(-4.0)


def test_set_optimizer_is_for_training():
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(Net()).setOptimizer(torch.optim.SGD(Net().parameters(), lr=0.1))
    assert raised.value.message == "setOptimizer is for training models: this is an inference model."


# --- attributes nobody expects ---


@pytest.mark.parametrize("relax, level", [(False, "WARNING"), (True, "DEBUG")])
@pytest.mark.shows("Options.relaxOptimizerAttributesChecks")
def test_new_attributes_of_groups_are_mentioned_once(relax, level, records):
    net = Net()
    options = poptorch.Options()
    options.relaxOptimizerAttributesChecks(relax)
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.param_groups[0]["there_from_the_start"] = 1
    trainer = poptorch.trainingModel(net, options, optimizer)
    torch.optim.lr_scheduler.StepLR(optimizer, 1)
    before = log.logger.level
    log.logger.setLevel(logging.DEBUG)
    try:
        for _ in range(3):
            trainer.setOptimizer(optimizer)
    finally:
        log.logger.setLevel(before)
    expected = [
        (level, "Ignoring unexpected optimizer attribute in SGD2 optimizer: ['step']"),  # the scheduler watches it
        (level, "Ignoring unexpected group 0 attribute in SGD2 optimizer: ['initial_lr']"),
    ]
    assert [record for record in records if "unexpected" in record[1]] == expected


KINDS = {
    "SGD1": lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.5, use_combined_accum=True),
    "SGD2": lambda p: poptorch.optim.SGD(p, lr=0.1),
    "ADAM": lambda p: torch.optim.Adam(p, lr=0.1),
    "ADAMW": lambda p: poptorch.optim.AdamW(p, lr=0.1),
    "ADAMW_NO_BIAS": lambda p: poptorch.optim.AdamW(p, lr=0.1, bias_correction=False),
    "RMSPROP": lambda p: torch.optim.RMSprop(p, lr=0.1),
    "RMSPROP_CENTERED": lambda p: poptorch.optim.RMSprop(p, lr=0.1, centered=True),
    "LAMB": lambda p: poptorch.optim.LAMB(p, lr=0.1),
    "LAMB_NO_BIAS": lambda p: poptorch.optim.LAMB(p, lr=0.1, bias_correction=False),
}


@pytest.mark.parametrize("kind", KINDS)
def test_everything_new_on_an_optimizer_is_named_with_its_kind(kind, records):
    net = Net()
    optimizer = KINDS[kind](net.parameters())
    optimizer.known = 1
    trainer = poptorch.trainingModel(net, None, optimizer)
    optimizer.known, optimizer.loss_scaling = 2, 4.0  # the latter is read
    trainer.setOptimizer(optimizer)
    optimizer.step = 0
    trainer.setOptimizer(optimizer)
    optimizer.lr = 0.5
    optimizer.param_groups[0]["extra"] = 1
    optimizer.defaults["more"] = 2
    for _ in range(2):
        trainer.setOptimizer(optimizer)
    assert [message for _, message in records if "unexpected" in message] == [
        f"Ignoring unexpected optimizer attribute in {kind} optimizer: ['step']",
        f"Ignoring unexpected optimizer attribute in {kind} optimizer: ['lr', 'step']",
        f"Ignoring unexpected group 0 attribute in {kind} optimizer: ['extra']",
        f"Ignoring unexpected default group variable in {kind} optimizer: ['more']",
    ]


def test_groups_and_defaults_share_one_record(records):
    net = Net()
    optimizer = torch.optim.SGD(net.parameters(), lr=0.1)
    optimizer.defaults["shared"] = 1
    trainer = poptorch.trainingModel(net, None, optimizer)
    optimizer.param_groups[0]["shared"] = 1
    trainer.setOptimizer(optimizer)
    assert not [message for _, message in records if "unexpected" in message]


def test_steps_in_python_have_no_effect_on_the_device():
    trainer = compiled(lambda p: poptorch.optim.Adam(p, lr=0.1))
    optimizer = trainer._optimizer
    before = trainer.model.fc.weight.detach().clone()
    optimizer.zero_grad()
    optimizer.step()
    trainer.copyWeightsToHost()
    assert torch.equal(trainer.model.fc.weight.detach(), before)
    pickle.dumps(optimizer)
    trainer.destroy()
