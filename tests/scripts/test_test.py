"""scripts/test: steps wait for what they need, a failure is shown and fails the run, and the table names what took long."""

import os
import pathlib
import signal
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "scripts"))

import test_steps
from run_steps import Run, Step

LONG = 10**6  # a budget that nothing breaks


def shell(name, command, *needs, budget=LONG, **settings):
    return Step(name, budget, ["sh", "-c", command], needs, **settings)


def run(folder, *steps, at_once=2):
    """(exit code, what was shown) of a run in `folder`."""
    shown = []
    code = Run(steps, folder, at_once=at_once, root=folder, show=shown.append).run()
    return code, "\n".join(shown)


def test_a_step_begins_when_what_it_needs_has_ended(tmp_path):
    code, _ = run(tmp_path, shell("a", "echo a >> order"), shell("b", "echo b >> order", "a"), shell("c", "echo c >> order", "b"))
    assert code == 0 and (tmp_path / "order").read_text() == "a\nb\nc\n"


def test_steps_that_need_nothing_of_each_other_run_side_by_side(tmp_path):
    # Each waits for the other to have begun.
    meet = "touch {}; while [ ! -e {} ]; do sleep 0.01; done"
    assert run(tmp_path, shell("a", meet.format("a", "b")), shell("b", meet.format("b", "a")))[0] == 0


def test_no_more_steps_run_at_once_than_may(tmp_path):
    alone = "mkdir lock && sleep 0.05 && rmdir lock"
    assert run(tmp_path, *(shell(name, alone) for name in "abcd"), at_once=1)[0] == 0


def test_a_failed_step_is_shown_and_stops_only_what_needs_it(tmp_path):
    steps = [
        shell("bad", "echo it broke; exit 3"),
        shell("needs bad", "touch needs_bad", "bad"),
        shell("needs both", "touch needs_both", "good", "needs bad"),
        shell("good", "touch good"),
        shell("needs good", "touch needs_good", "good"),
    ]
    code, shown = run(tmp_path, *steps)
    assert code == 3 and "it broke" in shown
    assert (tmp_path / "good").exists() and (tmp_path / "needs_good").exists()
    assert not (tmp_path / "needs_bad").exists() and not (tmp_path / "needs_both").exists()
    assert shown.count("left out") == 4  # two lines, two rows of the table


def test_a_warning_that_fails_is_shown_and_fails_nothing(tmp_path):
    code, shown = run(tmp_path, shell("newest", "echo it broke; exit 3", warning=True))
    assert code == 0 and "it broke" in shown and "failed, which is a warning" in shown


def test_a_step_that_a_signal_ends_fails_the_run(tmp_path):
    assert run(tmp_path, shell("killed", "kill -9 $$"))[0] == 128 + signal.SIGKILL


@pytest.mark.parametrize("line", ["12 passed, 1 skipped in 3.00s", "[  PASSED  ] 12 tests."])
def test_what_a_step_that_passes_counted_is_shown(tmp_path, line):
    assert f"passed   0:00 tests: {line}" in run(tmp_path, shell("tests", f"echo one; echo '{line}'; echo more"))[1]


def test_a_step_gets_its_variables(tmp_path):
    assert run(tmp_path, shell("a", '[ "$SHARD" = 2 ]', environment={"SHARD": "2"}))[0] == 0


def test_the_table_marks_what_took_longer_than_its_budget_and_fails_nothing(tmp_path):
    code, shown = run(tmp_path, shell("slow", "true", budget=0), shell("quick", "true"))
    *_, slow, quick, _all, over = shown.splitlines()
    assert code == 0 and slow.endswith("over budget") and not quick.endswith("over budget")
    assert over == "over budget: slow"


