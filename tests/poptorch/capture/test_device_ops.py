"""Printing, memory hints, serialised products, back-end attributes and MultiConv: values stay those of torch."""

import copy
import json
import re

import pytest
import torch
from python_programs import run_program

import poptorch
from poptorch import MatMulSerializationMode as Mode
from poptorch._impl.capture.graph_capture import GraphCapture
from poptorch._impl.session.executor import state_of


def captured_text(model, *inputs):
    runner = poptorch.inferenceModel(model)
    result = runner(*inputs)
    return result, runner._executable.ir_text()


def module_of(function):
    class Model(torch.nn.Module):
        def forward(self, *args):
            return function(*args)

    return Model()


def captured_before_passes(model, *inputs):
    state = state_of(poptorch.inferenceModel(model))
    capture = GraphCapture(state.traced_model, False, state.options, set(), {})
    names, values, keywords = state.binder.bind(inputs, {})
    return capture.run(names, values, keywords, 1, {}).ir_text(False)


# --- ipu_print_tensor ---

PRINTING = """
import torch, poptorch
class Net(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.w = torch.nn.Parameter(torch.tensor([1.0, 2.0]))
    def forward(self, x):
        y = poptorch.ipu_print_tensor(x * self.w, "product", {print_gradient})
        poptorch.ipu_print_tensor(x, "unused")
        return y, poptorch.identity_loss(y, "sum")
net = Net()
trainer = poptorch.trainingModel(net, poptorch.Options().showCompilationProgressBar(False))
out, loss = trainer(torch.tensor([[3.0, 4.0]]))
assert out.tolist() == [[3, 8]] and loss.item() == 11
"""


@pytest.mark.parametrize("print_gradient", [True, False])
def test_the_device_prints_values_and_gradients_to_stderr(print_gradient):
    result = run_program(PRINTING.format(print_gradient=print_gradient))
    assert result.returncode == 0, result.stderr
    gradient = "product_gradient: (\n (1.000,1.000)\n)\n" if print_gradient else ""
    assert result.stderr == "product: (\n (3.000,8.000)\n)\n" + gradient


@pytest.mark.shows("ipu_print_tensor")
def test_printing_in_a_pipeline_shows_each_micro_batch(capfd):
    class Net(torch.nn.Module):
        def forward(self, x):
            with poptorch.Block("a", ipu_id=0):
                x = poptorch.ipu_print_tensor(x + 1, "a", float_format="none")
            with poptorch.Block("b", ipu_id=1):
                return poptorch.ipu_print_tensor(x * 2, "b", float_format="none")

    out = poptorch.inferenceModel(Net(), poptorch.Options().deviceIterations(3))(torch.arange(3.0).reshape(3, 1))
    assert out.flatten().tolist() == [2, 4, 6]
    text = capfd.readouterr().err
    assert re.findall(r"a: \(\n \((\d)\)\n\)\n", text) == ["1", "2", "3"]
    assert re.findall(r"b: \(\n \((\d)\)\n\)\n", text) == ["2", "4", "6"]


@pytest.mark.parametrize(
    "values, settings, expected",
    [
        (
            [[1.5, 2.5], [3.5, 4.0]],
            {"digits": 2, "float_format": "fixed", "separator": ";"},
            "ids: (\n (1.5;2.5)\n (3.5;4.0)\n)\n",
        ),
        ([1, 2, 3], {"separator": " ", "open_bracket": "[", "close_bracket": "]"}, "ids: [1 2 3]\n"),
        ([1.25], {"digits": 8, "float_format": "fixed"}, "ids: (1.2500000)\n"),
        ([1.25], {"digits": 8, "float_format": "scientific"}, "ids: (1.2500000e+00)\n"),
        ([1.25], {"digits": 8}, "ids: (1.2500000)\n"),
        (list(range(8)), {"max_line_width": 10}, "ids: (0,1,2,3,\n  4,5,6,7)\n"),
        (list(range(40)), {"max_line_width": 0, "summarise_threshold": 0}, f"ids: ({','.join(map(str, range(40)))})\n"),
        (list(range(40)), {"summarise_threshold": 39, "edge_items": 1}, "ids: (0,...,39)\n"),
    ],
)
def test_tensors_are_printed_as_published(capfd, values, settings, expected):
    options = poptorch.Options().showCompilationProgressBar(False)
    poptorch.inferenceModel(lambda x: poptorch.ipu_print_tensor(x, "ids", **settings), options)(torch.tensor(values))
    assert capfd.readouterr().err == expected


