"""The dumps in docs/walkthrough.md are those of the program on the page, and the script that writes them sees what is wrong."""

import pathlib
import re
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
PAGE = ROOT / "docs" / "walkthrough.md"


def walkthrough(*arguments):
    command = [sys.executable, str(ROOT / "scripts" / "walkthrough.py"), *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=200)


def test_the_dumps_on_the_page_are_those_of_its_program(tmp_path):
    page = tmp_path / "walkthrough.md"
    text = PAGE.read_text()
    page.write_text(text.replace("kernel reduce_mean", "kernel reduce_sum", 1))
    run = walkthrough("--page", page)
    assert run.returncode == 0, run.stderr
    assert page.read_text() == text, "run scripts/walkthrough.py"


def test_a_wrong_dump_is_refused_and_stays(tmp_path):
    page = tmp_path / "walkthrough.md"
    wrong = PAGE.read_text().replace("kernel reduce_mean", "kernel reduce_sum", 1)
    assert wrong != PAGE.read_text()
    page.write_text(wrong)
    run = walkthrough("--check", "--page", page)
    assert run.returncode == 1 and "walkthrough.md is out of date: run scripts/walkthrough.py" in run.stderr
    assert page.read_text() == wrong


@pytest.mark.parametrize(
    "recipe, why", [("at:Nowhere", "there is no dump 'at:Nowhere'"), ("program; ipu 2", "there is no part 'ipu 2'")]
)
def test_a_recipe_that_names_nothing_is_refused(monkeypatch, recipe, why):
    monkeypatch.syspath_prepend(ROOT / "scripts")
    import walkthrough as script

    with pytest.raises(SystemExit, match=why):
        script.make_block({"program": "program\nipu 0 arena\n  0: jump\n"}, recipe)


def test_files_that_the_page_names_are_there():
    for path in re.findall(r"`((?:csrc|poptorch|scripts|frontends)/[\w/.]+)`", PAGE.read_text()):
        assert any((ROOT / folder / path).exists() for folder in ("", "csrc")), path
    for path in re.findall(r"\]\(([\w/.-]+)\)", PAGE.read_text()):
        assert (PAGE.parent / path).exists(), path
