"""Writing and reading by index, sorting, windows and resizing: values and gradients through the whole compiler."""

import pytest
import torch
import torch.nn.functional as F
from torch import nn
from models import Call

import poptorch


class Trained(nn.Module):
    """The function of a parameter, and a loss that weighs its results differently."""

    def __init__(self, function, start):
        super().__init__()
        self.start = nn.Parameter(start.clone())
        self.function = function

    def forward(self, *inputs):
        results = self.function(self.start * 1.0, *inputs)
        results = results if isinstance(results, tuple) else (results,)
        total = sum(
            (r * torch.arange(r.numel(), device=r.device).view(r.shape).cos()).sum()
            for r in results
            if r.is_floating_point()
        )
        return poptorch.identity_loss(total, "none")


def assigned(x, index, v):
    x = x.clone()
    x[index] = v
    return x


def assigned_columns(x, rows, columns, v):
    x = x.clone()
    x[rows, columns] = v
    return x


def masked(x):
    x = x.clone()
    x[x > 0] = 2.5
    return x


def i(*values):
    return torch.tensor(values)


X = torch.randn(4, 6, generator=torch.Generator().manual_seed(1))
Y = torch.randn(4, 6, generator=torch.Generator().manual_seed(2))
WHERE = torch.randint(0, 4, (4, 6), generator=torch.Generator().manual_seed(3))
ORDER = torch.stack([torch.randperm(4, generator=torch.Generator().manual_seed(k)) for k in range(6)], 1)
KNOWN = torch.randint(0, 2, (4, 6), generator=torch.Generator().manual_seed(7)).bool()
IMAGE = torch.randn(2, 3, 6, 8, generator=torch.Generator().manual_seed(4))
VOLUME = torch.randn(1, 4, 4, 5, 6, generator=torch.Generator().manual_seed(5))
CASES = {
    "scatter": (lambda x, k, y: x.scatter(0, k, y), X, ORDER, Y),
    "scatter a number": (lambda x, k: x.scatter(0, k, 2.0), X, WHERE),
    "scatter in place": (lambda x, k, y: x.clone().scatter_(0, k, y), X, ORDER, Y),
    "scatter, mean": (lambda x, k, y: x.scatter_reduce(0, k, y, "mean"), X, WHERE, Y),
    "scatter, largest": (lambda x, k, y: x.scatter_reduce(0, k, y, "amax", include_self=False), X, WHERE, Y),
    "scatter, product": (lambda x, k, y: x.scatter_reduce(0, k, y, "prod"), X, WHERE, Y),
    "assign rows": (assigned, X, i(1, 0, 3), Y[:3]),
    "assign from the end": (assigned, X, i(-1, 0), Y[:2]),
    "assign a number": (lambda x, k: assigned(x, k, 1.5), X, i(1, 3)),
    "assign elements": (assigned_columns, X, i(1, 0, 3), i(1, 5, 3), Y[0, :3]),
    "assign through a mask": (masked, X),
    "assign rows through a mask": (lambda x, m: assigned(x, m, 0.0), X, torch.tensor([True, False, True, False])),
    "a known mask": (lambda x: x[KNOWN], X),
    "a known mask of one dimension": (lambda x: x[:, KNOWN[0]], X),
    "a known mask and an index": (lambda x, k: x[KNOWN[:, 0], k], X, i(5, 0, 2)),
    "select by a known mask": (lambda x: x.masked_select(KNOWN), X),
    "select by a known mask that stretches": (lambda x: x.masked_select(KNOWN[:, :1]), X),
    "a mask made of known values": (lambda x: x[torch.arange(4) > 1], X),
    "assign as many values as a known mask counts": (lambda x, y: assigned(x, KNOWN, y.flatten()[:12]), X, Y),
    "add by index": (lambda x, k, y: x.index_put((k,), y, accumulate=True), X, i(1, 0, 1), Y[:3]),
    "index_copy": (lambda x, k, y: x.index_copy(1, k, y), X, i(5, 0), Y[:, :2]),
    "index_fill": (lambda x, k: x.index_fill(0, k, 7.0), X, i(1, 1, 3)),
    "index_reduce": (lambda x, k, y: x.index_reduce(0, k, y, "prod"), X, i(1, 0, 1), Y[:3]),
    "bincount": (lambda x, k: x.sum() * torch.bincount(k, minlength=8), X, i(1, 3, 3, 7)),
    "bincount, cut": (lambda x, k: x.sum() * torch.bincount(k, minlength=8)[:3], X, i(1, 2, 2, 0)),
    "bucketize": (lambda x, b: x * torch.bucketize(x, b), X, torch.tensor([-1.0, 0.0, 1.0])),
    "topk": (lambda x: tuple(x.topk(3)), X),
    "smallest": (lambda x: tuple(x.topk(2, 0, largest=False)), X),
    "sort": (lambda x: tuple(x.sort(1, descending=True)), X),
    "argsort": (lambda x: x.argsort(0), X),
    "median": (lambda x: (x.median(), *x.median(1)), X),
    "cumsum": (lambda x: x.cumsum(0), X),
    "cumprod": (lambda x: x.cumprod(1), X),
    "nansum": (lambda x: torch.where(x > 1, torch.nan, x).nansum(1), X),
    "unfold": (lambda x: x.unfold(1, 3, 2), X),
    "columns of an image": (lambda x: F.unfold(x, (2, 3), padding=1, stride=2), IMAGE),
    "image of columns": (
        lambda x: F.fold(x, (6, 8), 2, stride=2),
        torch.randn(1, 8, 12, generator=torch.Generator().manual_seed(6)),
    ),
    "nearest": (lambda x: F.interpolate(x, scale_factor=2), IMAGE),
    "nearest to a size": (lambda x: F.interpolate(x, (5, 11)), IMAGE),
    "bilinear": (lambda x: F.interpolate(x, scale_factor=2, mode="bilinear"), IMAGE),
    "bilinear, corners": (lambda x: F.interpolate(x, (9, 5), mode="bilinear", align_corners=True), IMAGE),
    "bicubic": (lambda x: F.interpolate(x, scale_factor=2, mode="bicubic"), IMAGE),
    "nearest, volume": (lambda x: F.interpolate(x, scale_factor=2), VOLUME),
    "cross": (lambda x, y: torch.linalg.cross(x, y), X[:, :3], Y[:, :3]),
    "distances": (torch.cdist, X, Y[:3]),
    "distances by products": (lambda x, y: torch.cdist(x, y, compute_mode="use_mm_for_euclid_dist"), X, Y[:3]),
    # a convolution leaves its channels last
    **{
        f"{name} of an image": (lambda x, w, f=f: f(F.conv2d(x, w, padding=1)), IMAGE, torch.ones(4, 3, 3, 3) / 8)
        for name, f in {
            "cumsum": lambda y: y.cumsum(2),
            "cumprod": lambda y: y.cumprod(1),
            "sort": lambda y: y.sort(3)[0],
            "scatter": lambda y: y.scatter(1, torch.zeros(2, 1, 6, 8, dtype=torch.int64), 1.0),
            "interpolation": lambda y: F.interpolate(y, scale_factor=2),
            "windows": lambda y: F.unfold(y, 2),
        }.items()
    },
    "hardshrink": (lambda x: F.hardshrink(x, 0.7), X),
    "softshrink": (lambda x: F.softshrink(x, 0.7), X),
    "max pool of a volume": (lambda x: F.max_pool3d(x, 3, 2, 1), VOLUME),
    "average pool of a volume": (lambda x: F.avg_pool3d(x, (2, 3, 2), (1, 2, 2), (1, 1, 0)), VOLUME),
    "adaptive pool of a volume": (lambda x: F.adaptive_avg_pool3d(x, (2, 1, 3)), VOLUME),
    "volume": (
        lambda x, w: F.conv3d(x, w, stride=(2, 1, 1), padding=1, groups=2),
        VOLUME,
        torch.randn(6, 2, 3, 3, 3, generator=torch.Generator().manual_seed(8)) / 4,
    ),
    "volume, transposed": (
        lambda x, w: F.conv_transpose3d(x, w, stride=2, padding=1, output_padding=(1, 0, 1)),
        VOLUME,
        torch.randn(4, 2, 3, 3, 3, generator=torch.Generator().manual_seed(9)) / 4,
    ),
    "bags": (lambda t, k: F.embedding_bag(k, t), X, WHERE),
    "sums of bags": (lambda t, k, w: F.embedding_bag(k, t, mode="sum", per_sample_weights=w), X, WHERE, Y),
    "largest of bags": (lambda t, k: F.embedding_bag(k, t, mode="max"), X, WHERE),
    **{
        f"bags of several sizes, {mode}": (
            lambda t, k, mode=mode: F.embedding_bag(k, t, torch.tensor([0, 2, 2, 5]), mode=mode),
            X,
            WHERE.flatten()[:9],
        )
        for mode in ("sum", "mean", "max")
    },
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.edge("22.33")
def test_values_and_gradients_are_those_of_torch(name):
    function, start, *inputs = CASES[name]
    expected = function(start, *inputs)
    actual = poptorch.inferenceModel(Call(function))(start.clone(), *inputs)
    expected, actual = ((r,) if torch.is_tensor(r) else tuple(r) for r in (expected, actual))
    for a, e in zip(actual, expected, strict=True):
        assert a.shape == e.shape
        torch.testing.assert_close(a.to(e.dtype), e, rtol=1e-4, atol=1e-5)
    if not any(r.is_floating_point() for r in expected):
        return
    model = Trained(function, start)
    model(*inputs).backward()
    wanted = start - model.start.grad
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    trainer(*inputs)
    trainer.destroy()
    torch.testing.assert_close(model.start.detach(), wanted, rtol=1e-3, atol=1e-4)


REFUSED = {
    "values counted by a mask": (
        lambda x: assigned(x, x > 0, x.flatten()[:5]),
        "values for a boolean mask that are counted by the mask; use torch.where",
    ),
    "padding_idx of a bag": (
        lambda x: F.embedding_bag(torch.zeros(2, 2, dtype=torch.int64, device="ipu"), x, padding_idx=1),
        "padding_idx=1 is not supported",
    ),
    "offsets from the device": (
        lambda x: F.embedding_bag(x[0].int().long() * 0, x, offsets=x[0].int().long() * 0),
        "'offsets' must be known when the model is compiled",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_cannot_be_done_says_why(name):
    function, message = REFUSED[name]
    with pytest.raises(poptorch.Error, match="unsupported operation") as error:
        poptorch.inferenceModel(Call(function))(X.clone())
    assert message in str(error.value)


def test_an_index_out_of_range_is_an_error():
    model = poptorch.inferenceModel(Call(lambda x, k: x.scatter(0, k, 1.0)))
    with pytest.raises(poptorch.Error, match="index 4 .* is not in"):
        model(X.clone(), torch.full((1, 6), 4))
