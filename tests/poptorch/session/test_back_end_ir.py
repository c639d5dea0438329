"""The program as PopART would list it: `_debugGetPopartIR`, names of tensors, the exported model."""

import concurrent.futures
import json
import os

import pytest
import torch

import poptorch
from poptorch import poptorch_core


class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.fc1 = torch.nn.Linear(4, 3)
        self.fc2 = torch.nn.Linear(3, 2, bias=False)
        self.register_buffer("shift", torch.zeros(3))

    def forward(self, x, y=None):
        out = self.fc2(torch.relu(self.fc1(x) + self.shift))
        return out if y is None else (out, torch.nn.functional.mse_loss(out, y))


def operations(executor):
    return json.loads(executor._debugGetPopartIR())["maingraph"]


def types(executor):
    return [op["type"] for op in operations(executor)]


def compiled(model, *inputs, options=None, optimizer=None):
    if optimizer is None:
        executor = poptorch.inferenceModel(model, options)
    else:
        executor = poptorch.trainingModel(model, options, optimizer(model.parameters()))
    executor.compile(*inputs)
    return executor


def test_threads_that_ask_first_get_one_list():
    x = torch.ones(2, 4)
    run = compiled(Net(), x, torch.zeros(2, 2), optimizer=lambda p: torch.optim.SGD(p, lr=0.1))
    run(x, torch.zeros(2, 2))  # runs change nothing
    with concurrent.futures.ThreadPoolExecutor(4) as pool:
        texts = set(pool.map(lambda _: run._debugGetPopartIR(), range(8)))
    assert len(texts) == 1 and texts == {run._debugGetPopartIR()}
    again = compiled(Net(), x, torch.zeros(2, 2), optimizer=lambda p: torch.optim.SGD(p, lr=0.1))
    assert texts == {again._debugGetPopartIR()}
    assert "SGD0VarUpdate" in types(run)


@pytest.mark.shows("poptorch_core._getPopartIR")
def test_operations_have_names_types_tensors_and_attributes():
    run = compiled(Net(), torch.ones(2, 4))
    text = run._debugGetPopartIR()
    assert text == poptorch_core._getPopartIR(run._executable)
    assert '"name":"fc1/MatMul"' in text and set(json.loads(text)) == {"maingraph"}
    assert types(run) == ["MatMul", "Add", "Add", "Relu", "MatMul"]
    product = operations(run)[0]
    assert product["inputs"] == [
        {"name": "input", "shape": "[2 4]", "type": "FLOAT", "index": "0"},
        {"name": "fc1.weight", "shape": "[3 4]", "type": "FLOAT", "index": "1"},
    ]
    assert product["outputs"] == [{"name": "fc1/MatMul:0", "index": "0"}]
    assert all(isinstance(value, str) for op in operations(run) for value in op["attributes"].values())
    attributes = product["attributes"]
    assert (attributes["__ipu_number"], attributes["scope"], attributes["recompute"]) == ("0", "fc1", "NO")
    assert attributes["__execution_context"] == "Normal" and "__execution_phase" not in attributes
    assert attributes["partialsType"] == "MatMulPartialsType::FLOAT"


FLAT, IMAGE = torch.linspace(0, 1, 8).reshape(2, 4), torch.linspace(0, 1, 288).reshape(2, 4, 6, 6)


