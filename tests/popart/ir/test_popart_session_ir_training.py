"""Training in a session's program: updates, recomputation, pipelines, equal stretches, files."""

import json
import math

import numpy as np
import pytest
from session_listings import FORMAT, Model, graphs_of, ids, of_type, ops_of, options, types_of

import popart


def _network(layers=3, stages=False, annotate=None):
    """A chain of products and tanhs; returns the model and its loss."""
    model = Model()
    y = model.input([4, 4])
    for i in range(layers):
        w = model.weight([4, 4], f"w{i}")
        if stages:
            with model.builder.virtualGraph(i), model.builder.pipelineStage(i):
                y = model.onnx.tanh([model.onnx.matmul([y, w])])
                loss = model.loss(y) if i == layers - 1 else None
        else:
            y = model.onnx.tanh([model.onnx.matmul([y, w])])
        if annotate is not None and i == annotate:
            model.builder.recomputeOutputInBackwardPass(y, popart.RecomputeType.Checkpoint)
    return model, loss if stages else model.loss(y)


def _updates(optimizer, **fields):
    model, loss = _network(1)
    session = model.session([loss], loss, optimizer=optimizer, options=options(**fields))
    ops = ops_of(session)
    return [op["type"] for op in ops if "Update" in op["type"] or "Accumul" in op["type"]], ops


@pytest.mark.parametrize(
    "optimizer, expected",
    [
        (popart.ConstSGD(0.1), ["SGD0VarUpdate"]),
        (popart.SGD({"defaultMomentum": (0.9, True)}), ["Accumulate", "SGD1VarUpdate", "SGD1AcclUpdate"]),
        (
            popart.Adam({"defaultLearningRate": (0.1, False)}),
            ["Accumulate", "Accumulate", "AdamUpdater", "AdamVarUpdate"],
        ),
    ],
)
@pytest.mark.shows("popart.TrainingSession._serializeIr")
def test_each_optimizer_lists_the_operators_of_its_update(optimizer, expected):
    types, ops = _updates(optimizer)
    assert types == expected
    (update,) = [op for op in ops if op["type"].endswith("VarUpdate")]
    assert ids(update)[0] == "w0" and ids(update, "outputs") == ["UpdatedVar___w0"]


def test_accumulation_updates_in_the_outer_fragment():
    fields = {"enableGradientAccumulation": True, "accumulationFactor": 2}
    types, ops = _updates(popart.ConstSGD(0.1), **fields)
    contexts = {op["type"]: op["attributes"]["__execution_context"] for op in ops}
    assert types == ["Accumulate", "SGD0VarUpdate", "AccumulatorScale"]  # the sum is zero again after the update
    assert contexts["Accumulate"] == "Normal" and contexts["SGD0VarUpdate"] == "AccumulateOuterFragment"


def test_clipping_sums_squares_of_each_weight():
    model, loss = _network(2)
    optimizer = popart.SGD(
        {"defaultLearningRate": (0.1, False)}, [popart.ClipNormSettings.clipWeights(["w0", "w1"], 1.0)]
    )
    session = model.session([loss], loss, optimizer=optimizer)
    assert len(of_type(session, "ReduceSumSquare")) == 2
    updates = of_type(session, "SGD0VarUpdate")
    assert [ids(op)[1] for op in updates] == ["Gradient___w0__clipped", "Gradient___w1__clipped"]


def _flags(session):
    return [
        op["attributes"]["recomputetype"]
        for op in ops_of(session)
        if op["type"].startswith("Tanh") and "Grad" not in op["type"]
    ]


@pytest.mark.shows("popart.RecomputationType", "popart.RecomputeType")
def test_modes_of_recomputation():
    def flags(mode, layers=3, annotate=None):
        model, loss = _network(layers, annotate=annotate)
        return _flags(model.session([loss], loss, options=options(autoRecomputation=mode, enableOutlining=False)))

    assert flags(popart.RecomputationType.NoRecompute) == ["Checkpoint"] * 3
    assert flags(popart.RecomputationType.NormOnly) == ["Checkpoint"] * 3
    assert flags(popart.RecomputationType.RecomputeAll) == ["Recompute"] * 3
    assert flags(popart.RecomputationType.RecomputeAll, annotate=0) == ["Checkpoint"] * 3
    assert flags(popart.RecomputationType.RecomputeAll, annotate=1) == ["Recompute", "Checkpoint", "Checkpoint"]


