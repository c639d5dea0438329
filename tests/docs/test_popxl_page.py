"""The first program of docs/popxl.md runs, prints what the page says, and is the IR beside it."""

import contextlib
import io
import pathlib
import re

PAGE = (pathlib.Path(__file__).resolve().parents[2] / "docs" / "popxl.md").read_text()


def test_the_program_prints_what_its_comments_say_and_has_the_ir_of_the_page(tmp_path):
    program = re.search(r"```python\n(.*?)```", PAGE, re.S)[1]
    ir_text = re.search(r"```\n(variable .*?)```", PAGE, re.S)[1]
    path, names, printed = tmp_path / "page.py", {}, io.StringIO()
    path.write_text(program)
    with contextlib.redirect_stdout(printed):
        exec(compile(program, str(path), "exec"), names)
    assert printed.getvalue().splitlines() == re.findall(r"  # (\[.*\])", program)
    dump = names["ir"]._pb_ir._core.module_text()
    assert re.sub(r' (loc|origin)\("[^)]*\)', "", dump).strip() == ir_text.strip()
