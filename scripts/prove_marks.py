#!/usr/bin/env python3
"""Finds worthless marks: runs the tests marked `shows(NAME)` with NAME replaced by something that does nothing.

scripts/prove_marks.py [NAME ...]    default: all names. Fails when a marked test passes all the same.

As a pytest plugin (`-p prove_marks`, name in PROVE_NAME) it makes the replacement, also in the Python programs that a
test starts: these import poptorch first thing.
"""

import argparse
import inspect
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import types

import public_names
import pytest

ROOT = pathlib.Path(__file__).resolve().parent.parent
START_OF_PROGRAMS = """import os
if "PROVE_PROGRAMS" in os.environ:
    import prove_marks
    prove_marks.replace_in_program()
"""
failed = set()  # names of test functions


def _first(*args, **kwargs):
    return args[0] if args else next(iter(kwargs.values()), None)


def _plain(base):
    """A class of torch in place of its subclass: arguments it does not know are dropped."""
    known = inspect.signature(base.__init__).parameters
    return lambda *args, **kwargs: base(*args, **{key: kwargs[key] for key in kwargs if key in known})


def _gut(kind):
    """Methods of a class return the object and change nothing; properties are None."""
    for name, value in list(vars(kind).items()):
        if isinstance(value, property):
            setattr(kind, name, property(lambda self: None, lambda self, value: None))
        elif name in ("__exit__", "__iter__") or isinstance(value, (staticmethod, classmethod)):
            setattr(kind, name, staticmethod(lambda *args, **kwargs: None))
        elif inspect.isfunction(value) and (not name.startswith("__") or name in ("__enter__", "__call__")):
            setattr(kind, name, _first)


def _nothing(name, value):
    """What takes the place of `poptorch.<name>`. None: it was changed in place."""
    import poptorch
    import torch

    if name in ("optim.SGD", "optim.Adam", "optim.AdamW", "optim.RMSprop"):
        return _plain(getattr(torch.optim, name.removeprefix("optim.")))
    special = {
        "optim.LAMB": _plain(torch.optim.Adam),
        "DataLoader": lambda options, *args, **kwargs: _plain(torch.utils.data.DataLoader)(*args, **kwargs),
        "AsynchronousDataAccessor": _first,
        "ShardedExecution": poptorch.PipelinedExecution,
        "PipelinedExecution": poptorch.ShardedExecution,
        "ICustomArgParser": object,
        "BlockFunction": lambda *args, **kwargs: lambda function: function,
    }
    return special.get(name) or (_gut(value) if isinstance(value, type) else _first)


def _is_deleted(value):
    stays = isinstance(value, type) and (issubclass(value, BaseException) or value.__module__ == "builtins")
    return stays or hasattr(value, "__members__") or not callable(value)


def _find(name):
    """(owner, last part, value) of a name; parts of the options are found by their class."""
    import poptorch

    *parts, last = name.split(".")
    owner = poptorch
    for part in parts:
        value = getattr(owner, part)
        owner = type(getattr(owner(), part)) if isinstance(value, property) else value
    if isinstance(owner, type):
        return next(base for base in owner.__mro__ if last in vars(base)), last, inspect.getattr_static(owner, last)
    return owner, last, getattr(owner, last)


def _replace(name):
    owner, last, value = _find(name)
    if isinstance(owner, type):
        gives_itself = name.startswith("Options.")
        is_property = isinstance(value, property)
        stub = property(lambda self: None) if is_property else _first if gives_itself else lambda *a, **k: None
        return setattr(owner, last, stub)
    stub = _nothing(name, value)
    for module in [module for module in sys.modules.values() if isinstance(module, types.ModuleType) and stub]:
        for key in [key for key, item in vars(module).items() if item is value]:
            setattr(module, key, stub)


def _delete(name):
    """Deletes the name when it is an enumeration, an exception, a module, a value or Python's. False for all others."""
    owner, last, value = _find(name)
    if isinstance(owner, type) or not _is_deleted(value):
        return False
    if isinstance(value, types.ModuleType):
        sys.modules[f"poptorch.{name}"] = None  # importing it is an error
    delattr(owner, last)
    return True


def replace_in_program():
    """Called by sitecustomize.py of the Python programs that a test starts."""
    name = os.environ["PROVE_NAME"]
    if name and not _delete(name):
        _replace(name)


def pytest_configure(config):
    """What is deleted is deleted before the tests are imported."""
    os.environ["PROVE_PROGRAMS"] = "1"
    name = os.environ["PROVE_NAME"]
    config.is_deleted = bool(name) and _delete(name)


def pytest_collection_modifyitems(config, items):
    name = os.environ["PROVE_NAME"]
    if name:
        items[:] = [item for item in items if any(name in mark.args for mark in item.iter_markers("shows"))]
        if not config.is_deleted:
            _replace(name)


def pytest_runtest_setup(item):
    if item.originalname in failed:
        pytest.skip("failed with other arguments")


def pytest_runtest_logreport(report):
    if report.failed:
        failed.add(report.nodeid.split("::")[-1].split("[")[0])


def failures(tests, folder, name=""):
    """The tests ("file::test") that fail without `name`. A file that cannot be imported fails with all its tests."""
    with tempfile.TemporaryDirectory() as start:
        (pathlib.Path(start) / "sitecustomize.py").write_text(START_OF_PROGRAMS)
        path = [start, str(ROOT / "scripts"), str(ROOT), os.environ.get("PYTHONPATH", "")]
        environment = {**os.environ, "PROVE_NAME": name, "PYTHONPATH": os.pathsep.join(path)}
        options = ["-q", "-rfE", "--tb=no", "--timeout=120", "-pprove_marks", "-pno:cacheprovider"]
        places = ["-cpyproject.toml", f"--rootdir={folder}", *(f"{folder}/{test}" for test in tests)]
        command = [sys.executable, "-m", "pytest", *options, *places]
        result = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    fallen = set(re.findall(r"^(?:FAILED|ERROR) (\S+?)(?:\[| |$)", result.stdout, re.MULTILINE))
    if result.returncode > 1 and not fallen:
        sys.exit(f"pytest could not run the tests of '{name}':\n{result.stdout}{result.stderr}")
    shown_as = {test: os.path.relpath(folder / test, ROOT) for test in tests}
    return {test for test, shown in shown_as.items() if {shown, shown.split("::")[0]} & fallen}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", metavar="NAME")
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "tests", help="the folder whose marks are proved")
    arguments = parser.parse_args()
    folder = arguments.tests.resolve()
    marks = public_names.read_marks(folder, public_names.read_names()[0])
    names = arguments.names or list(marks)
    for name in names:
        if name not in marks:
            sys.exit(f"no test is marked with '{name}'")
    tests = sorted({test for name in names for test in marks[name]})
    broken = failures(tests, folder)
    worthless = [f"{test} fails as it is" for test in sorted(broken)]
    for name in names:
        survivors = sorted(set(marks[name]) - failures(marks[name], folder, name))
        worthless += [f"{test} passes without {name}" for test in survivors]
        print(f"{name}: {'passes without it' if survivors else 'shown'}", flush=True)
    if worthless:
        sys.exit("\n".join(worthless))


if __name__ == "__main__":
    main()
