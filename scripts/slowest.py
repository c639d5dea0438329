#!/usr/bin/env python3
"""Prints the ten slowest of what scripts/test did.

scripts/slowest.py STEPS    STEPS has a line "seconds<tab>name" for each step; build/*/.ninja_log know the builds
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 10


def read_steps(path):
    """(seconds, name) of each step."""
    rows = [line.split("\t", 1) for line in path.read_text().splitlines()]
    return [(float(seconds), name) for seconds, name in rows]


def read_builds(folder):
    """(seconds, output) of each file made by the builds, when it was last made."""
    made = {}
    for log in folder.glob("*/.ninja_log"):
        for line in log.read_text().splitlines()[1:]:
            begin, end, _, output, *_ = line.split("\t")
            made[f"{log.parent.name}: {output}"] = (int(end) - int(begin)) / 1000
    return [(seconds, output) for output, seconds in made.items()]


def table(title, rows):
    rows = sorted(rows, key=lambda row: -row[0])[:MOST]
    return "\n".join([title, *(f"  {seconds:7.1f} s  {name}" for seconds, name in rows)]) if rows else ""


def main():
    steps = read_steps(pathlib.Path(sys.argv[1]))
    print(table(f"slowest steps (sum {sum(seconds for seconds, _ in steps):.0f} s; some run beside others):", steps))
    print(table("slowest files to build, each when it was last built:", read_builds(ROOT / "build")))


if __name__ == "__main__":
    main()
