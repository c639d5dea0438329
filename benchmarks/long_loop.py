#!/usr/bin/env python3
"""What a training step of one long loop costs as the loop grows: time, time per trip, and bytes of the arena.

    python benchmarks/long_loop.py [--trips 1000 --trips 10000 ...] [--width 64]

The program is that of tests/ir/needs/long_loop_gradient.ir: a loop that keeps the carried values of each trip in a
stash, and the loop that goes back through them. Time per trip stays level when the cost is linear.
"""

import argparse
import pathlib
import re
import time

import numpy

import ipu_core

PROGRAM = pathlib.Path(__file__).resolve().parents[1] / "tests" / "ir" / "needs" / "long_loop_gradient.ir"


def program(trips, width):
    text = "\n".join(line for line in PROGRAM.read_text().splitlines() if not line.startswith("//"))
    text = text.replace("10000", str(trips)).replace("9999", str(trips - 1))
    text = re.sub(r"variable @w: f32\[2\] {.*}", f"variable @w: f32[{width}]", text)
    text = re.sub(r"(f32|bool)\[2\]", rf"\1[{width}]", text)
    text = re.sub(r"\[(\d+),2\]", rf"[\1,{width}]", text)
    return text.replace("shape=[2]", f"shape=[{width}]")


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--trips", type=int, action="append")
    parser.add_argument("--width", type=int, default=64)
    arguments = parser.parse_args()
    print("| trips | compile s | step ms | µs per trip | arena bytes | bytes per trip |\n|---|---|---|---|---|---|")
    for trips in arguments.trips or (1000, 10000, 100000):
        start = time.perf_counter()
        session = ipu_core.compile(program(trips, arguments.width), source=PROGRAM.name)
        compile_seconds = time.perf_counter() - start
        session.attach()
        session.write("w", numpy.full(arguments.width, 0.5, numpy.float32))
        inputs = {"x_stream": numpy.zeros(arguments.width, numpy.float32)}
        seconds = []
        for _ in range(5):
            start = time.perf_counter()
            session.run(inputs)
            seconds.append(time.perf_counter() - start)
        arena = int(re.search(r"^ipu 0 arena (\d+)", session.program_text(), re.MULTILINE).group(1))
        step = min(seconds)
        row = [trips, f"{compile_seconds:.3f}", f"{step * 1e3:.2f}", f"{step / trips * 1e6:.2f}", arena]
        print("|", " | ".join(map(str, row)), f"| {arena / trips:.1f} |", flush=True)


if __name__ == "__main__":
    main()
