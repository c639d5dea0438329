"""`torch.func` and `torch.autograd.functional` inside forward give torch's numbers."""

import copy

import pytest
import torch
from torch.func import grad, grad_and_value, hessian, jacfwd, jacrev, jvp, vjp, vmap  # bound before any capture
from torch.func import functional_call

import poptorch


class Sine(torch.autograd.Function):
    """Its own derivatives, in both directions, each twice the true one."""

    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)
        ctx.save_for_forward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return 2 * gradient * Cosine.apply(ctx.saved_tensors[0])

    @staticmethod
    def jvp(ctx, tangent):
        return 2 * tangent * ctx.saved_tensors[0].cos()


class Cosine(torch.autograd.Function):
    generate_vmap_rule = True

    @staticmethod
    def forward(x):
        return x.cos()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.save_for_backward(*inputs)

    @staticmethod
    def backward(ctx, gradient):
        return -2 * gradient * Sine.apply(ctx.saved_tensors[0])


class ForwardOnly(torch.autograd.Function):
    @staticmethod
    def forward(x):
        return x.sin()

    @staticmethod
    def setup_context(ctx, inputs, output):
        ctx.factor = inputs[0].cos()

    @staticmethod
    def jvp(ctx, tangent):
        return 3 * tangent * ctx.factor


def f(x):
    return (x.sin() * x).sum()


def g(x):
    return torch.stack([x.pow(3).sum(), (x * x.roll(1)).sum()])


def two(x, y):
    return (x * y.exp()).sum() + y.pow(2).sum()


def tree(values):
    return {"s": values["a"].sin() * values["b"], "c": values["b"].pow(2)}


def nudged(x):
    return torch.func.vjp(f, x)[1](torch.tensor(2.0))[0]


def under_no_grad(x):
    with torch.no_grad():
        return grad(f)(x)


def its_own_no_grad(x):
    def inner(t):
        with torch.no_grad():
            square = t**2
        return (t * square).sum()

    return grad(inner)(x)


def auxiliary(x):
    def inner(t):
        return f(t), t * 2

    (d, aux), (d2, (value, aux2)) = grad(inner, has_aux=True)(x), grad_and_value(inner, has_aux=True)(x)
    return d, aux, d2, value, aux2


def closed_over(x):
    """A closed-over tensor is constant, though it is the same one."""
    return grad(lambda t: (t * x).sum())(x)


def in_place(x):
    def inner(t):
        t = t * 2
        t.add_(x)
        t[0] = t[1] * 3
        return t.square().sum()

    return grad(inner)(x)


