"""Sizes, numbers and masks that depend on constants, shapes and integer buffers alone: known while `forward` is captured."""

import pytest
import torch
import torch.nn.functional as F

import poptorch


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.register_buffer("mask", torch.tensor([True, False, True, True, False]))
        self.register_buffer("numbers", torch.tensor([3, 1, 2, 1, 0]))
        self.register_buffer("wide", torch.arange(25, dtype=torch.int32).view(5, 5))
        self.register_buffer("count", torch.tensor(2))

    def forward(self, x):
        return self.function(self, x)


def positions(x):
    """Relative positions in buckets, as those of DeBERTa."""
    ids = torch.arange(x.size(0), device=x.device)
    relative = ids[:, None] - ids[None, :]
    near = torch.where(relative.abs() < 2, torch.full_like(relative, 1), relative.abs())
    return torch.where(near <= 2, relative, (near.float().log2().ceil() * relative.sign()).to(relative.dtype))


# Where the values come from: name -> function of the model and its input; each gives small integers.
SOURCES = {
    "arange": lambda m, x: torch.arange(5, device=x.device) % 3,
    "positions": lambda m, x: positions(x)[1],
    "shape": lambda m, x: torch.tensor([x.shape[0], 2, 0, x.dim(), 1], device=x.device),
    "like": lambda m, x: torch.ones_like(x[:, 0], dtype=torch.int64).cumsum(0) % 3,
    "new": lambda m, x: x.new_ones(5).cumsum(0).long() % 2,
    "new_full": lambda m, x: x.new_full((5,), 2, dtype=torch.int64),
    "buffer": lambda m, x: m.numbers,
    "view of a buffer": lambda m, x: m.wide[1:, 2:4].reshape(-1)[:5] % 4,
    "column of a buffer": lambda m, x: m.wide.t()[1] % 5,
    "buffers": lambda m, x: (m.numbers + m.mask) * 2 % 5,
    "changed copy": lambda m, x: written(m.numbers.clone()),
    "changed zeros": lambda m, x: written(torch.zeros_like(x[:, 0], dtype=torch.int64)),
    "sorted": lambda m, x: torch.sort(m.numbers)[0],
    "gathered": lambda m, x: m.wide[0][m.numbers],
    "float": lambda m, x: (m.numbers.float() * 1.5).floor(),
    "triangle": lambda m, x: torch.tril(torch.ones_like(x @ x.t()))[2].long(),
}


def written(tensor):
    tensor[1:3] = 2
    tensor[0] += 1
    return tensor


# What needs the values: name -> function of the values and the model's input.
USES = {
    "nonzero": lambda v, x: torch.nonzero(v),
    "nonzero as tuple": lambda v, x: torch.nonzero(v > 1, as_tuple=True)[0],
    "argwhere": lambda v, x: torch.argwhere(v),
    "where": lambda v, x: torch.where(v > 0)[0],
    "masked_select": lambda v, x: torch.masked_select(x[:, 1], v > 0),
    "rows by a mask": lambda v, x: x[v > 0],
    "columns by a mask": lambda v, x: x[:, (v > 0)[:4]],
    "written rows": lambda v, x: torch.index_put(x, (v > 0,), torch.tensor(1.5)),
    "unique": lambda v, x: torch.unique(v),
    "unique with counts": lambda v, x: torch.unique(v, return_counts=True)[1],
    "unique_consecutive": lambda v, x: torch.unique_consecutive(v),
    "item": lambda v, x: x * v.max().item(),
    "int": lambda v, x: x[: int(v.max())],
    "bool": lambda v, x: x if (v > 1).any() else -x,
    "range": lambda v, x: sum(x[i] for i in range(v.long().max())),
    "size": lambda v, x: x.new_zeros(int(v.max()) + 1, 2) + 1,
    "bounds": lambda v, x: x[v.long().min() : v.long().max() + 1],
    "tolist": lambda v, x: x * sum(v.tolist()),
    "cpu": lambda v, x: x[v.cpu().long() > 0],
    "numpy": lambda v, x: x * float(v.numpy().sum()),
    "arange": lambda v, x: torch.arange(v.max(), device=x.device),
    "repeat_interleave": lambda v, x: torch.repeat_interleave(x, v.long(), dim=0),
    "repeat": lambda v, x: x.repeat(int(v.max()), 1),
    "split": lambda v, x: torch.split(torch.cat([x] * 6), [int(n) for n in v] + [30 - int(v.sum())])[-1],
    "bincount": lambda v, x: torch.bincount(v.long()),
    "one_hot": lambda v, x: F.one_hot(v.long()),
    "equal": lambda v, x: x * torch.equal(v, v),
    "count_nonzero": lambda v, x: x * int(torch.count_nonzero(v)),
}


