"""Devices and the sessions on them: who is loaded, who holds which IPUs, what is refused."""

import json
import os

import numpy as np
import pytest
from onnx import TensorProto, helper
from popart_session_models import cpu, identity, inference, ipu_model, linear, model, options, step, training, weights

import ipu_core
import popart

W = np.arange(12, dtype=np.float32).reshape(3, 4)
X = np.ones((2, 3), np.float32)
GRADIENT = X.T @ np.ones((2, 4), np.float32)
ALWAYS, ON_DEMAND, NEVER = (popart.DeviceConnectionType[name] for name in ("Always", "OnDemand", "Never"))


@pytest.mark.shows("popart.TrainingSession.loadEngineAndConnectStreams")
@pytest.mark.parametrize("make", [cpu, lambda: popart.DeviceManager().acquireAvailableDevice(1)])
def test_sessions_on_one_device_load_themselves(make):
    with make() as device:
        first, second = training(linear(W), device=device), inference(identity([2]), device=device)
        assert device.is_loaded(second)
        first.weightsFromHost()
        step(first, x=X)
        assert device.is_loaded(first) and not second._native.is_attached
        once = weights(first, w=W)["w"]
        np.testing.assert_allclose(once, W - 0.1 * GRADIENT, rtol=1e-6)
        x = np.ones(2, np.float32)
        np.testing.assert_array_equal(step(second, x=x)["y"], -x)
        assert device.is_loaded(second) and not first._native.is_attached
        first.loadEngineAndConnectStreams()
        assert device.is_loaded(first)
        first.weightsFromHost()  # what was on the device is lost
        step(first, x=X)
        np.testing.assert_allclose(weights(first, w=W)["w"], W - 0.2 * GRADIENT, rtol=1e-6)


@pytest.mark.shows("popart.InferenceSession.setEngineIsLoaded", "popart.InferenceSession.prepareDevice")
def test_a_session_that_was_not_loaded_loads_itself():
    session = inference(identity([2]), prepare=False)
    session.prepareDevice(False)
    assert not session._native.is_attached
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)
    session.setEngineIsLoaded(False)
    assert not session._native.is_attached
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)


@pytest.mark.shows("popart.DeviceManager.tryAcquireDeviceById")
@pytest.mark.shows("popart.DeviceManager.acquireAvailableDevice", "popart.DeviceInfo.isAttached")
def test_one_device_at_a_time_holds_an_ipu(idle_ipus):
    manager = popart.DeviceManager()
    with manager.acquireAvailableDevice(16) as every:
        assert every.isAttached and every.driverIds == list(range(16))
        assert manager.tryAcquireAvailableDevice(1) is None and manager.tryAcquireDeviceById(0) is None
        with pytest.raises(popart.popart_exception, match="failed to acquire 1 IPU"):
            manager.acquireAvailableDevice(1)
        with pytest.raises(popart.popart_exception, match="device 3: it is in use"):
            manager.acquireDeviceById(3)
        waiting = manager.acquireAvailableDevice(2, connectionType=ON_DEMAND)
        assert not waiting.isAttached and not waiting.attach()
        session = inference(identity([2]), device=waiting, prepare=False)
        with pytest.raises(popart.popart_runtime_error, match="failed to attach"):
            session.prepareDevice()
    assert not every.isAttached
    session.prepareDevice()
    assert waiting.isAttached
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)
    waiting.detach()
    assert not waiting.isAttached and not session._native.is_attached
    every.attach()
    every.detach()
    with manager.tryAcquireDeviceById(0) as one:
        assert one.isAttached and one.driverIds == [0]


def test_ipus_are_held_once_whoever_holds_them(idle_ipus):
    manager = popart.DeviceManager()
    with manager.acquireDeviceById(3) as device:
        session = inference(identity([2]), device=device)
        assert session._native.first_ipu == 3
        other = ipu_core.compile("entry main = @main\ngraph @main() -> () {\n  return\n}")
        other.attach()
        assert other.first_ipu == 0 and manager.tryAcquireDeviceById(0) is None
        assert manager.tryAcquireAvailableDevice(4, connectionType=ON_DEMAND).driverIds == [4, 5, 6, 7]
        with pytest.raises(popart.popart_exception, match="has 16, of which others hold 2"):
            manager.acquireAvailableDevice(16)
        other.detach()
    with manager.acquireAvailableDevice(16) as every:
        assert every.isAttached


