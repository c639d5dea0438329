"""One result per case of the `.ir` files: `ipu-opt --test` checks them all in one process, this turns lines into results."""

import functools
import os
import pathlib
import subprocess

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
FILES = sorted((ROOT / "tests").rglob("*.ir"))


def find_ipu_opt():
    """IPU_OPT, or the newest ipu-opt of any build folder."""
    if "IPU_OPT" in os.environ:
        return os.environ["IPU_OPT"]
    built = sorted(ROOT.glob("build/*/ipu-opt"), key=lambda path: path.stat().st_mtime)
    return str(built[-1]) if built else None


def case_names(path):
    names, pieces = [], path.read_text().split("\n// ---\n")
    for number, piece in enumerate(pieces, 1):
        heads = [line.strip() for line in piece.splitlines() if line.strip().startswith("graph @")]
        names.append(heads[0][len("graph @") :].split("(")[0] if heads else f"case {number}")
    return names


@functools.cache
def results():
    """(file, case) -> "" when it passed, else the failure."""
    tool = find_ipu_opt()
    if tool is None:
        pytest.fail("ipu-opt is not built. Build it with: ninja -C build/core ipu-opt")
    run = subprocess.run([tool, "--test", *map(str, FILES)], capture_output=True, text=True, timeout=300, check=False)
    assert run.returncode in (0, 1), run.stderr
    found, key = {}, None
    for line in run.stdout.splitlines():
        if line.startswith(("PASS ", "FAIL ")):
            path, name = line[5:].rsplit(": ", 1)
            key = (path, name)
            found[key] = "" if line.startswith("PASS") else "\n"
        elif key is not None:
            found[key] += line + "\n"
    return found


@pytest.mark.parametrize(
    "path, name",
    [
        pytest.param(path, name, id=f"{path.relative_to(ROOT / 'tests')}:{name}")
        for path in FILES
        for name in case_names(path)
    ],
)
def test_case_gives_what_its_comments_say(path, name):
    found = results()
    failure = found.get((str(path), name), found.get((str(path), "the file"), "ipu-opt did not report this case"))
    assert failure == "", failure
