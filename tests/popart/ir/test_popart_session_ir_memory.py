"""Streaming memory, shards, loops, merged updates and parts of a batch in a session's program."""

import json
import re
import sys

import numpy as np
import pytest
from session_listings import Model, graphs_of, ids, of_type, ops_of, options, types_of

import popart

OFF_CHIP, SHARDED = popart.TensorStorage.OffChip, popart.ReplicatedTensorSharding.On
MANUAL, AUTO = popart.VirtualGraphMode.Manual, popart.VirtualGraphMode.Auto


def located(*values, least=0):
    return popart.TensorLocationSettings(popart.TensorLocation(*values), least, least)


def session(layers=2, optimizer=None, anchors=(), batches=1, ipus=1, rows=4, located_layer=None, **fields):
    """A chain of products and tanhs in training, not outlined."""
    model = Model()
    y = model.input([rows, 4])
    for i in range(layers):
        w = model.weight([4, 4], f"w{i}")
        if i == located_layer:
            with model.builder.outputTensorLocation(popart.TensorLocation(OFF_CHIP)):
                y = model.onnx.tanh([model.onnx.matmul([y, w])])
        else:
            y = model.onnx.tanh([model.onnx.matmul([y, w])])
    loss = model.loss(y)
    if fields.get("accumulationFactor", 1) > 1:
        fields["enableGradientAccumulation"] = True
    if fields.get("replicatedGraphCount", 1) > 1:
        fields["enableReplicatedGraphs"] = True
    return popart.TrainingSession(
        model.builder.getModelProto(),
        popart.DataFlow(batches, [loss, *anchors]),
        loss,
        optimizer or popart.SGD({"defaultLearningRate": (0.1, False)}),
        popart.DeviceManager().createIpuModelDevice({"numIPUs": ipus}),
        userOptions=options(**{"enableOutlining": False, **fields}),
    )


def remote(made, type):
    """(id, context) of what is loaded or stored."""
    found = of_type(made, type)
    return [(ids(op)[1].removeprefix("RemoteArg___"), op["attributes"]["__execution_context"]) for op in found]


@pytest.mark.shows(
    "popart.SessionOptions.weightTensorLocationSettings", "popart.SessionOptions.optimizerStateTensorLocationSettings"
)
def test_variables_off_the_chip_are_loaded_where_they_are_read_and_stored_when_they_change():
    outer = "AccumulateOuterFragment"
    adam = popart.Adam({"defaultLearningRate": (0.1, False)})
    made = session(
        1,
        adam,
        accumulationFactor=2,
        weightTensorLocationSettings=located(OFF_CHIP),
        optimizerStateTensorLocationSettings=located(OFF_CHIP),
        accumulatorTensorLocationSettings=located(OFF_CHIP),
    )
    normal = [("w0", "Normal"), ("Accum___w0", "Normal")]
    states = [("Accl1___w0", outer), ("Accl2___w0", outer), ("w0", outer), ("Accum___w0", outer)]
    assert remote(made, "RemoteLoad") == normal + states
    assert remote(made, "RemoteStore") == normal[1:] + states
    ops = ops_of(made)
    made_by = {id: op for op in ops for id in ids(op, "outputs")}
    for load in of_type(made, "RemoteLoad"):
        empty, argument = ids(load)
        assert made_by[empty]["type"] == "Init" and argument not in made_by
        assert any(ids(load, "outputs")[0] in ids(op) for op in ops)
    (update,) = of_type(made, "AdamVarUpdate")
    assert made_by[ids(update)[0]]["type"].startswith("RemoteLoad")
    assert not of_type(session(1, adam), "Remote")
    large = located(OFF_CHIP, least=17)
    assert not of_type(session(1, adam, weightTensorLocationSettings=large), "Remote")


