"""Each index is checked against its own dimension, wherever it is read and however it is merged with others."""

import pytest
import torch
import torch.nn.functional as F
from models import Call
from torch import nn

import poptorch

X = torch.arange(24.0).view(4, 6)
ROWS, COLUMNS = torch.tensor([0, 1, 2]), torch.tensor([1, 7, 2])  # row 1, column 7 merges to 13, which there is


def written(x, rows, columns):
    x = x.clone()
    x[rows, columns] = 1.0
    return x


def between(x, rows, columns):
    return x.view(4, 1, 6)[rows, :, columns]


READS = {
    "read": lambda x, rows, columns: x[rows, columns],
    "read around a slice": between,
    "write": written,
    "index_put": lambda x, r, c: x.index_put((r, c), x.new_ones(3)),
    "accumulate": lambda x, r, c: x.index_put((r, c), x.new_ones(3), accumulate=True),
}


def refused(run, *inputs, index="index 1", value=7, at=1, extent=6):
    with pytest.raises(poptorch.Error) as raised:
        run(*inputs)
    first, where, cure = raised.value.message.splitlines()
    assert first == (
        f"index out of range [IPU-E407]: index {value} (element {at} of '{index}') is not in [-{extent}, {extent})."
    )
    assert where.startswith("  at: IPU ") and "(kernel flat_index)" in where and "test_index_bounds.py:" in where
    assert cure == "  try:      look at the values on the host before the call, or bring them in range with clamp"


@pytest.mark.parametrize("half", [False, True])
@pytest.mark.parametrize("name", READS)
def test_an_index_out_of_its_own_dimension_is_an_error(name, half):
    x, function = X.half() if half else X, READS[name]
    run = poptorch.inferenceModel(Call(function))
    good = COLUMNS.clamp(max=5)
    expected = function(x, ROWS, good)
    assert torch.equal(run(x, ROWS, good), expected)
    refused(run, x, ROWS, COLUMNS)
    refused(run, x, ROWS, -COLUMNS, value=-7)
    refused(run, x, torch.tensor([0, 4, 2]), good, index="index 0", value=4, extent=4)
    assert torch.equal(run(x, ROWS - 4, good - 6), expected)  # from the end; the device is as good as before
    assert torch.equal(run(x, ROWS, good), expected)


def test_the_wrong_one_of_three_merged_indices_is_named():
    x = torch.arange(60.0).view(3, 4, 5)
    run = poptorch.inferenceModel(Call(lambda x, i, j, k: x[i, j, k]))
    i, j, k = torch.tensor([[0], [-1]]), torch.tensor([3, -4]), torch.tensor([[4, -5]])
    assert torch.equal(run(x, i, j, k), x[i, j, k])
    refused(run, x, i, torch.tensor([3, -5]), k, value=-5, at=1, extent=4)
    refused(run, x, i, j, torch.tensor([[5, 0]]), index="index 2", value=5, at=0, extent=5)


@pytest.mark.parametrize(
    "function", [lambda x, k: x[k], lambda x, k: x.index_fill(0, k, 1.0), lambda x, k: x.index_put((k,), x[:3])]
)
def test_a_single_index_names_the_value_that_was_given(function):
    run = poptorch.inferenceModel(Call(function))
    k = torch.tensor([3, 1, 0])
    assert torch.equal(run(X, k), function(X, k))
    refused(run, X, torch.tensor([3, -5, 0]), index="index", value=-5, extent=4)


class Trained(nn.Module):
    def __init__(self, function, blocks=False):
        super().__init__()
        self.x = nn.Parameter(X.clone())
        self.function, self.blocks = function, blocks

    def forward(self, rows, columns):
        if self.blocks:
            poptorch.Block.start("first", ipu_id=0)
        x = self.x * 2
        if self.blocks:
            poptorch.Block.start("second", ipu_id=1)
        return poptorch.identity_loss(self.function(x, rows, columns).sum(), "none")


@pytest.mark.parametrize("name", READS)
@pytest.mark.parametrize("plan", ["one IPU", "replicated", "pipelined"])
def test_training_steps_check_indices_too(name, plan):
    options = poptorch.Options()
    calls = 1
    if plan == "replicated":
        options.replicationFactor(calls := 2)
    if plan == "pipelined":
        options.Training.gradientAccumulation(calls := 4)
    model = Trained(READS[name], plan == "pipelined")
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.0))
    rows, columns = ROWS.repeat(calls), COLUMNS.repeat(calls)
    trainer(rows, columns.clamp(max=5))
    refused(trainer, rows, columns)
    trainer(rows, columns.clamp(max=5))
    trainer.destroy()


def test_gradients_of_merged_indices_from_the_end():
    rows, columns = torch.tensor([0, -1, 3, 0]), torch.tensor([-6, 5, -1, 0])
    model = Trained(lambda x, r, c: x[r, c] * torch.arange(1.0, 5.0))
    model(rows, columns).backward()
    wanted = X - model.x.grad
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    trainer(rows, columns)
    trainer.destroy()
    assert torch.equal(model.x.detach(), wanted)


