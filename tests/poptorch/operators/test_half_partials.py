"""Partial sums in float16, against the definition of docs/types.md written out: bit for bit, with gradients."""

import pytest
import torch
import torch.nn.functional as F
from models import Call

import poptorch

HALF = torch.float16


def summed(a, b, start=None):
    """start + a [M, K] @ b [K, N]: 16 products at a time in float32, the sum rounded to float16 between them."""
    total = torch.zeros(a.shape[0], b.shape[1]) if start is None else start.float()
    for first in range(0, a.shape[1], 16):
        for k in range(first, min(first + 16, a.shape[1])):
            total = total + a[:, k : k + 1].float() * b[k : k + 1].float()  # products of halves are exact
        total = total.half().float()
    return total.half()


def convolved(x, w, bias, stride, padding, dilation, groups):
    """A convolution in two dimensions, one product for each element of the kernel."""
    x = F.pad(x, (padding, padding, padding, padding))
    rows, columns = ((x.shape[2 + d] - dilation * (w.shape[2 + d] - 1) - 1) // stride + 1 for d in (0, 1))
    parts = []
    for inputs, weights in zip(x.chunk(groups, 1), w.chunk(groups, 0)):
        total = None
        for i in range(w.shape[2]):
            for j in range(w.shape[3]):
                seen = inputs[:, :, i * dilation :: stride, j * dilation :: stride][:, :, :rows, :columns]
                total = summed(seen.permute(0, 2, 3, 1).reshape(-1, seen.shape[1]), weights[:, :, i, j].t(), total)
        parts.append(total.reshape(len(x), rows, columns, -1).permute(0, 3, 1, 2))
    y = torch.cat(parts, 1)
    return y if bias is None else (y.float() + bias.float()[:, None, None]).half()


def options_of(dtype=HALF):
    options = poptorch.Options()
    options.Precision.setPartialsType(dtype)
    return options


def run(function, *inputs, dtype=HALF):
    model = poptorch.inferenceModel(Call(function), options_of(dtype))
    result = model(*inputs)
    model.destroy()
    return result


def halves(*shape):
    return torch.randn(*shape).half()


@pytest.mark.parametrize("k", [1, 16, 17, 100, 515])
@pytest.mark.shows("Options.Precision.setPartialsType")
def test_a_product_is_its_definition(k):
    torch.manual_seed(k)
    a, b = halves(37, k), halves(k, 70)
    y = run(torch.matmul, a, b)
    assert torch.equal(y, summed(a, b))
    wide = run(torch.matmul, a, b, dtype=torch.float)
    assert torch.equal(wide, poptorch.inferenceModel(Call(torch.matmul))(a, b))
    if k > 16:
        assert not torch.equal(y, wide)


def test_batches_and_transposed_operands():
    torch.manual_seed(1)
    a, b = halves(2, 3, 40, 5), halves(2, 3, 6, 40)
    y = run(lambda a, b: a.transpose(2, 3) @ b.transpose(2, 3), a, b)
    for i in range(2):
        for j in range(3):
            assert torch.equal(y[i, j], summed(a[i, j].t(), b[i, j].t()))


def test_a_sum_stops_growing_where_its_spacing_is_too_large():
    # 16 products add 1, half of the spacing of halves from 2048 on; a tie goes to the even neighbour.
    a, ones = torch.full((1, 16 * 3000), 1 / 16, dtype=HALF), torch.ones(16 * 3000, 1, dtype=HALF)
    assert run(torch.matmul, a, ones) == 2048
    assert run(torch.matmul, a, ones, dtype=torch.float) == 3000


class Layers(torch.nn.Module):
    """out = second(first(x)); the loss is the sum of out * upstream, so that `upstream` is the gradient of out."""

    def __init__(self, first, second):
        super().__init__()
        self.first, self.second = first.half(), second.half()

    def forward(self, x, upstream):
        out = self.second(self.first(x))
        return out, poptorch.identity_loss((out.float() * upstream.float()).sum(), reduction="none")


def gradients_of(model, x, upstream):
    options = options_of()
    names = [name for name, _ in model.named_parameters()]
    for name in names:
        options.anchorTensor(name, f"Gradient___{name}")
    trainer = poptorch.trainingModel(model, options, poptorch.optim.SGD(model.parameters(), lr=0.0))
    out, _ = trainer(x, upstream)
    gradients = {name: trainer.getAnchoredTensor(name) for name in names}
    trainer.destroy()
    return out, gradients


def test_linear_layers_and_their_gradients():
    torch.manual_seed(2)
    model = Layers(torch.nn.Linear(50, 40), torch.nn.Linear(40, 30))
    w1, b1, w2, b2 = (p.detach().clone() for p in model.parameters())
    x, upstream = halves(2, 35, 50), halves(2, 35, 30)
    out, gradients = gradients_of(model, x, upstream)
    rows = x.reshape(-1, 50)
    hidden = (summed(rows, w1.t()).float() + b1.float()).half()
    assert torch.equal(out.reshape(-1, 30), (summed(hidden, w2.t()).float() + b2.float()).half())
    above = upstream.reshape(-1, 30)
    assert torch.equal(gradients["second.weight"], summed(above.t(), hidden))
    assert torch.equal(gradients["first.weight"], summed(summed(above, w2).t(), rows))


GEOMETRY = {
    "plain": {"stride": 1, "padding": 0, "dilation": 1, "groups": 1},
    "strided and padded": {"stride": 2, "padding": 1, "dilation": 1, "groups": 1},
    "dilated groups": {"stride": 1, "padding": 2, "dilation": 2, "groups": 4},
}


@pytest.mark.parametrize("name", GEOMETRY)
def test_convolutions_and_their_gradients(name):
    torch.manual_seed(3)
    geometry = GEOMETRY[name]
    first, second = torch.nn.Conv2d(20, 20, 3, **geometry), torch.nn.Conv2d(20, 24, 3, **geometry)
    model = Layers(first, second)
    x = halves(2, 20, 11, 10)
    hidden = convolved(x, first.weight.detach(), first.bias.detach(), **geometry)
    expected = convolved(hidden, second.weight.detach(), second.bias.detach(), **geometry)
    upstream = halves(*expected.shape)
    out, gradients = gradients_of(model, x, upstream)
    assert torch.equal(out, expected)
    # The same convolutions in f64: of the order of the rounding of a partial sum, not of f32.
    wide = [p.detach().double().requires_grad_() for p in (first.weight, second.weight)]
    middle = F.conv2d(x.double(), wide[0], first.bias.detach().double(), **geometry)
    F.conv2d(middle, wide[1], second.bias.detach().double(), **geometry).backward(upstream.double())
    for got, reference in ((gradients["first.weight"], wide[0].grad), (gradients["second.weight"], wide[1].grad)):
        error = (got.double() - reference).abs().max() / reference.abs().max()
        assert 1e-5 < error < 2e-2, error
    # The gradient of the last weight has a short definition: positions of all images, in order.
    padded = F.pad(hidden, (geometry["padding"],) * 4)
    rows, columns = expected.shape[2:]
    per = 24 // geometry["groups"], 20 // geometry["groups"]
    for group in range(geometry["groups"]):
        above = upstream[:, group * per[0] : (group + 1) * per[0]].permute(1, 0, 2, 3).reshape(per[0], -1)
        for i in range(3):
            for j in range(3):
                seen = padded[:, group * per[1] : (group + 1) * per[1], i * geometry["dilation"] :: geometry["stride"]][
                    ..., j * geometry["dilation"] :: geometry["stride"]
                ][:, :, :rows, :columns]
                seen = seen.permute(0, 2, 3, 1).reshape(-1, per[1])
                got = gradients["second.weight"][group * per[0] : (group + 1) * per[0], :, i, j]
                assert torch.equal(got, summed(above, seen))


def test_one_dimension_and_transposed_convolutions():
    torch.manual_seed(4)
    x, w, back = halves(2, 33, 20), halves(8, 33, 3), halves(33, 8, 3)
    y = run(lambda x, w: F.conv1d(x, w, padding=1), x, w)
    expected = convolved(F.pad(x, (1, 1))[:, :, None], w[:, :, None], None, 1, 0, 1, 1)
    assert torch.equal(y, expected[:, :, 0])
    # What a transposed convolution adds up is the input gradient of a convolution: kernel elements in order.
    y = run(lambda x, w: F.conv_transpose1d(x, w, stride=2), x, back)
    total = torch.zeros(2, 8, 41, dtype=HALF)
    for i in range(3):
        region = total[:, :, i : i + 39 : 2]
        product = summed(x.permute(0, 2, 1).reshape(-1, 33), back[:, :, i], region.permute(0, 2, 1).reshape(-1, 8))
        total[:, :, i : i + 39 : 2] = product.reshape(2, 20, 8).permute(0, 2, 1)
    assert torch.equal(y, total)


def test_the_two_kinds_are_chosen_apart():
    torch.manual_seed(5)
    x, w = halves(1, 64, 4, 4), halves(64, 64, 1, 1)

    def both(x, w):
        return F.conv2d(x, w), x.reshape(64, 16).t() @ w.reshape(64, 64).t()

    plain = poptorch.inferenceModel(Call(both))(x, w)
    for option, value, index in (
        ("partialsTypeMatMuls", "half", 1),
        ("convolutionOptions", {"partialsType": "half"}, 0),
    ):
        options = poptorch.Options()
        options._Popart.set(option, value)
        results = poptorch.inferenceModel(Call(both), options)(x, w)
        assert [torch.equal(a, b) for a, b in zip(results, plain)] == [index != 0, index != 1]


def test_convolutions_of_a_multi_conv_have_their_own():
    torch.manual_seed(6)
    x, w = halves(1, 64, 4, 4), halves(64, 64, 1, 1)

    def pair(types):
        def function(x, w):
            with poptorch.MultiConv().partialsTypes(types):
                return F.conv2d(x, w), F.conv2d(x, w)

        return function

    narrow, wide = convolved(x, w, None, 1, 0, 1, 1), poptorch.inferenceModel(Call(F.conv2d))(x, w)
    assert not torch.equal(narrow, wide)
    for types, expected, dtype in (
        ([HALF, torch.float], (narrow, wide), torch.float),
        (HALF, (narrow, narrow), torch.float),
        (torch.float, (wide, wide), HALF),
    ):
        assert all(torch.equal(a, b) for a, b in zip(run(pair(types), x, w, dtype=dtype), expected))


def test_half_partial_sums_do_not_change_float32_products():
    a, b = torch.randn(30, 50), torch.randn(50, 20)
    assert torch.equal(run(torch.matmul, a, b), run(torch.matmul, a, b, dtype=torch.float))


def test_keep_precision_sums_slices_of_a_product_in_float32():
    torch.manual_seed(7)
    a, b = halves(20, 256), halves(256, 30)
    mode = poptorch.MatMulSerializationMode.ReducingDim
    exact = a.double() @ b.double()

    def product(keep):
        return run(lambda a, b: poptorch.serializedMatMul(a, b, mode, 8, keep), a, b, dtype=torch.float)

    kept = product(True)
    # One rounding to float16 of sums in float32, in whatever order the slices come.
    assert kept.dtype == HALF
    assert ((kept.double() - exact).abs() <= exact.abs() * 2**-11 * 1.01 + 1e-5).all()
    assert (product(False).double() - exact).abs().mean() > 1.2 * (kept.double() - exact).abs().mean()
