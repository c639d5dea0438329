"""Random combinations of options are refused with a popart_exception, or have the numbers of one IPU."""

import random

import numpy
import popart
import pytest
from popart_execution_models import MOMENTUM, SGD, train
from random_graphs import COLUMNS, ROWS, RandomGraph
from test_popart_execution_modes import TWO_IPUS

STEPS = 2
CLIP = popart.ClipNormSettings.clipAllWeights(0.01)
OPTIMIZERS = [
    lambda: popart.SGD(SGD),
    lambda: popart.SGD(MOMENTUM),
    lambda: popart.SGD(SGD, [CLIP]),
    lambda: popart.Adam({"defaultLearningRate": (0.01, False), "defaultEps": (1e-3, True)}),
]
PLACES = [TWO_IPUS, [{}] * 3, [{"ipu": 0}, {"ipu": 0}, {"ipu": 1}]]
ANCHORS = ("y", "Gradient___y", "x", "t0", "w0")
# What the numbers depend on: the run of one IPU has these too.
NUMBERS = (
    "accumulationFactor",
    "replicatedGraphCount",
    "accumulationAndReplicationReductionType",
    "meanAccumulationAndReplicationReductionStrategy",
)


class Draw:
    """Values of options, drawn by one generator."""

    def __init__(self, seed):
        self.rng = random.Random(seed)

    def one(self, *values):
        return self.rng.choice(values)

    def flag(self):
        return self.one(False, True)

    def member(self, kind):
        return self.one(*kind)

    def location(self):
        return popart.TensorLocation(self.member(popart.TensorStorage), self.member(popart.ReplicatedTensorSharding))

    def locations(self):
        return popart.TensorLocationSettings(self.location(), self.one(0, 2, 17), self.one(0, 2, 8192))

    def batches(self):
        method, schedule = popart.BatchSerializationMethod, popart.BatchSerializationBatchSchedule
        return popart.BatchSerializationSettings(
            self.one(0, 1, 2, 3, 4),
            *(self.flag() for _ in range(3)),
            method=self.member(method),
            batchSchedule=self.member(schedule),
        )

    def phases(self):
        settings = popart.ExecutionPhaseSettings()
        settings.phases, settings.stages = self.one(0, 2), self.one(1, 2)
        settings.schedule = self.member(popart.ExecutionPhaseSchedule)
        return settings


OPTIONS = {
    "virtualGraphMode": lambda draw: draw.member(popart.VirtualGraphMode),
    "enablePipelining": Draw.flag,
    "autoRecomputation": lambda draw: draw.member(popart.RecomputationType),
    "explicitRecomputation": Draw.flag,
    "useHostCopyOps": Draw.flag,
    "enableExplicitMainLoops": Draw.flag,
    "numIOTiles": lambda draw: draw.one(0, 32, 64),
    "weightTensorLocationSettings": Draw.locations,
    "optimizerStateTensorLocationSettings": Draw.locations,
    "accumulatorTensorLocationSettings": Draw.locations,
    "activationTensorLocationSettings": Draw.locations,
    "tensorLocationSettingsOverride": lambda draw: {draw.one("w0", "w1", "Accum___w0"): draw.location()},
    "batchSerializationSettings": Draw.batches,
    "executionPhaseSettings": Draw.phases,
    "replicatedGraphCount": lambda draw: draw.one(1, 2),
    "accumulationFactor": lambda draw: draw.one(1, 2, 4),
    "accumulationAndReplicationReductionType": lambda draw: draw.one(
        popart.ReductionType.Sum, popart.ReductionType.Mean
    ),
    "meanAccumulationAndReplicationReductionStrategy": lambda draw: draw.member(popart.MeanReductionStrategy),
    "accumulateOuterFragmentSettings": lambda draw: popart.AccumulateOuterFragmentSettings(
        draw.member(popart.AccumulateOuterFragmentSchedule)
    ),
    "mergeVarUpdate": lambda draw: draw.member(popart.MergeVarUpdateType),
    "decomposeGradSum": Draw.flag,
    "aliasZeroCopy": Draw.flag,
    "defaultBufferingDepth": lambda draw: draw.one(1, 2),
    "rearrangeAnchorsOnHost": Draw.flag,
    "createImplicitPipeliningFwdOnlyProgram": Draw.flag,
    "enableOutlining": Draw.flag,
    "enableFloatingPointChecks": Draw.flag,
}


@pytest.mark.parametrize("first", range(0, 240, 30))
@pytest.mark.shows("popart.SessionOptions")
def test_options_are_refused_or_change_no_number(first):
    ran = 0
    for seed in range(first, first + 30):
        draw = Draw(seed)
        options = {name: OPTIONS[name](draw) for name in draw.rng.sample(sorted(OPTIONS), draw.one(1, 2, 3, 4, 5))}
        graph, replicas = RandomGraph(seed), options.get("replicatedGraphCount", 1)
        shape = (STEPS, options.get("accumulationFactor", 1), replicas, ROWS, COLUMNS)
        x = numpy.random.default_rng(seed).normal(size=shape).astype(numpy.float32)
        anchors = {"loss": popart.AnchorReturnType(draw.one("All", "Final", "Sum"))}
        anchors[draw.one(*ANCHORS)], places = popart.AnchorReturnType("All"), draw.one(*PLACES)
        optimizer = OPTIMIZERS[seed % len(OPTIMIZERS)]
        common = {"names": list(graph.weights), "x": x, "steps": STEPS, "anchors": anchors}
        alone = {name: value for name, value in options.items() if name in NUMBERS}
        expected = train(graph.model(), ipus=replicas, optimizer=optimizer(), **common, **alone)
        try:
            got = train(graph.model([places[0], places[-1]]), ipus=4, optimizer=optimizer(), **common, **options)
        except popart.popart_exception:
            continue
        ran += 1
        for name, value in expected.items():
            assert got[name].shape == value.shape, (seed, options, name)
            numpy.testing.assert_allclose(
                got[name], value, rtol=1e-3, atol=1e-4, err_msg=f"{seed}: {name} with {sorted(options)}"
            )
    assert ran >= 8  # the others go together in no program
