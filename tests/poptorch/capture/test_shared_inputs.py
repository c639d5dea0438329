"""Inputs that lie in the same memory, and forward writes one of them: one tensor as in torch, or an error."""

import pytest
import torch
from models import Call
from torch import nn

import poptorch


def add_one(a, b):
    a.add_(1)
    return a * 2, b * 3


def write_second(a, b):
    before = a * 1
    b[:, 0].add_(b[:, 1])
    a.mul_(2)
    return before, a + b


def write_none(a, b):
    return a * 2 + b


def inputs(count=2):
    return torch.arange(3.0 * count).view(count, 3)


@pytest.mark.parametrize("function", [add_one, write_second])
@pytest.mark.parametrize("iterations", [1, 3])
def test_one_tensor_given_twice_is_one(function, iterations):
    x = inputs(2 * iterations)
    run = poptorch.inferenceModel(Call(function), poptorch.Options().deviceIterations(iterations))
    for _ in range(2):
        reference = x.clone()
        expected = function(reference, reference)
        result = run(x, x)
        assert torch.equal(x, reference)
        for r, e in zip(result, expected, strict=True):
            assert torch.equal(r, e)


def test_the_same_memory_under_two_tensors_is_one_tensor():
    x = inputs()
    run = poptorch.inferenceModel(Call(add_one))
    first, second = run(x, x.detach().view(2, 3))
    assert torch.equal(first, (inputs() + 1) * 2) and torch.equal(second, (inputs() + 1) * 3)
    array = torch.from_numpy(x.numpy())  # a storage of its own over the same bytes
    run(x, array)
    assert torch.equal(x, inputs() + 2)


def test_nested_and_keyword_arguments():
    def function(pair, other):
        pair[0].mul_(2)
        return pair[1] + other

    x = inputs()
    run = poptorch.inferenceModel(Call(function))
    assert torch.equal(run((x, x), x), inputs() * 4)
    assert torch.equal(x, inputs() * 2)


def test_what_is_not_written_may_be_given_in_any_way():
    x = inputs()
    run = poptorch.inferenceModel(Call(write_none))
    run.compile(x, x)
    for a, b in ((x, x), (x, x + 1), (x, x[:]), (torch.zeros(2, 3), x)):
        assert torch.equal(run(a, b), write_none(a, b))
    other = poptorch.inferenceModel(Call(write_none))
    other.compile(x, x.clone())
    assert torch.equal(other(x, x), write_none(x, x))


def refused(run, *arguments):
    before = [a.clone() for a in arguments]
    with pytest.raises(poptorch.Error) as raised:
        run(*arguments)
    assert all(torch.equal(a, b) for a, b in zip(arguments, before, strict=True))
    return raised.value.message


def test_compiled_for_one_tensor_called_with_two():
    x = inputs()
    run = poptorch.inferenceModel(add_one)
    run(x, x)
    assert refused(run, x, x.clone()) == (
        "shared memory [IPU-E407]: forward() writes input 'a', which was the same tensor as input 'b' when the model was "
        "compiled and is another one now.\n  try:      a new wrapper for calls with different tensors"
    )
    run(x, x)
    assert torch.equal(x, inputs() + 2)


def test_compiled_for_two_tensors_called_with_one():
    x, y = inputs(), inputs()
    run = poptorch.inferenceModel(add_one)
    run(x, y)
    message = (
        "shared memory [IPU-E407]: forward() writes input 'a', which shares memory with input 'b' and did not when the "
        "model was compiled.\n  try:      give one of them a copy, x.clone()"
    )
    assert refused(run, y, y) == message
    both = torch.zeros(3, 3)
    assert refused(run, both[:2], both[1:]) == message
    run(x, both[:2])
    run(both[:2], y)
    assert torch.equal(x, inputs() + 2)


def test_overlapping_views_are_refused_by_both_names():
    message = (
        "shared memory [IPU-E109]: forward() writes input 'a', which shares memory with input 'b'.\n"
        "  try:      give one of them a copy, x.clone()"
    )
    x = torch.zeros(4, 3)
    for a, b in ((x[:2], x[1:3]), (x, x[0]), (x[0], x), (x, x.t()), (x[:, :2], x[:, 1:])):
        assert refused(poptorch.inferenceModel(lambda a, b: (a.add_(1), b * 1)), a, b) == message
    # the other one is written
    assert "writes input 'b', which shares memory with input 'a'" in refused(
        poptorch.inferenceModel(lambda a, b: (a * 1, b.add_(1))), x, x[0]
    )


def test_views_that_only_interleave_are_two_tensors():
    x = torch.zeros(4, 6)
    left, right = x[:, ::2], x[:, 1::2]
    run = poptorch.inferenceModel(lambda a, b: (a.add_(1), b * 1))
    for _ in range(2):
        run(left, right)
    assert torch.equal(left, torch.full((4, 3), 2.0)) and torch.equal(right, torch.zeros(4, 3))


def test_an_expanded_input_cannot_be_written():
    run = poptorch.inferenceModel(lambda a: a.add_(1))
    x = torch.zeros(1, 3)
    assert "of which several elements are one place in memory (expand)" in refused(run, x.expand(2, 3))
    run(torch.zeros(2, 3))
    assert "of which several elements are one place in memory (expand)" in refused(run, x.expand(2, 3))


class Buffered(nn.Module):
    def __init__(self):
        super().__init__()
        self.register_buffer("seen", torch.zeros(2, 3))

    def forward(self, x):
        self.seen.add_(x)
        return self.seen * 1


def test_an_input_that_is_a_written_buffer_is_refused():
    model = Buffered()
    with pytest.raises(poptorch.Error, match="memory in which both input 'x' and buffer 'seen' lie"):
        poptorch.inferenceModel(model)(model.seen)
    assert torch.equal(poptorch.inferenceModel(model)(torch.ones(2, 3)), torch.ones(2, 3))


class Trained(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(3, 3)

    def forward(self, a, b):
        a.mul_(2)
        return poptorch.identity_loss((self.fc(a) - b).pow(2).mean(), "none")


def test_training_sees_the_change_through_both_names():
    torch.manual_seed(1)
    model, x = Trained(), inputs()
    twin = inputs()
    loss = model(twin, twin)
    loss.backward()
    wanted = model.fc.weight.detach() - 0.01 * model.fc.weight.grad
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.01))
    assert torch.allclose(trainer(x, x), loss.detach(), rtol=1e-5)
    assert torch.equal(x, inputs() * 2)
    trainer.destroy()
    torch.testing.assert_close(model.fc.weight.detach(), wanted, rtol=1e-4, atol=1e-5)


def test_a_saved_program_knows_which_inputs_were_one(tmp_path):
    x = inputs()
    run = poptorch.inferenceModel(add_one)
    run.compile(x, x)
    run.save(str(tmp_path / "m.poptorch"), export_model=False)
    loaded = poptorch.inferenceModel(add_one)
    loaded.loadExecutable(str(tmp_path / "m.poptorch"), trusted=True)
    loaded(x, x)
    assert torch.equal(x, inputs() + 1)
    assert "which was the same tensor as input 'b'" in refused(loaded, x, x.clone())
