#!/usr/bin/env python3
"""Writes the tables of public names and of sharp edges in docs/compatibility.md, and those of the names of PopXL, PopART and the
TensorFlow API in docs/compatibility-popxl.md, -popart.md and -tensorflow.md, from marks of tests and the built packages.

scripts/compatibility.py            rewrites the tables
scripts/compatibility.py --check    fails when a page is not what would be written

A name works when it is there and a test is marked that would fail if it did nothing, and each sharp edge needs a test that
shows what is done here (scripts/public_names.py).
"""

import argparse
import importlib
import pathlib
import sys

import public_names
import tensorflow_names

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
POPXL_PAGE = ROOT / "docs" / "compatibility-popxl.md"
POPART_PAGE = ROOT / "docs" / "compatibility-popart.md"
TENSORFLOW_PAGE = ROOT / "docs" / "compatibility-tensorflow.md"
REFUSED = "Not available in this version"
WORKS, NOT_SHOWN, NO_EFFECT, NOT_YET = STATES = "works", "there, not shown by a test", "no effect", "not yet"


def exists(poptorch, name):
    """Is `poptorch.<name>` there and not refused? Options parts are looked up on an instance."""
    owner = poptorch
    parts = name.split(".")
    if parts[0] == "Options" and len(parts) > 2:
        owner = poptorch.Options()
        parts = parts[1:]
    for part in parts:
        kind = owner if isinstance(owner, type) else type(owner)
        found = next((base.__dict__[part] for base in kind.__mro__ if part in base.__dict__), None)
        if not isinstance(owner, type) and not isinstance(found, property):
            found = getattr(owner, part, None)
        if found is None:
            return False
        owner = found if not isinstance(found, property) or part == parts[-1] else getattr(owner, part)
    documentation = owner.fget.__doc__ if isinstance(owner, property) else getattr(owner, "__doc__", None)
    return not (documentation or "").startswith(REFUSED)


def rows(is_there, names, reasons, marks):
    """(name, state, the test that shows it or the reason) for each name. Ends the program on a contradiction."""
    for name in names:
        if not is_there(name):
            if name in marks or name in reasons:
                sys.exit(f"'{name}' is not there, but {marks.get(name, ['the list of names'])[0]} says it is")
            yield name, NOT_YET, ""
        elif name in reasons:
            if name in marks:
                sys.exit(f"'{name}' has no effect by scripts/public_names.txt, but {marks[name][0]} shows one")
            yield name, NO_EFFECT, reasons[name]
        elif name in marks:
            yield name, WORKS, f"`{marks[name][0]}`"
        else:
            yield name, NOT_SHOWN, ""


def table(tests):
    sys.path.insert(0, str(ROOT))
    import poptorch

    names, reasons = public_names.read_names()
    marks = public_names.read_marks(tests, names)
    found = list(rows(lambda name: exists(poptorch, name), names, reasons, marks))
    counts = ", ".join(f"{sum(state == s for _, s, _ in found)} {state}" for state in STATES)
    lines = [
        f"{len(found)} public names: {counts}.",
        "",
        "| name | state | a test that shows it, or why nothing |",
        "|---|---|---|",
    ]
    return "\n".join(lines + [f"| `{name}` | {state} | {third} |" for name, state, third in found])


def exists_in_popxl(name):
    """Can `name` be reached by importing modules and looking up attributes? Attributes that instances alone have count by the
    annotations and slots of their class."""
    parts = name.split(".")
    for length in range(len(parts), 0, -1):
        try:
            owner = importlib.import_module(".".join(parts[:length]))
        except ImportError:
            continue
        for part in parts[length:]:
            kinds = owner.__mro__ if isinstance(owner, type) else (owner,)
            declared = [name for kind in kinds for own in ("__annotations__", "__slots__") for name in getattr(kind, own, ())]
            if not hasattr(owner, part) and part not in declared and not has_instance_with(owner, part):
                break
            owner = getattr(owner, part, None)
        else:
            return True
    return False


def has_instance_with(owner, part):
    """Do instances of a class have an attribute that the class has not? Those of classes that are made of nothing can tell."""
    if not isinstance(owner, type) or not owner.__module__.startswith("popart"):
        return False
    try:
        return hasattr(owner(), part)
    except TypeError:
        return False


def popxl_rows(is_there, names, notes, marks):
    """(name, state, test or note) for each name. Ends the program on a contradiction."""
    for name in names:
        state, note = notes.get(name, ("", ""))
        shown = f"`{marks[name][0]}`" if name in marks else ""
        if is_there(name) == (state == "absent"):
            sys.exit(f"'{name}' is {'there' if state else 'not there'}, but its list of names says otherwise")
        if state:
            yield name, state, note + (f"; {shown}" if shown else "")
        else:
            yield name, WORKS if shown else NOT_SHOWN, shown