@pytest.mark.parametrize(
    "forward, x, expected",
    [
        (lambda x: x - 1, FLAT, ["Sub"]),
        (lambda x: x / 3, FLAT, ["Div"]),
        (lambda x: x.relu(), FLAT, ["Relu"]),
        (torch.nn.MaxPool2d(2), IMAGE, ["MaxPool"]),
        (torch.nn.LogSoftmax(-1), FLAT, ["LogSoftmax"]),
        (torch.nn.Softmax(-1), FLAT, ["Softmax"]),
        (torch.nn.GroupNorm(2, 4), IMAGE, ["GroupNormalization"]),
        (torch.nn.LayerNorm(4), FLAT, ["GroupNormalization"]),
        (torch.nn.BatchNorm2d(4).eval(), IMAGE, ["BatchNormalization"]),
        (torch.nn.BatchNorm2d(4).train(), IMAGE, ["BatchNormalization"]),
        (lambda x: x.T, FLAT, ["Transpose"]),
        (lambda x: torch.split(x, 2, 1), FLAT, ["Slice", "Slice"]),
        (lambda x: torch.cat([x, x]), FLAT, ["Concat"]),
        (lambda x: x.half(), FLAT, ["Cast"]),
        (lambda x: x.sum(), FLAT, ["ReduceSum"]),
        (lambda x: torch.nn.functional.l1_loss(x, x), FLAT, ["L1"]),
        (lambda x: torch.nn.functional.nll_loss(x, torch.tensor([0, 1])), FLAT, ["Nll"]),
        (lambda x: poptorch.identity_loss(x, "sum"), FLAT, ["IdentityLoss"]),
        (lambda x: poptorch.ipu_print_tensor(x), FLAT, ["PrintTensor"]),
        (lambda x: x.gather(1, torch.tensor([[0], [1]])), FLAT, ["Gather"]),
        (lambda x: torch.bincount(x, minlength=4), torch.tensor([1, 2]), ["ScatterReduce"]),
    ],
)
def test_types_have_the_names_that_programs_look_for(forward, x, expected):
    made = {"Expand", "Min", "Slice"} if "ScatterReduce" in expected else set()
    beside = {"Add", "Detach", "Select", "Cast"} - set(expected) | made
    assert [name for name in types(compiled(forward, x)) if name not in beside - set(expected)] == expected


def test_half_partials_are_shown_where_they_were_asked_for():
    options = poptorch.Options()
    options.Precision.setPartialsType(torch.half)
    run = compiled(torch.nn.Conv2d(1, 1, 1), torch.ones(1, 1, 2, 2), options=options)
    (conv,) = [op for op in operations(run) if op["type"] == "Conv"]
    assert conv["attributes"]["partialsType[0]"] == "half"
    run = compiled(Net(), torch.ones(2, 4), options=options.clone())
    assert operations(run)[0]["attributes"]["partialsType"] == "MatMulPartialsType::HALF"


def test_scopes_of_modules_and_names_make_the_name_and_in_place_forms_are_marked():
    class Residual(torch.nn.Module):
        def forward(self, x, y):
            with poptorch.NameScope("res"):
                return x + y

    run = compiled(Residual(), torch.ones(2), torch.ones(2))
    assert '"name":"res/Add:InPlace"' in run._debugGetPopartIR()

    class Twice(torch.nn.Module):
        def forward(self, x, y):
            z = x + y
            return z, z * x, z  # x is read again: it cannot be overwritten

    names = [op["name"] for op in operations(compiled(Twice(), torch.ones(2), torch.ones(2)))]
    assert names == ["Add", "Mul"]
    plain = compiled(Net(), torch.ones(2, 4), options=poptorch.Options().disableModuleNamescope())
    assert [op["name"].removesuffix(":InPlace") for op in operations(plain)] == [
        "MatMul",
        "Add",
        "Add",
        "Relu",
        "MatMul",
    ]


def test_attributes_of_the_program_are_shown():
    class Annotated(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            with poptorch.Attribute(__outline={"layer": "embedding"}):
                x = poptorch.set_available_memory(self.fc(x), 0.3)
            return x * 2

    product, addition, last = operations(compiled(Annotated(), torch.ones(2, 4)))
    assert product["attributes"]["layer"] == addition["attributes"]["layer"] == "layer:embedding"
    assert "layer" not in last["attributes"]
    assert product["attributes"]["available_memory_proportion"] == "0.3"


@pytest.mark.parametrize(
    "make, expected",
    [
        (lambda p: poptorch.optim.SGD(p, lr=0.1), {"SGD0VarUpdate": 3}),
        (lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.5), {"SGD2VarUpdate": 3}),
        (lambda p: poptorch.optim.SGD(p, lr=0.1, momentum=0.5, use_combined_accum=True), {"SGD1VarUpdate": 3}),
        (lambda p: poptorch.optim.Adam(p, lr=0.1), {"AdamUpdater": 3, "AdamVarUpdate": 3}),
        (lambda p: poptorch.optim.LAMB(p, lr=0.1), {"AdamUpdater": 3, "AdamVarUpdate": 3}),
    ],
)
def test_each_parameter_has_its_update(make, expected):
    trainer = compiled(Net(), torch.ones(2, 4), torch.ones(2, 2), optimizer=make)
    found = types(trainer)
    assert {name: found.count(name) for name in expected} == expected
    updates = [op for op in operations(trainer) if op["type"].endswith("VarUpdate")]
    assert {op["outputs"][0]["name"] for op in updates} == {
        f"UpdatedVar___{name}" for name in ("fc1.weight", "fc1.bias", "fc2.weight")
    }
    assert {op["attributes"]["__execution_context"] for op in updates} == {"AccumulateOuterFragment"}
    # Two products forward; two gradients of the second, and of the weight of the first.
    assert found.count("MatMul") == 5


