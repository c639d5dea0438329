"""Predictions by kind: a function takes a row and the file of its machine, and returns the row's metric and where the cycles go.

None: the row is not expressed. The numbers come from ipu_core, as those of reports do.
"""

import fractions
import re

from ipu_core import _native
import memory_rows
import microbenchmarks
import network_predictions

TYPES = {"fp16": "fp16.16", "fp16.16": "fp16.16", "fp16.32": "fp16.32", "fp32": "fp32", "fp8": "fp8"}
DEFAULT_PROPORTION = 0.6
# The best of a sweep over 0.1 to 0.9: a plan is never faster with less memory.
BEST_PROPORTION = 0.9
SQUARE_STEP = 128  # sizes of a sweep over squares
BATCHES = [2**power for power in range(4, 17)]  # of a sweep over batch sizes


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


# Convolutions sum in fp32 unless they are told otherwise (partialsType), matrix products of these rows do not.
CONVOLUTION_TYPES = {**TYPES, "fp16": "fp16.32"}
BLURS = 200  # the program of the blur rows runs twice as often as it says
BLUR_CHANNELS = 4


def convolution(machine, sizes, dtype, proportion):
    """Cycles of a convolution with a result as large as its operand over the stride, and its parts."""
    for size in ("rows", "columns"):
        sizes[f"padding_{size}"] = sizes[f"kernel_{size}"] - 1
    return _native.plan_convolution(machine, sizes, CONVOLUTION_TYPES[dtype], proportion, "forward")


def conv(row, machine):
    given = row.parameters
    proportion = float(given.get("availableMemoryProportion", DEFAULT_PROPORTION))
    if "image" in given and row.unit == "s":
        columns, rows = (int(size) for size in given["image"].split()[0].split("x"))
        sizes = {"batch": 1, "rows": -(-rows // row.ipus), "columns": columns}
        sizes |= {"inputs": BLUR_CHANNELS, "outputs": BLUR_CHANNELS, "kernel_rows": 3, "kernel_columns": 3}
        plan = convolution(machine, sizes, row.dtype, proportion)
        return BLURS * plan["cycles"] / clock_hz(machine), plan["parts"]
    if row.unit != "TFLOP/s" or not {"batch", "kernel", "in", "Cin", "Cout", "stride", "groups"} <= set(given):
        return None
    groups, stride = int(given["groups"]), int(given["stride"])
    rows, columns = (int(size) for size in given["in"].split("x"))
    kernel_rows, kernel_columns = (int(size) for size in given["kernel"].split("x"))
    sizes = {
        "groups": groups,
        "batch": int(given["batch"]),
        "rows": rows,
        "columns": columns,
        "inputs": int(given["Cin"]) // groups,
        "outputs": int(given["Cout"]) // groups,
        "kernel_rows": kernel_rows,
        "kernel_columns": kernel_columns,
        "stride_rows": stride,
        "stride_columns": stride,
    }
    plan = convolution(machine, sizes, row.dtype, proportion)
    results = -(-rows // stride) * -(-columns // stride)
    macs = sizes["batch"] * results * kernel_rows * kernel_columns * int(given["Cin"]) * sizes["outputs"]
    return 2e-12 * macs / plan["cycles"] * clock_hz(machine), plan["parts"]


def spmm(row, machine):
    """A product of sparse weights [m, k], the best over batch sizes if none is given."""
    given, what = row.parameters, row.workload
    block = re.search(r"\bb=(\d+)", what)
    is_dense = "dense executed" in what
    if row.unit != "TFLOP/s" or "density" not in given or not (block or is_dense):
        return None
    outputs = int(given["m"].removeprefix("k="))  # m=k=4096
    inputs = int(given.get("k", outputs))
    density = float(fractions.Fraction(given["density"]))
    options = {}
    if not is_dense:
        options = {"density": density, "sparse_block": int(block[1]), "is_dynamic": "dynamic" in what}
    batches = BATCHES if "best" in given["n"] else [int(given["n"])]
    found = []
    for rows in batches:
        plan = _native.plan_product(machine, (1, rows, inputs, outputs), TYPES[row.dtype], BEST_PROPORTION, **options)
        rate = 2e-12 * rows * inputs * outputs * density / plan["cycles"] * clock_hz(machine)
        found.append((rate, plan["parts"]))
    return max(found, key=lambda result: result[0])


KINDS = {
    "gemm": gemm,
    "amp-vertex": amp_vertex,
    "conv": conv,
    "spmm": spmm,
    **microbenchmarks.KINDS,
    **network_predictions.KINDS,
    **memory_rows.KINDS,
}