def test_standard_recomputation_keeps_one_set_of_each_interval():
    model, loss = _network(12)
    session = model.session(
        [loss], loss, options=options(autoRecomputation=popart.RecomputationType.Standard, enableOutlining=False)
    )
    ops = [op for op in ops_of(session) if op["attributes"]["recomputetype"] != "Undefined"]
    first = round(0.75 * (math.sqrt(2 * len(ops)) - 1))
    flags = [op["attributes"]["recomputetype"] for op in ops]
    assert flags[:first].count("Checkpoint") == 1 and flags[:first].count("Recompute") == first - 1
    assert flags.count("Recompute") > 0
    assert all(
        (op["attributes"]["recompute"] == "YES") == (op["attributes"]["recomputetype"] == "Recompute") for op in ops
    )


def test_explicit_recomputation_leaves_clones():
    model, loss = _network(2)
    fields = {
        "autoRecomputation": popart.RecomputationType.RecomputeAll,
        "explicitRecomputation": True,
        "enableOutlining": False,
    }
    ops = ops_of(model.session([loss], loss, options=options(**fields)))
    clones = [op for op in ops if op["attributes"]["recomputetype"] == "Recomputed"]
    assert clones and all(id.endswith("__re") for op in clones for id in ids(op, "outputs"))
    assert all(op["attributes"]["recompute"] == "NO" for op in ops)
    made = {id for op in clones for id in ids(op, "outputs")}
    assert made <= {id for op in ops for id in ids(op)}


def test_pipelines_stash_what_later_stages_read():
    model, loss = _network(2, stages=True)
    fields = {"enablePipelining": True, "virtualGraphMode": popart.VirtualGraphMode.Manual, "enableOutlining": False}
    fields |= {"enableGradientAccumulation": True, "accumulationFactor": 4}
    session = model.session([loss], loss, options=options(**fields), ipus=2)
    ops = ops_of(session)
    stages = {op["attributes"]["__pipeline_stage"] for op in ops}
    assert stages == {"0", "1", "2"}
    stashes, restores = of_type(session, "Stash"), of_type(session, "Restore")
    assert stashes and len(stashes) == len(restores)
    by_source = {ids(op)[0]: op for op in restores}
    for stashed in stashes:
        (source,) = ids(stashed)
        restored = by_source[source]
        assert ids(stashed, "outputs") == [f"Stashed___{source}"] and ids(restored, "outputs") == [
            f"Restored___{source}"
        ]
        assert restored["attributes"]["__pipeline_stage"] == "2" and stashed["attributes"]["__pipeline_stage"] == "0"
        assert any(f"Restored___{source}" in ids(op) for op in ops)


def test_a_pipeline_that_recomputes_stashes_inputs_of_stages():
    model, loss = _network(2, stages=True)
    fields = {"enablePipelining": True, "virtualGraphMode": popart.VirtualGraphMode.Manual, "enableOutlining": False}
    fields |= {
        "enableGradientAccumulation": True,
        "accumulationFactor": 4,
        "autoRecomputation": popart.RecomputationType.Pipeline,
    }
    session = model.session([loss], loss, options=options(**fields), ipus=2)
    assert [ids(op) for op in of_type(session, "Stash")] == [["x"]]


@pytest.mark.shows("popart.SessionOptions.enableOutlining", "popart.SessionOptions.outlineThreshold")
def test_equal_stretches_become_calls():
    model, loss = _network(4)
    whole = model.session([loss], loss, options=options(enableOutlining=False))
    session = model.session([loss], loss)
    graphs = graphs_of(session)
    assert len(of_type(session, "MatMul")) < len(of_type(whole, "MatMul")) == 11
    assert "call_subgraph(0)" in graphs and not [op for op in graphs["maingraph"] if op["type"] == "MatMul"]
    calls = [op for op in graphs["maingraph"] if op["attributes"].get("callee") == "call_subgraph(0)"]
    body = graphs["call_subgraph(0)"]
    assert len(calls) == 4
    assert (
        len(calls) * len(body) + sum(len(ops) for name, ops in graphs.items() if name == "maingraph") - len(calls)
        < len(ops_of(whole)) * 2
    )
    assert all(op["attributes"]["__execution_context"] == "Subgraph" for op in body)
    assert all(id.startswith("call_subgraph(0)/") for op in body for id in [*ids(op), *ids(op, "outputs")])
    high = model.session([loss], loss, options=options(outlineThreshold=1e9))
    assert types_of(high) == types_of(whole)


