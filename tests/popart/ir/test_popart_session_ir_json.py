"""The JSON of a session's program: keys, types of ops, ids of tensors, attributes."""

import json

import numpy as np
import pytest
from session_listings import FORMAT, Model, graphs_of, ids, of_type, ops_of, options, types_of

import popart


@pytest.mark.shows("popart.IrSerializationFormat", "popart.InferenceSession._serializeIr")
def test_every_value_is_a_text():
    model = Model()
    y = model.onnx.matmul([model.input([4, 8]), model.weight([8, 2])], "product")
    session = model.session([y])
    ops = ops_of(session)
    (product,) = [op for op in ops if op["type"] == "MatMul"]
    assert product["name"] == "product"
    assert [set(op) for op in ops] == [{"type", "name", "inputs", "outputs", "attributes"}] * len(ops)
    assert [each["shape"] for each in product["inputs"]] == ["[1 4 8]", "[1 8 2]"]
    assert [each["index"] for each in product["inputs"]] == ["0", "1"]
    assert product["inputs"][0]["type"] == "FLOAT"
    values = [value for op in ops for value in op["attributes"].values()]
    assert values and all(isinstance(value, str) for value in values)
    assert json.loads(session._serializeIr(FORMAT)) == graphs_of(session)


def test_only_a_format_is_taken():
    model = Model()
    session = model.session([model.onnx.relu([model.input([4])])])
    with pytest.raises(TypeError, match="IrSerializationFormat.JSON, not 'JSON'"):
        session._serializeIr("JSON")


def test_the_main_graph_has_the_name_that_the_program_gave():
    model = Model()
    model.builder.setGraphName("network")
    y = model.onnx.relu([model.input([4])])
    assert list(graphs_of(model.session([y]))) == ["network"]


def test_common_attributes():
    model = Model()
    with model.builder.virtualGraph(1), model.builder.outlineAttributes({"layer": "first"}):
        y = model.onnx.relu([model.input([4])], "act")
    with model.builder.virtualGraph(0), model.builder.schedulePriority(2.5):
        z = model.onnx.exp([y])
    session = model.session([z], options=options(virtualGraphMode=popart.VirtualGraphMode.Manual), ipus=2)
    relu, exp = (next(op["attributes"] for op in ops_of(session) if word in op["type"]) for word in ("Relu", "Exp"))
    assert relu["__ipu_number"] == "1" and relu["layer"] == "layer:first"
    assert exp["__ipu_number"] == "0" and exp["schedulePriority"] == "2.500000"
    assert relu["__pipeline_stage"] == relu["__execution_phase"] == "none"
    assert relu["__execution_context"] == "Normal" and relu["tileSet"] == "0" and relu["scope"] == ""


def test_own_attributes_are_texts():
    model = Model()
    x = model.input([2, 3, 4])
    y = model.onnx.reducesum([model.onnx.transpose([x], [2, 0, 1])], axes=[1, 2], keepdims=0)
    z = model.onnx.leakyrelu([y], 0.125)
    session = model.session([z])
    assert of_type(session, "Transpose")[0]["attributes"]["perm"] == "[2 0 1]"
    reduced = of_type(session, "ReduceSum")[0]["attributes"]
    assert reduced["axes"] == "[1 2]" and reduced["keepdims"] == "0"
    assert of_type(session, "LeakyRelu")[0]["attributes"]["alpha"] == "0.125000"


def test_unread_operators_and_constants_leave_no_op():
    model = Model()
    x = model.input([4])
    model.onnx.exp([x])
    five = model.onnx.reshape([model.onnx.constant(np.float32([[5]])), model.onnx.constant(np.int64([1]))])
    y = model.onnx.add([x, five])
    assert types_of(model.session([y])) == ["AddLhsInplace"]


def test_leading_dimensions_are_rows_of_a_product():
    model = Model()
    y = model.onnx.matmul([model.input([2, 3, 8]), model.weight([8, 4])])
    loss = model.loss(y)
    session = model.session([loss], loss)
    first = of_type(session, "MatMul")[0]
    assert [each["shape"] for each in first["inputs"]] == ["[1 6 8]", "[1 8 4]"]
    assert not of_type(session, "ReduceSum")
    assert [op["attributes"]["fully_connected_pass"] for op in of_type(session, "MatMul")] == ["0", "2"]


def test_conv_with_bias_and_gemm_are_several_ops():
    model = Model()
    x = model.input([1, 2, 4, 4])
    y = model.onnx.conv([x, model.weight([2, 2, 1, 1], "k"), model.weight([2], "b")])
    z = model.onnx.gemm([model.onnx.flatten([y]), model.weight([32, 3], "w"), model.weight([3], "c")], alpha=2.0)
    types = types_of(model.session([z]), "maingraph")
    words = [
        word
        for type in types
        for word in ("Conv", "AddBias", "Reshape", "MatMul", "Scale", "Add")
        if type.startswith(word)
    ]
    assert [word for word in words if word != "Reshape"] == ["Conv", "AddBias", "Add", "MatMul", "Scale", "Add"]
    assert "Gemm" not in types and "Flatten" not in types


def test_inputs_have_one_init_and_one_load():
    model = Model()
    x, y = model.input([4], "x"), model.input([4], "y")
    z = model.onnx.add([x, y])
    session = model.session([z], options=options(useHostCopyOps=True))
    for id in (x, y):
        (load,) = [op for op in of_type(session, "HostLoad") if ids(op, "outputs") == [id]]
        (init,) = [op for op in ops_of(session) if ids(op, "outputs") == ids(load)]
        assert init["type"] == "Init"
    assert len(of_type(session, "Init")) == 2
    assert [ids(op) for op in of_type(session, "HostStore")] == [[z]]


def test_a_tensor_is_copied_once_to_each_virtual_graph():
    model = Model()
    with model.builder.virtualGraph(0):
        y = model.onnx.relu([model.input([4])])
    with model.builder.virtualGraph(1):
        z = model.onnx.add([model.onnx.exp([y]), model.onnx.sin([y])])
    session = model.session([z], options=options(virtualGraphMode=popart.VirtualGraphMode.Manual), ipus=2)
    (copy,) = of_type(session, "IpuCopy")
    assert ids(copy) == [y] and ids(copy, "outputs") == [f"{y}_c1"]
    assert ids(of_type(session, "Exp")[0]) == [f"{y}_c1"]


def test_the_program_is_written_where_the_environment_says(tmp_path, monkeypatch):
    monkeypatch.setenv("POPART_IR_DUMP", str(tmp_path / "ir.json"))
    model = Model()
    session = model.session([model.onnx.relu([model.input([4])])])
    assert (tmp_path / "ir.json").read_text() == session._serializeIr(FORMAT)


@pytest.mark.shows("popart.InferenceSession.getIr", "popart.TrainingSession.getIr")
def test_the_program_can_be_read_as_objects():
    model = Model()
    y = model.onnx.relu([model.input([4])], "act")
    ir = model.session([y]).getIr()
    (op,) = ir.getMainGraphOps()
    assert (op.opType(), op.name(), op.inIds(), op.outIds()) == ("ReluInplace", "act", {0: "x"}, {0: y})
    assert ir.getAllGraphIds() == ["maingraph"] and not ir.isTraining() and ir.containsTensor("x")
    assert op.attributes()["recompute"] == "NO"
    with pytest.raises(popart.popart_exception, match="no graph is called 'other'"):
        ir.getGraphOps("other")