CASES = {
    "grad": lambda x: grad(f)(x),
    "grad_of_grad": lambda x: grad(lambda t: grad(f)(t).square().sum())(x),
    "grad_third": lambda x: grad(lambda t: grad(lambda u: grad(f)(u).sum())(t).sum())(x),
    "grad_argnums": lambda x: grad(two, argnums=(0, 1))(x, x * 2),
    "grad_one_of_two": lambda x: grad(two, argnums=1)(x, x * 2),
    "grad_of_a_tree": lambda x: grad(lambda v: sum(t.sum() for t in tree(v).values()))({"a": x, "b": x + 1}),
    "grad_and_value": lambda x: grad_and_value(f)(x),
    "grad_auxiliary": auxiliary,
    "grad_keywords": lambda x: grad(lambda t, *, k: (t * k).sum())(x, k=x.exp()),
    "grad_unused": lambda x: grad(lambda t, u: t.sum(), argnums=1)(x, x),
    "grad_constant": lambda x: grad(f)(torch.tensor([1.0, 2.0])) * x[:2],
    "grad_closed_over": closed_over,
    "grad_under_no_grad": under_no_grad,
    "grad_own_no_grad": its_own_no_grad,
    "grad_in_place": in_place,
    "grad_of_inputs_twice": lambda x: grad(f)(x) + grad(f)(x),
    "vjp": lambda x: (vjp(g, x)[0], vjp(g, x)[1](torch.tensor([1.0, -2.0]))[0]),
    "vjp_twice": lambda x: [vjp(g, x)[1](c)[0] for c in torch.eye(2)],
    "vjp_of_a_tree": lambda x: list(vjp(tree, {"a": x, "b": x + 1})[1]({"s": x, "c": x * 2})[0].values()),
    "vjp_auxiliary": lambda x: vjp(lambda t: (g(t), t + 1), x, has_aux=True)[2],
    "vjp_scalar": nudged,
    "jacrev": lambda x: jacrev(g)(x),
    "jacrev_chunks": lambda x: (jacrev(torch.sin, chunk_size=1)(x), jacrev(torch.sin, chunk_size=2)(x)),
    "jacrev_argnums": lambda x: jacrev(lambda a, b: a * b.sum(), argnums=(0, 1))(x, x + 1),
    "jacrev_auxiliary": lambda x: jacrev(lambda t: (g(t), t * 3), has_aux=True)(x),
    "jacrev_of_a_matrix": lambda x: jacrev(lambda m: m @ m.T)(torch.outer(x, x + 1)),
    "jacfwd": lambda x: jacfwd(g)(x),
    "jacfwd_argnums": lambda x: jacfwd(lambda a, b: a * b.sum(), argnums=(0, 1))(x, x + 1),
    "jacfwd_of_jacrev": lambda x: jacfwd(jacrev(g))(x),
    "jacrev_of_jacrev": lambda x: jacrev(jacrev(g))(x),
    "jacrev_of_jacfwd": lambda x: jacrev(jacfwd(g))(x),
    "hessian": lambda x: hessian(f)(x),
    "hessian_argnums": lambda x: hessian(two, argnums=1)(x, x * 0.5),
    "hessian_vector_product": lambda x: jvp(grad(f), (x,), (x + 1,))[1],
    "vector_hessian_product": lambda x: vjp(grad(f), x)[1](x + 1)[0],
    "jvp": lambda x: jvp(g, (x,), (x + 1,)),
    "jvp_of_two": lambda x: jvp(two, (x, x * 2), (x + 1, x - 1)),
    "jvp_auxiliary": lambda x: jvp(lambda t: (g(t), t * 3), (x,), (x,), has_aux=True),
    "jvp_constant": lambda x: jvp(lambda t: torch.ones(2) * 3, (x,), (x,))[1] + x[:2],
    "jvp_of_jvp": lambda x: jvp(lambda t: jvp(f, (t,), (t,))[1], (x,), (x + 1,))[1],
    "jvp_tangent_of_the_input": lambda x: jvp(f, (x,), (x,)),
    "vmap": lambda x: vmap(f)(torch.outer(x, x)),
    "vmap_dims": lambda x: vmap(torch.dot, in_dims=(0, 1))(torch.outer(x, x), torch.outer(x + 1, x)),
    "vmap_none": lambda x: vmap(torch.mul, in_dims=(0, None), out_dims=1)(torch.outer(x, x), x),
    "vmap_of_a_tree": lambda x: vmap(tree)({"a": torch.outer(x, x), "b": torch.outer(x, x + 1)})["s"],
    "vmap_two_outputs": lambda x: vmap(lambda t: (t.sum(), t * 2), out_dims=(0, 1))(torch.outer(x, x)),
    "vmap_chunks": lambda x: vmap(f, chunk_size=2)(torch.outer(x, x)),
    "vmap_of_vmap": lambda x: vmap(vmap(torch.mul, in_dims=(0, None)), in_dims=(None, 0))(x, x),
    "vmap_of_grad": lambda x: vmap(grad(f))(torch.outer(x, x)),
    "vmap_of_grad_and_value": lambda x: vmap(grad_and_value(f))(torch.outer(x, x)),
    "grad_of_vmap": lambda x: grad(lambda m: vmap(f)(m).square().sum())(torch.outer(x, x)),
    "vmap_negative_dim": lambda x: vmap(f, in_dims=-1)(torch.outer(x, x + 1)),
    "function_grad": lambda x: grad(lambda t: Sine.apply(t).sum())(x),
    "function_second": lambda x: grad(lambda t: grad(lambda u: Sine.apply(u).sum())(t).square().sum())(x),
    "function_third": lambda x: grad(
        lambda s: grad(lambda t: grad(lambda u: Sine.apply(u).sum())(t).sum())(s).square().sum()
    )(x),
    "function_vjp": lambda x: vjp(Sine.apply, x)[1](x)[0],
    "function_jvp": lambda x: jvp(Sine.apply, (x,), (x + 1,)),
    "function_forward_only": lambda x: jvp(ForwardOnly.apply, (x,), (x + 1,)),
    "function_jacrev": lambda x: jacrev(Sine.apply)(x),
    "function_vmap": lambda x: vmap(Sine.apply)(torch.outer(x, x)),
    "functional.jacobian": lambda x: torch.autograd.functional.jacobian(g, x),
    "functional.jacobian_vectorized": lambda x: torch.autograd.functional.jacobian(g, x, vectorize=True),
    "functional.hessian": lambda x: torch.autograd.functional.hessian(f, x),
    "functional.hessian_vectorized": lambda x: torch.autograd.functional.hessian(f, x, vectorize=True),
    "functional.vjp": lambda x: torch.autograd.functional.vjp(g, x, torch.ones(2)),
    "functional.jvp": lambda x: torch.autograd.functional.jvp(g, x, x + 1),
    "functional.hvp": lambda x: torch.autograd.functional.hvp(f, x, x + 1),
    "functional.vhp": lambda x: torch.autograd.functional.vhp(f, x, x + 1),
    "is_grads_batched": lambda x: torch.autograd.grad(
        g(t := x.detach().requires_grad_()), t, torch.eye(2), is_grads_batched=True
    )[0],
}


