"""`x[a:b]` with bounds that only the program knows, against plain indexing."""

import pytest
import torch

import poptorch

X = torch.arange(48.0).reshape(2, 12, 2)


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, *inputs):
        return self.function(*inputs)


def infer(function, *inputs):
    return poptorch.inferenceModel(Model(function))(*inputs)


def at(place):
    return torch.tensor([place], dtype=torch.int32)


@pytest.mark.parametrize("place", [0, 4, 7])
def test_bounds_that_are_a_constant_apart(place):
    assert torch.equal(infer(lambda x, t: x[:, t : t + 4], X, at(place)), X[:, place : place + 4])
    given = infer(lambda x, t: x[:, t + 1 : t - 1 + 4 + 1], X, at(place))
    assert torch.equal(given, X[:, place + 1 : place + 4])
    assert torch.equal(infer(lambda x, t: x[:, 2 + t : t + 5 : 2], X, at(place)), X[:, place + 2 : place + 5 : 2])


@pytest.mark.parametrize("dtype", [torch.int16, torch.int32, torch.int64])
def test_types_and_shapes_of_bounds(dtype):
    start = torch.tensor(3, dtype=dtype)
    assert torch.equal(infer(lambda x, t: x[:, t : t + 2], X, start), X[:, 3:5])


def test_with_other_parts_of_an_index():
    rows = torch.tensor([1, 0])
    for function in (
        lambda x, t, stop: x[1, t:stop],
        lambda x, t, stop: x[..., t:stop, :],
        lambda x, t, stop: x[None, :, t:stop, 1],
        lambda x, t, stop: x[:, t:stop][rows],
        lambda x, t, stop: x[rows, t:stop],
        lambda x, t, stop: x[..., t:stop, 0],
    ):
        given = infer(lambda x, t: function(x, t, t + 3), X, at(5))
        assert torch.equal(given, function(X, 5, 8))


def test_two_run_time_slices_in_one_index():
    x = torch.arange(64.0).reshape(8, 8)
    assert torch.equal(infer(lambda x, t: x[t : t + 2, t + 1 : t + 5], x, at(2)), x[2:4, 3:7])


@pytest.mark.edge("22.29")
def test_a_slice_beyond_the_end_wraps_around():
    given = infer(lambda x, t: x[0, t : t + 4, 0], X, at(10))
    assert torch.equal(given, X[0, [10, 11, 0, 1], 0])


def test_assignments_to_slices_with_tensors_as_bounds_write_the_tensor():
    def write(x, t):
        y = x.clone()
        y[:, t : t + 4] = -1
        y[0, t : t + 4, 1] += 10
        y[..., t : t + 3 : 2, 0] = x[:, :2, 1]
        return y

    wanted = X.clone()
    wanted[:, 3:7] = -1
    wanted[0, 3:7, 1] += 10
    wanted[..., 3:6:2, 0] = X[:, :2, 1]
    assert torch.equal(infer(write, X, at(3)), wanted)


def test_a_slice_with_tensors_as_bounds_has_gradients():
    class Window(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.arange(12.0))

        def forward(self, t):
            part = self.w[t : t + 3]
            return part, poptorch.identity_loss((part * part).sum(), "none")

    model = Window()
    step = poptorch.trainingModel(model, optimizer=torch.optim.SGD(model.parameters(), lr=0.25))
    step(at(6))
    wanted = torch.arange(12.0)
    wanted[6:9] *= 0.5
    assert torch.equal(model.w.detach(), wanted)


def test_bounds_that_are_products():
    given = infer(lambda x, t: x[:, t * 4 : (t + 1) * 4] + x[:, 4 * t : t * 4 + 4], X, at(1))
    assert torch.equal(given, 2 * X[:, 4:8])


def test_a_buffer_that_is_never_written_is_a_plain_bound():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("n", torch.tensor(3))

        def forward(self, x):
            y = x.clone()
            y[:, : self.n] = 0
            return x[:, : self.n], x[:, self.n :: self.n], y

    expected = X.clone()
    expected[:, :3] = 0
    first, rest, written = poptorch.inferenceModel(Net())(X)
    assert torch.equal(first, X[:, :3]) and torch.equal(rest, X[:, 3::3]) and torch.equal(written, expected)


@pytest.mark.parametrize(
    "write",
    [lambda y, t: y[:, t : t + 4].mul_(2), lambda y, t: y[:, t : t + 4][0].fill_(1), lambda y, t: y[0, t : t + 4].zero_()],
)
def test_a_write_that_would_be_lost_is_an_error(write):
    def forward(x, t):
        y = x.clone()
        write(y, t)
        return y

    with pytest.raises(poptorch.Error, match=r"test_slices_by_tensors\.py:\d+: .*write to a slice at a run-time place"):
        infer(forward, X, at(3))
    assert torch.equal(infer(lambda x, t: x[:, t : t + 4].clone().mul_(2), X, at(3)), X[:, 3:7] * 2)


def test_handlers_of_torch_functions_see_torchs_own_method():
    method = torch.Tensor.__getitem__
    seen = []

    class Watch(torch.overrides.TorchFunctionMode):
        def __torch_function__(self, function, types, arguments=(), keywords=None):
            seen.append(function is method)
            return function(*arguments, **(keywords or {}))

    def forward(x):
        with Watch():
            return x[0]

    assert torch.equal(infer(forward, X), X[0]) and any(seen)


def test_host_tensors_as_bounds_stay_plain():
    stop = torch.tensor(5)
    assert torch.equal(infer(lambda x: x[:, torch.tensor(1, device="cpu") : stop], X), X[:, 1:5])


def test_indexing_is_torchs_own_after_a_capture():
    infer(lambda x, t: x[:, t : t + 4], X, at(0))
    assert "__getitem__" not in torch.Tensor.__dict__ and "__setitem__" not in torch.Tensor.__dict__


@pytest.mark.parametrize(
    "function, message",
    [
        (lambda x, t: x[:, t:], "slice of unknown size"),
        (lambda x, t: x[:, :t], "slice of unknown size"),
        (lambda x, t: x[:, 2:t], "slice of unknown size"),
        (lambda x, t: x[:, t : 2 * t], r"slice of unknown size.*poptorch\.dynamic_slice"),
        (lambda x, t: x[:, t + 1 : t + 1], "empty slice: the bounds .* are 0 apart"),
        (lambda x, t: x[:, t + 1 : t], "empty slice: the bounds .* are -1 apart"),
        (lambda x, t: x[:, t : t + 4 : -1], "a step c .int. of at least 1, got -1"),
        (lambda x, t: x[:, t : t + 5], "size 5 does not divide the 12 elements of dimension 1"),
    ],
)
def test_slices_that_cannot_be(function, message):
    with pytest.raises(poptorch.Error, match=message):
        infer(function, X, at(3))
    assert torch.equal(infer(lambda x, t: x[:, t : t + 4], X, at(3)), X[:, 3:7])  # the device is usable
