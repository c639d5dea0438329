"""beta * input + alpha * product: a factor of 0 ignores what it is of, NaN and infinity included, as in torch."""

import pytest
import torch
from models import Call

import poptorch

G = torch.Generator().manual_seed(1)
SHAPES = {
    "addmm": ((3, 5), (3, 4), (4, 5)),
    "addmv": ((3,), (3, 4), (4,)),
    "baddbmm": ((2, 3, 5), (2, 3, 4), (2, 4, 5)),
    "addbmm": ((3, 5), (2, 3, 4), (2, 4, 5)),
    "addr": ((3, 5), (3,), (5,)),
}


def tensors(name, bad=None):
    values = [torch.randn(shape, generator=G) for shape in SHAPES[name]]
    if bad is not None:
        values[bad].view(-1)[1] = float("nan")
        values[bad].view(-1)[2] = float("inf")
    return values


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("factors", [(1, 1), (0.5, 2), (0, 1), (0, 3), (1, 0), (2, 0), (0, 0)])
@pytest.mark.parametrize("bad", [None, 0, 1, 2])
def test_values_are_those_of_torch(name, factors, bad):
    beta, alpha = factors
    function = getattr(torch, name)
    values = tensors(name, bad)
    expected = function(*values, beta=beta, alpha=alpha)
    if (
        name == "baddbmm" and alpha == 0
    ):  # torch multiplies small batches and hands large ones to a library that does not
        expected = function(values[0], *tensors(name)[1:], beta=beta, alpha=alpha)
    actual = poptorch.inferenceModel(Call(lambda *v: function(*v, beta=beta, alpha=alpha)))(*values)
    torch.testing.assert_close(actual, expected, rtol=1e-4, atol=1e-5, equal_nan=True)


@pytest.mark.parametrize("name", ["addmm", "addmv"])
def test_a_narrow_input_is_broadcast(name):
    _, a, b = tensors(name)
    function, bias = getattr(torch, name), torch.randn(1)
    for factors in ({}, {"alpha": 0}, {"beta": 0}):
        actual = poptorch.inferenceModel(Call(lambda *v, f=factors: function(*v, **f)))(bias, a, b)
        torch.testing.assert_close(actual, function(bias, a, b, **factors), rtol=1e-4, atol=1e-5)


class Trained(torch.nn.Module):
    def __init__(self, name, factors):
        super().__init__()
        self.values = torch.nn.ParameterList([torch.nn.Parameter(v) for v in tensors(name)])
        self.function, self.factors = getattr(torch, name), factors

    def forward(self, x):
        beta, alpha = self.factors
        y = self.function(*self.values, beta=beta, alpha=alpha)
        return poptorch.identity_loss((y * y).sum() * x.sum() + sum(v.sum() for v in self.values), "none")


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("factors", [(0.5, 2), (0, 1), (1, 0)])
def test_gradients_are_those_of_torch(name, factors):
    model = Trained(name, factors)
    model(torch.ones(1)).backward()
    wanted = [v.detach() - 0.1 * v.grad for v in model.values]
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer(torch.ones(1))
    trainer.destroy()
    for value, expected in zip(model.values, wanted, strict=True):
        torch.testing.assert_close(value.detach(), expected, rtol=1e-3, atol=1e-4)
