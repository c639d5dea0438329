"""Whatever is raised at whatever moment of a compilation: nothing of it stays, and the next one works."""

import random
import signal
import sys
import threading
import time

import pytest
import torch

import poptorch
from poptorch._impl.capture import state as capture_state, gradients, patches, stand_ins
from poptorch._impl.session import compilation
from poptorch._impl.session.executor import state_of


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 2


class Net(torch.nn.Module):
    """Something of all that capture replaces."""

    def __init__(self):
        super().__init__()
        torch.manual_seed(0)
        self.fc, self.norm, self.head = torch.nn.Linear(4, 4), torch.nn.BatchNorm1d(4), torch.nn.Linear(4, 2)

    def forward(self, x):
        x = self.norm(self.fc(x) + torch.ones(4))
        x = torch.utils.checkpoint.checkpoint(torch.relu, x, use_reentrant=True)
        poptorch.Block.start("second", ipu_id=0)
        with poptorch.Attribute(name={"key": "value"}):
            out = self.head(Double.apply(x))
        self.register_buffer("made", out.sum())
        out = out + self.made
        del self.made
        return poptorch.identity_loss(torch.nn.functional.mse_loss(out, torch.zeros_like(out)), "mean")


def replaced_places():
    """Everything that a capture replaces, as it is now."""
    owners = {
        torch: (*patches._FACTORIES, "normal", "compile"),
        torch.nn.Module: ("__call__", "_call_impl"),
        torch.jit: ("is_tracing",),
        torch.Tensor: ("numpy", "register_hook", "retain_grad"),
        torch.autograd: ("_engine_run_backward",),
        gradients._SingleLevelFunction: ("apply",),
        torch.utils.checkpoint.CheckpointFunction: ("apply",),
        torch.distributions.Distribution: ("_validate_args",),
        torch.nn.modules.batchnorm._BatchNorm: ("forward",),
        torch.nn.functional: (*patches._PYTHON_LOSSES, *patches._WEIGHTED_LOSSES),
        torch.backends.mha: ("get_fastpath_enabled",),
        torch.utils: ("swap_tensors",),
        torch.nn.modules.module: (
            "_global_parameter_registration_hooks",
            "_global_buffer_registration_hooks",
        ),
    }
    entries = {(owner, name): vars(owner).get(name) for owner, names in owners.items() for name in names}
    kinds = {owner: type(owner) for owner in owners}
    return entries, kinds


def tensors(net):
    return [*net.named_parameters(), *net.named_buffers()]


@pytest.fixture
def undone():
    """A function that checks a model after a compilation that was broken off."""
    before = replaced_places()

    def check(net, kinds):
        assert {name: type(tensor) for name, tensor in tensors(net)} == kinds
        for name, tensor in tensors(net):
            assert tensor.device.type == "cpu", name
        assert replaced_places() == before
        assert [entry for entry in sys.meta_path if isinstance(entry, stand_ins._Inside)] == []
        assert [name for name, module in sys.modules.items() if isinstance(module, stand_ins.StandIn)] == []
        assert capture_state.active() is None
        assert not compilation.capturing.is_held()
        assert torch.is_grad_enabled() and torch._C._is_torch_function_enabled()
        assert torch.ones(1).device.type == "cpu"
        assert not torch._C._dispatch_tls_is_dispatch_key_included("PrivateUse1")

    return check


class RaiseAt:
    """A tracer that raises KeyboardInterrupt at the n-th instruction of poptorch's Python code, counting from 1."""

    def __init__(self, number):
        self.number, self.seen, self.where = number, 0, None

    def __enter__(self):
        sys.settrace(self.enter)
        return self

    def __exit__(self, *exception):
        sys.settrace(None)

    def enter(self, frame, event, argument):
        if "/poptorch/_impl/" not in frame.f_code.co_filename:
            return None
        frame.f_trace_opcodes = True
        return self.step

    def step(self, frame, event, argument):
        if event == "opcode":
            self.seen += 1
            if self.seen == self.number:
                self.where = f"{frame.f_code.co_filename}:{frame.f_lineno}"
                raise KeyboardInterrupt
        return self.step


def kinds_of(net):
    return {name: type(tensor) for name, tensor in tensors(net)}


def expected_loss(x):
    net = Net()
    return net(x)


def compile_or_stop(wrapper, x, number):
    try:
        with RaiseAt(number) as tracer:
            wrapper.compile(x)
    except (KeyboardInterrupt, RuntimeError):  # torch makes the second of the first, inside __torch_function__
        pass
    return tracer


