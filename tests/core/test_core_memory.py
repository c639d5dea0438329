"""Copies of weights on the host."""

import subprocess
import sys

PROGRAM = """
import numpy as np
import ipu_core

SIDE = 3072
weight = np.ones((SIDE, SIDE), np.float32)
model = {
    "versions": {"": 10},
    "graph": {
        "inputs": [("x", np.float32, (1, SIDE))],
        "initialisers": {"w": weight},
        "trained": ["w"],
        "nodes": [{"type": "MatMul", "operands": ["x", "w"], "results": ["y"]}],
        "outputs": ["y"],
    },
}


def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * 4096


before = resident()
session = ipu_core.compile_model(model)
session.attach()
print((resident() - before) / weight.nbytes)
"""


def test_a_first_value_is_there_once_beside_the_variable():
    """36 MB: what else a program takes is much less than half of that."""
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, check=True)
    assert float(done.stdout) < 2.5