def compare(function):
    x = torch.linspace(-1, 2, 20).view(5, 4)
    expected = Model(function)(x)
    given = poptorch.inferenceModel(Model(function))(x)
    assert given.shape == expected.shape
    torch.testing.assert_close(given, expected.to(given.dtype))
    return given


@pytest.mark.parametrize("use", USES)
def test_what_depends_on_constants_alone_is_known(use):
    x = torch.linspace(-1, 2, 20).view(5, 4)

    def all_sources(model, x):
        return tuple(USES[use](source(model, x).abs(), x) for source in SOURCES.values())

    expected = Model(all_sources)(x)
    given = poptorch.inferenceModel(Model(all_sources))(x)
    for name, a, b in zip(SOURCES, given, expected):
        assert a.shape == b.shape, name
        torch.testing.assert_close(a, b.to(a.dtype), msg=name)


def test_known_sizes_in_training():
    class Net(Model):
        def forward(self, x):
            chosen = self.layer(x)[self.numbers > 0]
            return chosen, poptorch.identity_loss(chosen, "sum")

    def made():
        torch.manual_seed(1)
        net = Net(None)
        net.layer = torch.nn.Linear(4, 3)
        return net

    x, net, plain = torch.randn(5, 4), made(), made()
    trainer = poptorch.trainingModel(net, optimizer=poptorch.optim.SGD(net.parameters(), lr=0.5))
    torch.testing.assert_close(trainer(x)[0], plain(x)[0])
    plain(x)[0].sum().backward()
    with torch.no_grad():
        plain.layer.weight -= 0.5 * plain.layer.weight.grad
    torch.testing.assert_close(net.layer.weight, plain.layer.weight)


UNKNOWN = {
    "input": lambda m, x: x[:, 0].long().abs(),
    "input and constant": lambda m, x: m.numbers + x[:, 0].long(),
    "random": lambda m, x: torch.randint_like(m.numbers, 4),
    "written buffer": lambda m, x: m.numbers.add_(1),
}


@pytest.mark.parametrize("source", UNKNOWN)
@pytest.mark.parametrize(
    "use", ["nonzero", "masked_select", "rows by a mask", "item", "cpu", "repeat_interleave", "equal"]
)
def test_what_depends_on_more_is_refused_at_its_line(source, use):
    with pytest.raises(poptorch.Error) as caught:
        compare(lambda m, x: USES[use](UNKNOWN[source](m, x), x))
    assert caught.value.message.startswith(("value needed [IPU-E102]", "unsupported operations [IPU-E101]"))
    assert "test_known_values.py" in str(caught.value)


def test_an_updatable_buffer_is_not_known():
    options = poptorch.Options().updatableNamedBuffers(["numbers"])
    with pytest.raises(poptorch.Error, match="E102"):
        poptorch.inferenceModel(Model(lambda m, x: x * m.numbers.max().item()), options)(torch.ones(5, 4))


@pytest.mark.parametrize(
    "ask", [lambda m: m.count.item(), lambda m: bool(m.count > 1), lambda m: torch.nonzero(m.count + 1)]
)
def test_a_buffer_whose_value_was_used_cannot_be_written(ask):
    def count_calls(model, x):
        ask(model)
        model.count += 1
        return x * 2

    with pytest.raises(poptorch.Error) as caught:
        compare(count_calls)
    line = ask.__code__.co_firstlineno
    written_at = count_calls.__code__.co_firstlineno + 2
    assert caught.value.message == (
        "value needed [IPU-E102]: forward() writes the buffer 'count', whose value it has used as a Python number, a size or a "
        f"mask at tests/poptorch/capture/test_known_values.py:{line}. forward() runs once, so that every call would go on with "
        "the first value.\n"
        "  try:      torch.where or poptorch.cond for what depends on it; or keep it on the host and pass it as an input"
    )
    assert f"In tests/poptorch/capture/test_known_values.py:{written_at}:" in str(caught.value)


def test_a_buffer_whose_value_was_used_cannot_look_at_other_memory():
    def assigns(model, x):
        steps = model.count.item()
        model.count.data = model.count + 1
        return x * steps

    with pytest.raises(poptorch.Error, match="(?s)value needed.*writes the buffer 'count'") as caught:
        compare(assigns)
    assert "test_known_values.py:" in str(caught.value)


def test_known_values_leave_no_operations():
    class Net(Model):
        def forward(self, x):
            return x[torch.nonzero(self.numbers[1:] % 2)[:, 0]]

    x = torch.linspace(-1, 2, 20).view(5, 4)
    wrapper = poptorch.inferenceModel(Net(None))
    assert torch.equal(wrapper(x), x[[0, 2]])
