"""Methods that both kinds of session have: each is called on the kind that no other test calls it on."""

import numpy as np
import onnx
import pytest
from popart_session_models import cpu, identity, inference, ipu_model, linear, model, options, step, training, weights

import popart

W = np.arange(12, dtype=np.float32).reshape(3, 4)
X = np.ones((2, 3), np.float32)
TRAINED = W - 0.2  # after one update: the gradient of w is 2
PROFILE = {"autoReport.all": "true"}


def offline():
    return popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 1})


def changeable(data=None, **more):
    return inference(linear(W) if data is None else data, constantWeights=False, **more)


@pytest.mark.shows("popart.InferenceSession.dataFlow", "popart.TrainingSession.dataFlow")
def test_a_session_has_its_data_flow():
    for session in (inference(identity([2]), batches=3, prepare=False), training(linear(W), batches=3, prepare=False)):
        assert session.dataFlow.batchesPerStep() == 3 and session.dataFlow.nAnchors() == 1
        session.dataFlow.setBatchesPerStep(2)
        (array,) = session.initAnchorArrays().values()
        assert array.shape[0] == 2


def test_a_session_keeps_what_it_was_made_with():
    made, optimizer = popart.SessionOptions(), popart.SGD({"defaultLearningRate": (0.1, False)})
    made.enableGradientAccumulation, made.accumulationFactor, patterns = True, 2, popart.Patterns()
    flow = popart.DataFlow(1, ["loss"])
    session = popart.TrainingSession(linear(W), flow, "loss", optimizer, cpu(), patterns=patterns, userOptions=made)
    made.accumulationFactor, made.syntheticDataMode = 3, popart.SyntheticDataMode.Zeros
    made.engineOptions["no.such"] = "option"
    optimizer.insertSpecific("w", {"learningRate": (0.5, False)})
    patterns.enableRuntimeAsserts(False).enablePattern("MatMulRhsGradOp", False)
    session.prepareDevice()
    session.weightsFromHost()
    anchors = session.initAnchorArrays()
    assert session.accumulationFactor == 2 and anchors["loss"].shape == (2,)
    session.run(popart.PyStepIO({"x": np.stack([X, X])}, anchors))
    np.testing.assert_allclose(weights(session, w=W)["w"], W - 0.4, rtol=1e-6)
    replaced = popart.SGD({"defaultLearningRate": (0.2, False)})
    session.updateOptimizerFromHost(replaced)
    replaced.insertSpecific("w", {})
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (0.3, False)}))


@pytest.mark.shows(
    "popart.InferenceSession.replicationFactor",
    "popart.InferenceSession.accumulationFactor",
    "popart.TrainingSession.replicationFactor",
    "popart.TrainingSession.accumulationFactor",
)
@pytest.mark.parametrize("make, data, id", [(inference, identity([2]), "y"), (training, linear(W), "loss")])
def test_factors_are_those_of_the_options(make, data, id):
    plain = make(data, prepare=False)
    assert (plain.replicationFactor, plain.accumulationFactor) == (1, 1)
    fields = {"enableReplicatedGraphs": True, "replicatedGraphCount": 2}
    if make is training:
        fields |= {"enableGradientAccumulation": True, "accumulationFactor": 3}
    session = make(data, device=ipu_model(2), prepare=False, **fields)
    factors = (session.replicationFactor, session.accumulationFactor)
    assert factors == (2, 3 if make is training else 1)
    assert session.initAnchorArrays()[id].size == plain.initAnchorArrays()[id].size * factors[0] * factors[1]


