"""The backward of a `torch.autograd.Function` runs when a gradient is needed, and gives what it gives in torch."""

import copy

import pytest
import torch
import torch.nn.functional as F

import poptorch

calls = []


class Counted(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, gradient):
        calls.append("backward")
        return gradient * 3


class WithoutBackward(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()


class ReadsValues(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.abs()

    @staticmethod
    def backward(ctx, gradient):
        return gradient if ctx.saved_tensors[0].sum().item() > 0 else -gradient


class Asserts(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, training):
        ctx.training = training
        return x + 1

    @staticmethod
    def backward(ctx, gradient):
        assert ctx.training, "backward of a model in evaluation mode"
        return gradient, None


class Vjp(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, factor):
        ctx.factor = factor
        return x * factor

    @staticmethod
    def vjp(ctx, gradient):
        return gradient * ctx.factor * 5, None


class Both(Vjp):
    @staticmethod
    def backward(ctx, gradient):
        return gradient, None


class Defaults(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x, weight, power=2):
        return x**power * weight

    @staticmethod
    def setup_context(ctx, inputs, output):
        x, weight, ctx.power = inputs
        ctx.save_for_backward(x, weight, output)
        ctx.save_for_forward(x)

    @staticmethod
    def backward(ctx, gradient):
        x, weight, output = ctx.saved_tensors
        return gradient * weight * ctx.power * x ** (ctx.power - 1) * 2, (gradient * output / weight).sum(0), None

    @staticmethod
    def jvp(ctx, *tangents):
        raise AssertionError("no derivative in the forward direction is asked for")


class Boxed(torch.autograd.Function):
    boxed_grads_call = True

    @staticmethod
    def forward(ctx, x):
        return x * 2, x * 3

    @staticmethod
    def backward(ctx, gradients):
        first, second = gradients.pop(), gradients.pop()
        return first * 7 + second


class Selective(torch.autograd.Function):
    """Gradients for what needs one, a list of arguments, None results and results that are no tensors."""

    @staticmethod
    def forward(ctx, name, *tensors):
        ctx.save_for_backward(*tensors)
        return name, sum(tensors), None, tensors[0] * 2

    @staticmethod
    def backward(ctx, of_name, of_sum, of_none, of_double):
        assert of_name is None and of_none is None
        return (None, *(of_sum * 2 + of_double if need else None for need in ctx.needs_input_grad[1:]))


class Reversal(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, strength):
        ctx.strength = strength
        return x.view_as(x)

    @staticmethod
    def backward(ctx, gradient):
        return gradient.neg() * ctx.strength, None


class Exponential(torch.autograd.Function):
    """Its backward uses itself."""

    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.exp()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * Exponential.apply(ctx.saved_tensors[0])


class InPlaceOnGradients(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x.clamp(min=0)

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        gradient = gradient.clone()
        gradient[x < 0] = 0
        gradient.mul_(2)[0] += 1
        return gradient


class Statistics(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x, buffer):
        ctx.buffer = buffer
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        ctx.buffer.add_(gradient.abs().mean())
        return gradient, None


kept = []


class Keeps(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        kept.append(gradient * 2)
        return gradient


class Takes(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * kept.pop()


class ReadsLater(torch.autograd.Function):
    """Its backward reads what forward puts into a list behind the call."""

    @staticmethod
    def forward(ctx, x, later):
        ctx.later = later
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        return gradient * ctx.later[0], None


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.linear = torch.nn.Linear(3, 3)
        self.scale = torch.nn.Parameter(torch.tensor([1.5, 0.5, -1.0]))
        self.register_buffer("seen", torch.zeros(()))

    def forward(self, x):
        return self.function(self, x)


def loss(value):
    return poptorch.identity_loss(value.square().mean(), "none")


def final(self, x):
    return loss(self.linear(x) * self.scale)


def saved_and_changed_behind(self, x):
    """What is written through `.data` is seen by the backward, as in torch."""
    hidden = self.linear(x)
    result = Exponential.apply(hidden)
    hidden.data.mul_(0.5)
    return loss(result)


def saved_and_modified(self, x):
    hidden = self.linear(x)
    result = Exponential.apply(hidden)
    with torch.no_grad():
        hidden.mul_(0.5)
    return loss(result)


def computed_behind_the_call(self, x):
    later = []
    result = ReadsLater.apply(self.linear(x), later)
    later.append((x * self.scale).sin().detach())
    return loss(result)


def called_behind_the_call(self, x):
    later = []
    result = ReadsLater.apply(self.linear(x), later)
    later.append(poptorch.CPU(torch.sin, "sine")(x))
    return loss(result)


class AuxiliaryLoss(torch.autograd.Function):
    """Adds the gradient of a further loss to that of its result, as mixtures of experts do."""

    factor = torch.tensor(0.5)

    @staticmethod
    def forward(ctx, x, auxiliary):
        ctx.save_for_backward(auxiliary)
        return x

    @staticmethod
    def backward(ctx, gradient):
        (auxiliary,) = ctx.saved_tensors
        return gradient, torch.ones_like(auxiliary) * AuxiliaryLoss.factor


class Gate(torch.autograd.Function):
    """Its result does not depend on its argument, whose gradient does on that of the result."""

    @staticmethod
    def forward(ctx, x):
        return torch.ones(3)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 2


def of_a_leaf_known_at_capture(self, x):
    leaf = torch.ones(3, requires_grad=True)
    (slope,) = torch.autograd.grad((Counted.apply(leaf) * x).sum(), leaf)
    return slope, loss(self.linear(x) * self.scale * slope)


TRAINED = {
    "auxiliary_loss": lambda self, x: loss(AuxiliaryLoss.apply(self.linear(x), self.scale.square().sum())),
    "gate": lambda self, x: loss(Gate.apply(self.scale) * self.linear(x)),
    "of_a_leaf_known_at_capture": of_a_leaf_known_at_capture,
    "computed_behind_the_call": computed_behind_the_call,
    "saved_and_changed_behind": saved_and_changed_behind,
    "vjp": lambda self, x: loss(Vjp.apply(x * self.scale, 0.5)),
    "setup_context": lambda self, x: loss(Defaults.apply(x + 2, self.scale)),
    "keywords": lambda self, x: loss(Defaults.apply(x + 2, self.scale, power=3)),
    "boxed": lambda self, x: loss(sum(Boxed.apply(x * self.scale))),
    "selective": lambda self, x: loss(Selective.apply("s", self.linear(x), x, x * self.scale)[1]),
    "one_result_unused": lambda self, x: loss(Selective.apply("s", self.linear(x), x * self.scale)[3]),
    "reversal": lambda self, x: loss(self.linear(Reversal.apply(x * self.scale, 0.3))),
    "in_place": lambda self, x: loss(InPlaceOnGradients.apply(self.linear(x))),
    "in_a_chain": lambda self, x: loss(Counted.apply(InPlaceOnGradients.apply(Counted.apply(x * self.scale)))),
    "shared_by_two": lambda self, x: loss((y := Counted.apply(x * self.scale)) * 2 + y.sin()),
    "of_a_parameter_alone": lambda self, x: loss(x * Counted.apply(self.scale)),
    "without_gradients": lambda self, x: loss(WithoutBackward.apply(x) * self.scale),
    "detached": lambda self, x: loss(WithoutBackward.apply(self.linear(x)).detach() * self.scale),
    "beside_the_loss": lambda self, x: (WithoutBackward.apply(self.linear(x)).detach(), final(self, x)),
    "asserts_beside_the_loss": lambda self, x: (Asserts.apply(self.linear(x), False).detach(), final(self, x)),
    "second_derivative": lambda self, x: loss(
        torch.autograd.grad(Exponential.apply(x * self.scale).sum(), self.scale, create_graph=True)[0]
    ),
    "third_derivative": lambda self, x: loss(
        torch.autograd.grad(
            torch.autograd.grad(Exponential.apply(x * self.scale).sum(), self.scale, create_graph=True)[0].sum(),
            self.scale,
            create_graph=True,
        )[0]
    ),
    "gradient_without_graph": lambda self, x: loss(
        torch.autograd.grad(Exponential.apply(x * self.scale).sum(), self.scale)[0] * self.linear(x)
    ),
    "statistics_in_forward": lambda self, x: (
        torch.autograd.grad(Statistics.apply((x * self.scale), self.seen).sum(), self.scale)[0],
        final(self, x),
    ),
    "handed_on_in_forward": lambda self, x: (
        torch.autograd.grad(Keeps.apply(Takes.apply(x * self.scale)).sum(), self.scale)[0],
        final(self, x),
    ),
}


@pytest.mark.parametrize("name", TRAINED)
def test_training_with_a_function_is_that_of_torch(name):
    torch.manual_seed(3)
    ours = Model(TRAINED[name])
    plain = copy.deepcopy(ours)
    trainer = poptorch.trainingModel(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(4, 3)
        got = trainer(x)
        optimizer.zero_grad()
        want = plain(x)
        (want[-1] if isinstance(want, tuple) else want).backward()
        optimizer.step()
        torch.testing.assert_close(got, tuple(t.detach() for t in want) if isinstance(want, tuple) else want.detach())
        for key, tensor in plain.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[key], tensor, msg=lambda text: f"{key}: {text}")
    trainer.destroy()


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: WithoutBackward.apply(self.linear(x)),
        lambda self, x: ReadsValues.apply(self.linear(x)),
        lambda self, x: Asserts.apply(self.linear(x), self.training),
        lambda self, x: Both.apply(self.linear(x), 2.0),
        lambda self, x: Statistics.apply(self.linear(x), self.seen),
        lambda self, x: poptorch.for_loop(2, lambda t: WithoutBackward.apply(t * self.scale), [x])[0],
    ],
)
def test_inference_runs_no_backward(function):
    model = Model(function).eval()
    x = torch.randn(4, 3)
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), model(x).detach())


@pytest.mark.parametrize(
    "function, training, count",
    [
        (lambda self, x: Counted.apply(self.linear(x)), False, 0),
        (lambda self, x: (Counted.apply(self.linear(x)), final(self, x)), True, 0),
        (lambda self, x: loss(Counted.apply(self.linear(x))), True, 1),
        (lambda self, x: loss(Counted.apply(Counted.apply(self.linear(x)))), True, 2),
        (lambda self, x: loss(Counted.apply(x)), True, 0),
        (
            lambda self, x: torch.autograd.grad(Counted.apply(self.linear(x)).sum(), self.scale, allow_unused=True),
            False,
            0,
        ),
        (lambda self, x: torch.autograd.grad(Counted.apply(self.linear(x)).sum(), self.linear.bias), False, 1),
    ],
)
def test_a_backward_runs_once_for_each_gradient_that_reaches_it(function, training, count):
    calls.clear()
    model = Model(function)
    wrapper = poptorch.trainingModel(model) if training else poptorch.inferenceModel(model)
    try:
        wrapper(torch.randn(4, 3))
    finally:
        wrapper.destroy()
    assert len(calls) == count


@pytest.mark.parametrize(
    "function, kind, text",
    [
        (lambda self, x: loss(WithoutBackward.apply(self.linear(x))), NotImplementedError, "backward or vjp method"),
        (lambda self, x: loss(Both.apply(self.linear(x), 2.0)), RuntimeError, "Implementing both 'backward' and 'vjp'"),
        (called_behind_the_call, poptorch.Error, "result of a later operation"),
        (saved_and_modified, RuntimeError, "modified by an inplace operation: number 0 of save_for_backward"),
        (lambda self, x: loss(Asserts.apply(self.linear(x), False)), AssertionError, "evaluation mode"),
        (lambda self, x: loss(ReadsValues.apply(self.linear(x))), poptorch.Error, "item"),
        (
            lambda self, x: loss(Statistics.apply(self.linear(x), self.seen)),
            poptorch.Error,
            "writes buffer 'seen' in place",
        ),
        (lambda self, x: loss(Keeps.apply(Takes.apply(self.linear(x)))), poptorch.Error, "tensor of a backward pass"),
    ],
)
def test_what_training_refuses_names_the_line_of_the_backward(function, kind, text):
    kept.clear()
    trainer = poptorch.trainingModel(Model(function))
    with pytest.raises(kind, match=text) as caught:
        trainer(torch.randn(4, 3))
    if kind is poptorch.Error:
        assert "test_custom_functions.py" in str(caught.value)


def test_a_function_in_a_loop_is_trained():
    def looped(self, x):
        return loss(poptorch.for_loop(3, lambda t: Defaults.apply(t, self.scale, 1), [x + 2])[0])

    def unrolled(self, x):
        x = x + 2
        for _ in range(3):
            x = Defaults.apply(x, self.scale, 1)
        return loss(x)

    torch.manual_seed(3)
    ours = Model(looped)
    plain = copy.deepcopy(ours)
    plain.function = unrolled
    x = torch.randn(4, 3)
    trainer = poptorch.trainingModel(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1))
    trainer(x)
    plain(x).backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    torch.testing.assert_close(ours.scale.detach(), plain.scale.detach())


