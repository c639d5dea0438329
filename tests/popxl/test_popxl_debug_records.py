"""What popxl writes of a program as debug information."""

import json
import os

import pytest

import popart
import popxl
from popxl import ops
from popxl.context import get_source_location


@pytest.mark.shows("popxl.context.get_source_location")
def test_an_addition_leaves_five_records(tmp_path):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    ir = popxl.Ir()
    with ir.main_graph:
        a, b = popxl.variable(1.0, name="a"), popxl.variable(2.0, name="b")
        a + b
        line = get_source_location(0).lineNumber - 1
    popart.closePoplarDebugInfo()
    data = json.loads(path.read_text())
    strings, records = data["stringTable"], data["contexts"]
    assert [r["category"] for r in records] == ["tensor"] * 3 + ["op"] * 2
    call = records[3]
    assert (call["layer"], call["api"]) == ("popxl", "add")
    assert call["inputs"] == ["a", "b"] and call["outputs"] == ["add_out"]
    at = call["location"]
    assert strings[at["fileName"]] == os.path.realpath(__file__) and at["lineNumber"] == line
    assert strings[at["functionName"]] == "test_an_addition_leaves_five_records"


def test_nothing_is_written_without_being_asked(tmp_path):
    ir = popxl.Ir()
    with ir.main_graph:
        x = popxl.variable(1.0)
        ops.call(ir.create_graph(lambda t: t + t, x), x)
    popart.initializePoplarDebugInfo(str(tmp_path / "d.json"), "json")
    popart.closePoplarDebugInfo()
    assert json.loads((tmp_path / "d.json").read_text())["contexts"] == []


def test_the_record_of_an_op_names_its_identifier_and_number(tmp_path):
    path = tmp_path / "debug.json"
    popart.initializePoplarDebugInfo(str(path), "json")
    ir = popxl.Ir()
    with ir.main_graph:
        c = popxl.variable(1.0) + popxl.variable(2.0)
    popart.closePoplarDebugInfo()
    data = json.loads(path.read_text())
    core = data["contexts"][-1]
    opid = core["opid"]
    assert (data["stringTable"][opid] if isinstance(opid, int) else opid) == "ai.onnx.Add:6"
    assert core["instanceId"] == c._pb_tensor.getProducer().id == 100
    assert core["parentId"] == data["contexts"][-2]["id"]
