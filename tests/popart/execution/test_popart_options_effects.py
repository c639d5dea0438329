"""Fields of SessionOptions and of the objects in it that change what runs, each beside the same program without it."""

import contextlib
import dataclasses

import numpy
import popart
import pytest
from onnx import TensorProto, helper, numpy_helper
from popart._impl.operators import queries
from popart_execution_models import SGD, batches, device, infer, layers, model, node, options_of, train, weights

ALL = popart.AnchorReturnType("All")
OFF_CHIP, IO = popart.TensorStorage.OffChip, popart.TileSet.IO


def session_of(proto, anchors=("y",), ipus=1, **options):
    return popart.InferenceSession(
        proto, popart.DataFlow(1, list(anchors)), device(ipus), userOptions=options_of(**options)
    )


def halves(*nodes):
    """x times 0.1, 4096 times added by a product or convolution: in f16 the partial sums differ from those in f32."""
    w = numpy.full((4096, 1), 0.1, numpy.float16)
    shape = (1, 4096)
    if nodes[0].op_type == "Conv":
        w, shape = w.reshape(1, 4096, 1, 1), (1, 4096, 1, 1)
    graph = helper.make_graph(
        list(nodes),
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT16, shape)],
        [],
        [numpy_helper.from_array(w, "w")],
    )
    return helper.make_model(
        graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=6
    ).SerializeToString(), shape


@pytest.mark.shows("popart.SessionOptions.partialsTypeMatMuls", "popart.SessionOptions.convolutionOptions")
@pytest.mark.parametrize(
    ("type", "options"),
    [
        ("MatMul", {"partialsTypeMatMuls": "half"}),
        ("Conv", {"convolutionOptions": {"partialsType": "half"}}),
    ],
)
def test_partial_sums_in_half(type, options):
    proto, shape = halves(node(type, ["x", "w"], "y"))
    x = numpy.full(shape, 1.0, numpy.float16)
    exact = 4096 * float(numpy.float16(0.1))
    full = float(infer(proto, x, ["y"])["y"].reshape(()))
    half = float(infer(proto, x, ["y"], **options)["y"].reshape(()))
    assert abs(full - exact) <= 0.25 < abs(half - exact)


def test_products_and_convolutions_have_options_of_their_own():
    product, _ = halves(node("MatMul", ["x", "w"], "y"))
    x = numpy.full((1, 4096), 1.0, numpy.float16)
    got = infer(product, x, ["y"], convolutionOptions={"partialsType": "half"})["y"]
    numpy.testing.assert_array_equal(got, infer(product, x, ["y"])["y"])


@pytest.mark.shows("popart.SessionOptions.updatableNamedBuffers")
def test_a_named_buffer_of_inference_can_be_changed():
    values = weights()
    session = session_of(layers(values), updatableNamedBuffers=["w1"])
    session.prepareDevice()
    session.weightsFromHost()
    x, changed = batches(1)[0], values["w1"] * 2

    def run():
        results = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": x}, results))
        return results["y"]

    before = run()
    session.writeWeights(popart.PyWeightsIO({"w1": changed}))
    session.weightsFromHost()
    expected = numpy.maximum(numpy.maximum(x @ values["w0"], 0) @ changed, 0) @ values["w2"]
    numpy.testing.assert_allclose(run(), expected, rtol=1e-5, atol=1e-6)
    assert not numpy.allclose(before, expected)
    session.writeWeights(popart.PyWeightsIO({"w0": changed}))  # a constant stays as it is
    session.weightsFromHost()
    numpy.testing.assert_allclose(run(), expected, rtol=1e-5, atol=1e-6)
    with pytest.raises(popart.popart_runtime_error, match="are constants of its program"):
        session_of(layers(values)).writeWeights(popart.PyWeightsIO({"w1": changed}))


@pytest.mark.shows("popart.SessionOptions.enableFloatingPointChecks")
def test_floating_point_checks_end_a_run_that_divides_by_zero():
    proto = model([node("Div", ["x", "z"], "y")], {"x": (2,), "z": (2,)}, {})
    for checks in (False, True):
        session = session_of(proto, enableFloatingPointChecks=checks)
        session.prepareDevice()
        results = session.initAnchorArrays()
        io = popart.PyStepIO({"x": numpy.ones(2, numpy.float32), "z": numpy.zeros(2, numpy.float32)}, results)
        if checks:
            with pytest.raises(popart.poplar_application_runtime_error):
                session.run(io)
        else:
            session.run(io)
            assert numpy.isinf(results["y"]).all()


