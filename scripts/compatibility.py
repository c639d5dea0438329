#!/usr/bin/env python3
"""Writes the table of public names in docs/compatibility.md by looking at the built package.

scripts/compatibility.py            rewrites the table
scripts/compatibility.py --check    fails when the page is not what would be written
"""

import pathlib
import sys

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "compatibility.md"
BEGIN, END = "<!-- names: begin (generated) -->", "<!-- names: end -->"
REFUSED = "Not available in this version"


def works(poptorch, name):
    """Does `poptorch.<name>` exist and do something? Options parts are looked up on an instance."""
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


def table():
    sys.path.insert(0, str(ROOT))
    import poptorch

    names = [
        name
        for line in (ROOT / "scripts" / "public_names.txt").read_text().splitlines()
        if not line.startswith("#")
        for name in line.split()
    ]
    rows = [(name, "works" if works(poptorch, name) else "not yet") for name in names]
    count = sum(state == "works" for _, state in rows)
    lines = [f"{count} of {len(rows)} public names work.", "", "| name | state |", "|---|---|"]
    return "\n".join(lines + [f"| `{name}` | {state} |" for name, state in rows])


def main():
    page = PAGE.read_text()
    before, rest = page.split(BEGIN)
    after = rest.split(END)[1]
    wanted = f"{before}{BEGIN}\n{table()}\n{END}{after}"
    if "--check" in sys.argv:
        if page != wanted:
            sys.exit("docs/compatibility.md is out of date: run scripts/compatibility.py")
        return
    PAGE.write_text(wanted)


if __name__ == "__main__":
    main()