@pytest.mark.shows("popart.SessionOptions.tensorLocationSettingsOverride")
def test_single_variables_and_activations_move_where_they_are_named():
    override = {"w1": popart.TensorLocation(OFF_CHIP)}
    made = session(2, tensorLocationSettingsOverride=override)
    assert {id for id, _ in remote(made, "RemoteLoad")} == {"w1"}
    everything = session(2, activationTensorLocationSettings=located(OFF_CHIP))
    assert [id for id, _ in remote(everything, "RemoteStore")] == ["Tanh:0", "Tanh:0/1"]
    assert [id for id, _ in remote(everything, "RemoteLoad")] == ["Tanh:0/1", "Tanh:0"]
    assert [id for id, _ in remote(session(2, located_layer=1), "RemoteStore")] == ["Tanh:0/1"]


@pytest.mark.shows("popart.ReplicatedTensorSharding")
def test_shards_are_gathered_to_be_read_and_sums_are_scattered_to_be_written():
    momentum = popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True)})
    shards = located(popart.TensorStorage.OnChip, SHARDED)
    fields = {"weightTensorLocationSettings": shards, "optimizerStateTensorLocationSettings": shards}
    made = session(1, momentum, ipus=4, replicatedGraphCount=4, **fields)
    (gather,) = of_type(made, "ReplicatedAllGather")
    assert ids(gather) == ["w0"] and not of_type(made, "Remote")
    (scatter,) = of_type(made, "ReplicatedReduceScatter")
    assert ids(scatter) == ["Gradient___w0"] and "ReplicatedAllReduce" not in types_of(made)
    (update,) = of_type(made, "SGD1VarUpdate")
    assert [each["shape"] for each in update["inputs"]] == ["[4 4]", "[4]"]
    alone = session(1, momentum, **fields)
    assert not of_type(alone, "Replicated")


@pytest.mark.shows("popart.SessionOptions.enableExplicitMainLoops")
@pytest.mark.parametrize("batches, accumulation", [(1, 1), (3, 1), (1, 2), (3, 2)])
def test_explicit_main_loops_have_a_graph_each(batches, accumulation):
    fields = {"useHostCopyOps": True, "enableExplicitMainLoops": True, "explicitRecomputation": True}
    made = session(1, batches=batches, accumulationFactor=accumulation, anchors=["UpdatedVar___w0"], **fields)
    graphs = graphs_of(made)
    loops = [op for ops in graphs.values() for op in ops if op["type"] == "Loop"]
    assert len(loops) == (batches > 1) + (accumulation > 1) == len(graphs) - 1
    assert sorted(op["attributes"]["tripCountValue"] for op in loops) == sorted(
        str(n) for n in (batches, accumulation) if n > 1
    )
    where = {op["type"]: name for name, ops in graphs.items() for op in ops}
    if accumulation > 1:
        assert where["HostLoadInplace"] == where["Accumulate"] != where["SGD0VarUpdate"]
        (inner,) = [op for op in loops if op["attributes"]["callee"] == where["HostLoadInplace"]]
        assert any(id.endswith("UpdatedVar___Accum___w0") for id in ids(inner, "outputs"))
    if batches > 1:
        assert [op["type"] for op in graphs["maingraph"]] == ["Loop"]
        assert ids(graphs["maingraph"][0], "outputs")[-1] == "UpdatedVar___w0"
    for name, ops in graphs.items():
        if name != "maingraph":
            inside = [id for op in ops for id in [*ids(op), *ids(op, "outputs")]]
            assert all(id.startswith(name + "/") for id in inside)
            assert all(op["attributes"]["__execution_context"] == "Subgraph" for op in ops)


@pytest.mark.shows("popart.SessionOptions.mergeVarUpdate", "popart.SessionOptions.mergeVarUpdateMemThreshold")
@pytest.mark.shows("popart.MergeVarUpdateType")
@pytest.mark.parametrize(
    "mode, threshold, updates",
    [("Off", 0, 4), ("All", 0, 1), ("AutoTight", 130, 2), ("AutoTight", 63, 4), ("AutoLoose", 130, 2)],
)
def test_updates_of_weights_are_merged(mode, threshold, updates):
    """Each weight has 64 bytes: two are within the tight threshold; the loose one is reached by the third."""
    merge = popart.MergeVarUpdateType[mode]
    made = session(4, mergeVarUpdate=merge, mergeVarUpdateMemThreshold=threshold)
    found = of_type(made, "SGD0VarUpdate")
    assert len(found) == updates
    rows = sum(int(op["inputs"][0]["shape"].strip("[]").split()[0]) for op in found if "__cc" in ids(op)[0])
    whole = sum("__cc" not in ids(op)[0] for op in found)
    assert rows + 16 * whole == 64


