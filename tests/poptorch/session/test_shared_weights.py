"""Wrappers over models that share layers: whoever reads or runs has the newest values, as in PyTorch."""

import copy
import io
import pickle
import random
import threading

import pytest
import torch

import poptorch
from poptorch._impl.session import device_weights

LR = 0.05


class Model(torch.nn.Module):
    """`own(shared(x))` with a buffer that counts, in the shared layer, how often it trained."""

    def __init__(self, shared, own):
        super().__init__()
        self.shared, self.own = shared, own

    def forward(self, x, y=None):
        if y is not None:
            self.shared.count.add_(1)
        out = self.own(torch.tanh(self.shared(x)))
        return out if y is None else (out, torch.nn.functional.mse_loss(out, y))


class Counted(torch.nn.Linear):
    def __init__(self, *sizes):
        super().__init__(*sizes)
        self.register_buffer("count", torch.zeros(()))


def layers(seed):
    torch.manual_seed(seed)
    return [Counted(3, 4), torch.nn.Linear(4, 2), torch.nn.Linear(4, 2)]


def models(parts):
    shared, one, two = parts
    return Model(shared, one), Model(shared, two)


def wrap(model):
    return poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=LR))


def batch(random_numbers):
    generator = torch.Generator().manual_seed(random_numbers.randrange(2**31))
    return torch.randn(5, 3, generator=generator), torch.randn(5, 2, generator=generator)


def train(model, x, y):
    """One step in PyTorch."""
    optimizer = torch.optim.SGD(model.parameters(), lr=LR)
    out, loss = model(x, y)
    loss.backward()
    optimizer.step()
    optimizer.zero_grad()
    return out.detach(), loss.detach()


def infer(model, x):
    with torch.no_grad():
        return model(x)


def values(model):
    return {name: tensor.detach().clone() for name, tensor in model.state_dict().items()}


class Programs:
    """The same calls on wrappers and in PyTorch."""

    def __init__(self, seed):
        self.random = random.Random(seed)
        parts = layers(seed)
        self.models = models(parts)
        self.plain = models(copy.deepcopy(parts))
        self.trainers = [wrap(model) for model in self.models]
        self.predict = poptorch.inferenceModel(Model(parts[0], parts[1]))

    def step(self):
        name = self.random.choice(
            ["train"] * 6 + ["infer"] * 3 + ["read", "write", "load", "destroy", "detach", "copy", "to host"]
        )
        getattr(self, name.replace(" ", "_"))(self.random.randrange(2))
        return name

    def train(self, i):
        x, y = batch(self.random)
        torch.testing.assert_close(self.trainers[i](x, y), train(self.plain[i], x, y))

    def infer(self, i):
        x, _ = batch(self.random)
        torch.testing.assert_close(self.predict(x), infer(self.plain[0], x))

    def read(self, i):
        torch.testing.assert_close(values(self.models[i]), values(self.plain[i]))
        weight = self.models[i].shared.weight
        torch.testing.assert_close((weight + 0).detach(), self.plain[i].shared.weight.detach())
        assert weight.sum().item() == pytest.approx(self.plain[i].shared.weight.sum().item(), rel=1e-4, abs=1e-5)

    def write(self, i):
        """On the host, then to the device of one trainer: others follow."""
        factor = self.random.choice([0.5, -1.0, 1.25])
        for model in (self.models[i], self.plain[i]):
            with torch.no_grad():
                for parameter in model.parameters():
                    parameter.mul_(factor)
        if self.trainers[i].isAttachedToDevice():
            self.trainers[i].copyWeightsToDevice()
        else:
            self.trainers[i].load_state_dict(self.models[i].state_dict())

    def load(self, i):
        state = {name: tensor * 0.75 for name, tensor in values(self.plain[i]).items()}
        self.trainers[i].load_state_dict(state)
        self.plain[i].load_state_dict(state)

    def destroy(self, i):
        self.trainers[i].destroy()
        if not self.trainers[i].isCompiled() and type(self.models[i]) is Model:
            self.trainers[i] = wrap(self.models[i])

    def detach(self, i):
        if self.trainers[i].isAttachedToDevice():
            self.trainers[i].detachFromDevice()

    def copy(self, i):
        for copied in (copy.deepcopy(self.models[i]), pickle.loads(pickle.dumps(self.models[i]))):
            torch.testing.assert_close(values(copied), values(self.plain[i]))
        file = io.BytesIO()
        torch.save(self.models[i].state_dict(), file)
        file.seek(0)
        torch.testing.assert_close(dict(torch.load(file)), values(self.plain[i]))

    def to_host(self, i):
        if self.trainers[i].isAttachedToDevice():
            self.trainers[i].copyWeightsToHost()

    def end(self):
        for i in range(2):
            self.train(i)
            self.read(i)
        for trainer in self.trainers:
            trainer.destroy()
        for model in self.models:
            assert type(model) is Model
            assert {type(p) for p in model.parameters()} == {torch.nn.Parameter}
        for i in range(2):
            torch.testing.assert_close(values(self.models[i]), values(self.plain[i]))