@pytest.mark.shows("popart.SessionOptions.strictOpVersions")
def test_versions_of_operators_are_those_of_the_opset_unless_allowed(monkeypatch):
    w = numpy.ones((1, 1, 1, 1), numpy.float32)
    graph = helper.make_graph(
        [helper.make_node("Conv", ["x", "w"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, (1, 1, 2, 2))],
        [],
        [numpy_helper.from_array(w, "w")],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 11)], ir_version=6).SerializeToString()
    x = numpy.ones((1, 1, 2, 2), numpy.float32)
    old = dataclasses.replace(queries.operators()["ai.onnx", "Conv"], versions=(1,))
    known = {**queries.operators(), ("ai.onnx", "Conv"): old}
    monkeypatch.setattr(queries, "operators", lambda: known)
    numpy.testing.assert_array_equal(infer(proto, x, ["y"], strictOpVersions=False)["y"], x)
    with pytest.raises(popart.popart_exception, match="a Conv op must be version 11"):
        infer(proto, x, ["y"])


@pytest.mark.shows("popart.SessionOptions.enableSupportedDataTypeCasting")
def test_64_bit_integers_need_the_cast():
    graph = helper.make_graph(
        [helper.make_node("Add", ["x", "x"], ["y"])],
        "g",
        [helper.make_tensor_value_info("x", TensorProto.INT64, (2,))],
        [],
    )
    proto = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 10)], ir_version=6).SerializeToString()
    x = numpy.array([1, 2], numpy.int64)
    assert infer(proto, x, ["y"])["y"].tolist() == [2, 4]
    with pytest.raises(popart.popart_exception, match="'x' is INT64.*enableSupportedDataTypeCasting"):
        infer(proto, x, ["y"], enableSupportedDataTypeCasting=False)
    floats = model([node("Neg", ["x"], "y")], {"x": (2,)}, {})
    assert infer(floats, x.astype(numpy.float32), ["y"], enableSupportedDataTypeCasting=False)["y"].tolist() == [-1, -2]


@pytest.mark.shows("popart.SessionOptions.meanAccumulationAndReplicationReductionStrategy", "popart.MeanReductionStrategy")
@pytest.mark.shows("popart.ReductionType")
def test_a_running_mean_is_a_mean_after_each_micro_batch():
    proto = model([node("Mul", ["x", "w"], "loss")], {"x": (1,)}, {"w": numpy.ones(1, numpy.float32)})
    got = {}
    for strategy in ("Post", "Running"):
        results = train(
            proto,
            [],
            numpy.array([[[1], [3]]], numpy.float32),
            optimizer=popart.SGD(SGD, accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate),
            anchors={"Accum___w": ALL},
            accumulationFactor=2,
            accumulationAndReplicationReductionType=popart.ReductionType.Mean,
            meanAccumulationAndReplicationReductionStrategy=popart.MeanReductionStrategy[strategy],
        )
        got[strategy] = results["Accum___w"].reshape(-1).tolist()
    assert got == {"Post": [1, 4], "Running": [1, 2]}


def phased(**fields):
    settings = popart.ExecutionPhaseSettings()
    settings.phases = 2
    places = [{"ipu": 0, "phase": 0}, {"ipu": 0, "phase": 0}, {"ipu": 1, "phase": 1}]
    proto = layers(weights(size=64), places, rows=64)
    session = popart.TrainingSession(
        proto,
        popart.DataFlow(1, ["loss"]),
        "loss",
        popart.SGD(SGD),
        device(2),
        userOptions=options_of(
            virtualGraphMode=popart.VirtualGraphMode.ExecutionPhases, executionPhaseSettings=settings, **fields
        ),
    )
    session.prepareDevice()
    return session._native.program_text()


@pytest.mark.shows(
    "popart.SessionOptions.activationTensorLocationSettings",
    "popart.TensorLocationSettings",
    "popart.ExecutionPhaseSettings",
)
def test_activations_off_the_chip_are_in_remote_memory():
    plain = phased()
    off = phased(activationTensorLocationSettings=popart.TensorLocationSettings(popart.TensorLocation(OFF_CHIP), 0, 0))
    large = popart.TensorLocationSettings(popart.TensorLocation(OFF_CHIP), 10**6, 0)
    assert off != plain and off.count("remote") > plain.count("remote")
    assert phased(activationTensorLocationSettings=large) == plain


def located(places, **options):
    """A training of three layers, tanh of the second in a context of `places`: (weights and anchors, text of the program)."""
    builder, values = popart.Builder(), weights()
    y = builder.addInputTensor("FLOAT", [2, 4], "x")
    for i, (name, value) in enumerate(values.items()):
        w = builder.addInitializedInputTensor(value, name)
        with contextlib.ExitStack() as here:
            if i == 1:
                for place in places:
                    here.enter_context(builder.outputTensorLocation(place))
            y = builder.aiOnnx.tanh([builder.aiOnnx.matmul([y, w])])
    loss = builder.aiGraphcore.l1loss([y], 0.1)
    session = popart.TrainingSession(
        builder.getModelProto(),
        popart.DataFlow(2, [loss]),
        loss,
        popart.SGD(SGD),
        device(),
        userOptions=options_of(**options),
    )
    session.prepareDevice()
    session.weightsFromHost()
    results = session.initAnchorArrays()
    session.run(popart.PyStepIO({"x": batches(2)}, results))
    session.weightsToHost()
    got = {name: numpy.zeros_like(value) for name, value in values.items()}
    session.readWeights(popart.PyWeightsIO(got))
    return {**results, **got}, session._native.program_text()


