"""State dictionaries of optimizers: read from the device, copied, pickled, loaded, carried to other processes and models."""

import copy
import io
import logging
import pathlib
import pickle
import textwrap

import pytest
import torch
from python_programs import run_program

import poptorch
from poptorch._impl import log
from poptorch._impl.session.executor import state_of


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.first = torch.nn.Linear(6, 5)
        self.second = torch.nn.Linear(5, 3)

    def forward(self, x, y):
        return torch.nn.functional.mse_loss(self.second(torch.tanh(self.first(x))), y)


def batch(number):
    generator = torch.Generator().manual_seed(number)
    return torch.randn(4, 6, generator=generator), torch.randn(4, 3, generator=generator)


def new_net():
    torch.manual_seed(0)
    return Net()


def run(trainer, first, last):
    for number in range(first, last):
        trainer(*batch(number))


def equal(a, b):
    return a.keys() == b.keys() and all(torch.equal(a[name], b[name]) for name in a)


MAKERS = {
    "sgd": lambda p: poptorch.optim.SGD(p, lr=0.05, momentum=0.9),
    "sgd-combined": lambda p: poptorch.optim.SGD(p, lr=0.05, momentum=0.9, weight_decay=0.1, use_combined_accum=True),
    "adam": lambda p: poptorch.optim.Adam(p, lr=0.01, loss_scaling=8.0),
    "adamw-half": lambda p: poptorch.optim.AdamW(p, lr=0.01, first_order_momentum_accum_type=torch.float16),
    "rmsprop": lambda p: poptorch.optim.RMSprop(p, lr=0.01, momentum=0.5, centered=True),
    "lamb": lambda p: poptorch.optim.LAMB(p, lr=0.01),
}
STATES = {
    "sgd": ["Accl1"],
    "sgd-combined": ["Accl", "Started"],
    "adam": ["Accl1", "Accl2", "Step"],
    "adamw-half": ["Accl1", "Accl2", "Step"],
    "rmsprop": ["Accl1", "Accl2", "Accl3"],
    "lamb": ["Accl1", "Accl2", "Step"],
}
PARAMETERS = ["first.weight", "first.bias", "second.weight", "second.bias"]


@pytest.fixture
def warnings():
    taken = []

    class Handler(logging.Handler):
        def emit(self, record):
            taken.append(record.getMessage())

    handler = Handler()
    log.logger.addHandler(handler)
    yield taken
    log.logger.removeHandler(handler)


@pytest.fixture
def adam():
    """(trainer, optimizer) after two calls."""
    net = new_net()
    optimizer = MAKERS["adam"](net.parameters())
    trainer = poptorch.trainingModel(net, None, optimizer)
    run(trainer, 0, 2)
    yield trainer, optimizer
    trainer.destroy()


# --- reading ---


@pytest.mark.parametrize("name", MAKERS)
@pytest.mark.shows("optim.RMSprop", "optim.LAMB")
def test_state_by_back_end_name(name):
    net = new_net()
    optimizer = MAKERS[name](net.parameters())
    trainer = poptorch.trainingModel(net, None, optimizer)
    before = optimizer.state_dict()
    assert list(before) == ["ipu_state", "ipu_param", "state", "param_groups"]
    assert before["ipu_state"] is None and before["ipu_param"] is None
    run(trainer, 0, 3)
    state = optimizer.state_dict()["ipu_state"]
    assert set(state) == {f"{prefix}___{parameter}" for prefix in STATES[name] for parameter in PARAMETERS}
    shapes = dict(net.named_parameters())
    for full, tensor in state.items():
        prefix, parameter = full.split("___")
        assert tensor.shape == (() if prefix in ("Step", "Started") else shapes[parameter].shape), full
        assert tensor.float().abs().sum() > 0, full
    if name == "adamw-half":
        assert state["Accl1___first.bias"].dtype == torch.float16
    trainer.destroy()


