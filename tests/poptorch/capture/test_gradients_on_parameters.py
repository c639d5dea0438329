"""Gradients that forward itself puts on parameters join those of the step, as in PyTorch."""

import copy

import pytest
import torch
import torch.nn.functional as F

import poptorch


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.w = torch.nn.Parameter(torch.tensor([0.5, -1.0, 2.0]))
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)
        self.frozen = torch.nn.Parameter(torch.tensor([1.0, 2.0, 3.0]), requires_grad=False)

    def forward(self, x):
        return self.function(self, x)


def final(self, x):
    return poptorch.identity_loss((self.second(torch.tanh(self.first(x))) * self.w).square().mean(), "none")


class Checkpoint(torch.autograd.Function):
    """Keeps its inputs and computes the rest again, as many libraries do by hand."""

    @staticmethod
    def forward(ctx, function, *inputs):
        ctx.function = function
        ctx.save_for_backward(*inputs)
        with torch.no_grad():
            return function(*inputs)

    @staticmethod
    def backward(ctx, *gradients):
        inputs = [tensor.detach().requires_grad_(tensor.requires_grad) for tensor in ctx.saved_tensors]
        with torch.enable_grad():
            outputs = ctx.function(*inputs)
        outputs = outputs if isinstance(outputs, tuple) else (outputs,)
        torch.autograd.backward(outputs, gradients)
        return (None, *(tensor.grad for tensor in inputs))


class Reversible(torch.autograd.Function):
    """Keeps its output alone, and computes its inputs back from it: y1 = x1 + f(x2), y2 = x2 + g(y1)."""

    @staticmethod
    def forward(ctx, x, blocks):
        ctx.blocks = blocks
        for f, g in blocks:
            x1, x2 = x.chunk(2, dim=-1)
            y1 = x1 + f(x2)
            x = torch.cat([y1, x2 + g(y1)], dim=-1)
        ctx.y = x.detach()
        return x

    @staticmethod
    def backward(ctx, dy):
        y = ctx.y
        for f, g in reversed(ctx.blocks):
            (y1, y2), (dy1, dy2) = y.chunk(2, dim=-1), dy.chunk(2, dim=-1)
            with torch.enable_grad():
                y1 = y1.detach().requires_grad_()
                gy1 = g(y1)
                torch.autograd.backward(gy1, dy2)
            with torch.no_grad():
                x2 = y2 - gy1
                dx1 = dy1 + y1.grad
                y1.grad = None
            with torch.enable_grad():
                x2.requires_grad = True
                fx2 = f(x2)
                torch.autograd.backward(fx2, dx1, retain_graph=True)
            with torch.no_grad():
                y, dy = torch.cat([y1 - fx2, x2], dim=-1), torch.cat([dx1, dy2 + x2.grad], dim=-1)
        return dy, None


class Regularised(torch.autograd.Function):
    """An identity whose backward also trains a weight that is no argument of it."""

    @staticmethod
    def forward(ctx, x, weight):
        ctx.weight = weight
        return x.clone()

    @staticmethod
    def backward(ctx, gradient):
        with torch.enable_grad():
            (ctx.weight.square().sum() * 0.1).backward(gradient.mean())
        return gradient, None


def by_backward(self, x):
    (self.w * 3).sum().backward()
    return final(self, x)


def twice(self, x):
    (self.w * 3).sum().backward()
    (self.w * x).sum().backward(torch.tensor(0.5))
    return final(self, x)


def after_the_loss(self, x):
    loss = final(self, x)
    F.mse_loss(self.first(x.detach()), torch.ones(4, 4)).backward()
    return loss


def local_losses(self, x):
    hidden = torch.tanh(self.first(x))
    F.mse_loss(hidden, torch.ones_like(hidden)).backward()
    return poptorch.identity_loss(self.second(hidden.detach()).square().mean(), "none")


def of_chosen_inputs(self, x):
    torch.autograd.backward((self.w * self.first(x).sum()).sum(), inputs=[self.w])
    return final(self, x)


def of_the_loss_itself(self, x):
    loss = final(self, x)
    loss.backward(retain_graph=True)
    return loss


def set_by_hand(self, x):
    self.w.grad = torch.tensor([1.0, 2.0, 3.0])
    return final(self, x)


def computed_by_hand(self, x):
    self.w.grad = x.mean(0) * 0.3
    return final(self, x)


def changed_in_place(self, x):
    (self.w * x).sum().backward()
    self.w.grad.mul_(0.5).add_(x.mean(0))
    self.w.grad[0] = 0
    return final(self, x)


def clipped(self, x):
    (self.w * x * 30).sum().backward()
    torch.nn.utils.clip_grad_norm_([self.w], 0.5)
    return final(self, x)