@pytest.mark.shows("popart.DeviceInfo.tryAttachUntilTimeout")
@pytest.mark.shows("popart.DeviceManager.setOnDemandAttachTimeout")
def test_an_on_demand_device_tries_until_its_timeout(idle_ipus):
    import threading

    manager = popart.DeviceManager()
    manager.setOnDemandAttachTimeout(20)
    try:
        with manager.acquireAvailableDevice(16) as every:
            waiting = manager.acquireAvailableDevice(2, connectionType=ON_DEMAND)
            timer = threading.Timer(0.2, every.detach)
            timer.start()
            assert waiting.tryAttachUntilTimeout()
            timer.join()
            waiting.detach()
    finally:
        manager.setOnDemandAttachTimeout(0)


@pytest.mark.shows("popart.DeviceManager.enumerateDevices")
@pytest.mark.shows("popart.DeviceType")
def test_devices_that_are_there(idle_ipus):
    manager = popart.DeviceManager()
    pairs = manager.enumerateDevices(numIpus=2, tilesPerIPU=4)
    assert [device.driverIds for device in pairs[:2]] == [[0, 1], [2, 3]] and pairs[0].tilesPerIPU == 4
    assert len({device.id for count in (1, 2, 4) for device in manager.enumerateDevices(numIpus=count)}) == 16 + 8 + 4
    with manager.acquireDeviceById(pairs[1].id) as device:
        assert device.driverIds == [2, 3] and device.isAttached
    model = manager.enumerateDevices(numIpus=3, deviceType=popart.DeviceType.IpuModel)
    assert [device.numIpus for device in model] == [3]
    assert [str(d.type) for d in manager.enumerateDevices(deviceType=popart.DeviceType.Cpu)] == ["cpu"]
    assert manager.enumerateDevices(numIpus=32) == [] and manager.tryAcquireAvailableDevice(32) is None
    with pytest.raises(popart.popart_exception, match="failed to acquire 32 IPU"):
        manager.acquireAvailableDevice(32)
    with pytest.raises(popart.poplar_exception, match="there is no device 1000000"):
        manager.acquireDeviceById(10**6)


@pytest.mark.shows("popart.InferenceSession._setDeviceInfo", "popart.DeviceConnectionType")
def test_offline_devices_are_only_compiled_for():
    manager = popart.DeviceManager()
    never = manager.tryAcquireAvailableDevice(1, connectionType=NEVER)
    for device in (manager.createOfflineIPUDevice({}), never):
        session = inference(identity([2]), device=device)
        with pytest.raises(popart.popart_runtime_error, match="runs no programs"):
            step(session, x=np.ones(2, np.float32))
    session._setDeviceInfo(manager.acquireAvailableDevice(1))
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)
    session._device.detach()
    with pytest.raises(popart.popart_exception, match="compiled for another device"):
        session._setDeviceInfo(ipu_model(2))


def test_a_device_with_too_few_ipus():
    with pytest.raises(popart.popart_exception, match="the device has 1 IPUs, which cannot be shared out evenly"):
        inference(identity([2]), prepare=False, enableReplicatedGraphs=True, replicatedGraphCount=2)


@pytest.mark.shows("popart.OutOfMemoryException", "popart.OutOfMemoryError")
def test_a_program_that_does_not_fit():
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1})
    data = linear(np.ones((600, 600), np.float32), shape=(2, 600))
    session = training(data, device=device, prepare=False)
    with pytest.raises(popart.OutOfMemoryException, match="out of tile memory: IPU 0 needs .* 638,976 fit") as raised:
        session.prepareDevice()
    assert "weights 1,440,000" in str(raised.value) and "'bytes_per_tile' of machine" in str(raised.value)
    assert not raised.value.error.isSuccessful() and isinstance(raised.value.error, popart.OutOfMemoryError)
    assert raised.value.getProfilePath() == ""
    with pytest.raises(popart.popart_exception, match="debug.allowOutOfMemory"):
        raised.value.getSummaryReport()