class Redrawn(torch.autograd.Function):
    """A checkpoint that draws the dropout mask of before, as libraries do by hand."""

    @staticmethod
    def forward(ctx, x, way):
        ctx.way = way
        if way == "seed":
            torch.manual_seed(1234)
        ctx.state = torch.get_rng_state()
        ctx.save_for_backward(x)
        return F.dropout(x, 0.5)

    @staticmethod
    def backward(ctx, gradient):
        leaf = ctx.saved_tensors[0].detach().requires_grad_()
        with torch.random.fork_rng(devices=[]):
            if ctx.way == "state":
                torch.set_rng_state(ctx.state)
            if ctx.way == "seed":
                torch.manual_seed(1234)
            with torch.enable_grad():
                result = F.dropout(leaf, 0.5)
        result.backward(gradient)
        return leaf.grad, None


@pytest.mark.parametrize("way", ["state", "seed"])
def test_a_backward_that_puts_the_generator_back_draws_the_same_mask(way):
    class Dropped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = torch.nn.Parameter(torch.ones(64))

        def forward(self, x):
            x = F.dropout(x, 0.5)  # of its own
            out = Redrawn.apply(x * self.weight, way)
            return x, out, poptorch.identity_loss(out.sum(), "none")

    model = Dropped()
    state = torch.get_rng_state()
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    for _ in range(2):
        before = model.weight.detach().clone()
        x, out, _ = trainer(torch.ones(64))
        mask = torch.where(out != 0, 2.0, 0.0)
        assert 0 < mask.count_nonzero() < 64
        torch.testing.assert_close(model.weight.detach(), before - mask * x)
    trainer.destroy()
    torch.set_rng_state(state)
