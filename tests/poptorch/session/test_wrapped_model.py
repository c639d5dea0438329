"""What `executor.model` is, and what set on it before compiling is captured."""

import copy
import io
import pickle

import pytest
import torch

import poptorch


class Modes(torch.nn.Module):
    """Shows which flags the capture saw: of itself (1 training), of a part (10), and a plain attribute (100 each)."""

    def __init__(self):
        super().__init__()
        self.part = torch.nn.Identity()
        self.fc = torch.nn.Linear(2, 1, bias=False)
        self.k = 0

    def forward(self, x, y=None):
        out = self.fc(x)
        if y is not None:
            out = torch.nn.functional.mse_loss(out, y)
        return out, self.training + 10 * self.part.training + 100 * self.k


def seen(executor):
    return executor(torch.ones(1, 2))[1]


def test_an_inference_wrapper_shows_the_copy_that_is_captured():
    model = Modes()
    run = poptorch.inferenceModel(model)
    assert run.model is not model and type(run.model) is Modes
    assert run.model.fc is model.fc and run.fc.weight is model.fc.weight
    assert poptorch.inferenceModel(run).model is not run.model


def test_a_training_wrapper_shows_the_users_model():
    model = Modes()
    trainer = poptorch.trainingModel(model)
    assert trainer.model is model


@pytest.mark.parametrize(
    "change, expected",
    [
        (lambda run, model: None, 11),
        (lambda run, model: run.model.eval(), 0),
        (lambda run, model: run.eval(), 0),
        (lambda run, model: (run.eval(), run.train()), 11),
        (lambda run, model: setattr(run.model, "k", 3), 311),
        (lambda run, model: model.eval(), 1),
        (lambda run, model: setattr(model, "k", 3), 11),
    ],
)
def test_changes_before_compilation_reach_what_is_captured(change, expected):
    model = Modes()
    run = poptorch.inferenceModel(model)
    change(run, model)
    assert seen(run) == expected
    run.eval()
    assert seen(run) == expected  # compiled: nothing changes any more


@pytest.mark.parametrize("change, expected", [(lambda t: t.model.eval(), 1), (lambda t: setattr(t.model, "k", 3), 11)])
@pytest.mark.edge("22.13")
def test_a_training_wrapper_captures_the_copy_made_when_wrapping(change, expected):
    trainer = poptorch.trainingModel(Modes())
    change(trainer)
    assert trainer(torch.ones(1, 2), torch.ones(1, 1))[1] == expected


@pytest.mark.shows("PoplarExecutor.model")
def test_evaluation_of_a_loaded_trainer_takes_an_executable_of_its_own(tmp_path):
    model = Modes()
    x, y = torch.ones(1, 2), torch.ones(1, 1)
    trainer = poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=0.1))
    trainer.compileAndExport(tmp_path / "t.pt", x, y)
    trainer.destroy()
    poptorch.inferenceModel(model.eval()).compileAndExport(tmp_path / "i.pt", x)
    model.train()
    loaded = poptorch.load(tmp_path / "t.pt")
    tester = poptorch.inferenceModel(loaded)
    tester.model.eval()
    tester.loadExecutable(tmp_path / "i.pt")
    before, mode = tester(x)
    assert mode == 0
    loaded(x, y)
    torch.testing.assert_close(tester(x)[0], loaded.model.fc(x).detach())
    assert not torch.equal(tester(x)[0], before)


def trained(model):
    return poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=0.1))


@pytest.mark.parametrize(
    "wrap",
    [
        lambda model: (trained(model), poptorch.inferenceModel(model))[::-1],
        lambda model: (poptorch.inferenceModel(model), trained(model)),
        lambda model: (poptorch.inferenceModel(poptorch.inferenceModel(model)), trained(model)),
        lambda model: (tester := poptorch.inferenceModel(model), poptorch.trainingModel(tester)),
    ],
)
def test_weights_come_from_the_trainer_however_the_wrappers_were_made(wrap):
    model = Modes()
    tester, trainer = wrap(model)
    x = torch.ones(1, 2)
    for _ in range(2):
        trainer(x, torch.full((1, 1), 5.0))
        torch.testing.assert_close(tester(x)[0], model.fc(x).detach())
    weight = tester.model.fc.weight.detach().clone()
    trainer(x, torch.full((1, 1), 5.0))
    assert not torch.equal(tester.model.fc.weight.detach(), weight)  # reading fetches


