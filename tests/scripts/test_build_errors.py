"""A missing compiler, or a missing or other torch, stops the build at once with a sentence that says what to do."""

import os
import pathlib
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]


def configure(tmp_path, *arguments, **environment):
    beside_python = pathlib.Path(sys.executable).parent / "cmake"
    cmake = beside_python if beside_python.exists() else shutil.which("cmake")
    return subprocess.run(
        [cmake, "-S", ROOT, "-B", tmp_path / "build", "-G", "Unix Makefiles", *arguments],
        env=dict(os.environ, **environment),
        capture_output=True,
        text=True,
    )


def message(result):
    return " ".join(result.stderr.split())


def test_a_missing_compiler_is_named_with_the_command_that_installs_it(tmp_path):
    empty = tmp_path / "bin"
    empty.mkdir()
    for tool in ("make", "sh", "uname"):
        empty.joinpath(tool).symlink_to(shutil.which(tool))
    result = configure(tmp_path, "-DIPU_TORCH=OFF", PATH=str(empty), CXX="")
    assert result.returncode != 0
    assert "A C++ compiler is missing. Install one with: apt-get install g++" in message(result)


@pytest.mark.parametrize(
    "version, sentence",
    [
        (
            "2.12.1+cpu",
            "torch 2.12.1+cpu is installed; this version of poptorch is built against torch 2.13. "
            "Install it with: pip install torch==2.13.0",
        ),
        (None, "torch is not installed for"),
    ],
)
def test_other_or_missing_torch(tmp_path, version, sentence):
    fake = tmp_path / "fake" / "torch"
    fake.mkdir(parents=True)
    body = (
        "raise ImportError\n"
        if version is None
        else (f"__version__ = {version!r}\nclass utils:\n    cmake_prefix_path = '/nowhere'\n")
    )
    fake.joinpath("__init__.py").write_text(body)
    result = configure(
        tmp_path, "-DIPU_TESTS=OFF", f"-DPython3_EXECUTABLE={sys.executable}", PYTHONPATH=str(fake.parent)
    )
    assert result.returncode != 0
    assert sentence in message(result)


@pytest.mark.parametrize(
    "version, sentence",
    [
        ("2.12.1", "poptorch needs torch 2.13, but torch 2.12.1 is installed: run `pip install torch==2.13.0`"),
        (None, "run `pip install torch==2.13.0`, then `pip install --no-build-isolation .`"),
    ],
)
def test_setup_py_with_other_or_missing_torch(tmp_path, version, sentence):
    fake = tmp_path / "torch"
    fake.mkdir()
    fake.joinpath("__init__.py").write_text(
        "raise ImportError\n" if version is None else f"__version__ = {version!r}\n"
    )
    result = subprocess.run(
        [sys.executable, "setup.py", "build_ext", "--build-lib", tmp_path / "out", "--build-temp", tmp_path / "tmp"],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
    )
    assert result.returncode != 0
    assert sentence in message(result)


@pytest.mark.slow
@pytest.mark.timeout(900)
def test_pip_install_without_build_isolation_gives_a_working_package(tmp_path):
    site = tmp_path / "site"
    subprocess.run(
        [
            sys.executable,
            "-m",
            "pip",
            "install",
            "--quiet",
            "--no-build-isolation",
            "--no-deps",
            "--target",
            site,
            ROOT,
        ],
        check=True,
        capture_output=True,
    )
    code = (
        "import poptorch, torch; assert poptorch.__file__.startswith(%r); "
        "x = torch.randn(4, 3); w = torch.nn.Linear(3, 2); "
        "torch.testing.assert_close(poptorch.inferenceModel(w)(x), w(x))" % str(site)
    )
    result = subprocess.run(
        [sys.executable, "-c", code],
        cwd=tmp_path,
        env=dict(os.environ, PYTHONPATH=str(site)),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 0, result.stderr
