"""The command that times common models gives a row for each, and what it times are the numbers of eager PyTorch."""

import importlib.util
import pathlib
import re
import subprocess
import sys

import pytest
import torch

FOLDER = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "common_models"
sys.path.insert(0, str(FOLDER))
spec = importlib.util.spec_from_file_location("common_models_run", FOLDER / "run.py")
run = importlib.util.module_from_spec(spec)
spec.loader.exec_module(run)
sys.path.remove(str(FOLDER))


QUICK = ("convnext", "multiplier", "recommender")


@pytest.mark.parametrize(
    "case", [*QUICK, *(pytest.param(c, marks=pytest.mark.slow) for c in run.CASES if c not in QUICK)]
)
def test_outputs_in_inference_and_training_are_those_of_eager(case):
    eager, ours, wrapper = run.inference_steps(case, 2)
    torch.testing.assert_close(ours(), eager(), rtol=1e-4, atol=1e-5)
    wrapper.destroy()
    eager, ours, wrapper = run.training_steps(case, 2)
    for _ in range(3):
        torch.testing.assert_close(ours(), eager(), rtol=1e-3, atol=1e-4)
    wrapper.destroy()


def test_the_command_prints_a_row_for_each_batch():
    options = ["--case", "autoencoder", "--seconds", "0.01"]
    done = subprocess.run([sys.executable, FOLDER / "run.py", *options], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr[-3000:]
    rows = re.findall(r"^\| (\w+) \| (\d+) \|(?: [\d.]+ \|){6}$", done.stdout, re.M)
    assert rows == [("autoencoder", "2"), ("autoencoder", "16")]
    assert re.search(r"^Geometric mean: [\d.]+ x eager in inference, [\d.]+ x in training\.$", done.stdout, re.M)