def test_cheap_pairs_and_different_places_stay():
    model = Model()
    y = model.onnx.tanh([model.onnx.tanh([model.input([4])])])
    assert "Call" not in types_of(model.session([y]))
    model = Model()
    y = model.input([4, 4])
    for text in ("first", "second"):
        with model.builder.outlineAttributes({"layer": text}):
            y = model.onnx.tanh([model.onnx.matmul([y, model.weight([4, 4])])])
    assert types_of(model.session([y])).count("MatMul") == 2


def test_producers_of_anchors_are_not_outlined_away():
    model = Model()
    x = model.input([4, 4])
    first = model.onnx.matmul([x, model.weight([4, 4], "a")])
    second = model.onnx.matmul([first, model.weight([4, 4], "b")])
    made = {id for op in ops_of(model.session([first, second])) for id in ids(op, "outputs")}
    assert {first, second} <= made


def test_equal_lstms_are_one():
    model = Model()
    y = model.input([3, 2, 4])
    for i in range(3):
        y = model.graphcore.lstm([y, model.weight([4, 8, 4], f"w{i}"), model.weight([4, 4], f"b{i}")])[0]
    z = model.onnx.sin([y])
    session = model.session([z])
    assert not [type for type in types_of(session) if "LSTM" in type]
    assert len(of_type(session, "LSTM")) == 1


@pytest.mark.shows("popart.SessionOptions.dotOpNames")
@pytest.mark.parametrize(
    "separate, files", [(True, {"Fwd0_r", "Final_r", "Final_0"}), (False, {"Fwd0_all", "Final_all"})]
)
@pytest.mark.shows(
    "popart.SessionOptions.dotChecks", "popart.SessionOptions.logDir", "popart.SessionOptions.separateCallOpPdfs"
)
def test_dot_files(tmp_path, separate, files):
    model = Model()
    y = model.input([4, 4])
    for i in range(2):
        y = model.onnx.matmul([y, model.weight([4, 4], f"w{i}")], f"product{i}")
    y = model.onnx.tanh([y], "last")
    fields = {
        "logDir": str(tmp_path),
        "dotChecks": {"fwd0", "FINAL"},
        "separateCallOpPdfs": separate,
        "dotOpNames": True,
    }
    model.session([y], options=options(**fields))
    assert {path.stem for path in tmp_path.glob("*.dot")} == files
    text = (tmp_path / ("Final_r.dot" if separate else "Final_all.dot")).read_text()
    assert text.startswith("digraph") and "Tanh" in text and "last" in text and f'-> "{y}"' in text


@pytest.mark.shows("popart.SessionOptions.firstDotOp", "popart.SessionOptions.finalDotOp")
def test_dot_files_of_the_environment_and_a_range_of_ops(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_DOT_CHECKS", "PREALIAS:bwd0")
    model, loss = _network(1)
    model.session([loss], loss, options=options(logDir=str(tmp_path), firstDotOp=1, finalDotOp=3))
    assert {path.stem for path in tmp_path.glob("*.dot")} == {"Bwd0_r", "PreAlias_r"}
    assert (tmp_path / "Bwd0_r.dot").read_text().count("shape=box") == 2


def test_a_program_from_a_file_has_no_ops(tmp_path):
    model = Model()
    y = model.onnx.relu([model.input([4])])
    device = popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 1})
    model.session([y], device=device).compileAndExport(str(tmp_path / "relu.popef"))
    session = model.session([y], device=device)
    session.loadExecutable(str(tmp_path / "relu.popef"))
    assert session._serializeIr(FORMAT) == ""