def test_the_verdict_is_that_of_the_machine_form_and_of_a_file_too(tmp_path):
    """Input, constant weight and product lie on the machine, whatever this computer keeps; a file is judged by what it says."""
    manager, path = popart.DeviceManager(), str(tmp_path / "program.popef")
    data = linear(np.ones((600, 600), np.float32), shape=(2, 600))
    inference(data, device=manager.createOfflineIPUDevice({}), prepare=False).compileAndExport(path)
    messages = []
    for file in (None, path):
        session = inference(data, device=manager.createOfflineIPUDevice({"tilesPerIPU": 2}), prepare=False)
        if file is not None:
            session.loadExecutable(file)
        with pytest.raises(popart.OutOfMemoryException, match="out of tile memory: IPU 0 needs") as raised:
            session.prepareDevice()
        messages.append(str(raised.value))
    assert messages[0] == messages[1] and "weights" not in messages[0]


@pytest.mark.parametrize("writes_profile", [False, True])
def test_a_program_that_does_not_fit_can_be_looked_at(tmp_path, writes_profile):
    """The option decides what the exception carries, not whether there is one."""
    builder = popart.Builder()
    pairs = [[builder.addInputTensor("FLOAT", [200, 200]) for _ in range(2)] for _ in range(16)]
    total = builder.aiOnnx.sum([builder.aiOnnx.matmul(pair) for pair in pairs])
    engine = {"debug.allowOutOfMemory": "true", "autoReport.directory": str(tmp_path)}
    engine |= {"autoReport.outputGraphProfile": "true"} if writes_profile else {}
    device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 2})
    session = inference(builder.getModelProto(), [total], device=device, prepare=False, engineOptions=engine)
    with pytest.raises(popart.OutOfMemoryException) as raised:
        session.prepareDevice()
    assert type(raised.value) is popart.OutOfMemoryException
    assert "memory by IPU" in raised.value.getSummaryReport()
    path = raised.value.getProfilePath()
    assert os.path.isfile(path) if writes_profile else path == ""
    with pytest.raises(popart.popart_runtime_error, match="not prepared"):
        session.run(popart.PyStepIO({}, {}))


def test_a_program_that_may_not_fit_is_refused_by_strict_memory_alone(monkeypatch):
    """Estimates are off by about 15 %: within that of the limit it is a warning."""
    lines = []
    monkeypatch.setattr(type(popart.getLogger("session")), "warn", lambda self, message: lines.append(message))
    data = linear(np.ones((216, 216), np.float32), shape=(1, 216))

    def prepared(**engine):
        device = popart.DeviceManager().createIpuModelDevice({"numIPUs": 1, "tilesPerIPU": 1})
        return training(data, device=device, engineOptions=engine)

    report = prepared().report()
    assert ["out of tile memory: IPU 0 needs" in line and "off by about 15 %" in line for line in lines] == [True]
    assert f"IPU 0 needs {report.memory[0]:,} bytes" in lines[0] and report.verdict == "does not fit, near the limit"
    with pytest.raises(popart.OutOfMemoryException, match="out of tile memory: IPU 0 needs"):
        prepared(enableStrictMemory="true")
    monkeypatch.setenv("POPTORCH_STRICT_MEMORY", "1")
    with pytest.raises(popart.OutOfMemoryException, match="out of tile memory: IPU 0 needs"):
        prepared()


# --- engine options
@pytest.mark.shows("popart.SessionOptions.engineOptions")
def test_engine_options(monkeypatch):
    session = inference(identity([2]), prepare=False, engineOptions={"debug.instrumnet": "true"})
    with pytest.raises(popart.poplar_exception, match="none called 'debug.instrumnet'"):
        session.prepareDevice()
    session = inference(identity([2]), prepare=False, engineOptions={"target.deterministicWorkers": "maybe"})
    with pytest.raises(popart.poplar_exception, match="it takes true, false, portable"):
        session.prepareDevice()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"no.such": "1"}')
    session = inference(identity([2]), prepare=False)
    with pytest.raises(popart.poplar_exception, match="none called 'no.such'"):
        session.prepareDevice()
    monkeypatch.setenv("POPLAR_ENGINE_OPTIONS", '{"debug.instrument": "true"}')
    session.prepareDevice()
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(session, x=x)["y"], -x)
    assert options().engineOptions == {}


