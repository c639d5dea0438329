#!/usr/bin/env python3
"""What a graph that is called many times costs as a subroutine and inlined: compiling, instructions, time of a run.

    python benchmarks/calls.py [--calls 10 --calls 1000 ...] [--width 64] [--ops 4] [--rounds 20]

A layer is one product with its bias and a chain of elementwise operations that fuse into one; it is called one time after the
other on its own result. Both ways give the same bits, which is checked.
"""

import argparse
import pathlib
import re
import time

import numpy

import ipu_core

HERE = pathlib.Path(__file__).name


def program(calls, width, ops, subroutine):
    vector = f"f32[4,{width}]"
    lines = [
        f"variable @w: f32[{width},{width}] {{ipu=0}}",
        f"variable @b: f32[{width}] {{ipu=0}}",
        f"stream @x: {vector} {{ipu=0}}",
        f'stream @y: {vector} {{direction="device_to_host", ipu=0}}',
        "entry main = @main",
        "graph @main() -> () {",
        f"  %w = variable.read() {{variable=@w | ipu=0}} : f32[{width},{width}]",
        f"  %b = variable.read() {{variable=@b | ipu=0}} : f32[{width}]",
        f"  %v0 = host_load() {{stream=@x | ipu=0}} : {vector}",
    ]
    lines += [f"  %v{i + 1} = call(%v{i}, %w, %b) {{callee=@layer | ipu=0}} : {vector}" for i in range(calls)]
    lines += [f"  host_store(%v{calls}) {{stream=@y | ipu=0}}", "  return", "}"]
    lines += [
        f"graph @layer(%x: {vector}, %w: f32[{width},{width}], %b: f32[{width}]) -> {vector}"
        f" attributes {{subroutine={'true' if subroutine else 'false'}}} {{",
        f"  %a0 = linear(%x, %w, %b) {{| ipu=0}} : {vector}",
    ]
    kinds = ("tanh", "neg", "abs", "sin")
    lines += [f"  %a{i + 1} = {kinds[i % 4]}(%a{i}) {{| ipu=0}} : {vector}" for i in range(ops - 1)]
    return "\n".join([*lines, f"  return %a{ops - 1}", "}"])


def measure(calls, width, ops, subroutine, rounds):
    start = time.process_time()
    session = ipu_core.compile(program(calls, width, ops, subroutine), source=HERE)
    compile_seconds = time.process_time() - start
    text = session.program_text()
    instructions = len(re.findall(r"^  \d+: ", text, re.MULTILINE))
    arena = int(re.search(r"^ipu 0 arena (\d+)", text, re.MULTILINE).group(1))
    session.attach()
    random = numpy.random.default_rng(1)
    session.write("w", random.standard_normal((width, width), numpy.float32) / width**0.5)
    session.write("b", numpy.zeros(width, numpy.float32))
    inputs = {"x": random.standard_normal((4, width), numpy.float32)}
    seconds = []
    for _ in range(rounds):
        start = time.perf_counter()
        result = session.run(inputs)
        seconds.append(time.perf_counter() - start)
    return compile_seconds, instructions, arena, min(seconds), result["y"]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--calls", type=int, action="append")
    parser.add_argument("--width", type=int, default=64)
    parser.add_argument("--ops", type=int, default=4)
    parser.add_argument("--rounds", type=int, default=20)
    arguments = parser.parse_args()
    print(
        "| calls | way | compile s | instructions | arena bytes | run µs | µs per call |\n|---|---|---|---|---|---|---|"
    )
    for calls in arguments.calls or (10, 100, 1000):
        results = []
        for subroutine in (True, False):
            *figures, result = measure(calls, arguments.width, arguments.ops, subroutine, arguments.rounds)
            compile_seconds, instructions, arena, seconds = figures
            way = "subroutine" if subroutine else "inlined"
            row = [calls, way, f"{compile_seconds:.3f}", instructions, arena]
            row += [f"{seconds * 1e6:.1f}", f"{seconds / calls * 1e6:.2f}"]
            print("|", " | ".join(map(str, row)), "|", flush=True)
            results.append(result)
        numpy.testing.assert_array_equal(*results)


if __name__ == "__main__":
    main()