@pytest.mark.shows("optim.Optimizer")
def test_state_has_the_values_of_torchs_state(adam):
    _, optimizer = adam
    plain = new_net()
    twin = torch.optim.Adam(plain.parameters(), lr=0.01)
    for number in range(2):
        twin.zero_grad()
        plain(*batch(number)).backward()
        twin.step()
    state = optimizer.state_dict()["ipu_state"]
    for name, parameter in plain.named_parameters():
        theirs = twin.state[parameter]
        torch.testing.assert_close(state[f"Accl1___{name}"], theirs["exp_avg"])
        torch.testing.assert_close(state[f"Accl2___{name}"], theirs["exp_avg_sq"])
        assert state[f"Step___{name}"] == theirs["step"]


def test_scalars_of_the_device():
    def scalars(optimizer, net):
        trainer = poptorch.trainingModel(net, None, optimizer)
        run(trainer, 0, 1)
        result = optimizer.state_dict()["ipu_param"]
        trainer.destroy()
        return {name: tensor.item() for name, tensor in result.items() if "first.bias" in name or "___" not in name}

    net = new_net()
    adam = scalars(poptorch.optim.Adam(net.parameters(), lr=0.25, eps=0.5, loss_scaling=8.0), net)
    assert adam == {
        "lossScaling_FLOAT": 8.0,
        "learningRate___specific___first.bias": 0.25,
        "adamEps___specific___first.bias": 0.5,
        "adamGradientScaling___specific___first.bias": 0.125,
    }
    net = new_net()
    assert scalars(poptorch.optim.Adam(net.parameters()), net) == {}
    net = new_net()
    plain = scalars(poptorch.optim.SGD(net.parameters(), lr=0.5, dampening=0.5, weight_decay=0.25), net)
    assert plain == {
        "scaledLearningRate0___specific___first.bias": 0.25,
        "weightDecayScaleFactor0___specific___first.bias": 1 - 0.5 * 0.5 * 0.25,
    }
    net = new_net()
    separate = scalars(poptorch.optim.SGD(net.parameters(), lr=0.5, momentum=0.25, loss_scaling=4.0), net)
    assert separate == {
        "lossScaling_FLOAT": 4.0,
        "scaledLearningRate2___specific___first.bias": 0.5,
        "dampeningScaleFactor2___specific___first.bias": 0.25,
        "scaledMomentum2___specific___first.bias": 0.25,
    }
    net = new_net()
    combined = scalars(
        poptorch.optim.SGD(
            net.parameters(), lr=0.5, momentum=0.25, weight_decay=0.5, velocity_scaling=4.0, use_combined_accum=True
        ),
        net,
    )
    assert combined == {
        "scaledLearningRate1___specific___first.bias": 0.125,
        "scaledWeightDecay1___specific___first.bias": 2.0,
        "dampeningScaleFactor1___specific___first.bias": 4.0,
        "scaledMomentum1___specific___first.bias": 0.25,
    }


EVERYTHING = {  # optimizer → (how it is made, first parts of its scalars)
    "sgd0": (
        lambda p: poptorch.optim.SGD(p, lr=0.1, weight_decay=0.1, loss_scaling=2.0),
        "scaledLearningRate0 weightDecayScaleFactor0",
    ),
    "sgd1": (
        lambda p: poptorch.optim.SGD(
            p,
            lr=0.1,
            momentum=0.5,
            weight_decay=0.1,
            nesterov=True,
            loss_scaling=2.0,
            velocity_scaling=4.0,
            use_combined_accum=True,
        ),
        "scaledLearningRate1 scaledWeightDecay1 dampeningScaleFactor1 scaledMomentum1 sgdMomentum sgdWeightDecay "
        "nesterovGradScaleFactor1 nesterovDampeningScaleFactor1",
    ),
    "sgd2": (
        lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.5, dampening=0.25, weight_decay=0.1, loss_scaling=2.0),
        "scaledLearningRate2 scaledWeightDecay1 dampeningScaleFactor2 scaledMomentum2",
    ),
    "adam": (
        lambda p: poptorch.optim.Adam(p, lr=0.1, betas=(0.5, 0.75), eps=1e-3, weight_decay=0.1, loss_scaling=2.0),
        "learningRate weightDecay adamBeta1 adamBeta2 adamEps adamGradientScaling",
    ),
    "lamb": (
        lambda p: poptorch.optim.LAMB(
            p, lr=0.1, betas=(0.5, 0.75), eps=1e-3, weight_decay=0.1, loss_scaling=2.0, max_weight_norm=9.0
        ),
        "learningRate weightDecay adamBeta1 adamBeta2 adamEps adamGradientScaling maxWeightNorm",
    ),
    "rmsprop": (
        lambda p: poptorch.optim.RMSprop(
            p, lr=0.1, alpha=0.5, eps=1e-3, weight_decay=0.1, momentum=0.5, loss_scaling=2.0
        ),
        "learningRate weightDecay adaptiveAlpha adaptiveMomentum adaptiveEps adaptiveGradientScaling",
    ),
}


