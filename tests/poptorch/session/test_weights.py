"""Weights on host and device: who is newer, and when they are copied."""

import copy
import pickle

import pytest
import torch

import poptorch


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 3)
        self.unused = torch.nn.Linear(2, 2)
        self.frozen = torch.nn.Parameter(torch.ones(3), requires_grad=False)
        self.register_buffer("count", torch.zeros(1))

    def forward(self, x, y=None):
        self.count.add_(1)
        out = self.fc(x) * self.frozen
        return out if y is None else (out, torch.nn.functional.mse_loss(out, y))


def batch():
    return torch.randn(6, 4), torch.randn(6, 3)


@pytest.fixture
def trainer():
    torch.manual_seed(1)
    net = Net()
    wrapper = poptorch.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
    yield wrapper
    if wrapper.isCompiled():
        wrapper.destroy()


def expected_after_one_step(net, x, y):
    plain = Net()
    plain.load_state_dict(net.state_dict())
    optimizer = torch.optim.SGD(plain.parameters(), lr=0.1)
    plain(x, y)[1].backward()
    optimizer.step()
    return plain.state_dict()


@pytest.mark.parametrize(
    "read",
    [
        lambda net: net.state_dict(),
        lambda net: dict(net.named_parameters()) | dict(net.named_buffers()),
        lambda net: {"fc.weight": net.fc.weight + 0, "fc.bias": net.fc.bias.detach()},
    ],
)
def test_reading_the_model_after_training_gives_the_trained_weights(trainer, read):
    x, y = batch()
    want = expected_after_one_step(trainer.model, x, y)
    trainer(x, y)
    for name, tensor in read(trainer.model).items():
        torch.testing.assert_close(tensor.detach().as_subclass(torch.Tensor), want[name], rtol=1e-5, atol=1e-6)


def test_running_the_trained_model_on_the_cpu_uses_the_trained_weights(trainer):
    x, y = batch()
    want = expected_after_one_step(trainer.model, x, y)
    trainer(x, y)
    plain = Net()
    plain.load_state_dict(want)
    torch.testing.assert_close(trainer.model(x), plain(x), rtol=1e-5, atol=1e-6)


@pytest.mark.edge("22.42")
def test_unused_and_frozen_parameters_stay_and_written_buffers_come_back(trainer):
    before = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    for _ in range(3):
        trainer(*batch())
    after = trainer.model.state_dict()
    assert torch.equal(after["unused.weight"], before["unused.weight"])
    assert torch.equal(after["frozen"], before["frozen"])
    assert after["count"].item() == 3
    assert not torch.equal(after["fc.weight"], before["fc.weight"])


@pytest.mark.shows("PoplarExecutor.copyWeightsToHostIfNeeded")
def test_copies_happen_only_when_needed(trainer):
    trainer(*batch())
    assert trainer.copyWeightsToHostIfNeeded() is True
    assert trainer.copyWeightsToHostIfNeeded() is False


@pytest.mark.shows("PoplarExecutor.compile", "PoplarExecutor.copyWeightsToDevice")
@pytest.mark.edge("22.44")
def test_host_edits_reach_the_device_only_when_copied(trainer):
    x, y = batch()
    trainer.compile(x, y)
    with torch.no_grad():
        trainer.model.fc.weight.zero_()
        trainer.model.fc.bias.zero_()
    assert trainer(x, y)[0].abs().sum() > 0
    with torch.no_grad():
        trainer.model.fc.weight.zero_()
        trainer.model.fc.bias.zero_()
    trainer.copyWeightsToDevice()
    assert trainer(x, y)[0].abs().sum() == 0


@pytest.mark.shows("PoplarExecutor.load_state_dict")
def test_load_state_dict_on_the_wrapper_uploads(trainer):
    x, y = batch()
    trainer(x, y)
    state = {name: torch.zeros_like(tensor) for name, tensor in trainer.model.state_dict().items()}
    trainer.load_state_dict(state)
    assert trainer(x, y)[0].abs().sum() == 0


def test_inference_wrapper_pulls_newer_weights_from_the_trainer(trainer):
    x, y = batch()
    tester = poptorch.inferenceModel(trainer)
    for _ in range(3):
        trainer(x, y)
        got = tester(x)
        torch.testing.assert_close(got, trainer.model(x), rtol=1e-5, atol=1e-6)


@pytest.mark.shows("PoplarExecutor", "PoplarExecutor.destroy", "PoplarExecutor.model", "PoplarExecutor.isCompiled")
@pytest.mark.edge("22.59")
def test_destroy_gives_the_model_back_and_the_wrapper_can_be_called_again(trainer):
    net = trainer.model
    assert type(net).__name__ == "PoptorchNet" and isinstance(net, Net)
    trainer(*batch())
    trainer.destroy()
    assert type(net) is Net and type(net.fc.weight) is torch.nn.Parameter and type(net.count) is torch.Tensor
    assert not trainer.isCompiled() and not trainer.isAttachedToDevice()
    trainer(*batch())
    assert trainer.isCompiled()
    assert type(net) is Net and type(net.fc.weight) is not torch.nn.Parameter
    assert net.count == 2
    with pytest.raises(poptorch.Error, match="never wrapped"):  # the class is not replaced a second time
        trainer.destroy()
    assert not trainer.isCompiled() and type(net.fc.weight) is torch.nn.Parameter


def test_wrapping_twice_is_refused(trainer):
    with pytest.raises(RuntimeError, match=r"destroy\(\)"):
        poptorch.trainingModel(trainer.model)


