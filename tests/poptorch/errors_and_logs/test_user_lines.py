"""Errors of `forward` name the user's line; below an installed package, also the lines that lead to the operator."""

import importlib
import os
import sys

import pytest
import torch

import poptorch

HERE = "tests/poptorch/errors_and_logs/test_user_lines.py"


class Model(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function
        self.weight = torch.nn.Parameter(torch.ones(4))

    def forward(self, x):
        return self.function(self, x)


def error_of(function):
    with pytest.raises(poptorch.Error) as caught:
        poptorch.inferenceModel(Model(function))(torch.ones(4))
    return caught.value


# Errors that poptorch's Python code raises, and those of torch about memory that is not there. One line each.
CASES = {
    "slice of unknown size": lambda m, x: x[: (x > 0).sum()],
    "slice that is assigned": lambda m, x: x.__setitem__(slice(None, (x > 0).sum()), 1),
    "empty slice": lambda m, x: x[x.long()[0] : x.long()[0]],
    "step of a slice": lambda m, x: x[x.long()[0] : x.long()[0] + 1 : 1.5],
    "for_loop count": lambda m, x: poptorch.for_loop(-1, lambda y: y, [x]),
    "for_loop body": lambda m, x: poptorch.for_loop(2, lambda y: 3, [x]),
    "for_loop body is callable": lambda m, x: poptorch.for_loop(2, 3, [x]),
    "CPU": lambda m, x: poptorch.CPU(lambda y: 3, "number")(x),
    "CPU needs a callable": lambda m, x: poptorch.CPU(3, "number"),
    "overlap": lambda m, x: poptorch.set_overlap_for_input(3, poptorch.OverlapMode.NoOverlap),
    "available memory": lambda m, x: poptorch.set_available_memory(x, 3.0),
    "custom operator": lambda m, x: poptorch.custom_op([x], "NoSuch", "test", 1, [x]),
    "resize_ of a storage": lambda m, x: x.untyped_storage().resize_(0),
    "resize_ of a weight's storage": lambda m, x: m.weight.untyped_storage().resize_(0),
    "fill_ of a storage": lambda m, x: x.untyped_storage().fill_(0),
    "storage's bytes": lambda m, x: x.untyped_storage().tolist(),
    "storage's copy": lambda m, x: x.untyped_storage().clone(),
    "typed storage": lambda m, x: x.storage()[0],
    "data_ptr": lambda m, x: x.data_ptr(),
    "DLPack": lambda m, x: torch.utils.dlpack.to_dlpack(x),
    "a number": lambda m, x: x.sum().item(),
    "an operator": lambda m, x: torch.linalg.svd(x.view(2, 2)),
    "a complex tensor": lambda m, x: x.to(torch.complex64),
}


@pytest.mark.parametrize("case", CASES)
def test_the_users_line_is_named(case):
    function = CASES[case]
    error = error_of(function)
    line = f"{HERE}:{function.__code__.co_firstlineno}"
    if error.type == "poptorch_py_error":
        assert str(error) == f"'poptorch_py_error': {error.message}"
        assert error.message.endswith(f"\n  from:     {line}")
    else:
        assert str(error).removeprefix("In ").removeprefix(f"{os.getcwd()}/").startswith(f"{line}: '{error.type}': ")
    assert "stack:" not in error.message


def test_memory_that_is_not_there_is_an_error_with_a_cure():
    error = error_of(CASES["resize_ of a storage"])
    assert error.message == (
        "memory of an IPU tensor: untyped_storage(), data_ptr() and DLPack lead to memory of the host, and IPU tensors have none "
        "while forward() is captured (torch: Attempted to call resize_() on an invalid python storage.) Leave the line out, or put "
        "it behind `if not poptorch.isRunningOnIpu():`.\n"
        f"  from:     {HERE}:{CASES['resize_ of a storage'].__code__.co_firstlineno}"
    )
    assert isinstance(error.__cause__, RuntimeError)


def test_outside_of_a_capture_errors_are_as_ever():
    with pytest.raises(poptorch.Error) as caught:
        poptorch.for_loop(-1, lambda y: y, [torch.ones(1)])
    assert str(caught.value) == f"'poptorch_py_error': {caught.value.message}"


def test_an_output_without_a_value_is_refused():
    error = error_of(lambda m, x: x.to("meta"))
    assert error.message == (
        "An output of forward is on 'meta', where there is no value to return. Return a tensor of the IPU or of the CPU."
    )


PACKAGE = """import torch, poptorch

class Layer(torch.nn.Module):
    def __init__(self, function):
        super().__init__()
        self.function = function

    def forward(self, x):
        return self.propagate(x)

    def propagate(self, x):
        return aggregate(x, self.function)

def aggregate(x, function):
    return FUNCTIONS[function](x) if isinstance(function, str) else function(x)

FUNCTIONS = {
    "operator": lambda x: torch.linalg.svd(x.view(2, 2)),
    "shape": lambda x: torch.nonzero(x),
    "value": lambda x: x.sum().item(),
    "type": lambda x: x.to(torch.complex64),
    "slice": lambda x: x[: (x > 0).sum()],
    "memory": lambda x: x.untyped_storage().resize_(0),
    "block": lambda x: poptorch.for_loop(-1, lambda y: y, [x]),
}
"""


@pytest.fixture(scope="module")
def layers(tmp_path_factory):
    folder = tmp_path_factory.mktemp("environment") / "site-packages"
    folder.mkdir()
    (folder / "graph_layers_of_a_test.py").write_text(PACKAGE)
    sys.path.insert(0, str(folder))
    yield importlib.import_module("graph_layers_of_a_test"), str(folder / "graph_layers_of_a_test.py")
    sys.path.remove(str(folder))
    del sys.modules["graph_layers_of_a_test"]


def line_of(text):
    return next(number for number, line in enumerate(PACKAGE.splitlines(), 1) if text in line)


@pytest.mark.parametrize("kind", ["operator", "shape", "value", "type", "slice", "memory", "block"])
def test_below_a_package_the_stack_leads_to_the_operator(layers, kind):
    package, file = layers
    layer = package.Layer(kind)
    function = lambda m, x: layer(x * 2)  # noqa: E731 (one line, whose number is known)
    error = error_of(function)
    line = f"{HERE}:{function.__code__.co_firstlineno}"
    stack = (
        f"  stack:  > {line}  in <lambda>\n"
        f"            {file}:{line_of('return self.propagate')}  in forward\n"
        f"            {file}:{line_of('return aggregate')}  in propagate\n"
        f"            {file}:{line_of('return FUNCTIONS')}  in aggregate\n"
    )
    called = f"            {file}:{line_of(chr(34) + kind + chr(34) + ': lambda')}  in <lambda>"
    assert stack + called in error.message.replace("\n\n", "\n")
    assert error.message.count("stack:") == 1
    if error.type == "poptorch_py_error":
        assert f"\n  from:     {line}\n  stack:" in error.message
    else:
        assert str(error).startswith(f"In {line}: ")


def test_a_function_of_the_user_below_a_package_is_the_users_line(layers):
    package, _ = layers
    function = lambda x: x.sum().item()  # noqa: E731
    error = error_of(lambda m, x: package.Layer(function)(x))
    assert str(error).startswith(f"In {HERE}:{function.__code__.co_firstlineno}: ")
    assert "stack:" not in error.message
