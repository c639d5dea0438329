#!/usr/bin/env python3
"""Compares poptorch with eager PyTorch, torch.compile (in inference with freezing, too), ONNX Runtime and OpenVINO where they are
installed: each peer in a process of its own, restarted and interleaved.

    python benchmarks/peers/run.py [--out FILE] [--restarts 3] [--case mlp] [--mode inference] [--batch 1] [--dtype float16]
                                   [--peer eager] [--isa avx2] [--minutes 30]

Prints the machine, one row per case, and the geometric means: the median over restarts of each peer's median step, in
microseconds, and the ratios. FILE keeps every result as a JSON line; a run with the same FILE does only what is missing.
"""

import argparse
import json
import os
import pathlib
import subprocess
import sys
import tempfile
import time

from cases import CASES, TABLE
from machine import peaks, processor
from runners import MODES, THREADS, TITLES, peers_of
from table import print_tables

HERE = pathlib.Path(__file__).resolve().parent
KEY = ("peer", "case", "mode", "batch", "dtype", "isa", "restart")
# What holds each peer to AVX2; ONNX Runtime and OpenVINO cannot be held, so they are not asked.
AVX2 = {
    "POPTORCH_ISA": "avx2",
    "ATEN_CPU_CAPABILITY": "avx2",
    "ONEDNN_MAX_CPU_ISA": "AVX2",
    "MKL_ENABLE_INSTRUCTIONS": "AVX2",
}
NOT_HELD = ("onnxruntime", "openvino")


def one(peer, case, mode, batch, dtype, isa, seconds):
    """The result of one process; what failed has "error" in place of figures."""
    command = [
        sys.executable,
        HERE / "one.py",
        peer,
        case,
        mode,
        str(batch),
        "--dtype",
        dtype,
        "--seconds",
        str(seconds),
    ]
    with tempfile.TemporaryDirectory() as cache:
        environment = dict(
            os.environ,
            **(AVX2 if isa == "avx2" else {}),
            OMP_NUM_THREADS=str(THREADS),
            POPTORCH_HOST_THREADS=str(THREADS),
            TORCHINDUCTOR_CACHE_DIR=cache,  # first calls compile
            PYTHONPATH=os.pathsep.join([str(HERE.parents[1]), os.environ.get("PYTHONPATH", "")]),
        )
        result = subprocess.run(command, env=environment, capture_output=True, text=True)
    key = {"peer": peer, "case": case, "mode": mode, "batch": batch, "dtype": dtype, "isa": isa}
    if result.returncode:
        print(f"{peer} {case} {mode} {batch} {dtype} {isa} failed:\n{result.stderr[-2000:]}", file=sys.stderr)
        return key | {"error": result.stderr[-500:]}
    return key | json.loads(result.stdout.splitlines()[-1])


def wanted(arguments):
    """(peer, case, mode, batch, dtype, isa, restart), interleaved: all peers of a case stand beside each other."""
    for dtype in arguments.dtype or ("float32",):
        for mode in arguments.mode or ("inference", "training"):
            for case in arguments.case or TABLE:
                for batch in arguments.batch or CASES[case].batches:
                    for restart in range(arguments.restarts):
                        for peer in peers_of(mode, dtype):
                            if arguments.isa == "avx2" and peer in NOT_HELD:
                                continue
                            if not arguments.peer or peer in ("poptorch", *arguments.peer):
                                yield peer, case, mode, batch, dtype, arguments.isa, restart


def read(path):
    lines = path.read_text().splitlines() if path and path.exists() else []
    return [{"isa": "widest"} | json.loads(line) for line in lines]


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--out", type=pathlib.Path)
    parser.add_argument("--restarts", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=1.0, help="for which each process measures")
    parser.add_argument("--minutes", type=float, default=1e9, help="after which nothing new begins")
    parser.add_argument("--case", choices=CASES, action="append")
    parser.add_argument("--mode", choices=MODES, action="append")
    parser.add_argument("--batch", type=int, action="append")
    parser.add_argument("--dtype", choices=["float32", "float16"], action="append")
    parser.add_argument("--peer", choices=TITLES, action="append", help="only these beside poptorch")
    parser.add_argument(
        "--isa", choices=["widest", "avx2"], default="widest", help="the widest vectors that all may use"
    )
    arguments = parser.parse_args()
    found, end = read(arguments.out), time.monotonic() + 60 * arguments.minutes
    if not any("processor" in result for result in found):
        found.append(processor() | peaks())
        keep(arguments.out, found[-1])
    done = {tuple(result[key] for key in KEY) for result in found if "peer" in result}
    for key in wanted(arguments):
        if key in done or time.monotonic() > end:
            continue
        found.append(one(*key[:-1], arguments.seconds) | {"restart": key[-1]})
        keep(arguments.out, found[-1])
    print_tables(found)


def keep(path, result):
    if path:
        with path.open("a") as file:
            file.write(json.dumps(result) + "\n")


if __name__ == "__main__":
    main()
