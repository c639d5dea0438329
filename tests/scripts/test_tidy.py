"""scripts/check_tidy.py finds planted bugs, also where many sources are checked at once, and remembers only what is clean."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
CLEAN = "namespace {{\nint {0}(int a) {{ return a + 1; }}\n}}  // namespace\nint of_{0}(int a) {{ return {0}(a); }}\n"
BUG = """#include <string>
#include <utility>
#include "deep/header.h"
int length(std::string text) {
  std::string moved = std::move(text);
  return static_cast<int>(moved.size() + text.size());
}
"""


@pytest.fixture
def tree(tmp_path):
    shutil.copy(ROOT / ".clang-tidy", tmp_path)
    (tmp_path / "csrc" / "deep").mkdir(parents=True)
    (tmp_path / "csrc" / "deep" / "header.h").write_text("#pragma once\n")
    (tmp_path / "csrc" / "deep" / "clean.cc").write_text(CLEAN.format("next"))
    return tmp_path


def tidy(tree):
    command = [sys.executable, ROOT / "scripts" / "check_tidy.py", "--root", tree]
    environment = dict(os.environ, XDG_CACHE_HOME=str(tree / "cache"))
    return subprocess.run(command, capture_output=True, text=True, timeout=200, env=environment)


def remembered(tree):
    return len(list((tree / "cache" / "poptorch-tidy").iterdir()))


def test_a_planted_bug_is_found_among_clean_sources_and_found_again(tree):
    (tree / "csrc" / "deep" / "bug.cc").write_text(BUG)
    for _ in range(2):
        run = tidy(tree)
        assert run.returncode == 1, run.stdout + run.stderr
        assert "csrc/deep/bug.cc:6:42: warning: 'text' used after it was moved [bugprone-use-after-move]" in run.stdout
        assert "clean.cc" not in run.stdout
    assert remembered(tree) == 0


def test_a_bug_in_a_header_of_remembered_sources_is_found_once(tree):
    for name in ("a", "b"):  # they do not go together
        text = '#include "deep/header.h"\n' + CLEAN.format("next")
        (tree / "csrc" / "deep" / f"{name}.cc").write_text(text.replace("of_next", f"of_{name}"))
    run = tidy(tree)
    assert run.returncode == 0 and run.stdout == "", run.stdout + run.stderr
    assert remembered(tree) == 3
    (tree / "csrc" / "deep" / "header.h").write_text("#pragma once\ninline double half(int a) { return a / 2; }\n")
    run = tidy(tree)
    assert run.returncode == 1
    assert run.stdout.count("csrc/deep/header.h:2:36: warning: result of integer division used") == 1
    assert "[bugprone-integer-division]" in run.stdout


def test_sources_that_do_not_compile_together_are_checked_one_by_one(tree):
    # Names that only the compiler sees.
    hidden = "namespace {{ int hidden = 1; }}\nint of_{0}() {{ return hidden; }}\n"
    for name in ("a", "b"):
        (tree / "csrc" / "deep" / f"{name}.cc").write_text(hidden.format(name))
    run = tidy(tree)
    assert run.returncode == 0, run.stdout + run.stderr
    (tree / "csrc" / "deep" / "bug.cc").write_text(BUG)
    run = tidy(tree)
    assert run.returncode == 1 and "bug.cc:6:42" in run.stdout


def test_a_source_that_does_not_compile_is_no_clean_one(tree):
    (tree / "csrc" / "deep" / "bug.cc").write_text("int f() { return nothing; }\n")
    run = tidy(tree)
    assert run.returncode == 1 and "use of undeclared identifier 'nothing'" in run.stdout
    assert remembered(tree) == 0
