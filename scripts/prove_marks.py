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


def _nothing(poptorch, name, value):
    """What takes the place of `poptorch.<name>`. None: it was changed in place."""
    import torch

    last = name.rsplit(".", 1)[-1]
    if name in ("optim.SGD", "optim.Adam", "optim.AdamW", "optim.RMSprop"):
        return _plain(getattr(torch.optim, last))
    special = {
        "optim.LAMB": lambda: _plain(torch.optim.Adam),
        "DataLoader": lambda: lambda options, *args, **kwargs: _plain(torch.utils.data.DataLoader)(*args, **kwargs),
        "AsynchronousDataAccessor": lambda: _first,
        "ShardedExecution": lambda: poptorch.PipelinedExecution,
        "PipelinedExecution": lambda: poptorch.ShardedExecution,
        "ICustomArgParser": lambda: object,
        "BlockFunction": lambda: lambda *args, **kwargs: lambda function: function,
    }
    if name in special:
        return special[name]()
    return _gut(value) if isinstance(value, type) else _first


def _is_deleted(value):
    is_exception = isinstance(value, type) and issubclass(value, BaseException)
    return is_exception or hasattr(value, "__members__") or not callable(value)


def _owner(poptorch, name):
    """The object that has the last part of a name. Parts of the options are found by their class."""
    *parts, last = name.split(".")
    owner = poptorch
    for number, part in enumerate(parts):
        if parts[0] == "Options" and number > 0:
            owner = type(getattr(poptorch.Options(), part))
        else:
            owner = getattr(owner, part)
    return owner, last


def _replace(name):
    import poptorch

    owner, last = _owner(poptorch, name)
    value = inspect.getattr_static(owner, last)
    if isinstance(owner, type):
        home = next(base for base in owner.__mro__ if last in vars(base))
        gives_itself = owner.__module__ != "poptorch._impl.executor" and owner.__name__ != "DataLoader"
        is_property = isinstance(value, property)
        stub = property(lambda self: None) if is_property else _first if gives_itself else lambda *a, **k: None
        return setattr(home, last, stub)
    stub = _nothing(poptorch, name, value)
    if stub is not None:
        for module in list(sys.modules.values()):
            for key, item in list(getattr(module, "__dict__", {}).items()):
                if item is value and isinstance(module, types.ModuleType):
                    setattr(module, key, stub)


def _delete(name):
    """Deletes the name when it is an enumeration, an exception, a module or a value. False for all others."""
    import poptorch

    owner, last = _owner(poptorch, name)
    if isinstance(owner, type) or not _is_deleted(getattr(owner, last)):
        return False
    if isinstance(getattr(owner, last), types.ModuleType):
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
