#!/usr/bin/env python3
"""Finds worthless marks: runs the tests marked `shows(NAME)` with NAME made to do nothing (scripts/name_removal.py).

scripts/prove_marks.py NAME ...                 these names
scripts/prove_marks.py --sample 40 --seed 1     as many names, the same for the same seed; without tests that are marked slow
scripts/prove_marks.py --all [--package popxl]  all names, of one package or of all three

Fails when a marked test passes all the same. Each name has a process of its own, forked from one that has imported the package.
"""

import argparse
import importlib
import importlib.metadata
import json
import os
import pathlib
import random
import signal
import sys
import tempfile
import time

import name_removal
import public_names
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_OF_PROGRAMS = """import os
if "PROVE_NAME" in os.environ:
    import name_removal
    name_removal.remove_in_program()
"""
SECONDS = 120  # of one test; a name that does nothing may make it wait for ever
PRELOADED = {
    "poptorch": ("poptorch",),
    "popart": ("popart", "popart._internal.ir", "popart.session", "popart.builder", "onnx"),
    "popxl": ("popxl", "popart._internal.ir", "popart.session"),
}


class Proof:
    """The pytest plugin of one run: takes the name away, runs the tests that are marked with it, notes what became of them."""

    def __init__(self, name):
        self.name, self.passed, self.failed = name, set(), set()
        self._is_removed = False

    def pytest_configure(self, config):
        """What is deleted is deleted before the tests are imported."""
        self._is_removed = bool(self.name) and name_removal.remove_early(self.name)

    def pytest_collection_modifyitems(self, config, items):
        if self.name:
            items[:] = [item for item in items if any(self.name in mark.args for mark in item.iter_markers("shows"))]
            if not self._is_removed:
                name_removal.remove(self.name)

    def pytest_runtest_setup(self, item):
        if item.nodeid.split("[")[0] in self.failed:
            pytest.skip("failed with other arguments")

    def pytest_runtest_logreport(self, report):
        test = report.nodeid.split("[")[0]
        if report.failed:
            self.failed.add(test)
        elif report.when == "call" or report.skipped:
            self.passed.add(test)

    def pytest_collectreport(self, report):
        """A file that cannot be imported fails with all its tests."""
        if report.failed:
            self.failed.add(report.nodeid)


def _run_here(tests, folder, name, options, result):
    """In the forked process: runs the tests, and writes which passed and which failed."""
    os.environ["PROVE_NAME"] = name
    log = os.open(f"{result}.log", os.O_WRONLY | os.O_CREAT)
    os.dup2(log, 1)
    os.dup2(log, 2)
    proof = Proof(name)
    fixed = ["-q", "--tb=no", f"--timeout={SECONDS}", "-pno:cacheprovider", "-pno:randomly", "-cpyproject.toml"]
    code = pytest.main([*fixed, f"--rootdir={folder}", *options, *(f"{folder}/{test}" for test in tests)], [proof])
    if code <= 1 or code == pytest.ExitCode.NO_TESTS_COLLECTED or proof.failed:
        result.write_text(json.dumps([sorted(proof.passed - proof.failed), sorted(proof.failed)]))


def run(tests, folder, name="", options=()):
    """(tests that passed, tests that failed) without `name`. One that ends its process has failed."""
    with tempfile.TemporaryDirectory() as start:
        result = pathlib.Path(start) / "result"
        child = os.fork()
        if child == 0:
            try:
                _run_here(tests, folder, name, options, result)
            finally:
                os._exit(0)
        end = time.monotonic() + SECONDS * len(tests) + 60
        while os.waitpid(child, os.WNOHANG) == (0, 0):
            if time.monotonic() > end:
                os.kill(child, signal.SIGKILL)
                os.waitpid(child, 0)
                break
            time.sleep(0.01)
        if result.exists():
            passed, failed = map(set, json.loads(result.read_text()))
            files = {test for test in tests if test.split("::")[0] in failed}
            return passed - files, failed | files
        if (pathlib.Path(start) / "result.log").read_text().count("no tests ran"):
            sys.exit(f"pytest could not run the tests of '{name}':\n{(pathlib.Path(start) / 'result.log').read_text()}")
    if len(tests) == 1:
        return set(), set(tests)
    each = [run([test], folder, name, options) for test in tests]
    return set().union(*(passed for passed, _ in each)), set().union(*(failed for _, failed in each))


def read_all_marks(folder):
    """name → its tests, for the names of all packages."""
    marks = public_names.read_marks(folder, public_names.read_names()[0])
    for path in (public_names.POPXL, public_names.POPART):
        marks |= public_names.read_marks(folder, public_names.read_popxl_names(path)[0], source=path)
    return marks


def _preload_pytest():
    """Plugins are read once and not by each process."""
    for plugin in importlib.metadata.entry_points(group="pytest11"):
        plugin.load()
    importlib.import_module("hypothesis.strategies")


def prove(names, marks, folder, options):
    """Proves the names, says which marks are worthless, and returns how many."""
    count = 0
    _preload_pytest()
    for package in ("popart", "popxl", "popdist", "poptorch"):
        mine = [name for name in names if name_removal.package_of(name) == package]
        if not mine:
            continue
        for module in PRELOADED.get(package, ()):
            importlib.import_module(module)
        tests = sorted({test for name in mine for test in marks[name]})
        count += say(f"{test} fails as it is" for test in sorted(run(tests, folder, options=options)[1]))
        for name in mine:
            passed, failed = run(marks[name], folder, name, options)
            # Where tests are left out, those that did not run say nothing.
            survivors = sorted(passed if options else set(marks[name]) - failed)
            count += say(f"{test} passes without {name}" for test in survivors)
            print(f"{name}: {'passes without it' if survivors else 'shown' if failed else 'not run'}", flush=True)
    return count


def sample_of(names, count, seed):
    """So many of the names, in an order of their own: the same for the same seed, whatever order they come in."""
    return random.Random(seed).sample(sorted(names), min(count, len(names)))


def say(lines):
    """Prints mistakes, and returns how many there are."""
    lines = list(lines)
    for line in lines:
        print(line, file=sys.stderr, flush=True)
    return len(lines)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--all", action="store_true", help="every name that has a mark")
    parser.add_argument("--package", choices=("popart", "popxl", "poptorch"), help="only names of this package")
    parser.add_argument("--sample", type=int, metavar="N", help="so many names, drawn with the seed")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "tests", help="the folder whose marks are proved")
    arguments = parser.parse_args()
    if sum([bool(arguments.names), arguments.all, arguments.sample is not None]) != 1:
        parser.error("say NAME ..., --sample N or --all")
    folder = arguments.tests.resolve()
    marks = read_all_marks(folder)
    names = arguments.names or [
        name for name in marks if arguments.package in (None, name_removal.package_of(name).replace("popdist", "popxl"))
    ]
    for name in names:
        if name not in marks:
            sys.exit(f"no test is marked with '{name}'")
    if arguments.sample is not None:
        names = sample_of(names, arguments.sample, arguments.seed)
    os.chdir(ROOT)
    with tempfile.TemporaryDirectory() as start:
        (pathlib.Path(start) / "sitecustomize.py").write_text(START_OF_PROGRAMS)
        path = [start, str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        os.environ["PYTHONPATH"] = os.pathsep.join(path)
        sys.path[:0] = [start, str(ROOT)]  # tests hand it on to their programs
        count = prove(names, marks, folder, ["-m", "not slow"] if arguments.sample is not None else [])
    sys.exit(1 if count else 0)


if __name__ == "__main__":
    main()
