"""poptorch.custom_op: operations from shared libraries of a user's own."""

import ctypes
import pathlib
import subprocess

import pytest
import torch
import torch.nn.functional as F
from models import Call
from python_programs import run_program
from torch import nn

import poptorch

ROOT = pathlib.Path(__file__).resolve().parents[3]
HEADERS = ROOT / "csrc" / "include"

# Gives back its attributes as a vector: flag, count, factor, length of the text, sum of the lists.
KINDS = """
#include <string.h>
#include "ipu/custom_op.h"
static int32_t infer(const ipu_call*, ipu_type* results, char*, size_t) {
  results[0].dtype = IPU_F32; results[0].rank = 1; results[0].shape[0] = 6;
  return 0;
}
static void run(const ipu_call* call, const ipu_view*, const ipu_view* results, int32_t) {
  float* y = (float*)results[0].data;
  const ipu_value* a = call->attributes;
  y[0] = a[0].integer; y[1] = a[1].integer; y[2] = a[2].real; y[3] = strlen(a[3].text); y[4] = y[5] = 0;
  for (int64_t i = 0; i < a[4].count; ++i) y[4] += a[4].integers[i];
  for (int64_t i = 0; i < a[5].count; ++i) y[5] += a[5].reals[i];
}
static const ipu_operand kX[] = {{"x", 0, 0}};
static const ipu_attribute kAttributes[] = {
    {"flag", 0, {IPU_BOOLEAN, 0, 0, 0, 0, 0, 0}}, {"count", 0, {IPU_INTEGER, 7, 0, 0, 0, 0, 0}},
    {"factor", 1, {IPU_REAL, 0, 0, 0, 0, 0, 0}},  {"text", 0, {IPU_TEXT, 0, 0, "four", 0, 0, 0}},
    {"whole", 0, {IPU_INTEGERS, 0, 0, 0, 0, 0, 0}}, {"parts", 0, {IPU_REALS, 0, 0, 0, 0, 0, 0}}};
static const char* const kY[] = {"y"};
static const ipu_custom_op kOp = {sizeof(ipu_custom_op), "kinds", "look", 3, "Its attributes.", 1, kX, 6, kAttributes, 1, kY,
                                  infer, run, 0, 0, IPU_GRADIENT_ZERO, 0, 0, 0, 0};
static const ipu_custom_op* const kOps[] = {&kOp};
static const ipu_custom_op_table kTable = {IPU_CUSTOM_OP_ABI, 1, kOps};
extern "C" const ipu_custom_op_table* ipu_custom_ops(void) { return &kTable; }
"""

# Throws, in the function that `where` names, an exception or a number; or says too many lanes.
THROWS = """
#include <stdexcept>
#include "ipu/custom_op.h"
static void act(const ipu_call* call, int64_t function) {
  if (call->attributes[0].integer != function) return;
  if (call->attributes[1].integer != 2) throw 7;
  throw std::runtime_error("mine");
}
static int32_t infer(const ipu_call* call, ipu_type* results, char*, size_t) {
  act(call, 2);
  results[0] = call->operands[0];
  return 0;
}
static void run(const ipu_call* call, const ipu_view*, const ipu_view*, int32_t) { act(call, 3); }
static int32_t lanes(const ipu_call* call) {
  act(call, 4);
  return call->attributes[0].integer == 6 ? 2000000000 : 1;
}
static const ipu_operand kX[] = {{"x", 0, 0}};
static const ipu_attribute kAttributes[] = {{"where", 1, {IPU_INTEGER, 0, 0, 0, 0, 0, 0}},
                                            {"number", 1, {IPU_INTEGER, 0, 0, 0, 0, 0, 0}}};
static const char* const kY[] = {"y"};
static const ipu_custom_op kOp = {sizeof(ipu_custom_op), "throws", "act", 1, "Throws.", 1, kX, 2, kAttributes, 1, kY,
                                  infer, run, lanes, 0, IPU_GRADIENT_ZERO, 0, 0, 0, 0};
static const ipu_custom_op* const kOps[] = {&kOp};
static const ipu_custom_op_table kTable = {IPU_CUSTOM_OP_ABI, 1, kOps};
extern "C" const ipu_custom_op_table* ipu_custom_ops(void) { return &kTable; }
"""


def compiled(source, target, *options):
    command = ["c++", "-std=c++20", "-O1", "-fPIC", "-shared", f"-I{HEADERS}", *options, str(source), "-o", str(target)]
    subprocess.run(command, check=True)
    return str(target)


