#!/usr/bin/env python3
"""Which C++ sources one translation unit may include together: most of the time of a small source goes into its headers.

scripts/source_units.py [--lines N] FILE ...    prints the sources of each unit on one line, between semicolons, for CMake

Two sources that give the same name to something of their own (in an anonymous namespace, static, a macro) come to different
units, and so do a source with a name of its own and one that includes a header with that name. Names are read from lines at the
left margin, as clang-format leaves them; it is the compiler that refuses what this misses.
"""

import argparse
import functools
import pathlib
import re

UNIT_LINES = 3000


@functools.cache
def read(path):
    return path.read_text()


def declared_name(line):
    """The name a line at the left margin declares: the last word before the first of ( = { ; [ or the end."""
    if macro := re.match(r"#\s*define (\w+)|IPU_REGISTER_\w+\((\w*)", line):
        return macro[1] or macro[2] or None  # what begins with a text counts its names by itself (__COUNTER__)
    if test := re.match(r"(?:TEST(?:_[FP])?|INSTANTIATE_TEST_SUITE_P)\((\w+, \w+)", line):
        return test[1]
    if line.startswith("namespace ") or (line.startswith("using ") and "=" not in line):
        return None  # may be said again
    while (shorter := re.sub(r"<[^<>]*>", "", line)) != line:  # arguments of templates are not it
        line = shorter
    words = re.findall(r"\w+", re.split(r"[(={;\[]| : | final\b", line)[0])
    return words[-1] if words and words[-1] != "template" else None


def enumerators(path):
    """Names that enums without a scope give, wherever they stand at the left margin."""
    enums = re.findall(r"^enum (?!class |struct )[^{;]*\{([^}]*)\}", read(path), re.M)
    without_comments = (re.sub(r"//.*", "", inside) for inside in enums)
    return {words[0] for inside in without_comments for one in inside.split(",") if (words := re.findall(r"\w+", one))}


def local_names(path):
    """Names that two sources of one unit may not both have: those of anonymous namespaces, static ones and macros."""
    names, inside = set(), False
    for line in read(path).splitlines():
        line = re.sub(r"^\[\[.*?\]\] ", "", line)
        if line.startswith("namespace {"):
            inside = True
        elif line == "}  // namespace":
            inside = False
        elif line.startswith(("static ", "constexpr ", "using ", "#define ")) or (inside and re.match(r"[a-zA-Z_]", line)):
            names.add(declared_name(line))
    return names - {None} | enumerators(path)


@functools.cache
def included(path):
    """Headers of the repository that a file includes itself."""
    folders = [path.parent]
    for root in path.parents:
        if (root / "csrc").is_dir():
            folders += [root / "csrc", root / "csrc" / "include", root]
    names = re.findall(r'^\s*#\s*include "([^"]+)"', read(path), re.M)
    return [file for name in names for folder in folders if (file := folder / name).is_file()]


def closure(paths):
    """All files that come with these, themselves too."""
    seen, todo = set(), list(paths)
    while todo:
        path = todo.pop()
        if path not in seen:
            seen.add(path)
            todo += included(path)
    return seen


@functools.cache
def header_names(path):
    """Names that a header gives to something at the left margin."""
    lines = (line for line in read(path).splitlines() if re.match(r"(?!namespace|using namespace)[a-zA-Z_]", line))
    return {declared_name(line) for line in lines} - {None} | enumerators(path)


class Unit:
    def __init__(self, most):
        self.sources, self.lines, self.most = [], 0, most
        self.names, self.headers = set(), set()

    def accepts(self, path, names, headers, lines):
        if self.lines + lines > self.most or self.names & names:
            return False
        new, old = headers - self.headers, self.headers - headers  # what one side did not compile with
        return not any(self.names & header_names(h) for h in new) and not any(names & header_names(h) for h in old)

    def add(self, path, names, headers, lines):
        self.sources.append(path)
        self.lines += lines
        self.names |= names
        self.headers |= headers


def units(paths, most=UNIT_LINES):
    """Lists of sources that go together, in the order of `paths`; each of at most `most` lines or one source."""
    made = []
    for path in paths:
        # What includes itself, once for each instruction set, stays alone.
        lines = most if "HWY_TARGET_INCLUDE" in read(path) else read(path).count("\n")
        source = (path, local_names(path), closure([path]) - {path}, lines)
        unit = next((unit for unit in made if unit.accepts(*source)), None)
        if unit is None:
            made.append(unit := Unit(most))
        unit.add(*source)
    return [unit.sources for unit in made]


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--lines", type=int, default=UNIT_LINES, help="most lines of a unit")
    parser.add_argument("files", nargs="+", type=pathlib.Path)
    options = parser.parse_args()
    for unit in units(options.files, options.lines):
        print(";".join(map(str, unit)))
