"""The package popart: what it imports, exceptions, options, devices, data flow, logs, debug information."""

import json
import subprocess
import sys

import numpy as np
import pytest

import popart


def python(code, **environment):
    import os

    env = {**{k: v for k, v in os.environ.items() if not k.startswith("POPART_LOG")}, **environment}
    return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=env)


def test_importing_loads_neither_torch_nor_the_compiler():
    code = "import sys, popart; print([m for m in ('torch', 'ipu_core', 'onnx') if m in sys.modules])"
    assert python(code).stdout == "[]\n"
    code = "import sys, popart._internal.ir; print('torch' in sys.modules)"
    assert python(code).stdout == "False\n"


TREE = {
    "popart_exception": Exception,
    "popart_internal_exception": "popart_exception",
    "popart_runtime_error": "popart_exception",
    "OutOfMemoryException": "popart_exception",
    "poplibs_exception": Exception,
    "poplar_exception": Exception,
    "poplar_runtime_error": "poplar_exception",
    "poplar_application_runtime_error": "poplar_runtime_error",
    "poplar_system_runtime_error": "poplar_runtime_error",
    "poplar_recoverable_runtime_error": "poplar_system_runtime_error",
    "poplar_unrecoverable_runtime_error": "poplar_system_runtime_error",
    "poplar_unknown_runtime_error": "poplar_system_runtime_error",
}


@pytest.mark.shows("popart.popart_exception", "popart.poplar_application_runtime_error")
def test_exceptions_form_a_tree():
    for name, base in TREE.items():
        assert getattr(popart, name).__bases__ == (base if base is Exception else getattr(popart, base),), name


# --- options
@pytest.mark.shows(
    "popart.SessionOptions.getGlobalReplicationFactor",
    "popart.SessionOptions.globalReplicationFactor",
)
@pytest.mark.shows("popart.SessionOptions")
def test_options_have_the_published_defaults():
    options = popart.SessionOptions()
    assert options.virtualGraphMode is popart.VirtualGraphMode.Off and int(options.numIOTiles) == 0
    assert options.constantWeights and not options.useHostCopyOps and options.cachePath == "session_cache"
    assert options.replicatedGraphCount == 1 and options.getGlobalReplicationFactor() == 1
    options.enableExplicitIR()
    assert options.useHostCopyOps and options.enableExplicitMainLoops and options.explicitRecomputation
    options.enableReplicatedGraphs, options.replicatedGraphCount = True, 4
    assert options.getGlobalReplicationFactor() == 4
    options.enableDistributedReplicatedGraphs, options.globalReplicationFactor = True, 16
    assert options.getGlobalReplicationFactor() == 16


def test_dicts_of_options_are_live_and_other_containers_are_copies():
    options = popart.SessionOptions()
    options.engineOptions["a"] = "b"
    options.dotChecks.add("x")
    assert options.engineOptions == {"a": "b"} and options.dotChecks == set()
    options.dotChecks = ["ALL"]
    assert options.dotChecks == {"ALL"} and popart.SessionOptions().engineOptions == {}
    options.executionPhaseSettings.phases = 3
    assert options.executionPhaseSettings.phases == 3
    options.defaultPrefetchBufferingDepth = 2
    assert options.defaultBufferingDepth == 2
    options.numIOTiles = 64
    assert options.numIOTiles == 64 and "numIOTiles" in dir(options)


def test_every_way_into_a_dict_of_options_takes_its_type_only():
    options = popart.SessionOptions()
    options.engineOptions.update({"a": "1"}, b="2")
    options.engineOptions |= {"c": "3"}
    assert options.engineOptions.setdefault("d", "4") == "4" and options.engineOptions.setdefault("a", "9") == "1"
    assert options.engineOptions == {"a": "1", "b": "2", "c": "3", "d": "4"}
    for write in (
        lambda: options.engineOptions.update({"e": 5}),
        lambda: options.engineOptions.setdefault("e", 5),
        lambda: options.engineOptions.__ior__({"e": 5}),
        lambda: options.engineOptions.update({5: "e"}),
    ):
        with pytest.raises(TypeError, match="incompatible arguments: .*engineOptions"):
            write()
    assert sorted(options.engineOptions) == ["a", "b", "c", "d"]


