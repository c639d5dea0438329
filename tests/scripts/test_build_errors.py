"""What is missing or too old stops the build at once with a sentence that says what to do."""

import os
import pathlib
import shutil
import subprocess
import sys
import sysconfig

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import needs


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


COMPILER = shutil.which("c++")
HEADERS = dict(needs.header_packages())


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """A machine that has all it takes, each thing pretended: programs in bin, headers in include."""

    def tool(name, command):
        path = tmp_path / "bin" / name
        path.parent.mkdir(exist_ok=True)
        path.write_text(f"#!/bin/sh\n{command}\n")
        path.chmod(0o755)

    tool("c++", f'exec {COMPILER} -nostdinc "$@"')
    tool("cmake", "echo cmake version 3.24.0")
    tool("ninja", "echo 1.11.1")
    for header in HEADERS:
        (tmp_path / "include" / header).parent.mkdir(parents=True, exist_ok=True)
        (tmp_path / "include" / header).touch()
    for name in ("CXX", "CMAKE_INCLUDE_PATH", "CMAKE_PREFIX_PATH"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    return tool


def told(*why, apt="", pip=""):
    cures = [f"  apt-get install {apt}"] * bool(apt) + [f"  pip install {pip}"] * bool(pip)
    return "\n".join(
        [
            "poptorch cannot be built:",
            *(f"  {one}" for one in why),
            "Run:",
            *cures,
            "  pip install --no-build-isolation .",
        ]
    )


def test_a_machine_that_lacks_nothing_is_told_nothing(machine):
    assert needs.lacking() == ""


@pytest.mark.parametrize("variable, below", [("CMAKE_INCLUDE_PATH", "include"), ("CMAKE_PREFIX_PATH", "")])
def test_headers_are_found_where_cmake_finds_them(machine, tmp_path, monkeypatch, variable, below):
    (tmp_path / "include").rename(tmp_path / "elsewhere")
    assert "libxsmm.h is not installed" in needs.lacking()
    (tmp_path / "prefix").mkdir()
    (tmp_path / "elsewhere").rename(tmp_path / "prefix" / "include")
    monkeypatch.setenv(variable, f"/nowhere{os.pathsep}{tmp_path / 'prefix' / below}")
    assert needs.lacking() == ""


@pytest.mark.parametrize("header", HEADERS)
def test_missing_header(machine, tmp_path, header):
    (tmp_path / "include" / header).unlink()
    assert needs.lacking() == told(f"{header} is not installed", apt=HEADERS[header])


def test_missing_headers_of_python(machine, tmp_path, monkeypatch):
    monkeypatch.setattr(needs.sysconfig, "get_path", lambda name: str(tmp_path))
    version = f"{sys.version_info[0]}.{sys.version_info[1]}"
    assert needs.lacking() == told(f"Python.h is not installed for {sys.executable}", apt=f"python{version}-dev")


def test_missing_compiler_of_setup_py(machine, tmp_path):
    (tmp_path / "bin" / "c++").unlink()
    assert needs.lacking() == told("a C++ compiler is not installed", apt="g++")


def test_a_compiler_that_does_not_run(machine, monkeypatch):
    monkeypatch.setenv("CXX", "/nowhere/c++ -pipe")
    assert needs.lacking() == told("the C++ compiler `/nowhere/c++ -pipe` does not run", apt="g++")


def test_a_compiler_that_is_too_old(machine):
    machine("c++", f'exec {COMPILER} -nostdinc -U__GNUC__ -D__GNUC__=11 -w "$@"')
    assert needs.lacking() == told("g++ 11 is too old: g++ 12 or newer is needed (CXX names it)", apt="g++-12")


def test_missing_cmake(machine, tmp_path):
    (tmp_path / "bin" / "cmake").unlink()
    assert needs.lacking() == told("CMake is not installed", pip="'cmake>=3.24'")


def test_a_cmake_that_is_too_old(machine):
    machine("cmake", "echo cmake version 3.18.4")
    assert needs.lacking() == told("CMake 3.18 is too old: 3.24 or newer is needed", pip="'cmake>=3.24'")


def test_missing_ninja(machine, tmp_path):
    (tmp_path / "bin" / "ninja").unlink()
    assert needs.lacking() == told("ninja is not installed", pip="ninja")


def test_all_that_is_missing_is_in_one_message(machine, tmp_path):
    for name in ("bin/ninja", "bin/cmake", "include/libxsmm.h", "include/fmt/core.h"):
        (tmp_path / name).unlink()
    assert needs.lacking() == told(
        "CMake is not installed",
        "ninja is not installed",
        "libxsmm.h is not installed",
        "fmt/core.h is not installed",
        apt="libxsmm-dev libfmt-dev",
        pip="'cmake>=3.24' ninja",
    )


@pytest.mark.parametrize("command", ["dist_info", "build_ext"])  # what pip asks for first, and what compiles
@pytest.mark.parametrize(
    "version, sentence",
    [
        ("2.12.1", "torch 2.12.1 is installed; this version of poptorch is built against torch 2.13"),
        (None, f"torch 2.13 is not installed for {sys.executable}, or pip hides it without --no-build-isolation"),
    ],
)
def test_setup_py_with_other_or_missing_torch(tmp_path, version, sentence, command):
    fake = tmp_path / "torch"
    fake.mkdir()
    fake.joinpath("__init__.py").write_text(
        "raise ImportError\n" if version is None else f"__version__ = {version!r}\n"
    )
    result = subprocess.run(
        [sys.executable, "setup.py", command],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
    )
    assert result.returncode == 1
    assert result.stderr.strip() == told(sentence, pip="torch==2.13.0")


@pytest.mark.parametrize("failing", ["", "cmake", "ninja"])
def test_setup_py_shows_what_the_build_says_and_how_it_ends(tmp_path, failing):
    """cmake and ninja, beside this Python as pip puts them, only tell that they ran."""
    folder = tmp_path / "bin"
    folder.mkdir()
    (folder / "python").symlink_to(sys.executable)
    for name, text in (("cmake", "version 3.25"), ("ninja", "[1/1] Building CXX object a.o\\na.cc:1: warning: odd")):
        (folder / name).write_text(
            f'#!/bin/sh\nprintf "{text}\\n"; [ {name} != "{failing}" ] || [ "$1" = --version ]\n'
        )
        (folder / name).chmod(0o755)
    result = subprocess.run(
        [folder / "python", "setup.py", "build_ext", "--build-lib", tmp_path / "out", "--build-temp", tmp_path / "tmp"],
        cwd=ROOT,
        env=dict(os.environ, PYTHONPATH=sysconfig.get_path("purelib")),
        capture_output=True,
        text=True,
    )
    assert result.returncode == (1 if failing else 0), result.stderr
    assert ("a.cc:1: warning: odd" in result.stdout.splitlines()) == (failing != "cmake")
    sentence = {"": "", "cmake": "configuring failed", "ninja": "compiling failed"}[failing]
    assert (f"poptorch was not built: {sentence}, as said above" in result.stderr) == bool(failing)


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