@pytest.fixture(scope="module", autouse=True)
def libraries(tmp_path_factory):
    """Built as a user builds them, and loaded the published way."""
    folder = tmp_path_factory.mktemp("custom_ops")
    (folder / "kinds.cc").write_text(KINDS)
    example = compiled(ROOT / "tests" / "ops" / "custom_ops" / "example.cc", folder / "example.so")
    kinds = compiled(folder / "kinds.cc", folder / "kinds.so")
    ctypes.cdll.LoadLibrary(example)
    (folder / "throws.cc").write_text(THROWS)
    throws = compiled(folder / "throws.cc", folder / "throws.so")
    ctypes.cdll.LoadLibrary(kinds)
    ctypes.cdll.LoadLibrary(throws)
    return example, kinds


def cube(x, **attributes):
    return poptorch.custom_op([x], "cube", "test.ops", 1, [x], attributes or None)[0]


def halves(x):
    example = torch.empty(x.shape[0] // 2, *x.shape[1:])
    return poptorch.custom_op([x], "halves", "test.ops", 2, [example, example])


def look(x, **attributes):
    return poptorch.custom_op((x,), "look", "kinds", 3, (torch.empty(6),), attributes)[0]


@pytest.mark.shows("custom_op")
def test_an_operation_of_a_loaded_library_computes():
    x = torch.randn(4, 6)
    torch.testing.assert_close(poptorch.inferenceModel(Call(cube))(x), x**3)
    torch.testing.assert_close(
        poptorch.inferenceModel(Call(lambda x: cube(x * 2, scale=0.5) + 1))(x), 0.5 * (2 * x) ** 3 + 1
    )


def test_several_results_come_as_a_list():
    x = torch.randn(4, 3)
    kinds = []

    def forward(x):
        results = halves(x)
        kinds.append(type(results))
        return results[1] - results[0]

    torch.testing.assert_close(poptorch.inferenceModel(Call(forward))(x), x[2:] - x[:2])
    assert kinds == [list]


def test_on_the_cpu_results_are_zeros():
    low, high = halves(torch.randn(4, 3))
    assert torch.equal(low, torch.zeros(2, 3)) and torch.equal(high, torch.zeros(2, 3))
    assert poptorch.custom_op([], "nobody", "knows", 1, [torch.ones(2, dtype=torch.int32)])[0].dtype == torch.int32


class Trained(nn.Module):
    def __init__(self, on_device):
        super().__init__()
        self.fc1, self.fc2, self.on_device = nn.Linear(4, 4), nn.Linear(4, 3), on_device

    def forward(self, x, y):
        poptorch.Block.start("b0", ipu_id=0)
        x = self.fc1(x)
        x = cube(x, scale=0.5) if self.on_device else 0.5 * x**3
        poptorch.Block.start("b1", ipu_id=1)
        out = self.fc2(x)
        return out, F.mse_loss(out, y)


@pytest.mark.parametrize("accumulation", [1, 5])
def test_training_uses_the_gradient_operation_of_the_library(accumulation):
    torch.manual_seed(2)
    ours, theirs = Trained(True), Trained(False)
    theirs.load_state_dict(ours.state_dict())
    options = poptorch.Options()
    if accumulation > 1:
        options.setExecutionStrategy(poptorch.PipelinedExecution("b0", "b1"))
        options.Training.gradientAccumulation(accumulation)
    else:
        options.setExecutionStrategy(poptorch.ShardedExecution("b0", "b1"))
    optimizer = torch.optim.SGD(theirs.parameters(), lr=0.1)
    trainer = poptorch.trainingModel(ours, options, torch.optim.SGD(ours.parameters(), lr=0.1))
    for _ in range(5):
        x, y = torch.randn(2 * accumulation, 4), torch.randn(2 * accumulation, 3)
        trainer(x, y)
        optimizer.zero_grad()
        theirs(x, y)[1].backward()
        optimizer.step()
    trainer.destroy()
    for mine, wanted in zip(ours.parameters(), theirs.parameters()):
        torch.testing.assert_close(mine.detach(), wanted.detach(), rtol=1e-4, atol=1e-5)


class Halved(nn.Module):
    def __init__(self):
        super().__init__()
        self.fc = nn.Linear(4, 4)

    def forward(self, x):
        return poptorch.identity_loss(halves(self.fc(x))[0], "sum")


def test_training_through_an_operation_without_a_gradient_is_an_error():
    net = Halved()
    trainer = poptorch.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.1))
    with pytest.raises(poptorch.Error, match="halves are for looking only"):
        trainer(torch.randn(4, 4))


