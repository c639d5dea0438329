"""Names of the module and of its classes that the tests of sessions and builders do not use."""

import numpy as np
import pytest

import popart
import popart.builder
import popart.tensorinfo

PAIRS = popart.CommGroup(popart.CommGroupType.Consecutive, 2)
MODES = popart.VariableRetrievalMode


@pytest.mark.shows("popart.__version__")
def test_the_version_is_one():
    assert popart.__version__ == popart.versionString() == ".".join(map(str, popart.versionNumber()))


@pytest.mark.shows(
    "popart.getTensorInfo", "popart._TensorInfoCore", "popart.tensorinfo", "popart.tensorinfo.TensorInfo"
)
def test_the_type_of_an_array():
    info = popart.getTensorInfo(np.zeros((2, 3), np.float16))
    assert (info.data_type(), info.shape(), info.nbytes()) == ("FLOAT16", [2, 3], 12)
    assert popart.tensorinfo.TensorInfo is popart.TensorInfo
    core = popart._TensorInfoCore("INT32", [4])
    assert (core.nelms(), core.rank()) == (4, 1)


def test_a_numpy_type_is_not_the_type_of_python_that_equals_it():
    assert popart.TensorInfo(np.dtype("float64"), [2]).data_type() == "DOUBLE"
    assert popart.TensorInfo(np.dtype("int64"), [2]).data_type() == "INT64"
    for python in (float, int):
        with pytest.raises(KeyError):
            popart.TensorInfo(python, [2])


@pytest.mark.parametrize("version", range(6, 12))
def test_reshape_const_of_every_version(version):
    builder = popart.Builder(opsets={"ai.onnx": version, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2, 3])
    assert builder.getTensorShape(builder.reshape_const(builder.aiOnnx, [x], [3, 2])) == [3, 2]


RAISED = (
    "popart_internal_exception",
    "popart_runtime_error",
    "poplibs_exception",
    "poplar_exception",
    "poplar_runtime_error",
    "poplar_system_runtime_error",
    "poplar_recoverable_runtime_error",
    "poplar_unrecoverable_runtime_error",
    "poplar_unknown_runtime_error",
)


@pytest.mark.shows(*(f"popart.{name}" for name in RAISED))
@pytest.mark.parametrize("name", RAISED)
def test_a_class_of_exceptions_is_what_its_hook_raises(name):
    hook = {"popart_internal_exception": "popart_internal_error", "popart_runtime_error": "popart_runtime_error"}.get(
        name, name.replace("_exception", "_error")
    )
    if not hasattr(popart, f"_throw_{hook}"):
        hook = name.removeprefix("poplar_")
    with pytest.raises(getattr(popart, name), match="what went wrong") as raised:
        getattr(popart, f"_throw_{hook}")("what went wrong")
    assert type(raised.value) is getattr(popart, name)


@pytest.mark.shows(
    "popart.Builder.aiOnnxOpset6",
    "popart.Builder.aiOnnxOpset7",
    "popart.Builder.aiOnnxOpset8",
    "popart.Builder.aiOnnxOpset11",
)
@pytest.mark.parametrize("version", [6, 7, 8, 11])
def test_an_accessor_fixes_its_version(version):
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2])
    getattr(builder, f"aiOnnxOpset{version}").relu([x])
    assert builder.aiOnnx.getOpsetVersion() == version
    with pytest.raises(RuntimeError, match=f"already defined as {version}"):
        builder.aiOnnxOpset9


@pytest.mark.shows("popart.builder.AiOnnxMl", "popart.builder.AiGraphcoreOpset1")
def test_classes_of_the_other_domains():
    builder = popart.Builder()
    assert isinstance(builder.aiOnnxMl, popart.builder.AiOnnxMl) and isinstance(builder.aiOnnxMl, popart.builder.Opset)
    assert isinstance(builder.aiGraphcore, popart.builder.AiGraphcoreOpset1)
    assert builder.aiGraphcore.getOpsetVersion() == builder.aiOnnxMl.getOpsetVersion() == 1


