"""What surrounds the calls of a wrapper (modes of gradients, autocast, profilers, default types) does not change them."""

import contextlib
import copy
import warnings

import pytest
import torch
from torch.overrides import BaseTorchFunctionMode
from torch.utils._python_dispatch import TorchDispatchMode
from torch.utils.flop_counter import FlopCounterMode

import poptorch


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv, self.norm = torch.nn.Conv2d(2, 3, 3, padding=1), torch.nn.BatchNorm2d(3)
        self.embedding, self.linear = torch.nn.Embedding(5, 3), torch.nn.Linear(3, 4)
        self.scale = torch.nn.Parameter(torch.rand(3))
        self.register_buffer("count", torch.zeros(3))
        self.table = torch.randn(3, 3)  # known at capture, as are the factories of forward

    def forward(self, x, index, target):
        h = torch.relu(self.norm(self.conv(x))).mean((2, 3)) + self.embedding(index) * torch.ones(3) + torch.arange(3)
        h = torch.cumsum(h @ (self.table @ self.table), 1)
        h = torch.zeros_like(h).index_add(0, torch.tensor([1, 0]), h) + h.softmax(-1).sort(-1)[0] * self.scale
        self.count += 1
        out = self.linear(h)
        return out, torch.nn.functional.cross_entropy(out, target)


def batch(number):
    generator = torch.Generator().manual_seed(number)
    return (
        torch.randn(2, 2, 4, 4, generator=generator),
        torch.randint(0, 5, (2,), generator=generator),
        torch.randint(0, 4, (2,), generator=generator),
    )


@contextlib.contextmanager
def switched(switch, on, off):
    switch(on)
    try:
        yield
    finally:
        switch(off)


@contextlib.contextmanager
def warnings_as_errors():
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        yield


def never(*_):
    raise AssertionError("a hook for saved tensors was called: no tensor is saved")


class Idle(TorchDispatchMode):
    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        return func(*args, **(kwargs or {}))


PROFILED = [torch.profiler.ProfilerActivity.CPU]

SURROUNDINGS = {
    "no_grad": torch.no_grad,
    "inference_mode": torch.inference_mode,
    "set_grad_enabled": lambda: torch.set_grad_enabled(False),
    "gradients_off": lambda: switched(torch.set_grad_enabled, False, True),
    "autocast": lambda: torch.autocast("cpu", torch.bfloat16),
    "autocast_half": lambda: torch.autocast("cpu", torch.float16),
    "anomaly_mode": lambda: torch.autograd.detect_anomaly(check_nan=True),
    "profiler": lambda: torch.profiler.profile(activities=PROFILED),
    "profiler_of_memory": lambda: torch.profiler.profile(
        activities=PROFILED, with_stack=True, record_shapes=True, profile_memory=True
    ),
    "autograd_profiler": torch.autograd.profiler.profile,
    "record_function": lambda: torch.autograd.profiler.record_function("call"),
    "deterministic": lambda: switched(torch.use_deterministic_algorithms, True, False),
    "default_dtype": lambda: switched(torch.set_default_dtype, torch.float64, torch.float32),
    "default_half": lambda: switched(torch.set_default_dtype, torch.float16, torch.float32),
    "default_device": lambda: switched(torch.set_default_device, "meta", None),
    "default_device_ipu": lambda: switched(torch.set_default_device, "ipu", None),
    "device": lambda: torch.device("meta"),
    "saved_tensors_hooks": lambda: torch.autograd.graph.saved_tensors_hooks(never, never),
    "save_on_cpu": torch.autograd.graph.save_on_cpu,
    "no_saved_tensors_hooks": lambda: torch.autograd.graph.disable_saved_tensors_hooks("not here"),
    "mutation_of_saved_tensors": torch.autograd.graph.allow_mutation_on_saved_tensors,
    "forward_gradients": torch.autograd.forward_ad.dual_level,
    "flop_counter": lambda: FlopCounterMode(display=False),
    "dispatch_mode": Idle,
    "function_mode": BaseTorchFunctionMode,
    "no_torch_function": torch._C.DisableTorchFunction,
    "warnings_as_errors": warnings_as_errors,
    "fork_rng": torch.random.fork_rng,
    "single_threaded_backward": lambda: torch.autograd.set_multithreading_enabled(False),
    "no_mkldnn": lambda: torch.backends.mkldnn.flags(enabled=False),
    "parametrizations_cached": torch.nn.utils.parametrize.cached,
    "attention_kernel": lambda: torch.nn.attention.sdpa_kernel(torch.nn.attention.SDPBackend.MATH),
}


def modes():
    return (
        torch.is_grad_enabled(),
        torch.is_inference_mode_enabled(),
        torch.is_autocast_enabled("cpu"),
        torch.is_anomaly_enabled(),
        torch.are_deterministic_algorithms_enabled(),
        torch.get_default_dtype(),
        torch.get_default_device(),
    )


def close(got, want):
    torch.testing.assert_close(got, want, rtol=1e-4, atol=1e-5, check_dtype=False)


@pytest.fixture(scope="module")
def reference():
    """A model, and what torch makes of it in three steps, and in the first of them without training."""
    torch.manual_seed(0)
    start = Model()
    model = copy.deepcopy(start)
    without_training = [tensor.detach() for tensor in copy.deepcopy(start)(*batch(0))]
    optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
    results = []
    for number in range(3):
        optimizer.zero_grad()
        result = model(*batch(number))
        result[1].backward()
        optimizer.step()
        results.append([tensor.detach() for tensor in result])
    return start, without_training, results, model.state_dict()


@pytest.mark.parametrize("way", ["first_call", "compile", "later_calls"])
@pytest.mark.parametrize("name", SURROUNDINGS)
def test_training_does_not_ask_what_surrounds_it(reference, name, way):
    start, _, results, state = reference
    model = copy.deepcopy(start)
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9))
    batches = [batch(number) for number in range(3)]
    got = [trainer(*batches[0])] if way == "later_calls" else []
    with SURROUNDINGS[name]():
        before = modes()
        if way == "compile":
            trainer.compile(*batches[0])
        else:
            got += [trainer(*arguments) for arguments in batches[len(got) :]]
            if way == "later_calls":
                trainer.copyWeightsToHost()
        assert modes() == before
    got += [trainer(*arguments) for arguments in batches[len(got) :]]
    for mine, theirs in zip(got, results):
        close(list(mine), theirs)
    for key, tensor in model.state_dict().items():
        close(tensor, state[key])
    trainer.destroy()


@pytest.mark.parametrize("name", SURROUNDINGS)
def test_inference_does_not_ask_what_surrounds_it(reference, name):
    start, results, _, _ = reference
    runner = poptorch.inferenceModel(copy.deepcopy(start))
    arguments = batch(0)
    with SURROUNDINGS[name]():
        before = modes()
        got = runner(*arguments)
        assert modes() == before
    close(list(got), results)
    runner.destroy()


@pytest.mark.parametrize("device", ["cpu", "cuda", "ipu"])
def test_autocast_in_forward_changes_no_constant(device):
    table = torch.randn(8, 8)

    def forward(x):
        with torch.autocast(device, torch.bfloat16):
            return x @ (table @ table)

    x = torch.randn(2, 8)
    torch.testing.assert_close(poptorch.inferenceModel(forward)(x), x @ (table @ table))
    assert not torch.is_autocast_enabled("cpu")