@pytest.mark.parametrize("name", EVERYTHING)
def test_names_of_all_scalars(name):
    make, names = EVERYTHING[name]
    net = new_net()
    optimizer = make(net.parameters())
    trainer = poptorch.trainingModel(net, None, optimizer)
    run(trainer, 0, 1)
    expected = {f"{scalar}___specific___{parameter}" for scalar in names.split() for parameter in PARAMETERS}
    assert set(optimizer.state_dict()["ipu_param"]) == expected | {"lossScaling_FLOAT"}
    trainer.destroy()


def changed(optimizer):
    """Other values for everything that is variable."""
    for group in optimizer.param_groups:
        for key in ("lr", "momentum", "weight_decay", "alpha", "eps"):
            if isinstance(group.get(key), float) and group[key]:
                group[key] /= 2
        if "betas" in group:
            group["betas"] = (0.25, 0.5)
    optimizer.loss_scaling = 4.0
    return optimizer


@pytest.mark.parametrize("name", EVERYTHING)
def test_loaded_scalars_rule_the_device_until_other_values_are_set(name):
    make, _ = EVERYTHING[name]

    def trained(optimizer, steps, load=None):
        trainer = poptorch.trainingModel(net, None, optimizer)
        trainer.compile(*batch(0))
        if load is not None:
            optimizer.load_state_dict(load)
            assert equal(optimizer.state_dict()["ipu_param"], load["ipu_param"])
        run(trainer, 0, steps)
        weights = {key: value.clone() for key, value in net.state_dict().items()}
        param = optimizer.state_dict()["ipu_param"]
        trainer.destroy()
        return weights, param

    net = new_net()
    start = copy.deepcopy(net.state_dict())
    of_other = changed(make(net.parameters()))
    trainer = poptorch.trainingModel(net, None, of_other)
    trainer.compile(*batch(0))
    saved = of_other.state_dict()
    trainer.destroy()
    want, want_param = trained(of_other, 3)
    # Only the scalars are those of the other: groups say what they said.
    net.load_state_dict(start)
    optimizer = make(net.parameters())
    state = {**saved, "param_groups": optimizer.state_dict()["param_groups"]}
    got, param = trained(optimizer, 3, load=state)
    assert equal(param, saved["ipu_param"]) and equal(param, want_param)
    for key, value in want.items():
        torch.testing.assert_close(got[key], value, rtol=1e-5, atol=1e-7)


def test_scalars_come_from_the_groups_again_after_other_values_were_set():
    net = new_net()
    optimizer = poptorch.optim.SGD(net.parameters(), lr=0.5)
    trainer = poptorch.trainingModel(net, None, optimizer)
    run(trainer, 0, 1)
    state = optimizer.state_dict()
    for key in state["ipu_param"]:
        state["ipu_param"][key] = torch.tensor(0.125)
    optimizer.load_state_dict(state)
    key = "scaledLearningRate0___specific___first.bias"
    for _ in range(2):
        run(trainer, 1, 2)
        assert optimizer.state_dict()["ipu_param"][key] == 0.125
        trainer.setOptimizer(optimizer)  # nothing new
    optimizer.param_groups[0]["lr"] = 0.25
    trainer.setOptimizer(optimizer)
    run(trainer, 2, 3)
    assert optimizer.state_dict()["ipu_param"][key] == 0.25
    trainer.destroy()


def test_an_offline_target_has_no_state():
    net = new_net()
    optimizer = poptorch.optim.Adam(net.parameters(), lr=0.5)
    trainer = poptorch.trainingModel(net, poptorch.Options().connectionType(poptorch.ConnectionType.Never), optimizer)
    trainer.compile(*batch(0))
    state = optimizer.state_dict()
    assert state["ipu_state"] is None and state["ipu_param"] is None
    trainer.destroy()


