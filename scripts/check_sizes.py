#!/usr/bin/env python3
"""Checks file sizes: sources that are not generated fail at 800 lines, headers at 400, and no file is called utils.

Files listed in scripts/large_files.txt (`path lines`) may have that many lines, no more: the list may only shrink.
"""

import subprocess

import tree_check

LIMITS = {".cc": 800, ".py": 800, ".h": 400}
# Names that PopXL and the API of TensorFlow for IPUs published.
PUBLISHED = {
    "popxl/utils.py",
    "popxl/ops/utils.py",
    "popxl/ops/var_updates/utils.py",
    "tensorflow_ipu/overlay/tensorflow/python/ipu/utils.py",
}
GENERATED = {"popxl/ops/functions.py"}  # nobody edits it


def tracked(root):
    if (root / ".git").exists():
        names = subprocess.run(
            ["git", "ls-files", "-co", "--exclude-standard"], cwd=root, check=True, capture_output=True, text=True
        ).stdout
        return [root / name for name in names.splitlines()]
    return [path for path in root.rglob("*") if path.is_file()]


def violations(root):
    allowed = {}
    listing = root / "scripts" / "large_files.txt"
    if listing.exists():
        for line in listing.read_text().splitlines():
            if line.strip() and not line.startswith("#"):
                name, lines = line.split()
                allowed[name] = int(lines)
    for path in sorted(tracked(root)):
        name = path.relative_to(root).as_posix()
        if path.stem in ("utils", "util") and name not in PUBLISHED:
            yield f"{name}: name a file for the thing it defines"
        limit = LIMITS.get(path.suffix)
        if limit is None or name in GENERATED or not path.exists():
            continue
        lines = len(path.read_text().splitlines())
        limit = allowed.pop(name, limit)
        if lines > limit:
            yield f"{name}: {lines} lines, the limit is {limit}; split it by purpose"
    for name in allowed:
        yield f"scripts/large_files.txt: {name} is not there any more; remove the line"


if __name__ == "__main__":
    tree_check.main(__doc__, violations, "{count} file(s) too large or badly named")
