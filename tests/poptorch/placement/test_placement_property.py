"""Random plans (strategies, phases, locations, overlap, batching, replicas, output modes) give the bits of the plain run."""

import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from placed_models import OPTIMIZERS, assert_same_bits, locations, options_of, train

import poptorch
from poptorch import Liveness, OutputMode, OverlapMode


@st.composite
def location(draw, may_shard):
    calls = {"useOnChipStorage": draw(st.booleans()), "minElementsForOffChip": draw(st.sampled_from([0, 8, 50]))}
    if may_shard and draw(st.booleans()):
        calls["useReplicatedTensorSharding"] = True
        calls["minElementsForReplicatedTensorSharding"] = draw(st.sampled_from([0, 7, 60]))
    if draw(st.booleans()):
        calls["useIOTilesToLoad"] = True
        calls["useIOTilesToStore"] = draw(st.booleans())
    return calls


@st.composite
def plans(draw):
    kind = draw(st.sampled_from(["sharded", "pipelined", "serial", "parallel"]))
    ipus = {"serial": (0, 0, 0), "parallel": (0, 1, 0)}.get(kind) or draw(st.sampled_from([(0, 0, 0), (0, 0, 1)]))
    mode = draw(st.sampled_from([OutputMode.All, OutputMode.Final, OutputMode.Sum]))
    overlaps = st.sampled_from([None, *OverlapMode])
    of_inputs = of_outputs = None
    if kind != "pipelined":
        of_inputs, of_outputs = draw(overlaps), None if mode == OutputMode.Final else draw(overlaps)
    return {
        "kind": kind,
        "ipus": ipus,
        "liveness": draw(st.sampled_from(list(Liveness))),
        "separate": draw(st.booleans()),
        "accumulation": draw(st.integers(3 if kind == "pipelined" else 1, 4)),
        "iterations": draw(st.integers(1, 2)),
        "replicas": draw(st.sampled_from([1, 2, 3])),
        "mode": mode,
        "overlap": (of_inputs, of_outputs),
        "depth": draw(st.sampled_from([1, 2, 5])),
        "optimizer": draw(st.sampled_from(sorted(OPTIMIZERS))),
        "families": {
            "weight": draw(location(True)),
            "optimizer": draw(location(True)),
            "accumulator": draw(location(False)),
            "activation": draw(location(False)),
        },
    }


def strategy_of(plan):
    if plan["kind"] == "pipelined":
        return poptorch.PipelinedExecution()
    if plan["kind"] == "sharded":
        return poptorch.ShardedExecution()
    if plan["kind"] == "serial":
        phased = poptorch.SerialPhasedExecution("b0", "b1", "b2").setTensorsLiveness(plan["liveness"])
    else:
        phased = poptorch.ParallelPhasedExecution("b0", "b1", "b2")
        phased.sendTensorsOffChipAfterFwd(plan["liveness"] != Liveness.AlwaysLive)
    return phased.useSeparateBackwardPhase(plan["separate"])


@settings(max_examples=60)
@given(plans())
def test_where_tensors_live_and_when_phases_run_changes_no_bit(plan):
    arguments = plan["accumulation"], plan["iterations"], plan["replicas"], plan["mode"]
    plain = train(options_of(*arguments), OPTIMIZERS[plan["optimizer"]], rows=1)
    options = locations(options_of(*arguments, strategy=strategy_of(plan)), **plan["families"])
    options.TensorLocations.numIOTiles(32)
    options._Popart.set("defaultPrefetchBufferingDepth", plan["depth"])
    placed = train(options, OPTIMIZERS[plan["optimizer"]], plan["ipus"], rows=1, overlap=plan["overlap"])
    assert_same_bits(plain, placed)
    assert all(torch.isfinite(output).all() for output in plain[0])
