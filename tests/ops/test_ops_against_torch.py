"""Importers against torch on the CPU: values and gradients of ATen calls, interpreted in f64 by `ipu-ops --run`.

That every importer has a row here, in aten_cases.json or a reason is a test of its own, which also runs the rows on the
device: tests/poptorch/operators/test_every_importer.py.

What is compared is the meaning of the import (types, promotion, formulas, gradients), in double precision on both
sides; kernels are compared with the interpreter in kernel_conformance_test.cc.
"""

import json
import math
import os
import pathlib
import subprocess

import pytest
import torch

import poptorch  # noqa: F401 - defines the operators of library "poptorch"
from aten_cases import KEPT, TABLES, T

ROOT = pathlib.Path(__file__).resolve().parents[2]
DTYPES = {
    torch.float32: "f32",
    torch.float64: "f32",
    torch.float16: "f16",
    torch.int64: "i32",
    torch.int32: "i32",
    torch.int16: "i16",
    torch.int8: "i8",
    torch.uint8: "u8",
    torch.bool: "bool",
}


def tool():
    if "IPU_OPT" in os.environ:
        return str(pathlib.Path(os.environ["IPU_OPT"]).with_name("ipu-ops"))
    built = sorted(ROOT.glob("build/*/ipu-ops"), key=lambda path: path.stat().st_mtime)
    if not built:
        pytest.fail("ipu-ops is not built. Build it with: ninja -C build/core ipu-ops")
    return str(built[-1])


@pytest.fixture(scope="module")
def ipu_ops():
    process = subprocess.Popen([tool(), "--run"], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1)
    yield process
    process.stdin.close()
    process.wait(timeout=240)


def make(spec, generator):
    """A CPU tensor for a T; floating ones in double precision with values that f32 can hold."""
    tensor = spec.tensor(generator)
    return tensor.double() if tensor.is_floating_point() else tensor


def flat(tensor):
    values = tensor.detach().reshape(-1).tolist()
    return [float(v) for v in values]


def encoded(tensor):
    """JSON has no NaN and no infinity: they travel as strings."""
    return [v if math.isfinite(v) else str(v) for v in flat(tensor)]


def operator_of(overload):
    """`add.Tensor` → torch.ops.aten.add.Tensor; other domains in full."""
    domain, _, name = overload.rpartition("::")
    name, _, variant = name.partition(".")
    return getattr(getattr(getattr(torch.ops, domain or "aten"), name), variant or "default")


class Request:
    """One ATen call as the JSON of `ipu-ops --run` and as arguments for torch."""

    def __init__(self, overload, positional, keywords):
        self.operator = operator_of(overload)
        generator = torch.Generator().manual_seed(5)
        self.tensors, self.arguments, self.json = [], {}, {}
        given = dict(zip((a.name for a in self.operator._schema.arguments), positional)) | keywords
        for argument in self.operator._schema.arguments:
            value = given.get(argument.name, argument.default_value)
            if argument.name in given:
                self.arguments[argument.name] = self.real_value(value, generator, argument.name)
            elif value is not None:
                self.encode(argument.name, value)

    def tensor(self, spec, generator):
        self.tensors.append(make(spec, generator))
        if not spec.constant and self.tensors[-1].is_floating_point():
            self.tensors[-1].requires_grad_()
        return len(self.tensors) - 1

    def real_value(self, value, generator, name):
        if isinstance(value, T):
            index = self.tensor(value, generator)
            self.json[name] = {"tensor": index}
            return self.tensors[index]
        if isinstance(value, (list, tuple)) and any(isinstance(v, T) for v in value):
            indices = [None if v is None else self.tensor(v, generator) for v in value]
            self.json[name] = {"tensors": indices}
            return [None if i is None else self.tensors[i] for i in indices]
        if value is not None:
            self.encode(name, value)
        # The double-precision run must not fall back to f32 where the dtype is said.
        return torch.float64 if value == torch.float32 else value

    def encode(self, name, value):
        if isinstance(value, bool):
            self.json[name] = {"boolean": value}
        elif isinstance(value, int):
            self.json[name] = {"integer": value}
        elif isinstance(value, float):
            self.json[name] = {"real": value}
        elif isinstance(value, str):
            self.json[name] = {"text": value}
        elif isinstance(value, torch.dtype):
            self.json[name] = {"dtype": DTYPES[value]}
        elif isinstance(value, (list, tuple)):
            self.json[name] = {"integers": [int(v) for v in value]}


def close(actual, expected):
    actual = float(actual)  # "nan", "inf" come as strings
    if math.isnan(expected) or math.isinf(expected):
        return actual == expected or (math.isnan(actual) and math.isnan(expected))
    # Constants in our graphs are f32 values: 6e-8 relative each.
    return abs(actual - expected) <= 1e-6 * (1 + abs(expected))


def assert_close(actual, expected, what):
    expected = flat(expected)
    assert len(actual) == len(expected), what
    bad = [i for i, (a, e) in enumerate(zip(actual, expected)) if not close(a, e)]
    assert not bad, (
        f"{what}: elements {bad[:5]} are {[actual[i] for i in bad[:5]]}, torch gives {[expected[i] for i in bad[:5]]}"
    )


@pytest.mark.parametrize("overload, number", [(name, i) for name, rows in TABLES.items() for i in range(len(rows))])
def test_import_means_what_torch_computes(ipu_ops, overload, number):
    request = Request(overload, *TABLES[overload][number])
    results = request.operator(**request.arguments)
    results = list(results) if isinstance(results, (tuple, list)) else [results]
    generator = torch.Generator().manual_seed(6)
    upstream = [torch.rand(r.shape, generator=generator).double() + 0.5 if r.requires_grad else None for r in results]
    tensors = [{"dtype": DTYPES[t.dtype], "shape": list(t.shape), "values": encoded(t)} for t in request.tensors]
    call = {
        "overload": overload,
        "arguments": request.json,
        "tensors": tensors,
        "results": [{"dtype": DTYPES[r.dtype], "shape": list(r.shape)} for r in results],
        "upstream": [None if u is None else encoded(u) for u in upstream],
    }
    ipu_ops.stdin.write(json.dumps(call) + "\n")
    ipu_ops.stdin.flush()
    answer = json.loads(ipu_ops.stdout.readline())
    assert "error" not in answer, answer["error"]
    for i, result in enumerate(results):
        if i in KEPT.get(overload, ()):
            continue
        assert_close(answer["results"][i], result, f"{overload} result {i}")
    pairs = [(r, u) for r, u in zip(results, upstream) if u is not None]
    wanted = [t for t in request.tensors if t.requires_grad]
    if not pairs or not wanted:
        return
    try:
        expected = torch.autograd.grad([r for r, _ in pairs], wanted, [u for _, u in pairs], allow_unused=True)
    except RuntimeError as error:
        assert "is not implemented" in str(error)  # torch has no derivative either
        return
    by_tensor = {id(t): g for t, g in zip(wanted, expected)}
    for i, tensor in enumerate(request.tensors):
        gradient = by_tensor.get(id(tensor))
        if gradient is not None:
            assert answer["gradients"][i] is not None, f"{overload}: no gradient of tensor {i}"
            assert_close(answer["gradients"][i], gradient + torch.zeros_like(tensor), f"{overload} gradient {i}")