def test_a_merged_index_that_cannot_be_numbered_is_refused():
    def function(x, k):
        wide = x.view(1, 1, 24).expand(2**16, 2**16, 24)
        return wide[k, k]

    with pytest.raises(poptorch.Error, match=r"sizes \[65536,65536\] have more elements than 32 bits can number"):
        poptorch.inferenceModel(Call(function))(X, ROWS)


BUCKETS = {
    "sorted": [-1.0, 0.0, 0.5, 2.0],
    "not sorted": [2.0, -1.0, 0.5, 0.0, 3.0, -2.0, 1.0],
    "falling": [5.0, 4.0, 3.0, 2.0, 1.0],
    "equal": [1.0, 1.0, 1.0],
    "with NaN": [0.0, float("nan"), 1.0, 2.0],
}


@pytest.mark.parametrize("right", [False, True])
@pytest.mark.parametrize("dtype", [torch.float32, torch.float16, torch.int32])
@pytest.mark.parametrize("name", BUCKETS)
def test_bucketize_halves_as_torch_does(name, dtype, right):
    boundaries = torch.tensor(BUCKETS[name])
    x = torch.tensor([-3.0, -1.0, 0.0, 0.25, 0.5, 1.0, 2.0, 2.5, 9.0, float("nan"), float("inf")])
    if dtype is torch.int32:
        boundaries, x = boundaries.nan_to_num(), x.nan_to_num(posinf=7.0)
    boundaries, x = boundaries.to(dtype), x.to(dtype).view(11, 1)
    run = poptorch.inferenceModel(Call(lambda x, b: torch.bucketize(x, b, right=right)))
    assert torch.equal(run(x, boundaries), torch.bucketize(x, boundaries, out_int32=True, right=right))


def test_targets_beyond_the_classes_are_errors():
    x, k = torch.randn(3, 5), torch.tensor([0, 5, 1])
    for function in (F.cross_entropy, lambda x, k: F.nll_loss(x, k), lambda x, k: F.one_hot(k, 5) + x):
        with pytest.raises(
            poptorch.Error, match=r"index out of range .*: index 5 \(element 1 of '.*'\) is not in \[0, 5\)"
        ):
            poptorch.inferenceModel(Call(function))(x, k)


K = torch.tensor([2, -1, 0])
IN_FRONT = torch.tensor([2, 1, 0])
SIGNED = {  # how torch takes -1: as the last element, or as an error
    "x[k]": lambda x, k: x[k],
    "x[k] = v": lambda x, k: x.index_put((k,), x[:3]),
    "take": lambda x, k: x.take(k),
    "index_fill": lambda x, k: x.index_fill(0, k, 1.0),
    "index_select": lambda x, k: x.index_select(0, k),
    "index_copy": lambda x, k: x.index_copy(0, k, x[:3]),
    "index_copy_": lambda x, k: x.clone().index_copy_(1, k, x[:, :3]),
    "index_add": lambda x, k: x.index_add(0, k, x[:3]),
    "index_reduce": lambda x, k: x.index_reduce(0, k, x[:3], "amax"),
    "index_reduce, mean": lambda x, k: x.index_reduce(0, k, x[:3], "mean", include_self=False),
    "gather": lambda x, k: x[:3].gather(1, k[:, None]),
    "scatter": lambda x, k: x.scatter(1, k[:, None], x[:, 1:2]),
    "scatter_add": lambda x, k: x.scatter_add(1, k[:, None], x[:, 1:2]),
    "scatter_reduce": lambda x, k: x.scatter_reduce(1, k[:, None], x[:, 1:2], "amin"),
    "embedding": lambda x, k: F.embedding(k, x),
    "embedding_bag": lambda x, k: F.embedding_bag(k[None], x),
    "take_along_dim": lambda x, k: x[:3].take_along_dim(k[:, None], 1),
    "one_hot": lambda x, k: F.one_hot(k, 4),
    "bincount": lambda x, k: torch.bincount(k, minlength=4),
    "cross_entropy": lambda x, k: F.cross_entropy(x[:3], k),
}


@pytest.mark.parametrize("name", SIGNED)
def test_an_index_of_minus_one_is_what_it_is_in_torch(name):
    function = SIGNED[name]
    run = poptorch.inferenceModel(Call(function))
    assert torch.equal(run(X, IN_FRONT), function(X, IN_FRONT))
    try:
        expected = function(X, K)
    except (RuntimeError, IndexError):
        with pytest.raises(poptorch.Error, match="out of range"):
            run(X, K)
    else:
        assert torch.equal(run(X, K), expected)


def test_bincount_refuses_numbers_from_minlength_on():
    run = poptorch.inferenceModel(Call(lambda k: torch.bincount(k, minlength=4)))
    assert torch.equal(run(torch.tensor([3, 1, 3])).long(), torch.tensor([0, 1, 0, 2]))
    for beyond in (4, 7, 2**30):
        with pytest.raises(poptorch.Error, match=f"index out of range .* {beyond} "):
            run(torch.tensor([3, beyond, 3]))
