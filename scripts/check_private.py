#!/usr/bin/env python3
"""Checks that no module of poptorch/_impl touches a private attribute of a class of another module of the package.

Private is a name with one underscore in front that a class of the package defines. What a module needs of another one's
object has a public name, or is handed to it. Names that any object of the package may be asked for stand in EXCEPTIONS with
the reason; one that is not needed any more fails.
"""

import argparse
import ast
import pathlib
import sys

_OPTIONS = "users hold options and strategies: there, a name without underscore is one of PopTorch's"
_LOADER = "users hold data loaders and accessors: there, a name without underscore is one of PopTorch's"
EXCEPTIONS = {
    "_Popart": "PopTorch's own name for the options of the back end",
    "_auto": _OPTIONS,
    "_fix_anchor_modes": _OPTIONS,
    "_freeze": _OPTIONS,
    "_ipu": _OPTIONS,
    "_module_namescope": _OPTIONS,
    "_parts": _OPTIONS,
    "_places": _OPTIONS,
    "_plain": _OPTIONS,
    "_popart": _OPTIONS,
    "_relax_optimizer_checks": _OPTIONS,
    "_schedule": _OPTIONS,
    "_set": _OPTIONS,
    "_show_progress_bar": _OPTIONS,
    "_stage_id": _OPTIONS,
    "_stages": _OPTIONS,
    "_strategy": _OPTIONS,
    "_values": _OPTIONS,
    "_check_accessor": _LOADER,
    "_rebatched_size": _LOADER,
}


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


def violations(root):
    trees = {file: ast.parse(file.read_text()) for file in sorted((root / "poptorch").rglob("*.py"))}
    names = {file: defined(tree) for file, tree in trees.items()}
    of_package = set().union(*names.values())
    unused = dict(EXCEPTIONS)
    for file, tree in trees.items():
        if "_impl" not in file.relative_to(root).parts:
            continue
        for line, what, name in touched(tree):
            if name not in of_package or name in names[file]:
                continue
            if unused.pop(name, None) is None and name not in EXCEPTIONS:
                owners = ", ".join(str(f.relative_to(root)) for f in trees if name in names[f])
                yield f"{file.relative_to(root)}:{line}: {what}.{name} is private to {owners}"
    if (root / "scripts" / "check_private.py").exists():
        for name in unused:
            yield f"scripts/check_private.py: no module needs {name} any more; remove the exception"


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    found = list(violations(parser.parse_args().root))
    for line in found:
        print(line)
    if found:
        sys.exit("give it a public name, or hand the module what it needs")


if __name__ == "__main__":
    main()
