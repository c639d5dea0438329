"""Changed models: each runs, or ends with an exception of the documented classes; no process ends by a signal."""

import ast
import os
import pathlib
import shutil
import subprocess
import sys
import tempfile

import pytest

SECONDS = float(os.environ.get("IPU_FUZZ_SECONDS", "20"))
# The time of a usual test is not enough for a long run; the process below is given its own.
pytestmark = [pytest.mark.slow, pytest.mark.timeout(SECONDS + 300)]
CHILD = pathlib.Path(__file__).parent / "fuzz_models.py"


def test_a_changed_model_runs_or_is_refused(tmp_path, fuzz_seed):
    path = tmp_path / "model.onnx"
    command = [sys.executable, str(CHILD), str(fuzz_seed), str(SECONDS), str(path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS + 240, cwd=tmp_path)
    if done.returncode != 0:
        kept = pathlib.Path(tempfile.mkdtemp(prefix="popart_fuzz_")) / "model.onnx"
        if path.exists():
            shutil.copy(path, kept)
        pytest.fail(f"seed {fuzz_seed}: code {done.returncode}, the model is {kept}\n{done.stderr[-3000:]}")
    counts = ast.literal_eval(done.stdout.strip().splitlines()[-1])
    assert counts.get("ran", 0) > 0 and counts.get("popart_exception", 0) > 0, counts
