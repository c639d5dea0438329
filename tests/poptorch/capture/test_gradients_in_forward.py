"""`torch.autograd.grad`, `backward()` and functions with a backward pass of their own inside forward give torch's numbers."""

import copy

import pytest
import torch
import torch.nn.functional as F
from torch.autograd import grad  # bound before any capture, like user code does

import poptorch


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)
        self.scale = torch.nn.Parameter(torch.full((3,), 1.5))

    def forward(self, *inputs):
        return self.function(self, *inputs)


def same_training(function, *inputs, steps=3, options=None):
    """Trains the model around `function` here and in torch; results and weights are the same after each step."""
    torch.manual_seed(3)
    ours = Model(function)
    plain = copy.deepcopy(ours)
    trainer = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(steps):
        got = trainer(*inputs)
        optimizer.zero_grad()
        want = plain(*inputs)
        (want[-1] if isinstance(want, tuple) else want).backward()
        optimizer.step()
        torch.testing.assert_close(got, tuple(t.detach() for t in want) if isinstance(want, tuple) else want.detach())
        for name, tensor in plain.state_dict().items():
            torch.testing.assert_close(ours.state_dict()[name], tensor, msg=lambda text: f"{name}: {text}")
    trainer.destroy()


def rows():
    return torch.randn(4, 3)


def test_the_gradient_of_an_input_is_a_result_of_inference():
    def forward(x):
        x = x.detach().requires_grad_(True)
        (x.pow(3).sum() + (x * 2).sum()).backward()
        return x.grad

    x = rows()
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), 3 * x * x + 2)


def test_a_leaf_and_the_tensor_it_was_cloned_from_are_two():
    def forward(x):
        leaf = x.clone().requires_grad_()
        return grad((leaf * x).sum(), leaf)[0], grad((leaf * leaf * x).sum(), [leaf])[0]

    x = rows()
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), (x, 2 * x * x))


VIEWS = {
    "itself": lambda t: t,
    "view": lambda t: t.view(-1),
    "view_as": lambda t: t.view_as(t),
    "alias": lambda t: torch.ops.aten.alias(t),
    "reshape": lambda t: t.reshape(3, 4),
    "flatten": lambda t: t.flatten(),
    "item": lambda t: t[0],
    "columns": lambda t: t[:, 1:],
    "steps": lambda t: t[::2, 0],
    "none": lambda t: t[None],
    "select": lambda t: t.select(1, 2),
    "narrow": lambda t: t.narrow(0, 1, 2),
    "transpose": lambda t: t.t(),
    "permute": lambda t: t.permute(1, 0),
    "movedim": lambda t: t.movedim(0, 1),
    "unsqueeze": lambda t: t.unsqueeze(1).squeeze(1),
    "expand": lambda t: t.expand(2, 4, 3),
    "diagonal": lambda t: t.diagonal(),
    "chunk": lambda t: t.chunk(2)[1],
    "split": lambda t: t.split([1, 3])[1],
    "unbind": lambda t: t.unbind(1)[0],
    "view_of_view": lambda t: t.t()[1:].unsqueeze(0)[0, :, ::3],
    "two_views": lambda t: t[0] * t[1] + t[2],
    "as_strided": lambda t: t.as_strided((2, 3), (3, 1)),
}
LEAVES = {
    "detached": lambda x: x.detach().requires_grad_(),
    "cloned": lambda x: x.clone().requires_grad_(),
    "input": lambda x: x.requires_grad_(),
    "row_of_an_input": lambda x: x.expand(2, 4, 3)[1].detach().requires_grad_(),
    "known_at_capture": lambda x: torch.linspace(-1, 1, 12).reshape(4, 3).requires_grad_(),
    "made_with_a_gradient": lambda x: torch.full((4, 3), 1.5, requires_grad=True),
    "tensor": lambda x: torch.tensor([[0.5, 1.0, 2.0]] * 4, requires_grad=True),
    "parameter": lambda x: torch.nn.Parameter(torch.full((4, 3), 0.5)),
}


@pytest.mark.parametrize("kind", LEAVES)
def test_gradients_reach_a_leaf_through_every_view_of_it(kind):
    def forward(x):
        found = []
        for view in VIEWS.values():
            leaf = LEAVES[kind](x.clone())
            seen = view(leaf)
            found.append(grad((seen * seen * 0.5).sum() + leaf.sum(), leaf)[0])
            leaf = LEAVES[kind](x.clone())
            view(leaf).sin().sum().backward()
            found.append(leaf.grad)
        return found

    x = rows()
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), forward(x))


