"""Block annotations: what they do in a capture, that they do nothing outside, and their mistakes."""

import copy
import json
import re

import pytest
import torch

import poptorch


class TwoHalves(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.a = torch.nn.Linear(8, 8)
        self.b = torch.nn.Linear(8, 3)

    def forward(self, x, y=None):
        with poptorch.Block("front", ipu_id=0):
            h = torch.relu(self.a(x))
        with poptorch.Block("back", ipu_id=1):
            z = self.b(h)
            return z if y is None else (z, torch.nn.functional.cross_entropy(z, y))


def sharded(*args):
    return poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution(*args))


@pytest.mark.shows("ShardedExecution", "Options.setExecutionStrategy")
def test_annotated_model_runs_on_the_cpu_and_on_two_ipus_alike():
    model, x = TwoHalves(), torch.randn(4, 8)
    pipeline = poptorch.Options().deviceIterations(2)
    for options in (sharded(), pipeline):
        run = poptorch.inferenceModel(model, options)
        torch.testing.assert_close(run(x), model(x))
        assert run._executable.ipus_reserved == 2


@pytest.mark.shows("BeginBlock", "removeBlocks", "module_repr")
def test_begin_block_starts_a_block_when_the_module_is_called_and_can_be_removed():
    model = torch.nn.Sequential(torch.nn.Linear(4, 4), torch.nn.ReLU(), torch.nn.Linear(4, 2))
    assert poptorch.BeginBlock(model[2], "last", ipu_id=1) is model[2]
    x = torch.randn(2, 4)
    torch.testing.assert_close(poptorch.inferenceModel(model, sharded())(x), model(x))
    assert "BeginBlock(user_id=last, ipu_id=1) Linear" in poptorch.module_repr(model)
    with pytest.raises(poptorch.Error, match="already been assigned to a block"):
        poptorch.BeginBlock(model[2], "again")
    poptorch.removeBlocks(model)
    assert poptorch.module_repr(model) == repr(model)
    with pytest.raises(AssertionError):
        poptorch.removeBlocks(3)
    with pytest.raises(poptorch.Error, match="needs a torch.nn.Module or a callable"):
        poptorch.BeginBlock(3)


def test_begin_block_wraps_other_callables():
    step = poptorch.BeginBlock(lambda t: t * 2, "double", ipu_id=1)
    assert isinstance(step, poptorch.LegacyBeginBlockFn)
    x = torch.randn(2, 4)
    torch.testing.assert_close(
        poptorch.inferenceModel(torch.nn.Sequential(torch.nn.ReLU(), step), sharded())(x), x.relu() * 2
    )


@pytest.mark.shows("PipelinedExecution")
def test_a_pipeline_needs_a_micro_batch_for_each_stage():
    model, x = TwoHalves(), torch.randn(4, 8)
    pipeline = poptorch.PipelinedExecution("front", "back")
    with pytest.raises(poptorch.Error, match=r"deviceIterations.*\b2\b"):
        poptorch.inferenceModel(model, poptorch.Options().setExecutionStrategy(pipeline))(x)
    options = poptorch.Options().deviceIterations(2).setExecutionStrategy(pipeline)
    torch.testing.assert_close(poptorch.inferenceModel(model, options)(x), model(x))


@pytest.mark.parametrize(
    "start",
    [
        pytest.param(lambda layer: poptorch.BeginBlock(layer, "mine", 1), marks=pytest.mark.shows("BeginBlock")),
        pytest.param(
            lambda layer: poptorch.LegacyBeginBlockFn(layer, "mine", 1), marks=pytest.mark.shows("LegacyBeginBlockFn")
        ),
        pytest.param(lambda layer: poptorch.BlockFunction("mine", 1)(layer), marks=pytest.mark.shows("BlockFunction")),
    ],
)
def test_a_strategy_is_asked_about_every_kind_of_block(start):
    step = start(lambda x: x * 2)
    options = sharded(poptorch.Stage("other"))
    with pytest.raises(
        AssertionError, match=r"Unknown Block 'mine': the execution strategy expects one of \['other'\]"
    ):
        poptorch.inferenceModel(lambda x: step(x), options)(torch.ones(2))
    known = sharded(poptorch.Stage("mine"))
    assert poptorch.inferenceModel(lambda x: step(x), known)(torch.ones(2)).tolist() == [2, 2]


@pytest.mark.shows("print")
@pytest.mark.edge("22.50")
def test_print_shows_a_module_with_its_blocks_and_then_without(capsys):
    model = torch.nn.Sequential(torch.nn.ReLU(), torch.nn.Tanh())
    plain = repr(model)
    poptorch.BeginBlock(model[1], "last", ipu_id=1)
    poptorch.print(model)
    marked = plain.replace("Tanh()", "BeginBlock(user_id=last, ipu_id=1) Tanh()")
    assert capsys.readouterr().out == f"{marked}\n{plain}\n"
    poptorch.print([1, 2])
    assert capsys.readouterr().out == "[1, 2]\n"