def taken_back(self, x):
    (self.w * 3).sum().backward()
    self.w.grad = None
    return final(self, x)


def zeroed(self, x):
    (self.w * 3).sum().backward()
    self.zero_grad()
    (self.w * x).sum().backward()
    return final(self, x)


def read_and_left(self, x):
    (self.w * x).sum().backward()
    return self.w.grad * 2, final(self, x)


def with_a_graph(self, x):
    (self.w.pow(3) * x).sum().backward(create_graph=True)
    return final(self, x) + 0 * self.w.grad.sum().detach()


def penalty_of_a_gradient(self, x):
    (self.w.pow(3)).sum().backward(create_graph=True)
    return poptorch.identity_loss(final(self, x) + self.w.grad.square().sum() * 0.01, "none")


def of_a_parameter_the_loss_does_not_use(self, x):
    (self.second.weight.square().sum() * 0.5).backward()
    return poptorch.identity_loss(self.first(x).square().mean(), "none")


def a_force_leaves_gradients_behind(self, x):
    x = x.detach().requires_grad_()
    energy = (torch.tanh(self.first(x)) * 0.3).sum()
    energy.backward()
    return x.grad, final(self, x.detach())


def a_checkpoint(self, x):
    hidden = Checkpoint.apply(lambda t: torch.tanh(self.first(t)), (x * self.w))
    return poptorch.identity_loss((self.second(hidden) * self.w).square().mean(), "none")


def checkpoints_in_checkpoints(self, x):
    inner = lambda t: Checkpoint.apply(lambda u: torch.tanh(self.first(u)), t * self.w)  # noqa: E731
    hidden = Checkpoint.apply(lambda t: torch.sin(inner(t)), x * self.w)
    return poptorch.identity_loss(self.second(hidden).square().mean(), "none")


def a_chain_of_checkpoints(self, x):
    layer = lambda t: self.second(torch.tanh(self.first(t)))  # noqa: E731
    x = x * self.w
    for _ in range(3):
        x = Checkpoint.apply(layer, x)
    return poptorch.identity_loss(x.square().mean(), "none")


def a_checkpoint_of_two(self, x):
    a, b = Checkpoint.apply(
        lambda s, t: (torch.tanh(self.first(s)), self.first(t) * self.w.sum()), x * self.w, x + self.w
    )
    return poptorch.identity_loss((self.second(a) * self.second(b)).mean(), "none")


def a_reversible_net(self, x):
    f = lambda t: torch.tanh(self.second(self.first(t)))  # noqa: E731
    g = lambda t: torch.sin(t * self.w)  # noqa: E731
    x = torch.cat([x * self.w, x], dim=-1)
    y = Reversible.apply(x, [(f, g), (g, f)])
    return poptorch.identity_loss(y.square().mean(), "none")


def a_weight_that_is_no_argument(self, x):
    return poptorch.identity_loss(Regularised.apply(self.first(x), self.w).square().mean(), "none")


def not_reached_by_the_loss(self, x):
    unused = Regularised.apply(self.first(x), self.w)
    return unused.detach(), final(self, x)


def a_checkpoint_in_a_gradient(self, x):
    hidden = Checkpoint.apply(lambda t: torch.tanh(self.first(t)), x * self.w)
    hidden.sum().backward()
    return final(self, x)


def a_gradient_through_a_checkpoint(self, x):
    x = x.detach().requires_grad_()
    hidden = Checkpoint.apply(lambda t: torch.tanh(self.first(t)), x)
    return torch.autograd.grad(hidden.sum(), x)[0], final(self, x.detach())


def of_a_written_parameter(self, x):
    with torch.no_grad():
        self.w.clamp_(max=1.0)
    (self.w * 3).sum().backward()
    return final(self, x)


def of_a_frozen_one(self, x):
    self.frozen.requires_grad_()
    (self.frozen * 3).sum().backward()
    self.frozen.requires_grad_(False)
    return final(self, x)


def of_an_alias(self, x):
    w = self.w
    w.grad = torch.ones(3)
    w.grad = w.grad + x.mean(0)
    return final(self, x)


def by_a_step_of_forward(self, x):
    with torch.no_grad():
        loss = final(self, x)
    for p in (self.w, self.first.bias):
        p.grad = torch.full_like(p, 0.25)
    return loss, final(self, x)


