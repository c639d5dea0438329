"""The examples of PopART run as a user would run them."""

import os
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def run(name, loads_torch=False):
    program = (
        f"import runpy, sys; runpy.run_path({str(ROOT / 'examples' / 'popart' / name)!r}, run_name='__main__')\n"
        f"assert ('torch' in sys.modules) == {loads_torch}"
    )
    result = subprocess.run(
        [sys.executable, "-c", program], env={**os.environ, "PYTHONPATH": str(ROOT)}, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stdout + result.stderr
    return result.stdout


def test_digits_are_learned_saved_and_recognised_by_another_session():
    text = run("train_digits.py")
    losses = [float(value) for value in re.findall(r"loss ([\d.]+)", text)]
    assert len(losses) == 6 and losses == sorted(losses, reverse=True)
    assert float(re.search(r"accuracy on unseen digits: ([\d.]+)%", text)[1]) >= 97


def test_a_classifier_of_another_library_gives_its_probabilities():
    text = run("imported_model.py")
    assert float(re.search(r"largest difference of a probability: (\S+)", text)[1]) < 1e-5
    assert "equal labels: 100.0%" in text


def test_a_network_that_torch_exported_gives_torchs_numbers():
    text = run("exported_torch.py", loads_torch=True)
    assert "batches of a run: 6, outputs (6, 4, 10)" in text
    assert float(re.search(r"largest difference to PyTorch: (\S+)", text)[1]) < 1e-4