def test_a_copy_in_another_wrapper_is_not_trained_twice():
    model = Modes()
    tester = poptorch.inferenceModel(model)
    trainer = trained(model)
    for wrapped in (model, trainer, tester):
        with pytest.raises(RuntimeError, match=r"already wrapped in a trainingModel: call destroy\(\)"):
            poptorch.trainingModel(wrapped)
    trainer.compile(torch.ones(1, 2), torch.ones(1, 1))
    trainer.destroy()
    again = trained(tester.model)
    again(torch.ones(1, 2), torch.full((1, 1), 5.0))
    torch.testing.assert_close(tester(torch.ones(1, 2))[0], model.fc(torch.ones(1, 2)).detach())


def test_a_copy_can_be_pickled_while_its_model_is_trained():
    model = Modes()
    tester = poptorch.inferenceModel(model)
    trainer = trained(model)
    trainer(torch.ones(1, 2), torch.ones(1, 1))
    copied = pickle.loads(pickle.dumps(tester.model))
    assert type(copied) is Modes and type(copied.fc.weight) is torch.nn.Parameter
    assert torch.equal(copied.fc.weight, model.fc.weight)


@pytest.mark.parametrize(
    "copied",
    [pickle.dumps, copy.deepcopy, lambda e: torch.save(e, io.BytesIO()), lambda e: pickle.dumps({"model": [e]})],
    ids=["pickle", "deepcopy", "torch.save", "inside"],
)
@pytest.mark.parametrize("training", [False, True])
def test_a_wrapper_cannot_be_pickled_and_says_what_can(copied, training):
    model = Modes()
    executor = trained(model) if training else poptorch.inferenceModel(model)
    with pytest.raises(
        poptorch.Error, match="a wrapper cannot be pickled or copied deeply: .*state_dict.*poptorch.load"
    ):
        copied(executor)
    executor.destroy()


class Expanded(torch.nn.Module):
    def __init__(self, kind, writes=False):
        super().__init__()
        self.fc = torch.nn.Linear(3, 3)
        self.writes = writes
        value = torch.ones(1).expand(3)
        if kind == "parameter":
            self.value = torch.nn.Parameter(value)
        elif kind == "frozen parameter":
            self.value = torch.nn.Parameter(value, requires_grad=False)
        else:
            self.register_buffer("value", value)

    def forward(self, x):
        if self.writes:
            self.value.add_(1)
        out = self.fc(x) * self.value
        return out, poptorch.identity_loss(out, "sum")


@pytest.mark.parametrize(
    "kind, writes, training, refused",
    [
        ("parameter", False, True, "its update"),
        ("parameter", False, False, None),
        ("frozen parameter", False, True, None),
        ("buffer", False, True, None),
        ("buffer", False, False, None),
        ("buffer", True, True, "what forward writes to it"),
        ("buffer", True, False, "what forward writes to it"),
    ],
)
def test_an_expanded_state_that_the_program_writes_is_refused_when_it_is_compiled(kind, writes, training, refused):
    model = Expanded(kind, writes)
    executor = trained(model) if training else poptorch.inferenceModel(model)
    if refused is None:
        expected = model(torch.ones(3))[0]
        torch.testing.assert_close(executor(torch.ones(3))[0], expected.detach())
        assert model.value.tolist() == [1.0] * 3
        return
    noun = kind.split()[-1]
    with pytest.raises(
        poptorch.Error, match=rf"the {noun} 'value' \[3\] is an expanded tensor: .*{refused} could not be stored"
    ):
        executor(torch.ones(3))
    assert model.value.tolist() == [1.0] * 3
