"""scripts/build and scripts/demo, with tools that only tell what they were asked."""

import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PROGRAM = """\
import sys, neighbour
print("started", sys.argv[1:], __name__)
print("epoch 1")
"""


@pytest.fixture
def tree(tmp_path):
    for folder in ("scripts", ".venv/bin", "examples"):
        (tmp_path / folder).mkdir(parents=True)
    for script in ("build", "demo", "timed.sh", "progress.py", "first_line.py"):
        shutil.copy(ROOT / "scripts" / script, tmp_path / "scripts")
    make_tool(tmp_path / "scripts" / "setup", "")
    make_tool(tmp_path / ".venv/bin/python", f'exec {sys.executable} "$@"')
    build = tmp_path / "build/release"
    make_tool(
        tmp_path / ".venv/bin/cmake",
        f'echo "cmake $*" >> {tmp_path}/calls; mkdir -p {build}; touch {build}/build.ninja; '
        f'for a in "$@"; do case "$a" in -DIPU_UNITS=*) echo "IPU_UNITS:BOOL=${{a#*=}}" > {build}/CMakeCache.txt;; esac; done',
    )
    make_tool(
        tmp_path / ".venv/bin/ninja", f'case "$*" in *"-t inputs"*) exit;; esac; echo "ninja $*" >> {tmp_path}/calls'
    )
    (tmp_path / "examples/train_digits.py").write_text(PROGRAM)
    (tmp_path / "examples/neighbour.py").write_text("")
    return tmp_path


def make_tool(path, command):
    path.write_text(f"#!/usr/bin/env bash\n{command}\n")
    path.chmod(0o755)


def run(tree, script, *arguments, **environment):
    (tree / "calls").write_text("")
    inherited = {name: value for name, value in os.environ.items() if name not in ("IPU_UNITS", "STEPS", "CI")}
    done = subprocess.run(
        [tree / "scripts" / script, *arguments], env={**inherited, **environment}, capture_output=True, text=True
    )
    return done, (tree / "calls").read_text().splitlines()


def test_a_new_folder_translates_many_sources_at_once_and_says_what_it_does(tree):
    done, (configured, built) = run(tree, "build", JOBS="5")
    assert done.returncode == 0, done.stderr
    assert configured.startswith("cmake --preset release ") and "-DIPU_UNITS=ON" in configured
    assert built == "ninja -C build/release -j 5"
    assert done.stdout == "Configuring build/release\nBuilding build/release, 5 compilers side by side\n"


def test_a_developer_may_ask_for_file_by_file_and_the_folder_keeps_it(tree):
    assert "-DIPU_UNITS=OFF" in run(tree, "build", IPU_UNITS="OFF")[1][0]
    for asked in ({}, {"IPU_UNITS": "OFF"}):
        done, calls = run(tree, "build", **asked)
        assert len(calls) == 1 and calls[0].startswith("ninja") and (done.stdout, done.stderr) == ("", "")
    done, calls = run(tree, "build", IPU_UNITS="ON")
    assert len(calls) == 1 and done.returncode == 0
    assert done.stderr == "build/release keeps how it translates sources: remove it for IPU_UNITS=ON\n"


def test_targets_go_to_ninja(tree):
    assert (
        run(tree, "build", "release", "ipu", "ipu_core", JOBS="1")[1][1] == "ninja -C build/release -j 1 ipu ipu_core"
    )


def test_a_configuration_that_fails_is_shown_and_ends_the_build(tree):
    make_tool(tree / ".venv/bin/cmake", "echo 'libxsmm is missing'; exit 1")
    done, calls = run(tree, "build")
    assert (done.returncode, done.stderr, calls) == (1, "libxsmm is missing\n", [])


def test_a_build_that_fails_fails(tree):
    make_tool(tree / ".venv/bin/ninja", "exit 3")
    assert run(tree, "build")[0].returncode == 3


def test_the_demo_builds_what_it_needs_and_ends_with_a_table_of_steps(tree):
    done, calls = run(tree, "demo", "--more")
    assert done.returncode == 0, done.stderr
    assert calls[1].endswith(" poptorch_core ipu_core")
    program, table = done.stdout.split("where the time went:\n")
    assert program.splitlines()[-2:] == ["started ['--more'] __main__", "epoch 1"]
    rows = [re.fullmatch(r" +(\d+\.\d) s  (.*)", line).groups() for line in table.splitlines()]
    assert [name for _, name in rows] == ["setup", "configure", "build", "first line", "the rest", "all"]
    *parts, whole = (float(seconds) for seconds, _ in rows)
    assert whole == pytest.approx(sum(parts), abs=0.01)
    assert [line.split("  ")[-1] for line in run(tree, "demo")[0].stdout.splitlines()[-5:]] == [
        "setup",
        "build",
        "first line",
        "the rest",
        "all",
    ]


def test_a_demo_that_fails_fails_without_a_table(tree):
    (tree / "examples/train_digits.py").write_text("raise SystemExit(5)\n")
    done, _ = run(tree, "demo")
    assert done.returncode == 5 and "where the time went" not in done.stdout


@pytest.mark.parametrize(
    "word, noted", [("epoch", "1.0\tfirst line\n1.0\tthe rest\n"), ("nothing", "1.0\tfirst line\n0.0\tthe rest\n")]
)
def test_the_first_line_is_the_first_that_begins_with_the_word(tree, word, noted, monkeypatch, capsys):
    """The clock here is one second further each time it is read."""
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import first_line

    readings = iter(range(100))
    monkeypatch.setattr(first_line.time, "monotonic", lambda: next(readings))
    monkeypatch.setattr(
        sys, "argv", ["first_line.py", str(tree / "steps"), word, str(tree / "examples/train_digits.py")]
    )
    monkeypatch.setattr(sys, "path", list(sys.path))
    first_line.main()
    assert capsys.readouterr().out.endswith("epoch 1\n")
    assert (tree / "steps").read_text() == noted
