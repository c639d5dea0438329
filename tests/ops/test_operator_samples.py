"""PyTorch's samples of its operators (tests/ops/operator_samples): no sample fails that did not fail before."""

import pathlib
import subprocess
import sys

import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
sys.path.insert(0, str(ROOT / "tests" / "ops" / "operator_samples"))
import outcomes  # noqa: E402

sys.path.remove(str(ROOT / "tests" / "ops" / "operator_samples"))


def script(*arguments):
    """Runs scripts/operator_samples.py; a process of its own, for torch's test helpers change settings of torch."""
    command = [sys.executable, str(ROOT / "scripts" / "operator_samples.py"), *arguments]
    return subprocess.run(command, capture_output=True, text=True, cwd=ROOT)


def test_a_few_samples_of_some_operators():
    result = script("--check", "--every", "9", "--samples", "3")
    assert result.returncode == 0, result.stderr + result.stdout


@pytest.mark.slow
@pytest.mark.timeout(3000)
def test_all_samples_of_all_operators():
    result = script("--check", "--jobs", "2")
    assert result.returncode == 0, result.stderr + result.stdout


def test_the_page_says_what_the_table_says():
    result = script("--page", "--check")
    assert result.returncode == 0, result.stderr


# torch's own rules of shapes for these fail with an error of theirs, which poptorch hands on.
FAIL_IN_TORCH = {"torch.ops.aten._safe_softmax.default"}


def failed(kind):
    return {key[0] for key, row in outcomes.read().items() for of, _ in row.failed if of == kind}


def test_no_sample_gives_wrong_values():
    assert not failed("wrong")


def test_samples_that_break_are_those_of_rules_of_torch():
    assert failed("broken") == FAIL_IN_TORCH


def test_every_supported_operator_is_known_to_torch_and_run():
    run = {key[0] for key in outcomes.read()}
    names = {name for _, _, entries in outcomes.supported() for name in entries}
    missing = [n for n in names if not any(outcomes.name_in_op_db(o, {n}) for o in run)]
    assert not missing


KEY = ("add", "value", "float32")


@pytest.mark.parametrize(
    "measured, recorded, said",
    [
        ([None, None], [None], ""),
        ([None, ("refused", "why")], [("refused", "why")], ""),
        ([("refused", "why")], [None], "add | value | float32: 1 refused and not 0: why"),
        ([("refused", "another")], [("refused", "why")], ""),
        ([("wrong", "values")], [("refused", "why")], "add | value | float32: 1 wrong and not 0: values"),
        ([("wrong", "values")] * 2, [("wrong", "values")], "add | value | float32: 2 wrong and not 1: values"),
    ],
)
def test_what_is_worse_than_the_table(measured, recorded, said):
    rows = [outcomes.count((KEY, outcome) for outcome in of) for of in (measured, recorded)]
    assert outcomes.worse(*rows) == ([said] if said else [])


def test_the_table_is_read_as_it_was_written(tmp_path, monkeypatch):
    monkeypatch.setattr(outcomes, "TABLE", tmp_path / "outcomes.txt")
    rows = outcomes.count([(KEY, None), (KEY, ("refused", "a reason: with 2 | signs")), (KEY, ("refused", "b"))])
    outcomes.write(rows)
    assert outcomes.read() == rows and outcomes.read()[KEY].total == 3