def test_updates_with_other_numbers_stay_apart():
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False)})
    optimizer.insertSpecific("w0", {"learningRate": (0.2, False)})
    made = session(3, optimizer, mergeVarUpdate=popart.MergeVarUpdateType.All)
    assert sorted("__cc" in ids(op)[0] for op in of_type(made, "SGD0VarUpdate")) == [False, True]


@pytest.mark.shows("popart.SessionOptions.replicatedCollectivesSettings", "popart.ReplicatedCollectivesSettings")
def test_collectives_are_merged():
    def types(**settings):
        made = session(
            3,
            ipus=2,
            replicatedGraphCount=2,
            accumulationFactor=2,
            replicatedCollectivesSettings=popart.ReplicatedCollectivesSettings(**settings),
        )
        return [(op["type"], len(op["inputs"])) for op in of_type(made, "ReplicatedAllReduce")]

    assert types() == [("ReplicatedAllReduceInplace", 1)] * 3
    assert types(mergeAllGatherCollectives=True) == types()
    assert types(mergeAllReduceCollectives=True, prepareScheduleForMergingCollectives=True) == [
        ("MultiReplicatedAllReduceInplace", 3)
    ]


@pytest.mark.shows("popart.SessionOptions.batchSerializationSettings", "popart.BatchSerializationMethod")
@pytest.mark.parametrize(
    "method, cut, join", [("UnrollStatic", "Slice", "Concat"), ("UnrollDynamic", "DynamicSlice", "DynamicUpdate")]
)
def test_a_serialised_batch_has_its_operators_for_each_part(method, cut, join):
    settings = popart.BatchSerializationSettings(4, method=popart.BatchSerializationMethod[method])
    made = session(2, rows=8, batchSerializationSettings=settings)
    ops = [op for op in ops_of(made) if "Grad" not in op["type"]]
    tanhs = [op for op in ops if op["type"] == "TanhInplace"]
    assert [ids(op, "outputs")[0] for op in tanhs] == [
        f"Tanh:0{layer}__bs{part}" for part in range(4) for layer in ("", "/1")
    ]
    assert all(op["inputs"][0]["shape"] == "[2 4]" for op in tanhs)
    assert sum(op["type"].startswith(cut) and ids(op)[0] == "x" for op in ops) == 4
    last = [op for op in ops if op["type"].startswith(join)][-1]
    assert ids(last, "outputs") == ["Tanh:0/1"]
    assert len(of_type(made, "MatMul")) == 4 * len(of_type(session(2, rows=8), "MatMul"))


@pytest.mark.parametrize("training", [False, True])
def test_the_operators_listed_for_each_part_are_those_that_run_for_each(training):
    model, stored = Model(), np.ones(3, np.float32)
    x = model.input([4, 3, 6])
    h = model.onnx.batchnormalization([x, *(model.weight([3], f"{i}") for i in range(4))], 5 if training else 1)[0]
    turned = model.onnx.transpose([model.onnx.relu([model.onnx.identity([h])])], [0, 2, 1])
    square = model.onnx.softmax([model.onnx.matmul([h, turned])], 2)
    y = model.onnx.add([model.onnx.reducemean([square], [1], 0), model.onnx.constant(stored)])
    loss = model.loss(model.onnx.reducesum([y], [0], 0)) if training else None
    made = model.session(
        [loss or y],
        loss,
        options(batchSerializationSettings=popart.BatchSerializationSettings(2), enableOutlining=False),
    )
    runs = re.findall(
        r' = (\w+)\(.* : f32\[2,.*node="(.+?)"', made._program.text().partition("graph @forward_gradient")[0]
    )
    parts = {node for kind, node in runs if kind != "slice"}
    assert {"Identity:0", "Relu:0", "MatMul:0", "Softmax:0"} <= parts and ("BatchNormalization:0" in parts) != training
    made_by = {id: op["type"] for op in ops_of(made) for id in ids(op, "outputs") if "Gradient" not in id}
    listed = {id[:-5] for id, type in made_by.items() if id.endswith("__bs1") and type != "DynamicSlice"}
    # Products read through a transpose, and an identity is nothing.
    assert listed - {turned} == parts - {"Identity:0"}


