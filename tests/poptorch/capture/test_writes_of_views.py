"""Writes through chains of views, results given to out=, inputs that change their shape: what torch does."""

import warnings

import pytest
import torch
from models import Call
from torch import nn

import poptorch


def same(function, *inputs):
    """`function` on copies of `inputs`, on the IPU and in torch: results and inputs are equal afterwards."""
    ours, theirs = ([x.clone() for x in inputs] for _ in range(2))
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # of out= that is resized
        expected = function(*theirs)
        actual = poptorch.inferenceModel(Call(function))(*ours)
    torch.testing.assert_close(actual, expected, rtol=1e-6, atol=1e-6)
    for mine, wanted in zip(ours, theirs, strict=True):
        assert mine.shape == wanted.shape
        torch.testing.assert_close(mine, wanted, rtol=1e-6, atol=1e-6)


def steps(*lines):
    """A function of `t` that runs these statements and returns `t`."""

    def function(t):
        names = {"t": t, "torch": torch, "v": torch.ones((), dtype=t.dtype, device=t.device) * 3}
        for line in lines:
            exec(line, names)
        return t + 0

    return function


CHAINS = [
    ("t[1][1] += 1",),
    ("t[1][1][2] += 1",),
    ("t[1][2] += v",),
    ("t[1][3][0] += v",),
    ("t[0:1] += v",),
    ("t[0:2][1][1:3] *= 2",),
    ("t[:, 1][1] -= 1", "t[1][:, 2] += 4"),
    ("t.select(0, 1).narrow(1, 1, 2).select(0, 2).fill_(5)",),
    ("t[1].diagonal().add_(1)",),
    ("t[1].diagonal(1)[1] += 2",),
    ("t.diagonal(0, 1, 2)[1].mul_(3)",),
    ("t[1].t()[2] += 1",),
    ("t.transpose(0, 2)[1][2] += 1",),
    ("t.permute(2, 0, 1)[3][1][0:2] += 1",),
    ("t.view(2, 4, 2, 2)[1][1][1] += 1",),
    ("t.view(-1)[5:9] += 1", "t.view(-1)[6:7][0] += 1"),
    ("t.flatten(1)[1][3:5] += 1",),
    ("t.unsqueeze(0)[0][1][1] += 1",),
    ("t[1:].squeeze(0)[2] += 1",),
    ("t.unfold(2, 2, 2)[1][0][1] += 1",),
    ("t.unfold(2, 2, 2).select(0, 1).add_(2)",),
    ("t[..., ::2][1][1] += 1",),
    ("t[1, ::2][1, 1:] += 1",),
    ("t.split(2, 1)[1][0][1] += 1",),
    ("t.chunk(2, 2)[0][1][1] += 1",),
    ("t.unbind(0)[1][2] += 1",),
    ("t.as_strided((2, 3), (16, 1), 4)[1][0:2] += 1",),
    ("t.swapaxes(1, 2).movedim(2, 0)[0][1] += 1",),
    ("t.expand(2, 4, 4)[1][1] += 1",),
    ("a = t[1]", "b = a[1]", "b += 1", "a[1] = b", "t[1] = a"),
    ("a = t[1]", "a += 1", "b = a[2]", "b *= 2", "c = b[1:3]", "c -= 1", "a[0] = c.sum()"),
    ("a = t[1]", "t += 1", "b = a[2]", "b *= 2", "t *= 2", "b += a[1]"),
    ("a = t.detach()[1]", "a[2] += 1", "a.detach()[1] += 1"),
    ("a = t.data[1]", "a[2] += 1", "a.data[1][2] += 1"),
    ("t[1][1].copy_(t[0][2])", "t[0][0][1:3] = t[1][1][2:]"),
    ("t[1][t[1] > 0] = 0",),
    ("t[1][2].index_fill_(0, torch.tensor([1, 3], device=t.device), 7)",),
    ("t[1].masked_fill_(t[0] > 0, 2)", "t[1][2] += 1"),
    ("t[1].zero_()", "t[1][2].fill_(2)"),
    ("t[1].view(4, 4).t().contiguous()[1] += 1", "t[0].T[1] += 1"),
    ("torch.add(t[0], 1, out=t[1])", "torch.mul(t[0][1], 2, out=t[1][2])"),
    ("t.real[1][1] += 1",),
    ("t[1].ravel()[3] += 1",),
    ("t.unflatten(1, (2, 2))[1][1][0] += 1",),
    ("t.tensor_split(2, 1)[1][1] += 1",),
    ("t.hsplit(2)[1][1][0] += 1", "t.dsplit(2)[0][0] += 1", "t.vsplit(2)[1][0][1] += 1"),
    ("t.view_as(t)[1][1] += 1",),
    ("t[None][0][1][1] += 1", "t[1, None, 2][0][1] += 1"),
    ("t[1].mT[1] += 1", "t.mT[0][1] += 1"),
    ("t.squeeze()[1].unsqueeze(1)[2][0] += 1",),
    ("t.narrow(0, 1, 1)[0].unsqueeze(-1).transpose(0, 2)[0][1] += 1",),
]


