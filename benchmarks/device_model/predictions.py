"""Predictions by kind: a function takes a row and the file of its machine, and returns the row's metric and where the cycles go.

None: the row is not expressed. The numbers come from ipu_core, as those of reports do.
"""

from ipu_core import _native

TYPES = {"fp16": "fp16.16", "fp16.16": "fp16.16", "fp16.32": "fp16.32", "fp32": "fp32", "fp8": "fp8"}
DEFAULT_PROPORTION = 0.6
# The best of a sweep over 0.1 to 0.9: a plan is never faster with less memory.
BEST_PROPORTION = 0.9
SQUARE_STEP = 128  # sizes of a sweep over squares


def clock_hz(machine):
    return _native.machine_numbers(machine)["clock_hz"][0]


def product(machine, rows, inputs, outputs, dtype, proportion):
    """TFLOP/s of one product and its parts."""
    plan = _native.plan_product(machine, (1, rows, inputs, outputs), TYPES[dtype], proportion)
    return 2e-12 * rows * inputs * outputs / plan["cycles"] * clock_hz(machine), plan["parts"]


def gemm(row, machine):
    given = row.parameters
    if row.dtype not in TYPES or row.unit != "TFLOP/s":
        return None
    best = given.get("availableMemoryProportion") == "best-of-sweep-unknown"
    proportion = BEST_PROPORTION if best else float(given.get("availableMemoryProportion", DEFAULT_PROPORTION))
    if {"m", "k", "n"} <= set(given):
        # A[m, k] is the matrix of weights, which stays, and the n columns are what it is applied to.
        m, k, n = (int(given[name]) for name in "mkn")
        return product(machine, n, k, m, row.dtype, proportion)
    largest = next((int(value.split()[0]) for name, value in given.items() if name == "n<"), None)
    if largest is None:
        return None
    sizes = range(SQUARE_STEP, largest + 1, SQUARE_STEP)
    return max((product(machine, n, n, n, row.dtype, proportion) for n in sizes), key=lambda result: result[0])


def amp_vertex(row, machine):
    rows, inputs, outputs = (int(row.parameters[name]) for name in "NKM")
    numbers = _native.machine_numbers(machine)
    name = row.dtype.replace(".", "_")
    blocks = -(-inputs // int(numbers[f"{name}_inputs"][0])), -(-outputs // int(numbers[f"{name}_units"][0]))
    cycles = _native.matrix_unit_cycles(machine, row.dtype, *blocks, rows)
    return cycles, {"inner loops": cycles}


KINDS = {"gemm": gemm, "amp-vertex": amp_vertex}