CASES = [
    by_backward,
    twice,
    after_the_loss,
    local_losses,
    of_chosen_inputs,
    of_the_loss_itself,
    set_by_hand,
    computed_by_hand,
    changed_in_place,
    clipped,
    taken_back,
    zeroed,
    read_and_left,
    with_a_graph,
    penalty_of_a_gradient,
    of_a_parameter_the_loss_does_not_use,
    a_force_leaves_gradients_behind,
    a_checkpoint,
    checkpoints_in_checkpoints,
    a_chain_of_checkpoints,
    a_checkpoint_of_two,
    a_reversible_net,
    a_weight_that_is_no_argument,
    not_reached_by_the_loss,
    a_checkpoint_in_a_gradient,
    a_gradient_through_a_checkpoint,
    of_a_written_parameter,
    of_an_alias,
    by_a_step_of_forward,
]


def same_training(function, optimizer=lambda p: torch.optim.SGD(p, lr=0.1), steps=3, options=None, micro_batches=1):
    torch.manual_seed(5)
    ours = Model(function)
    plain = copy.deepcopy(ours)
    trainer = poptorch.trainingModel(ours, options, optimizer(ours.parameters()))
    theirs = optimizer(p for p in plain.parameters() if p.requires_grad)
    for _ in range(steps):
        x = torch.randn(4 * micro_batches, 3)
        got = trainer(x)
        theirs.zero_grad()
        for part in x.chunk(micro_batches):
            want = plain(part)
            loss = want[-1] if isinstance(want, tuple) else want
            loss.backward()
        for p in plain.parameters():
            if p.grad is not None:
                p.grad /= micro_batches
        theirs.step()
        if micro_batches == 1:
            want = tuple(t.detach() for t in want) if isinstance(want, tuple) else want.detach()
            torch.testing.assert_close(got, want)
        for name, tensor in plain.state_dict().items():
            torch.testing.assert_close(
                ours.state_dict()[name], tensor, rtol=1e-4, atol=1e-6, msg=lambda text: f"{name}: {text}"
            )
    trainer.destroy()


@pytest.mark.parametrize("function", CASES, ids=lambda f: f.__name__)
def test_a_gradient_put_on_a_parameter_trains_it_as_in_torch(function):
    same_training(function)


def step_of_an_optimizer_without_state(self, x):
    """Greedy training: the layer below has an optimizer of its own, which forward runs."""
    hidden = torch.tanh(self.first(x))
    optimizer = torch.optim.SGD(self.first.parameters(), lr=0.2)
    optimizer.zero_grad()
    F.mse_loss(hidden, torch.ones_like(hidden)).backward()
    optimizer.step()
    optimizer.zero_grad()
    return poptorch.identity_loss(self.second(hidden.detach()).square().mean(), "none")


OPTIMIZERS = {
    "momentum": lambda p: torch.optim.SGD(p, lr=0.1, momentum=0.9, weight_decay=0.01),
    "adam": lambda p: torch.optim.Adam(p, lr=0.05),
}


@pytest.mark.parametrize("function", [by_backward, local_losses, a_reversible_net], ids=lambda f: f.__name__)
@pytest.mark.parametrize("name", OPTIMIZERS)
def test_optimizers_take_the_sum(name, function):
    same_training(function, OPTIMIZERS[name])


@pytest.mark.parametrize("function", [by_backward, a_checkpoint], ids=lambda f: f.__name__)
def test_gradient_accumulation_and_replicas_take_the_sum(function):
    options = poptorch.Options().replicationFactor(2).deviceIterations(1)
    options.Training.gradientAccumulation(2)
    same_training(function, options=options, micro_batches=4)


def test_an_optimizer_of_forward_without_state_steps_as_in_torch():
    same_training(step_of_an_optimizer_without_state)


@pytest.mark.parametrize("scaling", [1.0, 64.0])
def test_loss_scaling_leaves_the_sum_as_it_is(scaling):
    torch.manual_seed(5)
    ours = Model(by_backward)
    plain = copy.deepcopy(ours)
    x = torch.randn(4, 3)
    optimizer = poptorch.optim.SGD(ours.parameters(), lr=0.1, loss_scaling=scaling)
    trainer = poptorch.trainingModel(ours, None, optimizer)
    trainer(x)
    plain(x).backward()
    torch.optim.SGD((p for p in plain.parameters() if p.grad is not None), lr=0.1).step()
    torch.testing.assert_close(ours.w.detach(), plain.w.detach())