@pytest.mark.shows(
    "popart.TrainingSession.prepareDevice",
    "popart.TrainingSession.initAnchorArrays",
    "popart.TrainingSession.run",
    "popart.TrainingSession.getInfo",
    "popart.TrainingSession.getTensorIds",
    "popart._TrainingSessionCore",
    "popart.session._initAnchorArrays",
    "popart.session",
)
def test_a_training_step():
    session = training(linear(W), ["loss", "y"], prepare=False)
    assert isinstance(session, popart._TrainingSessionCore) and isinstance(session, popart.session.TrainingSession)
    with pytest.raises(popart.popart_runtime_error, match="call prepareDevice first"):
        session.weightsFromHost()
    session.prepareDevice()
    session.weightsFromHost()
    info = session.getInfo("y")
    assert info.shape() == [2, 4] and info.data_type() == "FLOAT"
    with pytest.raises(popart.popart_exception, match="'z' is no tensor"):
        session.getInfo("z")
    assert {"x", "w", "y", "loss", "Gradient___w"} <= session.getTensorIds() and "z" not in session.getTensorIds()
    arrays = session.initAnchorArrays()
    again = popart.session._initAnchorArrays(session)
    assert {id: a.shape for id, a in again.items()} == {id: a.shape for id, a in arrays.items()}
    session.run(popart.PyStepIO({"x": X}, arrays))
    np.testing.assert_allclose(arrays["y"], X @ W)
    np.testing.assert_allclose(weights(session, w=W)["w"], TRAINED, rtol=1e-6)


@pytest.mark.shows("popart.TrainingSession.updateOptimizerFromHost")
def test_a_new_learning_rate_counts_from_the_next_run():
    session = training(linear(W))
    step(session, x=X)
    session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (1.0, False)}))
    step(session, x=X)
    np.testing.assert_allclose(weights(session, w=W)["w"], TRAINED - 2.0, rtol=1e-5)
    with pytest.raises(popart.popart_runtime_error):
        session.updateOptimizerFromHost(popart.SGD({"defaultLearningRate": (1.0, True)}))


def test_one_process_has_nobody_to_broadcast_to():
    session = training(linear(W))
    step(session, x=X)
    session.broadcastWeights(0)
    step(session, x=X)  # weights on the device are still current
    np.testing.assert_allclose(weights(session, w=W)["w"], TRAINED - 0.2, rtol=1e-5)


@pytest.mark.shows("popart.TrainingSession.updateEngineCache")
def test_the_engine_cache_needs_a_compiled_program(tmp_path, capfd):
    popart.getLogger("session").setLevel("INFO")
    try:
        session = training(
            linear(W), device=offline(), prepare=False, enableEngineCaching=True, cachePath=str(tmp_path / "cache")
        )
        with pytest.raises(popart.popart_runtime_error, match="updateEngineCache: the device is not prepared"):
            session.updateEngineCache()
        session.prepareDevice()
        session.updateEngineCache()
    finally:
        popart.getLogger("session").setLevel("WARN")
    assert "the engine cache is current" in capfd.readouterr().err
    assert len(list((tmp_path / "cache").glob("*.popef"))) == 1


def random_training(**fields):
    """loss = sum((x + random numbers) @ w)."""
    nodes = [
        onnx.helper.make_node("RandomNormal", [], ["r"], shape=[2, 3], dtype=onnx.TensorProto.FLOAT),
        onnx.helper.make_node("Add", ["x", "r"], ["noisy"]),
        onnx.helper.make_node("MatMul", ["noisy", "w"], ["y"]),
        onnx.helper.make_node("ReduceSum", ["y"], ["loss"], axes=[0, 1], keepdims=0),
    ]
    data = model(nodes, [("x", onnx.TensorProto.FLOAT, [2, 3])], [("w", W)])
    return training(data, ["noisy"], **fields)


@pytest.mark.shows("popart.TrainingSession.getRandomSeed", "popart.TrainingSession.setRandomSeed")
def test_a_seed_of_a_training():
    session = random_training()
    session.setRandomSeed(11)
    assert session.getRandomSeed() == 11
    first, second = (step(session, x=X)["noisy"] for _ in range(2))
    assert (first != second).any()
    session.setRandomSeed(11)
    np.testing.assert_array_equal(step(session, x=X)["noisy"], first)


