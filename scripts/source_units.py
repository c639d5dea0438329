#!/usr/bin/env python3
"""Which C++ sources one translation unit may include together: most of the time of a small source goes into its headers.

scripts/source_units.py FILE ...    prints the sources of each unit on one line, between semicolons, for CMake

Two sources that give the same name to something of their own (in an anonymous namespace, static, a macro) come to different
units. Names are read from lines at the left margin, as clang-format leaves them; it is the compiler that refuses what this misses.
"""

import functools
import pathlib
import re
import sys

UNIT_LINES = 3000


@functools.cache
def read(path):
    return path.read_text()


def declared_name(line):
    """The name a line at the left margin declares: the last word before the first of ( = { ; [ or the end."""
    if macro := re.match(r"#\s*define (\w+)|IPU_REGISTER_\w+\((\w+)", line):
        return macro[1] or macro[2]
    if line.startswith("using ") and "=" not in line:
        return None  # may be said again
    while (shorter := re.sub(r"<[^<>]*>", "", line)) != line:  # arguments of templates are not it
        line = shorter
    words = re.findall(r"\w+", re.split(r"[(={;\[]| : | final\b", line)[0])
    return words[-1] if words and words[-1] != "template" else None


def local_names(path):
    """Names that two sources of one unit may not both have: those of anonymous namespaces, static ones and macros."""
    names, inside = set(), False
    for line in read(path).splitlines():
        if line.startswith("namespace {"):
            inside = True
        elif line == "}  // namespace":
            inside = False
        elif line.startswith(("static ", "constexpr ", "using ", "#define ")) or (inside and re.match(r"[a-zA-Z_]", line)):
            names.add(declared_name(line))
    return names - {None}


def units(paths):
    """Lists of sources that go together, in the order of `paths`."""
    made = []  # [sources, names, lines]
    for path in paths:
        names, lines = local_names(path), read(path).count("\n")
        alone = "HWY_TARGET_INCLUDE" in read(path)  # includes itself, once for each instruction set
        for unit in made:
            if not alone and not unit[1] & names and unit[2] + lines <= UNIT_LINES:
                break
        else:
            unit = [[], set(), 0]
            made.append(unit)
        unit[0].append(path)
        unit[1] |= names
        unit[2] += UNIT_LINES if alone else lines
    return [unit[0] for unit in made]


if __name__ == "__main__":
    for unit in units([pathlib.Path(name) for name in sys.argv[1:]]):
        print(";".join(map(str, unit)))
