"""scripts/test, with tools that do nothing: a step that fails fails the whole, also one that runs beside others."""

import pathlib
import shutil
import subprocess
import sys
import time

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
LOG = "# ninja log v6\n0\t1500\t0\tslow.o\tabc\n10\t20\t0\tfast.o\tabc\n"


@pytest.fixture
def tree(tmp_path):
    for folder in ("scripts", ".venv/bin", "build/release", "build/asan", "build/tsan"):
        (tmp_path / folder).mkdir(parents=True)
    for script in ("test", "slowest.py"):
        shutil.copy(ROOT / "scripts" / script, tmp_path / "scripts")
    for tool in ("scripts/lint", "build/release/ipu_tests", "build/asan/ipu_tests", "build/tsan/ipu_tests"):
        make_tool(tmp_path / tool, f"echo did {tool}")
    make_tool(tmp_path / "scripts" / "build", "echo built $1")
    make_tool(
        tmp_path / ".venv" / "bin" / "python", f'case "$1" in *.py) exec {sys.executable} "$@";; esac; echo did "$@"'
    )
    (tmp_path / "tests" / "executable").mkdir(parents=True)
    (tmp_path / "tests" / "executable" / "make_programs.py").write_text("")
    (tmp_path / "build" / "asan" / ".ninja_log").write_text(LOG)
    return tmp_path


def make_tool(path, command):
    path.write_text(f"#!/usr/bin/env bash\n{command}\n")
    path.chmod(0o755)


def run_all(tree):
    return subprocess.run([tree / "scripts" / "test"], capture_output=True, text=True, timeout=60)


def test_every_step_runs_and_the_slowest_are_named(tree):
    run = run_all(tree)
    assert run.returncode == 0, run.stdout + run.stderr
    for did in (
        "built release",
        "did scripts/lint",
        "-m pytest",
        *(f"did build/{p}/ipu_tests" for p in ("release", "asan", "tsan")),
    ):
        assert did in run.stdout
    steps, files = run.stdout.split("slowest steps")[1].split("slowest files to build")
    assert len(steps.strip().splitlines()) == 11 and "Python tests" in steps
    assert files.strip().splitlines()[1:] == ["      1.5 s  asan: slow.o", "      0.0 s  asan: fast.o"]


@pytest.mark.parametrize(
    "tool", ["scripts/lint", "build/release/ipu_tests", "build/asan/ipu_tests", "build/tsan/ipu_tests"]
)
def test_a_step_that_fails_ends_the_run(tree, tool):
    make_tool(tree / tool, "exit 3")
    run = run_all(tree)
    assert run.returncode == 3
    assert "slowest steps" in run.stdout


@pytest.mark.parametrize(
    "preset, next_step", [("asan", "did build/asan/ipu_tests"), ("tsan", "did build/tsan/ipu_tests")]
)
def test_a_build_beside_tests_that_fails_ends_the_run_and_is_shown(tree, preset, next_step):
    make_tool(tree / "scripts" / "build", f'[ "$1" != {preset} ] || {{ echo "does not compile" >&2; exit 4; }}')
    run = run_all(tree)
    assert run.returncode == 4
    assert "does not compile" in run.stderr and next_step not in run.stdout


def test_a_build_beside_tests_ends_when_a_test_fails(tree):
    make_tool(tree / "scripts" / "build", f'[ "$1" != asan ] || {{ echo $$ > {tree}/pid; exec sleep 300; }}')
    make_tool(tree / "build/release/ipu_tests", f"while [ ! -s {tree}/pid ]; do sleep 0.05; done; exit 3")
    assert run_all(tree).returncode == 3
    state = pathlib.Path("/proc") / (tree / "pid").read_text().strip() / "stat"
    until = time.monotonic() + 20  # it was told; the lowest of priorities waits for its turn to end
    while state.exists() and state.read_text().split()[2] not in "ZX":
        assert time.monotonic() < until
        time.sleep(0.05)