def test_fused_convolutions_are_one_operation():
    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b, self.c = (torch.nn.Conv2d(1, 1, 1) for _ in range(3))

        def forward(self, x):
            with poptorch.MultiConv().availableMemoryProportions(0.5):
                a, b = self.a(x), self.b(x)
            return a + b + self.c(x)

    run = compiled(Convolutions(), torch.ones(1, 1, 2, 2))
    found = types(run)
    assert (found.count("MultiConv"), found.count("Conv")) == (1, 1)
    (fused,) = [op for op in operations(run) if op["type"] == "MultiConv"]
    assert len(fused["outputs"]) == 2 and fused["attributes"]["availableMemoryProportions"] == "0.5"


@pytest.mark.shows("MultiConvPlanType")
@pytest.mark.parametrize("plan, name", [(None, "Parallel"), *((p, p.name) for p in poptorch.MultiConvPlanType)])
def test_settings_of_fused_convolutions_are_shown(plan, name):
    class Convolutions(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Conv2d(1, 1, 1), torch.nn.Conv2d(1, 1, 1)

        def forward(self, x):
            fused = (
                poptorch.MultiConv()
                .perConvReservedTiles(60)
                .cycleBackOff(0.25)
                .partialsTypes([torch.half, torch.float])
            )
            with fused if plan is None else fused.planType(plan):
                return self.a(x) + self.b(x)

    (made,) = [op for op in operations(compiled(Convolutions(), torch.ones(1, 1, 2, 2))) if op["type"] == "MultiConv"]
    attributes = made["attributes"]
    assert attributes["planType"] == name and attributes["perConvReservedTiles"] == "60"
    assert attributes["cycleBackOff"] == "0.25" and attributes["partialsTypes"] == "[half float]"


@pytest.mark.shows("MatMulSerializationMode")
@pytest.mark.parametrize(
    "mode, inputs",
    [
        (poptorch.MatMulSerializationMode.Disabled, [["[6 4]", "[4 8]"]]),
        (poptorch.MatMulSerializationMode.InputChannels, [["[3 4]", "[4 8]"]] * 2),
        (poptorch.MatMulSerializationMode.ReducingDim, [["[6 2]", "[2 8]"]] * 2),
        (poptorch.MatMulSerializationMode.OutputChannels, [["[6 4]", "[4 4]"]] * 2),
    ],
)
def test_the_mode_says_which_dimension_of_a_product_is_cut(mode, inputs):
    class Product(torch.nn.Module):
        def forward(self, x, w):
            return poptorch.serializedMatMul(x, w, mode, 0 if mode == poptorch.MatMulSerializationMode.Disabled else 2)

    listed = operations(compiled(Product(), torch.ones(6, 4), torch.ones(4, 8)))
    assert [[t["shape"] for t in op["inputs"]] for op in listed if op["type"] == "MatMul"] == inputs


def test_bodies_of_loops_and_branches_are_graphs_of_their_own():
    class Looping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            with poptorch.NameScope("rounds"):
                (x,) = poptorch.for_loop(3, lambda h: torch.tanh(self.fc(h)), [x])
            (x,) = poptorch.cond(x.sum() > 0, torch.exp, [x], torch.neg, [x])
            return x, poptorch.identity_loss(x, "sum")

    graphs = json.loads(compiled(Looping(), torch.ones(2, 4))._debugGetPopartIR())
    assert list(graphs) == ["maingraph", "loop_body", "then_body", "else_body"]
    kinds = {name: [op["type"] for op in graph] for name, graph in graphs.items()}
    assert (
        kinds["loop_body"] == ["MatMul", "Add", "Tanh"]
        and kinds["then_body"] == ["Exp"]
        and kinds["else_body"] == ["Neg"]
    )
    assert kinds["maingraph"].count("Loop") == kinds["maingraph"].count("If") == 1
    assert graphs["maingraph"][0]["name"] == "rounds/Loop" and graphs["maingraph"][0]["attributes"]["trip"] == "3"
    names = [tensor["name"] for op in graphs["loop_body"] for tensor in op["outputs"]]
    assert len(set(names)) == len(names) and all(name.startswith("loop_body/") for name in names)


def test_backward_passes_of_loops_are_graphs_of_their_own():
    class Looping(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x):
            (x,) = poptorch.for_loop(3, lambda h: torch.tanh(self.fc(h)), [x])
            return poptorch.identity_loss(x, "sum")

    trainer = compiled(Looping(), torch.ones(2, 4), optimizer=lambda p: poptorch.optim.SGD(p, lr=0.1))
    graphs = json.loads(trainer._debugGetPopartIR())
    found = [op["type"] for op in graphs["maingraph"]]
    assert found.count("Loop") == 2 and "MatMul" not in found and found.count("SGD0VarUpdate") == 2
    products = {name: sum(op["type"] == "MatMul" for op in graph) for name, graph in graphs.items()}
    assert sorted(count for count in products.values() if count) == [1, 3]  # backward: forward again, and two gradients


class Pipeline(torch.nn.Module):
    def __init__(self, checkpoint=False):
        super().__init__()
        self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)
        self.checkpoint = checkpoint

    def forward(self, x, y):
        with poptorch.Block("a", ipu_id=0):
            x = torch.tanh(self.a(x))
            if self.checkpoint:
                x = poptorch.recomputationCheckpoint(x)
            x = torch.sigmoid(x)
        with poptorch.Block("b", ipu_id=1):
            return torch.nn.functional.mse_loss(self.b(x), y)