@pytest.mark.shows(
    "PoplarExecutor.attachToDevice",
    "PoplarExecutor.detachFromDevice",
    "PoplarExecutor.isAttachedToDevice",
)
def test_detach_reads_the_weights_and_attach_uploads_them(trainer):
    x, y = batch()
    want = expected_after_one_step(trainer.model, x, y)
    trainer(x, y)
    trainer.detachFromDevice()
    assert trainer.isCompiled() and not trainer.isAttachedToDevice()
    torch.testing.assert_close(trainer.model.state_dict()["fc.weight"], want["fc.weight"], rtol=1e-5, atol=1e-6)
    with pytest.raises(poptorch.Error, match="not attached"):
        trainer.detachFromDevice()
    trainer.attachToDevice()
    with pytest.raises(poptorch.Error, match="already attached"):
        trainer.attachToDevice()
    trainer(x, y)


@pytest.mark.parametrize(
    "call", ["copyWeightsToHost", "copyWeightsToDevice", "attachToDevice", "detachFromDevice", "compilationTime"]
)
def test_methods_that_need_an_executable_say_so(trainer, call):
    with pytest.raises(poptorch.Error, match="has not been compiled or has been destroyed"):
        getattr(trainer, call)()


def test_copies_and_pickles_are_ordinary_modules(trainer):
    trainer(*batch())
    state = trainer.model.state_dict()
    for twin in (copy.deepcopy(trainer.model), pickle.loads(pickle.dumps(trainer.model))):
        for name, tensor in twin.state_dict().items():
            assert torch.equal(tensor, state[name])
    assert type(pickle.loads(pickle.dumps(trainer.model))) is Net
    assert type(state["fc.weight"]) in (torch.Tensor, torch.nn.Parameter)


def test_backward_on_a_result_explains_itself(trainer):
    _, loss = trainer(*batch())
    with pytest.raises(poptorch.Error, match="the backward pass and the weight update run inside the call"):
        loss.backward()


def test_attributes_of_the_model_are_reachable_through_the_wrapper(trainer):
    assert trainer.fc is trainer.model.fc
    assert trainer.options.device_iterations == 1
    with pytest.raises(AttributeError):
        trainer.nothing


def test_rebinding_and_removing_state_in_forward_is_refused_and_undone():

    class Rebinds(torch.nn.Module):
        def __init__(self, remove):
            super().__init__()
            self.register_buffer("state", torch.zeros(2))
            self.remove = remove

        def forward(self, x):
            result = x + self.state
            if self.remove:
                del self.state
            else:
                self.state = self.state + 1
            return result

    for remove, text in (
        (False, r"buffer 'state' was re-bound.*self.state.copy_"),
        (True, "buffer 'state' was removed"),
    ):
        model = Rebinds(remove)
        buffer = model.state
        with pytest.raises(poptorch.Error, match=text):
            poptorch.inferenceModel(model)(torch.ones(2))
        assert model.state is buffer and buffer.device.type == "cpu" and torch.equal(buffer, torch.zeros(2))


def test_an_exception_in_forward_leaves_parameters_as_they_were():

    class Fails(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.arange(3.0))
            self.fail = True

        def forward(self, x):
            y = x * self.w
            if self.fail:
                raise ValueError("mine")
            return y

    model = Fails()
    w, pointer = model.w, model.w.data_ptr()
    wrapper = poptorch.inferenceModel(model)
    with pytest.raises(ValueError, match="mine"):
        wrapper(torch.ones(3))
    assert model.w is w and w.data_ptr() == pointer and torch.equal(w.detach(), torch.arange(3.0))
    assert not wrapper.isCompiled() and not poptorch.isRunningOnIpu()
    model.fail = False
    wrapper = poptorch.inferenceModel(model)
    assert torch.equal(wrapper(torch.ones(3)), torch.arange(3.0))


def test_copies_in_the_process_keep_the_wrapper_class_and_the_link_to_the_executor(trainer):
    trainer(*batch())
    deep, shallow = copy.deepcopy(trainer.model), copy.copy(trainer.model)
    assert type(deep).__name__ == type(shallow).__name__ == "PoptorchNet" and isinstance(deep, Net)
    assert deep.count == 1 and deep.fc.weight is not trainer.model.fc.weight
    trainer(*batch())
    assert deep.copyWeightsToHostIfNeeded() and not deep.copyWeightsToHostIfNeeded()
    assert type(trainer.model).__name__ == "PoptorchNet"
    plain = pickle.loads(pickle.dumps(deep))
    assert type(plain) is Net and type(plain.fc.weight) is torch.nn.Parameter


def test_state_dict_keeps_one_object_for_tied_tensors():
    net = Net()
    net.twin = net.fc
    trainer = poptorch.trainingModel(net)
    state = net.state_dict()
    assert state["fc.weight"] is state["twin.weight"] and state["fc.weight"] is not state["fc.bias"]
    assert type(state["count"]) is torch.Tensor and state["count"].data_ptr() == net.count.data_ptr()
    trainer.destroy()


def test_uploading_shared_parameters_takes_what_another_wrapper_trained():
    shared = Net()
    other = torch.nn.Sequential(shared.fc)
    tester = poptorch.inferenceModel(other)
    x, y = batch()
    tester(x)
    trainer = poptorch.trainingModel(shared, None, torch.optim.SGD(shared.parameters(), lr=0.1))
    trainer(x, y)
    tester.copyWeightsToDevice()
    got = tester(x)
    torch.testing.assert_close(got, other(x).detach())
    trainer.destroy()


def test_model_destroy_undoes_the_wrapping_of_a_dropped_wrapper():
    net = Net()
    trainer = poptorch.trainingModel(net)
    del trainer
    with pytest.raises(RuntimeError, match=r"destroy\(\)"):
        poptorch.trainingModel(net)
    net.destroy()
    assert type(net) is Net and type(net.fc.weight) is torch.nn.Parameter
    poptorch.trainingModel(net)(*batch())
    net.destroy()