def test_steps_end_with_the_run(tmp_path):
    (tmp_path / "program.py").write_text(
        "import signal, sys\n"
        f"sys.path.insert(0, {str(ROOT / 'scripts')!r})\n"
        "from run_steps import Run, Step\n"
        "signal.signal(signal.SIGTERM, lambda *_: sys.exit(5))\n"
        "Run([Step('a', 9, ['sh', '-c', 'sleep 600 & echo $! > inner; echo begun; wait'])], '.', every=0.05).run()\n"
    )
    program = subprocess.Popen([sys.executable, "-u", "program.py"], cwd=tmp_path, stdout=subprocess.PIPE, text=True)
    program.stdout.readline()  # a line of progress: the step runs
    while not (tmp_path / "inner").exists() or not (tmp_path / "inner").read_text().strip():
        pass
    program.terminate()
    assert program.wait() == 5
    inner = pathlib.Path("/proc") / (tmp_path / "inner").read_text().strip()
    while inner.exists() and (inner / "stat").read_text().split()[2] not in "ZX":  # the test's time limit ends this
        pass


@pytest.mark.parametrize("tier", ["default", "full", "tiny"])
def test_steps_need_only_steps_of_the_table(tmp_path, tier):
    steps = test_steps.steps(tier, tmp_path)
    names = [step.name for step in steps]
    assert len(set(names)) == len(names)
    for step in steps:
        assert set(step.needs) <= set(names), step.name


def commands(tmp_path, tier):
    return [" ".join(map(str, step.command)) for step in test_steps.steps(tier, tmp_path)]


def test_slow_tests_run_in_full_alone(tmp_path):
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    default = [c for c in commands(tmp_path / "a", "default") if "-m pytest" in c and "tests/" not in c]
    full = [c for c in commands(tmp_path / "b", "full") if "-m pytest" in c and "tests/" not in c]
    assert default and all("not slow" in c for c in default)
    assert any("-m not alone" in c for c in full) and any("-m alone" in c for c in full)  # together all


def test_an_unknown_tier_is_an_error():
    result = subprocess.run([ROOT / "scripts" / "test", "everything"], capture_output=True, text=True)
    assert result.returncode == 2 and "everything" in result.stderr


def test_the_slowest_files_to_build_are_named(tmp_path):
    (tmp_path / "scripts").mkdir()
    (tmp_path / "scripts" / "slowest.py").write_text((ROOT / "scripts" / "slowest.py").read_text())
    (tmp_path / "build" / "asan").mkdir(parents=True)
    log = "# ninja log v6\n0\t1500\t0\tslow.o\tabc\n10\t20\t0\tfast.o\tabc\n"
    (tmp_path / "build" / "asan" / ".ninja_log").write_text(log)
    shown = subprocess.run(
        [sys.executable, tmp_path / "scripts" / "slowest.py"], capture_output=True, text=True, check=True, env=dict(os.environ)
    ).stdout
    assert shown.splitlines()[1:] == ["      1.5 s  asan: slow.o", "      0.0 s  asan: fast.o"]


def test_files_that_begin_first_are_there():
    lines = (ROOT / "tests" / "long_files.txt").read_text().splitlines()
    files = [line for line in lines if not line.startswith("#")]
    assert files and all((ROOT / file).is_file() for file in files)


@pytest.mark.parametrize("has_environment, ci", [(True, ""), (False, "1"), (False, "")])
def test_tests_of_tensorflow_run_where_there_is_an_environment_or_ci_makes_one(monkeypatch, capsys, tmp_path, has_environment, ci):
    monkeypatch.setenv("CI", ci)
    python = tmp_path / "python"
    if has_environment:
        python.touch()
    monkeypatch.setattr(test_steps, "TENSORFLOW_PYTHON", python)
    names = [step.name for step in test_steps.steps("full", tmp_path)]
    is_in = has_environment or bool(ci)
    assert ("TensorFlow tests" in names) == ("setup for TensorFlow" in names) == is_in
    said = capsys.readouterr().out
    assert said == ("" if is_in else "left out: tests of TensorFlow (scripts/setup --tensorflow makes the environment that they run in)\n")
