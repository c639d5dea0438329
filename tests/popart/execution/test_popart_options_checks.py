"""Combinations of options that a session refuses, and the names and numbers that it says."""

import numpy
import popart
import pytest
from popart_execution_models import batches, device, layers, model, node, options_of, train, weights

MANUAL, AUTO, PHASES = (popart.VirtualGraphMode[name] for name in ("Manual", "Auto", "ExecutionPhases"))
IO = popart.TileSet.IO


def location(*values):
    return popart.TensorLocationSettings(popart.TensorLocation(*values), 0, 0)


def build(training=True, anchors=None, ipus=1, proto=None, steps=1, **options):
    values = weights()
    flow = popart.DataFlow(steps, anchors or {"loss": popart.AnchorReturnType("All")})
    proto = layers(values) if proto is None else proto
    if training:
        return popart.TrainingSession(
            proto, flow, "loss", popart.ConstSGD(0.1), device(ipus), userOptions=options_of(**options)
        )
    return popart.InferenceSession(proto, flow, device(ipus), userOptions=options_of(**options))


def serialised(**fields):
    settings = popart.BatchSerializationSettings()
    for name, value in fields.items():
        setattr(settings, name, value)
    return settings


def phases(count, stages=2):
    settings = popart.ExecutionPhaseSettings()
    settings.phases, settings.stages = count, stages
    return settings


def loss_scaling():
    return popart.AutomaticLossScalingSettings(True)


