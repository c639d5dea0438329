"""scripts/update_checks.py turns a failing case into one that states what the passes give, and leaves the others alone."""

import pathlib
import subprocess
import sys

from test_ir_files import ROOT, find_ipu_opt

SOURCE = """// RUN: ipu-opt --passes=cse %s

// A comment that stays.
graph @merges(%a: f32[4]) -> (f32[4], f32[4]) {
  %x = neg(%a) : f32[4]
  %y = neg(%a) : f32[4]   // CHECK: %y = neg
  return %x, %y
}
// ---
graph @passes(%a: f32[4]) -> f32[4] {
  %x = abs(%a) : f32[4]   // CHECK: abs
  return %x
}
"""


def update(path, *cases):
    script = pathlib.Path(ROOT) / "scripts" / "update_checks.py"
    run = subprocess.run(
        [sys.executable, script, path, *cases], capture_output=True, text=True, check=False, timeout=60
    )
    return run.stdout + run.stderr


def test_a_failing_case_gets_the_result_as_its_expectation(tmp_path):
    path = tmp_path / "t.ir"
    path.write_text(SOURCE)
    assert "updated merges" in update(path)
    text = path.read_text()
    assert "// CHECK-NEXT: return %x, %x" in text
    assert "// A comment that stays." in text
    assert "// CHECK: abs" in text  # the passing case is untouched
    assert "CHECK: %y = neg" not in text
    run = subprocess.run([find_ipu_opt(), "--test", path], capture_output=True, text=True, check=False, timeout=240)
    assert run.stdout.count("PASS") == 2, run.stdout


def test_an_unknown_case_is_refused(tmp_path):
    path = tmp_path / "t.ir"
    path.write_text(SOURCE)
    assert "has no case nothing; it has merges, passes" in update(path, "nothing")
    assert path.read_text() == SOURCE
