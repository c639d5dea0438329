"""PopXL programs as instances of a job: replicas of all instances meet in collectives, variables come back whole."""

import json
import os
import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
pytestmark = [pytest.mark.alone, pytest.mark.slow]

PROGRAM = """
import json, numpy as np, popdist, popxl
from popxl import ops
from popxl.ops import collectives
popdist.init()
ir = popxl.Ir(replication="popdist")
first = popdist.getInstanceIndex() * ir.instance_replication_factor
pairs = ir.replica_grouping(stride=2, group_size=2)  # across the instances
with ir.main_graph, popxl.in_sequence():
    x = popxl.h2d_stream((2,), popxl.float32)
    out = popxl.d2h_stream((2,), popxl.float32)
    w = popxl.variable(np.array([[1.0, 2.0], [10.0, 20.0]], np.float32), name="w", replica_grouping=pairs)
    loaded = ops.host_load(x)
    ops.host_store(out, collectives.replicated_all_reduce(loaded) + w)
    ops.scaled_add_(w, collectives.replicated_all_reduce(loaded, group=pairs))
with popxl.Session(ir, "ipu_hw") as session:
    mine = np.arange(first, first + ir.instance_replication_factor, dtype=np.float32)
    y = session.run({x: np.stack([mine, mine * 10], 1)})[out]
print(json.dumps([ir.replication_factor, ir.instance_replication_factor, y.tolist(), session.get_tensor_data(w).tolist()]) + chr(10), end="", flush=True)
"""


def test_replicas_of_two_instances_meet_and_variables_are_whole_in_each(tmp_path):
    (tmp_path / "program.py").write_text(PROGRAM)
    result = subprocess.run(
        [sys.executable, "-m", "popdist", "--num-replicas", "4", "--num-instances", "2"]
        + [sys.executable, str(tmp_path / "program.py")],
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        capture_output=True,
        text=True,
        timeout=200,
    )
    assert result.returncode == 0, result.stdout + result.stderr
    one, two = (json.loads(line) for line in result.stdout.splitlines() if line.startswith("["))
    # The sum over replicas 0..3 is 6 and 60; groups are {0, 2} and {1, 3}.
    assert one == two == [4, 2, [[7, 62], [16, 80]], [[3, 22], [14, 60]]]