def test_equal_parts_of_a_batch_are_outlined():
    settings = popart.BatchSerializationSettings(4)
    made = session(1, rows=8, batchSerializationSettings=settings, enableOutlining=True)
    assert len([op for op in ops_of(made) if op["attributes"].get("callee") == "call_subgraph(0)"]) == 4
    assert "MatMul" not in types_of(made)


@pytest.mark.shows("popart.SessionOptions.virtualGraphMode", "popart.VirtualGraphMode")
def test_automatic_virtual_graphs_are_those_of_the_program():
    made = session(4, ipus=2, virtualGraphMode=AUTO, enablePipelining=True, accumulationFactor=4)
    places = [(op["attributes"]["__ipu_number"], op["attributes"]["__pipeline_stage"]) for op in ops_of(made)]
    assert {("0", "0"), ("1", "1"), ("0", "2")} <= set(places) and "none" not in {ipu for ipu, _ in places}
    assert of_type(made, "IpuCopy")


def test_variables_are_never_stashed():
    made = session(4, ipus=2, virtualGraphMode=AUTO, enablePipelining=True, accumulationFactor=4)
    stashed = [ids(op)[0] for op in of_type(made, "Stash")]
    assert stashed == ["x", "Tanh:0", "Tanh:0/1"]


@pytest.mark.shows("popart.TrainingSession.getTensorIds", "popart.TrainingSession.getInfo")
def test_tensors_of_updates_are_tensors_of_the_session():
    made = session(1, accumulationFactor=2)
    wanted = {"Accum___w0", "UpdatedVar___w0", "Gradient___w0", "w0"}
    assert wanted <= made.getTensorIds()
    assert all(made.getInfo(id).shape() == [4, 4] for id in wanted)
    with pytest.raises(popart.popart_exception, match="'nothing' is no tensor"):
        made.getInfo("nothing")


def test_moments_enter_the_updater_and_the_gradient_enters_the_moments():
    made = session(1, popart.Adam({"defaultLearningRate": (0.1, False)}))
    accumulates = [ids(op) for op in of_type(made, "Accumulate")]
    assert accumulates == [["Accl1___w0", "Gradient___w0"], ["Accl2___w0", "Gradient___w0"]]
    (updater,) = of_type(made, "AdamUpdater")
    assert ids(updater) == ["Gradient___w0", "UpdatedVar___Accl1___w0", "UpdatedVar___Accl2___w0"]


def scaled(**fields):
    """A product in FLOAT16 with automatic loss scaling."""
    model = Model()
    x, w = model.input([4, 4], dtype="FLOAT16"), model.weight([4, 4], dtype=np.float16)
    loss = model.loss(model.onnx.matmul([x, w]))
    optimizer = popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (4.0, False)})
    fields["automaticLossScalingSettings"] = popart.AutomaticLossScalingSettings(True)
    return model.session([loss], loss, options=options(**fields), optimizer=optimizer)


@pytest.mark.shows(
    "popart.SessionOptions.delayVarUpdates", "popart.SessionOptions.scheduleNonWeightUpdateGradientConsumersEarly"
)
def test_histograms_come_early_where_updates_are_delayed():
    early = {"scheduleNonWeightUpdateGradientConsumersEarly": True}
    for fields, priority in ((early, sys.float_info.max), ({}, 0.0), ({**early, "delayVarUpdates": False}, 0.0)):
        found = of_type(scaled(**fields), "Histogram")
        assert found and {float(op["attributes"]["schedulePriority"]) for op in found} == {priority}