def popxl_table(tests):
    sys.path.insert(0, str(ROOT))
    names, notes = public_names.read_popxl_names()
    marks = public_names.read_marks(tests, names, source=public_names.POPXL)
    found = list(popxl_rows(exists_in_popxl, names, notes, marks))
    counts = ", ".join(f"{sum(s == state for _, s, _ in found)} {state}" for state in (WORKS, "differs", "absent", NOT_SHOWN))
    lines = [f"{len(found)} names: {counts}.", "", "| name | state | a test that shows it, or what is different |", "|---|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {state} | {third} |" for name, state, third in found])


def popart_rows(is_there, names, notes, marks):
    """(name, state, test or note) for each name; a name that is not there and of which nothing is said is "not yet"."""
    for name in names:
        if name in notes or is_there(name):
            yield from popxl_rows(is_there, [name], notes, marks)
        elif name in marks:
            sys.exit(f"'{name}' is not there, but {marks[name][0]} says it is")
        else:
            yield name, NOT_YET, ""


def popart_table(tests):
    sys.path.insert(0, str(ROOT))
    names, notes = public_names.read_popxl_names(public_names.POPART)
    notes |= public_names.read_popart_options()
    marks = public_names.read_marks(tests, names, source=public_names.POPART)
    found = list(popart_rows(exists_in_popxl, names, notes, marks))
    states = (WORKS, "differs", NO_EFFECT, "absent", NOT_SHOWN, NOT_YET)
    counts = ", ".join(f"{sum(s == state for _, s, _ in found)} {state}" for state in states)
    lines = [f"{len(found)} names: {counts}.", "", "| name | state | a test that shows it, or what is different |", "|---|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {state} | {third} |" for name, state, third in found])


def edges(found, marks):
    """The table of sharp edges. Ends the program for a row that no test shows, or that is shown and said to be not there."""
    lines = ["| row | PopTorch 3.4 | here | a test that shows it |", "|---|---|---|---|"]
    for number, (state, theirs, here) in found.items():
        if (state == "not yet") == (number in marks):
            sys.exit(f"row {number} of scripts/sharp_edges.txt is '{state}', and {len(marks.get(number, []))} tests show it")
        said = f"{state}: {here}" if here else state
        lines.append(f"| {number} | {theirs} | {said} | {f'`{marks[number][0]}`' if number in marks else ''} |")
    return "\n".join(lines)


def popxl_edges(found, marks):
    """The table of sharp edges of PopXL. Ends the program for a row that says what no test shows, or the other way round."""
    lines = ["| row | PopXL 3.4 | here | a test that shows it |", "|---|---|---|---|"]
    for number, (state, theirs, here) in found.items():
        if (state == "not shown") == (number in marks):
            sys.exit(f"row {number} of scripts/popxl_sharp_edges.txt is '{state}', and {len(marks.get(number, []))} tests show it")
        said = f"{state}: {here}" if here else state
        lines.append(f"| {number} | {theirs} | {said} | {f'`{marks[number][0]}`' if number in marks else ''} |")
    return "\n".join(lines)


def popxl_edges_of(tests):
    found = public_names.read_edges(public_names.POPXL_EDGES)
    return popxl_edges(found, public_names.read_marks(tests, found, "edge", public_names.POPXL_EDGES))


def edges_of(tests):
    found = public_names.read_edges()
    return edges(found, public_names.read_marks(tests, found, "edge", public_names.EDGES))


def replaced(page, section, text):
    begin, end = f"<!-- {section}: begin (generated) -->", f"<!-- {section}: end -->"
    before, rest = page.split(begin)
    return f"{before}{begin}\n{text}\n{end}{rest.split(end)[1]}"


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    parser.add_argument("--tests", type=pathlib.Path, default=ROOT / "tests", help="the folder whose marks are read")
    arguments = parser.parse_args()
    tests = arguments.tests
    wanted = {PAGE: replaced(replaced(PAGE.read_text(), "names", table(tests)), "edges", edges_of(tests))}
    popxl_page = replaced(POPXL_PAGE.read_text(), "names", popxl_table(tests))
    wanted[POPXL_PAGE] = replaced(popxl_page, "edges", popxl_edges_of(tests))
    wanted[POPART_PAGE] = replaced(POPART_PAGE.read_text(), "names", popart_table(tests))
    wanted[TENSORFLOW_PAGE] = replaced(TENSORFLOW_PAGE.read_text(), "names", tensorflow_names.table(tests))
    for page, text in wanted.items():
        if not arguments.check:
            page.write_text(text)
        elif page.read_text() != text:
            sys.exit(f"docs/{page.name} is out of date: run scripts/compatibility.py")


if __name__ == "__main__":
    main()
