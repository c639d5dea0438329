"""Modes of execution give the numbers of one IPU."""

import numpy
import popart
import pytest
from popart_execution_models import MOMENTUM, SGD, batches, layers, train, weights

MANUAL, PHASES = popart.VirtualGraphMode.Manual, popart.VirtualGraphMode.ExecutionPhases
OFF_CHIP, ON, IO = popart.TensorStorage.OffChip, popart.ReplicatedTensorSharding.On, popart.TileSet.IO
COMPUTE = popart.TileSet.Compute
ACCUMULATION, STEPS, ROWS = 4, 2, 2
TWO_IPUS = [{"ipu": 0, "stage": 0, "phase": 0}, {"ipu": 0, "stage": 0, "phase": 0}, {"ipu": 1, "stage": 1, "phase": 1}]
BACK_AND_FORTH = [{"ipu": 0, "stage": 0}, {"ipu": 1, "stage": 1}, {"ipu": 0, "stage": 2}]


def location(*values):
    return popart.TensorLocationSettings(popart.TensorLocation(*values), 0, 0)


def everywhere(*values):
    names = ("weight", "optimizerState", "accumulator", "activation")
    return {f"{name}TensorLocationSettings": location(*values) for name in names}


def shards():
    return {
        f"{name}TensorLocationSettings": location(popart.TensorStorage.OnChip, ON)
        for name in ("weight", "optimizerState")
    }


def phases():
    settings = popart.ExecutionPhaseSettings()
    settings.phases = 2
    return settings


def explicit():
    return {"useHostCopyOps": True, "enableExplicitMainLoops": True, "explicitRecomputation": True}


MODES = {
    "sharded": {"ipus": 2, "virtualGraphMode": MANUAL},
    "back and forth": {"ipus": 2, "virtualGraphMode": MANUAL, "places": BACK_AND_FORTH},
    "pipelined": {"ipus": 2, "virtualGraphMode": MANUAL, "enablePipelining": True},
    "explicit pipeline": {"ipus": 2, "virtualGraphMode": MANUAL, "enablePipelining": True, **explicit()},
    "pipelined and recomputed": {
        "ipus": 2,
        "virtualGraphMode": MANUAL,
        "enablePipelining": True,
        "autoRecomputation": popart.RecomputationType.Pipeline,
    },
    "phased": {"ipus": 2, "virtualGraphMode": PHASES, "executionPhaseSettings": phases()},
    "phased and off chip": {
        "ipus": 2,
        "virtualGraphMode": PHASES,
        "executionPhaseSettings": phases(),
        **everywhere(OFF_CHIP),
    },
    "standard recomputation": {"autoRecomputation": popart.RecomputationType.Standard},
    "all recomputed": {"autoRecomputation": popart.RecomputationType.RecomputeAll},
    "off chip": everywhere(OFF_CHIP),
    "replicated": {"ipus": 2, "replicatedGraphCount": 2},
    "shards": {"ipus": 2, "replicatedGraphCount": 2, **shards()},
    "shards off chip": {
        "ipus": 2,
        "replicatedGraphCount": 2,
        **{
            f"{name}TensorLocationSettings": location(OFF_CHIP, ON)
            for name in ("weight", "optimizerState", "accumulator")
        },
    },
    "one weight off chip": {"tensorLocationSettingsOverride": {"w1": popart.TensorLocation(OFF_CHIP)}},
    "overlapped": {
        "ipus": 2,
        "virtualGraphMode": MANUAL,
        "numIOTiles": 32,
        "strategy": popart.ExchangeStrategy.OverlapInnerLoop,
        **explicit(),
    },
    "overlapped over batches": {
        "ipus": 2,
        "virtualGraphMode": MANUAL,
        "numIOTiles": 32,
        "strategy": popart.ExchangeStrategy.OverlapLoops,
        "bufferingDepthMap": {"x": 2},
        **explicit(),
    },
    "serialised batches": {"batchSerializationSettings": popart.BatchSerializationSettings(2)},
    "serialised batches in a pipeline": {
        "ipus": 2,
        "virtualGraphMode": MANUAL,
        "enablePipelining": True,
        "batchSerializationSettings": popart.BatchSerializationSettings(2, False, False, False),
    },
    "activations off chip": {"activationTensorLocationSettings": location(OFF_CHIP)},
    "sharded and off chip": {"ipus": 2, "virtualGraphMode": MANUAL, **everywhere(OFF_CHIP)},
    "shards in a pipeline": {
        "ipus": 4,
        "replicatedGraphCount": 2,
        "virtualGraphMode": MANUAL,
        "enablePipelining": True,
        **shards(),
    },
    "phased in replicas": {
        "ipus": 4,
        "replicatedGraphCount": 2,
        "virtualGraphMode": PHASES,
        "executionPhaseSettings": phases(),
    },
    "automatic": {"ipus": 2, "virtualGraphMode": popart.VirtualGraphMode.Auto, "places": [{}] * 3},
    "automatic pipeline": {
        "ipus": 2,
        "virtualGraphMode": popart.VirtualGraphMode.Auto,
        "enablePipelining": True,
        "places": [{}] * 3,
    },
    "serialised batches recomputed in replicas": {
        "ipus": 2,
        "replicatedGraphCount": 2,
        "autoRecomputation": popart.RecomputationType.RecomputeAll,
        "batchSerializationSettings": popart.BatchSerializationSettings(2),
    },
}


def run(mode, values, x, optimizer, make=layers):
    """`x` is [steps, micro-batches of an update, rows, columns]."""
    mode = dict(mode)
    places = mode.pop("places", TWO_IPUS)
    strategy = mode.pop("strategy", None)
    replicas = mode.get("replicatedGraphCount", 1)
    metadata, anchors = {}, None
    if strategy is not None:
        metadata = {"__tile_set/x": IO.value, "__exchange_strategy/x": strategy.value}
        anchors = {"loss": popart.AnchorReturnType("All", IO, strategy)}
    got = train(
        make(values, places, **metadata),
        list(values),
        x,
        steps=len(x),
        optimizer=optimizer,
        anchors=anchors,
        accumulationFactor=x.shape[1] // replicas,
        **mode,
    )
    got["loss"] = got["loss"].reshape(-1)
    return got


def assert_same(got, expected):
    for name, value in expected.items():
        numpy.testing.assert_allclose(got[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.parametrize("optimizer", [SGD, MOMENTUM], ids=["sgd", "momentum"])
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.shows("popart.TrainingSession", "popart.SessionOptions")
def test_a_mode_gives_the_numbers_of_one_ipu(mode, optimizer):
    values = weights()
    x = batches(STEPS * ACCUMULATION * 2).reshape(STEPS, ACCUMULATION * 2, ROWS, 4)
    expected = run({}, values, x, popart.SGD(optimizer))
    assert any((expected[name] != values[name]).any() for name in values)
    assert_same(run(MODES[mode], values, x, popart.SGD(optimizer)), expected)


def test_a_pipeline_without_accumulation_updates_after_each_micro_batch(capfd):
    values = weights()
    x = batches(6)
    plain = train(layers(values), list(values), x, steps=6)
    got = train(
        layers(values, TWO_IPUS), list(values), x, steps=6, ipus=2, virtualGraphMode=MANUAL, enablePipelining=True
    )
    assert_same(got, plain)
    assert "enablePipelining without gradient accumulation" in capfd.readouterr().err
