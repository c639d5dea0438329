"""Hostile texts for the readers written in Python: options files, JSON, the pickles of executable files, folders of the cache.

Each runs for IPU_FUZZ_SECONDS (default 1) from IPU_FUZZ_SEED (tests/conftest.py); `scripts/test` gives them a minute. What they
found is kept below as tests of its own.
"""

import json
import os
import pathlib
import random
import re
import subprocess
import sys
import time

import pytest
import torch
from models import Mlp

import poptorch
from poptorch._impl.files import unpickler

SECONDS = float(os.environ.get("IPU_FUZZ_SECONDS", "1"))

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


def rounds(name, seed):
    """Numbered generators until the time is over; the number reproduces a round."""
    end = time.monotonic() + SECONDS
    number = 0
    while time.monotonic() < end:
        yield random.Random(f"{name} {seed} {number}"), number
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


def test_options_files_are_applied_or_refused(tmp_path, fuzz_seed):
    path = tmp_path / "options.conf"
    allowed = (poptorch.ConfigFileError, AssertionError, ValueError, TypeError, AttributeError, poptorch.Error)
    for choose, number in rounds("options", fuzz_seed):
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
            pytest.fail(f"round {number} of seed {fuzz_seed}: {type(error).__name__}: {error}\n{text}")


ACCESSORS = [
    "deviceIterations", "Training", "gradientAccumulation", "_Popart", "set", "outputMode", "Distributed", "Precision",
    "TensorLocations", "__func__", "__self__", "__class__", "__builtins__", "__globals__", "update", "_values", "clear", "_set",
    "clone", "toDict", "_parts", "__init__", "__setattr__", "options", "patterns", "from_json", "loadFromFile", "exists",
    "deleteIfExists", "_freeze", "anchored_tensors", "device_iterations", "", " ", "modelName", "sourceLocationExcludes",
]  # fmt: skip
VALUES = [
    {"print": 1}, [], [["a"], 2], 3, -1, 1.5, None, True, "x", "OutputMode.All", "enum.Enum", "OutputMode.__class__",
    {"a": {"b": []}}, ["enableOutlining", False], "{}", 1 << 70,
]  # fmt: skip


def test_json_options_are_applied_or_refused(fuzz_seed):
    import builtins

    before = dict(vars(builtins))
    allowed = (AssertionError, ValueError, TypeError, AttributeError, poptorch.Error, FileNotFoundError)
    for choose, number in rounds("json", fuzz_seed):
        calls = {
            ".".join(choose.choice(ACCESSORS) for _ in range(choose.randint(1, 4))): choose.choice(VALUES)
            for _ in range(choose.randint(1, 4))
        }
        options = poptorch.Options()
        try:
            options.from_json(json.dumps(calls))
        except allowed:
            pass
        except BaseException as error:
            pytest.fail(f"round {number} of seed {fuzz_seed}: {type(error).__name__}: {error}\n{calls}")
        assert vars(builtins) == before and poptorch.Options() == poptorch.Options() and repr(options)


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


def test_pickles_give_a_value_or_an_error(fuzz_seed):
    samples = corpus()
    pieces = [
        b"\x93",
        b"R",
        b"b",
        b"\x81",
        b"cos\nsystem\n",
        b"(",
        b"t",
        b"h\x00",
        b"]",
        b"a",
        b"\x8c\x04eval",
        b"Q",
        b"\x92",
    ]
    for choose, number in rounds("pickles", fuzz_seed):
        content, storages = choose.choice(samples)
        content = mutated(content, pieces, choose)
        try:
            unpickler.read(content, storages, "FILE")
        except poptorch.Error:
            pass
        except BaseException as error:
            pytest.fail(f"round {number} of seed {fuzz_seed}: {type(error).__name__}: {error}\n{content!r}")


