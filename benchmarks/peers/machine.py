"""What the machine can do, measured beside the table: its processor, fused multiply-adds and memory."""

import os
import pathlib
import platform
import subprocess
import tempfile

SOURCE = pathlib.Path(__file__).resolve().parents[1] / "kernels/machine_peaks.cc"
SIMD = ("amx_tile", "avx512_fp16", "avx512f", "avx2")


def processor():
    """Model name, processors, and the widest vectors that `lscpu` names."""
    text = subprocess.run(["lscpu"], capture_output=True, text=True).stdout
    fields = dict(line.split(":", 1) for line in text.splitlines() if ":" in line)
    fields = {key.strip(): value.strip() for key, value in fields.items()}
    flags = fields.get("Flags", "").split()
    return {
        "processor": fields.get("Model name", platform.processor()),
        "family": f"family {fields.get('CPU family', '?')} model {fields.get('Model', '?')}",
        "processors": os.cpu_count(),
        "simd": " ".join(flag for flag in SIMD if flag in flags),
        "caches": ", ".join(
            f"{level} {fields[level]}" for level in ("L1d cache", "L2 cache", "L3 cache") if level in fields
        ),
    }


def peaks():
    """GFLOP/s of fused multiply-adds in registers and GB/s of a triad over arrays larger than the caches, on one and two
    threads; builds benchmarks/kernels/machine_peaks.cc for it."""
    with tempfile.TemporaryDirectory() as folder:
        program = pathlib.Path(folder) / "machine_peaks"
        subprocess.run(
            ["g++", "-O2", "-std=c++20", f"-I{SOURCE.parent}", SOURCE, "-o", program, "-lhwy", "-pthread"], check=True
        )
        done = subprocess.run([program], capture_output=True, text=True, check=True)
    return {name: float(value) for name, value in (line.split() for line in done.stdout.splitlines())}