def test_stages_of_a_pipeline_take_the_sum():
    class Piped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 3)
            self.aside = torch.nn.Parameter(torch.ones(3))

        def forward(self, x):
            poptorch.Block.start("a", ipu_id=0)
            hidden = Checkpoint.apply(self.lower, x * self.aside)
            (self.aside * x.mean(0)).sum().backward()
            F.mse_loss(hidden, torch.ones_like(hidden)).backward()
            poptorch.Block.start("b", ipu_id=1)
            return poptorch.identity_loss(self.second(hidden).square().mean(), "none")

        def lower(self, x):
            poptorch.Block.start("a", ipu_id=0)  # again, where the checkpoint computes it once more
            return torch.tanh(self.first(x))

    torch.manual_seed(1)
    ours = Piped()
    plain = copy.deepcopy(ours)
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    trainer = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=0.1))
    x = torch.randn(8, 3)
    trainer(x)
    for part in x.chunk(4):
        plain_backward_twice(plain, part)
    for p in plain.parameters():
        p.grad /= 4
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor, msg=lambda text: f"{name}: {text}")
    trainer.destroy()


def plain_backward_twice(model, x):
    hidden = torch.tanh(model.first(x * model.aside))
    (model.aside * x.mean(0)).sum().backward()
    F.mse_loss(hidden, torch.ones_like(hidden)).backward(retain_graph=True)
    model.second(hidden).square().mean().backward()


def without_a_loss(self, x):
    hidden = torch.tanh(self.first(x))
    F.mse_loss(hidden, torch.ones_like(hidden)).backward()
    out = self.second(hidden.detach())
    F.mse_loss(out, x).backward()
    return out


def test_a_model_that_gives_its_gradients_itself_needs_no_loss():
    torch.manual_seed(5)
    ours = Model(without_a_loss)
    plain = copy.deepcopy(ours)
    trainer = poptorch.trainingModel(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1))
    optimizer = torch.optim.SGD((p for p in plain.parameters() if p.requires_grad), lr=0.1)
    for _ in range(2):
        x = torch.randn(4, 3)
        optimizer.zero_grad()
        want = plain(x)
        optimizer.step()
        torch.testing.assert_close(trainer(x), want.detach())
        for name, tensor in plain.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], tensor, msg=lambda text: f"{name}: {text}")
    trainer.destroy()


@pytest.mark.parametrize("function", [by_backward, read_and_left, a_force_leaves_gradients_behind, set_by_hand])
def test_inference_leaves_no_gradients_on_the_host(function):
    torch.manual_seed(5)
    model = Model(function)
    x = torch.randn(4, 3)
    got = poptorch.inferenceModel(model)(x)
    assert all(p.grad is None for p in model.parameters())
    want = model(x)
    torch.testing.assert_close(got, tuple(t.detach() for t in want) if isinstance(want, tuple) else want.detach())


def frozen_by_hand(self, x):
    self.frozen.grad = torch.ones(3)
    return final(self, x)


def in_a_loop(self, x):
    def body(t):
        (self.w * t).sum().backward()
        return t

    poptorch.for_loop(2, body, [x])
    return final(self, x)


def in_place_in_a_loop(self, x):
    self.w.grad = torch.zeros(3)

    def body(t):
        self.w.grad.add_(t.mean(0))
        return t

    poptorch.for_loop(2, body, [x])
    return final(self, x)


def of_another_device(self, x):
    self.w.grad = OUTSIDE
    return final(self, x)


def of_another_shape(self, x):
    self.w.grad = x
    return final(self, x)


def step_with_momentum(self, x):
    optimizer = torch.optim.SGD([self.w], lr=0.1, momentum=0.9)
    (self.w * x).sum().backward()
    optimizer.step()
    return final(self, x)


def step_of_adam(self, x):
    optimizer = torch.optim.Adam([self.w], lr=0.1)
    (self.w * x).sum().backward()
    optimizer.step()
    return final(self, x)


OUTSIDE = torch.ones(3)


@pytest.mark.parametrize(
    "function, text",
    [
        (frozen_by_hand, "parameter 'frozen' gets a gradient in forward"),
        (of_a_frozen_one, "parameter 'frozen' gets a gradient in forward"),
        (in_a_loop, "body of poptorch.for_loop puts a gradient on the parameter 'w'"),
        (in_place_in_a_loop, "write to an outer tensor"),
        (of_another_device, "gradient with device type 'cpu' to a tensor with device type 'ipu'"),
        (of_another_shape, r"gradient of size .* to a tensor of size"),
        (step_with_momentum, r"SGD.step\(\) in forward: .*\(momentum_buffer\)"),
        (step_of_adam, r"Adam.step\(\) in forward: .*\(exp_avg, exp_avg_sq, step\)"),
    ],
    ids=lambda value: getattr(value, "__name__", "text"),
)
def test_what_cannot_join_is_refused(function, text):
    trainer = poptorch.trainingModel(Model(function))
    with pytest.raises((poptorch.Error, RuntimeError, TypeError), match=text):
        trainer(torch.randn(4, 3))
