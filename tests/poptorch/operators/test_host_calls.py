"""poptorch.CPU: functions of the host in the middle of a program."""

import os
import signal
import threading
import time

import pytest
import torch
import torch.nn.functional as F
from models import Call
from torch import nn

import poptorch


def inference(function, options=None):
    return poptorch.inferenceModel(Call(function), options or poptorch.Options())


@pytest.mark.shows("CPU")
def test_a_function_runs_in_the_middle_of_the_program():
    seen = []

    def middle(x):
        seen.append(x.clone())
        return x.sort(-1)[0] * 2

    cpu = poptorch.CPU(middle, "middle")
    model = inference(lambda x: cpu(x + 1) - 3)
    x = torch.randn(4, 5)
    torch.testing.assert_close(model(x), (x + 1).sort(-1)[0] * 2 - 3)
    assert len(seen) == 2 and not seen[0].any()  # once at capture, on zeros
    torch.testing.assert_close(seen[1], x + 1)
    model(x)
    assert len(seen) == 3


def test_what_the_function_gets_is_ordinary():
    found = []

    def look(x):
        found.append((x.device.type, poptorch.isRunningOnIpu(), x.numpy().sum(), torch.zeros(2).device.type))
        return poptorch.nop(x)

    cpu = poptorch.CPU(look, "look")
    inference(lambda x: cpu(x) * 2)(torch.ones(3))
    assert found == [("cpu", False, 0.0, "cpu"), ("cpu", False, 3.0, "cpu")]


def test_on_the_cpu_the_function_is_called():
    cpu = poptorch.CPU(lambda x: (x + 1, x - 1), "cpu")
    x = torch.randn(3)
    assert torch.equal(cpu(x)[1], x - 1)
    assert torch.equal(cpu(x, anything=True)[0], x + 1)


def test_several_results_come_as_a_list_and_a_tensor_as_a_tensor():
    split = poptorch.CPU(lambda x: (x.sum(), x.long(), x > 0), "split")
    kinds = []

    def forward(x):
        results = split(x)
        kinds.append((type(results), [r.dtype for r in results], [r.dim() for r in results]))
        return tuple(results)

    x = torch.tensor([1.5, -2.5, 3.0])
    total, whole, positive = inference(forward)(x)
    assert kinds == [(list, [torch.float32, torch.int64, torch.bool], [0, 1, 1])]
    assert total == x.sum() and torch.equal(whole.long(), x.long()) and torch.equal(positive, x > 0)


@pytest.mark.parametrize(
    "dtype", [torch.float32, torch.float16, torch.int64, torch.int32, torch.int16, torch.uint8, torch.bool]
)
def test_dtypes_are_those_that_forward_passed(dtype):
    seen = []

    def look(x):
        seen.append(x.dtype)
        return x.flip(0)

    cpu = poptorch.CPU(look, "look")
    x = torch.arange(4).to(dtype)
    result = inference(lambda x: cpu(x))(x)
    assert torch.equal(result.to(dtype), x.flip(0)) and seen == [dtype, dtype]


def test_other_arguments_are_handed_on_and_keywords_are_not():
    cpu = poptorch.CPU(lambda x, factor, y: x * factor + y, "scaled")
    x, y = torch.randn(3), torch.randn(3)
    torch.testing.assert_close(inference(lambda x, y: cpu(x, 2.5, y, unused=1))(x, y), x * 2.5 + y)


def test_one_object_may_be_called_several_times_with_other_shapes():
    cpu = poptorch.CPU(lambda x: x.cumsum(0), "cumsum")
    x = torch.randn(4, 2)
    actual = inference(lambda x: (cpu(x), cpu(x[:, 0]), cpu(cpu(x))))(x)
    for mine, wanted in zip(actual, (x.cumsum(0), x[:, 0].cumsum(0), x.cumsum(0).cumsum(0))):
        torch.testing.assert_close(mine, wanted)


def test_a_function_without_tensors_or_of_known_values_runs_in_the_program():
    count = []
    cpu = poptorch.CPU(lambda *x: count.append(1) or torch.full((2,), float(len(count))), "count")
    model = inference(lambda x: x + cpu())
    assert torch.equal(model(torch.zeros(2)), torch.full((2,), 2.0))
    assert torch.equal(model(torch.zeros(2)), torch.full((2,), 3.0))
    known = inference(lambda x: x + cpu(torch.ones(2)))
    known(torch.zeros(2))
    assert torch.equal(known(torch.zeros(2)), torch.full((2,), 6.0))