def test_without_a_title_the_name_of_the_tensor_stands_in_front(capfd):
    options = poptorch.Options().showCompilationProgressBar(False)
    layer = torch.nn.Linear(2, 1, bias=False)
    torch.nn.init.ones_(layer.weight)

    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.fc = layer

        def forward(self, x):
            return poptorch.identity_loss(poptorch.ipu_print_tensor(self.fc(poptorch.ipu_print_tensor(x))), "sum")

    net = Net()
    poptorch.trainingModel(net, options, torch.optim.SGD(net.parameters(), lr=0.1))(torch.ones(1, 2))
    text = capfd.readouterr().err
    for name, row in (("input", "1.000,1.000"), ("fc/MatMul:0", "2.000"), ("fc/MatMul:0_gradient", "1.000")):
        assert f"{name}: (\n ({row})\n)\n" in text


def test_printing_on_the_cpu_is_the_identity_and_mistakes_are_named(capfd):
    x = torch.ones(2, requires_grad=True)
    poptorch.ipu_print_tensor(x * 2, "t").sum().backward()
    assert x.grad.tolist() == [2, 2] and "t:" not in capfd.readouterr().err
    with pytest.raises(KeyError):
        poptorch.ipu_print_tensor(x, float_format="hex")
    with pytest.raises(poptorch.Error) as caught:
        poptorch.ipu_print_tensor([1])
    assert caught.value.message == "poptorch.ipu_print_tensor needs a tensor, got list"


@pytest.mark.parametrize(
    "name,value,limit",
    [("digits", 101, 100), ("digits", 600, 100), ("digits", -1, 100), ("digits", 4.0, 100)]
    + [("edge_items", 2**63, 2**31 - 1), ("max_line_width", -1, 2**31 - 1), ("summarise_threshold", True, 2**31 - 1)],
)
def test_numbers_of_a_print_outside_their_range_are_refused(name, value, limit):
    with pytest.raises(poptorch.Error) as caught:
        poptorch.ipu_print_tensor(torch.ones(2), **{name: value})
    expected = f"poptorch.ipu_print_tensor: {name} must be an int in 0..{limit}, got {value!r}"
    assert caught.value.message == expected


def test_many_digits_are_printed_whole(capfd):
    class Print(torch.nn.Module):
        def forward(self, x):
            return poptorch.ipu_print_tensor(x, "long", digits=100, float_format="fixed")

    poptorch.inferenceModel(Print())(torch.full((1,), 1e38))
    line = next(line for line in capfd.readouterr().err.splitlines() if line.startswith("long: "))
    assert line == f"long: ({float(torch.tensor(1e38)):.99f})"


# --- set_available_memory ---


@pytest.mark.shows("set_available_memory")
def test_memory_hint_reaches_the_operation_behind_the_tensor():
    layer = torch.nn.Conv2d(1, 2, 3)

    def forward(x):
        return poptorch.set_available_memory(torch.relu(layer(x)), 0.25)

    model = module_of(forward)
    model.layer = layer
    x = torch.randn(1, 1, 5, 5)
    out, text = captured_text(model, x)
    torch.testing.assert_close(out, torch.relu(layer(x)))
    assert re.search(r"= (fused_)?conv\(.*available_memory=0\.25", text), text


