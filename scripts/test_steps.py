#!/usr/bin/env python3
"""The table of steps of scripts/test. Budgets are seconds on two slow cores with what compilers made before in ccache."""

import argparse
import os
import pathlib
import secrets
import signal
import subprocess
import sys
import tempfile

from run_steps import Run, Step

ROOT = pathlib.Path(__file__).resolve().parent.parent
PYTHON = ROOT / ".venv" / "bin" / "python"
CPUS = len(os.sched_getaffinity(0))
TENSORFLOW_PYTHON = ROOT / ".venv-tf" / "bin" / "python"  # made where CI runs, else by who wants it: scripts/setup --tensorflow
PYTHON_ENVIRONMENT = {
    "PYTHONPATH": str(ROOT),
    "IPU_OPT": str(ROOT / "build" / "release" / "ipu-opt"),
    "IPU_VERIFY": "passes",
    "PYTHONHASHSEED": "0",  # the order of sets is the same in every run
}
# LeakSanitizer needs ptrace, which containers may forbid. A test forks while threads run, which TSan would end at once.
ASAN = {"ASAN_OPTIONS": "detect_leaks=0"}
TSAN = {"TSAN_OPTIONS": "die_after_fork=0"}
WITHOUT_THREADS = "ParserFuzz*:ExecutableFuzz*:ProgramFuzz*:Text*:Verifier*"


def python_tests(name, budget, marks, *arguments, workers=min(CPUS, 4), needs=("build release",), **environment):
    """Tests side by side have one thread of OpenMP each: torch's second one would wait in the way of another test."""
    spread = ["-n", workers, "--dist", "loadgroup"] if workers > 1 else []
    return Step(
        name,
        budget,
        [PYTHON, "-m", "pytest", "-q", "-m", marks, *spread, *(arguments or ["tests"])],
        needs,
        {**PYTHON_ENVIRONMENT, "OMP_NUM_THREADS": "1", **environment},
    )


def cpp_tests(preset, budget, shards, without="", shuffle=False, **environment):
    """The C++ tests of a preset, in shards that run side by side; `shuffle`: in an order of its own, whose seed is printed."""
    filters = [f"--gtest_filter=-{without}"] if without else []
    filters += ["--gtest_shuffle"] if shuffle else []
    for shard in range(shards):
        yield Step(
            f"C++ tests, {preset}" + (f", {shard + 1} of {shards}" if shards > 1 else ""),
            budget,
            [ROOT / "build" / preset / "ipu_tests", "--gtest_brief=1", *filters],
            (f"build {preset}",),
            {**environment, "GTEST_TOTAL_SHARDS": str(shards), "GTEST_SHARD_INDEX": str(shard)},
        )


def tensorflow_tests(marks):
    """The tests of the TensorFlow front end, on the core that the release build made: they compile nothing. An import of TensorFlow
    takes seconds, so they run in few processes."""
    if not TENSORFLOW_PYTHON.exists() and not os.environ.get("CI"):
        print("left out: tests of TensorFlow (scripts/setup --tensorflow makes the environment that they run in)")
        return
    yield Step("setup for TensorFlow", 60, ["./scripts/setup", "--tensorflow"], ("setup",))
    yield tensorflow_test("TensorFlow tests", 300, TENSORFLOW_PYTHON, marks, "setup for TensorFlow")


def tensorflow_test(name, budget, python, marks, setup, warning=False):
    command = [python, "-m", "pytest", "-q", "-m", marks, "-n", min(CPUS, 2), "--dist", "loadgroup", "--durations=5", "tests/tensorflow"]
    environment = {**PYTHON_ENVIRONMENT, "PYTHONPATH": f"{ROOT}{os.pathsep}{ROOT / 'tensorflow_ipu' / 'src'}", "OMP_NUM_THREADS": "1"}
    return Step(name, budget, command, ("build release", setup), environment, warning=warning)


def other_tensorflows():
    """The oldest TensorFlow that the front end runs on, and whatever is the newest."""
    for version, warning in (("2.15.1", False), ("newest", True)):
        setup = f"setup for TensorFlow {version}"
        yield Step(setup, 120, ["./scripts/setup", "--tensorflow", version], ("setup",), warning=warning)
        python = ROOT / f".venv-tf-{version}" / "bin" / "python"
        yield tensorflow_test(f"TensorFlow {version} tests", 300, python, "not slow", setup, warning)


def build(preset, budget, *needs):
    return Step(f"build {preset}", budget, ["./scripts/build", preset], needs, aside=preset != "release")


