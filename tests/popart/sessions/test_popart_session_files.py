"""Files that sessions write and read: executables, variables, the engine cache, profiles; and reports."""

import json

import numpy as np
import pytest
from onnx import TensorProto, helper
from popart_session_models import cpu, identity, inference, ipu_model, linear, model, step, training, weights

import popart

W = np.arange(12, dtype=np.float32).reshape(3, 4)
X = np.ones((2, 3), np.float32)
PROFILE = {"autoReport.all": "true"}


def offline():
    return popart.DeviceManager().createOfflineIPUDevice({"numIPUs": 1})


@pytest.mark.shows("popart.TrainingSession.compileAndExport", "popart.TrainingSession.loadExecutable")
def test_a_program_is_compiled_without_a_device_and_runs_from_its_file(tmp_path):
    path = tmp_path / "made" / "here" / "program.popef"
    training(linear(W), device=offline(), prepare=False).compileAndExport(str(path))
    assert path.is_file()
    with popart.DeviceManager().acquireAvailableDevice(1) as device:
        session = training(linear(W), device=device, prepare=False)
        session.loadExecutable(str(path))
        session.prepareDevice()
        assert session._native.from_cache
        session.weightsFromHost()
        step(session, x=X)
        np.testing.assert_allclose(weights(session, w=W)["w"], W - 0.2, rtol=1e-6)


@pytest.mark.shows("popart.TrainingSession.saveExecutable", "popart.TrainingSession.saveVariables")
def test_a_file_holds_the_variables_too(tmp_path):
    with popart.DeviceManager().acquireAvailableDevice(1) as device:
        session = training(linear(W), device=device)
        step(session, x=X)
        trained = weights(session, w=W)["w"]
        session.saveExecutable(str(tmp_path))
        session.saveVariables(str(tmp_path))
        assert sorted(file.name for file in tmp_path.iterdir()) == ["executable.popef", "variables.popef"]
        again = training(linear(W), device=device, prepare=False)
        again.loadExecutable(tmp_path / "executable.popef")
        again.prepareDevice()
        again.weightsFromHost()
        np.testing.assert_array_equal(weights(again, w=W)["w"], trained)
        bare = tmp_path / "bare.popef"
        session.saveExecutable(bare, True, False)
        fresh = training(linear(W), device=device, prepare=False)
        fresh.loadExecutable(bare)
        fresh.prepareDevice()
        fresh.weightsFromHost()
        np.testing.assert_array_equal(weights(fresh, w=W)["w"], W)


def test_files_that_are_refused(tmp_path):
    path = tmp_path / "p.popef"
    for device in (cpu(), ipu_model()):
        session = inference(identity([2]), device=device)
        for call in (session.compileAndExport, session.saveExecutable, session.saveVariables):
            with pytest.raises(popart.popart_exception, match="cannot be exported"):
                call(str(path))
    inference(identity([2]), device=offline(), prepare=False).compileAndExport(path)
    other = inference(identity([3]), device=offline(), prepare=False)
    with pytest.raises(popart.popart_exception, match="the executable of another model"):
        other.loadExecutable(path)
    with pytest.raises(popart.popart_exception, match="there is no file"):
        other.loadExecutable(tmp_path / "no.popef")
    with pytest.raises(popart.popart_runtime_error, match="saveExecutable: the device is not prepared"):
        other.saveExecutable(path)
    data = bytearray(path.read_bytes())
    data[len(data) // 2] ^= 1
    path.write_bytes(data)
    with pytest.raises(popart.popart_exception, match="no executable"):
        inference(identity([2]), device=offline(), prepare=False).loadExecutable(path)
    (tmp_path / "file").write_text("")
    with pytest.raises(OSError):
        other.compileAndExport(str(tmp_path / "file" / "p.popef"))


@pytest.mark.shows("popart.SessionOptions.enableEngineCaching", "popart.SessionOptions.cachePath")
def test_an_equal_model_is_loaded_from_the_engine_cache(tmp_path):
    folder = tmp_path / "cache"
    x = np.ones(2, np.float32)

    def prepared(data=identity([2]), device=None):
        session = inference(data, device=device or offline(), enableEngineCaching=True, cachePath=str(folder))
        return session._native.from_cache

    assert not prepared() and prepared()
    (entry,) = folder.glob("*.popef")
    assert not prepared(identity([3])) and len(list(folder.glob("*.popef"))) == 2
    entry.write_bytes(b"damaged")
    assert not prepared() and prepared()
    assert not prepared(device=ipu_model()) and not prepared(device=ipu_model())
    assert len(list(folder.glob("*.popef"))) == 2
    with popart.DeviceManager().acquireAvailableDevice(1) as device:
        session = inference(identity([2]), device=device, enableEngineCaching=True, cachePath=str(folder))
        np.testing.assert_array_equal(step(session, x=x)["y"], -x)
        session = inference(identity([2]), device=device, enableEngineCaching=True, cachePath=str(folder))
        assert session._native.from_cache
        for call in (session.getSummaryReport, session.getSerializedGraph):
            with pytest.raises(
                popart.popart_runtime_error, match="loaded from the engine cache, which holds no profile"
            ):
                call()


def test_values_of_weights_are_no_part_of_executables_nor_of_their_keys(tmp_path):
    momentum = {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, True), "defaultWeightDecay": (0.5, True)}
    combined = {"accumulatorAndMomentum": popart.SGDAccumulatorAndMomentum.Combined}
    x = np.ones((2, 3), np.float32)
    sessions = {
        "inference": lambda w, **more: inference(linear(w), constantWeights=False, **more),
        "training": lambda w, **more: training(linear(w), optimizer=popart.SGD(momentum, **combined), **more),
    }
    for name, made in sessions.items():
        folder = tmp_path / name
        for number, weight in enumerate((W, 3 * W)):
            with popart.DeviceManager().acquireAvailableDevice(1) as device:
                session = made(weight, device=device, enableEngineCaching=True, cachePath=str(folder))
                assert session._native.from_cache == (number > 0) and len(list(folder.glob("*.popef"))) == 1
                np.testing.assert_array_equal(weights(session, w=W)["w"], weight)
                session.saveExecutable(tmp_path / f"{name}.{number}", True, False)
                if name == "training":  # the momentum starts at the decay of the weight
                    session.weightsFromHost()
                    step(session, x=x)
                    gradient = x.T @ np.ones((2, 4), np.float32) + 0.5 * weight
                    np.testing.assert_allclose(weights(session, w=W)["w"], weight - 0.1 * gradient, rtol=1e-5)
        other = made(5 * W, device=offline(), prepare=False)
        other.loadExecutable(tmp_path / f"{name}.0")
    constant = [inference(linear(weight), device=offline(), prepare=False)._program.text() for weight in (W, 3 * W)]
    assert constant[0] != constant[1]  # constantWeights: they are the program