def test_block_function_decorates_methods():

    class Decorated(torch.nn.Module):
        @poptorch.BlockFunction("only", ipu_id=1)
        def part(self, x):
            return x + 1

        def forward(self, x):
            return self.part(x)

    x = torch.randn(2, 2)
    torch.testing.assert_close(poptorch.inferenceModel(Decorated(), sharded())(x), x + 1)


def test_explicit_stages_decide_the_ipu():
    options = sharded(poptorch.Stage("front").ipu(1), poptorch.Stage("back").ipu(0))
    model, x = TwoHalves(), torch.randn(4, 8)
    run = poptorch.inferenceModel(model, options)
    torch.testing.assert_close(run(x), model(x))
    ipu_of = dict(re.findall(r"linear\(.*%([ab])\.weight.*ipu=(\d)", run._executable.ir_text()))
    assert ipu_of == {"a": "1", "b": "0"}


def test_automatic_ids_and_auto_increment():

    class Auto(torch.nn.Module):
        def forward(self, x):
            poptorch.Block.useAutoId()
            with poptorch.Block():
                x = x + 1
            with poptorch.Block():
                x = x * 2
            return poptorch_last(x)

    def poptorch_last(x):
        with poptorch.Block("end"):
            return x - 3

    x = torch.randn(2, 2)
    options = sharded(poptorch.AutoStage.AutoIncrement).autoRoundNumIPUs()
    for _ in range(2):
        torch.testing.assert_close(poptorch.inferenceModel(Auto(), options.clone())(x), (x + 1) * 2 - 3)


def test_unknown_block_is_refused_at_the_users_line():
    with pytest.raises(
        AssertionError, match=r"Unknown Block 'back': the execution strategy expects one of \['front'\]"
    ):
        poptorch.inferenceModel(TwoHalves(), sharded(poptorch.Stage("front")))(torch.randn(4, 8))


def test_block_without_ipu_under_same_as_ipu_is_refused():

    class NoIpu(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("somewhere"):
                return x + 1

    with pytest.raises(AssertionError, match="block 'somewhere' has none"):
        poptorch.inferenceModel(NoIpu())(torch.randn(2, 2))


@pytest.mark.shows("Block")
def test_operation_after_a_block_has_ended_is_refused_with_its_line():

    class Outside(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                x = x + 1
            return x * 2  # outside

    with pytest.raises(poptorch.Error, match="No active Block, all the ops must belong to a Block") as raised:
        poptorch.inferenceModel(Outside())(torch.randn(2, 2))
    assert "test_blocks.py" in str(raised.value)


@pytest.mark.edge("22.26")
def test_leaving_an_inner_block_leaves_no_block_active():

    class Nested(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("outer", ipu_id=0):
                with poptorch.Block("inner", ipu_id=0):
                    x = x + 1
                return x * 2

    with pytest.raises(poptorch.Error, match="No active Block"):
        poptorch.inferenceModel(Nested())(torch.randn(2, 2))


@pytest.mark.shows("isRunningOnIpu")
def test_is_running_on_ipu_is_true_in_forward_only():
    seen = []

    class Asks(torch.nn.Module):
        def forward(self, x):
            seen.append(poptorch.isRunningOnIpu())
            return x + 1

    model = Asks()
    model(torch.ones(2))
    poptorch.inferenceModel(model)(torch.ones(2))
    assert seen == [False, True] and not poptorch.isRunningOnIpu()


class Chain(torch.nn.Module):
    def __init__(self, ipus):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in ipus)
        self.ipus = ipus

    def forward(self, x, y=None):
        for number, (layer, ipu) in enumerate(zip(self.layers, self.ipus)):
            poptorch.Block.start(number, ipu_id=ipu)  # ids need not be text where no strategy names them
            x = torch.tanh(layer(x))
        return x if y is None else (x, torch.nn.functional.mse_loss(x, y))


@pytest.mark.parametrize("ipus, stages", [((0, 1, 0), 3), ((1, 0), 2), ((0, 1, 1, 0, 1), 4), ((0, 0, 1), 2)])
@pytest.mark.edge("22.25")
def test_automatic_stages_follow_the_changes_of_ipu(ipus, stages):
    torch.manual_seed(1)
    model = Chain(ipus)
    plain = copy.deepcopy(model)
    x, y = torch.randn(2 * (2 * stages - 1), 4), torch.randn(2 * (2 * stages - 1), 4)
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(2 * stages - 2)
    with pytest.raises(poptorch.Error, match=f"needs at least {2 * stages - 1}"):
        poptorch.trainingModel(copy.deepcopy(model), options)(x[:-2], y[:-2])
    options = poptorch.Options().outputMode(poptorch.OutputMode.All)
    options.Training.gradientAccumulation(2 * stages - 1)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    out, _ = trainer(x, y)
    want, loss = plain(x, y)
    loss.backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    torch.testing.assert_close(out, want.detach())
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor)
    trainer.destroy()


def test_a_block_entered_again_after_a_later_one_goes_back_a_stage():
    class Back(Chain):
        def forward(self, x):
            for name, ipu in (("a", 0), ("b", 1), ("a", 0)):
                with poptorch.Block(name, ipu_id=ipu):
                    x = x + 1
            return x

    with pytest.raises(poptorch.Error, match="pipeline stage going back"):
        poptorch.inferenceModel(Back(()), poptorch.Options().deviceIterations(4))(torch.ones(4))
    torch.testing.assert_close(poptorch.inferenceModel(Back(()), sharded())(torch.ones(4)), torch.full((4,), 4.0))


class Spans(torch.nn.Module):
    """One id on two IPUs, with another block between them."""

    def __init__(self, ids=("p0", "p1", "p0")):
        super().__init__()
        self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in ids)
        self.ids = ids

    def forward(self, x, y=None):
        for ipu, (layer, block) in enumerate(zip(self.layers, self.ids)):
            with poptorch.Block(block, ipu_id=ipu):
                x = torch.tanh(layer(x))
                if ipu == len(self.ids) - 1 and y is not None:
                    return x, torch.nn.functional.mse_loss(x, y)
        return x


