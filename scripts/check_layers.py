#!/usr/bin/env python3
"""Checks that every #include respects the table of rooms in docs/architecture.md.

Fails with the offending line and the arrow it breaks. Also checks that torch headers stay in the torch rooms, that
{fmt} stays where torch headers cannot meet it, that every room of the table is there, and that the numbers of machines stand
in csrc/target alone, Python's packages included.
"""

import pathlib
import re

import python_imports
import tree_check

HEAD = "| room |"
ROW = re.compile(r"^\| `([a-z_/]+)` \| (.*?) \|")
INCLUDE = re.compile(r'^\s*#\s*include\s+([<"])([^>"]+)[>"]')
TORCH_HEADER = re.compile(r"^(ATen|c10|torch|caffe2)/")
PYTHON_HEADER = re.compile(r"^(pybind11/|Python\.h)")
TORCH_ROOMS = {"frontends/torch", "bindings"}
PYTHON_ROOMS = TORCH_ROOMS | {"bindings/core", "python"}
# Tiles of an IPU, and bytes of a tile and of an IPU; their clocks.
MACHINE_NUMBER = re.compile(r"\b(1216|1472|638[_',]?976|624 \* 1024|624 KiB|1\.33e9|1\.85e9|1\.6e9)\b")
# torch carries versions of its own: no translation unit sees both.
APART_FROM_TORCH = re.compile(r"^(fmt|CLI)/")


def read_table(page):
    """Rooms and what each may include (dict of room → set of rooms)."""
    table = {}
    lines = page.read_text().splitlines()
    heads = [at for at, line in enumerate(lines) if line.startswith(HEAD)]
    for line in lines[heads[0] :] if heads else []:
        if not line.startswith("|"):
            break
        row = ROW.match(line)
        if row:
            table[row[1]] = set(re.findall(r"`([a-z_/]+)`", row[2]))
    if not table:
        raise SystemExit(f"{page}: the table of rooms is missing")
    return table


def room_of(path, rooms):
    """The room a path below csrc belongs to: the longest prefix that is one."""
    parts = path.parts
    for length in (2, 1):
        name = "/".join(parts[:length])
        if name in rooms:
            return name
    return None


def machine_numbers(root):
    sources = [*(root / "csrc").rglob("*.h"), *(root / "csrc").rglob("*.cc")]
    folders = [root / python_imports.FOLDERS.get(package, "") / package for package in python_imports.PACKAGES]
    sources += [file for folder in folders for file in folder.rglob("*.py*") if file.suffix != ".pyc"]
    for file in sorted(sources):
        inside = file.relative_to(root)
        for number, line in enumerate(file.read_text().splitlines(), 1):
            if MACHINE_NUMBER.search(line):
                yield f"{inside}:{number}: {line.strip()}\n    numbers of machines belong in machines/*.json (target/machine.h)"


def violations(root):
    rooms = read_table(root / "docs" / "architecture.md")
    source = root / "csrc"
    for room, may_use in rooms.items():
        for name in [room, *sorted(may_use - {room})]:
            if name not in rooms or not any((source / name).rglob("*.cc")):
                yield f"docs/architecture.md: there is no room '{name}' with a source file (row of {room})"
    for file in sorted([*source.rglob("*.h"), *source.rglob("*.cc")]):
        inside = file.relative_to(source)
        if inside.parts[0] == "include":
            continue
        room = room_of(inside, rooms)
        if room is None:
            yield f"{file.relative_to(root)}: its folder is no room of docs/architecture.md"
            continue
        for number, line in enumerate(file.read_text().splitlines(), 1):
            found = INCLUDE.match(line)
            if not found:
                continue
            where = f"{file.relative_to(root)}:{number}: {line.strip()}"
            if TORCH_HEADER.match(found[2]):
                if room not in TORCH_ROOMS:
                    yield f"{where}\n    torch headers belong in {', '.join(sorted(TORCH_ROOMS))} only"
            elif PYTHON_HEADER.match(found[2]):
                if room not in PYTHON_ROOMS:
                    yield f"{where}\n    Python's headers belong in {', '.join(sorted(PYTHON_ROOMS))} only"
            elif APART_FROM_TORCH.match(found[2]):
                if room in TORCH_ROOMS or file.suffix == ".h":
                    yield f"{where}\n    only source files of rooms without torch may include this: torch has a version of its own"
            elif found[1] == '"':
                target = room_of(pathlib.PurePath(found[2]), rooms)
                if target is not None and target != room and target not in rooms[room]:
                    yield f"{where}\n    {room} may not use {target} (docs/architecture.md)"


def all_violations(root):
    return [*violations(root), *machine_numbers(root)]


if __name__ == "__main__":
    tree_check.main(__doc__, all_violations, "{count} line(s) break the rules of rooms")
