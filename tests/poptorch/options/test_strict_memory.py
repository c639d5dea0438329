"""Programs that do not fit the machine: a warning, or the documented error where the options are strict about memory."""

import json
import re

import pytest
import torch

import poptorch


@pytest.fixture(autouse=True)
def four_tiles(monkeypatch):
    monkeypatch.setenv("POPTORCH_SMALL_IPU_MODEL", "1")


def compiled(width, options=None):
    run = poptorch.inferenceModel(torch.nn.Linear(width, width), options or poptorch.Options())
    run.compile(torch.zeros(1, width))
    return run


def warnings(caplog):
    return [record.getMessage() for record in caplog.records if "out of tile memory" in record.getMessage()]


def test_a_program_that_does_not_fit_is_warned_of_and_runs(caplog):
    run = compiled(900)
    (text,) = warnings(caplog)
    assert "out of tile memory [IPU-E301]: IPU 0 needs" in text and "638,976 fit" in text
    assert "weight f32[900,900] 3,240,000" in text and "test_strict_memory.py" in text
    assert "Options.enableStrictMemory(True)" in text
    assert run(torch.zeros(1, 900)).shape == (1, 900)


def test_a_program_that_fits_is_not(caplog):
    compiled(100)
    compiled(100, poptorch.Options().enableStrictMemory(True))
    assert warnings(caplog) == []


@pytest.mark.parametrize("how", ["option", "engine option", "environment"])
def test_strict_memory_refuses_it(how, monkeypatch):
    options = poptorch.Options()
    if how == "option":
        options.enableStrictMemory(True)
    elif how == "engine option":
        options._Popart.setEngineOptions({"enableStrictMemory": "true"})
    else:
        monkeypatch.setenv("POPTORCH_STRICT_MEMORY", "1")
    with pytest.raises(poptorch.Error, match=r"out of tile memory \[IPU-E301\]: IPU 0 needs") as raised:
        compiled(900, options)
    assert raised.value.type == "poplar_graph_memory_allocation_error"
    assert "'bytes_per_tile' of machine" in raised.value.message


def test_strictness_can_be_taken_back(caplog):
    options = poptorch.Options().enableStrictMemory(True).enableStrictMemory(False)
    compiled(900, options)
    assert len(warnings(caplog)) == 1
    with pytest.raises(AssertionError, match="enabled must be a bool, got str"):
        poptorch.Options().enableStrictMemory("yes")


def test_strict_memory_says_where_it_is_not_sure(caplog):
    """Estimates are off by about 15 %: a program that takes more than 85 % of a tile may not fit."""
    compiled(490, poptorch.Options().enableStrictMemory(True))
    (text,) = [record.getMessage() for record in caplog.records if "near the limits" in record.getMessage()]
    assert "near the limits of the machine: IPU 0 needs" in text and "off by about 15 %" in text
    caplog.clear()
    compiled(490)
    assert caplog.records == []


class Transposed(torch.nn.Module):
    def forward(self, x):
        return torch.softmax(x.t() + 1, 0).exp()


# What a machine has besides the memory of a tile: the program, and what of it is too much.
@pytest.mark.parametrize(
    "shape, replicas, numbers, refusal",
    [
        ((2**25 + 8, 1), 1, {}, "moves 134,217,760 bytes at once; a stream can move 134,217,728"),
        ((300_000, 1000), 1, {}, "bytes in one exchange, of transpose"),
        ((8, 8), 8, {}, "the replicas need 8 IPUs; the system has 4"),
        ((8, 8), 1, {"executable_bytes": 1024}, "the part of its memory that code can lie in has 1,024"),
    ],
)
def test_strict_memory_refuses_what_breaks_another_limit(shape, replicas, numbers, refusal, monkeypatch, tmp_path):
    monkeypatch.delenv("POPTORCH_SMALL_IPU_MODEL")
    machine = tmp_path / "room.json"
    given = {key: {"value": value, "tag": "given", "source": "chosen"} for key, value in numbers.items()}
    machine.write_text(json.dumps({"inherits": "pod4", **given}))
    monkeypatch.setenv("POPTORCH_EMULATED_SYSTEM", str(machine))
    options = poptorch.Options().replicationFactor(replicas).enableStrictMemory(True)
    run = poptorch.inferenceModel(Transposed(), options)
    with pytest.raises(poptorch.Error, match=r"\[IPU-E301\]") as raised:
        run.compile(torch.empty(shape[0] * replicas, shape[1], device="meta"))
    assert refusal in raised.value.message and "of machine 'room'" in raised.value.message


def test_a_warning_counts_all_replicas(caplog, monkeypatch):
    monkeypatch.delenv("POPTORCH_SMALL_IPU_MODEL")
    monkeypatch.setenv("POPTORCH_EMULATED_SYSTEM", "pod4")
    run = poptorch.inferenceModel(Transposed(), poptorch.Options().replicationFactor(8))
    run.compile(torch.empty(64, 8, device="meta"))
    (text,) = warnings(caplog)
    assert "the replicas need 8 IPUs; the system has 4" in text
    assert "the replicas need 8 IPUs; the system has 4" in str(run.report())


def test_a_report_judges_the_machine_that_a_warning_is_about(caplog):
    """The IPU model of four tiles, not the attached system; another one where it is named."""
    run = compiled(900)
    (text,) = warnings(caplog)
    needed = re.search(r"needs ([0-9,]+) bytes", text)[1]
    report = run.report()
    assert json.loads(report.json())["machine"]["name"] == "small ipu2 model"
    assert f"{needed} of 638,976" in str(report) or f"needs {needed} bytes" in str(report)
    assert "does not fit" in str(report) and "does not fit" not in str(run.report(machine="pod4"))


@pytest.mark.parametrize("version, replicas, machine", [(2, 1, "pod4"), (2, 8, "ipu2 model"), (21, 1, "ipu21 model")])
def test_an_offline_target_is_judged_as_the_attached_system_that_is_like_it(
    version, replicas, machine, caplog, monkeypatch
):
    monkeypatch.delenv("POPTORCH_SMALL_IPU_MODEL")
    monkeypatch.setenv("POPTORCH_EMULATED_SYSTEM", "pod4")
    options = poptorch.Options().useOfflineIpuTarget(version).replicationFactor(replicas)
    run = poptorch.inferenceModel(Transposed(), options.connectionType(poptorch.ConnectionType.Never))
    run.compile(torch.empty(8 * replicas, 8, device="meta"))
    assert run.report().machine == machine and run.report().fits and warnings(caplog) == []