def test_who_has_newer_state_is_said(adam):
    trainer, optimizer = adam

    def flags():
        return optimizer.ipu_state_is_dirty, optimizer.host_state_is_dirty

    assert flags() == (False, True)
    state = optimizer.state_dict()
    assert flags() == (False, False)
    optimizer.load_state_dict(state)
    assert flags() == (True, False)
    run(trainer, 2, 3)
    assert flags() == (False, True)
    trainer.detachFromDevice()
    assert flags() == (False, False)


def test_the_device_is_read_once_after_a_run(adam, monkeypatch):
    trainer, optimizer = adam
    reads = []
    native = trainer._executable

    class Counting:
        def read_optimizer_state(self):
            reads.append(1)
            return native.read_optimizer_state()

        def __getattr__(self, name):
            return getattr(native, name)

    state = state_of(trainer)
    monkeypatch.setattr(state, "compiled", state.compiled._replace(executable=Counting()))
    first = optimizer.state_dict()["ipu_state"]
    assert equal(optimizer.state_dict()["ipu_state"], first) and len(reads) == 1
    run(trainer, 2, 3)
    assert len(reads) == 1
    second = optimizer.state_dict()["ipu_state"]
    assert len(reads) == 2 and not equal(first, second)


def test_state_as_compiled_before_the_first_run():
    net = new_net()
    optimizer = poptorch.optim.RMSprop(net.parameters(), lr=0.01, use_tf_variant=True)
    trainer = poptorch.trainingModel(net, None, optimizer)
    trainer.compile(*batch(0))
    state = optimizer.state_dict()["ipu_state"]
    assert all(torch.equal(tensor, torch.ones_like(tensor)) for tensor in state.values())
    trainer.destroy()


# --- where it goes ---


def test_detach_and_attach_keep_the_state(adam):
    trainer, optimizer = adam
    trainer.detachFromDevice()
    kept = optimizer.state_dict()["ipu_state"]
    assert kept["Step___first.bias"] == 2
    trainer.attachToDevice()
    assert equal(optimizer.state_dict()["ipu_state"], kept)
    run(trainer, 2, 3)
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 3


@pytest.mark.parametrize("make", [MAKERS["adam"], lambda p: torch.optim.Adam(p, lr=0.01)])
def test_detach_and_attach_change_no_bit(make):
    weights = []
    for interrupted in (False, True):
        net = new_net()
        trainer = poptorch.trainingModel(net, None, make(net.parameters()))
        run(trainer, 0, 3)
        if interrupted:
            trainer.detachFromDevice()
            trainer.attachToDevice()
        run(trainer, 3, 6)
        weights.append({name: tensor.clone() for name, tensor in net.state_dict().items()})
        trainer.destroy()
    assert equal(*weights)


def test_destroy_reads_the_state_and_a_new_wrapper_goes_on_with_it():
    weights = []
    for interrupted in (False, True):
        net = new_net()
        optimizer = MAKERS["adam"](net.parameters())
        trainer = poptorch.trainingModel(net, None, optimizer)
        run(trainer, 0, 3)
        if interrupted:
            trainer.destroy()
            assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 3
            trainer = poptorch.trainingModel(net, None, optimizer)
        run(trainer, 3, 6)
        weights.append({name: tensor.clone() for name, tensor in net.state_dict().items()})
        trainer.destroy()
    assert equal(*weights)


def test_a_new_optimizer_without_state_leaves_the_device_as_it_is(adam):
    trainer, optimizer = adam
    new = poptorch.optim.Adam(trainer.model.parameters(), lr=0.5, loss_scaling=8.0)
    trainer.setOptimizer(new)
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 2  # read back when it was replaced
    run(trainer, 2, 3)
    assert new.state_dict()["ipu_state"]["Step___first.bias"] == 3
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 2