@pytest.mark.shows("popart.Builder.outputTensorLocation", "popart.TensorLocation", "popart.TensorStorage", "popart.TileSet")
def test_results_of_single_operators_wait_where_these_say():
    off = popart.TensorLocation(OFF_CHIP)
    everything = popart.TensorLocationSettings(off, 0, 0)
    runs = {
        "none": located([]),
        "one": located([off]),
        "all": located([], activationTensorLocationSettings=everything),
        "all but one": located([popart.TensorLocation()], activationTensorLocationSettings=everything),
        "the innermost counts": located([off, popart.TensorLocation()]),
    }
    stores = {name: text.count("remote_store") for name, (_, text) in runs.items()}
    assert stores["none"] == stores["the innermost counts"] == 0 < stores["one"] < stores["all"]
    assert stores["all but one"] == stores["all"] - stores["one"]
    for name, (got, _) in runs.items():
        for id, value in runs["none"][0].items():
            numpy.testing.assert_array_equal(got[id], value, err_msg=f"{name}: {id}")
    io = popart.TensorLocation(OFF_CHIP, IO, IO, popart.ReplicatedTensorSharding.Off)
    with pytest.raises(popart.popart_exception, match="output location of .* asks for TileSet.IO, and numIOTiles is 0"):
        located([io])


@pytest.mark.shows("popart.BatchSerializationSettings")
def test_settings_of_serialised_batches_are_checked():
    settings = popart.BatchSerializationSettings(3, method=popart.BatchSerializationMethod.Loop)
    assert (settings.factor, settings.method) == (3, popart.BatchSerializationMethod.Loop)
    assert settings.concatOnPipelineStageChange and popart.BatchSerializationSettings().factor == 0
    with pytest.raises(AttributeError, match="factors"):
        settings.factors = 2


@pytest.mark.shows(
    "popart.ReplicatedCollectivesSettings",
    "popart.AutodiffSettings",
    "popart.AccumulateOuterFragmentSettings",
    "popart.ExperimentalSettings",
)
@pytest.mark.parametrize(
    ("kind", "field", "default", "value"),
    [
        ("ReplicatedCollectivesSettings", "mergeAllReduceCollectives", False, True),
        (
            "AutodiffSettings",
            "stitchStrategy",
            popart.AutodiffStitchStrategy.RecomputeAllNonInputs,
            popart.AutodiffStitchStrategy.SafeAddFwdOutputs,
        ),
        ("AccumulateOuterFragmentSettings", "excludedVirtualGraphs", [], [1]),
        ("ExperimentalSettings", "customTransformApplierSettings", {}, {"Fwd0": ["mine"]}),
    ],
)
def test_settings_have_the_published_fields_and_no_others(kind, field, default, value):
    settings = getattr(popart, kind)()
    assert getattr(settings, field) == default
    setattr(settings, field, value)
    assert getattr(settings, field) == value and getattr(getattr(popart, kind)(), field) == default
    with pytest.raises(AttributeError, match=f"'{kind}' object has no attribute 'nothing'"):
        settings.nothing = 1


@pytest.mark.shows("popart.SessionOptions.groupNormStridedChannelGrouping")
@pytest.mark.parametrize("is_strided", [False, True])
def test_channels_of_a_group_are_neighbours_or_at_a_distance(is_strided):
    rng = numpy.random.default_rng(2)
    x = rng.normal(size=(2, 6, 5)).astype(numpy.float32)
    scale, bias = rng.normal(size=(2, 6)).astype(numpy.float32)
    builder = popart.Builder()
    ids = [builder.addInputTensor(popart.TensorInfo("FLOAT", value.shape)) for value in (x, scale, bias)]
    results = builder.aiGraphcore.groupnormalization(ids, 3, 1e-5)
    options = popart.SessionOptions()
    options.groupNormStridedChannelGrouping = is_strided
    device = popart.DeviceManager().createCpuDevice()
    session = popart.InferenceSession(builder.getModelProto(), popart.DataFlow(1, results), device, userOptions=options)
    session.prepareDevice()
    got = session.initAnchorArrays()
    session.run(popart.PyStepIO(dict(zip(ids, (x, scale, bias))), got))
    expected, means = numpy.empty_like(x), []
    for sample, row in enumerate(x):
        for group in range(3):
            members = range(group, 6, 3) if is_strided else range(2 * group, 2 * group + 2)
            values = row[list(members)]
            means.append(values.mean())
            for channel in members:
                normal = (row[channel] - values.mean()) / numpy.sqrt(values.var() + 1e-5)
                expected[sample, channel] = normal * scale[channel] + bias[channel]
    numpy.testing.assert_allclose(got[results[0]], expected, rtol=1e-4, atol=1e-5)
    numpy.testing.assert_allclose(got[results[1]], means, rtol=1e-4, atol=1e-6)