def test_results_are_as_differentiable_as_inputs_and_examples():
    found = []

    class Model(nn.Module):
        def __init__(self):
            super().__init__()
            self.weight = nn.Parameter(torch.ones(2))

        def forward(self, x):
            found.append((cube(x).requires_grad, cube(self.weight * x).requires_grad))
            return x

    poptorch.inferenceModel(Model())(torch.ones(2))
    assert found == [(False, True)]


# --- attributes


@pytest.mark.parametrize(
    "attributes, expected",
    [
        ({"factor": 2.5}, [0, 7, 2.5, 4, 0, 0]),
        ({"factor": 0.1, "flag": True, "count": -3}, [1, -3, 0.1, 4, 0, 0]),
        ({"factor": 1.0, "flag": 1, "count": False, "text": ""}, [1, 0, 1, 0, 0, 0]),
        ({"factor": 1.0, "text": "hello", "whole": [1, 2, 3], "parts": (0.5, 0.25)}, [0, 7, 1, 5, 6, 0.75]),
        ({"factor": 1.0, "whole": (), "parts": []}, [0, 7, 1, 4, 0, 0]),
    ],
)
def test_attributes_reach_the_operation(attributes, expected):
    actual = poptorch.inferenceModel(Call(lambda x: look(x, **attributes)))(torch.ones(1))
    torch.testing.assert_close(actual, torch.tensor(expected, dtype=torch.float32))


@pytest.mark.parametrize(
    "attributes, text",
    [
        ({1: 2.0}, "names of attributes are str, got int 1"),
        ({"a": None}, "attribute 'a' is a NoneType"),
        ({"a": {"b": 1}}, "attribute 'a' is a dict"),
        ({"a": torch.ones(1)}, "attribute 'a' is a Tensor"),
        ({"a": 1j}, "attribute 'a' is a complex"),
        ({"a": [1, 2.0]}, "the members of attribute 'a' must all be int, got float, int"),
        ({"a": [[1], [2]]}, r"attribute 'a\[0\]' is a list"),
        ({"a": "häuser"}, "attribute 'a' is not ASCII"),
        ({"a": ["b", "ç"]}, r"attribute 'a\[1\]' is not ASCII"),
        ([("a", 1)], "attributes must be a dict, got list"),
    ],
)
@pytest.mark.parametrize("captured", [False, True])
def test_attributes_of_other_types_are_value_errors(attributes, text, captured):
    def use(x):
        return poptorch.custom_op([x], "cube", "test.ops", 1, [x], attributes)[0]

    with pytest.raises(ValueError, match=text):
        poptorch.inferenceModel(Call(use))(torch.ones(2)) if captured else use(torch.ones(2))


@pytest.mark.parametrize(
    "attributes, text",
    [
        ({"factor": 1e39}, "attribute 'factor' is 1e\\+39, beyond the range of float32"),
        ({"factor": float("nan")}, "attribute 'factor' is nan, beyond the range of float32"),
        ({"factor": 1.0, "count": 2**63}, "attribute 'count' is 9223372036854775808, beyond 64 bits"),
        ({}, "kinds.look.v3 needs the attribute 'factor', a float"),
        ({"factor": 2}, r"'factor' of kinds.look.v3 is a float, got an int \(2\)"),
        ({"factor": "2"}, "'factor' of kinds.look.v3 is a float, got a str"),
        ({"factor": 1.0, "flag": 2}, r"'flag' of kinds.look.v3 is a bool, got an int \(2\)"),
        ({"factor": 1.0, "whole": [1.0]}, "'whole' of kinds.look.v3 is a list of int, got a list of float"),
        ({"factor": 1.0, "text": ["a"]}, "'text' of kinds.look.v3 is a str, got a list of str"),
        ({"factor": 1.0, "scale": 1.0}, "kinds.look.v3 has no attribute 'scale'; it has 'flag', 'count', 'factor'"),
    ],
)
def test_attributes_that_are_not_those_of_the_operation_are_errors(attributes, text):
    with pytest.raises(poptorch.Error, match=text):
        poptorch.inferenceModel(Call(lambda x: look(x, **attributes)))(torch.ones(2))