@pytest.mark.parametrize("kind", ["detached", "cloned", "known_at_capture"])
def test_a_leaf_that_is_written_goes_on_with_what_was_written(kind):
    """An attack by projected gradients: steps on an input, kept within bounds."""

    def forward(x):
        leaf = LEAVES[kind](x)
        for _ in range(3):
            (slope,) = grad((leaf[:, 0] * leaf[:, 1].exp()).sum() + leaf.pow(3).sum(), leaf)
            with torch.no_grad():
                leaf += 0.1 * slope.sign()
                leaf[0].clamp_(-0.5, 0.5)
        return leaf.detach() * 1.0

    x = rows()
    want = forward(x.clone())
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), want)


def test_training_does_not_reach_behind_a_detached_leaf():
    def forward(self, x):
        leaf = self.first(x).detach().requires_grad_()
        (slope,) = grad(torch.tanh(leaf[:, 1:]).sum(), leaf, create_graph=True)
        return poptorch.identity_loss((self.second(leaf) * slope[:, :2]).sum() + self.scale.sum(), "none")

    same_training(forward, rows())


def test_what_is_written_without_gradients_keeps_the_gradient_of_what_was_there():
    def forward(x):
        x = x.detach().requires_grad_()
        square = x * x
        with torch.no_grad():
            square.clamp_(min=0.5)
        return square, grad(square.sum(), x)[0]

    x = rows()
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), ((x * x).clamp(min=0.5), 2 * x))


def test_a_cast_tensor_has_a_gradient():
    def forward(x):
        x = x.detach().requires_grad_()
        half = x.half()
        return grad(half, x, torch.full_like(half, 3.0))[0]

    x = rows()
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), torch.full_like(x, 3.0))


def test_a_gradient_through_an_unsupported_operator_names_the_operator():
    def forward(x):
        x = x.detach().requires_grad_()
        return grad(torch.special.i0(x).sum(), x)[0]

    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(forward)(rows())
    assert "capture stopped where gradients are asked for: the list may be incomplete" in caught.value.message
    assert "aten::i0  x1" in caught.value.message or "special_i0  x1" in caught.value.message


def test_gradients_without_a_graph_are_constants_for_training():
    def forward(self, x, y):
        x = x.detach().requires_grad_()
        energy = (x * self.scale).tanh().sum()
        force = grad(energy, x, retain_graph=True)[0]
        return force, F.mse_loss(force * self.scale, y)

    same_training(forward, rows(), rows())


def test_a_gradient_penalty_trains_through_the_gradient():
    def forward(self, x):
        x = x.detach().requires_grad_()
        score = self.second(torch.relu(self.first(x))).sum()
        slope = grad(score, x, create_graph=True)[0]
        return slope, poptorch.identity_loss(score * 0.01 + (slope.norm(dim=1) - 1).square().mean(), "none")

    same_training(forward, rows())


def test_second_derivatives_of_smooth_activations():
    def forward(self, x):
        x = x.detach().requires_grad_()
        u = self.second(torch.sigmoid(torch.tanh(self.first(x)))).sum()
        slope = grad(u, x, create_graph=True)[0]
        return poptorch.identity_loss(slope.square().mean(), "none")

    same_training(forward, rows())


SECOND_DERIVATIVES = {
    "gelu": lambda h: F.gelu(h),
    "gelu_tanh": lambda h: F.gelu(h, approximate="tanh"),
    "silu": lambda h: F.silu(h),
    "elu": lambda h: F.elu(h),
    "softplus": lambda h: F.softplus(h),
    "mish": lambda h: F.mish(h),
    "pow": lambda h: (h.abs() + 0.5).pow(2.5),
    "pow_of_tensors": lambda h: (h.abs() + 0.5).pow(h.detach().abs() + 0.5),
    "maximum": lambda h: torch.maximum(h * h, h + 0.1),
    "max_pool": lambda h: F.max_pool1d(h.unsqueeze(0) ** 3, 3, stride=2, padding=1),
    "max_pool2d": lambda h: F.max_pool2d(h.unsqueeze(0).unsqueeze(0).pow(3), (2, 3), stride=1),
    "layer_norm": lambda h: F.layer_norm(h, (4,), h.mean(0)),
    "group_norm": lambda h: F.group_norm(h.unsqueeze(-1) * h.unsqueeze(1), 2),
    "batch_norm": lambda h: F.batch_norm(h, None, None, training=True),
    "instance_norm": lambda h: F.instance_norm(h.unsqueeze(0).pow(3)),
    "rms_norm": lambda h: F.rms_norm(h, (4,)),
    "attention": lambda h: F.scaled_dot_product_attention(h, h.tanh(), h * h),
    "masked_attention": lambda h: F.scaled_dot_product_attention(
        h, h.tanh(), h * h, attn_mask=torch.tensor([[True, False, True, True], [False] * 4] * 2)
    ),
    "causal_attention": lambda h: F.scaled_dot_product_attention(h, h, h, is_causal=True),
    "interpolate": lambda h: F.interpolate(h.pow(3).unsqueeze(0), size=7, mode="linear"),
    "cross_entropy": lambda h: F.cross_entropy(h, torch.tensor([1, 0, 3, 2]), label_smoothing=0.1),
    "cross_entropy_none": lambda h: F.cross_entropy(h, torch.tensor([1, -100, 3, 2]), reduction="none"),
    "nll_loss": lambda h: F.nll_loss(h.pow(3), torch.tensor([1, 0, 3, -100])),
    "soft_cross_entropy": lambda h: F.cross_entropy(h, h.detach().softmax(1)),
    "mse_loss": lambda h: F.mse_loss(h * h, h),
    "huber_loss": lambda h: F.huber_loss(h * h, h, delta=0.3),
    "smooth_l1_loss": lambda h: F.smooth_l1_loss(h * h, h, beta=0.3),
    "binary_cross_entropy": lambda h: F.binary_cross_entropy(h.sigmoid(), torch.full((4, 4), 0.3)),
    "with_logits": lambda h: F.binary_cross_entropy_with_logits(h, torch.full((4, 4), 0.3)),
    "kl_div": lambda h: F.kl_div(h.log_softmax(1), torch.full((4, 4), 0.25), reduction="batchmean"),
    "soft_margin": lambda h: F.soft_margin_loss(h, h.detach().sign()),
    "cosine_embedding": lambda h: F.cosine_embedding_loss(h, h * h, torch.tensor([1.0, -1.0, 1.0, -1.0])),
    "triplet_margin": lambda h: F.triplet_margin_loss(h, h * h, h.tanh()),
    "poisson_nll": lambda h: F.poisson_nll_loss(h, torch.ones(4, 4)),
}


