"""The examples of PopXL run as a user would run them, without torch."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(name):
    program = (
        f"import runpy, sys; runpy.run_path({str(ROOT / 'examples' / 'popxl' / name)!r}, run_name='__main__')\n"
        "assert 'torch' not in sys.modules"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_digits_are_learned_and_a_second_program_takes_over_the_weights():
    text = run("train_digits.py")
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", text)]
    assert losses == sorted(losses, reverse=True)
    assert float(re.search(r"accuracy on unseen digits: ([\d.]+)%", text)[1]) >= 97


def test_a_plane_is_found_with_an_accumulator_by_reference():
    assert "weights found: [ 2.  -1.   0.5]" in run("gradient_accumulation.py")


def test_a_transformer_block_over_four_ipus_learns_from_weights_in_shards_in_streaming_memory():
    text = run("sharded_transformer.py")
    losses = dict(re.findall(r"step (\d+): loss ([\d.]+)", text))
    assert float(losses["119"]) < 0.15 * float(losses["0"])
    assert "52416 weights, a quarter of each on every replica" in text
