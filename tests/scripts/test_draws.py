"""tests/conftest.py: a test draws the same in every order and by itself; fresh draws say how to repeat them."""

import functools
import os
import pathlib
import re
import shutil
import subprocess
import sys

import pytest

CONFTEST = pathlib.Path(__file__).resolve().parents[1] / "conftest.py"
DRAWS = """
import random
import numpy, pytest
from hypothesis import given, strategies

RNG, OWN = numpy.random.default_rng(3), random.Random(4)

def say(name, *values):
    print("DRAWN", name, *values)

@pytest.fixture(scope="module")
def shared():
    return random.random()

@pytest.mark.parametrize("case", [0, 1, 2])
def test_generators(case, shared):
    say(f"{__name__} {case}", random.random(), numpy.random.random(), RNG.random(), OWN.random(), shared)

@given(strategies.integers(0, 10**9))
def test_cases(number):
    say(f"{__name__} cases", number)
"""


@pytest.fixture(scope="module")
def drawn(tmp_path_factory):
    """What the tests of two files draw, by test, in a run of pytest with these arguments; with it, its output."""
    folder = tmp_path_factory.mktemp("draws")
    shutil.copy(CONFTEST, folder)
    for name in ("test_one", "test_two"):
        (folder / f"{name}.py").write_text(DRAWS)
    (folder / "three.py").write_text("import random, numpy\nX = random.random(), numpy.random.random()\n")

    @functools.cache
    def run(*arguments, **variables):
        done = subprocess.run(
            [sys.executable, "-m", "pytest", "-q", "-s", "-p", "no:cacheprovider", "--rootdir", folder, *arguments],
            cwd=folder,
            env={**os.environ, "POPTORCH_TEST_FRESH": "0", **variables},
            capture_output=True,
            text=True,
        )
        values = {}
        for name, rest in re.findall(r"DRAWN (\w+ \w+) (.*)", done.stdout):
            values.setdefault(name, []).append(rest)
        return values, done

    return run


def test_order_and_the_other_tests_change_no_draw(drawn):
    values, done = drawn()
    assert done.returncode == 0 and len(values) == 8, done.stdout
    assert len({rest for name, all_of_it in values.items() if "cases" not in name for rest in all_of_it}) == 6
    shuffled, done = drawn("--random-order-seed=5")
    assert shuffled == values and list(shuffled) != list(values)
    assert "random order; to repeat it: --random-order-seed=5" in done.stdout
    alone, _ = drawn("test_two.py::test_generators[1]")
    assert alone == {"test_two 1": values["test_two 1"]}


def test_fresh_draws_say_how_to_repeat_them(drawn):
    values, _ = drawn()
    fresh, done = drawn(POPTORCH_TEST_FRESH="1")
    (seed,) = set(re.findall(r"^fresh draws; to repeat them: (--hypothesis-seed=\d+)$", done.stdout, re.M))
    assert all(fresh[name] != values[name] for name in values)
    again, _ = drawn(seed)
    assert again == fresh


def test_a_file_that_draws_when_it_is_read_is_refused(drawn):
    _, done = drawn("three.py")
    assert done.returncode == pytest.ExitCode.USAGE_ERROR
    assert "these draw from a global generator when they are imported: three.py" in done.stderr
