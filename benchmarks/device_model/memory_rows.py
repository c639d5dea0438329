"""Predictions of what fits and of the fullest tile, in the form of predictions.py."""

import functools

from ipu_core import _native
import network_predictions
from networks import runs

SQUARE_STEP = 128  # sizes of a sweep over squares
CELL = 16  # bytes of a cell of the stencils: four channels in fp32
IMAGES = 2  # that the stencils go between
COPIES = 1.9  # what their parts take over their cells
KIB = 1024
UNITS = {"B": 1, "GB": 10**9}
# Classes of bytes that are not alive all the time; padding is what the fullest tile has over the mean.
NOT_ALWAYS = {"values", "copies", "temporaries"}


def product_text(rows, inputs, outputs, dtype, is_streamed):
    """The machine form of a product, of operands that the host gives or of variables."""
    types = f"{dtype}[{rows},{inputs}]", f"{dtype}[{inputs},{outputs}]", f"{dtype}[{rows},{outputs}]"
    lines = [f"variable @{name}: {kind} {{ipu=0}}" for name, kind in zip("ab", types) if not is_streamed]
    lines += [f"stream @{name}: {kind} {{ipu=0}}" for name, kind in zip("ab", types) if is_streamed]
    read = "host_load() {stream=@%s | ipu=0}" if is_streamed else "variable.read() {variable=@%s}"
    lines += [
        f'stream @y: {types[2]} {{direction="device_to_host", ipu=0}}',
        "entry main = @main",
        "graph @main() -> () {",
        *(f"  %{name} = {read % name} : {kind}" for name, kind in zip("ab", types)),
        f"  %y = matmul(%a, %b) {{| ipu=0}} : {types[2]}",
        "  host_store(%y) {stream=@y | ipu=0}",
        "  return",
        "}\n",
    ]
    return "\n".join(lines)


def tile_of(verdict):
    return max(verdict["ipus"], key=lambda ipu: ipu["total"])


@functools.cache
def judged(text, machine):
    """Of one replica: the machine of a row is that of one."""
    return _native.judge_memory(text, machine)


def trained_network(row, machine):
    """Whether a network of one IPU fits, or bytes of all its tiles together."""
    run = runs.find(row)
    if run is None:
        return None
    verdict = judged(network_predictions.text_of(row, run)[0], machine)
    if row.metric == "fits":
        return float(verdict["fits"]), {"fullest tile": tile_of(verdict)["total"]}
    is_constant = row.metric == "always-live (constant) memory per IPU"
    if not is_constant and row.metric != "peak live memory per IPU":
        return None
    tiles = _native.machine_numbers(machine)["tiles"][0]
    skipped = {"padding"} | (NOT_ALWAYS if is_constant else set())
    found = {key: value * tiles for key, value in tile_of(verdict)["bytes"].items() if value > 0 and key not in skipped}
    return sum(found.values()) / UNITS[row.unit], found


def memory_fit(row, machine):
    """Bytes of the fullest tile, the largest square product, or the memory that programs have."""
    given, numbers = row.parameters, _native.machine_numbers(machine)
    if row.metric == "capacity":
        bytes_per_tile, reserved = (numbers[key][0] for key in ("bytes_per_tile", "reserved_bytes"))
        return (bytes_per_tile - reserved) / KIB, {"memory": bytes_per_tile - reserved}
    if row.metric == "n":
        # The program makes its operands as the product wants them.
        n = SQUARE_STEP
        while _native.judge_memory(product_text(n, n, n, "f32", False), machine)["fits"]:
            n += SQUARE_STEP
        n -= SQUARE_STEP
        verdict = _native.judge_memory(product_text(n, n, n, "f32", False), machine)
        return n, {key: value for key, value in tile_of(verdict)["bytes"].items() if value > 0}
    if row.metric != "reported bytes on fullest tile":
        return trained_network(row, machine)
    if "min_rows" in given:
        cells = int(given["min_rows"]) * int(given["min_cols"])
        return cells * CELL * IMAGES * COPIES, {"cells": cells * CELL * IMAGES * COPIES}
    if "tut4" in row.source:
        # Operands are mapped linearly there.
        tile = tile_of(_native.judge_memory(product_text(9000, 6000, 300, "f32", True), machine))
        return tile["total"], {key: value for key, value in tile["bytes"].items() if value > 0}
    return None


KINDS = {"memory-fit": memory_fit}
