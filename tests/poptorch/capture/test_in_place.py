"""Writing in place in forward: what the gradient sees of it, and inputs that forward writes."""

import warnings

import pytest
import torch
import torch.nn.functional as F
from reference import compare_training
from torch import nn

import poptorch


class Layer(nn.Module):
    def __init__(self, write):
        super().__init__()
        self.fc = nn.Linear(4, 3)
        self.write = write

    def forward(self, x, y):
        return F.mse_loss(self.write(self.fc, x), y)


def clamped(fc, x):
    with torch.no_grad():
        fc.weight.clamp_(-0.3, 0.3)
    return fc(x)


def clamped_data(fc, x):
    fc.weight.data.clamp_(-0.3, 0.3)
    return fc(x)


def parts_written(fc, x):
    with torch.no_grad():
        fc.weight[0].mul_(0.5)
        fc.weight[:, 1].fill_(0.25)
        fc.weight.data[2, 2] = 0.0
    return fc(x)


def rounded(fc, x):
    out = fc(x)
    with torch.no_grad():
        out.mul_(8).round_().div_(8)
    return out * 2


def written_view(fc, x):
    out = fc(x)
    first = out[:, 0]
    with torch.no_grad():
        first.clamp_(min=0.0)
    return out + first.unsqueeze(1)


def written_with_gradient(fc, x):
    out = fc(x)
    out[:, 0].mul_(2.0)
    return out


def detached_copy(fc, x):
    out = fc(x)
    stopped = out.detach().clone()
    with torch.no_grad():
        stopped.mul_(2.0)
    return out * stopped


@pytest.mark.parametrize(
    "write", [clamped, clamped_data, parts_written, rounded, written_view, written_with_gradient, detached_copy]
)
def test_gradients_are_those_of_torch(write):
    compare_training(
        lambda: Layer(write),
        lambda count, generator: (torch.randn(5, 4, generator=generator), torch.randn(5, 3, generator=generator)),
        lambda net, optimizer: poptorch.trainingModel(
            net, poptorch.Options().outputMode(poptorch.OutputMode.All), optimizer
        ),
        lambda parameters: torch.optim.SGD(parameters, lr=0.05, momentum=0.5),
        1,
        1,
        8,
    )


class Doubling(nn.Module):
    def forward(self, x):
        x.mul_(2)
        return x, x + 1


@pytest.mark.parametrize("iterations", [1, 3])
def test_an_input_that_is_written_and_returned(iterations):
    model = poptorch.inferenceModel(Doubling(), poptorch.Options().deviceIterations(iterations))
    x = torch.arange(6.0 * iterations).view(2 * iterations, 3)
    expected = 2 * x
    same, more = model(x)
    assert torch.equal(x, expected)
    assert torch.equal(same, expected)
    assert torch.equal(more, expected + 1)


class DoublingNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, x):
        x.mul_(2)
        return x, F.mse_loss(self.fc(x), x)


def test_all_of_a_written_input_comes_back_whatever_the_output_mode():
    options = poptorch.Options()
    options.Training.gradientAccumulation(2)
    x = torch.randn(4, 3)
    expected = 2 * x
    returned, _ = poptorch.trainingModel(DoublingNet(), options)(x)
    assert torch.equal(x, expected)
    assert torch.equal(returned, expected[2:])  # output mode Final


def second_view(t, v):
    t[1][1] += v[0]
    return t


def chain(t, v):
    row = t[1]
    row[0] += v[0]
    row[2:][0] += v[1]
    row[0] *= 3
    t[0][1:][0].add_(v[0])
    return t, row * 1


def through_three(t, v):
    box = t.view(2, 3, 4)
    box[1][2][1:3] += v
    box[1][2] *= 2
    box[1].t()[3] -= 1
    return t, box[1] + 0


def slices(t, v):
    t[0:1] += v[0]
    part = t[1:5]
    part += 1
    part[1:3] *= 2
    part[1:3][0] -= v[1]
    return t


@pytest.mark.parametrize("write", [second_view, chain, through_three, slices])
@pytest.mark.edge("22.9")
def test_a_view_of_a_written_view_is_written(write):
    v = torch.tensor([0.5, 2.0])

    def function(x, v):
        return write(x * 1, v)

    x = torch.arange(24.0).view(6, 4)
    expected, actual = function(x, v), poptorch.inferenceModel(function)(x, v)
    for a, e in zip(*((r,) if torch.is_tensor(r) else r for r in (actual, expected)), strict=True):
        assert torch.equal(a, e)
    wanted = x.clone()
    write(wanted, v)
    poptorch.inferenceModel(lambda x, v: write(x, v))(x, v)  # the caller's tensor
    assert torch.equal(x, wanted)


@pytest.mark.parametrize("write", [second_view, chain, through_three, slices])
def test_gradients_through_views_of_written_views(write):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            self.x = nn.Parameter(torch.arange(24.0).view(6, 4) / 24)

        def forward(self, v):
            written = write(self.x * 1, v)
            total = sum((w * w).sum() for w in (written if isinstance(written, tuple) else (written,)))
            return poptorch.identity_loss(total, "none")

    net, v = Net(), torch.tensor([0.5, 2.0])
    net(v).backward()
    wanted = net.x.detach() - 0.1 * net.x.grad
    trainer = poptorch.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
    trainer(v)
    trainer.destroy()
    torch.testing.assert_close(net.x.detach(), wanted, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("shape", [(0,), (3,), (1, 3), (2, 2, 2), ()])
def test_out_takes_the_shape_of_the_result(shape):
    def function(a, b):
        result = torch.zeros(shape, device=a.device)
        returned = torch.matmul(a, b, out=result)
        return result, returned + 1, torch.tensor(list(result.shape), device=a.device)

    def resized(run):
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            results = run(a, b)
        return results, sum("An output with one or more elements was resized" in str(w.message) for w in caught)

    a, b = torch.randn(4), torch.randn(4, 3)
    (result, more, sizes), warned = resized(poptorch.inferenceModel(function))
    assert sizes.tolist() == [3]
    torch.testing.assert_close(result, a @ b)
    torch.testing.assert_close(more, a @ b + 1)
    assert warned == resized(function)[1]  # torch warns, or not


def test_the_callers_tensor_is_resized_too():
    run = poptorch.inferenceModel(lambda a, b, out: torch.mul(a, b, out=out))
    a, b = torch.randn(4, 1), torch.randn(4, 3)
    for out in (torch.zeros(2, 2, 2), torch.zeros(2, 2, 2)):
        torch.testing.assert_close(run(a, b, out), a * b)
        torch.testing.assert_close(out, a * b)


def test_a_write_through_an_expansion_reaches_the_tensor_unless_it_repeats_elements():
    def same(x):
        y = x + 1
        y.expand(2, 3).mul_(2)
        return y

    x = torch.arange(6.0).reshape(2, 3)
    assert torch.equal(poptorch.inferenceModel(same)(x), (x + 1) * 2)

    def repeated(x):
        y = x + 1
        y.expand(4, 2, 3).mul_(2)
        return y

    with pytest.raises(poptorch.Error, match="write through a view .*aten::expand makes a view that cannot be written"):
        poptorch.inferenceModel(repeated)(x)