def test_a_new_optimizer_with_state_brings_it_along(adam):
    trainer, optimizer = adam
    twin = copy.deepcopy(optimizer)
    run(trainer, 2, 5)
    new = poptorch.optim.Adam(trainer.model.parameters(), lr=0.01, loss_scaling=8.0)
    new.load_state_dict(twin.state_dict())
    trainer.setOptimizer(new)
    assert new.state_dict()["ipu_state"]["Step___first.bias"] == 2
    run(trainer, 5, 6)
    assert new.state_dict()["ipu_state"]["Step___first.bias"] == 3
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 5


class Pair(torch.nn.Module):
    """Another model over the same parameters."""

    def __init__(self, net):
        super().__init__()
        self.first, self.second = net.first, net.second

    def forward(self, x, y):
        return torch.nn.functional.l1_loss(self.second(torch.tanh(self.first(x))), y)


def test_two_models_take_turns_with_one_optimizer():
    net = new_net()
    optimizer = MAKERS["adam"](net.parameters())
    trainer = poptorch.trainingModel(net, None, optimizer)
    run(trainer, 0, 2)
    trainer.detachFromDevice()
    other = poptorch.trainingModel(Pair(net), None, optimizer)
    run(other, 2, 3)
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 3
    other.detachFromDevice()
    trainer.attachToDevice()
    run(trainer, 3, 4)
    assert optimizer.state_dict()["ipu_state"]["Step___first.bias"] == 4
    other.destroy()
    trainer.destroy()


# --- copies and files ---


@pytest.mark.parametrize("how", [copy.copy, copy.deepcopy, lambda o: torch.load(saved(o), weights_only=False)])
def test_copies_keep_marks_attributes_and_state(adam, how):
    trainer, optimizer = adam
    optimizer.variable_attrs.markAsConstant("eps")
    optimizer.note = "mine"
    torch.optim.lr_scheduler.StepLR(optimizer, 1)  # puts functions on the optimizer
    twin = how(optimizer)
    assert type(twin) is poptorch.optim.Adam and twin.note == "mine" and twin.loss_scaling == 8.0
    assert twin.variable_attrs.isConstant("eps") and not twin.variable_attrs.isConstant("lr")
    twin.variable_attrs.markAsVariable("eps")
    assert optimizer.variable_attrs.isConstant("eps")
    state = optimizer.state_dict()["ipu_state"]
    assert equal(twin.state_dict()["ipu_state"], state)
    run(trainer, 2, 4)
    assert equal(twin.state_dict()["ipu_state"], state)  # on its own
    twin.step()


def saved(thing):
    file = io.BytesIO()
    torch.save(thing, file)
    file.seek(0)
    return file


def test_another_process_goes_on_with_the_same_bits(tmp_path):
    here = pathlib.Path(__file__).resolve().parent
    script = f"""
        import sys
        sys.path[:0] = [{str(here)!r}, {str(here.parents[2])!r}]
        import torch, poptorch
        from test_optimizer_state import MAKERS, new_net, run
        for name, make in MAKERS.items():
            net = new_net()
            saved = torch.load(f"{{name}}.half.pt")
            net.load_state_dict(saved["model"])
            optimizer = make(net.parameters())
            optimizer.load_state_dict(saved["optimizer"])
            trainer = poptorch.trainingModel(net, None, optimizer)
            run(trainer, 3, 6)
            torch.save({{"model": net.state_dict(), "optimizer": optimizer.state_dict()}}, f"{{name}}.whole.pt")
            trainer.destroy()
    """
    ours = {}
    for name, make in MAKERS.items():
        net = new_net()
        optimizer = make(net.parameters())
        trainer = poptorch.trainingModel(net, None, optimizer)
        run(trainer, 0, 3)
        torch.save({"model": net.state_dict(), "optimizer": optimizer.state_dict()}, tmp_path / f"{name}.half.pt")
        run(trainer, 3, 6)
        ours[name] = copy.deepcopy({"model": net.state_dict(), "optimizer": optimizer.state_dict()})
        trainer.destroy()
    done = run_program(textwrap.dedent(script), cwd=tmp_path, timeout=120)
    assert done.returncode == 0, done.stderr
    for name in MAKERS:
        theirs = torch.load(tmp_path / f"{name}.whole.pt")
        assert equal(theirs["model"], ours[name]["model"]), name
        for part in ("ipu_state", "ipu_param"):
            assert equal(theirs["optimizer"][part], ours[name]["optimizer"][part]), name