# --- cycles
@pytest.mark.shows(
    "popart.SessionOptions.instrumentWithHardwareCycleCounter",
    "popart.SessionOptions.hardwareInstrumentations",
    "popart.Instrumentation",
)
@pytest.mark.shows("popart.InferenceSession.getCycleCount")
def test_cycles_of_a_run():
    inner = {popart.Instrumentation.Outer, popart.Instrumentation.Inner}
    session = inference(identity([2]), instrumentWithHardwareCycleCounter=True, hardwareInstrumentations=inner)
    with pytest.raises(popart.popart_runtime_error, match="no run yet"):
        session.getCycleCount()
    step(session, x=np.ones(2, np.float32))
    count = session.getCycleCount()
    assert count > 0 and session.getCycleCount() == count and session.getCycleCount("inner_ipu_0") > 0
    with pytest.raises(popart.popart_runtime_error, match="called 'inner_ipu_7'"):
        session.getCycleCount("inner_ipu_7")
    other = inference(identity([2]))
    step(other, x=np.ones(2, np.float32))
    with pytest.raises(popart.popart_runtime_error, match="instrumentWithHardwareCycleCounter"):
        other.getCycleCount()


def test_cycles_of_an_ipu_end_when_it_has_done_its_part(monkeypatch):
    """One worker thread ends the part of the first IPU, and then runs the products of the second one, which waited for it."""
    monkeypatch.setenv("POPTORCH_HOST_THREADS", "1")
    size = 192
    weight = np.ones((size, size), np.float32)
    nodes = [helper.make_node("Neg", ["x"], ["h0"], __ipu_number=0)]
    for i in range(12):
        nodes.append(helper.make_node("MatMul", [f"h{i}", "w"], [f"h{i + 1}"], __ipu_number=1))
    proto = model(nodes, [("x", TensorProto.FLOAT, [size, size])], [("w", weight)])
    session = inference(
        proto,
        anchors=["h12"],
        device=ipu_model(2),
        virtualGraphMode=popart.VirtualGraphMode.Manual,
        instrumentWithHardwareCycleCounter=True,
        hardwareInstrumentations={popart.Instrumentation.Outer, popart.Instrumentation.Inner},
    )
    step(session, x=np.zeros((size, size), np.float32))
    whole, first, second = (session.getCycleCount(id) for id in ("", "inner_ipu_0", "inner_ipu_1"))
    assert 0 < first < second <= whole


def test_unknown_programs():
    session = inference(identity([2]))
    with pytest.raises(popart.popart_exception, match="no program with the handle 'other'"):
        session.run("other", popart.PyStepIO({}, {}))
    with pytest.raises(popart.popart_exception, match="no program with the handle 'other'"):
        session.run(programHandle="other", stepio=popart.PyStepIO({}, {}))
    with pytest.raises(popart.popart_exception, match="no program with the handle 'main'"):
        session.run("main", popart.PyStepIO({}, {}))


def test_arguments_of_a_run():
    session, x = inference(identity([2])), np.ones(2, np.float32)
    for arguments, named in (((), {"debugName": "a"}), (("a",), {})):
        anchors = session.initAnchorArrays()
        session.run(popart.PyStepIO({"x": x}, anchors), *arguments, **named)
        np.testing.assert_array_equal(anchors["y"], -x)
    stepio = popart.PyStepIO({"x": x}, session.initAnchorArrays())
    for arguments, named in (((stepio,), {"name": "a"}), ((stepio, "a", "b"), {}), ((stepio,), {"stepio": stepio})):
        with pytest.raises(TypeError, match="run takes stepio, debugName"):
            session.run(*arguments, **named)
    with pytest.raises(TypeError, match="not NoneType"):
        session.run()


