"""What type checkers are told is true: the stub of the native module, the annotations of public names, what is shipped."""

import ast
import inspect
import pathlib
import subprocess
import sys

import poptorch
from poptorch import poptorch_core

ROOT = pathlib.Path(__file__).resolve().parents[2]
# What pybind11 gives to every class or enumeration.
OF_PYBIND = {"_pybind11_conduit_v1_", "name", "value"}


def stub_names():
    """Dotted name -> syntax node of a function, else None; class members included."""
    tree = ast.parse((ROOT / "poptorch" / "poptorch_core.pyi").read_text())
    found = {}
    for node in tree.body:
        if isinstance(node, ast.ClassDef):
            found[node.name] = None
            for member in node.body:
                if isinstance(member, ast.AnnAssign):
                    found[f"{node.name}.{member.target.id}"] = None
                elif isinstance(member, ast.FunctionDef):
                    is_property = any(getattr(d, "id", None) == "property" for d in member.decorator_list)
                    found[f"{node.name}.{member.name}"] = None if is_property else member
        elif isinstance(node, ast.FunctionDef):
            found[node.name] = node
    return found


def native_names():
    for name, value in vars(poptorch_core).items():
        if name.startswith("__"):
            continue
        yield name
        if isinstance(value, type):
            yield from (f"{name}.{member}" for member in vars(value) if not member.startswith("__"))


def native(name):
    value = poptorch_core
    for part in name.split("."):
        value = getattr(value, part)
    return value


def test_names_of_the_stub_are_in_the_native_module():
    for name in stub_names():
        native(name)


def test_names_of_the_native_module_are_in_the_stub():
    known = stub_names()
    missing = [name for name in native_names() if name not in known and name.rpartition(".")[2] not in OF_PYBIND]
    assert missing == []


def parameters(node):
    """Names as callers may give them; None for those that have only a place."""
    given = node.args
    placed = [None] * len(given.posonlyargs)
    return [p for p in [*placed, *(a.arg for a in given.args)] if p != "self"], bool(given.vararg), len(given.defaults)


def test_parameters_of_the_stub_are_those_of_the_native_module():
    compared = 0
    for name, node in stub_names().items():
        doc = (getattr(native(name), "__doc__", None) or "").partition("\n")[0]
        if node is None or not doc.startswith(f"{node.name}("):
            continue
        there = ast.parse(f"def {doc}: ...").body[0]
        names, variadic, defaults = parameters(there)
        names = [None if p.startswith("arg") and p[3:].isdigit() else p for p in names]
        ours, our_variadic, our_defaults = parameters(node)
        ours = ours[1:] if "." in name and node.args.posonlyargs else ours  # a method's self has only a place then
        assert (ours, our_variadic, our_defaults) == (names, variadic, defaults), name
        compared += 1
    assert compared > 80


def public_functions():
    owners = [poptorch, poptorch.ops, poptorch.optim, poptorch.options, poptorch.profiling, poptorch.testing]
    parts = [type(part) for part in poptorch.Options()._parts().values()]
    for kind in parts:
        yield from members(kind)
    for owner in owners:
        for name, value in vars(owner).items():
            if name.startswith("_") or not getattr(value, "__module__", "").startswith("poptorch"):
                continue
            if inspect.isfunction(value):
                yield f"{owner.__name__}.{name}", inspect.unwrap(value)
            elif isinstance(value, type) and value.__module__ != "poptorch.poptorch_core":
                yield from members(value)


def members(kind):
    for base in kind.__mro__:
        if not base.__module__.startswith("poptorch"):
            continue
        for name, value in vars(base).items():
            value = value.__func__ if isinstance(value, (staticmethod, classmethod)) else value
            value = value.fget if isinstance(value, property) else value
            if inspect.isfunction(value) and (name == "__init__" or not name.startswith("_")):
                function = inspect.unwrap(value)
                if (
                    ROOT / "poptorch" in pathlib.Path(function.__code__.co_filename).parents
                ):  # torch adds step() to ours
                    yield f"{base.__name__}.{name}", function


def test_public_signatures_say_their_types():
    silent = set()
    for name, function in public_functions():
        known = function.__annotations__
        code = function.__code__
        count = code.co_argcount + code.co_kwonlyargcount + bool(code.co_flags & 4) + bool(code.co_flags & 8)
        wanted = {*code.co_varnames[:count], "return"} - {"self", "cls"}
        if not wanted <= set(known):
            silent.add(name)
    assert sorted(silent) == []


def test_the_package_ships_its_types():
    code = (
        "from distutils.core import run_setup; command = run_setup('setup.py', stop_after='config')"
        ".get_command_obj('build_py'); command.ensure_finalized(); "
        "print(*(f for package in command.get_data_files_without_manifest() for f in package[3]))"
    )
    result = subprocess.run(
        [sys.executable, "-c", "import setuptools; " + code], cwd=ROOT, capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
    assert {"py.typed", "poptorch_core.pyi"} <= set(result.stdout.split())
