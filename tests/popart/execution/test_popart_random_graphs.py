"""Random graphs have the same numbers in all modes of execution, in training and in inference."""

import json

import numpy
import popart
import pytest
from popart_execution_models import MOMENTUM, SGD, batches, device, infer, options_of
from random_graphs import COLUMNS, ROWS, RandomGraph
from test_popart_execution_modes import ACCUMULATION, MANUAL, MODES, STEPS, TWO_IPUS, everywhere, location, phases, run

OPTIMIZERS = [
    lambda: popart.SGD(SGD),
    lambda: popart.SGD(MOMENTUM),
    # A small epsilon would make much of the rounding of gradients that are nearly zero.
    lambda: popart.Adam({"defaultLearningRate": (0.01, False), "defaultEps": (1e-3, True)}),
]
OFF_CHIP, PHASES = popart.TensorStorage.OffChip, popart.VirtualGraphMode.ExecutionPhases
PLACES = [TWO_IPUS[0], TWO_IPUS[-1]]


def data(seed, count):
    return batches(count, ROWS, COLUMNS, seed)


def assert_close(got, expected):
    for name, value in expected.items():
        numpy.testing.assert_allclose(got[name], value, rtol=1e-4, atol=1e-5, err_msg=name)


@pytest.mark.parametrize("seed", range(2))
@pytest.mark.parametrize("mode", MODES)
def test_training_gives_the_same_weights_in_every_mode(mode, seed):
    number = 10 * list(MODES).index(mode) + seed
    graph = RandomGraph(number)

    def make(_, places, **metadata):
        return graph.model([places[0], places[-1]], **metadata)

    x = data(number, STEPS * ACCUMULATION * 2).reshape(STEPS, ACCUMULATION * 2, ROWS, COLUMNS)
    settings = dict(MODES[mode])
    if "stage" in settings.get("places", [{}])[0]:
        settings["places"] = TWO_IPUS  # the graphs have two stages, which do not come back
    optimizer = OPTIMIZERS[number % 3]
    expected = run({}, graph.weights, x, optimizer(), make)
    assert any((expected[name] != value).any() for name, value in graph.weights.items())
    assert_close(run(settings, graph.weights, x, optimizer(), make), expected)


INFERENCE = {
    "sharded": {"ipus": 2, "virtualGraphMode": MANUAL},
    "pipelined": {"ipus": 2, "virtualGraphMode": MANUAL, "enablePipelining": True},
    "phased": {"ipus": 2, "virtualGraphMode": PHASES, "executionPhaseSettings": phases()},
    "replicas in a pipeline": {
        "ipus": 4,
        "replicatedGraphCount": 2,
        "virtualGraphMode": MANUAL,
        "enablePipelining": True,
    },
    "weights that change": {"constantWeights": False},
    "off chip": {"constantWeights": False, **everywhere(OFF_CHIP), "accumulatorTensorLocationSettings": location()},
    "serialised": {"batchSerializationSettings": popart.BatchSerializationSettings(2)},
}


@pytest.mark.parametrize("kind", ["All", "Sum", "Final"])
@pytest.mark.parametrize("mode", INFERENCE)
def test_inference_gives_the_same_anchors_in_every_mode(mode, kind):
    number = 300 + 10 * list(INFERENCE).index(mode) + len(kind)
    graph = RandomGraph(number)
    settings = dict(INFERENCE[mode])
    replicas = settings.get("replicatedGraphCount", 1)
    places = PLACES if settings.get("virtualGraphMode") else None
    x = data(number, 6)
    anchors = {name: popart.AnchorReturnType("All") for name in ("y", "t0", "w0")}
    expected = infer(graph.model(), x, anchors, steps=6)
    got = infer(
        graph.model(places),
        x,
        {name: popart.AnchorReturnType(kind) for name in anchors},
        steps=6 // replicas,
        **settings,
    )
    for name, every in expected.items():
        by_replica = every.reshape(6 // replicas, replicas, *every.shape[1:])
        wanted = {"All": by_replica, "Sum": by_replica.sum(0), "Final": by_replica[-1]}[kind]
        numpy.testing.assert_allclose(
            got[name].reshape(wanted.shape), wanted, rtol=1e-4, atol=1e-5, err_msg=f"{name} of {mode}"
        )


@pytest.mark.parametrize("outlined", [True, False])
@pytest.mark.parametrize("mode", MODES)
def test_the_listing_has_a_source_for_all_that_ops_read(mode, outlined):
    settings, number = dict(MODES[mode]), 500 + list(MODES).index(mode)
    settings.pop("strategy", None)
    places, ipus = settings.pop("places", TWO_IPUS), settings.pop("ipus", 1)
    places = TWO_IPUS if "stage" in places[0] else places
    session = popart.TrainingSession(
        RandomGraph(number).model([places[0], places[-1]]),
        popart.DataFlow(2, ["loss", "y"]),
        "loss",
        OPTIMIZERS[number % 3](),
        device(ipus),
        userOptions=options_of(
            accumulationFactor=4,
            enableOutlining=outlined,
            mergeVarUpdate=popart.MergeVarUpdateType.All,
            replicatedCollectivesSettings=popart.ReplicatedCollectivesSettings(True, True, True, True),
            **settings,
        ),
    )
    given = {"w", "x", "Gradient___loss", "Accum___w", "Accl___w", "Accl1___w", "Accl2___w", "Step___w"}
    graphs = json.loads(session._serializeIr(popart.IrSerializationFormat.JSON))
    for name, ops in graphs.items():
        everything = {each["name"] for op in ops for each in op["outputs"]}
        made = set()
        for op in ops:
            for id in (each["name"] for each in op["inputs"]):
                is_constant = (
                    id.startswith(("RemoteArg___", "BatchSerialisationIndex___", "Counter___")) or "_subgraph(" in id
                )
                outside = name != "maingraph" or id.rstrip("0123456789") in given or is_constant
                assert id in made or id not in everything and outside, (name, op["type"], id)
            for id in (each["name"] for each in op["outputs"]):
                assert id not in made, (name, op["type"], id)
                made.add(id)