@pytest.mark.parametrize(
    "name, kind",
    [
        ("popart_error", "popart_exception"),
        ("popart_internal_error", "popart_internal_exception"),
        ("popart_runtime_error", "popart_runtime_error"),
        ("poplar_error", "poplar_exception"),
        ("poplar_runtime_error", "poplar_runtime_error"),
        ("poplibs_error", "poplibs_exception"),
        ("application_runtime_error", "poplar_application_runtime_error"),
        ("system_runtime_error", "poplar_system_runtime_error"),
        ("recoverable_runtime_error", "poplar_recoverable_runtime_error"),
        ("unrecoverable_runtime_error", "poplar_unrecoverable_runtime_error"),
        ("unknown_runtime_error", "poplar_unknown_runtime_error"),
    ],
)
def test_hooks_that_raise(name, kind):
    with pytest.raises(getattr(popart, kind), match="because") as raised:
        getattr(popart, f"_throw_{name}")("because")
    assert raised.type is getattr(popart, kind)
    if name == "recoverable_runtime_error":
        assert raised.value.recoveryAction is popart.RecoveryAction.IPU_RESET


AUTO = popart.VirtualGraphMode.Auto


@pytest.mark.shows("popart.SessionOptions.numIOTiles")
@pytest.mark.parametrize(
    "tiles, io_tiles, is_legal", [(0, 64, True), (0, 1472, False), (32, 64, False), (66, 64, True)]
)
def test_tiles_for_input_and_output_are_some_of_the_real_ones(tiles, io_tiles, is_legal):
    """A device that is made with 0 tiles has all of an IPU."""
    device = popart.DeviceManager().createIpuModelDevice({"tilesPerIPU": tiles})
    session = inference(identity([2]), device=device, prepare=False, numIOTiles=io_tiles, virtualGraphMode=AUTO)
    if is_legal:
        session.prepareDevice()
        np.testing.assert_array_equal(step(session, x=np.ones(2, np.float32))["y"], [-1, -1])
    else:
        with pytest.raises(popart.popart_exception, match=f"numIOTiles is {io_tiles}"):
            session.prepareDevice()


# --- locations
LOCATED = [
    popart.SGD({"defaultLearningRate": (0.1, False)}),
    popart.SGD({"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)}),
    popart.SGD(
        {"defaultLearningRate": (0.1, False), "defaultMomentum": (0.9, False)},
        accumulatorAndMomentum=popart.SGDAccumulatorAndMomentum.Separate,
    ),
    popart.Adam({"defaultLearningRate": (0.1, False)}),
]


def off_chip():
    return popart.TensorLocationSettings(popart.TensorLocation(popart.TensorStorage.OffChip), 0, 0)


@pytest.mark.parametrize("optimizer", range(len(LOCATED)))
@pytest.mark.parametrize("accumulation", [1, 2])
@pytest.mark.parametrize("family", ["accumulator", "optimizerState", "weight", "activation"])
def test_a_location_is_for_the_tensors_that_there_are(optimizer, accumulation, family):
    """None existing is no error, and no location changes results."""
    data, x = linear(np.ones((3, 4), np.float32)), np.ones((accumulation, 2, 3), np.float32)
    more = {"enableGradientAccumulation": True, "accumulationFactor": accumulation} if accumulation > 1 else {}
    results, programs = [], []
    for located in ({}, {f"{family}TensorLocationSettings": off_chip()}):
        session = training(data, ("y",), device=ipu_model(), optimizer=LOCATED[optimizer], **more, **located)
        results.append([step(session, x=x)["y"].tobytes() for _ in range(2)])
        programs.append(session._program.text())
    assert results[0] == results[1]
    if family == "accumulator":  # without accumulation there are none
        assert (programs[0] == programs[1]) == (accumulation == 1)


@pytest.mark.parametrize("accumulation, family", [(1, "optimizerState"), (2, "accumulator")])
def test_accumulator_and_state_in_one_follow_one_setting(accumulation, family):
    data = linear(np.ones((3, 4), np.float32))
    more = {"enableGradientAccumulation": True, "accumulationFactor": accumulation} if accumulation > 1 else {}

    def is_remote(family):
        located = {f"{family}TensorLocationSettings": off_chip()}
        session = training(data, device=ipu_model(), optimizer=LOCATED[1], prepare=False, **more, **located)
        ops = json.loads(session._serializeIr())["maingraph"]
        listed = any(op["type"].startswith("RemoteLoad") and "Accl___w" in str(op) for op in ops)
        assert listed == ("remote_buffer @remote.Accl___w" in session._program.text())
        return listed

    other = {"optimizerState": "accumulator", "accumulator": "optimizerState"}[family]
    assert is_remote(family) and not is_remote(other)
