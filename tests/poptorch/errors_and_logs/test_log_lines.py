"""Lines of the log that programs search for: options, the graph, optimizers, transfers, devices, the back end."""

import re

import pytest
import torch

import poptorch

NATIVE = re.compile(r"\[poptorch:cpp\] \[(\w+)\] ([^\n]*)")


@pytest.fixture
def log(capfd):
    """`log(action)`: native and Python lines that it writes, at level DEBUG, without the time."""

    def lines_of(action, level="DEBUG"):
        capfd.readouterr()
        poptorch.setLogLevel(level)
        try:
            action()
        finally:
            poptorch.setLogLevel("WARN")
        return capfd.readouterr().err

    return lines_of


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = torch.nn.Linear(4, 2)

    def forward(self, x, y=None):
        out = self.fc(x)
        return out if y is None else (out, torch.nn.functional.mse_loss(out, y))


X, Y = torch.ones(2, 4), torch.ones(2, 2)


def trainer_of(make=lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.5), options=None):
    model = Net()
    return poptorch.trainingModel(model, options, make(model.parameters()))


# --- options


def test_every_option_is_logged_when_a_dict_is_parsed(log):
    options = poptorch.Options().outputMode(poptorch.OutputMode.All).replicationFactor(2)
    options.Precision.setPartialsType(torch.half)
    options.enableExecutableCaching("/tmp/never-made")
    options._Popart.setEngineOptions({"debug.x": "1"})
    options._Popart.set("hardwareInstrumentations", {1})
    options._Popart.set("outlineThreshold", 2.5)
    text = log(lambda: poptorch.poptorch_core._validateOptions(options.toDict()))
    lines = {line for level, line in NATIVE.findall(text) if level == "debug"}
    assert {
        "poptorch.Options set replication_factor to value 2",
        "poptorch.Options set execution_mode to value 0",
        "poptorch.Options set output_mode to value 2",
        "poptorch.Options set broadcast_buffers to value true",
        "poptorch.Options set enableEngineCaching to value true",
        "poptorch.Options set partialsTypeMatMuls to value half",
        "poptorch.Options set accumulation_and_replication_reduction_type to value 1",
        "poptorch.Options set convolutionOptions[partialsType] to half",
        "poptorch.Options set engineOptions[debug.x] to 1",
        "poptorch.Options added 1 to hardwareInstrumentations",
        "poptorch.Options set outlineThreshold to value 2.5",
    } <= lines


def test_options_are_logged_when_compiling_and_so_are_values_that_are_chosen(log):
    options = poptorch.Options().enableSyntheticData(True)
    text = log(lambda: poptorch.inferenceModel(Net(), options).compile(X))
    assert "poptorch.Options set syntheticDataMode to value 2\n" in text
    for line in (
        "enablePipelining set to value 0",
        "virtualGraphMode set to value 2",
        "constantWeights set to value 0",
    ):
        assert f"[debug] {line}\n" in text

    def two_stages(x):
        with poptorch.Block("a", ipu_id=0):
            x = x * 2
        with poptorch.Block("b", ipu_id=1):
            return x + 1

    text = log(lambda: poptorch.inferenceModel(two_stages, poptorch.Options().deviceIterations(2)).compile(X))
    assert "[debug] enablePipelining set to value 1\n" in text
    assert "[debug] autoRecomputation set to value 3\n" in text


@pytest.mark.parametrize("use, word", [(True, "Enabled"), (False, "Disabled"), (None, None)])
def test_the_ipu_model_is_mentioned_when_the_option_was_used(log, use, word, monkeypatch):
    options = poptorch.Options()
    if use is not None:
        options.useIpuModel(use)
    else:
        monkeypatch.setenv("POPTORCH_IPU_MODEL", "1")
    text = log(lambda: poptorch.inferenceModel(Net(), options).compile(X), "INFO")
    assert ("From the user configuration: Ipu model" in text) == (use is not None)
    if word:
        assert f"[info] From the user configuration: Ipu model: {word}\n" in text


# --- the graph


