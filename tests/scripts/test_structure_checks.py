"""The checks of layers, circles, private names and sizes fail on the trees they must fail on, with the line and the arrow."""

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
    page = (
        "| `support` | – | |\n| `ir` | `support` | |\n| `kernels` | `support` | |\n| `bindings` | `support` `ir` | |\n"
    )
    (tmp_path / "docs" / "architecture.md").write_text(page)
    for room in ("support", "ir", "kernels", "bindings"):
        (tmp_path / "csrc" / room).mkdir(parents=True)
        (tmp_path / "csrc" / room / "there.cc").write_text("\n")
    return tmp_path


@pytest.mark.tiny
@pytest.mark.parametrize("script", ["check_layers.py", "check_circles.py", "check_private.py", "check_sizes.py"])
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
