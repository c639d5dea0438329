#!/usr/bin/env python3
"""Runs clang-tidy (checks in .clang-tidy) on the rooms that need neither torch nor Python.

scripts/check_tidy.py [FILE ...]    all sources, or those named

Sources are checked many at once (scripts/source_units.py); a unit that does not compile as one is checked file by file. What was
clean is not checked again while sources, their headers in csrc, checks and tool stay the same: $XDG_CACHE_HOME/poptorch-tidy
(default ~/.cache) has an empty file for each clean unit.
"""

import argparse
import concurrent.futures
import hashlib
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import time

from source_units import closure, read, units

ROOT = pathlib.Path(__file__).resolve().parent.parent
NOT_CHECKED = ("bindings/", "frontends/torch/", "python/")  # they see torch's headers, or Python's
FLAGS = ["-std=c++20", "-DNDEBUG", "-w"]
KEPT_SECONDS = 30 * 24 * 3600
FINDING = re.compile(r"(?m)^(?=\S+:\d+:\d+: (?:warning|error): )")


def find_tool():
    tool = pathlib.Path(sys.executable).parent / "clang-tidy"  # of the version in scripts/requirements-test.txt
    if not tool.exists():
        sys.exit(f"{tool} is missing: run scripts/setup test")
    return str(tool)


def sources(root):
    found = sorted((root / "csrc").rglob("*.cc"))
    return [path for path in found if not str(path.relative_to(root / "csrc")).startswith(NOT_CHECKED)]


def key_of(unit, csrc, common):
    """Digests all that decides what clang-tidy says about a unit, except the headers of the system."""
    digest = hashlib.sha256(common)
    for path in [*unit, *sorted(closure(unit) - set(unit))]:
        digest.update(f"{path.relative_to(csrc)}\0{read(path)}\0".encode())
    return digest.hexdigest()


def run_tool(tool, root, unit):
    with tempfile.TemporaryDirectory() as folder:
        together = pathlib.Path(folder) / "unit.cc"
        together.write_text("".join(f'#include "{path}"\n' for path in unit))
        command = [tool, "--quiet", f"--config-file={root / '.clang-tidy'}"]
        command += [f"--header-filter=^{re.escape(str(root))}/csrc/", str(unit[0] if len(unit) == 1 else together)]
        run = subprocess.run([*command, "--", *FLAGS, f"-I{root / 'csrc'}"], capture_output=True, text=True)
    if run.returncode != 0 and not run.stdout:
        raise SystemExit(f"clang-tidy failed on {unit[0]}:\n{run.stderr}")
    return run.stdout


def check(tool, root, unit):
    """What clang-tidy says about these sources; nothing when they are clean."""
    text = run_tool(tool, root, unit)
    if "[clang-diagnostic-error]" in text and len(unit) > 1:
        return "".join(check(tool, root, [path]) for path in unit)
    return text


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=pathlib.Path)
    parser.add_argument("--root", type=pathlib.Path, default=ROOT, help="another tree with csrc and .clang-tidy")
    options = parser.parse_args()
    root = options.root.resolve()
    tool = find_tool()
    version = subprocess.run([tool, "--version"], capture_output=True, text=True, check=True).stdout
    common = "\0".join([version, read(root / ".clang-tidy"), read(pathlib.Path(__file__)), *FLAGS]).encode()
    cache = pathlib.Path(os.environ.get("XDG_CACHE_HOME") or pathlib.Path.home() / ".cache") / "poptorch-tidy"
    cache.mkdir(parents=True, exist_ok=True)
    for old in cache.iterdir():
        if old.stat().st_mtime < time.time() - KEPT_SECONDS:
            old.unlink(missing_ok=True)

    def findings_of(unit):
        clean = cache / key_of(unit, root / "csrc", common)
        text = "" if clean.exists() else check(tool, root, unit)
        if not text:
            clean.touch()
        return text

    paths = [path.resolve() for path in options.files] or sources(root)
    with concurrent.futures.ThreadPoolExecutor(os.cpu_count()) as pool:
        texts = list(pool.map(findings_of, units(paths)))
    # A finding is its line and those below it. One in a header comes with each unit that includes it.
    findings = dict.fromkeys(finding for text in texts for finding in FINDING.split(text) if finding.strip())
    print("".join(findings).replace(f"{root}/", ""), end="")
    sys.exit(1 if findings else 0)


if __name__ == "__main__":
    main()
