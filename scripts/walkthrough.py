#!/usr/bin/env python3
"""Makes the dumps in docs/walkthrough.md by running the program on that page.

scripts/walkthrough.py            rewrites the dumps
scripts/walkthrough.py --check    fails when the page is not what would be written

The comment in front of a block says what the block holds:

    <!-- dump: MOMENT; PART, PART; without KIND, KIND; lines REGEX -->

MOMENT is one of IPU_DUMP (at:Captured, after:place), `program` or `passes`. PART is @GRAPH, `tables` (variables, streams, rings;
of `program` all above the first IPU) or `ipu N`. `without` leaves out `locations`, `origins`, `settings` or `codes`
(the attributes of a fused operation); `lines` keeps only lines that REGEX finds, and puts `...` for each run of others.
"""

import argparse
import contextlib
import os
import pathlib
import re
import sys
import tempfile

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "walkthrough.md"
PROGRAM = re.compile(r"```python\n(.*?)```", re.S)
BLOCK = re.compile(r"<!-- dump: (.*?) -->\n```\n(.*?)```\n", re.S)
KINDS = {
    "locations": (re.compile(r' loc\("[^"]*":\d+(, "[^"]*")?\)|  // \S+:\d+( \[.*\])?$', re.M), ""),
    "origins": (re.compile(r' origin\("[^"]*", "[^"]*"\)'), ""),
    "settings": (re.compile(r" ?\{\| [^}]*\}| \| [^}]*(?=\})"), ""),
    "codes": (re.compile(r"\{code=[^|}]*[^|} ]"), "{code=[...]"),
}


def run_program(code):
    """moment → text, of the program on the page; `program` is the lowered one."""
    sys.path.insert(0, str(ROOT))
    with tempfile.TemporaryDirectory() as folder:
        os.environ.update(IPU_DUMP="all", IPU_DUMP_DIR=folder, POPTORCH_LOG_LEVEL="ERR")
        names = {"__name__": "__main__"}
        with contextlib.redirect_stderr(None):  # the progress bar
            exec(compile(code, "model.py", "exec"), names)
        files = sorted(pathlib.Path(folder).iterdir())
        dumps = [(path.stem.split("-", 1)[1].replace("-", ":", 1), path.read_text()) for path in files]
    texts = dict(dumps)
    texts["program"] = names["trainer"]._executable.program_text()
    texts["passes"] = pass_table(dumps)
    return texts


def count_ops(text):
    return len(re.findall(r"^  (?!return)\S", text, re.M))


def pass_table(dumps):
    """What each pass made of the number of operations; those of the machine form, a fork, stand further in."""
    moments = [moment for moment, _ in dumps]
    fork = range(moments.index("at:PreAlias") + 1, moments.index("at:Machine") + 1)
    lines, before = [], ""
    for number, (moment, text) in enumerate(dumps):
        when, what = moment.split(":")
        indent = "    " if number in fork else ""
        if when == "before":
            before = text
        elif when == "after":
            change = f"{count_ops(before):4} -> {count_ops(text)} operations"
            lines.append(f"{indent + what:26}{change if text != before else '     nothing to do'}")
        elif what != "Captured":
            lines.append(f"{indent}@{what}")
    return "\n".join(lines) + "\n"


def part(text, name):
    """One graph, one IPU, or the tables at the top."""
    if name.startswith("@"):
        pattern = rf"^graph {re.escape(name)}\(.*?^\}}$"
    elif name == "tables":
        pattern = r"\A.*?(?=\n\ngraph |\nipu 0 )"
    else:
        pattern = rf"^{re.escape(name)} .*?(?=\nipu |\n*\Z)"
    found = re.search(pattern, text, re.S | re.M)
    if found is None:
        sys.exit(f"docs/walkthrough.md: there is no part '{name}' in this dump")
    return found[0]


def keep_lines(text, pattern):
    kept = []
    for line in text.splitlines():
        if re.search(pattern, line):
            kept.append(line)
        elif not kept or kept[-1].strip() != "...":
            kept.append(re.match(r"\s*", line)[0] + "...")
    return "\n".join(kept)


def make_block(texts, recipe):
    moment, *clauses = (clause.strip() for clause in recipe.split(";"))
    if moment not in texts:
        sys.exit(f"docs/walkthrough.md: there is no dump '{moment}'; there are {', '.join(texts)}")
    text = texts[moment].strip("\n")
    pattern = None
    for clause in clauses:
        if clause.startswith("without "):
            for kind in clause[len("without ") :].split(", "):
                text = KINDS[kind][0].sub(KINDS[kind][1], text)
        elif clause.startswith("lines "):
            pattern = clause[len("lines ") :]
        else:
            text = "\n\n".join(part(text, name) for name in clause.split(", "))
    return keep_lines(text, pattern) if pattern else text


def make_page(page):
    program = PROGRAM.search(page)
    if program is None:
        sys.exit("docs/walkthrough.md has no program")
    texts = run_program(program[1])
    return BLOCK.sub(lambda found: f"<!-- dump: {found[1]} -->\n```\n{make_block(texts, found[1])}\n```\n", page)


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--check", action="store_true", help="fail when the page is out of date")
    parser.add_argument("--page", type=pathlib.Path, default=PAGE, help="another page of the same form")
    options = parser.parse_args()
    page = options.page.read_text()
    wanted = make_page(page)
    if not options.check:
        options.page.write_text(wanted)
    elif page != wanted:
        sys.exit("docs/walkthrough.md is out of date: run scripts/walkthrough.py and read the page again")


if __name__ == "__main__":
    main()