@pytest.mark.shows("popart.TrainingSession.getRNGState", "popart.TrainingSession.setRNGState")
def test_the_state_of_the_generators_of_a_training():
    session = random_training(enableStochasticRounding=True, enableLoadAndOffloadRNGState=True)
    state = session.getRNGState()
    step(session, x=X)
    assert session.getRNGState() != state
    session.setRNGState(state)
    assert session.getRNGState() == state


@pytest.mark.shows(
    "popart.TrainingSession.getSummaryReport",
    "popart.TrainingSession.getReport",
    "popart.TrainingSession.getSerializedGraph",
)
def test_reports_of_a_training(tmp_path):
    engine = PROFILE | {"autoReport.directory": str(tmp_path)}
    session = training(linear(W), device=ipu_model(), engineOptions=engine, name="trained")
    assert "session 'trained'" in session.getSummaryReport() and "w: float32 (3, 4)" in session.getSummaryReport()
    assert b"matmul" in session.getSerializedGraph()
    with pytest.raises(popart.popart_exception, match="needs the package pva"):
        session.getReport()
    plain = training(linear(W), device=ipu_model())  # no engine option
    assert "w: float32 (3, 4)" in plain.getSummaryReport() and b"matmul" in plain.getSerializedGraph()
    with pytest.raises(popart.popart_exception, match="needs a profile"):
        plain.getReport()


@pytest.mark.shows("popart.TrainingSession.getCycleCount")
def test_cycles_of_a_training():
    session = training(linear(W), instrumentWithHardwareCycleCounter=True)
    with pytest.raises(popart.popart_runtime_error, match="there was no run yet"):
        session.getCycleCount()
    step(session, x=X)
    assert session.getCycleCount() > 0 and session.getCycleCount() == session.getCycleCount()


# --- inference
@pytest.mark.shows(
    "popart.InferenceSession.weightsFromHost",
    "popart.InferenceSession.weightsToHost",
    "popart.InferenceSession.readWeights",
    "popart.InferenceSession.writeWeights",
    "popart._InferenceSessionCore",
    "popart.IWeightsIO",
)
def test_weights_of_inference_that_are_not_constant():
    session = changeable()
    assert isinstance(session, popart._InferenceSessionCore)
    assert issubclass(popart.PyWeightsIO, popart.IWeightsIO)
    session.weightsFromHost()
    np.testing.assert_allclose(step(session, x=X)["y"], X @ W)
    session.writeWeights(popart.PyWeightsIO({"w": 3 * W}))
    session.weightsFromHost()
    np.testing.assert_allclose(step(session, x=X)["y"], X @ (3 * W))
    session.writeWeights(popart.PyWeightsIO({"w": 0 * W}))
    session.weightsToHost()
    out = np.zeros_like(W)
    session.readWeights(popart.PyWeightsIO({"w": out}))
    np.testing.assert_array_equal(out, 3 * W)


@pytest.mark.shows(
    "popart.InferenceSession.copyDeviceWeightsToHost",
    "popart.InferenceSession.markHostWeightsInSync",
    "popart.InferenceSession.markHostWeightsOutOfSync",
    "popart.InferenceSession.areHostWeightsInSync",
)
def test_the_host_knows_whether_its_weights_are_current():
    session = changeable()
    session.weightsFromHost()
    session.writeWeights(popart.PyWeightsIO({"w": 0 * W}))
    session.markHostWeightsOutOfSync()
    session.markHostWeightsInSync()
    assert session.areHostWeightsInSync()
    session.copyDeviceWeightsToHost()  # the host's are current: nothing is copied
    out = np.ones_like(W)
    session.readWeights(popart.PyWeightsIO({"w": out}))
    np.testing.assert_array_equal(out, 0 * W)
    session.markHostWeightsOutOfSync()
    assert not session.areHostWeightsInSync()
    session.copyDeviceWeightsToHost()
    assert session.areHostWeightsInSync()
    session.readWeights(popart.PyWeightsIO({"w": out}))
    np.testing.assert_array_equal(out, W)