@pytest.mark.parametrize("lines", CHAINS, ids="; ".join)
@pytest.mark.parametrize("dtype", [torch.float32, torch.int32])
def test_a_write_through_a_chain_of_views_reaches_what_it_views(lines, dtype):
    t = torch.arange(32.0).view(2, 4, 4).sub(7).to(dtype)
    same(steps(*lines), t)
    same(lambda t: steps(*lines)(t * 1), t)


class Written(nn.Module):
    def __init__(self, lines):
        super().__init__()
        self.weight = nn.Parameter(torch.arange(32.0).view(2, 4, 4) / 8)
        self.lines = lines

    def forward(self, x):
        t = steps(*self.lines)(self.weight * x)
        return poptorch.identity_loss((t * t).sum(), "none")


class Buffered(nn.Module):
    def __init__(self, lines):
        super().__init__()
        self.register_buffer("t", torch.arange(32.0).view(2, 4, 4))
        self.lines = lines

    def forward(self, x):
        return steps(*self.lines)(self.t) * x


# torch writes no view of several that one call gave, and no out=, where gradients are wanted.
WITHOUT_GRADIENT = ("out=", "split(", "chunk(", "unbind(")


@pytest.mark.parametrize("lines", [c for c in CHAINS if not any(w in c[0] for w in WITHOUT_GRADIENT)], ids="; ".join)
def test_gradients_through_chains_of_views_are_those_of_torch(lines):
    model, x = Written(lines), torch.tensor([1.5])
    model(x).backward()
    wanted = model.weight.detach() - 0.1 * model.weight.grad
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer(x)
    trainer.destroy()
    torch.testing.assert_close(model.weight.detach(), wanted, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("lines", CHAINS, ids="; ".join)
def test_buffers_are_written_through_chains_of_views(lines):
    ours, theirs, x = Buffered(lines), Buffered(lines), torch.tensor([2.0])
    model = poptorch.inferenceModel(ours)
    for _ in range(2):
        torch.testing.assert_close(model(x), theirs(x))
    model.copyWeightsToHost() if hasattr(model, "copyWeightsToHost") else None
    model.detachFromDevice()
    torch.testing.assert_close(ours.t, theirs.t)


RESIZED = {
    "grown": lambda a, b: torch.add(a, b, out=torch.empty(0, device=a.device)),
    "shrunk": lambda a, b: torch.add(a, b, out=torch.empty(7, 9, device=a.device)),
    "rank": lambda a, b: torch.mul(a, b, out=torch.empty(12, device=a.device)),
    "matmul": lambda a, b: torch.matmul(a[0], b.t(), out=torch.empty(1, 3, device=a.device)),
    "matmul [n]": lambda a, b: torch.matmul(a[0], b.t(), out=torch.empty(3, device=a.device)),
    "tuple": lambda a, b: torch.max(a, 1, out=(torch.empty(0, device=a.device), torch.empty(0, device=a.device).long()))[0],
    "computed": lambda a, b: torch.sum(a, 1, out=a * b),
    "written": lambda a, b: torch.sum(a, 1, out=a.clone().add_(1)),
    "cat": lambda a, b: torch.cat([a, b], out=torch.zeros(1, device=a.device)),
}


@pytest.mark.parametrize("name", RESIZED)
def test_out_of_another_shape_is_resized(name):
    same(RESIZED[name], torch.randn(3, 4), torch.randn(3, 4))


def viewed_before(a, b):
    out = a * 1
    view = out.view(-1)
    torch.sum(a, 1, out=out)
    return out, view


def viewed_before_and_grown(a, b):
    out = a * 1
    view, row = out.view(4, 3), out[1]
    torch.cat([a, b], out=out)
    out[1] += 1
    return out, view, row


def row_written_after(a, b):
    out = a * 1
    row = out[0]
    torch.cat([a, b], 1, out=out)
    row.fill_(7)
    return out, row


def alias_before(a, b):
    out = a * 1
    other = out.detach()
    torch.mul(a, b[:2, :2].sum(), out=out)
    torch.sum(a, 0, out=out)
    return out, other


def known_on_the_host(a, b):
    out = torch.zeros(2, 2, device=a.device)
    row = out[1]
    torch.add(a, b, out=out)
    return out, row


@pytest.mark.parametrize(
    "function", [viewed_before, viewed_before_and_grown, row_written_after, alias_before, known_on_the_host]
)
def test_views_of_what_out_resizes_see_its_memory(function):
    same(function, torch.randn(3, 4), torch.randn(3, 4))


def test_an_input_given_to_out_is_resized_for_the_caller():
    same(lambda a, b, out: torch.matmul(a, b, out=out), torch.randn(4), torch.randn(4, 3), torch.zeros(1, 3))
    same(lambda a, b, out: torch.add(a, b, out=out), torch.randn(4), torch.randn(4), torch.zeros(2))


def messages(function, *inputs):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        function(*inputs)
    return [str(w.message).partition(" (Triggered")[0] for w in caught if "resized" in str(w.message)]


@pytest.mark.parametrize("shape", [(0,), (1, 0), (3, 4), (2, 2)])
def test_resizing_warns_when_torch_does(shape):
    def function(a, b):
        return torch.add(a, b, out=torch.zeros(shape, device=a.device))

    inputs = torch.randn(3, 4), torch.randn(3, 4)
    model = poptorch.inferenceModel(Call(function))
    assert messages(model, *inputs) == messages(function, *inputs)


@pytest.mark.parametrize(
    "function",
    [
        lambda a, b: torch.add(a, b, out=torch.zeros(3, 4, dtype=torch.int32, device=a.device)),
        lambda a, b: (a > 0).add_(b),
        lambda a, b: a.int().clamp_(min=-4.5),
        lambda a, b: a.int().div_(2),
    ],
)
def test_a_result_that_does_not_fit_the_type_of_its_target_is_refused_as_in_torch(function):
    inputs = torch.randn(3, 4), torch.randn(3, 4)
    message = "result type Float can't be cast to the desired output type"
    with pytest.raises(RuntimeError, match=message):
        function(*inputs)
    with pytest.raises(poptorch.Error, match=message):
        poptorch.inferenceModel(Call(function))(*inputs)


MOVES = {
    "squeeze_": lambda x: x.squeeze_(),
    "squeeze_ dim": lambda x: x.squeeze_(1),
    "unsqueeze_": lambda x: x.unsqueeze_(0),
    "unsqueeze_ last": lambda x: x.unsqueeze_(-1),
    "transpose_": lambda x: x.transpose_(0, 2),
    "swapaxes_": lambda x: x.swapaxes_(1, 2),
    "twice": lambda x: x.squeeze_().t_().unsqueeze_(1),
    "and back": lambda x: x.transpose_(0, 2).transpose_(0, 2),
}


@pytest.mark.parametrize("write", [False, True])
@pytest.mark.parametrize("name", MOVES)
def test_the_caller_sees_the_shape_that_forward_gives_an_input(name, write):
    def function(x):
        if write:
            x.add_(1)
        y = MOVES[name](x)
        if write:
            y.mul_(2)
        return x * 2

    same(function, torch.randn(3, 1, 4))
    base = torch.randn(4, 2, 1, 3)  # an input that is not contiguous
    mine, theirs = (base.clone().permute(3, 2, 0, 1)[..., 0] for _ in range(2))
    expected = function(theirs)
    torch.testing.assert_close(poptorch.inferenceModel(Call(function))(mine), expected)
    assert mine.shape == theirs.shape
    assert [s for s, n in zip(mine.stride(), mine.shape) if n > 1] == [s for s, n in zip(theirs.stride(), theirs.shape) if n > 1]
    torch.testing.assert_close(mine, theirs)


def test_parts_of_an_input_change_their_shape_and_the_whole_does_not():
    model = poptorch.inferenceModel(Call(lambda x: x.squeeze_(1) * 2), poptorch.Options().deviceIterations(3))
    x = torch.randn(6, 1, 4)
    assert torch.equal(model(x), x.squeeze(1) * 2)
    assert x.shape == (6, 1, 4)


@pytest.mark.parametrize("change", [lambda x: setattr(x, "data", x * 2), lambda x: x.as_strided_((2,), (1,))])
def test_an_input_that_becomes_other_memory_is_an_error(change):
    def function(x):
        change(x)
        return x * 2

    with pytest.raises(poptorch.Error, match="other memory of an input"):
        poptorch.inferenceModel(Call(function))(torch.randn(2, 3))


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
def test_bucketize_searches_as_torch_also_where_boundaries_are_not_sorted(right, dtype):
    generator = torch.Generator().manual_seed(3)
    for n in (0, 1, 2, 5, 8, 33):
        x = (torch.randn(40, generator=generator) * 4).to(dtype)
        boundaries = (torch.randn(n, generator=generator) * 4).to(dtype)
        for given in (boundaries, boundaries.sort()[0], boundaries.sort(descending=True)[0]):
            ours = poptorch.inferenceModel(Call(lambda x, b=given: torch.bucketize(x, b, right=right)))(x)
            assert torch.equal(ours.long(), torch.bucketize(x, given, right=right))


@pytest.mark.parametrize("dtype", [torch.int32, torch.int64, torch.int16, torch.uint8, torch.int8])
@pytest.mark.parametrize("bounds", [(-4.5, None), (None, 2.5), (-1.5, 2.5), (-2, 3.5), (-2, 3), (0, None), (True, 2.0)])
def test_a_float_bound_makes_integers_floats(dtype, bounds):
    if dtype == torch.uint8 and any(isinstance(b, int) and b < 0 for b in bounds):
        pytest.skip("torch makes another number of a negative bound")
    x = torch.arange(-8, 8).clamp(0 if dtype == torch.uint8 else -8, 8).to(dtype)
    expected = torch.clamp(x, *bounds)
    actual = poptorch.inferenceModel(Call(lambda x: torch.clamp(x, *bounds)))(x)
    assert actual.dtype == (torch.int32 if expected.dtype == torch.int64 else expected.dtype)
    assert torch.equal(actual.to(expected.dtype), expected)
    for function in (torch.clamp_min, torch.clamp_max):
        bound = bounds[0] if bounds[0] is not None else bounds[1]
        expected = function(x, bound)
        assert torch.equal(poptorch.inferenceModel(Call(lambda x: function(x, bound)))(x).to(expected.dtype), expected)


@pytest.mark.parametrize(
    "drop",
    [
        lambda x: torch.nn.functional.dropout(x, 0.5, training=False),
        lambda x: torch.nn.functional.dropout(x, 0.0, training=True),
        lambda x: torch.nn.functional.dropout2d(x, 0.0),
    ],
)
def test_dropout_that_drops_nothing_gives_its_input_itself(drop):
    def forward(x):
        x = x * 1
        drop(x).add_(1)
        return x

    x = torch.randn(2, 3, 4, 5)
    torch.testing.assert_close(poptorch.inferenceModel(Call(forward))(x), x + 1)


def test_a_composite_operator_writes_its_out_tensor_through_a_view():
    def forward(x, y):
        out = torch.empty(0, device=x.device)
        torch.kron(x, y, out=out)
        return out

    x, y = torch.randn(2, 3), torch.randn(4, 2)
    torch.testing.assert_close(poptorch.inferenceModel(Call(forward))(x, y), torch.kron(x, y))