def fuzzers(seconds, work):
    """Programs to begin from are made by the release build."""
    programs = work / "programs"
    programs.mkdir()
    time = {"IPU_FUZZ_SECONDS": str(seconds)}
    asan_tests = ROOT / "build" / "asan" / "ipu_tests"
    yield Step(
        "programs to fuzz",
        30,
        [PYTHON, "tests/executable/make_programs.py", programs],
        ("build release",),
        {**PYTHON_ENVIRONMENT, "POPTORCH_LOG_LEVEL": "ERR"},
    )
    yield Step(
        "fuzz files and text",
        6 * seconds + 30,
        [asan_tests, "--gtest_brief=1", "--gtest_filter=ExecutableFuzz*:ParserFuzz.mutated*"],
        ("build asan",),
        {**ASAN, **time},
    )
    yield Step(
        "fuzz programs",
        2 * seconds + 30,
        [asan_tests, "--gtest_brief=1", "--gtest_filter=ProgramFuzz.*"],
        ("build asan", "programs to fuzz"),
        {**ASAN, **time, "IPU_FUZZ_PROGRAMS": str(programs)},
    )
    yield Step(
        "fuzz records of TensorFlow",
        seconds + 60,
        [asan_tests, "--gtest_brief=1", "--gtest_filter=TensorflowRecordsFuzz.*"],
        ("build asan",),
        {**ASAN, **time},
    )
    for name, file in (
        ("poptorch.load", "tests/poptorch/files/test_fuzz.py"),
        ("PopART's models", "tests/popart/files/test_fuzz_popart.py"),
    ):
        yield python_tests(f"fuzz {name}", 4 * seconds + 60, "", file, workers=1, **time)


def random_seed():
    """For the order of tests; pytest prints it."""
    return secrets.randbelow(2**32)


def steps(tier, work):
    setup = Step("setup", 150, ["./scripts/setup", "test"])
    release = build("release", 90, "setup")
    if tier == "tiny":
        tests = [ROOT / "build" / "release" / "ipu_tests", "--gtest_brief=1", "--gtest_filter=-*Fuzz*:*Random*"]
        return [
            setup,
            release,
            Step("C++ tests", 20, tests, ("build release",)),
            python_tests("Python tests", 20, "tiny", workers=1),
        ]
    is_full = tier == "full"
    marks = "not alone" if is_full else "not slow"  # what must be alone is slow
    fresh = {"POPTORCH_TEST_FRESH": "1"} if is_full else {}
    table = [
        setup,
        release,
        Step("lint", 120, ["./scripts/lint"], ("setup",), aside=True),
        build("asan", 60, "build release"),
        python_tests("Python tests", 480, marks, "--durations=10", "tests", **fresh),
        *tensorflow_tests(marks),
        build("tsan", 60, "build asan"),
        *cpp_tests("release", 120, 1, shuffle=is_full),
        *cpp_tests("asan", 240, 4, **ASAN),
        *cpp_tests("tsan", 180, 2, WITHOUT_THREADS, **TSAN),
        *fuzzers(300 if is_full else 15, work),
        Step("marks", 60, [PYTHON, "scripts/prove_marks.py", "--sample", "20"], ("build release",), PYTHON_ENVIRONMENT),
    ]
    if is_full:
        table += [
            *other_tensorflows(),
            python_tests("Python tests, alone", 300, "alone", workers=1, needs=("Python tests",)),
            python_tests("Python tests, random order", 900, "not slow", "--occupied-ipu", "--random-order-seed", random_seed(), "tests"),
            Step("all marks", 3600, [PYTHON, "scripts/prove_marks.py", "--all"], ("build release",), PYTHON_ENVIRONMENT),
            Step("soak", 700, [PYTHON, "scripts/soak.py", "--minutes", "10"], ("build release",), PYTHON_ENVIRONMENT),
        ]
    return table


def main():
    parser = argparse.ArgumentParser(prog="scripts/test", description=__doc__)
    parser.add_argument("tier", nargs="?", choices=("default", "full", "tiny"), default="default")
    tier = parser.parse_args().tier
    os.environ.pop("PYTHONDONTWRITEBYTECODE", None)  # reading the tests takes half as long when they are compiled
    signal.signal(signal.SIGINT, signal.default_int_handler)  # a shell ignores it for what it starts in the background
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # ends the steps
    with tempfile.TemporaryDirectory() as folder:
        work = pathlib.Path(folder)
        run = Run(steps(tier, work), work, at_once=max(2, CPUS), root=ROOT)
        code = run.run()
    if tier != "tiny":
        subprocess.run([sys.executable, ROOT / "scripts" / "slowest.py"], check=False)
    sys.exit(code)


if __name__ == "__main__":
    main()