@pytest.mark.parametrize("training", [False, True])
@pytest.mark.parametrize("tries", [200, pytest.param(5000, marks=[pytest.mark.slow, pytest.mark.timeout(1200)])])
def test_an_interrupt_at_any_instruction_leaves_nothing(undone, training, tries):
    torch.manual_seed(1)
    x = torch.randn(3, 4)
    options = poptorch.Options().showCompilationProgressBar(False)

    def wrapped():
        net = Net()
        if training:
            return net, poptorch.trainingModel(net, options, poptorch.optim.SGD(net.parameters(), lr=0.1))
        return net, poptorch.inferenceModel(net, options)

    net, wrapper = wrapped()
    total = compile_or_stop(wrapper, x, 0).seen
    good = wrapper(x)
    wrapper.destroy()
    assert total > 2000
    numbers = random.Random(7)
    net, wrapper = wrapped()
    kinds = kinds_of(net)
    for number in sorted(numbers.sample(range(1, total + 1), min(tries, total))):
        tracer = compile_or_stop(wrapper, x, number)
        assert "made" not in net._buffers
        undone(net, kinds)
        state = state_of(wrapper)
        assert not state.lock.is_held() and not state.fixed_host.is_held()
        if tracer.where is None or wrapper.isCompiled():  # it came through: the moment was after the compilation
            wrapper.destroy()
            net, wrapper = wrapped()
    assert torch.equal(wrapper(x), good)
    wrapper.destroy()


def test_a_signal_at_any_time_leaves_nothing(undone):
    x, tries = torch.randn(3, 4), 300
    options = poptorch.Options().showCompilationProgressBar(False)

    def stop(number, frame):
        raise KeyboardInterrupt

    # In seconds of the processor: a process beside does not move the moments.
    handler = signal.signal(signal.SIGPROF, stop)
    try:
        net = Net()
        wrapper = poptorch.inferenceModel(net, options)
        kinds = kinds_of(net)
        wrapper.compile(x)
        wrapper.destroy()
        began = time.process_time()
        wrapper.compile(x)
        seconds = time.process_time() - began
        stopped = 0
        for attempt in range(tries):
            wrapper.destroy()
            try:
                signal.setitimer(signal.ITIMER_PROF, max(1e-5, seconds * 1.1 * attempt / tries))
                wrapper.compile(x)
                signal.setitimer(signal.ITIMER_PROF, 0)
            except KeyboardInterrupt:
                stopped += 1
            undone(net, kinds)
        assert stopped
        assert wrapper(x).shape == ()
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, handler)


def test_changes_are_undone_newest_first_and_keep_what_was_inherited():
    class Base:
        name = "inherited"

    class Owner(Base):
        pass

    changes = poptorch.poptorch_core.Changes()
    kept, order = {"a": 1, "b": 2}, []

    def body():
        changes.at_end(lambda: order.append("end"))
        changes.replace(Owner, "name", 1)
        changes.replace(Owner, "name", 2)
        changes.replace(sys.modules[__name__], "added", 3)
        assert Owner.name == 2 and added == 3  # noqa: F821
        kept.update(a=3, b=4, c=5)
        raise ValueError("mine")

    changes.keep_on_failure(kept, ["a", "c"])
    with pytest.raises(ValueError, match="mine"):
        changes.run(body)
    assert Owner.name == "inherited" and "name" not in vars(Owner)
    assert "added" not in globals()
    assert (kept, order) == ({"a": 1, "b": 4}, ["end"])


def test_what_others_assign_meanwhile_stays():
    class Owner:
        mine = theirs = removed = 1

    changes = poptorch.poptorch_core.Changes()

    def body():
        for name in ("mine", "theirs", "removed"):
            changes.replace(Owner, name, 2)
        Owner.theirs = 3
        del Owner.removed

    changes.run(body)
    assert (Owner.mine, Owner.theirs, hasattr(Owner, "removed")) == (1, 3, False)


def test_a_default_that_another_thread_sets_during_a_capture_stays():
    distribution = torch.distributions.Distribution

    class Setting(torch.nn.Module):
        def forward(self, x):
            thread = threading.Thread(target=distribution.set_default_validate_args, args=(False,))
            thread.start()
            thread.join()
            return x + 1

    before = distribution._validate_args
    try:
        poptorch.inferenceModel(Setting())(torch.ones(2))
        assert distribution._validate_args is False and vars(distribution)["_validate_args"] is False
    finally:
        distribution.set_default_validate_args(before)


def test_what_is_broken_off_at_the_end_is_done_again_and_reported():
    changes, tries = poptorch.poptorch_core.Changes(), []

    def at_end():
        tries.append(1)
        if len(tries) < 3:
            raise KeyboardInterrupt

    changes.at_end(at_end)
    with pytest.raises(KeyboardInterrupt):
        changes.run(lambda: 5)
    assert len(tries) == 3
    assert changes.run(lambda: 5) == 5
