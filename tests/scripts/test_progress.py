"""scripts/progress.py: what it shows of what ninja prints, when, and with which exit code."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
SCRIPT = ROOT / "scripts" / "progress.py"
sys.path.insert(0, str(ROOT / "scripts"))
from progress import Progress, missing_objects, weight

# Recorded from ninja 1.13 where no terminal was.
WARNING = """\
ninja: Entering directory `build'
[0/2] Re-checking globbed directories...
[1/2] Re-running CMake...
-- Configuring done (0.0s)
-- Generating done (0.0s)
-- Build files have been written to: build
[0/4] Re-checking globbed directories...
[1/5] Building CXX object CMakeFiles/x.dir/src/a.cc.o
src/a.cc:1:20: warning: unused variable 'unused' [-Wunused-variable]
    1 | int a(int x) { int unused = 3; return x; }
      |                    ^~~~~~
"""
ERROR = """\
[2/5] Building CXX object CMakeFiles/x.dir/src/b.cc.o
FAILED: [code=1] CMakeFiles/x.dir/src/b.cc.o 
/usr/bin/c++ -Werror -Wall -o CMakeFiles/x.dir/src/b.cc.o -c src/b.cc
src/b.cc: In function 'int b()':
src/b.cc:1:18: error: 'nothing' was not declared in this scope
    1 | int b() { return nothing; }
      |                  ^~~~~~~
[3/5] Building CXX object CMakeFiles/x.dir/src/c.cc.o
src/c.cc:1:20: warning: unused variable 'unused' [-Wunused-variable]
ninja: build stopped: subcommand failed.
"""  # noqa: W291


def told(text, missing=()):
    progress = Progress(dict(missing))
    shown = [progress.take(line) for line in text.splitlines()]
    return progress, [line for line in shown if line is not None]


def test_only_what_the_compiler_says_is_shown():
    progress, shown = told(WARNING)
    assert shown == WARNING.splitlines()[-3:]
    assert (progress.done, progress.total) == (1, 5)


def test_a_failed_build_ends_with_what_failed_and_its_error():
    progress, shown = told(WARNING + ERROR)
    assert [line for line in ERROR.splitlines() if not line.startswith("[")] == shown[3:]
    assert progress.end(1, 61).splitlines() == [
        "The build failed after 1 min 01 s, 3 of 5 steps done. What failed:",
        "  CMakeFiles/x.dir/src/b.cc.o",
        "    src/b.cc:1:18: error: 'nothing' was not declared in this scope",
    ]


def test_without_weights_the_rest_is_estimated_from_the_number_of_steps():
    progress, _ = told("[30/120] Building CXX object CMakeFiles/x.dir/src/a.cc.o\n")
    assert progress.line(100) == "[30/120] 1 min 40 s, about 5 min left"


def test_with_weights_the_rest_is_estimated_from_what_is_not_made_yet():
    missing = {f"CMakeFiles/x.dir/{name}.o": cost for name, cost in (("a", 600), ("b", 200), ("c", 200))}
    progress, _ = told("[1/4] Building CXX object CMakeFiles/x.dir/a.o\n", missing)
    assert progress.line(60) == "[1/4] 1 min 00 s, about 40 s left"
    assert (
        told("[1/100] Building CXX object CMakeFiles/x.dir/a.o\n", missing)[0].line(1)
        == "[1/100] 1 s, about 2 min left"
    )


def test_before_the_first_step_and_after_the_last_nothing_is_estimated():
    assert Progress({"a.o": 1}).line(20) == "[0/?] 20 s"
    assert told("[1/1] Building CXX object a.o\n", {"a.o": 1})[0].line(20) == "[1/1] 20 s"


def test_a_unit_weighs_as_much_as_its_sources(tmp_path):
    (tmp_path / "CMakeFiles/x.dir/Unity").mkdir(parents=True)
    (tmp_path / "a.cc").write_text("int i;\n" * 30)
    inside = "csrc/support/error.cc"  # units name sources of the repository from its top
    lines = (ROOT / inside).read_text().count("\n")
    unit = tmp_path / "CMakeFiles/x.dir/Unity/unity_1_cxx.cxx"
    unit.write_text(f'#include "{tmp_path}/a.cc"\n#include "{inside}"\n')
    headers = weight(tmp_path, "CMakeFiles/x.dir/nowhere.cc.o")
    assert weight(tmp_path, "CMakeFiles/x.dir/Unity/unity_1_cxx.cxx.o") == headers + 30 + lines
    assert weight(tmp_path, f"CMakeFiles/x.dir/{inside}.o") == headers + lines > headers


@pytest.fixture
def ninja(tmp_path, monkeypatch):
    """Makes a ninja of a shell command; it has two objects to make, one of which is there."""
    monkeypatch.setenv("PATH", f"{tmp_path}{os.pathsep}{os.environ['PATH']}")
    (tmp_path / "old.cc.o").touch()

    def make(command):
        listing = 'case "$*" in *"-t inputs"*) printf "old.cc.o\\nnew.cc.o\\nx.cc\\n"; exit;; esac'
        (tmp_path / "ninja").write_text(f"#!/usr/bin/env bash\n{listing}\n{command}\n")
        (tmp_path / "ninja").chmod(0o755)
        return [sys.executable, SCRIPT, tmp_path, "one", "two"]

    return make


def test_only_objects_that_are_not_there_are_missing(ninja, tmp_path):
    ninja("exit 1")
    assert list(missing_objects(tmp_path, ["one"])) == ["new.cc.o"]


@pytest.mark.parametrize("end, code", [("exit 0", 0), ("exit 3", 3), ("kill -9 $$", 137)])
def test_arguments_go_to_ninja_and_its_exit_code_comes_back(ninja, tmp_path, end, code):
    command = ninja(f'echo "[1/1] x"; echo "got $*"; {end}')
    run = subprocess.run([*command, "--jobs", "7"], capture_output=True, text=True)
    assert run.returncode == code
    assert run.stdout.splitlines()[0] == f"got -C {tmp_path} -j 7 one two"


def test_a_build_that_is_short_and_good_is_silent(ninja):
    run = subprocess.run([*ninja('echo "[1/2] x"; echo "[2/2] y"'), "--every", "1e6"], capture_output=True, text=True)
    assert (run.returncode, run.stdout, run.stderr) == (0, "", "")


def test_lines_come_while_ninja_runs_and_warnings_at_once(ninja, tmp_path):
    """The ninja here goes on only when what it printed has been seen."""
    wait = f"until [ -e {tmp_path}/seen$n ]; do sleep 0.01; done"
    command = ninja(f'n=1; echo "[1/2] x"; {wait}; n=2; echo "x.cc:1: warning: odd"; {wait}')
    with subprocess.Popen([*command, "--every", "0.05"], stdout=subprocess.PIPE, text=True) as run:
        assert any(line.startswith("[1/2] ") for line in run.stdout)
        (tmp_path / "seen1").touch()
        assert any(line == "x.cc:1: warning: odd\n" for line in run.stdout)
        (tmp_path / "seen2").touch()
        assert run.stdout.read().splitlines()[-1].startswith("built in ")
    assert run.returncode == 0


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_an_interrupt_reaches_ninja_which_ends_in_its_own_way(ninja, number):
    command = ninja("trap 'echo stopped; exit 130' INT TERM; echo ready; while :; do sleep 0.01; done")
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as run:
        assert run.stdout.readline() == "ready\n"
        run.send_signal(number)
        assert run.stdout.read() == "stopped\n"
    assert run.returncode == 130
