#!/usr/bin/env python3
"""Speed of the sum over replicas against `memcpy`.

    python benchmarks/all_reduce.py [--megabytes 100] [--replicas 2 --replicas 4] [--turns 7]

A program of R replicas that sums one float32 tensor of so many megabytes in a loop, timed without the loop's first round, on
POPTORCH_HOST_THREADS workers. A row: bytes read and written by the sum (R operands and R results) in GB per second, and those of a
`memcpy` of one operand in one thread (read and written), medians over turns that take place one after the other.
"""

import argparse
import statistics
import time

import numpy

import ipu_core


def program(elements, trip):
    """IR of a loop that sums a tensor over all replicas `trip` times."""
    return f"""
variable @w: f32[{elements}]
entry main = @main
graph @main() -> () {{
  %w = variable.read() {{variable=@w}} : f32[{elements}]
  %last = loop(%w) {{body=@body, carried=1, trip={trip}}} : f32[{elements}]
  variable.assign(%last) {{variable=@w}}
  return
}}
graph @body(%i: i32[], %w: f32[{elements}]) -> f32[{elements}] {{
  %sum = all_reduce(%w) : f32[{elements}]
  return %sum
}}
"""


def seconds(function):
    """Seconds a call takes."""
    begin = time.perf_counter()
    function()
    return time.perf_counter() - begin


def main():
    """Prints a row for each number of replicas."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--megabytes", type=int, default=100)
    parser.add_argument("--replicas", type=int, action="append")
    parser.add_argument("--turns", type=int, default=7)
    arguments = parser.parse_args()
    elements = arguments.megabytes * 1_000_000 // 4
    source, target = numpy.ones(elements, numpy.float32), numpy.ones(elements, numpy.float32)
    print(f"{'replicas':>8}  {'sum, ms':>8}  {'sum, GB/s':>9}  {'memcpy, GB/s':>12}")
    for replicas in arguments.replicas or [2, 4]:
        once, often = (ipu_core.compile(program(elements, trip), replicas=replicas) for trip in (1, 5))
        once.run()
        often.run()
        sums, copies = [], []
        for _ in range(arguments.turns):
            sums.append((seconds(often.run) - seconds(once.run)) / 4)
            copies.append(seconds(lambda: numpy.copyto(target, source)))
        once.detach()
        often.detach()
        sum_seconds = statistics.median(sums)
        moved = 2 * source.nbytes
        speed, copy_speed = replicas * moved / sum_seconds / 1e9, moved / statistics.median(copies) / 1e9
        print(f"{replicas:>8}  {sum_seconds * 1e3:>8.1f}  {speed:>9.2f}  {copy_speed:>12.2f}")


if __name__ == "__main__":
    main()