def test_unknown_options_are_attribute_errors():
    options = popart.SessionOptions()
    with pytest.raises(AttributeError, match="enableEngineCache"):
        options.enableEngineCache = True
    with pytest.raises(AttributeError, match="nothing"):
        options.nothing
    with pytest.raises(AttributeError, match="phase"):
        options.executionPhaseSettings.phase = 1
    with pytest.raises(TypeError, match="cachePath takes a str"):
        options.cachePath = None


def test_cache_folders_come_from_the_environment(monkeypatch):
    monkeypatch.setenv("POPART_CACHE_DIR", "/tmp/a")
    assert popart.SessionOptions().enableEngineCaching and popart.SessionOptions().cachePath == "/tmp/a"
    monkeypatch.setenv("POPXL_CACHE_DIR", "/tmp/b")
    assert popart.SessionOptions().cachePath == "/tmp/b"


# --- data flow
@pytest.mark.shows(
    "popart.DataFlow.isAnchored",
    "popart.DataFlow.nAnchors",
    "popart.DataFlow.batchesPerStep",
    "popart.DataFlow.anchors",
    "popart.DataFlow.art",
)
@pytest.mark.shows("popart.DataFlow", "popart.AnchorReturnType", "popart.AnchorReturnTypeId")
def test_data_flow_says_what_is_returned():
    flow = popart.DataFlow(4, {"y": popart.AnchorReturnType("everyn", 2), "x": popart.AnchorReturnType("Final")})
    assert flow.anchors() == ["x", "y"] and flow.nAnchors() == 2 and flow.batchesPerStep() == 4
    assert flow.art("y").id() is popart.AnchorReturnTypeId.EveryN and flow.art("y").rp() == 2
    assert popart.DataFlow(1, ["a"]).art("a").id() is popart.AnchorReturnTypeId.All
    assert popart.DataFlow(1, anchorIds=["a"]).isAnchored("a")


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda: popart.DataFlow(0), "batchesPerStep is 0"),
        (
            lambda: popart.DataFlow(3, {"y": popart.AnchorReturnType("EveryN", 2)}),
            "the period 2 of 'y' does not divide 3",
        ),
        (lambda: popart.DataFlow(1).art("y"), "'y' is not anchored"),
        (lambda: popart.AnchorReturnType("Some"), "'Some' is no way"),
        (lambda: popart.AnchorReturnType("EveryN"), "EveryN alone takes a period"),
        (lambda: popart.AnchorReturnType("All", 2), "EveryN alone takes a period"),
        (lambda: popart.AnchorReturnType("EveryN", 0), "the period of EveryN is 0"),
        (lambda: popart.AnchorReturnType("All").rp(), "'All' has no period"),
    ],
)
def test_wrong_data_flows(make, message):
    with pytest.raises(popart.popart_exception, match=message):
        make()


@pytest.mark.shows("popart.PyStepIO", "popart.PyWeightsIO")
def test_arrays_of_a_run_must_be_contiguous():
    array = np.ones((4, 4), np.float32)
    assert popart.PyStepIO({"x": array}, {}).inputs["x"] is array
    with pytest.raises(popart.popart_exception, match="input 'x' is not C-contiguous"):
        popart.PyStepIO({"x": array.T[::2]}, {})
    with pytest.raises(popart.popart_exception, match="output 'y' is not C-contiguous"):
        popart.PyStepIO({}, {"y": array[:, ::2]})
    weights = popart.PyWeightsIO({"w": array, "v": array[:, ::2]})
    assert weights.array("w") is array
    with pytest.raises(
        popart.popart_exception, match="no array was given for the variable 'u'; there are \\['v', 'w'\\]"
    ):
        weights.array("u")
    with pytest.raises(popart.popart_exception, match="'v' is not C-contiguous"):
        weights.array("v")