class WithLayer(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)
        self.host = nn.Linear(4, 4)
        self.cpu = poptorch.CPU(self.host, "host")

    def forward(self, x, y=None):
        out = self.fc(self.cpu(self.fc(x)))
        return out if y is None else (out, F.mse_loss(out, y))


def test_a_wrapped_module_keeps_its_parameters_on_the_host():
    net = WithLayer()
    assert not any(p.requires_grad for p in net.host.parameters())
    x = torch.randn(3, 4)
    model = poptorch.inferenceModel(net)
    torch.testing.assert_close(model(x), net(x), rtol=1e-4, atol=1e-5)
    with torch.no_grad():
        net.host.weight.mul_(2)  # seen at once: it is the host's
    torch.testing.assert_close(model(x), net(x), rtol=1e-4, atol=1e-5)


class Trained(nn.Module):
    def __init__(self, function):
        super().__init__()
        self.fc1, self.fc2 = nn.Linear(4, 4), nn.Linear(4, 3)
        self.cpu = poptorch.CPU(function, "function")

    def forward(self, x, y):
        poptorch.Block.start("b0")
        hidden = self.cpu(self.fc1(x) * 0.5)
        poptorch.Block.start("b1")
        out = self.fc2(hidden)
        return out, F.mse_loss(out, y)


class Cube(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        ctx.save_for_backward(x)
        return x**3

    @staticmethod
    def backward(ctx, gradient):
        (x,) = ctx.saved_tensors
        return 3 * x**2 * gradient


def train(function, options, steps=4, rows=2, count=1):
    torch.manual_seed(3)
    ours, theirs = Trained(function), Trained(function)
    theirs.load_state_dict(ours.state_dict())
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.02)
    trainer = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=0.02))
    for _ in range(steps):
        x, y = torch.randn(rows * count, 4), torch.randn(rows * count, 3)
        trainer(x, y)
        yield theirs, optimizer, x, y
    trainer.copyWeightsToHost()
    trainer.destroy()
    for mine, wanted in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine.detach(), wanted.detach(), rtol=1e-4, atol=1e-5)


def layers():
    return nn.Sequential(nn.Linear(4, 4), nn.Tanh())


def step(net, optimizer, x, y):
    optimizer.zero_grad()
    net(x, y)[1].backward()
    optimizer.step()


@pytest.mark.parametrize("make", [lambda: Cube.apply, lambda: torch.sin, lambda: lambda x: x.add_(1) * x, layers])
@pytest.mark.parametrize("strategy", [None, poptorch.ShardedExecution])
@pytest.mark.edge("22.30")
def test_training_goes_through_the_gradient_of_the_function(make, strategy):
    options = poptorch.Options()
    if strategy is not None:
        options.setExecutionStrategy(strategy("b0", "b1"))
    else:
        options.setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("b0", "b1").ipu(0)))
    for net, optimizer, x, y in train(make(), options):
        step(net, optimizer, x, y)


def test_what_has_no_history_gets_no_gradient_as_in_torch():
    options = poptorch.Options().setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("b0", "b1").ipu(0)))
    for net, optimizer, x, y in train(lambda x: torch.from_numpy(x.detach().numpy() * 2), options):
        step(net, optimizer, x, y)


def test_host_functions_train_in_a_pipeline_with_accumulation():
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options.setExecutionStrategy(poptorch.PipelinedExecution("b0", "b1"))
    options.Training.gradientAccumulation(6)
    for net, optimizer, x, y in train(Cube.apply, options, count=6):
        step(net, optimizer, x, y)  # the mean over micro-batches of equal size


def test_device_iterations_call_once_for_each_and_in_order():
    seen = []

    def look(x):
        seen.append(float(x[0]))
        return x * 10

    cpu = poptorch.CPU(look, "look")
    model = inference(lambda x: cpu(x) + 1, poptorch.Options().deviceIterations(4))
    x = torch.arange(8.0)
    assert torch.equal(model(x), x * 10 + 1)
    assert seen[1:] == [0.0, 2.0, 4.0, 6.0]


def test_replicas_call_each_for_itself_in_the_thread_of_the_call():
    threads = []

    def look(x):
        threads.append(threading.get_ident())
        return x * 10

    cpu = poptorch.CPU(look, "look")
    model = inference(lambda x: cpu(x * 2) + 1, poptorch.Options().replicationFactor(4).deviceIterations(3))
    x = torch.arange(24.0)
    for _ in range(5):
        assert torch.equal(model(x), x * 20 + 1)
    assert set(threads) == {threading.get_ident()} and len(threads) == 1 + 5 * 12