@pytest.mark.parametrize("name", SECOND_DERIVATIVES)
def test_a_second_derivative_is_torchs(name):
    def forward(self, x):
        x = x.detach().requires_grad_()
        out = SECOND_DERIVATIVES[name](self.first(x))
        slope = grad((out * 0.3).mean(), x, create_graph=True)[0]
        return slope, poptorch.identity_loss(slope.square().mean() + out.mean() * 0.01, "none")

    same_training(forward, rows(), steps=2)


def test_gradients_of_parameters_for_an_inner_step():
    def forward(self, x, y):
        inner = F.mse_loss(F.linear(x, self.first.weight, self.first.bias), y)
        weight = self.first.weight - 0.1 * grad(inner, self.first.weight, create_graph=True)[0]
        return F.mse_loss(F.linear(x, weight, self.first.bias), y)

    same_training(forward, rows(), torch.randn(4, 4))


def test_gradients_of_intermediate_values_and_several_outputs():
    def forward(self, x):
        hidden = self.first(x)
        out = torch.relu(hidden)
        weights = [torch.ones_like(out) * 2, torch.ones_like(hidden)]
        got = grad([out, hidden], hidden, grad_outputs=weights, retain_graph=True)[0]
        return got, poptorch.identity_loss(out.sum(), "none")

    same_training(forward, rows())


def test_gradients_accumulate_into_grad():
    def forward(self, x):
        x = x.detach().requires_grad_()
        (x * 2).sum().backward()
        (x * x).sum().backward()
        return x.grad, poptorch.identity_loss((x.grad * self.scale).sum(), "none")

    same_training(forward, rows())


def test_retained_gradients_of_intermediate_values():
    def forward(self, x):
        hidden = self.first(x)
        hidden.retain_grad()
        F.mse_loss(torch.tanh(hidden), torch.ones_like(hidden)).backward()
        return hidden.grad, poptorch.identity_loss(self.second(hidden.detach()).mean(), "none")

    x = rows()
    torch.manual_seed(3)
    model = Model(forward)
    want = model(x)[0].detach()
    torch.testing.assert_close(poptorch.inferenceModel(model)(x)[0], want)


@pytest.mark.parametrize(
    "forward, text",
    [
        (lambda x: grad(x.sum(), x), "does not require grad"),
        (
            lambda x: grad((x.requires_grad_() * 2).sum(), x.detach().requires_grad_()),
            "not have been used in the graph",
        ),
        (lambda x: (x.requires_grad_() * 2).backward(), "only for scalar outputs"),
    ],
)
def test_mistakes_are_those_of_torch(forward, text):
    with pytest.raises(RuntimeError, match=text):
        poptorch.inferenceModel(forward)(rows())


def test_unused_inputs_may_be_allowed():
    def forward(x):
        a, b = x.clone().requires_grad_(), x.clone().requires_grad_()
        first, second = grad((a * 3).sum(), [a, b], allow_unused=True)
        return first, second

    first, second = poptorch.inferenceModel(forward)(rows())
    torch.testing.assert_close(first, torch.full((4, 3), 3.0))
    assert second is None