@pytest.mark.shows("popart.InferenceSession.resetHostWeights", "popart.InferenceSession.modelToHost")
def test_weights_of_another_model_are_taken_and_saved(tmp_path):
    session = changeable()
    session.resetHostWeights(linear(5 * W))
    session.weightsFromHost()
    np.testing.assert_allclose(step(session, x=X)["y"], X @ (5 * W))
    path = tmp_path / "m.onnx"
    session.modelToHost(str(path))
    (saved,) = onnx.load(str(path)).graph.initializer
    np.testing.assert_array_equal(onnx.numpy_helper.to_array(saved), 5 * W)


@pytest.mark.shows("popart.InferenceSession.updateExternallySavedTensorLocations")
def test_tensors_of_an_inference_move_to_another_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    proto = onnx.load_from_string(linear(W))
    tensor, old, new = proto.graph.initializer[0], tmp_path / "old.bin", tmp_path / "new.bin"
    old.write_bytes(tensor.raw_data)
    tensor.ClearField("raw_data")
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value=str(old))
    session = changeable(proto.SerializeToString())
    session.updateExternallySavedTensorLocations(str(old), str(new))
    session.modelToHost(str(tmp_path / "m.onnx"))
    (saved,) = onnx.load(str(tmp_path / "m.onnx"), load_external_data=False).graph.initializer
    assert {e.key: e.value for e in saved.external_data}["location"] == str(new) and new.read_bytes() == W.tobytes()


@pytest.mark.shows("popart.InferenceSession.getInfo", "popart.InferenceSession.getAllTensorIds")
def test_tensors_of_an_inference():
    session = inference(linear(W), prepare=False)
    assert session.getInfo("y").shape() == [2, 4] and session.getInfo("x").data_type() == "FLOAT"
    assert {"x", "y"} <= session.getAllTensorIds() and "Gradient___w" not in session.getAllTensorIds()


@pytest.mark.shows("popart.InferenceSession.loadEngineAndConnectStreams")
def test_an_inference_is_loaded_again_after_another_session():
    device = cpu()
    first, second = inference(identity([2]), device=device), inference(identity([3]), device=device)
    assert device.is_loaded(second)
    first.loadEngineAndConnectStreams()
    assert device.is_loaded(first)
    with pytest.raises(popart.popart_exception, match="call prepareDevice first"):
        inference(identity([2]), prepare=False).loadEngineAndConnectStreams()


@pytest.mark.shows(
    "popart.InferenceSession.compileAndExport",
    "popart.InferenceSession.loadExecutable",
    "popart.InferenceSession.saveExecutable",
    "popart.InferenceSession.saveVariables",
)
def test_files_of_an_inference(tmp_path):
    paths = [tmp_path / name for name in ("compiled.popef", "saved.popef", "variables.popef")]
    changeable(device=offline(), prepare=False).compileAndExport(str(paths[0]))
    with popart.DeviceManager().acquireAvailableDevice(1) as device:
        session = changeable(device=device, prepare=False)
        session.loadExecutable(str(paths[0]))
        session.prepareDevice()
        assert session._native.from_cache
        session.writeWeights(popart.PyWeightsIO({"w": 7 * W}))
        session.weightsFromHost()
        np.testing.assert_allclose(step(session, x=X)["y"], X @ (7 * W))
        session.saveExecutable(str(paths[1]))
        session.saveVariables(str(paths[2]))
        assert paths[2].stat().st_size > W.nbytes
        again = changeable(device=device, prepare=False)
        again.loadExecutable(str(paths[1]))
        again.prepareDevice()
        again.weightsFromHost()
        np.testing.assert_allclose(step(again, x=X)["y"], X @ (7 * W))


