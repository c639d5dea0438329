"""Parameters and buffers that come to be while `forward` is captured: those of lazy modules are initialised, others are
refused, and nothing of them is left."""

import copy

import pytest
import torch
from torch import nn

import poptorch

pytestmark = pytest.mark.shows("trainingModel", "inferenceModel")


def _options():
    return poptorch.Options().showCompilationProgressBar(False)


class Lazy(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm, self.fc = nn.LazyConv2d(4, 3), nn.LazyBatchNorm2d(), nn.LazyLinear(2)

    def forward(self, x, y=None):
        h = self.fc(torch.relu(self.norm(self.conv(x))).flatten(1))
        return h if y is None else (h, nn.functional.cross_entropy(h, y))


LAYERS = {
    "Linear": (lambda: nn.LazyLinear(3), (4, 5)),
    "Bilinear input": (lambda: nn.Sequential(nn.LazyLinear(3), nn.ReLU(), nn.LazyLinear(2)), (4, 5)),
    "Conv1d": (lambda: nn.LazyConv1d(3, 2), (2, 4, 6)),
    "Conv2d": (lambda: nn.LazyConv2d(3, 2), (2, 4, 6, 6)),
    "Conv3d": (lambda: nn.LazyConv3d(3, 2), (2, 4, 4, 4, 4)),
    "ConvTranspose1d": (lambda: nn.LazyConvTranspose1d(3, 2), (2, 4, 6)),
    "ConvTranspose2d": (lambda: nn.LazyConvTranspose2d(3, 2), (2, 4, 6, 6)),
    "BatchNorm1d": (lambda: nn.LazyBatchNorm1d(), (4, 5)),
    "BatchNorm2d": (lambda: nn.LazyBatchNorm2d(), (2, 4, 3, 3)),
    "InstanceNorm1d": (lambda: nn.LazyInstanceNorm1d(affine=True), (2, 4, 6)),
    "InstanceNorm2d": (lambda: nn.LazyInstanceNorm2d(affine=True, track_running_stats=True), (2, 4, 3, 3)),
}


@pytest.mark.parametrize("name", LAYERS)
def test_a_lazy_layer_is_initialised_by_its_first_call(name):
    make, shape = LAYERS[name]
    layer, twin = make().eval(), make().eval()
    x = torch.randn(shape, generator=torch.Generator().manual_seed(2))
    torch.manual_seed(1)
    wanted = twin(x)
    torch.manual_seed(1)
    predict = poptorch.inferenceModel(layer, _options())
    first, second = predict(x), predict(x)
    torch.testing.assert_close(first, wanted, atol=1e-5, rtol=1e-4)
    assert torch.equal(first, second)
    assert [type(m) for m in layer.modules()] == [type(m) for m in twin.modules()]
    torch.testing.assert_close(layer(x), wanted)
    torch.testing.assert_close(dict(layer.state_dict()), dict(twin.state_dict()))


@pytest.mark.parametrize("default_optimizer", [False, True])
def test_a_lazy_model_trains_with_an_optimizer_made_before_it_has_shapes(default_optimizer):
    x = torch.randn(2, 3, 6, 6, generator=torch.Generator().manual_seed(2))
    y = torch.tensor([0, 1])
    model, twin = Lazy(), Lazy()
    make = torch.optim.SGD
    rate, momentum = (0.01, 0.0) if default_optimizer else (0.1, 0.9)
    optimizer = None if default_optimizer else make(model.parameters(), lr=rate, momentum=momentum)
    torch.manual_seed(1)
    trainer = poptorch.trainingModel(model, _options(), optimizer)
    found = [trainer(x, y)[1].item() for _ in range(3)]
    reference = make(twin.parameters(), lr=rate, momentum=momentum)
    torch.manual_seed(1)
    wanted = []
    for _ in range(3):
        loss = twin(x, y)[1]
        reference.zero_grad()
        loss.backward()
        reference.step()
        wanted.append(loss.item())
    assert found == pytest.approx(wanted, rel=1e-4, abs=1e-5)
    torch.testing.assert_close(dict(model.state_dict()), dict(twin.state_dict()), atol=1e-4, rtol=1e-4)
    predict = poptorch.inferenceModel(model.eval(), _options())
    torch.testing.assert_close(predict(x), twin.eval()(x), atol=1e-4, rtol=1e-4)
    trainer.destroy()
    assert type(model.fc.weight) is nn.Parameter


def test_a_lazy_model_that_fails_after_its_first_layer_trains_when_it_is_called_again():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.fc, self.failures = nn.LazyLinear(2), [ValueError("mine")]

        def forward(self, x):
            y = self.fc(x)
            if self.failures:
                raise self.failures.pop()
            return poptorch.identity_loss(y.sum(), "none")

    model = Fails()
    trainer = poptorch.trainingModel(model, _options(), torch.optim.SGD(model.parameters(), lr=0.5))
    with pytest.raises(ValueError, match="mine"):
        trainer(torch.ones(1, 2))
    before = copy.deepcopy(dict(model.state_dict()))
    trainer(torch.ones(1, 2))
    torch.testing.assert_close(model.fc.bias.detach(), before["fc.bias"] - 0.5)
    trainer.destroy()


def test_an_initialisation_from_values_is_refused():
    class ByData(nn.modules.lazy.LazyModuleMixin, nn.Module):
        def __init__(self):
            super().__init__()
            self.bias = nn.UninitializedParameter()

        def initialize_parameters(self, x):
            self.bias.materialize(x.shape[1:])
            self.bias.data.copy_(-x.mean(0))

        def forward(self, x):
            return x + self.bias

    with pytest.raises(NotImplementedError, match="Cannot copy out of meta tensor"):
        poptorch.inferenceModel(ByData(), _options())(torch.ones(2, 3))


class Registers(nn.Module):
    def __init__(self, register):
        super().__init__()
        self.late, self.register = None, register
        del self.late

    def forward(self, x):
        self.register(self, x)
        return x + self.late if isinstance(self.late, torch.Tensor) else self.late(x)


def _child(m, x):
    m.late = nn.Linear(3, 3)


def _parameter(m, x):
    m.late = nn.Parameter(torch.ones(3))


def _entry(m, x):
    m._buffers["late"] = x * 2


REGISTRATIONS = {
    "register_buffer": (lambda m, x: m.register_buffer("late", x * 2), "buffer 'late'"),
    "register_parameter": (lambda m, x: m.register_parameter("late", nn.Parameter(x.detach())), "parameter 'late'"),
    "attribute": (_parameter, "parameter 'late'"),
    "child": (_child, "parameter 'late.weight'"),
    "entry": (_entry, "buffer 'late'"),
}


@pytest.mark.parametrize("name", REGISTRATIONS)
def test_what_forward_registers_is_refused_and_undone(name):
    register, what = REGISTRATIONS[name]
    model = Registers(register)
    with pytest.raises(
        poptorch.Error, match=f"The {what} was registered in forward.*Register it in __init__"
    ) as caught:
        poptorch.inferenceModel(model, _options())(torch.ones(2, 3))
    assert name == "entry" or "test_registered_states.py:" in str(caught.value)
    assert not hasattr(model, "late") and not model.state_dict()


def test_a_module_that_is_made_at_its_first_call_takes_the_place_of_nothing():
    class Late(nn.Module):
        def __init__(self):
            super().__init__()
            self.late = None

        def forward(self, x):
            if self.late is None:
                self.late = nn.Linear(x.shape[1], 2)
            return self.late(x)

    model = Late()
    with pytest.raises(poptorch.Error, match="'late.weight' was registered in forward"):
        poptorch.inferenceModel(model, _options())(torch.ones(2, 3))
    assert model.late is None
    wanted = model(torch.ones(2, 3))  # the cure that the error names
    torch.testing.assert_close(poptorch.inferenceModel(model, _options())(torch.ones(2, 3)), wanted)


def test_a_parameter_that_gets_its_shape_in_forward_is_refused():
    class Own(nn.Module):
        def __init__(self):
            super().__init__()
            self.w = nn.UninitializedParameter()

        def forward(self, x):
            if nn.parameter.is_lazy(self.w):
                self.w.materialize(x.shape[1:])
            return x * self.w

    with pytest.raises(poptorch.Error, match="'w' got its shape in forward.*once on the CPU"):
        poptorch.inferenceModel(Own(), _options())(torch.ones(2, 3))


def test_modules_that_forward_makes_and_drops_are_free_to_have_states():
    def loss(x):
        return nn.BCEWithLogitsLoss(pos_weight=torch.tensor([1.0, 2.0, 3.0]))(x, torch.sigmoid(x))

    x = torch.randn(2, 3, generator=torch.Generator().manual_seed(2))
    torch.testing.assert_close(poptorch.inferenceModel(loss, _options())(x), loss(x))


def test_an_error_of_forward_leaves_replaced_states_as_they_were():
    class Fails(nn.Module):
        def __init__(self):
            super().__init__()
            self.register_buffer("state", torch.zeros(3))

        def forward(self, x):
            self.state = self.state + x
            raise ValueError("mine")

    model = Fails()
    state = model.state
    with pytest.raises(ValueError, match="mine"):
        poptorch.inferenceModel(model, _options())(torch.ones(3))
    assert model.state is state and state.device.type == "cpu"