def test_a_pipeline_with_calls_on_two_ipus():
    first, second = poptorch.CPU(lambda x: x.flip(-1), "first"), poptorch.CPU(lambda x: x.cumsum(-1), "second")

    def forward(x):
        poptorch.Block.start("b0", ipu_id=0)
        x = first(x * 2)
        poptorch.Block.start("b1", ipu_id=1)
        return second(x + 1)

    options = poptorch.Options().deviceIterations(5)
    options.setExecutionStrategy(poptorch.PipelinedExecution("b0", "b1"))
    x = torch.randn(10, 3)
    torch.testing.assert_close(inference(forward, options)(x), ((x * 2).flip(-1) + 1).cumsum(-1))


def test_an_error_of_the_function_is_one_error_and_the_device_stays_usable():
    def picky(x):
        if (x < 0).any():
            raise ValueError("negative numbers")
        return x.sqrt()

    cpu = poptorch.CPU(picky, "picky")
    model = inference(lambda x: cpu(x), poptorch.Options().replicationFactor(2).deviceIterations(2))
    good = torch.arange(4.0)
    torch.testing.assert_close(model(good), good.sqrt())
    with pytest.raises(poptorch.Error) as raised:
        model(-good)
    message = str(raised.value)
    assert "host call failed" in message and "poptorch.CPU 'picky' raised ValueError: negative numbers" in message
    assert "test_host_calls.py" in message.split("in:")[1] and 'raise ValueError("negative numbers")' in message
    assert message.startswith("In ") and "test_host_calls.py" in message.split("'")[0]  # the line of forward
    torch.testing.assert_close(model(good), good.sqrt())


@pytest.mark.parametrize(
    "after, text",
    [
        (lambda x: x[:2], "result 0 is \\[2\\] of torch.float32 and was \\[3\\] of torch.float32 at capture"),
        (lambda x: x.double(), "result 0 is \\[3\\] of torch.float64 and was \\[3\\] of torch.float32"),
        (lambda x: (x, x), "gives 2 tensors and gave 1"),
    ],
)
def test_results_of_another_form_than_at_capture_are_errors(after, text):
    calls = []
    cpu = poptorch.CPU(lambda x: calls.append(1) or (x if len(calls) == 1 else after(x)), "changing")
    with pytest.raises(poptorch.Error, match=text):
        inference(lambda x: cpu(x))(torch.ones(3))


def test_wide_integers_that_do_not_fit_are_errors():
    cpu = poptorch.CPU(lambda x: x.long() << 40, "wide")
    with pytest.raises(poptorch.Error, match="does not fit the 32 bits"):
        inference(lambda x: cpu(x))(torch.ones(3))


@pytest.mark.parametrize("result", [3.0, None, [], [1.0]])
def test_a_function_that_gives_no_tensors_is_an_error_at_capture(result):
    cpu = poptorch.CPU(lambda x: result, "number")
    with pytest.raises(poptorch.Error, match="poptorch.CPU 'number' must return a tensor or a list of tensors"):
        inference(lambda x: cpu(x))(torch.ones(3))


def test_what_the_function_raises_at_capture_is_raised():
    cpu = poptorch.CPU(lambda x: 1 / 0, "broken")
    with pytest.raises(ZeroDivisionError):
        inference(lambda x: cpu(x))(torch.ones(3))
    assert torch.zeros(1).device.type == "cpu"


def test_mistakes_in_the_arguments():
    with pytest.raises(poptorch.Error, match="needs a module or function, got int"):
        poptorch.CPU(3, "three")
    with pytest.raises(poptorch.Error, match="needs a str as ID, got int"):
        poptorch.CPU(torch.sin, 3)
    first, second = poptorch.CPU(torch.sin, "same"), poptorch.CPU(torch.cos, "same")
    with pytest.raises(poptorch.Error, match="two callables of the model have the ID 'same'"):
        inference(lambda x: first(x) + second(x))(torch.ones(3))


def test_a_call_inside_of_a_call_runs_on_the_host():
    inner = poptorch.CPU(torch.sin, "inner")
    outer = poptorch.CPU(lambda x: inner(x) * 2, "outer")
    x = torch.randn(3)
    torch.testing.assert_close(inference(lambda x: outer(x))(x), torch.sin(x) * 2)


