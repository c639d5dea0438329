"""A step with slow host data, with and without overlapped I/O: seconds of a call.

A function of the host takes `--host-ms` for each element (a decoder, a disk), the IPU about as long for its products. Without
overlap both times add up; with it the longer one counts. Run it with: python benchmarks/overlapped_io.py
"""

import argparse
import statistics
import time

import numpy

import ipu_core

ELEMENTS, SIZE = 16, 512

PROGRAM = """
module {{prefetch_depth={depth}}}
variable @w: f32[{size},{size}]
stream @x: f32[{size},{size}]
stream @y: f32[{size},{size}] {{direction="device_to_host"}}
entry main = @main
graph @main() -> () {{
  %w = variable.read() {{variable=@w}} : f32[{size},{size}]
  loop(%w) {{body=@body, trip={elements}, carried=0}}
  return
}}
graph @body(%i: i32[], %w: f32[{size},{size}]) -> () {{
  %x = host_load() {{stream=@x{io}}} : f32[{size},{size}]
  %a = matmul(%x, %w) : f32[{size},{size}]
  %b = matmul(%a, %w) : f32[{size},{size}]
  %c = matmul(%b, %w) : f32[{size},{size}]
  host_store(%c) {{stream=@y{io}}}
  return
}}
"""


def seconds(overlaps, host_ms, depth, repeats):
    """Median and fastest seconds of a call; and its last result."""
    io = ' | exchange="overlap_loops", tile_set="io"' if overlaps else ""
    session = ipu_core.compile(PROGRAM.format(io=io, depth=depth, size=SIZE, elements=ELEMENTS))
    session.attach()
    generator = numpy.random.default_rng(0)
    session.write("w", generator.standard_normal((SIZE, SIZE), dtype=numpy.float32) / SIZE**0.5)
    data = generator.standard_normal((ELEMENTS, SIZE, SIZE), dtype=numpy.float32)
    count = iter(range(10**9))

    def slow(_):
        time.sleep(host_ms / 1000)
        return data[next(count) % ELEMENTS]

    session.bind("x", slow)
    times = []
    for _ in range(repeats + 1):
        began = time.perf_counter()
        result = session.run()["y"]
        times.append(time.perf_counter() - began)
    return statistics.median(times[1:]), min(times[1:]), result


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--host-ms", type=float, nargs="*", default=[0.0, 2.0, 5.0, 10.0])
    parser.add_argument("--depth", type=int, default=1)
    parser.add_argument("--repeats", type=int, default=7)
    arguments = parser.parse_args()
    print(f"{ELEMENTS} elements of {SIZE} x {SIZE}, three products each; milliseconds of a call, median (fastest)")
    for host_ms in arguments.host_ms:
        plain, overlapped = (seconds(o, host_ms, arguments.depth, arguments.repeats) for o in (False, True))
        assert numpy.array_equal(plain[2], overlapped[2])
        print(
            f"host {host_ms:5.1f} ms an element: in turn {1e3 * plain[0]:7.1f} ({1e3 * plain[1]:.1f}), "
            f"overlapped {1e3 * overlapped[0]:7.1f} ({1e3 * overlapped[1]:.1f})"
        )


if __name__ == "__main__":
    main()
