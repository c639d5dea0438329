"""Predictions of messages, reductions, loops and stencils, in the form of predictions.py."""

import re

from ipu_core import _native

UNITS = {"B": 1, "KiB": 1024}
SCALES = {"us": 1e6, "ns": 1e9, "s": 1, "GB/s": 1e-9, "TB/s": 1e-12}
LARGE = 100 * 1024  # bytes of a message whose size is not said: that of the broadcasts
PEAK_SHARE = 0.9
# Kinds whose rows the numbers of the machine file come from: they prove the file, not the model.
READ_BACK = {
    "collective-bandwidth",
    "collective-latency",
    "copy",
    "exchange",
    "host-bandwidth",
    "host-latency",
    "link-bandwidth",
    "link-latency",
    "memory-latency",
    "p2p-bandwidth",
    "p2p-latency",
    "prng",
    "reduction",
}


def number(machine, key):
    return _native.machine_numbers(machine)[key][0]


def size_of(text):
    """Bytes of "160B", "1KiB"; None of anything else."""
    found = re.fullmatch(r"(\d+)(B|KiB)", text)
    return int(found[1]) * UNITS[found[2]] if found else None


def way_of(row):
    """How far the other IPUs of a row are: rungs, whether a rung is crossed, whether there is one other IPU only."""
    text = row.workload
    rungs, crosses, _ = _native.longest_way(row.ipus)
    if "same board" in text:
        rungs, crosses = 0, True
    elif "no direct link" in text or "indirect" in text:
        rungs, crosses = 1, True
    elif "direct link" in text or "direct IPU link" in text:
        rungs, crosses = 1, False
    return rungs, crosses, not re.search(r"\d+ IPUs", text)


def pattern_of(row):
    first = row.workload.split()[0].rstrip(",")
    return first if first in ("broadcast", "gather", "scatter", "all-to-all") else None


def tiles_of(row, machine):
    given = row.parameters
    found = next((given[key] for key in ("tiles", "destinations", "sources", "transfers") if key in given), None)
    return int(found) if found else row.ipus * int(number(machine, "tiles"))


def scaled(row, seconds, part):
    """A time in the row's unit; its one part."""
    return (seconds * SCALES[row.unit], {part: seconds}) if row.unit in SCALES else None


def collective_latency(row, machine):
    pattern = pattern_of(row)
    if pattern is None or (pattern == "all-to-all" and row.ipus > 1):
        return None
    seconds = _native.word_seconds(machine, pattern, tiles_of(row, machine), row.ipus, way_of(row))
    return scaled(row, seconds, pattern)


def collective_bandwidth(row, machine):
    pattern, tiles, way = pattern_of(row), tiles_of(row, machine), way_of(row)
    if pattern is None or (pattern == "all-to-all" and row.ipus > 1):
        return None

    def seconds(size):
        return _native.message_seconds(machine, pattern, tiles, size, row.ipus, way)

    size = size_of(row.parameters.get("message", ""))
    start, per_byte = seconds(0), (seconds(LARGE) - seconds(0)) / LARGE
    if row.metric == "message size":
        return PEAK_SHARE / (1 - PEAK_SHARE) * start / per_byte / UNITS[row.unit], {"start": start}
    if size is None:
        return None
    if row.metric == "share of peak":
        return 100 * size * per_byte / seconds(size), {"start": start, "bytes": size * per_byte}
    return tiles * size / seconds(size) * SCALES[row.unit], {"start": start, "bytes": size * per_byte}


