"""The checks of layers, packages, circles, private names, errors and sizes fail on the trees they must fail on, with the line."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(script, tree):
    return subprocess.run([sys.executable, ROOT / "scripts" / script, "--root", tree], capture_output=True, text=True)


@pytest.fixture
def tree(tmp_path):
    (tmp_path / "docs").mkdir()
    page = "| room | may use | |\n|---|---|---|\n| `support` | – | |\n| `ir` | `support` | |\n| `kernels` | `support` | |\n| `bindings` | `support` `ir` | |\n"
    (tmp_path / "docs" / "architecture.md").write_text(page)
    for room in ("support", "ir", "kernels", "bindings"):
        (tmp_path / "csrc" / room).mkdir(parents=True)
        (tmp_path / "csrc" / room / "there.cc").write_text("\n")
    return tmp_path


@pytest.mark.tiny
@pytest.mark.parametrize(
    "script",
    [
        "check_layers.py",
        "check_packages.py",
        "check_circles.py",
        "check_private.py",
        "check_errors.py",
        "check_sizes.py",
    ],
)
def test_this_repository_passes(script):
    result = run(script, ROOT)
    assert result.returncode == 0, result.stdout + result.stderr


def test_include_that_points_up_is_named_with_its_line(tree):
    (tree / "csrc" / "kernels" / "a.cc").write_text('#include "support/error.h"\n#include "ir/module.h"\n')
    result = run("check_layers.py", tree)
    assert result.returncode != 0
    assert 'csrc/kernels/a.cc:2: #include "ir/module.h"' in result.stdout
    assert "kernels may not use ir" in result.stdout


def test_torch_header_outside_the_torch_rooms_is_refused(tree):
    (tree / "csrc" / "ir" / "a.h").write_text("#include <ATen/core/Tensor.h>\n")
    result = run("check_layers.py", tree)
    assert result.returncode != 0 and "torch headers belong in" in result.stdout


def test_python_header_outside_the_bindings_is_refused(tree):
    (tree / "csrc" / "ir" / "a.cc").write_text("#include <pybind11/pybind11.h>\n")
    result = run("check_layers.py", tree)
    assert result.returncode != 0 and "Python's headers belong in" in result.stdout


@pytest.mark.parametrize("file", ["ir/a.h", "bindings/a.cc"])
def test_fmt_where_torch_headers_may_meet_it_is_refused(tree, file):
    (tree / "csrc" / file).write_text("#include <fmt/core.h>\n")
    result = run("check_layers.py", tree)
    assert result.returncode != 0 and "torch has a version of its own" in result.stdout


@pytest.mark.parametrize("file", ["csrc/ir/a.cc", "popart/_impl/a.py"])
@pytest.mark.parametrize("text", ["tiles = 1472", "bytes = 624 * 1024", "clock = 1.33e9"])
def test_numbers_of_machines_elsewhere_than_in_target_are_refused(tree, file, text):
    (tree / file).parent.mkdir(parents=True, exist_ok=True)
    (tree / file).write_text(f"{text};\n")
    result = run("check_layers.py", tree)
    assert result.returncode != 0 and f"{file}:1: {text}" in result.stdout
    assert "numbers of machines belong in machines/" in result.stdout


def test_folder_that_is_no_room_is_refused(tree):
    (tree / "csrc" / "attic").mkdir()
    (tree / "csrc" / "attic" / "a.cc").write_text("\n")
    result = run("check_layers.py", tree)
    assert result.returncode != 0 and "csrc/attic/a.cc: its folder is no room" in result.stdout


def test_room_without_a_source_file_is_refused(tree):
    (tree / "csrc" / "kernels" / "there.cc").unlink()
    result = run("check_layers.py", tree)
    assert result.returncode != 0
    assert "there is no room 'kernels' with a source file (row of kernels)" in result.stdout


def test_check_layers_passes_includes_that_the_table_allows(tree):
    (tree / "csrc" / "ir" / "a.h").write_text('#include "support/error.h"\n#include "ir/type.h"\n#include <vector>\n')
    assert run("check_layers.py", tree).returncode == 0


def test_file_over_the_limit_is_named_with_its_size(tree):
    (tree / "csrc" / "ir" / "big.cc").write_text("\n" * 801)
    result = run("check_sizes.py", tree)
    assert result.returncode != 0 and "csrc/ir/big.cc: 801 lines, the limit is 800" in result.stdout


def test_allow_list_may_only_shrink(tree):
    (tree / "scripts").mkdir()
    (tree / "scripts" / "large_files.txt").write_text("csrc/ir/big.cc 900\ncsrc/ir/gone.cc 900\n")
    (tree / "csrc" / "ir" / "big.cc").write_text("\n" * 901)
    result = run("check_sizes.py", tree)
    assert "csrc/ir/big.cc: 901 lines, the limit is 900" in result.stdout
    assert "csrc/ir/gone.cc is not there any more" in result.stdout


def test_file_called_utils_is_refused(tree):
    (tree / "csrc" / "ir" / "utils.cc").write_text("\n")
    assert "name a file for the thing it defines" in run("check_sizes.py", tree).stdout


def test_a_circle_of_headers_is_shown(tree):
    (tree / "csrc" / "ir" / "a.h").write_text('#include "ir/b.h"\n')
    (tree / "csrc" / "ir" / "b.h").write_text('#include "ir/a.h"\n')
    result = run("check_circles.py", tree)
    assert result.returncode != 0
    assert (
        "these need each other: ir/a.h -> ir/b.h -> ir/a.h" in result.stdout
        or "ir/b.h -> ir/a.h -> ir/b.h" in result.stdout
    )


def test_a_circle_of_modules_is_shown_even_when_one_imports_late(tree):
    inner = tree / "poptorch" / "_impl"
    inner.mkdir(parents=True)
    (inner / "a.py").write_text("from poptorch._impl import b\n")
    (inner / "b.py").write_text("def f():\n    from poptorch._impl.c import g\n    return g\n")
    (inner / "c.py").write_text("import poptorch._impl.a\n")
    result = run("check_circles.py", tree)
    assert result.returncode != 0
    line = result.stdout.split("these need each other: ")[1].split()
    assert line[0] == line[-1] and set(line[::2]) == {f"poptorch._impl.{name}" for name in "abc"}
    (inner / "c.py").write_text("def g(): pass\n")
    assert run("check_circles.py", tree).returncode == 0


@pytest.fixture
def circle(tmp_path):
    """popart.a and popart.b need each other, and popart.c needs both."""
    for name, text in {
        "a": "import popart.b\n",
        "b": "from popart import a\n",
        "c": "from popart import a, b\n",
    }.items():
        write(tmp_path / "popart" / f"{name}.py", text)
    return tmp_path


def write(file, text=""):
    file.parent.mkdir(parents=True, exist_ok=True)
    file.write_text(text)


def test_a_listed_circle_passes_until_its_import_is_mended(circle):
    assert "these need each other" in run("check_circles.py", circle).stdout
    write(circle / "scripts" / "circles.txt", "# why\npopart.b -> popart.a\n")
    assert run("check_circles.py", circle).returncode == 0
    write(circle / "popart" / "b.py")
    result = run("check_circles.py", circle)
    assert result.returncode != 0
    assert result.stdout == "scripts/circles.txt: 'popart.b -> popart.a' is gone; remove the line\n"


def test_a_new_import_in_a_listed_circle_is_shown(circle):
    write(circle / "scripts" / "circles.txt", "popart.b -> popart.a\n")
    write(circle / "popart" / "b.py", "from popart import a, c\n")
    result = run("check_circles.py", circle)
    assert result.returncode != 0
    assert {"popart.b", "popart.c"} <= set(result.stdout.split("each other: ")[1].split())


def test_a_line_whose_import_closes_no_circle_fails(circle):
    write(circle / "scripts" / "circles.txt", "popart.b -> popart.a\npopart.c -> popart.a\n")
    result = run("check_circles.py", circle)
    assert result.returncode != 0
    assert result.stdout == "scripts/circles.txt: 'popart.c -> popart.a' closes no circle any more; remove the line\n"


@pytest.mark.parametrize("text", ["from . import ops\n", "def f():\n    from popxl.ops import add\n"])
def test_the_file_of_an_inner_package_counts_and_that_of_a_top_package_does_not(tmp_path, text):
    write(tmp_path / "popxl" / "ops" / "__init__.py", "from popxl.tensor import add\n")
    write(tmp_path / "popxl" / "__init__.py", "from popxl import tensor\n")
    write(tmp_path / "popxl" / "tensor.py", "import popxl\n")
    assert run("check_circles.py", tmp_path).returncode == 0
    write(tmp_path / "popxl" / "tensor.py", text)
    assert "popxl.ops -> popxl.tensor" in run("check_circles.py", tmp_path).stdout


def test_a_circle_of_folders_is_shown(tmp_path):
    inner = tmp_path / "popart" / "_impl"
    write(inner / "listing" / "ops.py", "from popart._impl.sessions import options\n")
    write(inner / "sessions" / "options.py")
    write(inner / "sessions" / "session.py", "from popart._impl.listing import ops\n")
    result = run("check_circles.py", tmp_path)
    assert result.returncode != 0 and "popart/_impl/listing -> popart/_impl/sessions" in result.stdout


TABLE = """
| package | may import | in functions alone | |
|---|---|---|---|
| `popxl` | `popart` `numpy` | `torch` | |
| `popart` | `numpy` | – | |
| `popart.jobs` | `torch` `popart` | – | |
"""


@pytest.fixture
def packages(tmp_path):
    """A table of packages, and sources that need all that is in it."""
    write(tmp_path / "docs" / "architecture.md", TABLE)
    write(tmp_path / "popxl" / "__init__.py", "import json, numpy\nimport popart\n\ndef f():\n    import torch\n")
    write(tmp_path / "popart" / "__init__.py", "import numpy\n")
    write(tmp_path / "popart" / "jobs.py", "import torch\nfrom popart import types\n")
    assert run("check_packages.py", tmp_path).stdout == ""
    return tmp_path


@pytest.mark.parametrize(
    "file, text, line",
    [
        ("popart/a.py", "import popxl.ops\n", "popart/a.py:1: popart may not import popxl"),
        ("popart/a.py", "\ndef f():\n    from popxl import ops\n", "popart/a.py:3: popart may not import popxl"),
        (
            "popart/a.py",
            "import importlib\nimportlib.import_module('popxl')\n",
            "popart/a.py:2: popart may not import popxl",
        ),
        ("popart/a.py", "import onnx.helper\n", "popart/a.py:1: popart may not import onnx"),
        ("popxl/a.py", "import torch\n", "popxl/a.py:1: popxl may import torch in functions alone"),
        ("popxl/a.py", "class A:\n    import torch\n", "popxl/a.py:2: popxl may import torch in functions alone"),
        ("popxl/a.py", "from popart import jobs\n", "popxl/a.py:1: popxl may not import popart.jobs"),
        ("popxl/a.py", "from popart._impl import jobs\n", "popxl/a.py:1: popxl may not import popart._impl"),
        (
            "popart/jobs.py",
            "import torch, numpy\nimport popart\n",
            "popart/jobs.py:1: popart.jobs may not import numpy",
        ),
    ],
)
def test_an_import_that_the_table_does_not_have_is_named_with_its_line(packages, file, text, line):
    write(packages / file, text)
    result = run("check_packages.py", packages)
    assert result.returncode != 0 and result.stdout == f"{line} (docs/architecture.md)\n"


def test_imports_for_types_count_as_those_of_functions(packages):
    text = "from typing import TYPE_CHECKING\nif TYPE_CHECKING:\n    import torch\nelse:\n    torch = None\n"
    write(packages / "popxl" / "a.py", text)
    assert run("check_packages.py", packages).returncode == 0
    write(packages / "popxl" / "a.py", text.replace("torch = None", "import torch"))
    assert "popxl/a.py:5: popxl may import torch in functions alone" in run("check_packages.py", packages).stdout


def test_a_package_without_a_row_is_named(packages):
    write(packages / "ipu_core" / "a.py")
    result = run("check_packages.py", packages)
    assert result.returncode != 0 and result.stdout == "ipu_core/a.py: its package has no row in docs/architecture.md\n"


def test_private_modules_are_for_their_own_package_and_for_rows_that_name_them(packages):
    write(packages / "popxl" / "a.py", "from popxl._impl import build\n\ndef f():\n    import popart._impl\n")
    result = run("check_packages.py", packages)
    assert result.stdout == "popxl/a.py:4: popxl may not import popart._impl (docs/architecture.md)\n"
    write(packages / "docs" / "architecture.md", TABLE.replace("| `torch` | |", "| `torch` `popart._impl` | |"))
    assert run("check_packages.py", packages).returncode == 0


def test_rows_say_no_more_than_is_needed(packages):
    write(packages / "popart" / "jobs.py", "import torch\n")
    write(packages / "popxl" / "__init__.py", "import numpy\n\ndef f():\n    import popart, torch\n")
    text = TABLE + "| `popart.sessions` | – | – | |\n"
    write(packages / "docs" / "architecture.md", text)
    result = run("check_packages.py", packages)
    assert result.returncode != 0
    assert result.stdout.splitlines() == [
        "docs/architecture.md: the row of popxl names popart, which nothing there imports so; remove it",
        "docs/architecture.md: the row of popart.jobs names popart, which nothing there imports so; remove it",
        "docs/architecture.md: there is no package 'popart.sessions'",
    ]


def test_a_page_without_the_table_of_packages_is_refused(packages):
    write(packages / "docs" / "architecture.md", "| room | |\n")
    assert "the table of packages is missing" in run("check_packages.py", packages).stderr


@pytest.fixture
def package(tmp_path):
    inner = tmp_path / "poptorch" / "_impl"
    inner.mkdir(parents=True)
    text = "class Held:\n    def __init__(self):\n        self._state = 1\n    def _go(self): pass\n    _kind = 2\n"
    (inner / "held.py").write_text(text)
    return inner


@pytest.mark.parametrize("use", ["held._state", "held._go()", "held.part._kind"])
def test_a_private_attribute_of_another_module_is_refused(package, use):
    (package / "user.py").write_text(f"def f(held):\n    return {use}\n")
    result = run("check_private.py", package.parents[1])
    assert result.returncode != 0 and "poptorch/_impl/user.py:2: " + use.removesuffix("()") in result.stdout
    assert "is private to poptorch/_impl/held.py" in result.stdout


def test_own_private_attributes_and_those_of_other_packages_pass(package):
    text = "class Own:\n    _mine = 1\n    def f(self, other, torch):\n        return self._state, other._mine, torch._C, other.__dict__\n"
    (package / "user.py").write_text(text + "def g(options):\n    return options._Popart\n")
    assert run("check_private.py", package.parents[1]).returncode == 0


def test_modules_of_all_packages_are_looked_at(package):
    for file in ("popart/user.py", "popxl/_impl/user.py", "popart_core.py", "popdist/user.py", "ipu_core/user.py"):
        write(package.parents[1] / file, "def f(held):\n    return held._state\n")
    result = run("check_private.py", package.parents[1])
    assert result.returncode != 0 and result.stdout.count(":2: held._state is private to poptorch/_impl/held.py") == 5


def test_a_listed_name_is_allowed_to_its_package_alone_and_as_long_as_it_is_needed(package):
    root = package.parents[1]
    write(root / "scripts" / "private_names.txt", "poptorch: _state _kind | users hold these\n")
    write(package / "user.py", "def f(held):\n    return held._state\n")
    result = run("check_private.py", root)
    assert result.returncode != 0
    assert result.stdout == "scripts/private_names.txt: no module of poptorch needs _kind any more; remove it\n"
    write(root / "scripts" / "private_names.txt", "poptorch: _state | users hold these\n")
    assert run("check_private.py", root).returncode == 0
    write(root / "popxl" / "user.py", "def f(held):\n    return held._state\n")
    assert "popxl/user.py:2: held._state is private" in run("check_private.py", root).stdout


RAISES = 'throw worded(ErrorCode::kOption, "few_rings",\n  "few rings: {rings} "\n  "{more}", {{"rings", 3}, {"more", 1}});\n'


@pytest.fixture
def errors(tmp_path):
    write(tmp_path / "csrc" / "passes" / "a.cc", RAISES)
    return tmp_path


@pytest.mark.parametrize(
    "room, text, name",
    [
        ("passes", '"Use "\n"poptorch.Block"', "poptorch.Block' is of poptorch"),
        ("frontends/common", '"Set options.deviceIterations(3)"', "options.deviceIterations' is of poptorch"),
        ("optimizers", '"make a new trainingModel"', "trainingModel' is of poptorch"),
        ("ops", '"a new popart.SGD"', "popart.SGD' is of popart"),
        ("passes", '"in an in_sequence context"', "in_sequence' is of popxl"),
        ("frontends/popart", '"a poptorch.Block or popart.SGD"', "poptorch.Block' is of poptorch"),
    ],
)
def test_a_text_with_a_name_of_a_front_end_is_refused(errors, room, text, name):
    write(errors / "csrc" / room / "b.cc", f"// poptorch.Block\nfail({text});\n")
    result = run("check_errors.py", errors)
    assert result.returncode != 0
    assert result.stdout.startswith(f"csrc/{room}/b.cc:2: '{name}: give the error a reason")


def test_a_category_of_a_reason_that_nothing_gives_is_refused(errors):
    write(
        errors / "csrc" / "support" / "error_category.cc",
        '    {"few_rings", kNotFound},\n    {"unknown", kNotFound},\n',
    )
    result = run("check_errors.py", errors)
    assert result.returncode != 0
    assert (
        "error_category.cc: nothing raises an error of the reason 'unknown'" in result.stdout
        and "few_rings" not in result.stdout
    )


def test_names_in_comments_in_own_rooms_and_without_a_text_pass(errors):
    write(
        errors / "csrc" / "ir" / "b.h",
        '// poptorch.Block\nauto x = "poptorch.custom_ops"; /* popxl.io_tiles */ char c = \'"\';\n',
    )
    write(errors / "csrc" / "frontends" / "torch" / "b.cc", 'fail("Use poptorch.Block");\n')
    write(errors / "csrc" / "frontends" / "popxl" / "b.cc", 'fail("Use popxl.ops or popart.SGD");\n')
    result = run("check_errors.py", errors)
    assert result.returncode == 0, result.stdout


@pytest.mark.parametrize(
    "file, row",
    [
        ("csrc/frontends/torch/errors.cc", 'constexpr Wording kWordings[] = {{"%s",\n "{text} of "\n "{%s}"}};\n'),
        ("popart/_impl/core_errors.py", 'CURES = {"%s": "{%s}"}\n'),
        ("popxl/_impl/errors.py", 'CURES = {"%s": "{%s}"}\n'),
    ],
)
def test_a_row_of_cures_names_a_reason_and_its_parameters(errors, file, row):
    write(errors / file, row % ("few_rings", "rings"))
    assert run("check_errors.py", errors).returncode == 0
    write(errors / file, row % ("few_rings", "ring"))
    text = f"{file}: 'few_rings' has no parameter 'ring'; it has ['more', 'rings']\n"
    assert run("check_errors.py", errors).stdout == text
    write(errors / file, row % ("many_rings", "rings"))
    text = f"{file}: nothing raises an error of the reason 'many_rings'; remove the row\n"
    assert run("check_errors.py", errors).stdout == text


@pytest.mark.parametrize(
    "text",
    [
        "def f(g):\n    try:\n        g()\n    except ValueError as e:\n        return 'few rings' in str(e)\n",
        "import re\n\n\n\ndef f(e: ValueError): return re.match('few', e.message)\n",
        "def f(error: 'Exception'):\n    text = str(error).lower()\n    words = text.split()\n\n    return any(w in words for w in 'ab')\n",
        "def f(error: Exception):\n\n    first = repr(error)\n\n    return first.startswith('few')\n",
        "def f(error: Exception):\n\n\n\n    return error.args[0] == 'few rings'\n",
    ],
)
def test_a_decision_by_the_text_of_an_exception_is_refused(errors, text):
    write(errors / "popxl" / "a.py", text)
    result = run("check_errors.py", errors)
    assert result.returncode != 0 and result.stdout == "popxl/a.py:5: decides by the text of an exception\n"


def test_reasons_decide_and_foreign_texts_are_listed(errors):
    by_reason = "def f(e: Exception):\n    return e.reason == 'few_rings' and 'a' in e.parameters and print(str(e))\n"
    write(errors / "popxl" / "a.py", by_reason)
    foreign = errors / "poptorch" / "_impl" / "errors.py"
    write(foreign, "def f(e: Exception):\n    return 'storage' in str(e)\n")
    assert run("check_errors.py", errors).returncode == 0
    write(foreign, by_reason)
    assert "poptorch/_impl/errors.py: it looks at no text" in run("check_errors.py", errors).stdout
