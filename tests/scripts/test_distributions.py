"""What the distributions hold and ask for, and that two with the same core are not installed together."""

import importlib.util
import os
import pathlib
import re
import subprocess
import sys
import tomllib

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))
import distributions
import needs
from ipu_common import one_core


def setup(*arguments, folder=ROOT, **environment):
    """What setup.py prints."""
    done = subprocess.run(
        [sys.executable, folder / "setup.py", "-q", *arguments],
        cwd=folder,
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout


def test_neither_has_a_folder_tensorflow_and_the_core_alone_has_no_torch(tmp_path):
    """A folder of that name would make `import tensorflow` succeed where there is none."""
    for torch, name in (("ON", "poptorch"), ("OFF", "ipu-core")):
        built = tmp_path / name
        setup("build_py", "--build-lib", built, IPU_TORCH=torch)
        tops = {path.name for path in built.iterdir()}
        assert tops == {"ipu_common", "ipu_core", "popart", "popart_core.py", "popdist", "popxl"} | (
            {"poptorch"} if torch == "ON" else set()
        )
        find = "import importlib.util; print(importlib.util.find_spec('tensorflow'))"
        found = subprocess.run(
            [sys.executable, "-c", find], env={**os.environ, "PYTHONPATH": str(built)}, capture_output=True, text=True
        )
        assert found.stdout == "None\n"


def test_what_each_requires():
    assert any(name.startswith("torch==") for name in distributions.POPTORCH.requirements)
    assert distributions.IPU_CORE.requirements == ["numpy", "onnx"] and setup("--name", IPU_TORCH="OFF") == "ipu-core\n"
    project = tomllib.loads((ROOT / "tensorflow_ipu" / "pyproject.toml").read_text())["project"]
    assert project["dependencies"] == ["tensorflow-cpu>=2.21,<2.22", "numpy"] and project["name"] == "tensorflow-ipu"


@pytest.mark.parametrize("value, is_core", [("ON", False), ("OFF", True), ("off", True), ("0", True), ("1", False)])
def test_a_variable_chooses_the_distribution(value, is_core):
    assert (distributions.wanted({"IPU_TORCH": value}) is distributions.IPU_CORE) == is_core
    assert distributions.wanted({}) is distributions.POPTORCH


def test_all_have_one_version():
    version = re.compile(r'^__version__ = "([^"]+)"', re.M)
    of_poptorch = version.search((ROOT / "poptorch" / "__init__.py").read_text())[1]
    assert (
        version.search((ROOT / "tensorflow_ipu" / "src" / "ipu_tensorflow" / "__init__.py").read_text())[1]
        == of_poptorch
    )


def test_both_at_once_are_refused_with_the_command_that_helps(tmp_path):
    one_core.check(tmp_path)
    (tmp_path / "poptorch-3.4.0+open.1.dist-info").mkdir()
    one_core.check.__wrapped__(tmp_path)
    (tmp_path / "ipu_core-3.4.0+open.1.dist-info").mkdir()
    with pytest.raises(ImportError, match=r"both installed in .* pip uninstall -y poptorch ipu-core"):
        one_core.check.__wrapped__(tmp_path)


def test_the_core_without_torch_asks_for_pybind11(monkeypatch):
    find = importlib.util.find_spec
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "pybind11" else find(name))
    message = needs.lacking(has_torch=False).splitlines()
    assert message[0] == "ipu-core cannot be built:" and message[-1] == "  IPU_TORCH=OFF pip install ."
    assert f"  pybind11 is not installed for {sys.executable}" in message and "torch" not in "".join(message[:-1])


def test_the_wheel_of_tensorflow_has_its_modules_inside_tensorflow_and_no_file_of_it(tmp_path):
    built = tmp_path / "built"
    setup("build_py", "--build-lib", built, folder=ROOT / "tensorflow_ipu")
    files = {path.relative_to(built).as_posix() for path in built.rglob("*") if path.is_file() and path.suffix != ".so"}
    overlay, own = ROOT / "tensorflow_ipu" / "overlay", ROOT / "tensorflow_ipu" / "src"
    wanted = {path.relative_to(overlay).as_posix() for path in overlay.rglob("*.py")}
    assert files == wanted | {path.relative_to(own).as_posix() for path in (own / "ipu_tensorflow").rglob("*.py")}
    assert "tensorflow/python/ipu/__init__.py" in files and "sitecustomize.py" not in files
    assert not files & {"tensorflow/__init__.py", "tensorflow/python/__init__.py", "tensorflow/compiler/__init__.py"}
