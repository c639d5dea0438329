#!/usr/bin/env python3
"""Checks that no files import or include each other in a circle: the Python package, imports inside functions included,
and csrc. A package imports what it holds, so `__init__` files are left out."""

import argparse
import ast
import graphlib
import pathlib
import re
import sys

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)


def python_imports(root):
    """File → files of the package that it imports."""
    files = {}
    for file in sorted((root / "poptorch").rglob("*.py")):
        if file.name != "__init__.py":
            files[".".join(file.relative_to(root).with_suffix("").parts)] = file
    graph = {}
    for module, file in files.items():
        found = set()
        for node in ast.walk(ast.parse(file.read_text())):
            if isinstance(node, ast.Import):
                found |= {alias.name for alias in node.names}
            elif isinstance(node, ast.ImportFrom) and node.level == 0 and node.module:
                found |= {node.module} | {f"{node.module}.{alias.name}" for alias in node.names}
        graph[module] = {name for name in found if name in files and name != module}
    return graph


def includes(root):
    source = root / "csrc"
    files = {str(file.relative_to(source)): file for file in sorted([*source.rglob("*.h"), *source.rglob("*.cc")])}
    return {
        name: {found for found in INCLUDE.findall(file.read_text()) if found in files} for name, file in files.items()
    }


def circle(graph):
    """A list of files that begins and ends with the same one, or None."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return None


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--root", type=pathlib.Path, default=pathlib.Path(__file__).resolve().parent.parent)
    root = parser.parse_args().root
    found = [c for c in (circle(python_imports(root)), circle(includes(root))) if c]
    for files in found:
        print("these need each other: " + " -> ".join(files))
    if found:
        sys.exit("move what both need into a file of its own")


if __name__ == "__main__":
    main()
