#!/usr/bin/env python3
"""Rewrites the expectations of `.ir` tests from what the passes give now, for review in the diff.

    scripts/update_checks.py tests/passes/cse.ir [CASE ...]

The CHECK comments of each named case (default: those that fail) go; at its end stands the whole result as one CHECK and
CHECK-NEXT block. Keep what matters of it, and write beside the lines why it must be so.
"""

import argparse
import pathlib
import re
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[1]
sys.path.insert(0, str(ROOT / "tests" / "passes"))

from test_ir_files import case_names, find_ipu_opt  # noqa: E402

SEPARATOR = "\n// ---\n"


def run(tool, *arguments):
    return subprocess.run([tool, *arguments], capture_output=True, text=True, check=False).stdout


def block(result):
    lines = [line.strip() for line in result.splitlines() if line.strip()]
    return "".join(f"// CHECK{'' if i == 0 else '-NEXT'}: {line}\n" for i, line in enumerate(lines))


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=pathlib.Path)
    parser.add_argument("cases", nargs="*")
    options = parser.parse_args()
    tool = find_ipu_opt()
    if tool is None:
        sys.exit("ipu-opt is not built. Build it with: ninja -C build/core ipu-opt")
    path = str(options.file)
    names = case_names(options.file)
    failing = {line.rsplit(": ", 1)[1] for line in run(tool, "--test", path).splitlines() if line.startswith("FAIL ")}
    wanted = set(options.cases) or failing
    if unknown := wanted - set(names):
        sys.exit(f"{path} has no case {', '.join(sorted(unknown))}; it has {', '.join(names)}")
    results = re.split(r"^// ==== .*\n", run(tool, "--results", path), flags=re.MULTILINE)[1:]
    pieces = options.file.read_text().split(SEPARATOR)
    for i, (name, result) in enumerate(zip(names, results, strict=True)):
        if name in wanted:
            # Blank lines between graphs do not print inside a block of CHECK-NEXT: one block for each graph.
            kept = re.sub(r"[ \t]*// CHECK[-A-Z]*:.*", "", pieces[i]).rstrip("\n") + "\n"
            pieces[i] = kept + "".join(block(graph) for graph in result.split("\n\n"))
            pieces[i] = pieces[i].rstrip("\n") if i + 1 < len(pieces) else pieces[i]
    options.file.write_text(SEPARATOR.join(pieces))
    print(f"{path}: updated {', '.join(name for name in names if name in wanted) or 'nothing'}")


if __name__ == "__main__":
    main()
