#!/usr/bin/env python3
"""Checks that the Python packages import only what the table of packages in docs/architecture.md says.

A row holds for a package or module and for what lies in it, unless that has a row of its own. The second column is what may be
imported when the module is; the third is what functions may import, and what only types need. Names of another package's `_impl` are
private to it: a row that needs them all the same says `package._impl`. Fails with the offending line;
also for a name in a row that no module needs, and for a package without a row.
"""

import pathlib
import re
import sys

import python_imports
import tree_check

PAGE = pathlib.Path("docs") / "architecture.md"
HEAD = "| package |"
ROW = re.compile(r"^\| `([a-z_.]+)` \| (.*?) \| (.*?) \|")
NAMES = re.compile(r"`([a-z_.]+)`")
PRIVATE = re.compile(r"[a-z_]+\._impl\b")


def read_table(page):
    """Package → (names that it may import, names that its functions may import as well)."""
    lines = page.read_text().splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith(HEAD)]
    if not heads:
        raise SystemExit(f"{page}: the table of packages is missing")
    table = {}
    for line in lines[heads[0] :]:
        if not line.startswith("|"):
            break
        if row := ROW.match(line):
            table[row[1]] = (set(NAMES.findall(row[2])), set(NAMES.findall(row[3])))
    return table


def imported(found, row, rows):
    """The row that an import falls into, the first part of the name of another project, `package._impl` for a private module of another
    package than that of `row`, or None for Python's own."""
    first = found.name.split(".")[0]
    if first != row.split(".")[0] and (private := PRIVATE.match(found.name)):
        return private[0]
    return None if first in sys.stdlib_module_names else python_imports.longest_prefix(found.name, rows) or first


def violations(root):
    table = read_table(root / PAGE)
    files = python_imports.module_files(root)
    needed = {row: (set(), set()) for row in table}
    for module, file in files.items():
        row = python_imports.longest_prefix(module, table)
        if row is None:
            yield f"{file.relative_to(root)}: its package has no row in {PAGE}"
            continue
        for found in python_imports.imports(module, file):
            name = imported(found, row, table)
            if name is None or name == row:
                continue
            at_once, late = table[row]
            where = f"{file.relative_to(root)}:{found.line}: {row} "
            if name not in at_once | late:
                yield f"{where}may not import {name} ({PAGE})"
            elif name not in at_once and not found.is_late:
                yield f"{where}may import {name} in functions alone ({PAGE})"
            needed[row][found.is_late].add(name)
    for row, (at_once, late) in table.items():
        if row not in files:
            yield f"{PAGE}: there is no package '{row}'"
            continue
        for name in sorted((at_once - needed[row][False]) | (late - needed[row][True])):
            yield f"{PAGE}: the row of {row} names {name}, which nothing there imports so; remove it"
        for name in sorted(at_once & late):
            yield f"{PAGE}: the row of {row} names {name} twice"


if __name__ == "__main__":
    tree_check.main(__doc__, violations, "{count} line(s) break the table of packages")
