"""What `forward` does to a parameter or buffer is the write it is in torch, or an error that names it and its line."""

import inspect
import re

import pytest
import state_writes
import torch
from state_writes import WAYS, Written
from torch import nn

import poptorch

pytestmark = pytest.mark.shows("trainingModel", "inferenceModel", "PoplarExecutor.copyWeightsToHost")

CALLS = 3
COMBINATIONS = [(kind, training) for kind in ("trained", "frozen", "buffer") for training in (True, False)]
DEFAULT = {("trained", True), ("buffer", True), ("frozen", False)}


def _optimizer(model):
    return torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)


def _inputs():
    return [torch.arange(1.0, 4)[None] + i for i in range(CALLS)]


def _states(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


def _in_torch(model, training):
    """(loss, states) after each call."""
    optimizer = _optimizer(model)
    found = []
    for x in _inputs():
        loss = model(x)
        if training:
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
        found.append((loss.detach(), _states(model)))
    return found


def _options():
    return poptorch.Options().showCompilationProgressBar(False)


def _on_ipu(model, training):
    if training:
        wrapper = poptorch.trainingModel(_WithLoss(model), _options(), _optimizer(model))
    else:
        wrapper = poptorch.inferenceModel(model, _options())
    found = []
    try:
        for x in _inputs():
            loss = wrapper(x)
            wrapper.copyWeightsToHost()
            found.append((loss.detach(), _states(model)))
    finally:
        if wrapper.isCompiled():
            wrapper.destroy()
    return found


class _WithLoss(nn.Module):
    def __init__(self, model):
        super().__init__()
        self.model = model

    def forward(self, x):
        return poptorch.identity_loss(self.model(x), "sum")


def _case(name, kind, training):
    marks = [] if (kind, training) in DEFAULT else [pytest.mark.slow]
    return pytest.param(name, kind, training, marks=marks, id=f"{name}-{kind}-{'train' if training else 'infer'}")


def _cases():
    return [_case(name, kind, training) for name in WAYS for kind, training in COMBINATIONS]


@pytest.mark.parametrize("name, kind, training", _cases())
def test_a_write_of_a_state_is_that_of_torch_or_an_error(name, kind, training):
    write, error = WAYS[name]
    model = Written(kind, write)
    before = _states(model)
    if error is not None:
        with pytest.raises(poptorch.Error, match=f"(?s){error}") as caught:
            _on_ipu(model, training)
        if error not in state_writes.OF_OPERATORS:
            assert re.search(r"\b[wv]\b", str(caught.value)), "the error names the state"
        if name not in state_writes.WITHOUT_LINE:
            lines, first = inspect.getsourcelines(write)
            named = re.search(r"state_writes\.py:(\d+)", str(caught.value))
            assert named is not None and first <= int(named[1]) < first + len(lines)
        for key, tensor in _states(model).items():
            assert torch.equal(tensor, before[key]), "nothing of it is left"
        return
    wanted = _in_torch(Written(kind, write), training)
    found = _on_ipu(model, training)
    for (loss, states), (wanted_loss, wanted_states) in zip(found, wanted):
        torch.testing.assert_close(loss, wanted_loss, atol=1e-5, rtol=1e-4)
        torch.testing.assert_close(states, wanted_states, atol=1e-5, rtol=1e-4)


@pytest.mark.parametrize("start, end", [(True, False), (False, True)])
def test_changing_what_is_trained_in_forward_is_refused(start, end):
    model = Written("trained" if start else "frozen", lambda m, x: m.w.requires_grad_(end))
    with pytest.raises(poptorch.Error, match="requires_grad of the parameter 'model.w' was changed in forward"):
        _on_ipu(model, True)
    assert model.w.requires_grad is start


def test_a_parameter_without_gradient_for_a_while_gets_none_of_that_while():
    class Frozen(Written):
        def forward(self, x):
            self.w.requires_grad_(False)
            first = (x * self.w).sum()
            self.w.requires_grad_(True)
            return first + (x * self.w * self.v).sum()

    wanted = _in_torch(Frozen("trained", None), True)
    for found, right in zip(_on_ipu(Frozen("trained", None), True), wanted):
        torch.testing.assert_close(found, right)


def test_a_name_of_the_memory_of_a_parameter_gets_no_gradients():
    class Named(Written):
        def forward(self, x):
            return (x * self.alias).sum() + (x * self.v * self.w).sum()

    wanted = _in_torch(Named("trained", None), True)
    for found, right in zip(_on_ipu(Named("trained", None), True), wanted):
        torch.testing.assert_close(found, right)


def _binarised(m, x):
    h = m.first(x)
    h.data = h.data.sign()
    return m.second(h.view(-1, 3) * 2)


def _written_afterwards(m, x):
    h = m.first(x)
    h.data = h.data.clamp(-0.5, 0.5)
    h.mul_(3)
    return m.second(h) + h[:, 1:].sum(1, keepdim=True)


def _of_its_own_graph(m, x):
    h = m.first(x)
    new = h * 2
    h.data = new
    return m.second(h)


def _with_dimensions(m, x):
    h = m.first(x)
    h.data = h.data.abs()
    h.unsqueeze_(0)
    return m.second(h)[0]


@pytest.mark.parametrize("forward", [_binarised, _written_afterwards, _of_its_own_graph, _with_dimensions])
def test_a_value_keeps_its_gradients_when_its_data_is_replaced(forward):
    class Net(nn.Module):
        def __init__(self):
            super().__init__()
            torch.manual_seed(0)
            self.first, self.second = nn.Linear(3, 3), nn.Linear(3, 1)

        def forward(self, x):
            return forward(self, x).sum()

    for found, right in zip(_on_ipu(Net(), True), _in_torch(Net(), True)):
        torch.testing.assert_close(found, right, atol=1e-5, rtol=1e-4)


class _OwnBatchNorm(nn.BatchNorm1d):
    """Replaces its statistics, as most batch norms that are written by hand do."""

    def forward(self, x):
        self.num_batches_tracked = self.num_batches_tracked + 1
        mean, variance = x.mean(0), x.var(0, unbiased=False)
        with torch.no_grad():
            self.running_mean = 0.1 * mean + 0.9 * self.running_mean
            self.running_var = 0.1 * variance + 0.9 * self.running_var
        return ((x - mean) / torch.sqrt(variance + self.eps) * self.weight + self.bias).pow(3).sum()


def test_replaced_statistics_of_a_batch_norm_are_written():
    model, twin = _OwnBatchNorm(3), _OwnBatchNorm(3)
    x = torch.randn(4, 3, generator=torch.Generator().manual_seed(1))
    wrapper = poptorch.trainingModel(_WithLoss(model), _options(), _optimizer(model))
    optimizer = _optimizer(twin)
    for _ in range(CALLS):
        wrapper(x)
        optimizer.zero_grad()
        twin(x).backward()
        optimizer.step()
    torch.testing.assert_close(_states(model), _states(twin), atol=1e-5, rtol=1e-4)
    assert model.num_batches_tracked == CALLS
    wrapper.destroy()