# --- devices
@pytest.mark.shows(
    "popart.DeviceManager.createCpuDevice",
    "popart.DeviceManager.createIpuModelDevice",
    "popart.DeviceManager.createOfflineIPUDevice",
    "popart.DeviceInfo.attach",
    "popart.DeviceInfo.detach",
    "popart.DeviceInfo.type",
    "popart.DeviceInfo.numIpus",
    "popart.DeviceInfo.tilesPerIPU",
    "popart.DeviceInfo.ipuVersion",
    "popart.DeviceInfo.driverIds",
)
@pytest.mark.shows("popart.DeviceInfo")
@pytest.mark.shows("popart.DeviceManager")
def test_devices_are_made_by_kind():
    manager = popart.DeviceManager()
    cpu = manager.createCpuDevice()
    model = manager.createIpuModelDevice({"numIPUs": "3", "tilesPerIPU": 16})
    offline = manager.createOfflineIPUDevice({"numIPUs": 2})
    assert [str(d.type) for d in (cpu, model, offline)] == ["cpu", "ipu-model", "offline-ipu"]
    assert (model.numIpus, model.tilesPerIPU, model.ipuVersion) == (3, 16, "ipu2") and offline.driverIds == [0]
    assert "type=ipu-model" in repr(model) and "numIPUs=3" in repr(model)
    assert not model.isAttached and model.attach() and model.isAttached
    model.detach()
    with model:
        model.attach()
    assert not model.isAttached


@pytest.mark.shows("popart.DeviceSelectionCriterion")
def test_a_device_is_the_first_that_is_free_or_one_of_all(idle_ipus):
    criterion, on_demand = popart.DeviceSelectionCriterion, popart.DeviceConnectionType.OnDemand

    def ids(how):
        manager = popart.DeviceManager()
        found = (
            manager.tryAcquireAvailableDevice(1, 0, connectionType=on_demand, selectionCriterion=how) for _ in range(32)
        )
        return {device.id for device in found}

    assert ids(criterion.First) == {0} and len(ids(criterion.Random)) > 1


@pytest.mark.shows(
    "popart.DeviceManager.tryAcquireAvailableDevice",
    "popart.DeviceManager.acquireDeviceById",
    "popart.DeviceInfo.id",
)
def test_hardware_is_acquired_in_powers_of_two(idle_ipus):
    manager = popart.DeviceManager()
    device = manager.tryAcquireAvailableDevice(4)
    assert device.isAttached and device.numIpus == 4 and str(device.type) == "ipu"
    on_demand = manager.acquireAvailableDevice(2, connectionType=popart.DeviceConnectionType.OnDemand)
    assert not on_demand.isAttached and on_demand.tryAttachUntilTimeout()
    device.detach()
    on_demand.detach()
    with manager.acquireDeviceById(0) as first:
        assert first.id == 0 and first.isAttached
    assert manager.tryAcquireDeviceById(10**6) is None
    assert len(manager.enumerateDevices(numIpus=2)) == 8 and manager.enumerateDevices(numIpus=3) == []


@pytest.mark.parametrize(
    "make, message",
    [
        (lambda m: m.createIpuModelDevice({"ipus": 2}), "createHostDevice: 'ipus' is no option"),
        (lambda m: m.createIpuModelDevice({"numIPUs": 0}), "numIPUs is 0"),
        (lambda m: m.createOfflineIPUDevice({"ipuVersion": "ipu9"}), "no IPU has the version 'ipu9'"),
        (lambda m: m.createOfflineIpuFromSystemString("IPU-POD5", 1), "no system is called 'IPU-POD5'"),
        (lambda m: m.createOfflineIpuFromSystemString("IPU-POD4", 8), "'IPU-POD4' has 4 IPUs, and 8"),
        (lambda m: m.createOfflineIPUDevice({}).attach(), "cannot be attached"),
        (lambda m: m.createOfflineIPUDevice({}).detach(), "cannot be detached"),
        (lambda m: m.tryAcquireAvailableDevice(3), "3 IPUs cannot be acquired"),
        (lambda m: m.acquireAvailableDevice(connectionType=popart.DeviceConnectionType.Never), "acquires nothing"),
    ],
)
def test_devices_that_there_are_not(make, message):
    with pytest.raises(popart.popart_exception, match=message):
        make(popart.DeviceManager())