@pytest.mark.shows("popart.SessionOptions.enableFullyConnectedPass")
def test_products_have_a_joint_plan_or_none():
    for joint, passes in ((True, ["0", "1", "2"]), (False, ["-1"])):
        made = session(2, enableFullyConnectedPass=joint)
        assert sorted({op["attributes"]["fully_connected_pass"] for op in of_type(made, "MatMul")}) == passes


def test_loss_scaling_lists_the_scales_in_use():
    made = scaled(enableGradientAccumulation=True, accumulationFactor=2)
    names = {"lossScaling_FLOAT16", "finalLossScale", "finalInverseLossScale_0", "Accum___autoLossScaleStats"}
    assert names <= made.getTensorIds()
    assert made.getInfo("lossScaling_FLOAT16").data_type() == "FLOAT16"
    assert (
        made.getInfo("Accum___autoLossScaleStats").data_type(),
        made.getInfo("Accum___autoLossScaleStats").shape(),
    ) == ("FLOAT", [2])


def staged(training=True, skips=False, layers=3, **fields):
    """A chain of tanhs, one on each IPU; `skips`: the last one reads the first's result too."""
    model = Model()
    results = [model.input([4, 4])]
    for i in range(layers):
        with model.builder.virtualGraph(i), model.builder.pipelineStage(i):
            y = model.onnx.tanh([model.onnx.matmul([results[-1], model.weight([4, 4], f"w{i}")])])
            if skips and i == layers - 1:
                y = model.onnx.add([y, results[1]])
            results.append(y)
            loss = model.loss(y) if i == layers - 1 and training else None
    fields = {"enablePipelining": True, "virtualGraphMode": MANUAL, "enableOutlining": False, **fields}
    if training:
        fields |= {"enableGradientAccumulation": True, "accumulationFactor": 2 * layers}
        return model.session([loss], loss, options=options(**fields), ipus=4)
    flow = popart.DataFlow(layers, [results[-1]])
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 4})
    return popart.InferenceSession(model.builder.getModelProto(), flow, device, userOptions=options(**fields))


def test_a_stash_is_as_deep_as_its_stages_are_apart():
    made = staged()
    assert [(ids(op)[0], op["attributes"]["__pipeline_stage"]) for op in of_type(made, "Stash")] == [
        ("x", "0"),
        ("Tanh:0", "0"),
        ("Tanh:0_c1", "1"),
        ("Tanh:0/1", "1"),
    ]
    assert made.getInfo("Stashed___x").shape() == [4, 4, 4] and made.getInfo("Stashed___Tanh:0/1").shape() == [2, 4, 4]


def test_an_explicit_pipeline_stashes_in_a_buffer_that_goes_round():
    explicit = {"useHostCopyOps": True, "enableExplicitMainLoops": True, "explicitRecomputation": True}
    made = staged(**explicit)
    assert not of_type(made, "Stash") and not of_type(made, "Restore")
    assert [ids(op)[2].split("/", 1)[1] for op in of_type(made, "DynamicUpdateInplace")] == [
        ids(op)[0] for op in of_type(staged(), "Stash")
    ]
    assert len(of_type(made, "DynamicSlice")) == len(of_type(staged(), "Restore"))


