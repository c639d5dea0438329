"""Programs that do not fit the machine: a warning, or the documented error where the options are strict about memory."""

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