def test_a_device_that_there_is_not_is_an_error_of_the_engine():
    with pytest.raises(popart.poplar_exception, match="there is no device 1000000"):
        popart.DeviceManager().acquireDeviceById(10**6)


# --- variables
@pytest.mark.shows(
    "popart.CommGroup",
    "popart.VariableSettings.isUsingCommGroup",
    "popart.VariableSettings.getGroupCount",
    "popart.VariableSettings.getRealGroupSize",
    "popart.VariableSettings.getGroupRepresentative",
    "popart.VariableSettings.numReplicasReturningVariable",
    "popart.VariableSettings.shapeOnReplica",
    "popart.VariableSettings.shapeOnHost",
    "popart.VariableSettings.groups",
)
@pytest.mark.shows("popart.VariableSettings", "popart.CommGroupType")
def test_settings_of_variables():
    modes, kinds = popart.VariableRetrievalMode, popart.CommGroupType
    all_equal = popart.VariableSettings()
    assert all_equal.isUsingCommGroup() and all_equal.getGroupCount(8) == 1 and all_equal.groups(2) == [[0, 1]]
    strided = popart.VariableSettings(2, 2, modes.AllReplicas)
    assert not strided.isUsingCommGroup() and strided.groups(4) == [[0, 2], [1, 3]]
    assert strided.numReplicasReturningVariable(4) == 4 and strided.getGroupRepresentative(1) == 1
    pairs = popart.VariableSettings(popart.CommGroup(kinds.Consecutive, 2))
    assert (pairs.getGroupCount(8), pairs.getRealGroupSize(8), pairs.getGroupRepresentative(3)) == (4, 2, 6)
    assert pairs.shapeOnReplica([4, 5], 8) == [5] and pairs.shapeOnHost([5], 8) == [4, 5]
    with pytest.raises(popart.popart_internal_exception, match="first dimension must be the 4 groups"):
        pairs.shapeOnReplica([3, 5], 8, "w")
    with pytest.raises(popart.popart_internal_exception, match="group size must be at least 1"):
        popart.VariableSettings(popart.CommGroup(kinds.Orthogonal, 0))
    with pytest.raises(popart.popart_internal_exception, match="stride 0"):
        popart.VariableSettings(0, 1, modes.OnePerGroup)
    with pytest.raises(popart.popart_internal_exception, match="not of a CommGroup"):
        strided.getSharedVariableDomain()


# --- logs
@pytest.mark.shows("popart.getLogger")
def test_variables_are_read_when_the_first_message_comes(tmp_path):
    file = tmp_path / "log"
    code = (
        "import os, popart\n"
        f"os.environ.update(POPART_LOG_LEVEL='INFO', POPART_LOG_DEST={str(file)!r})\n"
        "popart.getLogger('session').info('shown')\n"
        "popart.getLogger('ir').debug('hidden')\n"
        "popart.getLogger('ir').setLevel('DEBUG')\n"
        "popart.getLogger('ir').debug('now shown')\n"
    )
    assert python(code).stderr == ""
    lines = file.read_text().splitlines()
    assert (
        len(lines) == 2
        and lines[0].endswith("I: shown")
        and " session " in lines[0]
        and lines[1].endswith("D: now shown")
    )


