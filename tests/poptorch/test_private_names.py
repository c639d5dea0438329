"""Private names that published programs use."""

import copy
import pickle

import pytest
import torch

import poptorch


def test_the_execution_strategy_can_be_read():
    options = poptorch.Options()
    assert options._execution_strategy == poptorch.PipelinedExecution()
    strategy = poptorch.ShardedExecution("a", "b")
    assert options.setExecutionStrategy(strategy)._execution_strategy is strategy


@pytest.mark.parametrize("part", ["Distributed", "Training", "Precision", "TensorLocations", "Jit", "_Popart"])
def test_a_part_of_the_options_takes_a_class_of_its_own(part):
    options = poptorch.Options()
    options.Distributed.configureProcessId(1, 4)
    options.Training.gradientAccumulation(3)
    of_part = getattr(options, part)
    launchers = type("Launchers", (type(of_part),), {"who": lambda self: "the launcher"})
    of_part.__class__ = launchers
    assert getattr(options, part) is of_part and of_part.who() == "the launcher"
    assert (options.Distributed.processId, options.Distributed.numProcesses) == (1, 4)
    assert options.Training.gradient_accumulation == 3
    assert type(getattr(options.clone(), part)) is launchers


class Locked(poptorch.options._DistributedOptions):
    def configureProcessId(self, process_id, num_processes):
        raise RuntimeError("the launcher decides")


def test_a_launcher_can_lock_the_distributed_options():
    options = poptorch.Options()
    options.Distributed.__class__ = Locked
    with pytest.raises(RuntimeError, match="the launcher decides"):
        options.Distributed.configureProcessId(0, 2)
    poptorch.inferenceModel(torch.nn.Linear(1, 1), options)
    with pytest.raises(AttributeError, match="frozen"):
        options.Distributed.__class__ = poptorch.options._DistributedOptions


def test_tracing_is_said_from_just_before_forward_to_just_after():
    seen = []

    class Asks(torch.nn.Module):
        def forward(self, x):
            seen.append(poptorch._impl.isDispatchTracing())
            where = "ipu" if poptorch._impl.isDispatchTracing() else None
            return x + torch.ones(2, device=where)

    assert poptorch._impl.isDispatchTracing() is False
    model = Asks()
    result = poptorch.inferenceModel(model)(torch.zeros(2))
    assert torch.equal(result, torch.ones(2)) and torch.equal(model(torch.zeros(2)), torch.ones(2))
    assert seen == [True, False] and poptorch._impl.isDispatchTracing() is False


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(2, 1)

    def forward(self, x):
        return poptorch.identity_loss(self.fc(x), "sum")


def test_copying_a_wrapped_model_asks_for_its_class_and_loading_weights_does_not(tmp_path, monkeypatch):
    calls = []
    original = poptorch._impl._restoreWrapperIfNecessary
    monkeypatch.setattr(poptorch._impl, "_restoreWrapperIfNecessary", lambda obj: calls.append(obj) or original(obj))
    model = Net()
    poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=0.1))
    for make in (copy.copy, copy.deepcopy):
        copied = make(model)
        assert type(copied).__name__ == "PoptorchNet" and calls.pop() is copied
    torch.save(model.state_dict(), tmp_path / "w.pt")
    torch.load(tmp_path / "w.pt")
    assert type(pickle.loads(pickle.dumps(model))) is Net and not calls
    assert original(3) == 3


def scale(x):
    return x * 2


def test_begin_block_of_a_function_keeps_its_arguments_and_can_be_pickled():
    layer = poptorch.BeginBlock(scale, "head", 2)
    assert type(layer) is poptorch.LegacyBeginBlockFn and (layer._user_id, layer._ipu_id) == ("head", 2)
    again = pickle.loads(pickle.dumps(layer))
    assert (again._user_id, again._ipu_id) == ("head", 2) and torch.equal(again(torch.ones(1)), torch.full((1,), 2.0))
    automatic = poptorch.LegacyBeginBlockFn(scale)
    assert (automatic._user_id, automatic._ipu_id) == (None, None)
    poptorch.inferenceModel(
        torch.nn.Sequential(automatic),
        poptorch.Options()
        .setExecutionStrategy(poptorch.PipelinedExecution(poptorch.AutoStage.AutoIncrement))
        .deviceIterations(2),
    ).compile(torch.ones(2))
    assert automatic._user_id is None


def test_lists_of_variable_attributes_are_read_and_assigned():
    model = Net()
    optimizer = poptorch.optim.Adam(model.parameters(), lr=0.1)
    attributes = optimizer.variable_attrs
    assert attributes._variable_attributes == ["lr"]
    assert attributes._allowed_attributes == [*torch.optim.Adam(model.parameters()).defaults, "loss_scaling"]
    attributes._variable_attributes = list(attributes._allowed_attributes) + ["lr"]  # everything, one of it twice
    assert not attributes.isConstant("eps") and not attributes.isConstant("loss_scaling")
    attributes.markAsConstant("lr")
    assert attributes.isConstant("lr")
    attributes.markAsVariable("lr")
    trainer = poptorch.trainingModel(model, None, optimizer)
    trainer(torch.ones(1, 2))
    optimizer.param_groups[0]["eps"] = 0.5
    trainer.setOptimizer(optimizer)  # no constant any more
    made = poptorch.optim.VariableAttributes(["a"], ["a", "b"])
    assert (made._variable_attributes, made._allowed_attributes) == (["a"], ["a", "b"])


def test_the_executable_is_there_from_compiling_to_the_end():
    run = poptorch.inferenceModel(torch.nn.Linear(2, 2))
    assert run._executable is None
    run.compile(torch.ones(1, 2))
    assert run._executable
    run.destroy()
    assert run._executable is None