@pytest.mark.shows("attributes_lists")
def test_attribute_dictionaries_are_kept_and_equal_ones_are_shared():
    x = torch.ones(2)
    before = len(poptorch.attributes_lists)
    cube(x, scale=123.0)
    cube(x, scale=123.0)
    assert poptorch.attributes_lists[before:] == [{"scale": 123.0}]
    cube(x, scale=123)
    cube(x, scale=True)
    cube(x, scale=1)
    assert [type(a["scale"]) for a in poptorch.attributes_lists[before:]] == [float, int, bool, int]


@pytest.mark.shows("accessAttributes")
def test_a_handle_names_a_dictionary_of_attributes():
    cube(torch.ones(2), scale=321.0)
    place = poptorch.attributes_lists.index({"scale": 321.0})
    assert poptorch.accessAttributes(f"attributes:{place}") is poptorch.attributes_lists[place]
    for handle, says in [
        (place, "is a str, got int"),
        (f"attribute:{place}", "is 'attributes:' and a number"),
        ("attributes:-1", "is 'attributes:' and a number"),
        ("attributes:", "is 'attributes:' and a number"),
        (f"attributes:{len(poptorch.attributes_lists)}", "names no attributes"),
    ]:
        with pytest.raises(ValueError, match=says):
            poptorch.accessAttributes(handle)


# --- what does not fit


def message(function, *inputs):
    with pytest.raises(poptorch.Error) as raised:
        poptorch.inferenceModel(Call(function))(*inputs)
    return str(raised.value)


@pytest.mark.parametrize(
    "name, domain, version",
    [("cubes", "test.ops", 1), ("cube", "other.ops", 1), ("cube", "test.ops", 2), ("cube", "test.ops", 0)],
)
def test_an_unknown_operation_is_an_error_that_lists_the_known_ones(name, domain, version):
    text = message(lambda x: poptorch.custom_op([x], name, domain, version, [x])[0], torch.ones(2))
    assert (
        f"unknown custom operation [IPU-E101]: name '{name}', domain '{domain}', version {version}. Known are" in text
    )
    for known in ("poptorch.custom_ops.FastGatherLastDim", "test.ops.cube", "test.ops.halves.v2", "kinds.look.v3"):
        assert f"\n    {known}\n" in text
    assert "ctypes.cdll.LoadLibrary(path)" in text and "test_custom_ops.py" in text.split(":")[0]


def test_operands_that_do_not_fit_are_errors_in_the_words_of_the_library():
    assert "operands do not fit" in message(lambda x: halves(x)[0], torch.ones(3, 2))
    assert "the first dimension must be even" in message(lambda x: halves(x)[0], torch.ones(3, 2))
    assert "operand 'x' of test.ops.cube is i32; allowed are f32" in message(cube, torch.ones(3, dtype=torch.int32))
    two = lambda x: poptorch.custom_op([x, x], "cube", "test.ops", 1, [x])[0]  # noqa: E731
    assert "test.ops.cube takes 1 inputs, got 2" in message(two, torch.ones(2))
    none = lambda x: poptorch.custom_op([], "cube", "test.ops", 1, [x])[0]  # noqa: E731
    assert "test.ops.cube" in message(none, torch.ones(2))


def test_examples_of_other_results_are_errors():
    def use(examples):
        return lambda x: poptorch.custom_op([x], "cube", "test.ops", 1, examples)[0]

    assert "test.ops.cube gives 1 results, example_outputs has 2" in message(use([torch.ones(2)] * 2), torch.ones(2))
    assert "result 0 as f32[2], example_outputs[0] is f32[3]" in message(use([torch.ones(3)]), torch.ones(2))
    assert "result 0 as f32[2], example_outputs[0] is f16[2]" in message(use([torch.ones(2).half()]), torch.ones(2))


@pytest.mark.parametrize("inputs, examples", [(3, []), ([1], []), ([], 3), ([], [None]), (torch.ones(2), [])])
def test_inputs_and_examples_are_lists_of_tensors(inputs, examples):
    with pytest.raises(ValueError, match="must be a list or tuple of tensors"):
        poptorch.custom_op(inputs, "cube", "test.ops", 1, examples)


