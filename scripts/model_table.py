#!/usr/bin/env python3
"""Writes docs/models.md from the results of tests/models, which it runs.

scripts/model_table.py [--results FILE]    FILE: what `pytest -o junit_family=xunit1 --junitxml=FILE tests/models` wrote
"""

import argparse
import importlib.metadata
import os
import pathlib
import re
import subprocess
import sys
import tempfile
import xml.etree.ElementTree as xml

ROOT = pathlib.Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "models.md"
sys.path[:0] = [str(ROOT), str(ROOT / "tests" / "models")]
from hugging_face import MODELS

HEAD = """# Models

Made by `scripts/model_table.py` from the results of `tests/models`; not to be edited. Small models of transformers {version}
(two layers, 32 wide, random weights: no downloads) as their users write them, with the implementations of attention they have.

`examples/hf_bert.py` and `examples/transformer_lm.py` are whole programs, `tests/models/test_trainer.py` is a `Trainer`; models may
also be wrapped as they are and called with keywords, and then give their own kinds of results.

- *inference* gives the distance of the scores from those of torch in double precision, over the norm of these, and that of torch in
  single precision beside it; the test bounds it by three times torch's and a millionth.
- *training* compares the losses and all weights after each of some updates with SGD in the same way.
- *over 2 IPUs* does both again with the second half of the model on a second IPU, pipelined: two micro-batches of inference, and
  one update of four.

| model | attention | inference: error (torch's) | training | over 2 IPUs |
|---|---|---|---|---|
"""


def results(file):
    """(kind, model, attention) -> (outcome, what the test recorded) of each test."""
    found = {}
    for case in xml.parse(file).iter("testcase"):
        match = re.fullmatch(r"test_(inference|training|pipeline)_follows_torch\[(\w+)-(\w+)\]", case.get("name"))
        if match is None:
            continue
        bad = [child for child in case if child.tag in ("failure", "error", "skipped")]
        first = [line for line in (bad[0].get("message") or bad[0].tag).splitlines() if line.strip()][0] if bad else ""
        recorded = {one.get("name"): one.get("value") for one in case.iter("property")}
        found[match.groups()] = (f"**fails**: {first[:120]}" if bad else "works", recorded)
    return found


def switches():
    """What the models need to be told, as lines of the page."""
    said = [(name, model.switches) for name, model in MODELS.items() if model.switches]
    lines = ["", "What is different from a program for the CPU:", "", *(f"- `{name}`: {what}." for name, what in said)]
    return "\n".join(lines) + "\n"


def page(found, version):
    lines = []
    for model, attention in dict.fromkeys(key[1:] for key in found):
        inference, errors = found["inference", model, attention]
        training, updates = found["training", model, attention]
        if errors:
            inference = f"{inference}: {errors['error']} ({errors['error of torch']})"
        if updates:
            training = f"{training}: {updates['updates']} update{'' if updates['updates'] == '1' else 's'}"
        pipeline, _ = found.get(("pipeline", model, attention), ("", {}))  # with one attention
        lines.append(f"| `{model}` | {attention} | {inference} | {training} | {pipeline} |")
    return HEAD.format(version=version) + "\n".join(lines) + "\n" + switches()


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--results", type=pathlib.Path)
    arguments = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        file = arguments.results or pathlib.Path(folder) / "results.xml"
        if arguments.results is None:
            command = [
                sys.executable,
                "-m",
                "pytest",
                "-q",
                "-o",
                "junit_family=xunit1",
                f"--junitxml={file}",
                "tests/models",
            ]
            subprocess.run(
                command, cwd=ROOT, env={**os.environ, "PYTHONPATH": os.pathsep.join([str(ROOT), *sys.path[1:]])}
            )  # failures are rows
        found = results(file)
    if not found:
        sys.exit("tests/models gave no results: is transformers installed (scripts/setup test)?")
    PAGE.write_text(page(found, importlib.metadata.version("transformers")))


if __name__ == "__main__":
    main()
