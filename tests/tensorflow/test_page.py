"""docs/tensorflow.md: its program runs, prints what the page says, and becomes the program that the page shows."""

import pathlib
import re

import programs

PAGE = pathlib.Path(__file__).resolve().parents[2] / "docs" / "tensorflow.md"
SHOW = """
from ipu_core import _native
made = []
class Unit(_native.Unit):
    def __init__(self, *arguments):
        super().__init__(*arguments)
        made.append(self)
_native.Unit = Unit
{}
print(made[0].text())
"""


def test_the_program_of_the_page_runs_and_becomes_what_the_page_shows():
    page = PAGE.read_text()
    program = re.search(r"```python\n(.*?)```", page, re.S)[1]
    shown = page.split("that each line has:\n\n```\n")[1].split("```")[0].splitlines()
    printed = programs.output_of(SHOW.format(program))
    assert ", ".join(printed.split()[:3]) in page
    lines = [re.sub(r" (loc|origin)\(.*", "", line) for line in printed.splitlines()]
    assert [line for line in shown if line != "..." and line not in lines] == []
