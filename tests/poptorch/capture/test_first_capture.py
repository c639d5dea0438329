"""The first capture of a process loads neither torch's compiler nor sympy, and leaves both usable."""

import pytest
from python_programs import run_program

PROLOGUE = """
import sys
import torch, poptorch
from torch.nn import functional as F

def run(forward, *inputs):
    class Model(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.norm = torch.nn.BatchNorm1d(8)
            self.attention = torch.nn.MultiheadAttention(8, 2, batch_first=True)
        def forward(self, x, index):
            return forward(self, x, index)
    torch.manual_seed(0)
    model = Model()
    inputs = torch.randn(4, 8), torch.arange(4)
    expected = forward(model, *inputs)
    loaded = sorted({"torch._dynamo", "sympy", "torch.fx.experimental.symbolic_shapes"} & set(sys.modules))
    assert not loaded, f"loaded before: {loaded}"
    assert torch.allclose(poptorch.inferenceModel(model)(*inputs), expected, atol=1e-5)

def loaded():
    return sorted({"torch._dynamo", "sympy", "torch.fx.experimental.symbolic_shapes"} & set(sys.modules))
"""


def python(code):
    done = run_program(PROLOGUE + code)
    assert done.returncode == 0, done.stderr
    return done.stdout


@pytest.mark.parametrize(
    "operations",
    [
        "torch.cat([x, m.norm(x).where(x > 0, x)], 1).chunk(2, 1)[0] * 1",
        "F.nll_loss(F.log_softmax(x, 1), index) + F.binary_cross_entropy_with_logits(x, x.sigmoid())",
        "m.attention(x[None], x[None], x[None])[0].masked_fill(x > 1, 0.0).std(1) + x[index].cumsum(1).norm()",
    ],
)
def test_shape_rules_in_python_load_no_compiler(operations):
    assert python(f"run(lambda m, x, index: {operations})\nprint(loaded())") == "[]\n"


def test_compiler_works_after_a_capture_and_keeps_out_of_what_was_captured():
    python("""
run(lambda m, x, index: torch.cat([x, x], 1).cumsum(1))
assert not loaded()
from torch._refs import cat
wrapped = [f for f in (cat, cat.__wrapped__) if hasattr(f, "__dynamo_disable")]
assert not wrapped
out = torch.compile(lambda x: torch.cat([x, x]).cumsum(0) + 1, backend="eager")(torch.ones(2, 2))
assert out.tolist() == [[2, 2], [3, 3], [4, 4], [5, 5]]
assert "torch._dynamo" in loaded() and "sympy" in loaded()
import sympy
assert isinstance(sympy.Symbol("x"), sympy.Basic)
""")


def test_a_model_that_uses_sympy_and_the_compiler_itself_gets_the_real_ones():
    python("""
class Model(torch.nn.Module):
    def forward(self, x):
        import sympy
        from sympy.core import symbol
        import torch._dynamo.config as config
        y = torch.cat([x, x], 1)
        found.extend([sympy.Basic, symbol.Symbol, config, sympy])
        return y * int(sympy.Integer(3)) + (1 if torch._dynamo.is_compiling() else 0)
found = []
out = poptorch.inferenceModel(Model())(torch.ones(1, 2))
assert out.tolist() == [[3, 3, 3, 3]]
import sympy, torch._dynamo.config
assert found[0] is sympy.Basic and issubclass(found[1], sympy.Basic)
assert found[2] is torch._dynamo.config
assert found[3].Symbol is sympy.Symbol and found[3].Basic is sympy.Basic
assert sys.modules["sympy.core.symbol"].Symbol is sympy.Symbol
""")


def test_another_thread_that_imports_what_has_a_stand_in_gets_the_real_one():
    python("""
import threading
def work():
    names = {}
    exec("from sympy import *", names)
    import sympy
    found.extend([names.get("Symbol"), sympy.__version__, sympy.Symbol])
class Model(torch.nn.Module):
    def forward(self, x):
        thread = threading.Thread(target=work)
        thread.start()
        thread.join()
        return torch.cat([x, x], 1)
found = []
assert poptorch.inferenceModel(Model())(torch.ones(1, 2)).shape == (1, 4)
import sympy
assert found == [sympy.Symbol, sympy.__version__, sympy.Symbol]
""")


def test_the_version_of_what_has_a_stand_in_is_the_real_one():
    python("""
class Model(torch.nn.Module):
    def forward(self, x):
        import sympy
        versions.append(sympy.__version__)
        return x * 2
versions = []
poptorch.inferenceModel(Model())(torch.ones(1, 2))
import sympy
assert versions == [sympy.__version__]
""")
