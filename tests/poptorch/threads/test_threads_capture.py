"""What a capture changes in torch is seen by the thread that captures alone."""

import pickle
import threading

import pytest
import torch
import torch.nn.functional as F
from thread_harness import LIMIT, Worker, watchdog
from torch import nn

import poptorch
from poptorch import poptorch_core


@pytest.fixture(autouse=True)
def watched():
    with watchdog():
        yield


class Handshake(nn.Module):
    """A model whose capture stands still while other threads do what they do."""

    def __init__(self):
        super().__init__()
        self.inner = nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4, momentum=None), nn.ReLU())
        self.reached, self.go_on = threading.Event(), threading.Event()

    def forward(self, x):
        y = self.inner(x) + torch.zeros(4)
        self.reached.set()
        assert self.go_on.wait(LIMIT)
        return self.inner(y)


def during_a_capture(work):
    """`work(model)` in another thread, in the middle of a capture."""
    model = Handshake().eval()

    def other():
        assert model.reached.wait(LIMIT)
        try:
            return work(model)
        finally:
            model.go_on.set()

    worker = Worker(other)
    run = poptorch.inferenceModel(model)
    result = run(torch.ones(2, 4))
    assert result.shape == (2, 4)
    return worker.result()


def generator():
    return torch.Generator().manual_seed(5)


def parts(value):
    """The tensors of a result, and the rest."""
    if isinstance(value, torch.Tensor):
        assert value.device.type == "cpu" and type(value) in (torch.Tensor, nn.Parameter)
        return [value.detach()]
    if isinstance(value, (tuple, list)):
        return [part for member in value for part in parts(member)]
    if isinstance(value, dict):
        return parts(list(value.values()))
    return [value]


def same(a, b):
    a, b = parts(a), parts(b)
    return len(a) == len(b) and all(torch.equal(x, y) if isinstance(x, torch.Tensor) else x == y for x, y in zip(a, b))


# --- what other threads do: name → function ---


def factories():
    like = torch.ones(2, 3)
    return [
        torch.arange(5),
        torch.empty(3).fill_(1),
        torch.full((2,), 3.0),
        torch.full_like(like, 2),
        torch.linspace(0, 1, 5),
        torch.logspace(0, 1, 5),
        torch.ones(2),
        torch.rand(3, generator=generator()),
        torch.randint(9, (4,), generator=generator()),
        torch.randn(3, generator=generator()),
        torch.randperm(5, generator=generator()),
        torch.range(0, 3),
        torch.tensor([1, 2]),
        torch.zeros(2),
        torch.zeros_like(like),
        torch.normal(0.0, 1.0, (3,), generator=generator()),
        torch.eye(3),
        torch.from_numpy(torch.ones(3).numpy()),
    ]


def layer(kind, *args, **kwargs):
    with torch.random.fork_rng():
        torch.manual_seed(3)
        return kind(*args, **kwargs)


LAYERS = {}  # made before the capture: the global generator belongs to all threads


def inference():
    return [LAYERS["linear"](torch.ones(2, 4)), LAYERS["encoder"](torch.linspace(0, 1, 48).view(2, 3, 8))]


def training():
    model = pickle.loads(pickle.dumps(LAYERS["net"])).train()
    optimizer = torch.optim.Adam(model.parameters(), lr=0.1)
    x, target = torch.linspace(-1, 1, 12).view(3, 4), torch.ones(3, 4)
    for loss in (nn.MSELoss(), nn.L1Loss(), nn.HuberLoss()):
        optimizer.zero_grad()
        loss(model(x), target).backward()
        optimizer.step()
    return model.state_dict()


def losses():
    x, y = torch.linspace(0.1, 0.9, 6).view(2, 3).requires_grad_(), torch.full((2, 3), 0.25)
    w = torch.full((2, 3), 2.0)
    values = [F.mse_loss(x, y, weight=w), F.l1_loss(x, y, weight=w), F.kl_div(x, y, reduction="batchmean")]
    values.append(F.multilabel_soft_margin_loss(x, (y > 0).float()))
    sum(values).backward()
    return [*values, x.grad]


class Double(torch.autograd.Function):
    @staticmethod
    def forward(ctx, x):
        return x * 2

    @staticmethod
    def backward(ctx, g):
        return g * 3


def autograd():
    x = torch.ones(3, requires_grad=True)
    seen = []
    y = Double.apply(x) * 5
    y.retain_grad()
    y.register_hook(lambda g: seen.append(g.clone()))
    y.sum().backward()
    (double,) = torch.autograd.grad((x**3).sum(), x, create_graph=True)
    return [x.grad, y.grad, double, len(seen), *seen]


def checkpointed():
    model = LAYERS["linear"]
    x = torch.ones(2, 4, requires_grad=True)
    for use_reentrant in (True, False):
        torch.utils.checkpoint.checkpoint(model, x, use_reentrant=use_reentrant).sum().backward()
    return x.grad


def distributions():
    with pytest.raises(ValueError):
        torch.distributions.Normal(torch.zeros(2), -torch.ones(2))
    return torch.distributions.Normal(torch.zeros(2), torch.ones(2)).log_prob(torch.ones(2))


def batch_norm():
    norm = nn.BatchNorm1d(4, momentum=None).train()
    x = torch.linspace(0, 1, 12).view(3, 4)
    return [norm(x), norm(x), norm.running_mean, norm.running_var, norm.num_batches_tracked]


# torch's tracer and script compiler keep their state in modules: not for two threads at once.
JIT = threading.Lock()