@pytest.mark.shows("Options.setAvailableMemoryProportion")
def test_products_say_the_memory_proportion_of_their_ipu_with_their_gradients():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.layers = torch.nn.ModuleList(torch.nn.Linear(4, 4) for _ in range(3))

        def forward(self, x):
            poptorch.Block.start("first", ipu_id=0)
            x = torch.tanh(self.layers[0](x)) + poptorch.set_available_memory(self.layers[1](x), 0.125)
            poptorch.Block.start("second", ipu_id=1)
            return poptorch.identity_loss(self.layers[2](x), "sum")

    with torch.device("meta"):
        model = Model()
    options = poptorch.Options().showCompilationProgressBar(False).setAvailableMemoryProportion({"IPU0": 0.25})
    options.setExecutionStrategy(poptorch.ShardedExecution())
    trainer = poptorch.trainingModel(model, options, torch.optim.SGD(model.parameters(), lr=0.1))
    trainer.compile(torch.ones(2, 4, device="meta"))
    lines = trainer._executable.machine_text().splitlines()
    products = [line for line in lines if re.search(r"= linear\w*\(", line)]
    said = [re.search(r"available_memory=([0-9.]+)|$", line)[1] for line in products]
    on_second = ["ipu=1" in line for line in products]
    assert len(products) == 7  # the gradient of an input is not asked for on the first IPU
    assert all((share is None) == is_second for share, is_second in zip(said, on_second))
    assert said.count("0.25") == said.count("0.125") == 2


@pytest.mark.shows("nop")
def test_an_operation_that_does_nothing_is_an_operation():
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.ones(2))

        def forward(self, x):
            return poptorch.identity_loss(poptorch.nop(x * self.w), "sum")

    model, x = Model(), torch.tensor([3.0, 4.0])
    trainer = poptorch.trainingModel(model, None, torch.optim.SGD(model.parameters(), lr=1.0))
    assert trainer(x) == 7 and torch.equal(model.w.detach(), 1 - x)
    operations = json.loads(trainer._debugGetPopartIR())["maingraph"]
    assert "Nop" in [op["type"] for op in operations] and torch.equal(poptorch.nop(x), x)
    trainer.destroy()


@pytest.mark.parametrize("value", [1.5, -0.1, "0.2"])
def test_memory_proportions_outside_0_to_1_are_refused(value):
    with pytest.raises(poptorch.Error) as caught:
        poptorch.set_available_memory(torch.ones(2), value)
    assert caught.value.message == (
        f"poptorch.set_available_memory: the proportion must be a number in 0..1, got {value!r}"
    )
    with pytest.raises(poptorch.Error, match="needs a tensor, got int"):
        poptorch.set_available_memory(3, 0.5)


# --- serializedMatMul ---


@pytest.mark.parametrize("mode", list(Mode))
@pytest.mark.parametrize("keep_precision", [False, True])
@pytest.mark.parametrize("batch", [(), (3,)])
@pytest.mark.shows("serializedMatMul")
def test_serialised_product_is_matmul(mode, keep_precision, batch):
    factor = 0 if mode == Mode.Disabled else 2
    a, b = torch.randn(2, *batch, 4, 6), torch.randn(2, *batch, 6, 8)
    product = lambda a, b: poptorch.serializedMatMul(a, b, mode, factor, keep_precision)  # noqa: E731
    torch.testing.assert_close(poptorch.inferenceModel(module_of(product))(a, b), torch.matmul(a, b))
    assert torch.equal(product(a, b), torch.matmul(a, b))  # on the CPU