def test_loading_while_attached_goes_back_in_time(adam):
    trainer, optimizer = adam
    saved_weights, saved_state = copy.deepcopy(trainer.model.state_dict()), optimizer.state_dict()
    run(trainer, 2, 4)
    expected = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    optimizer.param_groups[0]["lr"] = 0.5
    optimizer.loss_scaling = 2.0
    trainer.setOptimizer(optimizer)
    trainer.load_state_dict(saved_weights)
    optimizer.load_state_dict(saved_state)
    assert optimizer.param_groups[0]["lr"] == 0.01 and optimizer.loss_scaling == 8.0
    assert equal(optimizer.state_dict()["ipu_state"], saved_state["ipu_state"])  # not yet on the device
    run(trainer, 2, 4)
    assert equal(trainer.model.state_dict(), expected)


def test_loading_synchronises_weights_first(adam):
    trainer, optimizer = adam
    saved_state = optimizer.state_dict()
    run(trainer, 2, 3)
    weights = {name: tensor.clone() for name, tensor in trainer.model.state_dict().items()}
    optimizer.load_state_dict(saved_state)
    run(trainer, 3, 4)
    assert not equal(trainer.model.state_dict(), weights)


# --- what cannot be loaded ---


def test_unknown_and_missing_entries_are_warned_about(adam, warnings):
    trainer, optimizer = adam
    state = optimizer.state_dict()
    del state["ipu_state"]["Step___first.bias"], state["ipu_param"]["learningRate___specific___first.bias"]
    state["ipu_state"]["Accl9___first.bias"] = torch.zeros(5)
    state["ipu_param"]["magic"] = torch.tensor(1.0)
    run(trainer, 2, 5)
    optimizer.load_state_dict(state)
    run(trainer, 5, 6)
    assert warnings == [
        "Ignoring unknown optimizer parameter 'magic': the compiled model has none of that name.",
        "The optimizer parameter 'learningRate___specific___first.bias' is missing: it keeps its value on the device.",
        "Ignoring unknown optimizer state 'Accl9___first.bias': the compiled model has none of that name.",
        "The optimizer state 'Step___first.bias' is missing: it keeps its value on the device.",
    ]
    after = optimizer.state_dict()
    assert after["ipu_state"]["Step___first.bias"] == 6 and after["ipu_state"]["Step___first.weight"] == 3
    assert after["ipu_param"]["learningRate___specific___first.bias"] == torch.tensor(0.01)
    assert "magic" not in after["ipu_param"]


def test_dictionaries_without_the_parts_of_torch_raise_torchs_error(adam):
    _, optimizer = adam
    state = optimizer.state_dict()
    del state["param_groups"]
    with pytest.raises(KeyError, match="param_groups"):
        optimizer.load_state_dict(state)


def test_a_dictionary_of_a_torch_optimizer_is_refused():
    net = new_net()
    optimizer = poptorch.optim.Adam(net.parameters(), lr=0.01)
    theirs = torch.optim.Adam(net.parameters(), lr=0.5).state_dict()
    with pytest.raises(RuntimeError) as raised:
        optimizer.load_state_dict(theirs)
    assert str(raised.value) == (
        "Only IPU optimizer states can be loaded into a poptorch optimizer: the dictionary has no 'ipu_state' and "
        "'ipu_param'. It was saved by a torch optimizer; load it into one of that class."
    )
    assert optimizer.param_groups[0]["lr"] == 0.5  # torch's part comes first


def test_a_torch_optimizer_takes_the_torch_part_only(adam):
    _, optimizer = adam
    theirs = torch.optim.Adam(new_net().parameters(), lr=0.5)
    theirs.load_state_dict(optimizer.state_dict())
    assert theirs.param_groups[0]["lr"] == 0.01 and not theirs.state


def test_a_dictionary_from_before_the_first_call_is_refused():
    net = new_net()
    optimizer = MAKERS["adam"](net.parameters())
    with pytest.raises(RuntimeError) as raised:
        optimizer.load_state_dict(optimizer.state_dict())
    assert str(raised.value) == (
        "The IPU optimizer state is empty: it was saved before the model was compiled and attached. Save the state "
        "dictionary after the first call, or load its 'param_groups' into a new optimizer by hand."
    )


