"""Whether BERT, captured through poptorch with its optimizer, fits the machine that it ran on (docs/device-model.md)."""

import pathlib
import sys

import pytest

sys.path.insert(0, str(pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "device_model"))
from ipu_core import _native
from networks import compilation, runs, transformers

LARGE, BASE = transformers.BERT_LARGE, transformers.BERT_BASE


def judged(config, layers, length, micro_batch, proportions, replicas=1):
    run = runs.pretraining(config, layers, length, micro_batch, replicas, 16, proportions)
    text, _ = compilation.machine_form(run)
    return text, _native.judge_memory(text, "pod16", replicas=replicas)


def test_bert_large_with_its_tied_embedding_fits():
    text, verdict = judged(LARGE, [3, 7, 7, 7], 128, 8, (0.15, 0.25, 0.25, 0.25))
    assert verdict["fits"], verdict["text"]
    # No gradient of the embedding waits for a later stage; what updates it takes the moments and the step, in fp32.
    assert "ring" in text and not [line for line in text.splitlines() if line.startswith("ring") and "30522" in line]
    first = verdict["ipus"][0]
    large = [name for name, dtype, *_ in first["largest"] if dtype == "f32[30522,1024]"]
    assert first["peak"][0] == "fused_pointwise" and len(large) == 3
    # On the others nothing of an update lives while gradients are made.
    for ipu in verdict["ipus"][1:]:
        assert not [dtype for _, dtype, cause, *_ in ipu["largest"] if cause == "values" and dtype.startswith("f32")]


@pytest.mark.slow
@pytest.mark.parametrize(
    "config, layers, length, micro_batch, proportions, replicas",
    [
        (LARGE, [3, 7, 7, 7], 128, 8, (0.15, 0.25, 0.25, 0.25), 4),
        (LARGE, [3, 7, 7, 7], 512, 2, (0.16, 0.21, 0.21, 0.21), 1),
        (BASE, [0, 4, 4, 4], 128, 32, (0.25,) * 4, 1),
        (BASE, [0, 4, 4, 4], 512, 8, (0.25,) * 4, 1),
    ],
)
def test_published_configurations_fit(config, layers, length, micro_batch, proportions, replicas):
    _, verdict = judged(config, layers, length, micro_batch, proportions, replicas)
    assert verdict["fits"], verdict["text"]


@pytest.mark.slow
def test_bert_large_at_the_default_proportion_does_not():
    _, verdict = judged(LARGE, [3, 7, 7, 7], 128, 8, (0.6,) * 4)
    assert not verdict["fits"]
