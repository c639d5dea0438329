"""Infinities, NaN and zeros of both signs in what looks at many elements, in float32 and float16, against PyTorch."""

import functools
import itertools
import math

import pytest
import torch
from torch.nn import functional

import poptorch

INF, NAN = math.inf, math.nan
SPECIAL = (INF, -INF, NAN, 0.0, -0.0)
LEVELS = (0.0, 0.3, 0.5, 1.0)

# Of a matrix along its last dimension, or of all its elements.
ALONG = {
    "sum": lambda x: x.sum(-1),
    "mean": lambda x: x.mean(-1),
    "nansum": lambda x: x.nansum(-1),
    "nanmean": lambda x: x.nanmean(-1),
    "prod": lambda x: x.prod(-1),
    "max": lambda x: x.max(-1),
    "min": lambda x: x.min(-1),
    "amax": lambda x: x.amax(-1),
    "amin": lambda x: x.amin(-1),
    "aminmax": lambda x: x.aminmax(dim=-1),
    "argmax": lambda x: x.argmax(-1),
    "argmin": lambda x: x.argmin(-1),
    "all": lambda x: x.all(-1),
    "any": lambda x: x.any(-1),
    "count_nonzero": lambda x: x.count_nonzero(-1),
    "var": lambda x: x.var(-1),
    "std": lambda x: x.std(-1, unbiased=False),
    "median": lambda x: x.median(-1),
    "nanmedian": lambda x: x.nanmedian(-1).values,
    "kthvalue": lambda x: [x.kthvalue(k, -1).values for k in (1, 3, 5)],
    "sort": lambda x: torch.sort(x, dim=-1, stable=True),
    "sort, descending": lambda x: torch.sort(x, dim=-1, stable=True, descending=True),
    "argsort": lambda x: torch.argsort(x, dim=-1, stable=True),
    "topk": lambda x: x.topk(3, -1).values,
    "topk, smallest": lambda x: x.topk(3, -1, largest=False).values,
    "topk, unsorted": lambda x: x.topk(3, -1, sorted=False).values.sort(-1).values,
    "quantile": lambda x: x.float().quantile(torch.tensor(LEVELS), -1),
    "nanquantile": lambda x: x.float().nanquantile(torch.tensor(LEVELS), -1),
    **{
        f"quantile, {how}": functools.partial(lambda how, x: x.float().quantile(0.3, -1, interpolation=how), how)
        for how in ("lower", "higher", "midpoint", "nearest")
    },
    "cumsum": lambda x: x.cumsum(-1),
    "cumprod": lambda x: x.cumprod(-1),
    "logsumexp": lambda x: x.logsumexp(-1),
    "softmax": lambda x: x.softmax(-1),
    "log_softmax": lambda x: x.log_softmax(-1),
    "softmin": lambda x: functional.softmin(x, -1),
    **{
        f"norm {p}": functools.partial(lambda p, x: torch.linalg.vector_norm(x, p, -1), p)
        for p in (0, 0.5, 1, 2, 3, INF, -INF, -1, -2)
    },
    "normalize": lambda x: functional.normalize(x, dim=-1),
    "layer_norm": lambda x: functional.layer_norm(x, x.shape[-1:]),
    "rms_norm": lambda x: functional.rms_norm(x, x.shape[-1:], eps=1e-5),
    "maximum": lambda x: torch.maximum(x, x.flip(-1)),
    "minimum": lambda x: torch.minimum(x, x.flip(-1)),
    "fmax": lambda x: torch.fmax(x, x.flip(-1)),
    "clamp": lambda x: x.clamp(-1.0, 1.0),
    "clamp by tensors": lambda x: torch.clamp(x, x.flip(-1), x.roll(1, -1)),
    "clamp by a tensor": lambda x: torch.clamp(x, min=x.flip(-1)),
    "max_pool": lambda x: functional.max_pool1d(x[None], 2, 1),
    "avg_pool": lambda x: functional.avg_pool1d(x[None], 2, 1),
}
OF_ALL = {
    "sum": torch.sum,
    "mean": torch.mean,
    "nansum": torch.nansum,
    "prod": torch.prod,
    "max": torch.max,
    "min": torch.min,
    "argmax": torch.argmax,
    "argmin": torch.argmin,
    "aminmax": torch.aminmax,
    "median": torch.median,
    "nanmedian": torch.nanmedian,
    "std": torch.std,
    "norm": torch.norm,
    "all": torch.all,
    "any": torch.any,
    "count_nonzero": torch.count_nonzero,
    "quantile": lambda x: x.float().quantile(0.3),
}


