"""Ids of tensors and names of nodes that a Builder gives, and which ids its queries list."""

import numpy as np
import onnx
import pytest

import popart


def nodes(builder):
    return {node.output[0]: node for node in onnx.load_from_string(builder.getModelProto()).graph.node}


@pytest.mark.shows("popart.Builder", "popart.Builder.aiOnnx", "popart.Builder.aiGraphcore")
def test_outputs_are_named_after_the_type_of_the_node():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3])
    a = builder.aiOnnx.add([x, x])
    assert (x, a, builder.aiOnnx.add([x, a])) == ("input", "Add:0", "Add:0/1")
    assert builder.aiOnnx.split([x], 2, axis=0) == ["Split:0", "Split:1"]
    assert builder.aiGraphcore.nllloss([x, builder.addInputTensor("INT32", [2])]) == "Nll:0"
    assert builder.aiGraphcore.l1loss([x], 0.1) == "L1:0" and builder.aiGraphcore.gelu([x]) == "Gelu:0"
    assert builder.aiOnnx.constant(np.zeros(2, np.float32)) == "Constant:0"
    assert builder.addInputTensor("FLOAT", []) == "input/2"


@pytest.mark.shows("popart.Builder.addInputTensor", "popart.Builder.addInitializedInputTensor")
def test_names_of_inputs_and_variables_may_repeat():
    builder = popart.Builder()
    info = popart.TensorInfo("FLOAT16", [4])
    assert [builder.addInputTensor(info, "x") for _ in range(3)] == ["x", "x/1", "x/2"]
    data = np.ones(4, np.float16)
    assert [builder.addInitializedInputTensor(data, debugContext=name) for name in ("w", "w", "")] == [
        "w",
        "w/1",
        "init_input",
    ]
    assert builder.addInitializedInputTensor(data, popart.DebugContext("w")) == "w/2"
    assert builder.getInputTensorIds() == ["x", "x/1", "x/2", "w", "w/1", "init_input", "w/2"]


@pytest.mark.shows("popart.Builder.nameScope", "popart.Builder.getNameScope", "popart.NameContextManager")
def test_scopes_are_part_of_ids_and_debug_names_are_not():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    with builder.nameScope("outer"):
        with builder.nameScope("inner"):
            assert builder.getNameScope() == "outer/inner/" and builder.getNameScope("z") == "outer/inner/z"
            a = builder.aiOnnx.add([x, x])
        b = builder.aiOnnx.add([x, x], debugContext="mine")
        w = builder.addInitializedInputTensor(np.zeros(2, np.float32), "w")
    c, d = builder.aiOnnx.add([x, x], "mine"), builder.aiOnnx.add([x, x])
    assert (a, b, w, c, d) == ("outer/inner/Add:0", "outer/Add:0", "outer/w", "Add:0", "Add:0/1")
    found = nodes(builder)
    assert [found[id].name for id in (a, b, c, d)] == ["outer/inner/Add", "outer/mine", "mine", ""]
    assert builder.getNameScope() == ""


def test_scopes_end_when_an_exception_leaves_them():
    builder = popart.Builder()
    with pytest.raises(KeyError), builder.nameScope("outer"):
        raise KeyError
    assert builder.getNameScope("x") == "x"


@pytest.mark.shows("popart.Builder.createSubgraphBuilder")
def test_ids_are_unique_over_all_graphs_of_a_model():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    first = builder.createSubgraphBuilder()
    inner = first.createSubgraphBuilder()
    ids = [child.aiOnnx.add([x, x]) for child in (builder, first, inner, builder)]
    assert ids == ["Add:0", "Add:0/1", "Add:0/2", "Add:0/3"] and inner.addInputTensor("FLOAT", [2], "x") == "x/1"


@pytest.mark.shows("popart.Builder.setGraphName")
def test_graphs_are_numbered_and_can_be_named():
    graphs = [onnx.load_from_string(popart.Builder().getModelProto()).graph.name for _ in range(2)]
    first, second = (int(name.removeprefix("BuilderGraph_")) for name in graphs)
    assert second == first + 1
    builder = popart.Builder()
    builder.setGraphName("mine")
    assert onnx.load_from_string(builder.getModelProto()).graph.name == "mine"
    builder.setGraphName("")
    name = onnx.load_from_string(builder.getModelProto()).graph.name
    assert name.startswith("_") and name[1:].isdigit()


@pytest.mark.shows(
    "popart.Builder.getInputTensorIds", "popart.Builder.getOutputTensorIds", "popart.Builder.getValueTensorIds",
    "popart.Builder.getTrainableTensorIds", "popart.Builder.isInitializer", "popart.Builder.getTensorShape",
    "popart.Builder.addOutputTensor",
)  # fmt: skip
def test_queries_list_inputs_values_outputs_and_variables():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(np.zeros((3, 4), np.float32), "w")
    y = builder.aiOnnx.matmul([x, w])
    z = builder.aiOnnx.relu([y])
    custom = builder.customOp("Mine", 1, "org.demo", [z], {})[0]
    builder.addOutputTensor(y)
    builder.addOutputTensor(y)
    assert builder.getInputTensorIds() == [x, w] and builder.getOutputTensorIds() == [y, y]
    assert builder.getValueTensorIds() == [y, z, custom] and builder.getTrainableTensorIds() == [w]
    assert builder.isInitializer(w) and not builder.isInitializer(x) and not builder.isInitializer("none")
    assert builder.getTensorShape(y) == [2, 4] and builder.getTensorDtypeString(w) == "float32"
    assert builder.getTensorShape(custom) == [] and builder.getTensorDtypeString(custom) == "undefined"
    listed = f"inputs: x, w; outputs: {y}, {y}; values: {y}, {z}, {custom}"
    for call in (builder.getTensorShape, builder.getTensorDtypeString):
        with pytest.raises(popart.popart_exception, match=f"'nothing' is no tensor of the model. {listed}"):
            call("nothing")


@pytest.mark.shows("popart.Builder.getTensorDtypeString")
def test_element_types_have_names_in_lower_case():
    builder = popart.Builder()
    kinds = {
        "FLOAT": "float32",
        "FLOAT16": "float16",
        "INT64": "int64",
        "UINT8": "uint8",
        "BOOL": "bool",
        "DOUBLE": "float64",
    }
    for kind, name in kinds.items():
        assert builder.getTensorDtypeString(builder.addInputTensor(kind, [1])) == name
    with pytest.raises(popart.popart_exception, match="no element type is called 'FLOAT32'"):
        builder.addInputTensor("FLOAT32", [1])


def test_outputs_must_be_tensors():
    builder = popart.Builder()
    with pytest.raises(popart.popart_exception, match="'y' cannot be an output: there are no tensors"):
        builder.addOutputTensor("y")