REFUSED = [
    ({"kahnTieBreaker": "first"}, r"kahnTieBreaker is 'first'; there are greedy, fifo, random"),
    ({"partialsTypeMatMuls": "double"}, r"partialsTypeMatMuls is 'double'"),
    ({"aliasZeroCopy": True}, r"aliasZeroCopy is True and explicitRecomputation is False"),
    (
        {"replicatedGraphCount": 2, "enableReplicatedGraphs": False},
        r"replicatedGraphCount is 2 and enableReplicatedGraphs is False",
    ),
    ({"replicatedGraphCount": 2, "ipus": 3}, r"replicatedGraphCount is 2 and the device has 3 IPUs"),
    ({"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 0}, r"globalReplicationFactor is 0"),
    (
        {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 2, "globalReplicaOffset": 3},
        r"globalReplicaOffset is 3: .* 2",
    ),
    (
        {"enableDistributedReplicatedGraphs": True, "globalReplicationFactor": 2, "replicatedGraphCount": 4, "ipus": 4},
        r"replicatedGraphCount is 4: .* globalReplicationFactor, 2",
    ),
    (
        {"accumulationFactor": 4, "enableGradientAccumulation": False},
        r"accumulationFactor is 4 and enableGradientAccumulation is False",
    ),
    (
        {"training": False, "enableGradientAccumulation": True},
        r"enableGradientAccumulation is True in an InferenceSession",
    ),
    ({"executionPhaseSettings": phases(2)}, r"executionPhaseSettings.phases is 2 and virtualGraphMode is Off"),
    (
        {"virtualGraphMode": AUTO, "virtualGraphSplitRatios": [0.5, 0.4], "ipus": 2},
        r"virtualGraphSplitRatios is \[0.5, 0.4\].* 0.9",
    ),
    ({"virtualGraphMode": AUTO, "virtualGraphSplitRatios": [0.5, 0.5]}, r"for each of the 1 IPUs"),
    ({"enablePipelining": True}, r"enablePipelining is True and virtualGraphMode is Off"),
    ({"enablePipelining": True, "virtualGraphMode": MANUAL}, r"a replica has 1 IPU: a pipeline needs two"),
    (
        {"autoRecomputation": popart.RecomputationType.Pipeline},
        r"RecomputationType.Pipeline and enablePipelining is False",
    ),
    (
        {"createImplicitPipeliningFwdOnlyProgram": True},
        r"enablePipelining is False, enableGradientAccumulation is False",
    ),
    (
        {
            "enablePipelining": True,
            "virtualGraphMode": MANUAL,
            "ipus": 2,
            "steps": 2,
            "anchors": {"loss": popart.AnchorReturnType("EveryN", 2)},
        },
        r"'loss' is returned EveryN and enablePipelining is True",
    ),
    (
        {
            "enablePipelining": True,
            "virtualGraphMode": MANUAL,
            "ipus": 2,
            "useHostCopyOps": True,
            "enableExplicitMainLoops": True,
        },
        r"explicitRecomputation is False",
    ),
    (
        {
            "enablePipelining": True,
            "virtualGraphMode": MANUAL,
            "ipus": 2,
            "automaticLossScalingSettings": loss_scaling(),
        },
        r"automaticLossScalingSettings.enabled is True in a pipeline",
    ),
    ({"enableExplicitMainLoops": True}, r"enableExplicitMainLoops is True and useHostCopyOps is False"),
    ({"numIOTiles": 32}, r"numIOTiles is 32 and virtualGraphMode is Off"),
    ({"defaultBufferingDepth": 0}, r"defaultBufferingDepth is 0"),
    ({"bufferingDepthMap": {"x": 0}}, r"bufferingDepthMap\['x'\] is 0"),
    (
        {"bufferingDepthMap": {"x": 2}, "rearrangeStreamsOnHost": True},
        r"bufferingDepthMap\['x'\] is 2 and rearrangeStreamsOnHost",
    ),
    ({"bufferingDepthMap": {"loss": 3}}, r"bufferingDepthMap\['loss'\] is 3 and rearrangeAnchorsOnHost is True"),
    (
        {
            "weightTensorLocationSettings": location(
                popart.TensorStorage.OffChip, IO, IO, popart.ReplicatedTensorSharding.Off
            )
        },
        r"weightTensorLocationSettings asks for TileSet.IO and numIOTiles is 0",
    ),
    ({"anchors": {"loss": popart.AnchorReturnType("All", IO)}}, r"'loss' is on TileSet.IO and numIOTiles is 0"),
    (
        {
            "anchors": {
                "loss": popart.AnchorReturnType("All", popart.TileSet.Compute, popart.ExchangeStrategy.OverlapStep)
            }
        },
        r"OverlapStep, which is not supported",
    ),
    (
        {
            "anchors": {
                "loss": popart.AnchorReturnType("All", popart.TileSet.Compute, popart.ExchangeStrategy.OverlapLoops)
            }
        },
        r"ExchangeStrategy.OverlapLoops and useHostCopyOps is False",
    ),
    ({"batchSerializationSettings": serialised(factor=-1)}, r"batchSerializationSettings.factor is -1"),
    (
        {"batchSerializationSettings": serialised(factor=2, method=popart.BatchSerializationMethod.Loop)},
        r"transformContext Fwd and method Loop in a TrainingSession",
    ),
]


@pytest.mark.shows(
    "popart.SessionOptions.enableDistributedReplicatedGraphs",
    "popart.SessionOptions.globalReplicaOffset",
)
@pytest.mark.parametrize(("given", "message"), REFUSED, ids=[message[:40] for _, message in REFUSED])
@pytest.mark.shows("popart.SessionOptions", "popart.popart_exception")
def test_options_that_do_not_go_together_are_refused(given, message):
    with pytest.raises(popart.popart_exception, match=message):
        build(**given)


@pytest.mark.shows("popart.BatchSerializationTransformContext")
def test_batches_in_a_loop_are_for_the_backward_context():
    contexts, method = popart.BatchSerializationTransformContext, popart.BatchSerializationMethod.Loop
    build(batchSerializationSettings=serialised(factor=2, method=method, transformContext=contexts.Backward))
    with pytest.raises(popart.popart_exception, match="transformContext Fwd and method Loop"):
        build(batchSerializationSettings=serialised(factor=2, method=method, transformContext=contexts.Forward))


@pytest.mark.shows("popart.AccumulateOuterFragmentSchedule", "popart.SessionOptions.accumulateOuterFragmentSettings")
def test_clipping_in_a_pipeline_needs_a_schedule_of_updates_that_is_not_serial():
    values = weights()
    places = [{"ipu": 0, "stage": 0}, {"ipu": 0, "stage": 0}, {"ipu": 1, "stage": 1}]
    clip = popart.SGD({"defaultLearningRate": (0.1, False)}, [popart.ClipNormSettings.clipAllWeights(0.01)])
    x = batches(4)

    def trained(schedule=None, places=None, **options):
        if schedule is not None:
            options["accumulateOuterFragmentSettings"] = popart.AccumulateOuterFragmentSettings(schedule)
        anchors = {"GlobalNorm___0": popart.AnchorReturnType("Final")}
        return train(layers(values, places), list(values), x, 1, 2, clip, anchors, accumulationFactor=4, **options)

    pipeline = {"places": places, "virtualGraphMode": MANUAL, "enablePipelining": True}
    schedules = popart.AccumulateOuterFragmentSchedule
    for serial in (None, schedules.Serial):
        with pytest.raises(popart.popart_exception, match="schedule is Serial"):
            trained(serial, **pipeline)
    expected = trained()
    for schedule in (schedules.Scheduler, schedules.OverlapCycleOptimized, schedules.OverlapMemoryOptimized):
        got = trained(schedule, **pipeline)
        for name, value in expected.items():
            numpy.testing.assert_allclose(got[name], value, rtol=2e-5, atol=1e-6, err_msg=name)


@pytest.mark.shows("popart.AutomaticLossScalingSettings")
@pytest.mark.parametrize("proportion", [-0.1, 1.5])
def test_a_proportion_of_loss_scaling_is_checked_when_the_device_is_prepared(proportion):
    half = {name: value.astype(numpy.float16) for name, value in weights().items()}
    proto = model(
        [
            node("Cast", ["x"], "h", to=10),
            node("MatMul", ["h", "w0"], "y"),
            node("ReduceSum", ["y"], "loss", axes=[0, 1], keepdims=0),
        ],
        {"x": (2, 4)},
        {"w0": half["w0"]},
    )
    session = popart.TrainingSession(
        proto,
        popart.DataFlow(1, ["loss"]),
        "loss",
        popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (2.0, False)}),
        device(),
        userOptions=options_of(
            automaticLossScalingSettings=popart.AutomaticLossScalingSettings(
                True, thresholdUpperCountProportion=proportion
            )
        ),
    )
    with pytest.raises(popart.popart_exception, match=f"thresholdUpperCountProportion is {proportion}"):
        session.prepareDevice()


