"""Ctrl-C breaks off a compilation of a large model and a run of long kernels, which are not waited for.

How soon it is answered is measured by benchmarks/interruption.py; that kernels ask often enough is counted in
tests/kernels/stop_meter_test.cc, and that the engine hears them in tests/emulator/engine_test.cc.
"""

import os
import signal
import threading

import pytest
import torch

import poptorch
from poptorch import poptorch_core
from poptorch._impl.session import device_weights
from poptorch._impl.session.executor import state_of


class Watched:
    """A native function: when it is being called, and how often it came to its end."""

    def __init__(self, function):
        self.function, self.begun, self.ended = function, threading.Event(), 0

    def __call__(self, *arguments):
        self.begun.set()
        result = self.function(*arguments)
        self.ended += 1
        return result


def ctrl_c(watched, pause, work):
    """Does `work()`, and sends SIGINT to this process so many seconds after `watched` was called. Was `watched` broken off?"""
    watched.begun.clear()
    ended, is_inside = watched.ended, True

    def send():
        watched.begun.wait()
        threading.Event().wait(pause)
        os.kill(os.getpid(), signal.SIGINT)

    def answer(number, frame):
        if is_inside:
            raise KeyboardInterrupt

    sender = threading.Thread(target=send)
    before = signal.signal(signal.SIGINT, answer)
    sender.start()
    try:
        try:
            work()
        finally:
            is_inside = False
    except KeyboardInterrupt:
        return watched.ended == ended
    finally:
        sender.join()
        signal.signal(signal.SIGINT, before)
    return False  # it was over


# Seconds; the least of them is tried again where another process takes the processor for as long as the work lasts.
PAUSES = [0.4, 0.2, 0.1, 0.05, *[0.0] * 20]


class Long(torch.nn.Module):
    """Thousands of operations that do not fold into one."""

    def __init__(self, length, training):
        super().__init__()
        self.length = length
        self.weight = torch.nn.Parameter(torch.eye(4) * 0.5)
        self.is_training = training

    def forward(self, x):
        for _ in range(self.length):
            x = torch.softmax(x @ self.weight, 1)
        return poptorch.identity_loss(x, "sum") if self.is_training else x


def times_broken_off(watched, work, then=lambda: None):
    """How often Ctrl-C broke off what it was sent into; `then()` is called after each time."""
    times = 0
    for pause in PAUSES:
        if pause == 0 and times:
            break
        if ctrl_c(watched, pause, work):
            times += 1
            then()
    return times


@pytest.mark.parametrize("training", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_ctrl_c_breaks_off_the_compilation_of_a_large_model(training, monkeypatch):
    options = poptorch.Options().showCompilationProgressBar(False)
    x, net = torch.rand(2, 4), Long(4000 if training else 16000, training)
    wrapper = poptorch.trainingModel(net, options) if training else poptorch.inferenceModel(net, options)
    watched = Watched(poptorch_core.compile)
    monkeypatch.setattr(poptorch_core, "compile", watched)

    def compile_anew():
        if wrapper.isCompiled():
            wrapper.destroy()
        wrapper.compile(x)

    def nothing_is_compiled():
        assert not wrapper.isCompiled()

    assert times_broken_off(watched, compile_anew, nothing_is_compiled)
    compile_anew()
    assert wrapper.isCompiled()
    wrapper.destroy()


KERNELS = {
    "matmul": (lambda x: (x.reshape(4096, 4096) @ x.reshape(4096, 4096).t()).sum(0, keepdim=True), 4096 * 4096),
    "sort": (lambda x: torch.sort(x, 1)[0], 1 << 24),
    "cumsum": (lambda x: torch.cumsum(x, 1), 1 << 27),
    "reduction": (lambda x: x.sum(1), 1 << 28),
    "pointwise": (lambda x: torch.sin(torch.exp(torch.tanh(x))), 1 << 26),
}


@pytest.mark.parametrize("kind", ["matmul", "sort", *(pytest.param(k, marks=pytest.mark.slow) for k in list(KERNELS)[2:])])
def test_ctrl_c_breaks_off_a_run_with_long_kernels(kind, monkeypatch):
    function, elements = KERNELS[kind]

    class Repeated(torch.nn.Module):
        def forward(self, x):
            return function(x)

    x = torch.rand(1, elements)
    run = poptorch.inferenceModel(Repeated(), poptorch.Options().showCompilationProgressBar(False))
    good = run(x)
    compiled = state_of(run).compiled
    watched = Watched(compiled.call)
    monkeypatch.setattr(state_of(run), "compiled", compiled._replace(call=watched))
    assert times_broken_off(watched, lambda: run(x))
    assert torch.equal(run(x), good)
    assert watched.ended > 0
    run.destroy()


def test_attaching_a_stopped_wrapper_again_uploads_its_weights(monkeypatch):
    """Attached means with weights: a call attaches anew what was broken off between the two."""
    net, x = torch.nn.Linear(2, 2), torch.ones(1, 2)
    wrapper = poptorch.inferenceModel(net)
    good = wrapper(x)
    wrapper.detachFromDevice()

    def stop(state, compiled):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(device_weights, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            wrapper.attachToDevice()
    assert torch.equal(wrapper(x), good)
    wrapper.destroy()


@pytest.mark.parametrize("training", [False, True])
def test_a_compilation_stopped_after_attaching_uploads_its_weights_with_the_next_call(training, monkeypatch):
    class Net(torch.nn.Linear):
        def forward(self, x):
            return poptorch.identity_loss(super().forward(x), "sum")

    net, x = Net(2, 2), torch.ones(1, 2)
    wrapper = poptorch.trainingModel(net) if training else poptorch.inferenceModel(net)

    def stop(state, compiled):
        raise KeyboardInterrupt

    with monkeypatch.context() as patched:
        patched.setattr(device_weights, "write", stop)
        with pytest.raises(KeyboardInterrupt):
            wrapper(x)
    expected = torch.nn.functional.linear(x, net.weight, net.bias).sum().item()
    assert wrapper(x).item() == pytest.approx(expected)
    wrapper.destroy()
