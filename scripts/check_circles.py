#!/usr/bin/env python3
"""Checks that no files import or include each other in a circle: the Python package, imports inside functions included,
the folders of poptorch/_impl, and csrc. A package imports what it holds, so `__init__` files are left out."""

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


def folders(graph):
    """The same between the folders of poptorch/_impl."""
    result = {}
    for module, needs in graph.items():
        own = module.split(".")[2:-1]
        for need in needs:
            other = need.split(".")[2:-1]
            if own and other and own != other:
                result.setdefault("/".join(own), set()).add("/".join(other))
    return result


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
    modules = python_imports(root)
    found = [c for c in map(circle, (modules, folders(modules), includes(root))) if c]
    for files in found:
        print("these need each other: " + " -> ".join(files))
    if found:
        sys.exit("move what both need into a file of its own")


if __name__ == "__main__":
    main()
