"""The command that times attention gives a row for each case."""

import pathlib
import re
import subprocess
import sys

import pytest

COMMAND = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "attention.py"


@pytest.mark.parametrize("dtype", ["float32", pytest.param("float16", marks=pytest.mark.slow)])
def test_the_command_prints_rows_and_their_mean(dtype):
    options = ["--seconds", "0.01", "--tokens", "48", "--dtype", dtype]
    done = subprocess.run([sys.executable, COMMAND, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = re.findall(r"^\| 64 \| 8 \| 64 \| 48 \| boolean \|(?: [\d.]+ \|){6}$", done.stdout, re.M)
    assert len(rows) == 1
    assert re.search(r"^Geometric mean: [\d.]+ x eager in inference, [\d.]+ x in training\.$", done.stdout, re.M)