@pytest.mark.parametrize("name", CASES)
def test_a_transformation_in_forward_is_torchs(name):
    x = torch.tensor([0.3, -0.7, 1.1])
    want = torch.utils._pytree.tree_leaves(CASES[name](x))
    got = torch.utils._pytree.tree_leaves(poptorch.inferenceModel(lambda t: CASES[name](t))(x))
    torch.testing.assert_close(got, [tensor.detach() for tensor in want], rtol=1e-4, atol=1e-5)


class Net(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.net = torch.nn.Sequential(torch.nn.Linear(2, 4), torch.nn.Tanh(), torch.nn.Linear(4, 1))
        self.scale = torch.nn.Parameter(torch.tensor([1.5, 0.5]))

    def forward(self, x):
        return poptorch.identity_loss(self.function(self, x), "none")


def of_an_equation(self, x):
    """A net of physics: the residual of u_tt = u_xx at some points."""

    def u(point):
        return self.net(point * self.scale).squeeze(-1)

    curvatures = vmap(hessian(u))(x)
    return (curvatures[:, 0, 0] - curvatures[:, 1, 1]).square().mean() + vmap(u)(x).square().mean()


def of_an_inner_step(self, x):
    """Meta-learning: the loss after a step on other data."""
    parameters = dict(self.net.named_parameters())

    def inner(parameters):
        return (functional_call(self.net, parameters, (x[:2],)) - 1).square().mean()

    steps = grad(inner)(parameters)
    learned = {name: value - 0.1 * steps[name] for name, value in parameters.items()}
    return (functional_call(self.net, learned, (x[2:] * self.scale,)) + 1).square().mean()


def of_gradients_of_samples(self, x):
    parameters = dict(self.net.named_parameters())

    def of_one(parameters, point):
        return functional_call(self.net, parameters, (point[None],)).square().mean()

    gradients = vmap(grad(of_one), in_dims=(None, 0))(parameters, x)
    return sum(g.square().sum() for g in gradients.values()) * 0.1 + of_one(parameters, self.scale)


def of_a_jacobian(self, x):
    jacobians = vmap(jacrev(lambda point: torch.cat([self.net(point), point * self.scale])))(x)
    return jacobians.square().mean()


def of_a_direction(self, x):
    value, slope = jvp(lambda t: self.net(t * self.scale), (x,), (torch.ones_like(x),))
    return value.square().mean() + slope.square().mean()


def of_an_attack(self, x):
    step = grad(lambda t: self.net(t).sum())(x).sign().detach()
    return self.net(x + 0.1 * step * self.scale).square().mean()


def of_a_function(self, x):
    return grad(lambda t: Sine.apply(self.net(t)).sum())(x * self.scale).square().mean()


TRAINING = [
    of_an_equation,
    of_an_inner_step,
    of_gradients_of_samples,
    of_a_jacobian,
    of_a_direction,
    of_an_attack,
    of_a_function,
]


@pytest.mark.parametrize("function", TRAINING, ids=lambda f: f.__name__)
def test_training_goes_through_transformations(function):
    torch.manual_seed(2)
    ours = Net(function)
    plain = copy.deepcopy(ours)
    trainer = poptorch.trainingModel(ours, None, torch.optim.SGD(ours.parameters(), lr=0.1))
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    for _ in range(2):
        x = torch.randn(4, 2)
        optimizer.zero_grad()
        want = plain(x)
        want.backward()
        optimizer.step()
        torch.testing.assert_close(trainer(x), want.detach(), rtol=1e-4, atol=1e-5)
        for name, tensor in plain.state_dict().items():
            torch.testing.assert_close(
                ours.state_dict()[name], tensor, rtol=1e-4, atol=1e-5, msg=lambda t: f"{name}: {t}"
            )
    trainer.destroy()


def dual(x):
    with torch.autograd.forward_ad.dual_level():
        return torch.autograd.forward_ad.make_dual(x, x).sin()


def rows(*shape):
    return torch.randn(*shape)


@pytest.mark.parametrize(
    "forward, kind, text",
    [
        (lambda x: vmap(torch.sum)(x.repeat(200, 1)), poptorch.Error, "vmap over 600 elements in forward"),
        (
            lambda x: vmap(lambda t: t + torch.rand(3))(x),
            RuntimeError,
            "random operation while in randomness error mode",
        ),
        (
            lambda x: vmap(lambda t: t + torch.rand(3), randomness="same")(x),
            poptorch.Error,
            "each element draws numbers of its own",
        ),
        (lambda x: torch.func.linearize(torch.sin, x)[1](x), poptorch.Error, "torch.func.linearize is not supported"),
        (lambda x: torch.func.functionalize(torch.sin)(x), poptorch.Error, "torch.func.functionalize is not supported"),
        (dual, poptorch.Error, "forward_ad.make_dual is not supported in forward. Use torch.func.jvp"),
        (lambda x: grad(torch.sin)(x), RuntimeError, "return a scalar Tensor"),
        (lambda x: vmap(torch.mul)(x, x[:2]), ValueError, "to have the same size in the mapped dimension"),
        (lambda x: vjp(g, x)[1](x), RuntimeError, None),
        (lambda x: jvp(g, x, x), RuntimeError, "Expected primals to be a tuple"),
        (lambda x: jvp(g, (x,), (x, x)), RuntimeError, "same python structure"),
        (lambda x: grad(lambda t: Once.apply(t).sum())(x), NotImplementedError, "backward or vjp method"),
        (lambda x: grad(lambda t: torch.special.i0(t).sum())(x), poptorch.Error, "i0"),
    ],
)
def test_what_transformations_refuse(forward, kind, text):
    with pytest.raises(kind, match=text):
        poptorch.inferenceModel(forward)(rows(3, 3))


class Once(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2


def test_random_operations_are_drawn_anew_for_each_element():
    def forward(x):
        return vmap(lambda t: t + torch.rand(8), randomness="different")(x)

    first, second = poptorch.inferenceModel(forward)(torch.zeros(2, 8))
    assert not torch.equal(first, second) and first.min() >= 0 and second.max() < 1


def test_torch_func_is_as_before_afterwards():
    poptorch.inferenceModel(lambda t: hessian(f)(t))(torch.ones(3))
    x = torch.ones(3)
    torch.testing.assert_close(grad(f)(x), x.cos() * x + x.sin())
    torch.testing.assert_close(vmap(f)(torch.eye(3)), torch.ones(3).sin())
