"""The command that compares pipelines with one IPU gives a row for every plan and mode."""

import pathlib
import re
import subprocess
import sys


COMMAND = pathlib.Path(__file__).resolve().parents[2] / "benchmarks/many_ipus.py"


def test_every_plan_has_a_row_in_both_modes():
    options = ["--ipus", "2", "--ipus", "64", "--turns", "1", "--micro-batch", "1", "--size", "8"]
    done = subprocess.run([sys.executable, COMMAND, *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = re.findall(r"^\| (\w+) \| (\d+) \| [\d.]+ \| [\d.]+ \|$", done.stdout, re.M)
    assert rows == [(mode, ipus) for mode in ("inference", "training") for ipus in ("1", "2", "64")]
