#!/usr/bin/env python3
"""Checks that no files import or include each other in a circle: the Python packages (imports inside functions and for types
included), the folders of their `_impl`, and csrc. `__init__.py` of a top package is left out: a package imports what it holds.

scripts/circles.txt lists the imports that close a circle today, one `a -> b` a line. Without them there is no circle. A line
whose import is gone, or closes no circle any more, fails, so that the list only shrinks.
"""

import graphlib
import pathlib
import re

import python_imports
import tree_check

INCLUDE = re.compile(r'^\s*#\s*include\s+"([^"]+)"', re.MULTILINE)
LIST = pathlib.Path("scripts") / "circles.txt"


def includes(root):
    source = root / "csrc"
    files = {str(file.relative_to(source)): file for file in sorted([*source.rglob("*.h"), *source.rglob("*.cc")])}
    return {
        name: {found for found in INCLUDE.findall(file.read_text()) if found in files} for name, file in files.items()
    }


def folders(graph):
    """The same between the folders of `_impl` of each package."""
    result = {}
    for module, needs in graph.items():
        own = folder_of(module)
        for other in filter(None, map(folder_of, needs)):
            if own and own != other and own.split("/")[0] == other.split("/")[0]:
                result.setdefault(own, set()).add(other)
    return result


def folder_of(module):
    """`package/_impl/folder` of a module in such a folder, else None."""
    parts = module.split(".")
    return "/".join(parts[:-1]) if len(parts) > 3 and parts[1] == "_impl" else None


def circle(graph):
    """A list of files that begins and ends with the same one, or None."""
    try:
        graphlib.TopologicalSorter(graph).prepare()
    except graphlib.CycleError as error:
        return error.args[1][::-1]
    return None


def reaches(graph, start, end):
    seen, waiting = set(), [start]
    while waiting:
        node = waiting.pop()
        if node == end:
            return True
        if node not in seen:
            seen.add(node)
            waiting += graph.get(node, ())
    return False


def read_list(root):
    path = root / LIST
    lines = path.read_text().splitlines() if path.exists() else []
    return [tuple(line.split(" -> ")) for line in lines if not line.startswith("#")]


def problems(graphs, listed):
    """Lines that say which circles and which needless lines of the list there are."""
    found = []
    rests = [{node: [need for need in needs if (node, need) not in listed] for node, needs in g.items()} for g in graphs]
    found += ["these need each other: " + " -> ".join(files) for files in map(circle, rests) if files]
    for a, b in listed:
        graph, rest = next(((g, r) for g, r in zip(graphs, rests) if b in g.get(a, ())), (None, None))
        if graph is None:
            found.append(f"{LIST}: '{a} -> {b}' is gone; remove the line")
        elif not reaches(rest, b, a):
            found.append(f"{LIST}: '{a} -> {b}' closes no circle any more; remove the line")
    return found


def violations(root):
    modules = python_imports.import_graph(root)
    return problems((modules, folders(modules), includes(root)), read_list(root))


if __name__ == "__main__":
    tree_check.main(__doc__, violations, "move what both need into a file of its own")
