"""Hostile texts for the readers written in Python: options files and the pickles of executable files.

Each runs for IPU_FUZZ_SECONDS (default 1) from IPU_FUZZ_SEED; `scripts/test` gives them a minute. What they found is kept
below as tests of its own.
"""

import os
import random
import time

import pytest
import torch
from models import Mlp

import poptorch
from poptorch._impl import unpickler

SECONDS = float(os.environ.get("IPU_FUZZ_SECONDS", "1"))
SEED = int(os.environ.get("IPU_FUZZ_SEED", "20261121"))

OPTIONS = """\
# a comment
deviceIterations(4)
Training.gradientAccumulation(8)
Training.accumulationAndReplicationReductionType(poptorch.ReductionType.Sum)
outputMode(poptorch.OutputMode.EveryN, output_return_period=2)
setExecutionStrategy(poptorch.PipelinedExecution(poptorch.Stage("a", "b").ipu(1), ["c"]))
setAvailableMemoryProportion({"IPU0": 0.2, "IPU1": 0.3})
TensorLocations.setWeightLocation(poptorch.TensorLocationSettings().useOnChipStorage(True))
connectionType(poptorch.ConnectionType.OnDemand)
updatableNamedBuffers(["x", "y"])
modelName("text with \\"quotes\\"")
randomSeed(-1)
"""
PIECES = [
    "(", ")", "[", "]", "{", "}", ",", ".", "=", "*", "**", "lambda: ", "\n", "#", "'", '"', "\\", ":", ";", "@", "-", "not ",
    "__class__", "__import__('os')", "eval('1')", "poptorch.", "Training", "_freeze", "_values", "clone()", "toDict()", "1e999",
    "9" * 30, "None", "True", "f'{1}'", "b'x'", "1j", "...", "x := 1", " if 1 else 2", "[a for a in b]", "\0", "\ud7ff", "ä",
    "(" * 50, "[" * 300, "-" * 3000, "1+" * 2000, "loadFromFile('/etc/passwd')", "from_json('{}')",
]  # fmt: skip


def rounds(name):
    """Numbered generators until the time is over; the number reproduces a round."""
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        yield random.Random(f"{name} {SEED} {number}"), number
        number += 1


def mutated(text, pieces, choose):
    for _ in range(choose.randint(1, 4)):
        at = choose.randrange(len(text) + 1)
        kind = choose.randrange(4)
        if kind == 0:
            text = text[:at] + choose.choice(pieces) + text[at:]
        elif kind == 1:
            text = text[:at] + text[at + choose.randint(1, 20) :]
        elif kind == 2:
            other = choose.randrange(len(text) + 1)
            text = text[:at] + text[other : other + choose.randint(1, 40)] + text[at:]
        else:
            text = text[:at]
    return text


def test_options_files_are_applied_or_refused(tmp_path):
    path = tmp_path / "options.conf"
    allowed = (poptorch.ConfigFileError, AssertionError, ValueError, TypeError, AttributeError, poptorch.Error)
    for choose, number in rounds("options"):
        text = mutated(OPTIONS, PIECES, choose)
        path.write_text(text, encoding="utf-8", errors="surrogatepass")
        options = poptorch.Options()
        try:
            options.loadFromFile(str(path))
        except allowed:
            pass
        except FileNotFoundError:
            assert "loadFromFile" in text  # the option, called from the file
        except BaseException as error:
            pytest.fail(f"round {number} of seed {SEED}: {type(error).__name__}: {error}\n{text}")


def corpus():
    model = Mlp(2)
    values = [
        model,
        {"a": [1, (2, "x"), {3}], "b": torch.arange(4), "c": poptorch.OutputMode.All, "d": b"x" * 30},
        poptorch.Options().deviceIterations(2),
        torch.nn.LSTM(2, 3),
        (model, poptorch.optim.AdamW(model.parameters(), lr=0.1)),
    ]
    return [unpickler.write(value) for value in values]


def test_pickles_give_a_value_or_an_error():
    samples = corpus()
    pieces = [b"\x93", b"R", b"b", b"\x81", b"cos\nsystem\n", b"(", b"t", b"h\x00", b"]", b"a", b"\x8c\x04eval", b"Q", b"\x92"]
    for choose, number in rounds("pickles"):
        content, storages = choose.choice(samples)
        content = mutated(content, pieces, choose)
        try:
            unpickler.read(content, storages, "FILE")
        except poptorch.Error:
            pass
        except BaseException as error:
            pytest.fail(f"round {number} of seed {SEED}: {type(error).__name__}: {error}\n{content!r}")


# --- found by the fuzzers


@pytest.mark.parametrize("line", ["deviceIterations(" + "-" * 3000 + "1)", "deviceIterations(" + "1+" * 3000 + "1)"])
def test_deep_nesting_in_an_options_file_is_a_syntax_error(tmp_path, line):
    path = tmp_path / "options.conf"
    path.write_text(line)
    with pytest.raises(poptorch.ConfigFileError, match="SyntaxError at line 1 of options.conf: "):
        poptorch.Options().loadFromFile(str(path))


def test_private_names_are_no_options(tmp_path):
    path = tmp_path / "options.conf"
    path.write_text("_values.clear()")
    with pytest.raises(poptorch.ConfigFileError, match="expected a dotted option name"):
        poptorch.Options().loadFromFile(str(path))