@pytest.mark.parametrize(
    "strategy, ids",
    [
        (lambda: poptorch.ShardedExecution("p0", "p1"), ("p0", "p1", "p0")),
        (lambda: poptorch.ShardedExecution(), ("p0", "p1", "p0")),
        (lambda: poptorch.PipelinedExecution(), ("p0", "p1", "p0")),
        (lambda: poptorch.PipelinedExecution("p0", "p1"), ("p0", "p0", "p1")),
        (lambda: poptorch.SerialPhasedExecution("p0", "p1"), ("p0", "p0", "p1")),
        (lambda: poptorch.ParallelPhasedExecution("p0"), ("p0", "p0", "p0")),
    ],
)
@pytest.mark.shows("Block")
def test_each_entry_of_a_block_uses_its_own_ipu(strategy, ids):
    torch.manual_seed(1)
    model = Spans(ids)
    plain = copy.deepcopy(model)
    parallel = isinstance(strategy(), poptorch.ParallelPhasedExecution)
    options = poptorch.Options().outputMode(poptorch.OutputMode.All).autoRoundNumIPUs()
    options.setExecutionStrategy(strategy()).Training.gradientAccumulation(5)
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    x, y = torch.randn(5, 4), torch.randn(5, 4)
    if parallel:  # IPU 1 has the wrong parity
        with pytest.raises(poptorch.Error, match="phase 0 is on IPU 1"):
            trainer(x, y)
        return
    out, _ = trainer(x, y)
    want, loss = plain(x, y)
    loss.backward()
    torch.optim.SGD(plain.parameters(), lr=0.1).step()
    torch.testing.assert_close(out, want.detach())
    for name, tensor in plain.state_dict().items():
        torch.testing.assert_close(model.state_dict()[name], tensor)
    products = [op for op in json.loads(trainer._debugGetPopartIR())["maingraph"] if op["type"] == "MatMul"]
    assert [op["attributes"]["__ipu_number"] for op in products if "Gradient" not in op["name"]] == ["0", "1", "2"]


def test_a_parallel_phase_spans_ipus_without_stages():
    class Phases(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("p0", ipu_id=0):
                x = x + 1
            with poptorch.Block("p0", ipu_id=2):
                x = x * 2
            with poptorch.Block("p1", ipu_id=1):
                x = x - 3
            with poptorch.Block("p1", ipu_id=3):
                return x * x

    options = poptorch.Options().setExecutionStrategy(poptorch.ParallelPhasedExecution("p0", "p1"))
    run = poptorch.inferenceModel(Phases(), options)
    assert run(torch.tensor([1.0])).tolist() == [1.0]
    operations = json.loads(run._debugGetPopartIR())["maingraph"]
    places = [
        (op["attributes"]["__execution_phase"], op["attributes"]["__ipu_number"])
        for op in operations
        if op["type"] != "IpuCopy"
    ]
    assert places == [("0", "0"), ("0", "2"), ("1", "1"), ("1", "3")]