class Named(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.bn = torch.nn.BatchNorm1d(4)
        self.l2 = torch.nn.Linear(4, 5, bias=False)

    def forward(self, x):
        return self.l2(x + self.bn.running_mean) * 2, x.sum()


def test_the_graph_its_inputs_and_what_became_of_its_operations(log):
    text = log(lambda: poptorch.inferenceModel(Named().eval()).compile(torch.ones(1, 4)))
    assert "[debug] graph(\n" in text
    assert re.search(
        r"\n +input: %\d+ : Float\(1, 4, strides=\[4, 1\], requires_grad=0, device=ipu:0\) -> input \[float32\(1, 4\)\]\n",
        text,
    )
    assert re.search(
        r"\n +param: %\d+ : Float\(4, strides=\[1\], .*device=ipu:0\) -> bn.running_mean \[float32\(4\)\]", text
    )
    lowered = text[text.index("Graph lowered to PopART {") :]
    assert re.search(
        r"aten::\w+(?:\[.*\])?\(%\d+, %\d+\) was lowered to l2/MatMul:0 \[float32\(1, 5\), mode\(Pipelined\), ipu\(0\), stage\(0\)\]\n",
        lowered,
    )
    assert re.search(r"was lowered to ReduceSum:0 \[float32\(\), mode\(Pipelined\), ipu\(0\), stage\(0\)\]\n", lowered)
    assert 'Popart IR: {"maingraph":[' in text
    assert "Graph before lowering" not in text and "Char" not in lowered


def test_places_and_the_strategy_are_in_the_lines(log):
    def two(x):
        with poptorch.Block("a", ipu_id=0):
            x = x * 2
        with poptorch.Block("b", ipu_id=1):
            return x + 1

    options = poptorch.Options().setExecutionStrategy(poptorch.ShardedExecution())
    text = log(lambda: poptorch.inferenceModel(two, options).compile(X))
    assert " Mul:0 [float32(2, 4), mode(Sharded), ipu(0), stage(0)]\n" in text
    assert " Add:0 [float32(2, 4), mode(Sharded), ipu(1), stage(1)]\n" in text


def test_the_graph_before_lowering_at_trace_level(log):
    def forward(x, w):
        return poptorch.set_available_memory(torch.matmul(x, w), 0.3) + 1

    text = log(lambda: poptorch.inferenceModel(forward).compile(torch.ones(2, 3), torch.ones(3, 2)), "TRACE")
    graph = text[text.index("Graph before lowering to PopART:\ngraph(%1 : Float(2, 3, ") :]
    assert re.search(r"\n +%3 : Float\(2, 2, .*\) = popart::matmul(?:\[.*\])?\(%1, %2\)\n", graph)
    assert re.search(
        r"\n +%\d+ : .* = poptorch::set_available_memory\[available_memory_proportion=0.3\]\(%3\)\n", graph
    )
    assert re.search(r"\n +%\d+ : Float\(2, 2, .*\) = popart::add\(%3, %\d+\)\n", graph)
    assert "Finished Poplar compilation" in text and re.search(r"\[trace\] Attached to device \d+\n", text)


@pytest.mark.parametrize(
    "mode, period, shown",
    [
        (None, 1, "ALL/1"),
        (poptorch.OutputMode.Final, 5, "FINAL/1"),
        (poptorch.OutputMode.EveryN, 2, "EVERYN/2"),
        (poptorch.OutputMode.All, 1, "ALL/1"),
        (poptorch.OutputMode.Sum, 1, "Sum/1"),
    ],
)
def test_anchors_are_logged(log, mode, period, shown):
    options = poptorch.Options().deviceIterations(2)
    options.anchorTensor("a", "fc/Add:0", mode, period)
    text = log(lambda: poptorch.inferenceModel(Net(), options).compile(X))
    assert f"[debug] anchor ( fc/Add:0 {shown} )\n" in text


# --- optimizers


@pytest.mark.parametrize(
    "make, graph, group",
    [
        (
            lambda p: poptorch.optim.SGD(p, lr=0.01, loss_scaling=2.0),
            "SGD2, defaultDampening=0 (const), defaultLearningRate=0.01, defaultMomentum=0 (const), defaultVelocityScaling=2, "
            "defaultWeightDecay=0 (const), lossScaling=2, nesterov=0 (const), accumType=float32, "
            "firstOrderMomentumAccumType=float32, secondOrderMomentumAccumType=float32, useTfVariant=0, maxGradNorm=inf",
            "SGD2, dampening=0 (const), learningRate=0.01, momentum=0 (const), nesterov=0 (const), velocityScaling=2, "
            "weightDecay=0 (const)",
        ),
        (
            lambda p: poptorch.optim.AdamW(p, lr=1.0, max_grad_norm=2.0, first_order_momentum_accum_type=torch.float16),
            "ADAMW, defaultBeta1=0.9 (const), defaultBeta2=0.999 (const), defaultEps=1e-08 (const), defaultLearningRate=1, "
            "defaultWeightDecay=0.01 (const), lossScaling=1 (const), accumType=float32, firstOrderMomentumAccumType=float16, "
            "secondOrderMomentumAccumType=float32, useTfVariant=0, maxGradNorm=2",
            "ADAMW, beta1=0.9 (const), beta2=0.999 (const), eps=1e-08 (const), learningRate=1, weightDecay=0.01 (const)",
        ),
    ],
)
def test_what_the_back_end_is_told_of_an_optimizer(log, make, graph, group):
    trainer = trainer_of(make)
    text = log(lambda: trainer.compile(X, Y))
    assert f"[debug] Updating graph optimizer with {graph}\n" in text
    assert f"[debug] Updating group 0 optimizer with {group} for (tensors affected [fc.weight, fc.bias])\n" in text


def test_optimizers_are_logged_again_only_when_something_changed(log):
    trainer = trainer_of()
    trainer.compile(X, Y)
    optimizer = trainer._optimizer
    assert "Updating" not in log(lambda: trainer.setOptimizer(optimizer))
    optimizer.param_groups[0]["lr"] = 0.5
    assert "Updating group 0 optimizer with SGD2, " in log(lambda: trainer.setOptimizer(optimizer))
    assert "Updating" not in log(lambda: trainer.setOptimizer(optimizer))


# --- transfers, devices


def test_copies_of_weights_and_optimizer_state(log):
    trainer = trainer_of()
    text = log(lambda: trainer.compile(X, Y))
    assert text.count("Writing weights from host to IPU memory") == 1
    assert re.search(r"\[debug\] Acquired 1 IPU\(s\): running on device Id \d+\n", text)
    assert "[debug] Setting random seed to " in text and "Setting RNG state" not in text
    assert "optimiser state" not in text  # there is none yet
    text = log(lambda: trainer(X, Y))
    assert "Writing" not in text and "Implicit" not in text
    text = log(lambda: trainer.model.fc.weight + 0)
    assert text.count("Implicit copyWeightsToHost()") == text.count("Writing weights from IPU to host") == 1
    text = log(lambda: trainer._optimizer.state_dict())
    assert "[info] Writing optimiser state tensors from IPU to host.\n" in text and "cached" not in text
    text = log(lambda: trainer._optimizer.state_dict())
    assert "Using cached optimiser state dict" in text and "Writing" not in text
    trainer._optimizer.load_state_dict(trainer._optimizer.state_dict())
    text = log(lambda: trainer(X, Y))
    assert "[info] Writing optimiser state tensors from host to IPU memory\n" in text
    text = log(trainer.detachFromDevice)
    assert "Reading random seed" in text and "Reading RNG state" in text
    assert re.search(r"\[debug\] Detached from device \d+\n", text)
    text = log(trainer.attachToDevice)
    assert "Setting RNG state" in text and "Writing weights from host to IPU memory" in text
    assert "Writing optimiser state tensors from host to IPU memory" in text


def test_weights_of_a_trainer_that_another_wrapper_pulls(log):
    trainer = trainer_of()
    tester = poptorch.inferenceModel(trainer)
    trainer(X, Y)
    tester(X)
    trainer(X, Y)
    text = log(lambda: tester(X))
    assert text.count("Implicit copyWeightsToHost()") == text.count("Implicit copyWeightsToDevice()") == 1
    assert "Writing" not in log(lambda: tester(X))


def test_save_logs_only_what_it_reads_from_an_attached_device(log, tmp_path):
    trainer = trainer_of()
    trainer(X, Y)
    text = log(lambda: trainer.save(tmp_path / "a.poptorch"))
    assert "Reading random seed" in text and "Reading RNG state" in text
    offline = trainer_of(options=poptorch.Options().connectionType(poptorch.ConnectionType.Never))
    offline.compile(X, Y)
    text = log(lambda: offline.save(tmp_path / "b.poptorch"))
    assert not re.search("Reading|Writing|Setting", text)
    loaded = poptorch.load(tmp_path / "a.poptorch")
    assert not re.search("Writing", log(lambda: loaded(X, Y)))


def test_cycles_of_each_run(log):
    run = poptorch.inferenceModel(Net(), poptorch.Options().logCycleCount(True))
    run(X)
    for _ in range(2):
        text = log(lambda: run(X))
        assert f"[debug] Total number of IPU cycles: {run.cycleCount()}\n" in text
    assert "cycles" not in log(lambda: poptorch.inferenceModel(Net())(X))


# --- the back end's own log

BACK_END = re.compile(r"^\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d+Z popart:(\w+) \d+\.\d+ ([TDIWE]): ", re.MULTILINE)


@pytest.fixture
def back_end_log(capfd):
    def lines_of(level):
        capfd.readouterr()
        poptorch._logging.setPopartLogLevel(level)
        try:
            poptorch.inferenceModel(Annotated())(X)
        finally:
            poptorch._logging.setPopartLogLevel("WARN")
        return capfd.readouterr().err

    return lines_of


class Annotated(torch.nn.Module):
    def forward(self, x):
        with poptorch.Attribute(__outline={"layer": "embedding"}):
            return x * 2


@pytest.mark.shows("poptorch_core.setPopartLogLevel")
def test_the_back_end_writes_lines_of_its_own_format(back_end_log):
    assert not BACK_END.findall(back_end_log("WARN"))
    assert {level for _, level in BACK_END.findall(back_end_log("DEBUG"))} == {"D", "I"}
    text = back_end_log("TRACE")
    assert {("devicex", "T"), ("ir", "D"), ("ir", "I"), ("session", "T"), ("popart", "T")} <= set(
        BACK_END.findall(text)
    )
    block = text[text.index('\n\nOp "Mul:InPlace", 0 of type ai.onnx.Mul:1\n') + 2 :].split("\n\n")[0]
    lines = [line.strip() for line in block.splitlines()]
    assert (
        lines.index("inputs")
        < lines.index("outputs")
        < lines.index("attributes")
        < lines.index("layer: layer:embedding")
    )
    assert all(line.startswith("    ") for line in block.splitlines()[1 : lines.index("layer: layer:embedding") + 1])
