#!/usr/bin/env python3
"""Runs ninja and shows how far it is: on a terminal by ninja's own status line, elsewhere by a line every 20 s.

scripts/progress.py [--every SECONDS] [--jobs N] FOLDER [TARGET ...]

What compilers print passes through at once, what failed is named again at the end, and the exit code is ninja's. How long the
rest takes follows from the lines of source that are translated and those that are not; where most of the objects were there
before and are made again, from the number of steps.
"""

import argparse
import os
import pathlib
import re
import select
import signal
import subprocess
import sys
import time

ROOT = pathlib.Path(__file__).resolve().parent.parent
STATUS = re.compile(r"\[(\d+)/(\d+)\] (.*)")
FAILED = re.compile(r"FAILED: (?:\[code=\d+\] )?(.*?)\s*$")
QUIET = (
    "-- ",
    "ninja: Entering directory",
    "ninja: no work to do.",
)  # what CMake reports of itself, and nothing of interest
# What the headers of one source or unit cost, in lines of source that take the same time; Python's and torch's cost most.
HEADERS = {"poptorch_core": 4500, "ipu_core": 3000, "ipu-ops": 4000, "ipu-opt": 3500, "ipu_tests": 2000}
OTHER_HEADERS = 400


def lines_of(source):
    """Lines of a source; if it is a unit of several (IPU_UNITS), theirs."""
    try:
        text = source.read_text()
    except OSError:
        return 0
    if source.parent.name == "Unity":
        return sum(lines_of(ROOT / name) for name in re.findall(r'#include "(.+)"', text))
    return text.count("\n")


def weight(folder, thing):
    """What making a file costs, in lines of source."""
    target, name = re.fullmatch(r"(?:CMakeFiles/([^/]+)\.dir/)?(.*?)(?:\.o)?", thing).groups()
    unit = folder / thing.removesuffix(".o")
    return HEADERS.get(target, OTHER_HEADERS) + lines_of(unit if unit.exists() else ROOT / name)


def missing_objects(folder, targets):
    """{object: weight} of what the targets need and is not there."""
    listed = subprocess.run(["ninja", "-C", folder, "-t", "inputs", *targets], capture_output=True, text=True)
    things = [line for line in listed.stdout.splitlines() if line.endswith((".o", ".gch"))]
    return {thing: weight(folder, thing) for thing in things if not (folder / thing).exists()}


def duration(seconds):
    seconds = round(seconds)
    return f"{seconds // 60} min {seconds % 60:02} s" if seconds >= 60 else f"{seconds} s"


def rough(seconds):
    return f"{round(seconds / 60)} min" if seconds >= 90 else f"{max(10, round(seconds, -1)):.0f} s"


class Progress:
    """How far a build is, told line by line what ninja prints."""

    def __init__(self, missing):
        self.missing = dict(missing)  # not made yet
        self.weight = sum(missing.values())
        self.number = len(missing)
        self.done = self.total = 0
        self.failed = {}  # what was not made: lines of errors
        self.failing = None

    def take(self, line):
        """What of a line of ninja's is to be shown: nothing if it is a status."""
        if status := STATUS.match(line):
            self.done, self.total, self.failing = int(status[1]), int(status[2]), None
            self.missing.pop(status[3].split(" ")[-1], None)
            return None
        if failed := FAILED.match(line):
            self.failing = self.failed.setdefault(failed[1], [])
        elif line.startswith("ninja: "):
            self.failing = None
        elif self.failing is not None and re.search(r"\berror\b|undefined reference", line):
            self.failing.append(line.strip())
        return None if line.startswith(QUIET) else line

    def part(self):
        """The part of the work that is done, 0 to 1."""
        if self.number * 2 >= self.total > 0:
            return 1 - sum(self.missing.values()) / self.weight
        return self.done / max(self.total, 1)

    def line(self, seconds):
        """One line after so many seconds."""
        part = self.part()
        left = f", about {rough(seconds * (1 - part) / part)} left" if 0 < part < 1 else ""
        total = self.total or "?"
        return f"[{self.done}/{total}] {duration(seconds)}{left}"

    def end(self, code, seconds):
        """The last lines."""
        if code == 0:
            return f"built in {duration(seconds)}"
        if not self.failed:
            return ""
        what = "\n".join("\n    ".join([f"  {thing}", *errors[:3]]) for thing, errors in self.failed.items())
        return (
            f"The build failed after {duration(seconds)}, {self.done} of {self.total} steps done. What failed:\n{what}"
        )


def show(text):
    if text:
        print(text, flush=True)


def follow(child, progress, every):
    """Shows what the child prints until it ends, and a line after each `every` seconds."""
    begun = time.monotonic()
    due, rest, pipe = begun + every, b"", child.stdout.fileno()
    while True:
        if select.select([pipe], [], [], max(0, due - time.monotonic()))[0]:
            if not (chunk := os.read(pipe, 1 << 16)):
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                show(progress.take(line.decode(errors="replace")))
        if time.monotonic() >= due:
            show(progress.line(time.monotonic() - begun))
            due += every
    show(progress.take(rest.decode(errors="replace")))
    code, seconds = child.wait(), time.monotonic() - begun
    if code != 0 or seconds >= every:
        show(progress.end(code, seconds))
    return code if code >= 0 else 128 - code


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--every", type=float, default=20, help="seconds between two lines")
    parser.add_argument("--jobs", help="how many commands ninja runs at once")
    parser.add_argument("folder", type=pathlib.Path)
    parser.add_argument("targets", nargs="*")
    options = parser.parse_args()
    command = ["ninja", "-C", str(options.folder), *(["-j", options.jobs] if options.jobs else []), *options.targets]
    os.environ["NINJA_STATUS"] = "[%f/%t] "
    if sys.stdout.isatty() and os.environ.get("TERM", "dumb") != "dumb":
        os.execvp("ninja", command)
    progress = Progress(missing_objects(options.folder, options.targets))
    with subprocess.Popen(command, stdout=subprocess.PIPE) as child:
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, lambda number, _: child.send_signal(number))
        try:
            code = follow(child, progress, options.every)
        finally:
            child.terminate()  # if this ends first; else nothing
    sys.exit(code)


if __name__ == "__main__":
    main()
