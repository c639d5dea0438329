#!/usr/bin/env python3
"""How far the device model is from measurements of real IPUs.

benchmarks/device_model.py [FILE]     per kind: rows, rows expressed, measurements, errors; then the worst rows
  --rows KIND            one line for each row of a kind
  --without CONSTANT     as if this fitted number of the machine files were not there
  --leave-out SOURCE     fits the constants without the rows of a source, and tests them on those
  --svg PATH             a scatter plot of the rows
  --check                fails if docs/device-model-accuracy.md or its plot is not up to date

FILE has the form of benchmarks/device_model/calibration.csv. Without one that file is read, and the page and its plot are written. An error is |predicted / measured - 1|.
"""

import argparse
import pathlib
import sys

HERE = pathlib.Path(__file__).resolve().parent
sys.path[:0] = [str(HERE / "device_model"), str(HERE.parent)]

import accuracy
import constants
import measurements
import page

CALIBRATION = HERE / "device_model" / "calibration.csv"


def leave_out(rows, source):
    """Lines: the rows of a source with the constants as they are, and with those fitted without it."""
    tested = [row for row in rows if source in row.source]
    others = [row for row in rows if source not in row.source]
    before = accuracy.predict(tested)
    if not before or not others:
        return [f"no row that is expressed has '{source}' in its source, or all have"]
    values = constants.fit(others)
    after = constants.with_values(tested, values)
    said = [f"{len(before)} rows of '{source}'"]
    said += [f"  constants of the files:      {accuracy.overall(before)}"]
    said += [f"  fitted without these rows:   {accuracy.overall(after)}"]
    for name, value in values.items():
        if value != constants.by_name(name).value:
            said.append(f"    {name} {constants.by_name(name).value:g} -> {value:g}")
    return said


def main(words=None):
    parser = argparse.ArgumentParser(description=__doc__.split("\n")[0])
    parser.add_argument("file", nargs="?", help="measurements")
    parser.add_argument("--rows", metavar="KIND", help="one line for each row of a kind")
    parser.add_argument("--without", metavar="CONSTANT", help="a fitted number of the machine files to leave out")
    parser.add_argument("--leave-out", metavar="SOURCE", help="a part of the source of the rows to test fits on")
    parser.add_argument("--svg", metavar="PATH", help="where a scatter plot goes")
    parser.add_argument("--check", action="store_true", help="compare the page of the documentation")
    options = parser.parse_args(words)
    rows = [row for row in measurements.read(options.file or CALIBRATION) if options.rows in (None, row.kind)]
    if options.leave_out:
        print("\n".join(leave_out(rows, options.leave_out)))
        return
    if options.without:
        constant = constants.by_name(options.without)
        if constant is None:
            known = ", ".join(constant.name for constant in constants.fitted())
            parser.error(f"no fitted number of a machine is called {options.without}: there are {known}")
        results = constants.with_values(rows, {constant.name: constant.neutral})
    else:
        results = accuracy.predict(rows)
    if options.svg:
        pathlib.Path(options.svg).write_text(page.plot(results))
    if options.check:
        stale = page.stale(rows, results)
        if stale:
            sys.exit(f"not up to date: {', '.join(stale)}; run benchmarks/device_model.py")
        return
    if options.rows:
        for result in results:
            print(accuracy.row_line(result))
        return
    if options.file is None and not options.without:
        page.write(rows, results)
    print("\n".join(accuracy.table(rows, results)))
    print("\nThe worst rows, predicted / measured, and their largest part:")
    for result in accuracy.worst(results):
        print(accuracy.row_line(result))
    print()
    print("\n".join(accuracy.groups(rows, results)))
    print("\n".join(accuracy.verdicts(rows, results)))


if __name__ == "__main__":
    main()