def test_a_function_may_not_call_the_model_that_calls_it():
    models = []
    cpu = poptorch.CPU(lambda x: models[0](x) if models else x, "again")
    model = inference(lambda x: cpu(x))
    model(torch.ones(3))
    models.append(model)
    with pytest.raises(poptorch.Error, match="host call failed"):
        model(torch.ones(3))
    models.clear()
    assert torch.equal(model(torch.ones(3)), torch.ones(3))


def test_reading_weights_in_the_function_does_not_wait_for_the_run():
    net = Trained(lambda x: x * 1)
    net.cpu = poptorch.CPU(lambda x: x + net.fc2.weight.sum() * 0, "reads")
    options = poptorch.Options().setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("b0", "b1").ipu(0)))
    trainer = poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.02))
    for _ in range(3):
        trainer(torch.randn(2, 4), torch.randn(2, 3))
    trainer.destroy()


def test_ctrl_c_interrupts_the_function_and_leaves_the_device_usable():
    def slow(x):
        if x[0] == 0 or not waiting:
            return x
        os.kill(os.getpid(), signal.SIGINT)
        time.sleep(30)
        ended.append(True)
        return x

    waiting, ended = [], []
    cpu = poptorch.CPU(slow, "slow")
    model = inference(lambda x: cpu(x), poptorch.Options().replicationFactor(2))
    model(torch.ones(2))
    waiting.append(True)
    with pytest.raises(KeyboardInterrupt):
        model(torch.ones(2))
    assert not ended
    waiting.clear()
    assert torch.equal(model(torch.ones(2)), torch.ones(2))


@pytest.mark.parametrize("replicas", [1, 2])
@pytest.mark.parametrize("kind", [SystemExit, GeneratorExit, type("Own", (BaseException,), {})])
def test_what_is_no_exception_leaves_as_itself(kind, replicas):
    leaves, raised = [], kind("mine")

    def leave(x):
        if leaves:
            raise raised
        return x

    cpu = poptorch.CPU(leave, "leave")
    model = inference(lambda x: cpu(x), poptorch.Options().replicationFactor(replicas))
    x = torch.ones(2)
    expected = model(x)
    leaves.append(True)
    with pytest.raises(kind) as caught:
        model(x)
    assert caught.value is raised
    leaves.clear()
    assert torch.equal(model(x), expected)
    model.destroy()  # the exception knows the frames of the call, and the host function the exception


def test_other_threads_run_python_meanwhile():
    done = threading.Event()

    def wait(x):
        if x[0] != 0:
            assert done.wait(120)
        return x

    cpu = poptorch.CPU(wait, "wait")
    model = inference(lambda x: cpu(x))
    timer = threading.Timer(0.2, done.set)
    timer.start()
    assert torch.equal(model(torch.ones(2)), torch.ones(2))
    timer.join()


def test_a_saved_executable_finds_the_function_by_its_id(tmp_path):
    path = tmp_path / "model.poptorch"
    x = torch.randn(3, 4)
    cpu = poptorch.CPU(lambda x: x.sort(-1)[0], "sort")
    model = inference(lambda x: cpu(x) * 2)
    model.compileAndExport(path, x, export_model=False)
    other = poptorch.CPU(lambda x: x.sort(-1, descending=True)[0], "sort")
    loaded = inference(lambda x: other(x) * 2)
    loaded.loadExecutable(path)
    torch.testing.assert_close(loaded(x), x.sort(-1, descending=True)[0] * 2)
    renamed = poptorch.CPU(lambda x: x.sort(-1)[0], "other name")
    with pytest.raises(poptorch.Error):
        inference(lambda x: renamed(x) * 2).loadExecutable(path)


def test_the_cache_of_executables_takes_the_function_of_each_model(tmp_path):
    x = torch.randn(5)
    for function in (torch.sin, torch.cos):
        options = poptorch.Options().enableExecutableCaching(str(tmp_path))
        cpu = poptorch.CPU(function, "function")
        torch.testing.assert_close(inference(lambda x: cpu(x) * 2, options)(x), function(x) * 2)


def test_any_id_names_its_own_function():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.sort = poptorch.CPU(lambda x: x.sort()[0], "identity")
            self.one = poptorch.CPU(lambda x: x + 1, "op#1")
            self.two = poptorch.CPU(lambda x: x * 2, "op")

        def forward(self, x):
            return self.sort(x), self.one(x), self.two(x)

    x = torch.tensor([3.0, 1.0, 2.0])
    for given, wanted in zip(poptorch.inferenceModel(Model())(x), (x.sort()[0], x + 1, x * 2)):
        assert torch.equal(given, wanted)