def reduction(row, machine):
    given = row.parameters
    if not {"operands_per_tile", "tiles"} <= set(given) or row.unit not in SCALES:
        return None
    operands, tiles = int(given["operands_per_tile"]), int(given["tiles"])
    seconds = _native.reduce_seconds(machine, operands, max(tiles // row.ipus, 1), row.ipus)
    value = seconds if row.metric == "latency" else 4 * operands * tiles / seconds
    return value * SCALES[row.unit], {"reduction": seconds}


def exchange(row, machine):
    given = row.parameters
    if "scheduled" in given:
        cycles = _native.scheduled_cycles(machine, float(given["scheduled"]))
    elif "words" in given:
        cycles = _native.multicast_cycles(machine, int(given["words"]), given["role"] == "receiver")
    else:
        return None
    return cycles, {"exchange": cycles}


def link_latency(row, machine):
    way = _native.way_between(int(row.parameters["src_dnc"]), int(row.parameters["dst_dnc"]))
    return scaled(row, _native.link_seconds(machine, way), "links")


def link_bandwidth(row, machine):
    if "random" in row.workload:
        rate = _native.random_bytes_per_second(machine, row.ipus)
    else:
        rate = _native.link_bytes_per_second(machine, way_of(row)) * (2 if "bidirectional" in row.workload else 1)
    return rate * SCALES[row.unit], {"links": rate}


def host_latency(row, machine):
    return scaled(row, _native.host_seconds(machine, tiles_of(row, machine) // row.ipus), "host")


def host_bandwidth(row, machine):
    lanes = int(row.parameters.get("pcie_lanes", 0))
    if row.ipus > 1 and not lanes:
        lanes = row.ipus * int(number(machine, "host_lanes"))
    rate = _native.host_bytes_per_second(machine, tiles_of(row, machine), lanes)
    return rate * SCALES[row.unit], {"host": rate}


def p2p_latency(row, machine):
    if "excluding sync" in row.workload:
        cycles = _native.wire_cycles(machine, "maximum" in row.workload)
        return (cycles if row.unit == "cycles" else cycles / number(machine, "clock_hz") * 1e9), {"wires": cycles}
    pairs = int(row.parameters.get("transfers", 1))
    return scaled(row, _native.word_seconds(machine, "pairs", pairs, row.ipus, way_of(row)), "pairs")


def p2p_bandwidth(row, machine):
    pairs = int(row.parameters.get("transfers", 1))
    seconds = _native.message_seconds(machine, "pairs", pairs, LARGE, row.ipus, way_of(row))
    return pairs * LARGE / seconds * SCALES[row.unit], {"pairs": seconds}


# Loads, operations and stores of a vector, of the kernels of STREAM.
STREAM = {"Copy": (1, 0, 1), "Mul": (1, 1, 1), "Add": (2, 1, 1), "Triad": (2, 1, 1), "Dot": (2, 1, 0)}
STREAM_UNROLLED = 2


WIDEST_LOAD = 128  # bits


def block_for_share_of_peak(row, machine):
    """Bytes of a tile whose workers load their parts in a loop that is unrolled altogether, so that its start counts once."""
    share = float(re.search(r"(\d+)% of peak", row.workload)[1]) / 100
    start = _native.vertex_loop_cycles(machine, 0, 1, 1)
    return share / (1 - share) * start * WIDEST_LOAD / 8 / UNITS[row.unit], {"loop": start}


def memory_bandwidth(row, machine):
    if row.metric == "block size" and "of peak local bandwidth" in row.workload:
        return block_for_share_of_peak(row, machine)
    if "load_width" in row.parameters:
        rate = _native.load_bytes_per_second(machine, int(row.parameters["load_width"]))
    elif row.unit in SCALES and ("STREAM" in row.workload or "BabelStream" in row.workload):
        name = next((name for name in STREAM if f" {name}" in row.workload), "Triad")
        loads, operations, stores = STREAM[name]
        width = 4 if "naive" in row.workload else number(machine, "vector_bytes")
        instructions = loads + operations + stores
        rate = _native.memory_bytes_per_second(machine, width * (loads + stores), instructions, STREAM_UNROLLED)
    else:
        return None
    return rate * SCALES[row.unit], {"loop": rate}


def memory_latency(row, machine):
    # A worker's next instruction comes when all others had their turn, and by then the load is done.
    cycles = number(machine, "workers")
    return cycles, {"load": cycles}


PI_SLICE = 9  # number to fp32, its middle (2), square, sum, quotient (3), sum


def vertex_loop(row, machine):
    given = row.parameters
    if not {"slices", "tiles", "version"} <= set(given):
        return None
    unrolled = re.search(r"unroll (\d+)", given["version"])
    iterations = -(-int(given["slices"]) // int(given["tiles"]))  # by one worker
    cycles = _native.vertex_loop_cycles(machine, PI_SLICE, iterations, int(unrolled[1]) if unrolled else 1)
    return cycles, {"loop": cycles}


CHANNELS = 4  # of an image
VECTORS = {"fp16 vec4": 1, "fp32 vec2": 2, "fp32 scalar": 4, "fp32": 4}
STEPS = 2  # of the grid for each iteration that a program says


def stencil_of(row, machine, columns, rows):
    given = row.parameters
    least = int(given.get("min_rows_per_tile", 1)), int(given.get("min_cols_per_tile", 1))
    cell = CHANNELS * (2 if row.dtype.startswith("fp16") else 4)
    return _native.stencil_step(machine, rows, columns, *least, cell, VECTORS[row.dtype], row.ipus)


def stencil(row, machine):
    text = f"{row.workload} {' '.join(f'{key}={value}' for key, value in row.parameters.items())}"
    size = re.search(r"(\d+)x(\d+)", text.replace("3x3", ""))
    iterations = re.search(r"iterations=(\d+)", text) or re.search(r"(\d+) iterations", text)
    is_known = "blur" in row.workload or "stencil" in row.workload
    if not is_known or row.dtype not in VECTORS or row.unit != "s" or size is None or iterations is None:
        return None
    columns, rows = int(size[1]), int(size[2])
    step = stencil_of(row, machine, columns, rows * (row.ipus if "per IPU" in text else 1))
    return STEPS * int(iterations[1]) * step["cycles"] / number(machine, "clock_hz"), step["parts"]


PHASES = {
    "compute/compute": "compute",
    "halo/pre": "pack",
    "halo/post": "unpack",
    "halo/exchange": "exchange",
    "halo/globExchange": "links",
}


def bsp_breakdown(row, machine):
    phase = row.workload.rsplit(" ", 1)[1]
    if row.unit != "cycles" or "blur" not in row.workload:
        return None
    if phase == "sync/sync":
        cycles = number(machine, "sync_cycles")
        return cycles, {"sync": cycles}
    if phase not in PHASES or "image" not in row.parameters:
        return None
    columns, rows = (int(size) for size in row.parameters["image"].split()[0].split("x"))
    part = PHASES[phase]
    cycles = stencil_of(row, machine, columns, rows)["parts"][part]
    return (cycles, {part: cycles}) if cycles else None


def prng(row, machine):
    tiles = int(number(machine, "tiles"))
    rate = tiles * LARGE / _native.random_cycles(machine, tiles * LARGE) * number(machine, "clock_hz")
    return rate * 1e-9, {"random": rate}


def copy(row, machine):
    size = row.parameters["bytes"].removeprefix("~")
    cycles = _native.local_copy_cycles(machine, int(size))
    return cycles, {"copy": cycles}


KINDS = {
    "bsp-breakdown": bsp_breakdown,
    "collective-bandwidth": collective_bandwidth,
    "collective-latency": collective_latency,
    "copy": copy,
    "exchange": exchange,
    "host-bandwidth": host_bandwidth,
    "host-latency": host_latency,
    "link-bandwidth": link_bandwidth,
    "link-latency": link_latency,
    "memory-bandwidth": memory_bandwidth,
    "memory-latency": memory_latency,
    "p2p-bandwidth": p2p_bandwidth,
    "p2p-latency": p2p_latency,
    "prng": prng,
    "reduction": reduction,
    "stencil": stencil,
    "vertex-loop": vertex_loop,
}