@pytest.mark.slow
def test_changed_model_parts_load_or_are_refused_and_call_nothing(tmp_path, fuzz_seed):
    """See pickle_fuzzer.py; memory is bounded here, time there."""
    script = os.path.join(os.path.dirname(__file__), "pickle_fuzzer.py")
    limit = "import resource, runpy, sys, torch, poptorch\n"
    limit += "taken = int(open('/proc/self/statm').read().split()[0]) * resource.getpagesize()\n"
    limit += "resource.setrlimit(resource.RLIMIT_AS, (taken + (3 << 30),) * 2)\n"
    limit += "sys.argv = sys.argv[1:]\nrunpy.run_path(sys.argv[0], run_name='__main__')\n"
    result = subprocess.run(
        [sys.executable, "-c", limit, script, str(SECONDS), str(fuzz_seed), str(tmp_path)],
        capture_output=True,
        text=True,
        timeout=SECONDS + 300,
        env={**os.environ, "PYTHONPATH": os.pathsep.join([os.path.dirname(script), *filter(None, sys.path)])},
    )
    at = tmp_path / "round"
    where = f"round {at.read_text().strip() if at.exists() else 'none'} of seed {fuzz_seed}"
    assert result.returncode == 0, f"{where}\n{result.stdout[-2000:]}{result.stderr[-4000:]}"


def cached(folder, kind, iterations):
    """(result, was it in the cache) of a program of a dozen."""
    torch.manual_seed(kind)
    sizes = (4, 3 + kind % 3)
    layers = [torch.nn.Linear(*sizes), (torch.nn.ReLU, torch.nn.Tanh)[kind % 2]()]
    options = poptorch.Options().deviceIterations(iterations).enableExecutableCaching(str(folder))
    executor = poptorch.inferenceModel(torch.nn.Sequential(*layers).eval(), options.showCompilationProgressBar(False))
    x = torch.arange(4.0 * iterations).view(iterations, 4) / 10
    return executor(x), executor._executable.from_cache


PROGRAMS = [(kind, iterations) for kind in range(6) for iterations in (1, 2)]


def test_a_cache_that_others_write_into_gives_right_numbers(tmp_path, fuzz_seed):
    """Entries are exchanged, damaged, cut and replaced by what is no file. Forged ones: tests/executable/cache_fuzz_test.cc."""
    folder = tmp_path / "cache"
    right, names = {}, {}
    for program in PROGRAMS:
        known = set(os.listdir(folder)) if folder.exists() else set()
        right[program], _ = cached(folder, *program)
        (names[program],) = set(os.listdir(folder)) - known
        assert cached(folder, *program)[1]
    good = {program: (folder / name).read_bytes() for program, name in names.items()}
    for choose, number in rounds("cache", fuzz_seed):
        program, other = choose.choice(PROGRAMS), choose.choice(PROGRAMS)
        entry, kind = folder / names[program], choose.randrange(6)
        content = bytearray(good[program])
        entry.unlink(missing_ok=True)
        if kind == 0:
            entry.write_bytes(good[other])
        elif kind == 1:
            for _ in range(choose.randint(1, 5)):
                content[choose.randrange(len(content))] = choose.randrange(256)
            entry.write_bytes(content)
        elif kind == 2:
            entry.write_bytes(content[: choose.randrange(len(content))])
        elif kind == 3:  # one name or number of the header for another
            header = int.from_bytes(content[:8], "little")
            at = choose.choice([m.start() for m in re.finditer(rb"[0-9a-z]", content[8 : 8 + header])])
            content[8 + at] = choose.choice(b"0123456789abcdefg")
            entry.write_bytes(content)
        elif kind == 4:
            entry.symlink_to(folder / names[other])
        else:
            os.mkfifo(entry)
        result, _ = cached(folder, *program)
        assert torch.equal(result, right[program]), f"round {number} of seed {fuzz_seed}: kind {kind}"
        for changed in {program, other}:
            path = pathlib.Path(folder / names[changed])
            if not path.is_file() or path.is_symlink() or path.read_bytes() != good[changed]:
                path.unlink(missing_ok=True)
                path.write_bytes(good[changed])


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