@pytest.mark.shows("popart.initializePoplarDebugInfo", "popart.closePoplarDebugInfo")
def test_debug_information_goes_from_the_builder_to_ops(tmp_path):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    model, loss = _network(1)
    model.session([loss], loss)
    popart.closePoplarDebugInfo()
    data = json.loads(path.read_text())
    strings, contexts = data["stringTable"], {entry["id"]: entry for entry in data["contexts"]}
    ops = [entry for entry in contexts.values() if entry["layer"] == "popart" and "opid" in entry]
    (product,) = [op for op in ops if op["opid"] == "ai.onnx.MatMul:9" and "Gradient" not in "".join(op["inputs"])]
    node = contexts[product["parentId"]]
    call = contexts[node["parentId"]]
    assert [entry["layer"] for entry in (node, call)] == ["onnx", "popartbuilder"]
    assert strings[call["location"]["fileName"]] == __file__ and product["category"] == "op"
    assert strings[call["location"]["functionName"]] and node["opType"] == "MatMul"
    assert product["graphId"] == "maingraph" and product["attributes"]["recompute"] == "NO"
    assert np.all(np.diff(sorted(contexts)) > 0)


@pytest.mark.parametrize(
    "optimizer, name",
    [
        (lambda: popart.SGD({}, debugContext="mine"), "mine"),
        (lambda: popart.Adam({}, debugContext=popart.DebugContext("mine")), "mine"),
        (lambda: popart.Adaptive({}), "adaptive"),
        (lambda: popart.ConstSGD(0.1), "sgd"),
    ],
)
def test_updates_are_recorded_below_the_context_of_the_optimizer(tmp_path, optimizer, name):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    model, loss = _network(1)
    model.session([loss], loss, optimizer=optimizer())
    popart.closePoplarDebugInfo()
    data = json.loads(path.read_text())
    strings, contexts = data["stringTable"], {entry["id"]: entry for entry in data["contexts"]}
    kinds = ("VarUpdate", "Combo", "Accumulate", "Updater")
    updates = [entry for entry in contexts.values() if "opid" in entry and any(k in entry["opid"] for k in kinds)]
    (parent,) = {entry["parentId"] for entry in updates}
    assert (contexts[parent]["layer"], strings[contexts[parent]["name"]]) == ("popartbuilder", name)
    assert all(entry["layer"] == "popart" and entry["opid"].startswith("ai.graphcore.") for entry in updates)
    assert {entry["opid"].rpartition(":")[2] for entry in updates} == {"1"}


def test_each_update_is_recorded_as_it_was_and_as_it_is(tmp_path):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    model, loss = _network(3)
    model.session([loss], loss)
    popart.closePoplarDebugInfo()
    records = [r for r in json.loads(path.read_text())["contexts"] if "SGD" in r.get("opid", "")]
    assert sorted(r["opid"] for r in records) == ["ai.graphcore.SGD0Combo:1"] * 3 + ["ai.graphcore.SGD0VarUpdate:1"] * 3
    assert len({r["parentId"] for r in records}) == 1


def test_debug_information_of_calls_names_the_ops_that_they_call(tmp_path):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    model, loss = _network(3)
    model.session([loss], loss)
    popart.closePoplarDebugInfo()
    data = json.loads(path.read_text())
    contexts = {entry["id"]: entry for entry in data["contexts"]}
    calls = [entry for entry in contexts.values() if "outlinedDebugContextIds" in entry]
    assert len(calls) > 2
    for call in calls:
        graphs = {contexts[op]["graphId"] for op in call["outlinedDebugContextIds"]}
        assert graphs == {call["attributes"]["callee"]}
        replaced = [contexts[op]["opid"] for op in call["replacedDebugContextIds"]]
        assert any("MatMul" in opid for opid in replaced) and len(replaced) == len(call["outlinedDebugContextIds"])


def test_gradients_read_what_the_program_keeps_for_them():
    model = Model()
    weight = model.weight([1, 1, 4, 4])
    pooled = model.onnx.averagepool([model.onnx.mul([model.input([1, 1, 4, 4]), weight])], [2, 2])
    best, at = model.onnx.topk([pooled, model.onnx.constant(np.int64([2]))])
    loss = model.loss(best)
    session = model.session([loss], loss)
    (pool,), (top,) = of_type(session, "AveragePoolGrad"), of_type(session, "TopKGrad")
    assert ids(pool) == [f"Gradient___{pooled}"] and ids(top) == [f"Gradient___{best}", at]
