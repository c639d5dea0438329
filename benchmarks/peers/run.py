#!/usr/bin/env python3
"""Compares poptorch with eager PyTorch, torch.compile, and in inference ONNX Runtime and OpenVINO where they are installed:
each peer in a process of its own, restarted and interleaved.

    python benchmarks/peers/run.py [--restarts 3] [--case mlp] [--mode inference] [--batch 1]

Prints one row per case: the median over restarts of each peer's median step, in microseconds, and the ratios.
"""

import argparse
import importlib.util
import json
import os
import pathlib
import statistics
import subprocess
import sys
import tempfile

HERE = pathlib.Path(__file__).resolve().parent
CASES = ("mlp", "lenet", "lstm", "gru")
PEERS = ("poptorch", "eager", "compile")
EXPORTED = tuple(name for name in ("onnxruntime", "openvino") if importlib.util.find_spec(name))  # inference only
TITLES = {"eager": "eager", "compile": "torch.compile", "onnxruntime": "ONNX Runtime", "openvino": "OpenVINO"}


def one(peer, case, mode, batch):
    command = [sys.executable, HERE / "one.py", peer, case, mode, str(batch)]
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(
            os.environ,
            OMP_NUM_THREADS="2",
            POPTORCH_HOST_THREADS="2",
            TORCHINDUCTOR_CACHE_DIR=cache,  # first calls compile
            PYTHONPATH=os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
        )
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
    if result.returncode:
        sys.exit(f"{peer} {case} {mode} {batch} failed:\n{result.stderr[-3000:]}")
    return json.loads(result.stdout.splitlines()[-1])


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--mode", choices=["inference", "training"], action="append")
    parser.add_argument("--batch", type=int, action="append")
    arguments = parser.parse_args()
    others = ("eager", "compile", *EXPORTED)
    print(
        "| case | mode | batch | poptorch µs | "
        + " | ".join(f"{TITLES[peer]} µs" for peer in others)
        + " | × eager | × best peer | compile s (ours / theirs) | peak MiB (ours / eager) |"
    )
    print("|---" * (8 + len(others)) + "|")
    ratios = {}
    for mode in arguments.mode or ("inference", "training"):
        peers = (*PEERS, *EXPORTED) if mode == "inference" else PEERS
        for case in arguments.case or CASES:
            for batch in arguments.batch or (1, 32):
                runs = {peer: [] for peer in peers}
                for _ in range(arguments.restarts):
                    for peer in peers:
                        runs[peer].append(one(peer, case, mode, batch))
                median = {peer: statistics.median(r["us"] for r in runs[peer]) for peer in peers}
                first = {peer: statistics.median(r["first_call_s"] for r in runs[peer]) for peer in peers}
                memory = {peer: statistics.median(r["peak_mib"] for r in runs[peer]) for peer in peers}
                over_eager = median["eager"] / median["poptorch"]
                over_best = min(median[peer] for peer in peers if peer != "poptorch") / median["poptorch"]
                ratios.setdefault(mode, []).append(over_eager)
                theirs = " | ".join(f"{median[peer]:.1f}" if peer in median else "-" for peer in others)
                print(
                    f"| {case} | {mode} | {batch} | {median['poptorch']:.1f} | {theirs} | {over_eager:.2f} | {over_best:.2f} | "
                    f"{first['poptorch']:.2f} / {first['compile']:.1f} | {memory['poptorch']:.0f} / {memory['eager']:.0f} |",
                    flush=True,
                )
    for mode, values in ratios.items():
        print(f"\n{mode}: geometric mean over eager {statistics.geometric_mean(values):.2f}x")


if __name__ == "__main__":
    main()