def test_constants_that_the_dictionary_changes_are_refused_at_the_next_run(adam):
    trainer, optimizer = adam
    state = copy.deepcopy(optimizer.state_dict())
    state["param_groups"][0]["eps"] = 0.5
    optimizer.load_state_dict(state)
    with pytest.raises(poptorch.Error) as raised:
        run(trainer, 2, 3)
    assert raised.value.message == (
        "optimizer constant changed [IPU-E410]: eps of group 0 was compiled as the constant 1e-08 and is now 0.5. Mark it "
        "with optimizer.variable_attrs.markAsVariable before the first compilation, or compile again."
    )


def test_state_of_another_shape_is_refused_at_the_next_run(adam):
    trainer, optimizer = adam
    state = optimizer.state_dict()
    state["ipu_state"]["Accl1___first.weight"] = torch.zeros(3, 3)
    optimizer.load_state_dict(state)
    with pytest.raises(poptorch.Error) as raised:
        run(trainer, 2, 3)
    assert raised.value.message == (
        "Shape mismatch [IPU-E201]: Accl1___first.weight is [5,6] on the device and [3,3] on the host"
    )


def test_a_dictionary_given_back_as_it_was_read_changes_no_bit():
    """Scalars are float32: small decays must not be computed back from 1 - lr * weight_decay."""
    weights = []
    for reload in (False, True):
        net = new_net()
        optimizer = poptorch.optim.SGD(net.parameters(), lr=1e-3, weight_decay=1e-4)
        trainer = poptorch.trainingModel(net, None, optimizer)
        run(trainer, 0, 2)
        if reload:
            optimizer.load_state_dict(optimizer.state_dict())
        run(trainer, 2, 6)
        trainer.copyWeightsToHost()
        weights.append({name: value.detach().clone() for name, value in net.named_parameters()})
        trainer.destroy()
    assert equal(*weights)


TORCH = {
    "sgd": (lambda p: torch.optim.SGD(p, lr=0.05), False),
    "momentum": (lambda p: torch.optim.SGD(p, lr=0.05, momentum=0.9), True),
    "adam": (lambda p: torch.optim.Adam(p, lr=0.05), True),
    "adamw": (lambda p: torch.optim.AdamW(p, lr=0.05), True),
    "rmsprop": (lambda p: torch.optim.RMSprop(p, lr=0.05), True),
}


def warnings_of(caplog, text):
    return [record.getMessage() for record in caplog.records if text in record.getMessage()]


@pytest.mark.parametrize("name", TORCH)
def test_a_torch_optimizer_says_that_its_state_dict_lacks_what_the_device_keeps(name, caplog):
    make, has_state = TORCH[name]
    net = new_net()
    optimizer = make(net.parameters())
    optimizer.state_dict()
    trainer = poptorch.trainingModel(net, optimizer=optimizer)
    optimizer.state_dict()
    assert not warnings_of(caplog, "state_dict() of this")
    run(trainer, 0, 1)
    copy.deepcopy(optimizer), pickle.dumps(optimizer)
    for _ in range(2):
        assert optimizer.state_dict()["state"] == {}
    said = warnings_of(caplog, "lacks the state of its parameters")
    assert len(said) == has_state
    assert not has_state or f"Use poptorch.optim.{type(optimizer).__name__}" in said[0]


def test_the_state_of_a_torch_optimizer_is_missed_after_the_wrapper_is_gone(caplog):
    net = new_net()
    optimizer = TORCH["momentum"][0](net.parameters())
    trainer = poptorch.trainingModel(net, optimizer=optimizer)
    run(trainer, 0, 1)
    trainer.destroy()
    optimizer.state_dict()
    assert len(warnings_of(caplog, "lacks the state of its parameters")) == 1


def test_state_of_a_torch_optimizer_that_the_device_does_not_take_is_said(caplog):
    net = new_net()
    optimizer = TORCH["adam"][0](net.parameters())
    x, y = batch(0)
    net(x, y).backward()
    optimizer.step()
    trainer = poptorch.trainingModel(net, optimizer=optimizer)
    run(trainer, 0, 1)
    assert len(warnings_of(caplog, "The Adam has state of 4 parameters")) == 1
