#!/usr/bin/env python3
"""Checks that no module of a Python package touches a private attribute of a class of another module.

Private is a name with one underscore in front that a class of one of the packages defines. What a module needs of another one's
object has a public name, or is handed to it. scripts/private_names.txt lists the names that a package may touch all the same,
with the reason; one that is not needed any more fails, so that the list only shrinks.
"""

import ast
import pathlib

import python_imports
import tree_check

LIST = pathlib.Path("scripts") / "private_names.txt"


def is_private(name):
    return name.startswith("_") and not name.startswith("__")


def is_own(node):
    """Whether this is an attribute of `self` or `cls`."""
    return isinstance(node.value, ast.Name) and node.value.id in ("self", "cls")


def defined(tree):
    """Private names that the classes of a module define."""
    names = set()
    for kind in (node for node in ast.walk(tree) if isinstance(node, ast.ClassDef)):
        for node in ast.walk(kind):
            if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
                names.add(node.name)
            elif isinstance(node, ast.Attribute) and isinstance(node.ctx, ast.Store) and is_own(node):
                names.add(node.attr)
        for node in kind.body:
            targets = node.targets if isinstance(node, ast.Assign) else [getattr(node, "target", None)]
            names |= {target.id for target in targets if isinstance(target, ast.Name)}
    return {name for name in names if is_private(name)}


def touched(tree):
    """(line, object, name) of each private attribute of something other than self."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and is_private(node.attr) and not is_own(node):
            yield node.lineno, ast.unparse(node.value), node.attr


def read_list(root):
    """(package, name) of each exception."""
    path = root / LIST
    lines = path.read_text().splitlines() if path.exists() else []
    heads = [line.split(" | ")[0].split(": ") for line in lines if not line.startswith("#")]
    return [(package, name) for package, names in heads for name in names.split()]


def violations(root):
    files = {file: file.relative_to(root) for file in python_imports.module_files(root).values()}
    trees = {shown: ast.parse(file.read_text()) for file, shown in files.items()}
    names = {file: defined(tree) for file, tree in trees.items()}
    of_packages = set().union(*names.values())
    listed = read_list(root)
    unused = set(listed)
    for file, tree in trees.items():
        package = next(part for part in file.with_suffix("").parts if part in python_imports.PACKAGES)
        for line, what, name in touched(tree):
            if name not in of_packages or name in names[file]:
                continue
            unused.discard((package, name))
            if (package, name) not in listed:
                owners = ", ".join(str(other) for other in trees if name in names[other])
                yield f"{file}:{line}: {what}.{name} is private to {owners}"
    for package, name in listed:
        if (package, name) in unused:
            yield f"{LIST}: no module of {package} needs {name} any more; remove it"


if __name__ == "__main__":
    tree_check.main(__doc__, violations, "give it a public name, or hand the module what it needs")