def test_what_recomputation_restores_in_place_is_no_anchor():
    def pipeline(anchor, mode):
        model = Model()
        results = [model.input([4, 4])]
        for i in range(2):
            with model.builder.virtualGraph(i), model.builder.pipelineStage(i):
                results.append(model.onnx.tanh([model.onnx.matmul([results[-1], model.weight([4, 4], f"w{i}")])]))
                loss = model.loss(results[-1]) if i == 1 else None
        fields = {"enablePipelining": True, "virtualGraphMode": MANUAL, "autoRecomputation": mode}
        fields |= {"enableGradientAccumulation": True, "accumulationFactor": 4}
        return model.session([loss, results[anchor]], loss, options=options(**fields), ipus=2)

    kept, again = popart.RecomputationType.NoRecompute, popart.RecomputationType.Pipeline
    assert {op["type"] for op in of_type(pipeline(0, kept), "Restore")} == {"Restore"}
    assert {op["type"] for op in of_type(pipeline(2, again), "Restore")} == {"RestoreInplace"}
    with pytest.raises(popart.popart_exception, match="the anchor 'x' is restored in place"):
        pipeline(0, again)


def test_only_what_a_pipeline_restores_is_an_anchor_of_that_name():
    def pipeline(mode):
        model = Model()
        results = [model.input([4, 4])]
        for i in range(2):
            with model.builder.virtualGraph(i), model.builder.pipelineStage(i):
                product = model.onnx.matmul([results[-1], model.weight([4, 4], f"w{i}")])
                results += [model.onnx.tanh([product])]
                loss = model.loss(results[-1]) if i == 1 else None
        fields = {"enablePipelining": True, "virtualGraphMode": MANUAL, "autoRecomputation": mode}
        fields |= {"enableGradientAccumulation": True, "accumulationFactor": 4}
        anchor = f"Restored___{results[1]}"
        return model.session([loss, anchor], loss, options=options(**fields), ipus=2).getInfo(anchor).shape()

    assert pipeline(popart.RecomputationType.NoRecompute) == [4, 4]
    with pytest.raises(popart.popart_exception, match="'Restored___.*its pipeline does not restore"):
        pipeline(popart.RecomputationType.Pipeline)


@pytest.mark.shows("popart.SessionOptions.stashAllTensorsInferencePipeline")
def test_a_pipeline_of_inference_stashes_when_it_is_told_to():
    assert not of_type(staged(training=False, skips=True), "Stash")
    made = staged(training=False, skips=True, stashAllTensorsInferencePipeline=True)
    assert [ids(op) for op in of_type(made, "Stash")] == [["Tanh:0_c2"]]  # the copy waits for a stage on the last IPU


@pytest.mark.shows("popart.SessionOptions.enableConstantFoldingOfMultipleConsumers")
@pytest.mark.parametrize(
    "folds, types", [(True, ["AddLhsInplace"]), (False, ["Mul", "AddRhsInplace", "AddLhsInplace"])]
)
def test_constants_with_several_readers_can_be_left_alone(folds, types):
    model = Model()
    x, c = model.input([2]), model.onnx.constant(np.float32([1, 2]))
    y = model.onnx.add([x, model.onnx.add([c, model.onnx.mul([c, c])])])
    assert types_of(model.session([y], options=options(enableConstantFoldingOfMultipleConsumers=folds))) == types


@pytest.mark.shows(
    "popart.SessionOptions.serializedPoprithmsShiftGraphsDir",
    "popart.SessionOptions.serializedPoprithmsAnnealGraphsDir",
)
@pytest.mark.parametrize("name", ["serializedPoprithmsShiftGraphsDir", "serializedPoprithmsAnnealGraphsDir"])
def test_problems_of_scheduling_are_written(tmp_path, name):
    made = session(2, **{name: str(tmp_path)})
    (path,) = tmp_path.glob("*.json")
    problem = json.loads(path.read_text())
    ops = ops_of(made)
    assert [op["debugString"] for op in problem["ops"]] == [op["type"] for op in ops]
    for at, op in enumerate(problem["ops"]):
        assert all(before < at and at in problem["ops"][before]["outs"] for before in op["ins"])
    update = problem["ops"][-1]
    assert update["debugString"] == "SGD0VarUpdate" and len(update["ins"]) == 1
    assert {64} == {problem["allocs"][number]["value"] for number in update["allocs"]}
    with pytest.raises(popart.popart_exception, match="which is no folder"):
        session(1, **{name: str(tmp_path / "missing")})
