"""Any options survive a clone, a pickle and from_json; what they say is seen by equality, toDict and repr."""

import copy
import json
import pickle

import torch
from hypothesis import given, settings
from hypothesis import strategies as st

import poptorch

NUMBER = st.integers(1, 64)
FLAG = st.booleans()
NAME = st.text("abcxyz_.", min_size=1, max_size=6)

# Setter accessor → argument lists, as from_json takes them.
PLAIN = {
    "deviceIterations": st.tuples(NUMBER),
    "replicationFactor": st.tuples(NUMBER),
    "autoRoundNumIPUs": st.tuples(FLAG),
    "broadcastBuffers": st.tuples(FLAG),
    "modelName": st.tuples(NAME),
    "logDir": st.tuples(NAME),
    "maxRepeatLogs": st.tuples(NUMBER),
    "useIpuModel": st.tuples(FLAG),
    "useIpuId": st.tuples(st.integers(0, 30)),
    "useOfflineIpuTarget": st.tuples(st.sampled_from([1, 2, 21])),
    "showCompilationProgressBar": st.tuples(FLAG),
    "enableStableNorm": st.tuples(FLAG),
    "enableSyntheticData": st.tuples(FLAG),
    "logCycleCount": st.tuples(FLAG),
    "enableProfiling": st.tuples(NAME),
    "enableStrictMemory": st.tuples(FLAG),
    "disableModuleNamescope": st.tuples(),
    "updatableNamedBuffers": st.tuples(st.lists(NAME, max_size=3)),
    "relaxOptimizerAttributesChecks": st.tuples(FLAG),
    "sourceLocationExcludes": st.tuples(st.lists(NAME, max_size=3)),
    "appendToLocationExcludes": st.lists(NAME, max_size=3).map(tuple),
    "setAvailableMemoryProportion": st.tuples(
        st.dictionaries(st.integers(0, 15).map(lambda i: f"IPU{i}"), st.floats(0, 1), max_size=3)
    ),
    "randomSeed": st.tuples(st.integers(0, 2**31)),
    "Precision.enableFloatingPointExceptions": st.tuples(FLAG),
    "Precision.enableStochasticRounding": st.tuples(FLAG),
    "Training.gradientAccumulation": st.tuples(NUMBER),
    "Training.setAutomaticLossScaling": st.tuples(FLAG),
    "Training.setConvolutionDithering": st.tuples(FLAG),
    "Distributed.configureProcessId": st.tuples(st.integers(0, 3), st.integers(4, 8)),
    "TensorLocations.numIOTiles": st.tuples(st.integers(16, 96).map(lambda n: 2 * n)),
    "_Popart.set": st.tuples(NAME, st.one_of(FLAG, NUMBER, NAME)),
    "anchorTensor": st.tuples(NAME, NAME),
}
ENUMS = {
    "connectionType": list(poptorch.ConnectionType),
    "syncPattern": list(poptorch.SyncPattern),
    "outputMode": [poptorch.OutputMode.Final, poptorch.OutputMode.All, poptorch.OutputMode.Sum],
    "Training.accumulationAndReplicationReductionType": [poptorch.ReductionType.Sum, poptorch.ReductionType.Mean],
    "Training.setMeanAccumulationAndReplicationReductionStrategy": [
        poptorch.MeanReductionStrategy.Running,
        poptorch.MeanReductionStrategy.Post,
    ],
}
CALLS = st.lists(
    st.one_of(
        *(arguments.map(lambda a, name=name: (name, list(a))) for name, arguments in PLAIN.items()),
        *(st.sampled_from(members).map(lambda m, name=name: (name, m)) for name, members in ENUMS.items()),
    ),
    max_size=8,
    unique_by=lambda call: call[0],
)


def applied(calls):
    options = poptorch.Options()
    for name, arguments in calls:
        target = options
        for part in name.split("."):
            target = getattr(target, part)
        target(*arguments) if isinstance(arguments, list) else target(arguments)
    return options


@settings(max_examples=200)
@given(CALLS)
def test_options_survive_cloning_pickling_and_json(calls):
    state = torch.get_rng_state()
    options = applied(calls)
    assert options == applied(calls)
    for twin in (options.clone(), copy.deepcopy(options), pickle.loads(pickle.dumps(options))):
        assert twin == options and repr(twin) == repr(options)
        assert twin._Popart is twin.Precision._popart is twin.Training._popart
    text = json.dumps({name: a if isinstance(a, list) else f"{type(a).__name__}.{a.name}" for name, a in calls})
    assert poptorch.Options().from_json(text) == options
    if not options.defaultOutputMode():
        assert options.clone().toDict() == options.toDict()
    options._freeze()
    assert options.clone().deviceIterations(3).device_iterations == 3
    torch.set_rng_state(state)


@settings(max_examples=50)
@given(CALLS, CALLS)
def test_equal_options_are_those_that_say_the_same(first, second):
    state = torch.get_rng_state()
    same = repr(applied(first)) == repr(applied(second))
    if applied(first) == applied(second):
        assert same
    torch.set_rng_state(state)
