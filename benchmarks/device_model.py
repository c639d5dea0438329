#!/usr/bin/env python3
"""How far the device model is from measurements of real IPUs.

benchmarks/device_model.py [FILE]     per kind: rows, rows expressed, measurements, errors; then the worst rows
  --rows KIND            one line for each row of a kind
  --without CONSTANT     as if this fitted number of the machine files were not there

FILE has the form of benchmarks/device_model/calibration.csv, which is the default. An error is |predicted / measured - 1|.
"""

import argparse
import collections
import json
import pathlib
import sys
import tempfile

import numpy

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "device_model"), str(HERE.parent)]

from ipu_core import _native
import measurements
import predictions

# Median and 90th percentile that a kind should stay within, in per cent.
TARGETS = {
    "gemm": (8, 18),
    "conv": (12, 55),
    "spmm": (20, 45),
    "model-train": (15, 40),
    "model-infer": (20, 40),
    "memory-fit": (10, 45),
    "stencil": (15, 40),
    "reduction": (6, 110),
    "collective-bandwidth": (5, 45),
    "collective-latency": (5, 45),
    "amp-vertex": (3, 8),
    "exchange": (3, 8),
    "link-latency": (3, 8),
    "host-latency": (3, 8),
    "p2p-bandwidth": (3, 8),
    "host-bandwidth": (20, 35),
}
WORST = 20

Result = collections.namedtuple("Result", "row predicted parts")


def without(machine, constant):
    """The path of a machine file in which a fitted number says nothing: 0 cycles, a factor of 1."""
    value, tag = _native.machine_numbers(machine)[constant][:2]
    if tag != "fitted":
        return machine
    path = pathlib.Path(tempfile.mkdtemp()) / f"{machine}.json"
    path.write_text(json.dumps({"inherits": machine, constant: 0 if constant.endswith("_cycles") else 1}))
    return str(path)


def predict(rows, constant=None):
    """The rows that are expressed, with what the model says of them."""
    machines = {row.machine: row.machine for row in rows if row.machine}
    if constant:
        machines = {name: without(name, constant) for name in machines}
    results = []
    for row in rows:
        kind = predictions.KINDS.get(row.kind)
        said = kind(row, machines[row.machine]) if kind and row.machine else None
        if said is not None:
            results.append(Result(row, *said))
    return results


def errors(results):
    """|predicted / measured - 1| of each measurement once, in per cent, and the middle of predicted / measured."""
    by_row = {result.row.id: result.predicted / result.row.value for result in results}
    ratios = [
        numpy.median([by_row[row.id] for row in group])
        for group in measurements.grouped([result.row for result in results])
    ]
    return 100 * numpy.abs(numpy.array(ratios) - 1), float(numpy.median(ratios))


def line(name, rows, results):
    text = f"{name:<24} {rows:>5} {len(results):>9}"
    if not results:
        return text
    found, middle = errors(results)
    return text + f" {len(found):>8} {numpy.median(found):>7.1f} {numpy.percentile(found, 90):>7.1f} {middle:>7.3f}"


def table(rows, results):
    """A line for each kind, and for each sub-kind of those that have several."""
    yield f"{'kind':<24} {'rows':>5} {'expressed':>9} {'measured':>8} {'median':>7} {'90th':>7} {'middle':>7}"
    for kind in sorted({row.kind for row in rows}):
        mine = [result for result in results if result.row.kind == kind]
        yield line(kind, sum(row.kind == kind for row in rows), mine)
        names = sorted({result.row.sub_kind for result in mine})
        for name in names if len(names) > 1 else []:
            of_name = [result for result in mine if result.row.sub_kind == name]
            yield line(f"  {name}", len(of_name), of_name)


def verdicts(rows, results):
    """Which kinds are inside their targets, how much is expressed, and the error over all."""
    inside, outside = [], []
    for kind, (median, most) in TARGETS.items():
        mine = [result for result in results if result.row.kind == kind]
        if mine:
            found = errors(mine)[0]
            good = numpy.median(found) <= median and numpy.percentile(found, 90) <= most
            (inside if good else outside).append(kind)
    yield f"inside the target: {', '.join(inside) or 'none'}; outside: {', '.join(outside) or 'none'}"
    yield f"expressed: {len(results)} of {len(rows)} rows, {100 * len(results) / len(rows):.1f} %"
    found = errors(results)[0]
    yield f"all: median {numpy.median(found):.1f} %, 90th percentile {numpy.percentile(found, 90):.1f} %"


def row_line(result):
    row = result.row
    part = max(result.parts, key=result.parts.get)
    share = 100 * result.parts[part] / sum(result.parts.values())
    given = ";".join(f"{key}={value}" for key, value in row.parameters.items())[:60]
    return (
        f"{row.id:<18} {result.predicted / row.value:>6.3f} {result.predicted:>11.4g} {row.value:>11.4g} {row.unit:<12} "
        f"{part} {share:.0f} %  {row.dtype} {given}"
    )


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", default=HERE / "device_model" / "calibration.csv")
    parser.add_argument("--rows", metavar="KIND", help="one line for each row of a kind")
    parser.add_argument("--without", metavar="CONSTANT", help="a fitted number of the machine files to leave out")
    options = parser.parse_args(words)
    if options.without and options.without not in _native.machine_numbers("gc200"):
        parser.error(f"no number of a machine is called {options.without}")
    rows = measurements.read(options.file)
    results = predict(rows, options.without)
    if options.rows:
        for result in results:
            if result.row.kind == options.rows:
                print(row_line(result))
        return
    print("\n".join(table(rows, results)))
    print("\nThe worst rows, predicted / measured, and their largest part:")
    for result in sorted(results, key=lambda r: -abs(r.predicted / r.row.value - 1))[:WORST]:
        print(row_line(result))
    print()
    print("\n".join(verdicts(rows, results)))


if __name__ == "__main__":
    main()