@pytest.mark.parametrize(
    "mode, shapes",
    [
        (Mode.InputChannels, ["[2 6]", "[6 8]"]),
        (Mode.ReducingDim, ["[4 3]", "[3 8]"]),
        (Mode.OutputChannels, ["[4 6]", "[6 4]"]),
    ],
)
@pytest.mark.shows("serializedMatMul", "MatMulSerializationMode")
def test_the_mode_says_where_a_product_is_cut(mode, shapes):
    run = poptorch.inferenceModel(lambda a, b: poptorch.serializedMatMul(a, b, mode, 2))
    run.compile(torch.randn(4, 6), torch.randn(6, 8))
    products = [op for op in json.loads(run._debugGetPopartIR())["maingraph"] if op["type"] == "MatMul"]
    assert [[tensor["shape"] for tensor in op["inputs"]] for op in products] == [shapes, shapes]
    kinds = {(op["attributes"]["serialization_mode"], op["attributes"]["serialization_factor"]) for op in products}
    assert kinds == {(mode.value, "2")}


@pytest.mark.shows("identity_loss")
def test_serialised_product_trains():
    class Net(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.w = torch.nn.Parameter(torch.randn(6, 8))

        def forward(self, x):
            y = poptorch.serializedMatMul(x, self.w, Mode.ReducingDim, 3)
            return poptorch.identity_loss(y * y, "mean")

    net = Net()
    plain = copy.deepcopy(net)
    x = torch.randn(4, 6)
    trainer = poptorch.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
    trainer(x)
    (torch.matmul(x, plain.w) ** 2).mean().backward()
    torch.testing.assert_close(net.w.detach(), plain.w.detach() - 0.1 * plain.w.grad)


@pytest.mark.parametrize(
    "arguments, message",
    [
        ((torch.ones(2, 3), torch.ones(3, 4), "none"), "mode must be a poptorch.MatMulSerializationMode, got 'none'"),
        ((1, torch.ones(3, 4), Mode.Disabled), "serializedMatMul needs two tensors, got int and Tensor"),
        ((torch.ones(2, 3), torch.ones(3, 4), Mode.ReducingDim, 0), "factor must be an int of at least 1, got 0"),
        (
            (torch.ones(2, 3), torch.ones(3, 4), Mode.ReducingDim, 2),
            "serializedMatMul: ReducingDim has size 3, which is not divisible by factor 2 (shapes [2, 3] and [3, 4])",
        ),
        (
            (torch.ones(3), torch.ones(3, 4), Mode.ReducingDim, 3),
            "serializedMatMul needs tensors of at least 2 dimensions, got shapes [3] and [3, 4]",
        ),
        ((torch.ones(2, 3), torch.ones(3, 4), Mode.ReducingDim, 3, 1), "keep_precision must be True or False, got 1"),
    ],
)
def test_serialised_product_names_mistakes(arguments, message):
    with pytest.raises(AssertionError) as caught:
        poptorch.serializedMatMul(*arguments)
    assert str(caught.value) == message


# --- Attribute ---


@pytest.mark.shows("Attribute")
def test_attributes_are_on_the_operations_inside_and_inner_values_win():
    def forward(x):
        with poptorch.Attribute(__outline={"layer": "outer", "kind": "a"}):
            x = torch.exp(x)
            with poptorch.Attribute(__outline={"layer": "inner"}):
                x = torch.sin(x)
            x = torch.tanh(x)
        return torch.cos(x)

    x = torch.ones(1)
    text = captured_before_passes(module_of(forward), x)
    outline = {kind: re.search(rf"= {kind}\(.*", text).group() for kind in ("exp", "sin", "tanh", "cos")}
    assert "outer" in outline["exp"] and "outer" in outline["tanh"]
    assert "inner" in outline["sin"] and "outer" not in outline["sin"]
    assert "outer" not in outline["cos"]


def test_attribute_values_must_be_dicts_of_strings():
    for value in ("x", {"a": 1}, {1: "a"}):
        with pytest.raises(AssertionError) as caught:
            poptorch.Attribute(__outline=value)
        assert str(caught.value) == (f"poptorch.Attribute: '__outline' must be a dict from str to str, got {value!r}")


# --- MultiConv ---


class Convolutions(torch.nn.Module):
    def __init__(self, forward):
        super().__init__()
        self.a = torch.nn.Conv2d(1, 2, 3, padding=1)
        self.b = torch.nn.Conv2d(1, 2, 1)
        self.c = torch.nn.Conv2d(2, 2, 1)
        self._forward = forward

    def forward(self, x):
        return self._forward(self, x)


def both(model, x, **settings):
    multi = poptorch.MultiConv()
    for name, value in settings.items():
        assert getattr(multi, name)(value) is multi
    with multi:
        a, b = model.a(x), model.b(x)
    return a + b


@pytest.mark.shows("MultiConv")
def test_multi_conv_computes_what_its_convolutions_do():
    settings = {
        "availableMemoryProportions": [0.1, 0.2],
        "partialsTypes": torch.float,
        "enableConvDithering": [True, False],
        "planType": poptorch.MultiConvPlanType.Serial,
        "perConvReservedTiles": 100,
        "cycleBackOff": 0.3,
    }
    model = Convolutions(lambda m, x: both(m, x, **settings))
    x = torch.randn(1, 1, 4, 4)
    out, text = captured_text(model, x)
    torch.testing.assert_close(out, model.a(x) + model.b(x))
    marked = [line for line in text.splitlines() if "multi_conv=0" in line]
    assert len(marked) == 2 and all(re.search(r"= (fused_)?conv\(", line) for line in marked)


@pytest.mark.parametrize("kind", ["Parallel", "Serial"])
@pytest.mark.shows("MultiConvPlanType")
def test_the_plan_of_fused_convolutions_is_shown(kind):
    convolution = torch.nn.Conv2d(1, 1, 1)

    def forward(x):
        with poptorch.MultiConv().planType(poptorch.MultiConvPlanType[kind]):
            return convolution(x)

    run = poptorch.inferenceModel(forward)
    run.compile(torch.ones(1, 1, 2, 2))
    (fused,) = [op for op in json.loads(run._debugGetPopartIR())["maingraph"] if op["type"] == "MultiConv"]
    assert fused["attributes"]["planType"] == kind


def dependent(model, x):
    with poptorch.MultiConv():
        return model.c(model.a(x))


def nested(model, x):
    with poptorch.MultiConv(), poptorch.MultiConv():
        return model.a(x)


def empty(model, x):
    with poptorch.MultiConv():
        return x + 1


@pytest.mark.parametrize(
    "forward, phrase",
    [
        (dependent, "MultiConv cannot be fused"),
        (nested, "nested MultiConv"),
        (empty, "empty MultiConv"),
        (
            lambda m, x: both(m, x, availableMemoryProportions=[0.1, 0.2, 0.3]),
            "MultiConv.availableMemoryProportions has 3 values for 2 convolutions. Give one value, or 2.",
        ),
    ],
)
def test_multi_conv_that_cannot_be_is_refused_and_the_next_run_works(forward, phrase):
    runner = poptorch.inferenceModel(Convolutions(forward))
    with pytest.raises(poptorch.Error) as caught:
        runner(torch.randn(1, 1, 4, 4))
    assert caught.value.message.startswith(phrase)
    good = Convolutions(both)
    x = torch.randn(1, 1, 4, 4)
    torch.testing.assert_close(poptorch.inferenceModel(good)(x), both(good, x))


@pytest.mark.parametrize(
    "name, value, error",
    [
        ("availableMemoryProportions", [], AssertionError),
        ("availableMemoryProportions", 1, AssertionError),
        ("availableMemoryProportions", 2.0, AssertionError),
        ("partialsTypes", torch.int, ValueError),
        ("enableConvDithering", 1, ValueError),
        ("planType", "Serial", AssertionError),
        ("perConvReservedTiles", 1.5, AssertionError),
        ("cycleBackOff", "x", AssertionError),
    ],
)
def test_multi_conv_settings_are_checked(name, value, error):
    with pytest.raises(error, match=f"MultiConv.{name} needs .*, got"):
        getattr(poptorch.MultiConv(), name)(value)