@pytest.mark.shows("popart.InferenceSession.getSummaryReport", "popart.InferenceSession.getSerializedGraph")
def test_reports_need_a_prepared_session_and_name_it(tmp_path):
    engine = PROFILE | {"autoReport.directory": str(tmp_path)}
    nodes = [helper.make_node("MatMul", ["x", "x"], ["square"]), helper.make_node("Neg", ["square"], ["y"])]
    data = model(
        nodes, [("x", TensorProto.FLOAT, [2, 2])]
    )  # of the input, and of the square, in which its negative is made
    session = inference(data, device=ipu_model(), engineOptions=engine, name="mine", prepare=False)
    with pytest.raises(popart.popart_exception, match="not prepared"):
        session.getSummaryReport()
    session.prepareDevice()
    step(session, x=np.ones((2, 2), np.float32))
    report = session.getSummaryReport(False)
    assert "session 'mine'" in report and "cycles of the last run" in report and "x: input float32 (2, 2)" in report
    profile = json.loads((tmp_path / "mine" / "profile.pop").read_text())
    assert profile["session"] == "mine" and profile["memory"][0]["values"] == 32
    assert b"neg" in session.getSerializedGraph()
    with pytest.raises(popart.popart_exception, match="needs the package pva"):
        session.getReport()


def test_the_report_of_the_device_model_is_that_of_the_executable(tmp_path):
    session = inference(identity([2]), device=offline(), prepare=False)
    with pytest.raises(popart.popart_runtime_error, match="report: the device is not prepared"):
        session.report()
    session.prepareDevice()
    report = session.report()
    assert report.cycles > 0 and report.fits and "neg" in str(report) and report.machine == "pod16"
    assert session.report(machine="bow-pod16").seconds < report.seconds
    session.saveExecutable(tmp_path / "file", True, False)
    loaded = inference(identity([2]), device=offline(), prepare=False)
    loaded.loadExecutable(tmp_path / "file")
    loaded.prepareDevice()
    assert loaded.report().json() == report.json()
    with pytest.raises(popart.popart_exception, match="unknown machine 'pod61'"):
        session.report(machine="pod61")


def test_a_report_counts_the_iterations_that_a_loop_is_expected_to_run():
    def report(**expected):
        builder = popart.Builder()
        x = builder.addInputTensor("FLOAT", [192])
        body = builder.createSubgraphBuilder()
        body.addInputTensor("INT64", [], "i")
        body.addInputTensor("BOOL", [], "go")
        y = body.aiOnnx.add([body.addUntypedInputTensor("v")] * 2)
        limit = body.aiOnnx.constant(np.array(1e6, np.float32))
        for id in (body.aiOnnx.less([body.aiOnnx.reducesum([y], [0], 0), limit]), y):
            body.addOutputTensor(id)
        counts = [builder.aiOnnx.constant(np.array(value)) for value in (10, True)]
        (z,) = builder.aiOnnx.loop([*counts, x], 1, body)
        for name, value in expected.items():
            builder.addNodeAttribute(name, value, {z})
        return inference(builder.getModelProto(), [z], device=offline()).report()

    bound, expected = report(), report(__expected_iterations=4)
    assert bound.is_maximum and bound.cycles == bound.maximum_cycles == expected.maximum_cycles
    assert not expected.is_maximum and bound.cycles / 2.5 <= expected.cycles < bound.cycles / 2


@pytest.mark.shows("popart.SessionOptions.compileEngine", "popart.InferenceSession.getReport")
def test_reports_that_there_are_not(tmp_path):
    engine = PROFILE | {"autoReport.directory": str(tmp_path)}
    plain = inference(identity([2]), device=ipu_model())
    assert "streams of a step" in plain.getSummaryReport() and b"neg" in plain.getSerializedGraph()
    uncompiled = inference(identity([2]), device=ipu_model(), engineOptions=engine, compileEngine=False)
    on_cpu = inference(identity([2]), engineOptions=engine)
    with pytest.raises(popart.popart_exception, match="needs a profile"):
        plain.getReport()
    for call in ("getSummaryReport", "getReport", "getSerializedGraph"):
        with pytest.raises(popart.popart_runtime_error, match="not prepared"):
            getattr(uncompiled, call)()
        with pytest.raises(popart.poplar_exception, match="Cpu device has no profile"):
            getattr(on_cpu, call)()
