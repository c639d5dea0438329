"""What poptorch, popart and ipu_core write: a regular file or a free name, in folders of any name; folders that are new are said."""

import os
import stat

import numpy
import pytest
import torch

import ipu_core
import popart
import poptorch
from poptorch import poptorch_core

ODD = os.fsdecode(b"odd \xff")  # no UTF-8


@pytest.fixture(scope="module")
def predictor():
    executor = poptorch.inferenceModel(torch.nn.Linear(2, 3), poptorch.Options().showCompilationProgressBar(False))
    executor(torch.ones(1, 2))
    return executor


def builder():
    made = popart.Builder()
    x = made.addInputTensor(popart.TensorInfo("FLOAT", [2]))
    w = made.addInitializedInputTensor(numpy.ones(2, numpy.float32))
    y = made.aiOnnx.add([x, w])
    made.addOutputTensor(y)
    return made, w, y


@pytest.fixture(scope="module")
def session():
    made, _, y = builder()
    with popart.DeviceManager().createIpuModelDevice({}) as device:
        session = popart.InferenceSession(made.getModelProto(), popart.DataFlow(1, [y]), device)
        session.prepareDevice()
        yield session


def offline_session():
    made, _, y = builder()
    device = popart.DeviceManager().createOfflineIPUDevice({"numIPUs": "1"})
    return popart.InferenceSession(made.getModelProto(), popart.DataFlow(1, [y]), device)


def recorded(path):
    popart.initializePoplarDebugInfo(path, "json")
    popart.closePoplarDebugInfo()


def exported_proto(path, monkeypatch):
    monkeypatch.setenv("POPTORCH_EXPORT_PROTO_FILE", path)
    poptorch.inferenceModel(torch.nn.ReLU(), poptorch.Options().showCompilationProgressBar(False))(torch.ones(2))


# What writes one file whose name the program says.
WRITERS = {
    "poptorch save": lambda path, of: of["predictor"].save(path),
    "POPTORCH_EXPORT_PROTO_FILE": lambda path, of: exported_proto(path, of["monkeypatch"]),
    "popart saveModelProto": lambda path, of: builder()[0].saveModelProto(path),
    "popart saveInitializersExternally": lambda path, of: (
        lambda made, w, _: made.saveInitializersExternally([w], path)
    )(*builder()),
    "popart modelToHost": lambda path, of: of["session"].modelToHost(path),
    "popart compileAndExport": lambda path, of: offline_session().compileAndExport(path),
    "popart closePoplarDebugInfo": lambda path, of: recorded(path),
    "ipu_core save_executable": lambda path, of: ipu_core._native.save_executable(None, os.fsencode(path), {}, {}),
}


@pytest.fixture
def known(predictor, session, monkeypatch):
    return {"predictor": predictor, "session": session, "monkeypatch": monkeypatch}


def device_at(path):
    try:
        os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(1, 3))  # what /dev/null is
    except PermissionError:
        pytest.skip("only root makes devices")


KINDS = {
    "pipe": (os.mkfifo, "a pipe"),
    "device": (device_at, "a device"),
    "link to a device": (lambda path: os.symlink("/dev/null", path), "a device"),
}


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", WRITERS)
def test_what_is_no_regular_file_is_not_written_and_stays(name, kind, known, tmp_path):
    path = str(tmp_path / "target")
    make, shown = KINDS[kind]
    make(path)
    before = os.lstat(path)
    with pytest.raises((poptorch.Error, popart.popart_exception, ipu_core.Error)) as raised:
        WRITERS[name](path, known)
    assert f"cannot write file [IPU-E504]: {path}: not a regular file, but {shown}" in str(raised.value)
    after = os.lstat(path)
    assert (after.st_mode, after.st_rdev, after.st_ino) == (before.st_mode, before.st_rdev, before.st_ino)
    assert os.listdir(tmp_path) == ["target"]


NAMES_ITS_FILE = "popart saveInitializersExternally"


@pytest.mark.parametrize("name", [name for name in WRITERS if name != NAMES_ITS_FILE])
def test_a_new_name_and_a_regular_file_are_written_also_in_a_folder_that_is_no_utf_8(name, known, tmp_path):
    folder = tmp_path / ODD
    folder.mkdir()
    path = str(folder / "target")
    WRITERS[name](path, known)
    written = os.stat(path)
    assert stat.S_ISREG(written.st_mode) and written.st_size > 0
    WRITERS[name](path, known)
    assert os.listdir(folder) == ["target"]


def test_a_model_cannot_name_a_file_that_is_no_utf_8(known, tmp_path):
    with pytest.raises(popart.popart_exception, match="is no UTF-8"):
        WRITERS[NAMES_ITS_FILE](str(tmp_path / ODD), known)
    assert os.listdir(tmp_path) == []


def test_executables_and_caches_are_read_from_folders_that_are_no_utf_8(predictor, tmp_path):
    folder = tmp_path / ODD
    folder.mkdir()
    predictor.save(folder / "model.poptorch")
    x = torch.ones(1, 2)
    assert torch.equal(poptorch.load(folder / "model.poptorch")(x), predictor(x))
    for from_cache in (False, True):
        options = poptorch.Options().enableExecutableCaching(str(folder / "cache"))
        executor = poptorch.inferenceModel(torch.nn.Linear(2, 5), options)
        executor(x)
        assert executor._executable.from_cache == from_cache
    with pytest.raises(poptorch.Error, match=r"E504\]: .*odd \\xff/nobody: No such file"):
        poptorch.load(folder / "nobody")


def test_a_folder_that_is_made_is_said(predictor, tmp_path, caplog, monkeypatch):
    predictor.save(tmp_path / "new" / "model.poptorch")
    exported_proto(str(tmp_path / "other" / "proto"), monkeypatch)
    said = [record.getMessage() for record in caplog.records]
    assert f"save() made the folder '{tmp_path / 'new'}'" in said
    assert f"POPTORCH_EXPORT_PROTO_FILE made the folder '{tmp_path / 'other'}'" in said
    caplog.clear()
    predictor.save(tmp_path / "new" / "model.poptorch")
    assert not any("made the folder" in record.getMessage() for record in caplog.records)


def test_popart_says_what_folder_it_made(tmp_path, capfd):
    offline_session().compileAndExport(str(tmp_path / "new" / "model.popef"))
    assert f"made the folder '{tmp_path / 'new'}'" in capfd.readouterr().err


def test_a_target_is_checked_where_it_leads(tmp_path):
    poptorch_core.check_target(os.fsencode(tmp_path / "free"))
    os.symlink("nowhere", tmp_path / "link")
    poptorch_core.check_target(os.fsencode(tmp_path / "link"))
    with pytest.raises(poptorch.Error, match="not a regular file, but a folder"):
        poptorch_core.check_target(os.fsencode(tmp_path))
