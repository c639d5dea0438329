"""The program of docs/popart.md runs and prints what the page says."""

import contextlib
import io
import pathlib
import re

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "popart.md"


def test_the_program_of_the_page_prints_what_its_comments_say():
    program = re.search(r"```python\n(.*?)```", PAGE.read_text(), re.S)[1]
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(PAGE), "exec"), {})
    said = re.findall(r"print\(.*?\)  # (.*)", program)
    assert len(said) == 2 and printed.getvalue().splitlines() == said