def test_a_broken_library_is_an_error_that_says_why(tmp_path):
    broken = compiled(ROOT / "tests" / "ops" / "custom_ops" / "broken.cc", tmp_path / "broken.so", "-DBROKEN=3")
    code = f"""
import ctypes, torch, poptorch
ctypes.cdll.LoadLibrary({broken!r})
poptorch.inferenceModel(lambda x: poptorch.custom_op([x], "identity", "test.broken", 1, [x])[0])(torch.ones(2))
"""
    result = run_program(code)
    assert result.returncode == 1
    assert "custom operations not loaded" in result.stderr
    assert "no shape function or no kernel for 'test.broken.identity'" in result.stderr


@pytest.mark.parametrize("number", [0, 2], ids=["an exception", "a number"])
@pytest.mark.parametrize("where, part", [(0, "shape function"), (1, "kernel"), (2, "count of lanes")])
def test_what_a_library_throws_is_an_error_that_names_the_operation(where, part, number):
    attributes = {"where": where + 2, "number": number + 2}  # 0 and 1 would be booleans
    use = lambda x: poptorch.custom_op([x], "act", "throws", 1, [x], attributes)[0]  # noqa: E731
    text = message(use, torch.ones(2))
    thrown = "something that is no std::exception" if number else "mine"
    assert "custom operation failed [IPU-E4" in text and f"the {part} of 'throws.act' threw {thrown}" in text


def test_too_many_lanes_are_an_error_that_says_how_many_can_be_run():
    attributes = {"where": 6, "number": 2}
    text = message(lambda x: poptorch.custom_op([x], "act", "throws", 1, [x], attributes)[0], torch.ones(2))
    assert "'throws.act' says 2000000000 lanes, and at most 65535 can be run" in text and "internal" not in text


def test_a_saved_executable_names_the_operation(tmp_path):
    path, x = tmp_path / "model.poptorch", torch.randn(3)
    poptorch.inferenceModel(Call(cube)).compileAndExport(path, x, export_model=False)
    model = poptorch.inferenceModel(Call(cube))
    model.loadExecutable(path)
    torch.testing.assert_close(model(x), x**3)


# --- the built-in one


def gather(data, index, **attributes):
    return poptorch.custom_op(
        [data, index], "FastGatherLastDim", "poptorch.custom_ops", 1, [index.to(data.dtype)], attributes
    )[0]


def test_the_built_in_gather():
    data, index = torch.randn(2, 3, 5), torch.randint(0, 5, (2, 3, 7), dtype=torch.int32)
    expected = torch.gather(data, -1, index.long())
    assert torch.equal(poptorch.inferenceModel(Call(gather))(data, index), expected)
    assert torch.equal(
        poptorch.inferenceModel(Call(lambda d, i: gather(d, i, debug_str="name")))(data, index), expected
    )


class Gathered(nn.Module):
    def __init__(self):
        super().__init__()
        self.data = nn.Parameter(torch.arange(6.0).view(2, 3))

    def forward(self, index):
        return poptorch.identity_loss(gather(self.data, index) ** 2, "sum")


def test_the_built_in_gather_is_differentiable():
    net, index = Gathered(), torch.tensor([[0, 0, 2], [1, 2, 2]], dtype=torch.int32)
    reference = net.data.detach().clone().requires_grad_()
    (torch.gather(reference, -1, index.long()) ** 2).sum().backward()
    trainer = poptorch.trainingModel(net, None, torch.optim.SGD(net.parameters(), lr=0.25))
    trainer(index)
    trainer.destroy()
    torch.testing.assert_close(net.data.detach(), (reference - 0.25 * reference.grad).detach())


@pytest.mark.parametrize(
    "data, index",
    [
        (torch.ones(2, 3), torch.ones(3, dtype=torch.int32)),
        (torch.ones(2, 3), torch.ones(3, 3, dtype=torch.int32)),
        (torch.ones(2, 3), torch.ones(2, 3)),
        (torch.tensor(1.0), torch.tensor(0, dtype=torch.int32)),
    ],
)
def test_the_built_in_gather_refuses_other_shapes(data, index):
    text = message(gather, data, index)
    assert "takes data and an int32 index of equal rank and equal leading dimensions" in text


def test_the_built_in_gather_has_one_attribute():
    data, index = torch.ones(2, 3), torch.ones(2, 3, dtype=torch.int32)
    assert "has one attribute, 'debug_str'" in message(lambda d, i: gather(d, i, other=1), data, index)
    assert "has one attribute, 'debug_str'" in message(lambda d, i: gather(d, i, debug_str=1), data, index)
