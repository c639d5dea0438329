"""The programs of examples/tensorflow as a user runs them. Digits are those of the scikit-learn in .venv, which nothing imports."""

import pathlib
import re

import programs
import pytest

ROOT = pathlib.Path(__file__).resolve().parents[2]
RUN = "import runpy, sys; sys.path.insert(0, {folder!r}); import tensorflow.compat.v1 as tf"


def run(*commands):
    """What programs print that run one after the other; a command is a program with its arguments."""
    folder = ROOT / "examples" / "tensorflow"
    lines = [RUN.format(folder=str(folder))]
    for name, *arguments in commands:
        lines.append(f"tf.reset_default_graph(); sys.argv = {[name, *arguments]!r}")
        lines.append(f"runpy.run_path({str(folder / name)!r}, run_name='__main__')")
    lines.append("assert 'torch' not in sys.modules")
    return programs.output_of("\n".join(lines))


def digits():
    (found,) = ROOT.glob(".venv/lib/python*/site-packages/sklearn/datasets/data/digits.csv.gz")
    return ["--data", str(found)]


def losses_of(text):
    return [float(number) for number in re.findall(r"mean loss ([\d.]+)", text)]


def accuracies_of(text):
    return [float(number) for number in re.findall(r"accuracy on unseen digits: ([\d.]+)%", text)]


def test_digits_are_learned_in_a_loop_between_two_feeds_and_recognised_from_a_checkpoint(tmp_path):
    checkpoint = str(tmp_path / "model")
    text = run(["train_digits.py", *digits(), "--save", checkpoint], ["predict_digits.py", checkpoint, *digits()])
    losses, (trained, restored) = losses_of(text), accuracies_of(text)
    assert len(losses) == 8 and losses[-1] < 0.1 * losses[0]
    assert trained >= 97 and restored == trained
    assert len(re.findall(r"image \d+ of a \d is taken for a \d", text)) == min(10, round(360 * (1 - restored / 100)))


@pytest.mark.slow
def test_digits_are_recognised_row_by_row():
    text = run(["lstm_classifier.py", *digits()])
    losses = losses_of(text)
    assert len(losses) == 6 and losses[-1] < 0.1 * losses[0] and accuracies_of(text)[0] >= 93


@pytest.mark.slow
def test_a_transformer_learns_in_float16_with_weights_of_float32():
    text = run(["transformer.py"])
    losses = losses_of(text)
    assert len(losses) == 8 and losses == sorted(losses, reverse=True) and losses[-1] < 1.2
    count, kinds, rounding = re.search(r"(\d+) weights of (\S+), at most (\S+) away", text).groups()
    assert (count, kinds) == ("30", "float32") and 0 < float(rounding) < 2e-3