def traced():
    assert not torch.jit.is_tracing()
    with JIT:
        module = torch.jit.trace(LAYERS["net"].eval(), torch.ones(2, 4))
    return module(torch.full((2, 4), 2.0))


def scripted_function(x: torch.Tensor) -> torch.Tensor:
    return F.mse_loss(x, torch.zeros(2)) + torch.arange(3).sum() + torch.full((1,), 2.0)


def scripted():
    with JIT:
        module, function = torch.jit.script(LAYERS["net"].eval()), torch.jit.script(scripted_function)
    return [function(torch.ones(2)), module(torch.ones(2, 4))]


def loaded():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).view(6, 2), torch.arange(6))
    plain = list(torch.utils.data.DataLoader(data, batch_size=2, num_workers=0))
    collated = torch.utils.data.default_collate([{"a": 1, "b": 2.0}, {"a": 3, "b": 4.0}])
    return [plain, collated]


def loaded_by_poptorch():
    data = torch.utils.data.TensorDataset(torch.arange(12.0).view(6, 2))
    return list(poptorch.DataLoader(poptorch.Options().deviceIterations(2), data, batch_size=1, num_workers=0))


def questions():
    assert not poptorch.isRunningOnIpu() and not poptorch_core.isCompilingWithDispatcher()
    assert torch.backends.mha.get_fastpath_enabled()
    with poptorch.Block("elsewhere", ipu_id=1), poptorch.MultiConv():
        poptorch.set_available_memory(torch.ones(2), 0.2)
    return repr(torch.ones(2))


def running_poptorch():
    """A model that is compiled already."""
    return LAYERS["compiled"](torch.ones(2, 4))


WORK = [factories, inference, training, losses, autograd, checkpointed, distributions, batch_norm]
WORK += [traced, scripted, loaded, loaded_by_poptorch, questions, running_poptorch]


@pytest.fixture(scope="module", autouse=True)
def layers():
    LAYERS["linear"] = layer(nn.Linear, 4, 4)
    LAYERS["net"] = layer(lambda: nn.Sequential(nn.Linear(4, 4), nn.BatchNorm1d(4), nn.Tanh()))
    LAYERS["encoder"] = layer(nn.TransformerEncoderLayer, 8, 2, 16, batch_first=True).eval()
    LAYERS["compiled"] = poptorch.inferenceModel(layer(nn.Linear, 4, 4).eval())
    LAYERS["compiled"](torch.ones(2, 4))
    yield
    LAYERS.clear()


@pytest.mark.parametrize("work", WORK)
def test_other_threads_see_torch_as_it_is(work):
    expected = work()
    assert same(during_a_capture(lambda _: work()), expected)


def test_what_was_taken_from_torch_during_a_capture_is_plain_afterwards():
    kept = during_a_capture(lambda _: (torch.zeros, torch.normal, nn.Module.__call__, F.mse_loss, torch.jit.is_tracing))
    zeros, normal, call, loss, is_tracing = kept
    assert zeros(2).device.type == "cpu" and normal(0.0, 1.0, (2,)).device.type == "cpu"
    assert torch.equal(call(LAYERS["linear"], torch.ones(1, 4)), LAYERS["linear"](torch.ones(1, 4)))
    assert loss(torch.ones(2), torch.zeros(2), weight=torch.ones(2)) == 1 and not is_tracing()


def test_the_captured_model_itself_is_refused_with_its_reason():
    def work(model):
        with pytest.raises(poptorch.Error) as caught:
            model.inner[0](torch.ones(2, 4))
        return caught.value.message

    assert during_a_capture(work) == (
        "operation from another thread [IPU-E108]: aten::linear uses a tensor of a model that another thread is capturing.\n"
        "  try:      run forward() in one thread; let others use the model's parameters before or after its first call or "
        "compile()"
    )


def test_another_model_is_compiled_afterwards():
    waiting = []

    def work(_):
        other = poptorch.inferenceModel(layer(nn.Linear, 4, 4).eval())
        waiting.append(Worker(other, torch.ones(2, 4)))

    during_a_capture(work)
    assert torch.equal(waiting[0].result(), LAYERS["compiled"](torch.ones(2, 4)))


def test_captures_again_and_again_next_to_threads_that_work():
    """No handshake: threads meet the capture at any point of it."""
    expected = {work: work() for work in WORK}
    stop = threading.Event()

    def other(offset):
        rounds = 0
        while rounds == 0 or not stop.is_set():
            work = WORK[(rounds + offset) % len(WORK)]
            assert same(work(), expected[work]), work.__name__
            rounds += 1
        return rounds

    class Large(nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = nn.ModuleList(nn.Sequential(nn.Linear(8, 8), nn.LayerNorm(8), nn.GELU()) for _ in range(40))

        def forward(self, x):
            for inner in self.layers:
                x = x + inner(x) * torch.ones(8)
            return x

    from poptorch._impl.capture.graph_capture import GraphCapture

    workers = [Worker(other, offset) for offset in (0, 5, 9)]
    model, x = Large().eval(), torch.ones(4, 8)
    try:
        for _ in range(15):
            capture = GraphCapture(model, False, poptorch.Options(), set(), {})
            captured = capture.run(["x"], [x], [None], 1, {})
            assert len(captured.op_kinds()) > 120
            if not all(worker.is_alive() for worker in workers):
                break
    finally:
        stop.set()
    assert all(worker.result() > 0 for worker in workers)