def matrix(dtype):
    """Five elements a row: each pair of special values among ordinary ones, one alone, all the same, ties."""
    rows = [[a, 1.5, b, -2.0, 0.25] for a, b in itertools.product(SPECIAL, repeat=2)]
    rows += [[1.0, 2.0, value, 3.0, -1.0] for value in SPECIAL] + [[value] * 5 for value in SPECIAL]
    rows += [[a, a, b, a, b] for a, b in itertools.permutations(SPECIAL, 2)]
    return torch.tensor(rows, dtype=dtype)


def lists(results):
    return [list(r) if isinstance(r, (tuple, list)) else [r] for r in results]


class Along(torch.nn.Module):
    def forward(self, x):
        return sum(lists(function(x) for function in ALONG.values()), [])


class OfAll(torch.nn.Module):
    def forward(self, x):
        rows = [*x[:15], *x[25:35]]
        return sum(lists(function(row) for function in OF_ALL.values() for row in rows), [])


@functools.cache
def results(model, dtype):
    """By the name of the operator: (ours, PyTorch's) of each of its results."""
    x = matrix(dtype)
    ours, theirs = poptorch.inferenceModel(model())(x), model()(x)
    table = ALONG if model is Along else OF_ALL
    rows = [x] if model is Along else [*x[:15], *x[25:35]]
    pairs = iter(zip(ours, theirs, strict=True))
    return {
        name: list(itertools.islice(pairs, sum(map(len, lists(function(row) for row in rows)))))
        for name, function in table.items()
    }


@pytest.mark.parametrize("dtype", [torch.float32, torch.float16], ids=str)
@pytest.mark.parametrize(
    "model, name", [(Along, n) for n in ALONG] + [(OfAll, n) for n in OF_ALL], ids=lambda v: getattr(v, "__name__", v)
)
def test_special_values_give_what_torch_gives(model, name, dtype):
    bound = 1e-5 if dtype == torch.float32 else 2e-3
    for ours, theirs in results(model, dtype)[name]:
        torch.testing.assert_close(ours, theirs, rtol=bound, atol=bound, equal_nan=True, check_dtype=False)


class MedianGradient(torch.nn.Module):
    def forward(self, x):
        x = x.clone().requires_grad_()
        return [torch.autograd.grad(x[i].median(), x)[0][i] for i in range(len(x))]


def test_a_median_shares_its_gradient_between_its_equals():
    x = torch.tensor([[1, INF, INF], [-INF, 1, -INF], [INF] * 3, [-2, -2, 5], [3, 1, 2], [0, -0.0, 0]])
    for ours, theirs in zip(poptorch.inferenceModel(MedianGradient())(x), MedianGradient()(x), strict=True):
        assert torch.equal(ours, theirs)


def test_the_gradient_of_an_angle_at_the_origin_is_zero():
    class Angle(torch.nn.Module):
        def forward(self, x):
            x = x.clone().requires_grad_()
            return torch.autograd.grad(torch.atan2(x[0], x[1]).sum(), x)[0]

    x = torch.tensor([[0.0, 1.0, -0.0], [0.0, 0.0, 2.0]])
    assert torch.equal(poptorch.inferenceModel(Angle())(x), Angle()(x))
