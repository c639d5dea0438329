"""No exception of the C++ library leaves the bindings, and no call ends the process (hostile_calls.py)."""

import os
import subprocess
import sys
from pathlib import Path

import pytest

PROGRAM = Path(__file__).parent / "hostile_calls.py"


@pytest.mark.parametrize("part", ["program", "rest"])
def test_wrong_arguments_get_our_errors(part, tmp_path):
    environment = {**os.environ, "PYTHONPATH": str(PROGRAM.parents[2]), "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        [sys.executable, PROGRAM, part], env=environment, capture_output=True, text=True, timeout=500, cwd=tmp_path
    )
    assert run.returncode == 0, run.stderr[-2000:]
    *findings, calls = run.stdout.splitlines()
    assert not findings
    assert int(calls) > 2000