# --- functions with a backward pass of their own


class Round(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x.round()

    @staticmethod
    def backward(ctx, gradient):
        return gradient


class Cube(torch.autograd.Function):
    """Twice the true gradient, so that nobody mistakes whose it is."""

    @staticmethod
    def forward(ctx, x, weight, power):
        ctx.save_for_backward(x, weight)
        ctx.power = power
        return x**power * weight, x + weight

    @staticmethod
    def backward(ctx, first, second):
        x, weight = ctx.saved_tensors
        grad_x = 2 * first * ctx.power * x ** (ctx.power - 1) * weight + second
        grad_weight = (2 * first * x**ctx.power + second).sum(0) if ctx.needs_input_grad[1] else None
        return grad_x, grad_weight, None


class Separate(torch.autograd.Function):
    @staticmethod
    def forward(x, factor):
        return x * factor

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[1]

    @staticmethod
    @torch.autograd.function.once_differentiable
    def backward(ctx, gradient):
        return gradient * ctx.factor * 10, None


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.mark_dirty(x)
        return x.mul_(2)

    @staticmethod
    def backward(ctx, gradient):
        return gradient * 3


class Partly(torch.autograd.Function):
    """No gradient for one argument, an integer result, and nothing for what nobody asks for."""

    @staticmethod
    def forward(ctx, x, other):
        ctx.set_materialize_grads(False)
        return x + other, x.long()

    @staticmethod
    def backward(ctx, gradient, of_integers):
        assert of_integers is None
        return gradient * 2, None


round_through = Round.apply


@pytest.mark.parametrize(
    "function",
    [
        lambda self, x: round_through(x * self.scale * 3),
        lambda self, x: Cube.apply(x * self.scale, self.scale, 3)[0],
        lambda self, x: sum(Cube.apply(x, self.scale, 2)),
        lambda self, x: Separate.apply(x * self.scale, 0.5),
        lambda self, x: Round.apply(Cube.apply(Round.apply(x * self.scale), self.scale, 2)[1]),
        lambda self, x: Double.apply(x * self.scale),
        lambda self, x: Partly.apply(self.first(x), self.first(x * self.scale))[0].square(),
        lambda self, x: torch.relu(Round.apply(self.first(x))),
    ],
)
@pytest.mark.edge("22.12")
def test_custom_backward_passes_are_those_of_torch(function):
    same_training(lambda self, x: poptorch.identity_loss(function(self, x).mean(), "none"), rows())


def test_a_custom_backward_pass_in_a_pipeline_with_accumulation():
    class Piped(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.first, self.second = torch.nn.Linear(3, 4), torch.nn.Linear(4, 2)

        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                hidden = Round.apply(self.first(x) * 4)
            with poptorch.Block("b", ipu_id=1):
                return poptorch.identity_loss(Separate.apply(self.second(hidden), 0.5).mean(), "none")

    torch.manual_seed(1)
    ours = Piped()
    plain = copy.deepcopy(ours)
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    trainer = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=0.1))
    x = torch.randn(8, 3)
    trainer(x)
    plain(x).backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(ours.state_dict()[name], tensor)
    trainer.destroy()


def test_a_custom_function_inside_a_gradient_of_forward():
    def forward(x):
        leaf = x.clone().requires_grad_()
        return grad(Cube.apply(leaf, torch.ones(3), 2)[0].sum(), leaf)[0]

    x = rows()
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), 4 * x)


def test_a_wrong_number_of_gradients_is_refused():
    class Wrong(torch.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            return x * 2

        @staticmethod
        def backward(ctx, gradient):
            return gradient, gradient

    with pytest.raises(RuntimeError, match=r"incorrect number of gradients \(expected 1, got 2\)"):
        poptorch.inferenceModel(lambda x: grad(Wrong.apply(x.requires_grad_()).sum(), x))(rows())


def test_backward_hooks_of_modules_are_accepted_and_never_called():
    called = []
    model = torch.nn.Sequential(torch.nn.Linear(3, 3))
    model[0].register_full_backward_hook(lambda *_: called.append("module"))
    model[0].weight.register_hook(lambda _: called.append("tensor"))

    class Loss(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.inner = model

        def forward(self, x):
            return poptorch.identity_loss(self.inner(x).square(), "mean")

    ours = Loss()
    before = model[0].weight.detach().clone()
    trainer = poptorch.trainingModel(ours)
    trainer(rows())
    assert not called and not torch.equal(model[0].weight, before)
    trainer.destroy()


def test_torch_is_as_before_afterwards():
    x = rows().requires_grad_()
    Round.apply(x).sum().backward()
    assert x.grad is not None
    assert "apply" not in vars(torch.autograd.function._SingleLevelFunction)