@pytest.mark.parametrize("checkpoint, stashes", [(False, 1), (True, 2)])
def test_pipelines_show_copies_stashes_and_checkpoints(checkpoint, stashes):
    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    trainer = compiled(
        Pipeline(checkpoint),
        torch.ones(4, 4),
        torch.ones(4, 4),
        options=options,
        optimizer=lambda p: poptorch.optim.SGD(p, lr=0.1),
    )
    found = types(trainer)
    assert found.count("Stash") == found.count("RestoreInplace") == stashes
    forward = [op for op in operations(trainer) if not op["name"].startswith("Gradient___")]
    assert [op["attributes"]["__ipu_number"] for op in forward if op["type"] == "MatMul"] == ["0", "1"]
    assert [op["attributes"]["__pipeline_stage"] for op in forward if op["type"] == "MatMul"] == ["0", "1"]
    assert found.count("IpuCopy") >= 2  # there, and a gradient back
    again = {
        op["name"].split(":")[0]: op["attributes"]["recompute"] for op in forward if op["type"] in ("Tanh", "MatMul")
    }
    assert (again["Tanh"], again["b/MatMul"]) == ("YES", "NO")
    kept = {op["attributes"]["recompute"] for op in forward if "Checkpoint" in op["name"]}
    assert kept == ({"NO"} if checkpoint else set())
    assert any("Checkpoint" in op["name"] for op in operations(trainer)) == checkpoint


