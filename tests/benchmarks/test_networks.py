"""The measured networks of the device model: that rows find them, and that they are what they say."""

import pathlib
import sys

import pytest
import torch

DEVICE_MODEL = pathlib.Path(__file__).resolve().parents[2] / "benchmarks" / "device_model"
sys.path.insert(0, str(DEVICE_MODEL))

import measurements  # noqa: E402
from networks import compilation, runs, transformers, vision  # noqa: E402

ROWS = {row.id: row for row in measurements.read(DEVICE_MODEL / "calibration.csv")}


def parameters(make):
    with torch.device("meta"):
        return sum(parameter.numel() for parameter in make().parameters())


# Published sizes, in millions.
@pytest.mark.parametrize(
    ("make", "millions"),
    [
        (lambda: transformers.Pretraining(transformers.BERT_LARGE, [24], 76), 336),
        (lambda: transformers.Pretraining(transformers.BERT_BASE, [12], 76), 110),
        (lambda: transformers.Decoder(transformers.GPT2_SMALL, [12]), 124),
        (runs.find(ROWS["memory-fit-0028"]).make, 10.67 + 0.39),  # published without those of positions
        (lambda: transformers.VisionTransformer(transformers.VIT_BASE, [12]), 86),
        (lambda: vision.ResNet(), 25.6),
        (lambda: vision.resnext101(), 44.2),
        (lambda: vision.EfficientNet(vision.B0), 5.3),
        (lambda: vision.EfficientNet(vision.B4_GROUP_1), 19.3),
    ],
)
def test_a_network_has_as_many_parameters_as_published(make, millions):
    assert parameters(make) / 1e6 == pytest.approx(millions, rel=0.02)


def test_a_step_of_mlperf_has_the_samples_of_its_global_batch():
    for id, samples in (("model-train-0002", 3072), ("model-train-0034", 3072), ("model-train-0040", 4608)):
        assert runs.find(ROWS[id]).items_per_step == samples, id


@pytest.mark.parametrize("id", ["model-train-0095", "model-train-0103", "model-infer-0027", "gemm-0001"])
def test_a_row_of_another_network_is_not_expressed(id):
    assert id not in ROWS or runs.find(ROWS[id]) is None


# torch has no CTC loss on meta, which Conformer trains with.
@pytest.mark.slow
@pytest.mark.parametrize(
    "id",
    sorted(
        id
        for id, row in ROWS.items()
        if (run := runs.find(row)) and not run.form and "Conformer-medium" not in row.workload
    ),
)
def test_a_network_takes_its_arguments(id):
    run = runs.find(ROWS[id])
    with torch.device("meta"):
        module = run.make().half().train(run.is_training)
    results = module(*run.inputs(run.micro_batch))
    assert all(result.device.type == "meta" for result in (results if isinstance(results, tuple) else (results,)))


def test_a_network_is_compiled_as_it_ran():
    text, steps = compilation.machine_form(runs.find(ROWS["model-infer-0017"]))
    assert steps == 128 and text.count(" = conv(") == 53 and "f16[4,3,224,224]" in text and "half_convolutions" in text
    assert "head.weight: f16[1000,2048]" in text


@pytest.mark.slow
@pytest.mark.parametrize("id", sorted(id for id, row in ROWS.items() if runs.find(row)))
def test_every_network_is_compiled(id):
    run = runs.find(ROWS[id])
    text, _ = compilation.machine_form(run)
    assert ("all_reduce(" in text or "reduce_scatter(" in text) == (run.replicas > 1)
    assert ("ring.push(" in text) == (len(run.proportions) > 1)
