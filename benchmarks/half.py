#!/usr/bin/env python3
"""Time of a half precision model against the same model in float32: the ten models of benchmarks/peers.

    python benchmarks/half.py [--case mlp] [--mode inference] [--batch 1] [--where]

Both models run in this process, in turns, two threads; a row is the median over turns, in microseconds, and the ratio of
float16 to float32 (below 1: half is faster). `--where` adds the kernels whose time differs most, in microseconds of both.
"""

import argparse
import collections
import pathlib
import statistics
import sys
import time

import torch

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parent / "peers"))

from cases import CASES, TABLE, make
from runners import MODES, THREADS, poptorch_step


def microseconds_by_kernel(step, wrapper, repeat):
    """Time of each kind of kernel in a step, of the quickest of a few."""
    executable, best = wrapper._executable, {}
    executable.trace(True)
    for _ in range(min(repeat, 20) + 3):
        step()
        spent = collections.Counter()
        for event in executable.take_trace():
            spent[event["kernel"] or event["step"]] += (event["end_ns"] - event["begin_ns"]) / 1e3
        if not best or sum(spent.values()) < sum(best.values()):
            best = spent
    executable.trace(False)
    return best


def medians(steps, seconds):
    """Median time of each step in microseconds; turns interleave them, so all see the same machine."""
    repeat = {}
    for name, step in steps.items():
        for _ in range(3):
            step()
        start = time.perf_counter()
        step()
        repeat[name] = max(1, int(0.01 / (time.perf_counter() - start)))
    samples = {name: [] for name in steps}
    end = time.perf_counter() + seconds * len(steps)
    while time.perf_counter() < end or len(samples[name]) < 3:
        for name, step in steps.items():
            start = time.perf_counter()
            for _ in range(repeat[name]):
                step()
            samples[name].append((time.perf_counter() - start) / repeat[name] * 1e6)
    return {name: statistics.median(values) for name, values in samples.items()}, repeat


def differences(f32, f16, count):
    kinds = sorted(set(f32) | set(f16), key=lambda kind: f32.get(kind, 0) - f16.get(kind, 0))
    return ", ".join(f"{kind} {f32.get(kind, 0):.1f} → {f16.get(kind, 0):.1f}" for kind in kinds[:count])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--case", choices=list(CASES), action="append")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--seconds", type=float, default=0.3, help="for each model of a row")
    parser.add_argument("--where", action="store_true")
    arguments = parser.parse_args()
    torch.set_num_threads(THREADS)
    print("| case | mode | batch | f32 µs | f16 µs | f16 / f32 |" + (" where |" if arguments.where else ""))
    print("|---|---|---|---|---|---|" + ("---|" if arguments.where else ""))
    ratios = []
    for mode in arguments.mode or ("inference", "training"):
        for case in arguments.case or TABLE:
            for batch in arguments.batch or CASES[case].batches:
                steps, wrappers = {}, {}
                for dtype in (torch.float32, torch.float16):
                    model, inputs, targets = make(case, batch, dtype)
                    steps[dtype], wrappers[dtype] = poptorch_step(
                        model.train(mode != "inference"), inputs, targets, mode
                    )
                time_of, repeat = medians(steps, arguments.seconds)
                ratio = time_of[torch.float16] / time_of[torch.float32]
                ratios.append(ratio)
                row = f"| {case} | {mode} | {batch} | {time_of[torch.float32]:.1f} | {time_of[torch.float16]:.1f} | {ratio:.2f} |"
                if arguments.where:
                    spent = {
                        dtype: microseconds_by_kernel(steps[dtype], wrappers[dtype], repeat[dtype]) for dtype in steps
                    }
                    row += f" {differences(spent[torch.float32], spent[torch.float16], 5)} |"
                print(row, flush=True)
                for wrapper in wrappers.values():
                    wrapper.destroy()
    if len(ratios) > 1:
        print(f"\nf16 / f32, geometric mean: {statistics.geometric_mean(ratios):.2f}")


if __name__ == "__main__":
    main()
