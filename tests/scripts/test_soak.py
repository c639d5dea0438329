"""scripts/soak.py finds what grows, says which, and takes neither noise nor steps for growth."""

import importlib.util
import pathlib
import random
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
spec = importlib.util.spec_from_file_location("soak", ROOT / "scripts" / "soak.py")
soak = importlib.util.module_from_spec(spec)
spec.loader.exec_module(soak)

STEADY = {"resident MiB": 400.0, "threads": 7, "open files": 20, "processes": 2, "shared files": 0}


def samples(count=90, every=30.0, **changes):
    """An hour less the warm-up; `changes` are functions of the number of the sample."""
    changes = {name.replace("_", " "): change for name, change in changes.items()}
    return [
        (index * every, {name: changes.get(name, lambda i, v=value: v)(index) for name, value in STEADY.items()})
        for index in range(count)
    ]


def test_the_slope_is_that_of_least_squares():
    assert soak.slope([0, 1, 2, 3], [1, 3, 5, 7]) == 2
    assert soak.slope([0, 1, 2], [0, 1, 0]) == 0
    assert abs(soak.slope([0, 10, 20], [0, 0, 6]) - 0.3) < 1e-12


def test_what_stays_does_not_grow():
    assert soak.verdict(samples()) == []


def test_noise_and_one_step_of_the_allocator_are_no_growth():
    draw = random.Random(1)
    noisy = samples(**{"resident MiB": lambda i: 400 + draw.uniform(-8, 8), "threads": lambda i: 7 + i % 2})
    assert soak.verdict(noisy) == []
    assert soak.verdict(samples(**{"resident MiB": lambda i: 400 + (i > 45) * 4})) == []


@pytest.mark.parametrize(
    "name, each", [("resident MiB", 0.3), ("threads", 0.02), ("open files", 0.02), ("processes", 0.02)]
)
def test_slow_growth_is_found_and_named(name, each, capsys):
    assert soak.verdict(samples(**{name: lambda i: STEADY[name] + int(each * i * 10) / 10})) == [name]
    (row,) = (line for line in capsys.readouterr().out.splitlines() if line.startswith(name))
    assert row.endswith("GROWS")


def run(*arguments):
    return subprocess.run(
        [sys.executable, ROOT / "scripts" / "soak.py", *arguments], capture_output=True, text=True, timeout=240
    )


@pytest.mark.slow
@pytest.mark.alone
@pytest.mark.parametrize("leak, named", [("files", "open files"), ("memory", "resident MiB"), ("threads", "threads")])
def test_a_deliberate_leak_is_caught_within_twenty_seconds(leak, named):
    ended = run("--minutes", "0.34", "--every", "1", "--leak", leak)
    assert ended.returncode == 1, ended.stdout + ended.stderr
    assert ended.stderr.splitlines()[-1].startswith("these grow: ") and named in ended.stderr.splitlines()[-1]


def test_too_few_samples_are_no_verdict():
    ended = run("--minutes", "0.001")
    assert ended.returncode == 1
    assert "samples after the warm-up: soak longer" in ended.stderr