# --- devices
@pytest.mark.shows(
    "popart.DeviceManager.createSimDevice",
    "popart.DeviceManager.createOfflineIpuFromDeviceInfo",
    "popart.DeviceManager.createOfflineIpuFromSystemString",
    "popart.DeviceInfo.connectionType",
    "popart.DeviceInfo.version",
    "popart.DeviceInfo.tilesPerIpu",
    "popart.DeviceInfo.numWorkerContexts",
)
def test_devices_made_from_a_description():
    manager = popart.DeviceManager()
    sim = manager.createSimDevice({"numIPUs": 2, "tilesPerIPU": 8})
    assert (sim.type, sim.numIpus, sim.tilesPerIpu) == (popart.DeviceType.Sim, 2, 8)
    pod = manager.createOfflineIpuFromSystemString("IPU-POD16", 16)
    same = manager.createOfflineIpuFromDeviceInfo(pod)
    for device in (pod, same):
        assert (device.type, device.numIpus, device.tilesPerIpu) == (popart.DeviceType.OfflineIpu, 16, 1472)
        assert device.connectionType is popart.DeviceConnectionType.Never
    assert manager.createCpuDevice().connectionType is popart.DeviceConnectionType.Always
    assert manager.createIpuModelDevice({"ipuVersion": "ipu1"}).version == "ipu1" != pod.version
    assert pod.numWorkerContexts == 6


@pytest.mark.shows("popart.SyncPattern")
def test_a_device_of_the_system_says_the_sync_pattern_that_is_asked_for():
    manager = popart.DeviceManager()
    kinds = popart.SyncPattern
    for pattern, text in ((kinds.Full, "full"), (kinds.SinglePipeline, "singlePipeline")):
        assert str(manager.enumerateDevices(pattern, numIpus=1)[0].syncPattern) == text


# --- settings of variables
@pytest.mark.shows(
    "popart.VariableSettings.getSharedVariableDomain",
    "popart.VariableSettings.getRetrievalMode",
    "popart.VariableSettings.getCommGroupType",
    "popart.VariableSettings.getStride",
    "popart.VariableSettings.getGroupSize",
    "popart.VariableSettings.getReplicaGrouping",
)
def test_what_settings_of_a_variable_were_made_of():
    pairs = popart.VariableSettings(PAIRS, MODES.AllReplicas)
    assert pairs.getSharedVariableDomain().replicaGroupSize == pairs.getGroupSize() == 2
    assert pairs.getCommGroupType() is popart.CommGroupType.Consecutive
    assert pairs.getRetrievalMode() is MODES.AllReplicas
    assert popart.VariableSettings().getRetrievalMode() is MODES.OnePerGroup
    strided = popart.VariableSettings(4, 2)
    assert (strided.getStride(), strided.getGroupSize()) == (4, 2)
    assert strided.getReplicaGrouping(8).getReplicasAt(1) == [1, 5]
    assert pairs.getReplicaGrouping(4).getReplicasAt(1) == [2, 3]


@pytest.mark.shows("popart.VariableSettings.verify")
def test_settings_that_became_wrong_are_refused():
    settings = popart.VariableSettings(popart.CommGroup(popart.CommGroupType.Consecutive, 2))
    settings.verify()
    settings.getSharedVariableDomain().replicaGroupSize = 0
    with pytest.raises(popart.popart_internal_exception, match="group size must be at least 1"):
        settings.verify()


def test_a_star_import_brings_every_public_name():
    found: dict[str, object] = {}
    exec("from popart import *", found)
    for name in dir(popart):
        if not name.startswith("_") and name.isidentifier() and name not in ("annotations", "Any"):
            assert found[name] is getattr(popart, name), name
    assert {"Builder", "TrainingSession", "InferenceSession", "GraphTransformer", "SGD", "builder"} <= found.keys()


def test_descriptions_of_devices_can_be_given_by_keyword():
    manager = popart.DeviceManager()
    for make in (manager.createIpuModelDevice, manager.createSimDevice, manager.createOfflineIPUDevice):
        assert make(opts={"numIPUs": "2"}).numIpus == 2
    offline = manager.createOfflineIpuFromDeviceInfo(info=manager.createIpuModelDevice(opts={"tilesPerIPU": 8}))
    assert offline.tilesPerIPU == 8


def test_a_sync_pattern_of_another_name_is_refused():
    with pytest.raises(popart.popart_exception, match="no sync pattern is called 'half'; there are full, singlePipe"):
        popart.syncPatternFromString("half")
    with pytest.raises(popart.popart_exception, match="'half'"):
        popart.DeviceManager().createOfflineIPUDevice({"syncPattern": "half"})
