"""Each error code has a page, each page a code, and the index lists them."""

import pathlib
import subprocess
import sys

ROOT = pathlib.Path(__file__).resolve().parents[2]


def test_every_error_code_has_a_page_and_every_page_a_code():
    result = subprocess.run(
        [sys.executable, str(ROOT / "scripts" / "error_index.py"), "--check"], capture_output=True, text=True
    )
    assert result.returncode == 0, result.stderr