@pytest.mark.shows("popart.SessionOptions.numIOTiles", "popart.NumIOTiles")
@pytest.mark.parametrize("tiles", [33, 16, 1472])
def test_tiles_for_io_are_checked_when_the_device_is_prepared(tiles):
    values = weights()
    proto = layers(values, [{"ipu": 0}] * 3)
    session = build(proto=proto, virtualGraphMode=MANUAL, numIOTiles=tiles)
    with pytest.raises(popart.popart_exception, match=f"numIOTiles is {tiles}: .* even number from 32"):
        session.prepareDevice()


def test_transforms_that_cannot_be_loaded_are_refused():
    settings = popart.ExperimentalSettings()
    settings.customTransformApplierSettings = {"Fwd0": ["MyTransform"]}
    with pytest.raises(popart.popart_exception, match="transform 'MyTransform' at 'Fwd0', and none"):
        build(experimentalSettings=settings)


@pytest.mark.shows("popart.SessionOptions.customCodelets")
def test_files_of_codelets_exist_and_are_not_read(tmp_path, capfd):
    with pytest.raises(popart.popart_exception, match="customCodelets names the file 'missing.cpp'"):
        build(customCodelets=["missing.cpp"]).prepareDevice()
    (tmp_path / "codelet.cpp").write_text("this is no C++")
    build(customCodelets=[str(tmp_path / "codelet.cpp")]).prepareDevice()
    assert "customCodelets has 1 files, which nothing reads" in capfd.readouterr().err


