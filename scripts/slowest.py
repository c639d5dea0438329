#!/usr/bin/env python3
"""Prints the ten files that took longest to build, each when it was last built: build/*/.ninja_log know."""

import pathlib

ROOT = pathlib.Path(__file__).resolve().parent.parent
MOST = 10


def read_builds(folder):
    """(seconds, output) of each file made by the builds."""
    made = {}
    for log in folder.glob("*/.ninja_log"):
        for line in log.read_text().splitlines()[1:]:
            begin, end, _, output, *_ = line.split("\t")
            made[f"{log.parent.name}: {output}"] = (int(end) - int(begin)) / 1000
    return [(seconds, output) for output, seconds in made.items()]


if __name__ == "__main__":
    print("slowest files to build, each when it was last built:")
    for seconds, output in sorted(read_builds(ROOT / "build"), reverse=True)[:MOST]:
        print(f"  {seconds:7.1f} s  {output}")
