"""What a function of one number takes to add, and how many files name one that is there."""

import json
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FUNCTION = """#include "ops/definition/family.h"

namespace ipu::ops {
namespace {

const OpRegistration cbrt =
    unary_op("cbrt", "transcendental", "The cube root.", Func::kCbrt, kAnyFloat)
        .gradient(unary_gradient([](GradientBuilder& g, ir::Value* dy) {
          return g.div(dy, g.scale(g.mul(g.result(), g.result()), 3.0));
        }))
        .from_aten({"cbrt"})
        .from_onnx("Cbrt", {18})
        .from_graphcore("Cbrt")
        .samples(unary_samples(0.1, 4.0));

}  // namespace
}  // namespace ipu::ops
"""
KIND = """const KindRegistration cbrt_kind = define_kind("Cbrt").graphcore().gradient({out(0)}).function("cbrt", 1).in_place();
const KindRegistration abs_kind"""
ROW = '{"Cbrt", "cbrt(t) -> cbrt_out", "The cube root."},\n    {"Abs"'
# File → what is replaced and what stands there then; None: a new file.
EDITS = {
    "csrc/kernels/pointwise/scalar_functions.h": (
        "kernels::polygamma(a, b))",
        'kernels::polygamma(a, b)) X(Cbrt, 110, "cbrt", 1, std::cbrt(a))',
    ),
    "csrc/ops/transcendental/cbrt.cc": (None, FUNCTION),
    "csrc/frontends/popxl/kinds/elementwise.cc": (("const KindRegistration abs_kind", KIND), ('{"Abs"', ROW)),
}
# All that a user sees of the function; run with the packages of the copy.
USE = """
import numpy, onnx, popart, popxl, ipu_core
from popxl import ops
from popxl.transforms import autodiff
helper, X = onnx.helper, numpy.float32([0.125, 8, 27])
info = [helper.make_tensor_value_info(n, onnx.TensorProto.FLOAT, s) for n, s in (("x", [3]), ("y", None))]
graph = helper.make_graph([helper.make_node("Cbrt", ["x"], ["y"])], "graph", info[:1], info[1:])
model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
numpy.testing.assert_allclose(ipu_core.compile_model(ipu_core.read_onnx(model)).run({"x": X})["y"], [0.5, 2, 3], rtol=1e-6)

ir, outputs = popxl.Ir(), []
with ir.main_graph:
    x = popxl.variable(X)
    graph = ir.create_graph(ops.cbrt, x)
    gradient = autodiff(graph)
    call = ops.call_with_info(graph, x)
    dx = ops.call(gradient.graph, popxl.constant(numpy.ones(3, numpy.float32)), inputs_dict=gradient.inputs_dict(call))
    for t in (call.outputs[0], dx[0] if isinstance(dx, tuple) else dx):
        outputs.append(popxl.d2h_stream(t.shape, t.dtype, f"out{len(outputs)}"))
        ops.host_store(outputs[-1], t)
with popxl.Session(ir, "ipu_model") as session:
    y, dx = (session.run()[stream] for stream in outputs)
numpy.testing.assert_allclose(y, [0.5, 2, 3], rtol=1e-6)
numpy.testing.assert_allclose(dx, [1 / 0.75, 1 / 12, 1 / 27], rtol=1e-6)
assert "CbrtInplace" in popart._impl.facade.kinds.KINDS
builder = popart.Builder()
assert builder.getTensorShape(builder.aiGraphcore.cbrt([builder.addInputTensor("FLOAT", [3])])) == [3]
assert "The cube root." in popart.AiGraphcoreOpset1.cbrt.__doc__
"""


def edited(name, edit):
    old, new = edit
    if old is None:
        return new
    text = (ROOT / name).read_text()
    for before, after in [edit] if isinstance(old, str) else edit:
        assert text.count(before) == 1, f"{name} has {text.count(before)} places {before!r}"
        text = text.replace(before, after)
    return text


def test_a_new_function_takes_three_files_that_still_have_the_places_for_it():
    assert len(EDITS) <= 3
    for name, edit in EDITS.items():
        assert (ROOT / name).exists() == (edit[0] is not None)
        assert "cbrt" in edited(name, edit)