def test_the_flag_with_factor_one_is_legal():
    build(enableGradientAccumulation=True, accumulationFactor=1)


@pytest.mark.parametrize(
    "name",
    [
        "Gradient___x",
        "Accl1___t",
        "UpdatedVar___a",
        "learningRate___default___FLOAT",
        "Index___0",
        "sgdMomentum___specific___w",
        "lossScaleUpdateFactor",
    ],
)
def test_names_of_the_session_are_not_for_users(name):
    proto = model([node("Relu", ["x"], name), node("Abs", [name], "y")], {"x": (2, 2)}, {})
    with pytest.raises(popart.popart_exception, match=f"clash with reserved prefix: the tensor '{name}'"):
        build(training=False, proto=proto, anchors=["y"])


def test_names_that_only_resemble_those_of_the_session_are_accepted():
    build(
        training=False,
        proto=model([node("Relu", ["x"], "GradientX"), node("Abs", ["GradientX"], "y")], {"x": (2, 2)}, {}),
        anchors=["y"],
    )


def test_two_inputs_of_one_name_are_refused():
    import onnx

    proto = onnx.ModelProto.FromString(model([node("Relu", ["x"], "y")], {"x": (2, 2)}, {}))
    proto.graph.input.append(proto.graph.input[0])
    with pytest.raises(popart.popart_exception, match="repeated input id: two inputs of the model are called 'x'"):
        build(training=False, proto=proto.SerializeToString(), anchors=["y"])


@pytest.mark.parametrize(
    "name", ["nothing", "Gradient___nothing", "Accum___w0", "Accl1___w0", "UpdatedVar___h0", "Restored___h0"]
)
def test_an_unknown_anchor_is_refused_by_name(name):
    with pytest.raises(popart.popart_exception, match=name.split("___")[-1]):
        build(anchors={name: popart.AnchorReturnType("All")})


@pytest.mark.parametrize("loss", ["square", "missing"])
def test_a_loss_has_one_element_and_exists(loss):
    flow = popart.DataFlow(1, ["y"])
    with pytest.raises(popart.popart_exception, match=loss):
        popart.TrainingSession(layers(weights()), flow, loss, popart.ConstSGD(0.1), device())


@pytest.mark.parametrize("shape", [(1,), (1, 1)])
def test_a_loss_of_one_element_may_have_any_rank(shape):
    values = weights()
    proto = model(
        [
            node("MatMul", ["x", "w0"], "y"),
            node("ReduceMean", ["y"], "loss0", axes=[0, 1], keepdims=1),
            node("Squeeze", ["loss0"], "loss", axes=[0] if len(shape) == 1 else []),
        ]
        if len(shape) == 1
        else [node("MatMul", ["x", "w0"], "y"), node("ReduceMean", ["y"], "loss", axes=[0, 1], keepdims=1)],
        {"x": (2, 4)},
        {"w0": values["w0"]},
    )
    session = build(proto=proto)
    session.prepareDevice()
    session.weightsFromHost()
    results = session.initAnchorArrays()
    x = batches(1)[0]
    session.run(popart.PyStepIO({"x": x}, results))
    assert results["loss"].shape == shape
    numpy.testing.assert_allclose(results["loss"].item(), (x.astype(float) @ values["w0"]).mean(), rtol=1e-5)


@pytest.mark.parametrize("name", ["POPART_PRINT_TENSORS", "POPART_OPX_TRACE"])
def test_variables_that_nothing_reads_are_named(name, monkeypatch, capfd):
    monkeypatch.setenv(name, "1")
    build()
    assert f"the variable {name} is set, and nothing reads it" in capfd.readouterr().err
    monkeypatch.delenv(name)
    build()
    assert name not in capfd.readouterr().err
