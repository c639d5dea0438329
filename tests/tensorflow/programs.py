"""Programs of their own process, for what depends on what was imported before."""

import os
import subprocess
import sys


def output_of(program, **variables):
    """What the program prints; its errors fail the test."""
    done = run(program, **variables)
    assert done.returncode == 0, done.stderr
    return done.stdout


def run(program, **variables):
    environment = {
        name: value for name, value in os.environ.items() if name not in ("TF_USE_LEGACY_KERAS", "TF_POPLAR_FLAGS")
    }
    return subprocess.run(
        [sys.executable, "-c", program], env={**environment, **variables}, capture_output=True, text=True, timeout=120
    )