def run(seed, steps):
    programs, done = Programs(seed), []
    try:
        for _ in range(steps):
            done.append(programs.step())
        programs.end()
    except Exception as error:
        error.add_note(f"seed {seed}: {done}")
        raise


@pytest.mark.parametrize("seed", range(4))
def test_three_wrappers_in_any_order_have_the_values_of_pytorch(seed):
    run(seed, 40)


@pytest.mark.slow  # the first four are in the test above
@pytest.mark.parametrize("seed", range(4, 60))
def test_three_wrappers_in_any_longer_order_have_the_values_of_pytorch(seed):
    run(seed, 120)


def test_a_wrapper_of_a_part_of_the_model_and_of_the_whole_share_its_values():
    parts = layers(1)
    plain = Model(*copy.deepcopy(parts[:2]))
    model = Model(*parts[:2])
    whole, part = wrap(model), poptorch.inferenceModel(model.shared)
    x, y = batch(random.Random(1))
    for _ in range(2):
        whole(x, y)
        train(plain, x, y)
        torch.testing.assert_close(part(x), plain.shared(x).detach())
    whole(x, y)
    train(plain, x, y)
    whole.destroy()
    torch.testing.assert_close(part(x), plain.shared(x).detach())


def test_parameters_that_share_memory_share_their_values():
    parts = layers(2)
    model = Model(*parts[:2])
    other = Model(Counted(3, 4), torch.nn.Linear(4, 2))
    other.shared.weight = torch.nn.Parameter(model.shared.weight.data)
    plain, plain_other = copy.deepcopy((model, other))
    plain_other.shared.weight.data = plain.shared.weight.data
    first, second = wrap(model), wrap(other)
    numbers = random.Random(2)
    for trainer, reference in ((first, plain), (second, plain_other), (first, plain)):
        x, y = batch(numbers)
        torch.testing.assert_close(trainer(x, y), train(reference, x, y))
        torch.testing.assert_close(values(model), values(plain))
        torch.testing.assert_close(values(other), values(plain_other))


def test_a_trainer_that_is_collected_leaves_the_hooks_of_the_other():
    parts = layers(3)
    model, other = models(parts)
    plain = copy.deepcopy(model)
    first = wrap(model)
    wrap(other)  # nobody keeps it
    x, y = batch(random.Random(3))
    torch.testing.assert_close(first(x, y), train(plain, x, y))
    torch.testing.assert_close(values(other)["shared.weight"], values(plain)["shared.weight"])


def test_inference_wrappers_take_the_values_of_a_trainer_once(monkeypatch):
    model, _ = models(layers(4))
    trainer, predict = wrap(model), poptorch.inferenceModel(model)
    x, y = batch(random.Random(4))
    trainer(x, y)
    predict(x)
    uploads = []
    upload = device_weights.upload
    monkeypatch.setattr(
        device_weights, "upload", lambda state, compiled: (uploads.append(state), upload(state, compiled))
    )
    predict(x)
    predict(x)
    assert not uploads
    trainer(x, y)
    predict(x)
    predict(x)
    assert uploads == [predict._state]


def test_calls_in_two_threads_end_and_then_all_agree():
    one, two = models(layers(5))
    trainers, predict = (wrap(one), wrap(two)), poptorch.inferenceModel(one.shared)
    x, y = batch(random.Random(5))
    for trainer in trainers:
        trainer.compile(x, y)
    predict.compile(x)
    raised = []

    def work(trainer, model):
        try:
            for _ in range(30):
                trainer(x, y)
                model.shared.weight.sum().item()
                predict(x)
        except BaseException as error:
            raised.append(error)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(trainers, (one, two))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not raised
    weights = values(one)
    torch.testing.assert_close(
        predict(x), torch.nn.functional.linear(x, weights["shared.weight"], weights["shared.bias"])
    )
    torch.testing.assert_close(weights["shared.weight"], values(two)["shared.weight"], rtol=0, atol=0)