def test_what_the_last_stage_of_a_pipeline_makes_again_is_shown():
    class Last(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.a, self.b = torch.nn.Linear(4, 4), torch.nn.Linear(4, 4)

        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                x = self.a(x)
            with poptorch.Block("b", ipu_id=1):
                x = poptorch.recomputationCheckpoint(torch.tanh(self.b(x)))
                return poptorch.identity_loss(torch.exp(x), "sum")

    options = poptorch.Options()
    options.Training.gradientAccumulation(4)
    trainer = compiled(Last(), torch.ones(4, 4), options=options, optimizer=lambda p: poptorch.optim.SGD(p, lr=0.1))
    flags = {op["type"]: op["attributes"]["recompute"] for op in operations(trainer) if op["type"] in ("Tanh", "Exp")}
    machine = [
        line for line in trainer._executable.machine_text().splitlines() if "= tanh(" in line or "= exp(" in line
    ]
    assert any("tanh" in line and 'recompute="recompute"' in line for line in machine)
    assert flags == {"Tanh": "YES", "Exp": "NO"}


def test_it_is_not_there_before_compiling_and_after_the_end(tmp_path):
    model = Net()
    trainer = poptorch.trainingModel(model, None, poptorch.optim.SGD(model.parameters(), lr=0.1))
    assert trainer._executable is None
    with pytest.raises(poptorch.Error, match="not been compiled"):
        trainer._debugGetPopartIR()
    with pytest.raises(AssertionError, match="not been compiled"):
        trainer.getTensorNames()
    trainer.compile(torch.ones(2, 4), torch.ones(2, 2))
    assert trainer._executable
    ir, names = trainer._debugGetPopartIR(), trainer.getTensorNames()
    trainer.save(tmp_path / "t.poptorch")
    trainer.destroy()
    assert trainer._executable is None
    with pytest.raises(AssertionError):
        trainer.getTensorNames()
    loaded = poptorch.load(tmp_path / "t.poptorch")
    assert loaded._debugGetPopartIR() == ir and loaded.getTensorNames() == names


@pytest.mark.shows("poptorch_core._getTensorNames")
def test_names_of_tensors_in_a_training_program():
    model = Net()
    optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.5, loss_scaling=2.0)
    trainer = poptorch.trainingModel(model, None, optimizer)
    trainer.compile(torch.ones(2, 4), torch.ones(2, 2))
    names = trainer.getTensorNames()
    assert names == list(poptorch_core._getTensorNames(trainer._executable))
    parameters = ["fc1.weight", "fc1.bias", "fc2.weight"]
    expected = {
        "input",
        "input/1",
        "shift",
        "fc1/MatMul:0",
        "fc1/Add:0",
        "fc2/MatMul:0",
        "Relu:0",
        "Add:0",
        *parameters,
    }
    expected |= {f"{prefix}___{name}" for prefix in ("Gradient", "UpdatedVar", "Accl1") for name in parameters}
    expected |= {"lossScaling_FLOAT"} | {f"scaledLearningRate2___specific___{name}" for name in parameters}
    assert expected <= set(names) and len(set(names)) == len(names)


def test_names_that_are_taken_are_numbered():
    class Repeats(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = torch.nn.Linear(4, 4)

        def forward(self, x, y):
            return self.fc(self.fc(x) + y + x)

    options = poptorch.Options()
    for index, name in enumerate(
        ("fc/MatMul:0", "fc/MatMul:0/1", "fc/Add:0", "fc/Add:0/1", "Add:0/1", "fc.weight", "input/1")
    ):
        options.anchorTensor(str(index), name)
    model = Repeats()
    run = poptorch.inferenceModel(model, options)
    x, y = torch.randn(2, 4), torch.randn(2, 4)
    result = run(x, y)
    weight, bias = model.fc.weight.detach(), model.fc.bias.detach()
    first = x @ weight.T
    middle = first + bias + y + x
    second = middle @ weight.T
    values = [first, second, first + bias, second + bias, middle, weight, y]
    for index, value in enumerate(values):
        torch.testing.assert_close(run.getAnchoredTensor(str(index)), value)
    torch.testing.assert_close(result, second + bias)


@pytest.mark.parametrize("binary", [False, True])
def test_the_model_is_exported_into_a_folder_that_is_made(tmp_path, monkeypatch, binary):
    path = tmp_path / "not" / "there" / "model.proto"
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", str(path))
    if binary:
        monkeypatch.setenv("POPTORCH_EXPORT_PROTO_AS_BINARY", "1")
    run = compiled(Net(), torch.ones(2, 4))
    data = path.read_bytes()
    if not binary:
        text = data.decode()
        assert text.count("  node {") == len(types(run)) and '    op_type: "MatMul"' in text
        assert '    output: "fc1/MatMul:0"' in text
        return
    onnx = pytest.importorskip("onnx")
    model = onnx.load_model_from_string(data)
    assert [node.op_type for node in model.graph.node] == types(run) and model.graph.name == "maingraph"
    assert list(model.graph.node[0].input) == ["input", "fc1.weight"]


def test_a_relative_export_file_stands_in_the_working_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", "model.proto")
    compiled(Net(), torch.ones(2, 4))
    assert os.path.getsize("model.proto") > 0


@pytest.mark.parametrize("mode, rows", [(poptorch.OutputMode.EveryN, 4), (poptorch.OutputMode.Final, 1)])
def test_an_anchor_whose_period_does_not_fit_takes_the_mode_of_the_wrapper(mode, rows):
    options = poptorch.Options().deviceIterations(4)
    options.anchorTensor("a", "Mul:0", mode, 3)
    run = poptorch.inferenceModel(lambda x: x * 2, options)
    run(torch.ones(4, 1))
    assert run.getAnchoredTensor("a").shape == (rows, 1)