@pytest.mark.parametrize("level, count", [("ERR", 1), ("error", 1), ("CRITICAL", 0), ("no level", 0)])
def test_both_names_of_the_level_of_errors(level, count):
    code = "import popart\nlog = popart.getLogger('ir'); log.warn('w'); log.error('e')\n"
    assert len(python(code, POPART_LOG_LEVEL=level).stderr.splitlines()) == count
    code = f"import popart\nlog = popart.getLogger('ir'); log.setLevel({level!r}); log.warn('w'); log.error('e')\n"
    assert len(python(code).stderr.splitlines()) == count


@pytest.mark.shows("popart.Logger")
def test_levels_by_module_and_formats(tmp_path):
    config = tmp_path / "levels.json"
    config.write_text(json.dumps({"popart:session": "TRACE", "ir": "OFF"}))
    code = (
        "import popart\n"
        "for name in ('session', 'ir', 'op'):\n"
        "    log = popart.getLogger(name)\n"
        "    log.trace('t'); log.warn('w'); log.error('e')\n"
    )
    shown = python(
        code, POPART_LOG_CONFIG=str(config), POPART_LOG_FORMAT="%n|%l|%L|%v", POPART_LOG_DEST="stdout"
    ).stdout
    assert shown.splitlines() == [
        "session|trace|T|t",
        "session|warn|W|w",
        "session|err|E|e",
        "op|warn|W|w",
        "op|err|E|e",
    ]
    assert python(code).stderr.count("\n") == 6  # warnings reach stderr by default
    assert python("import popart; popart.getLogger().setLevel('OFF'); popart.getLogger('op').error('e')").stderr == ""


# --- debug information
@pytest.mark.shows("popart.DebugInfo", "popart.SourceLocation")
@pytest.mark.shows("popart.initializePoplarDebugInfo", "popart.closePoplarDebugInfo")
def test_contexts_are_written_with_their_place(tmp_path):
    popart.initializePoplarDebugInfo(str(tmp_path / "info.json"), "json")
    parent = popart.DebugInfo(popart.DebugContext("outer"), "mine")
    parent.setValue("key", "text")
    inner = popart.DebugInfo(popart.DebugContext(parent, "inner", popart.SourceLocation("f", "file.py", 7)), "other")
    popart.closePoplarDebugInfo()
    found = json.loads((tmp_path / "info.json").read_text())
    strings = found["stringTable"]
    second, first = found["contexts"]  # what is around others ends after them
    assert first["layer"] == "mine" and first["key"] == "text" and strings[first["name"]] == "outer"
    assert strings[first["location"]["functionName"]] == "test_contexts_are_written_with_their_place"
    assert strings[first["location"]["fileName"]].endswith("test_popart_package.py")
    assert (second["parentId"], second["id"], second["location"]["lineNumber"]) == (first["id"], inner.getId(), 7)
    with pytest.raises(popart.popart_exception, match="not as 'cbor'"):
        popart.initializePoplarDebugInfo("x", "cbor")


def foo():
    info = popart.DebugInfo(popart.DebugContext("foo"), "mine")
    bar()
    info.setValue("after", "the inner one")


def bar():
    popart.DebugInfo(popart.DebugContext("bar"), "mine").setValue("key", "bar")


def test_a_context_is_written_when_it_ends(tmp_path):
    popart.initializePoplarDebugInfo(str(tmp_path / "info.json"), "json")
    foo()
    kept = popart.DebugInfo(popart.DebugContext("kept"), "mine")  # does not end before the file does
    popart.closePoplarDebugInfo()
    kept.setValue("late", "nothing")
    found = json.loads((tmp_path / "info.json").read_text())
    strings, contexts = found["stringTable"], found["contexts"]
    assert [strings[context["name"]] for context in contexts] == ["bar", "foo", "kept"]
    assert [strings[context["location"]["functionName"]] for context in contexts][:2] == ["bar", "foo"]
    assert contexts[0]["key"] == "bar" and contexts[1]["after"] == "the inner one" and "late" not in contexts[2]
    assert all(context["layer"] == "mine" for context in contexts)
