"""tests/conftest.py where there is no TensorFlow, as in the main environment: its tests are left out, with one line."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

TESTS = pathlib.Path(__file__).resolve().parents[1]
LINE = "left out: tests/tensorflow, because there is no TensorFlow here"
TEST = """
import importlib.util

def test_the_folder_of_tests_does_not_pass_for_the_library():
    assert importlib.util.find_spec("tensorflow") is None
"""


@pytest.fixture
def folder(tmp_path):
    """A copy of what matters of tests/, with one test beside the folder `tensorflow`."""
    shutil.copy(TESTS / "conftest.py", tmp_path)
    (tmp_path / "tensorflow").mkdir()
    shutil.copy(TESTS / "tensorflow" / "conftest.py", tmp_path / "tensorflow")
    (tmp_path / "tensorflow" / "test_here.py").write_text("import tensorflow\n")
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "test_other.py").write_text(TEST)
    return tmp_path


@pytest.mark.parametrize("asked, count", [("tensorflow other", 1), ("other", 0)])
def test_tests_of_tensorflow_are_left_out_with_one_line(folder, asked, count):
    command = [
        sys.executable,
        "-m",
        "pytest",
        "-q",
        "-p",
        "no:cacheprovider",
        "-n",
        "0",
        "--rootdir",
        folder,
        *asked.split(),
    ]
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PYTHONPATH": ""}, capture_output=True, text=True)
    assert done.returncode == 0 and "1 passed" in done.stdout, done.stdout + done.stderr
    assert done.stdout.count(LINE) == count