def test_the_row_of_a_new_function_makes_its_opcode_and_its_kernel(tmp_path):
    for path in ("csrc/kernels/pointwise/scalar_functions.h", "csrc/kernels/pointwise/program.h"):
        (tmp_path / path).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / path).write_text(edited(path, EDITS[path]) if path in EDITS else (ROOT / path).read_text())
    main = tmp_path / "run.cc"
    main.write_text(
        "#include <cstdio>\n"
        '#include "kernels/pointwise/block_ops.h"\n'
        "using namespace ipu::kernels;\n"
        "int main() {\n"
        "  const float x[] = {8, 27};\n"
        "  float y[2];\n"
        "  scalar_block_function(OpCode::kCbrtF)({.count = 2, .result = y, .a = x});\n"
        '  std::printf("%d of %zu: %g %g", static_cast<int>(OpCode::kCbrtF), kOpCodeCount, y[0], y[1]);\n'
        "}\n"
    )
    sources = [main, *(ROOT / "csrc/kernels/pointwise" / name for name in ("scalar_ops.cc", "gamma.cc"))]
    includes = [f"-I{tmp_path}/csrc", f"-I{ROOT}/csrc"]
    program = tmp_path / "run"
    subprocess.run(["c++", "-std=c++20", *includes, *sources, "-o", program], check=True, timeout=300)
    ran = subprocess.run([program], capture_output=True, text=True, check=True)
    assert ran.stdout == "110 of 111: 2 3"


def test_at_most_six_sources_name_swish_or_silu():
    sources = [
        path for room in ("csrc", "ipu_core", "popart", "poptorch", "popxl") for path in (ROOT / room).rglob("*")
    ]
    found = {
        str(path.relative_to(ROOT))
        for path in sources
        if path.suffix in (".cc", ".h", ".py") and re.search(r"\b(swish|silu)", path.read_text(), re.IGNORECASE)
    }
    assert len(found) <= 6, found


# The tests above show the row and the places; this one takes as long as building all rooms without torch.
@pytest.mark.slow
@pytest.mark.timeout(7200)
def test_a_new_function_works_in_torch_onnx_and_popxl(tmp_path):
    for name in (
        "cmake",
        "csrc",
        "ipu_common",
        "ipu_core",
        "machines",
        "popart",
        "popdist",
        "popxl",
        "poptorch",
        "scripts",
    ):
        shutil.copytree(ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("*.so", "__pycache__"))
    for name in ("CMakeLists.txt", "popart_core.py"):
        shutil.copy(ROOT / name, tmp_path)
    for name, edit in EDITS.items():
        (tmp_path / name).write_text(edited(name, edit))
    build = tmp_path / "build"
    configure = [
        "-DIPU_TESTS=OFF",
        "-DIPU_UNITS=ON",
        "-DCMAKE_CXX_FLAGS_RELEASE=-O0",
        f"-DPython3_EXECUTABLE={sys.executable}",
    ]
    subprocess.run(["cmake", "-G", "Ninja", "-S", tmp_path, "-B", build, *configure], check=True)
    subprocess.run(["ninja", "-C", build, "ipu_core", "ipu-ops"], check=True)

    call = {
        "overload": "cbrt",
        "arguments": {"self": {"tensor": 0}},
        "tensors": [{"dtype": "f32", "shape": [2], "values": [8, 27]}],
    }
    call |= {"results": [{"dtype": "f32", "shape": [2]}], "upstream": [[1, 1]]}
    ran = subprocess.run(
        [build / "ipu-ops", "--run"], input=json.dumps(call) + "\n", capture_output=True, text=True, check=True
    )
    answer = json.loads(ran.stdout)
    assert answer["results"] == [pytest.approx([2, 3])] and answer["gradients"] == [pytest.approx([1 / 12, 1 / 27])]
    subprocess.run([sys.executable, tmp_path / "scripts/popxl_functions.py"], check=True)
    subprocess.run(
        [sys.executable, "-c", USE], cwd=tmp_path, env={**os.environ, "PYTHONPATH": str(tmp_path)}, check=True
    )
