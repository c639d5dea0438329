"""Views, in-place writes and state: the graph is functional, memory behaves as in torch."""

import pytest
import torch
from torch import nn

import poptorch
from capture_harness import Function, capture, kinds


def test_write_through_a_selection_becomes_a_scatter_into_the_base():
    def forward(x):
        y = x * 1
        y[0].mul_(2)
        return y

    assert kinds(forward, torch.zeros(2, 3)) == [
        "constant",
        "mul",
        "slice",
        "reshape",
        "constant",
        "mul",
        "reshape",
        "slice_scatter",
    ]


PROGRAMS = {
    "selection": lambda x: [y := x * 1, y[0].mul_(2), y][-1],
    "column": lambda x: [y := x * 1, y[:, 1].add_(3), y][-1],
    "strided slice": lambda x: [y := x * 1, y[:, ::2].neg_(), y][-1],
    "view of a view": lambda x: [y := x * 1, y.view(2, 8)[1][2:5].exp_(), y][-1],
    "transposed": lambda x: [y := x * 1, y.t()[0].zero_(), y][-1],
    "two views of one base": lambda x: [y := x * 1, v := y[0], w := y.view(-1)[:6], v.mul_(3), w + 1][-1],
    "read after write to the base": lambda x: [y := x * 1, v := y[1], y.mul_(2), v + 0][-1],
    "assignment": lambda x: [y := x * 1, y.__setitem__(1, 5.0), y][-1],
    "assignment of a tensor": lambda x: [y := x * 1, y.__setitem__((slice(None), 0), x[0]), y][-1],
    "split": lambda x: [y := x * 1, a := y.split(2, 1), a[1].add_(1), y + 0][-1],
    "chain of in-place operations": lambda x: (x * 1).add_(1).mul_(2).clamp_(0, 3),
    "in-place view": lambda x: [y := x * 1, y.t_(), y.unsqueeze_(0), y[0, 1].add_(1), y][-1],
    "copy with a cast": lambda x: [y := torch.zeros(4, 4, dtype=torch.float16, device=x.device), y.copy_(x), y][-1],
    "fill of host memory": lambda x: [z := torch.zeros(4, 4, device=x.device), z.__setitem__(0, x[1]), z * 2][-1],
    "cpu memory": lambda x: [z := torch.zeros(2, 4), z.__setitem__(0, x[1]), z * 2][-1],
    "cpu memory, transposed": lambda x: [z := torch.zeros(4, 2), z.t()[1].copy_(x[1]), z * 2][-1],
    "diagonal": lambda x: [y := x * 1, torch.diagonal(y).add_(1), y][-1],
    "out": lambda x: [o := torch.empty(4, 4, device=x.device), torch.add(x, x, out=o), o * 1][-1],
    "as_strided": lambda x: (x * 1).as_strided((2, 2), (8, 2), 1),
    "alias by detach": lambda x: [y := x * 1, y.detach().add_(1), y][-1],
    "alias by data": lambda x: [y := x * 1, y.data[0].add_(1), y][-1],
}


@pytest.mark.parametrize("name", PROGRAMS)
def test_memory_behaves_as_in_torch(name):
    program = PROGRAMS[name]
    x = torch.arange(16.0).reshape(4, 4) / 7
    model = Function(lambda module, t: program(t))
    with torch.no_grad():
        expected = program(x.clone())
    torch.testing.assert_close(poptorch.inferenceModel(model)(x), expected)


def test_written_buffers_are_state_and_unwritten_integer_ones_constants():
    class Counter(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("total", torch.zeros(3))
            self.register_buffer("steps", torch.tensor(0))
            self.register_buffer("table", torch.tensor([4, 5, 6]))

        def forward(self, x):
            self.total.add_(x)
            self.steps += 1
            return self.total * self.table

    captured = capture(Counter(), torch.zeros(3))
    states = {state.name: (state.used, state.written) for state in captured.states}
    assert states == {"total": (True, True), "steps": (True, True), "table": (False, False)}


def test_unused_parameters_are_not_inputs_and_tied_ones_enter_once():
    class Tied(nn.Module):
        def __init__(self):
            super().__init__()
            self.a = nn.Linear(3, 3, bias=False)
            self.b = nn.Linear(3, 3, bias=False)
            self.unused = nn.Linear(3, 3)
            self.b.weight = self.a.weight

        def forward(self, x):
            return self.b(self.a(x))

    captured = capture(Tied(), torch.zeros(2, 3))
    assert [state.name for state in captured.states if state.used] == ["a.weight"]
    assert captured.op_kinds() == ["linear", "linear"]


def test_a_modified_input_is_reported():
    captured = capture(lambda x, y: [x.add_(1), x * y][-1], torch.zeros(2), torch.zeros(2))
    assert captured.mutated_inputs == [0]


def test_an_integer_state_answers_item_until_it_is_written():
    class Scale(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("factor", torch.tensor(3))

        def forward(self, x):
            return x * self.factor.item()

    assert kinds(Scale(), torch.zeros(2)) == ["constant", "mul"]


def test_everything_is_restored_after_an_exception_in_forward():
    class Broken(nn.Module):
        def __init__(self):
            super().__init__()
            self.linear = nn.Linear(3, 3)
            self.norm = nn.BatchNorm1d(3)

        def forward(self, x):
            h = self.linear(x)
            self.norm.running_mean.add_(1)
            raise ValueError("mine", h.shape)

    model = Broken()
    before = {
        name: (tensor, tensor.data_ptr(), tensor.clone()) for name, tensor in model.state_dict(keep_vars=True).items()
    }
    with pytest.raises(ValueError, match="mine"):
        capture(model, torch.zeros(2, 3))
    for name, tensor in model.state_dict(keep_vars=True).items():
        same, pointer, value = before[name]
        assert (
            tensor is same
            and tensor.data_ptr() == pointer
            and torch.equal(tensor, value)
            and tensor.device.type == "cpu"
        )
    y = model.linear(torch.zeros(2, 3))
    assert y.requires_grad and y.grad_fn is not None  # autograd is back
    y.sum().backward()


def test_tensors_of_a_finished_capture_raise_instead_of_reading_freed_values():
    leaked = []
    capture(lambda x: leaked.append(x * 2) or x, torch.zeros(2))
    with pytest.raises(poptorch.Error, match="tensor of a finished capture"):
        leaked[0] + 1