@pytest.mark.shows("popart.session.makedirsAndCheckWritable")
def test_folders_are_made(tmp_path):
    popart.session.makedirsAndCheckWritable(str(tmp_path / "a" / "b"))
    assert (tmp_path / "a" / "b").is_dir()
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        popart.session.makedirsAndCheckWritable(str(tmp_path / "file" / "c"))


@pytest.mark.shows("popart.session.OutOfMemoryException")
def test_too_little_memory_is_the_exception_of_the_module():
    nodes = [onnx.helper.make_node("MatMul", ["x", "w"], ["y"])]
    data = model(nodes, [("x", onnx.TensorProto.FLOAT, [2, 600])], [("w", np.ones((600, 1200), np.float32))])
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1})
    with pytest.raises(popart.session.OutOfMemoryException, match="out of tile memory"):
        inference(data, device=device, constantWeights=False)


@pytest.mark.shows("popart.InputShapeInfo")
def test_shapes_that_the_session_is_told_win():
    shapes = popart.InputShapeInfo()
    shapes.add("x", popart.TensorInfo("FLOAT", [5]))
    assert shapes.has("x") and not shapes.has("y") and shapes.get("x").shape() == [5]
    with pytest.raises(popart.popart_exception, match="no type was given for 'y'"):
        shapes.get("y")
    session = popart.InferenceSession(identity([2]), popart.DataFlow(1, ["y"]), cpu(), shapes, userOptions=options())
    session.prepareDevice()
    x = np.arange(5, dtype=np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)


@pytest.mark.shows("popart.IStepIO", "popart.DataFlow.setBatchesPerStep")
def test_both_kinds_of_arrays_of_a_run_can_be_checked_or_not():
    assert issubclass(popart.PyStepIO, popart.IStepIO) and issubclass(popart.PyStepIOCallback, popart.IStepIO)
    session = inference(identity([2]))
    arrays = session.initAnchorArrays()
    io = popart.PyStepIO({"x": np.ones(6, np.float32)}, arrays)
    with pytest.raises(popart.popart_runtime_error):
        session.run(io)
    io.enableRuntimeAsserts(False)
    session.run(io)
    np.testing.assert_array_equal(arrays["y"], [-1, -1])
    flow = popart.DataFlow(2, ["y"])
    flow.setBatchesPerStep(4)
    assert flow.batchesPerStep() == 4
    with pytest.raises(popart.popart_exception, match="batchesPerStep is 0"):
        flow.setBatchesPerStep(0)


def test_optimizers_have_one_base_and_a_session_needs_one():
    for kind in (popart.SGD, popart.Adam, popart.Adaptive):
        assert issubclass(kind, popart.Optimizer)
    assert isinstance(popart.ConstSGD(0.1), popart.Optimizer)


@pytest.mark.shows("popart.InferenceSession.checkInplacingAmbiguity")
def test_no_result_depends_on_what_works_in_place():
    nodes = [onnx.helper.make_node(kind, ["x"], [out]) for kind, out in (("Relu", "a"), ("Neg", "b"))]
    nodes.append(onnx.helper.make_node("Add", ["a", "b"], ["y"]))
    session = inference(model(nodes, [("x", onnx.TensorProto.FLOAT, [2])]))
    assert session.checkInplacingAmbiguity() is False
    assert step(session, x=np.array([3, -4], np.float32))["y"].tolist() == [0, 4]


@pytest.mark.shows("popart.SessionOptions.ensureFp32LossScaleTensor")
def test_the_loss_scale_of_a_half_loss_can_stay_in_float():
    scaled = popart.SGD({"defaultLearningRate": (0.1, False), "lossScaling": (4.0, False)})
    for keeps, names in ((False, "lossScaling_FLOAT16"), (True, "lossScaling_FLOAT")):
        session = training(
            linear(W.astype(np.float16)), optimizer=scaled, ensureFp32LossScaleTensor=keeps, prepare=False
        )
        assert {id for id in session.getTensorIds() if id.startswith("lossScaling")} == {names}
