"""Custom nodes and attributes, annotations, settings of single operators."""

import numpy as np
import onnx
import pytest

import popart


@pytest.fixture
def builder():
    made = popart.Builder()
    made.addInputTensor("FLOAT", [2, 2], "x")
    return made


def values(builder, output):
    """Attributes of the node with this output, besides that of debugging."""
    for node in onnx.load_from_string(builder.getModelProto()).graph.node:
        if output in node.output:
            found = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
            assert isinstance(found.pop("__debug_info_id"), int)
            return found
    raise AssertionError(output)


@pytest.mark.shows("popart.Builder.customOp")
def test_custom_ops_take_each_kind_of_attribute(builder):
    out = builder.customOp(
        opName="Shift", opVersion=1, domain="org.demo", inputs=["x"], numOutputs=2, name="shift0",
        attributes={"amount": 2, "gain": 0.5, "axes": [0, 1], "parts": [0.5, 1.5], "label": "demo", "flag": True, "none": []},
    )  # fmt: skip
    assert out == ["Shift:0", "Shift:1"]
    wanted = {"amount": 2, "gain": 0.5, "axes": [0, 1], "parts": [0.5, 1.5], "label": b"demo", "flag": 1, "none": []}
    assert values(builder, "Shift:0") == wanted
    node = onnx.load_from_string(builder.getModelProto()).graph.node[0]
    assert (node.op_type, node.domain, node.name) == ("Shift", "org.demo", "shift0")
    assert builder.customOp("One", 1, "org.demo", ["x"], {}) == ["One:0"]


@pytest.mark.parametrize("value", [[1, 0.5], {}, None, [[1]], [1, "a"]])
def test_custom_ops_refuse_other_values(builder, value):
    with pytest.raises(popart.popart_exception, match="attribute 'a' is"):
        builder.customOp("Mine", 1, "org.demo", ["x"], {"a": value})
    with pytest.raises(popart.popart_exception, match="'nothing' is no tensor; there are 'x'"):
        builder.customOp("Mine", 1, "org.demo", ["nothing"], {})
    with pytest.raises(TypeError, match="incompatible function arguments"):
        builder.customOp("Mine", 1, "org.demo", "x", {})


@pytest.mark.shows(
    "popart.Builder.addNodeAttribute", "popart.Builder.nodeHasAttribute", "popart.Builder.getInt64NodeAttribute",
    "popart.Builder.getInt64VectorNodeAttribute", "popart.Builder.getFloatNodeAttribute",
    "popart.Builder.getFloatVectorNodeAttribute", "popart.Builder.getStringNodeAttribute",
    "popart.Builder.getStringVectorNodeAttribute", "popart.Builder.removeNodeAttribute",
    "popart.Builder.getAllNodeAttributeNames",
)  # fmt: skip
def test_attributes_of_nodes_are_added_read_and_removed(builder):
    y = builder.aiOnnx.relu(["x"])
    kinds = {
        "Int64": 3,
        "Int64Vector": [1, 2],
        "Float": 0.5,
        "FloatVector": [0.5, 2.0],
        "String": "text",
        "StringVector": ["a", "b"],
    }
    for kind, value in kinds.items():
        builder.addNodeAttribute(kind, value, {y})
        assert getattr(builder, f"get{kind}NodeAttribute")(kind, {y}) == value and builder.nodeHasAttribute(kind, {y})
    assert builder.getAllNodeAttributeNames({y}) == ["__debug_info_id", *kinds]
    with pytest.raises(popart.popart_exception, match="Relu already has the attribute 'Float'"):
        builder.addNodeAttribute("Float", 1.0, {y})
    with pytest.raises(popart.popart_exception, match="'Float' of Relu is of kind FLOAT, not INT"):
        builder.getInt64NodeAttribute("Float", {y})
    builder.removeNodeAttribute("Float", {y})
    assert not builder.nodeHasAttribute("Float", {y})
    for call in (builder.getFloatNodeAttribute, builder.removeNodeAttribute):
        with pytest.raises(popart.popart_exception, match="Relu has no attribute 'Float'"):
            call("Float", {y})


def test_a_node_is_named_by_all_its_outputs(builder):
    a, b = builder.aiOnnx.split(["x"], 2)
    builder.addNodeAttribute("mine", 1, {a, b})
    with pytest.raises(popart.popart_exception, match=r"no node has the outputs \['Split:0'\]; a node has the outputs"):
        builder.addNodeAttribute("other", 1, {a})
    with pytest.raises(popart.popart_exception, match="no node has the outputs"):
        builder.nodeHasAttribute("mine", {"x"})


PLACES = {"virtualGraph": "__ipu_number", "executionPhase": "__execution_phase", "pipelineStage": "__pipeline_stage"}


@pytest.mark.parametrize("method", PLACES)
@pytest.mark.shows(
    "popart.Builder.virtualGraph", "popart.Builder.executionPhase", "popart.Builder.pipelineStage",
    "popart.Builder.hasVirtualGraph", "popart.Builder.getPipelineStage", "popart.Builder.hasPipelineStage",
    "popart.Builder.getExecutionPhase", "popart.Builder.hasExecutionPhase", "popart.AttributeContextManager",
)  # fmt: skip
def test_places_of_nodes(builder, method):
    context, key, name = getattr(builder, method), PLACES[method], method[0].upper() + method[1:]
    has, get = getattr(builder, f"has{name}"), getattr(builder, f"get{name}")
    with context(1):
        a = builder.aiOnnx.relu(["x"])
        with context(value=2):
            assert has() and get() == 2
            b = builder.aiOnnx.relu(["x"])
        c = builder.aiOnnx.relu(["x"])
        with pytest.raises(KeyError), context(3):
            raise KeyError
        assert get() == 1
    d = builder.aiOnnx.relu(["x"])
    assert [values(builder, id).get(key) for id in (a, b, c, d)] == [1, 2, 1, None] and not has()
    with pytest.raises(popart.popart_exception, match=f"get{name}: it is not set"):
        get()
    context(d)
    context(c, 5)
    assert [values(builder, id)[key] for id in (c, d)] == [5, 0]
    with pytest.raises(popart.popart_exception, match="-1 is negative"):
        context(-1)
    with pytest.raises(popart.popart_exception, match="no node has the output 'x'"):
        context("x", 1)
    with pytest.raises(TypeError, match="incompatible function arguments"):
        context(0.5)


@pytest.mark.shows("popart.Builder.getVirtualGraph")
def test_virtual_graphs_of_nodes(builder):
    a, b = builder.aiOnnx.split(["x"], 2)
    builder.virtualGraph({a, b}, 3)
    assert builder.getVirtualGraph({a, b}) == builder.getVirtualGraph(a) == builder.getVirtualGraph([a, b]) == 3
    c = builder.aiOnnx.relu(["x"])
    builder.virtualGraph([c], 2)
    assert builder.getVirtualGraph(c) == 2
    with builder.executionPhase():
        assert builder.getExecutionPhase() == 0


@pytest.mark.shows("popart.InitType", "popart.TensorRemapType", "popart.ScatterReduction")
def test_members_of_enumerations_become_numbers_of_attributes(builder):
    ops = builder.aiGraphcore
    for number, name in enumerate(("NoInit", "Zero")):
        made = ops.init([3], popart.DataType.INT32, popart.InitType[name], "made")
        assert builder.getInt64NodeAttribute("init_type", {made}) == number
    for number, name in enumerate(("FwdBwdReverse", "FwdBwd", "Fwd")):
        made = ops.tensorremap(["x"], popart.TensorRemapType[name])
        assert builder.getInt64NodeAttribute("remap_type", {made}) == number
    for name in ("Sum", "Max", "Min", "Mul"):
        made = ops.scatterreduce(["x", "x"], 2, reduction=popart.ScatterReduction[name])
        assert builder.getStringNodeAttribute("reduction", {made}) == name.lower()


@pytest.mark.shows(
    "popart.Builder.schedulePriority", "popart.Builder.recomputeOutput", "popart.Builder.outputTensorLocation",
    "popart.Builder.commGroup", "popart.TensorLocation", "popart.TensorStorage", "popart.ReplicatedTensorSharding",
)  # fmt: skip
def test_contexts_that_nest(builder):
    kinds, location = popart.RecomputeType, popart.TensorLocation
    off = location(popart.TensorStorage.OffChip, popart.ReplicatedTensorSharding.On)
    with (
        builder.schedulePriority(2),
        builder.outputTensorLocation(off),
        builder.commGroup(1, 4),
        builder.recomputeOutput(kinds.Recompute),
    ):
        a = builder.aiOnnx.relu(["x"])
        with (
            builder.schedulePriority(-1.5),
            builder.outputTensorLocation(location()),
            builder.commGroup(),
            builder.recomputeOutput(),
        ):
            b = builder.aiOnnx.relu(["x"])
        c = builder.aiOnnx.relu(["x"])
    names = (
        "__schedule_priority",
        "__output_tensor_location",
        "__collectiveCommGroup",
        "__recompute_output_in_backward_pass",
    )
    outer, inner = [2.0, [1, 0, 0, 1, 0, 0], [1, 4], 2], [-1.5, [0, 0, 0, 0, 0, 0], [0, 0], 0]
    assert [[values(builder, id)[name] for name in names] for id in (a, b, c)] == [outer, inner, outer]
    assert values(builder, builder.aiOnnx.relu(["x"])) == {}


@pytest.mark.shows("popart.Builder.outlineAttributes", "popart.KeyValueContextManager")
def test_outline_attributes_are_merged(builder):
    with builder.outlineAttributes({"a": "1", "b": "2"}):
        with builder.outlineAttributes({"b": "3", "c": "4"}):
            inner = builder.aiOnnx.relu(["x"])
        outer = builder.aiOnnx.relu(["x"])
    assert values(builder, inner)["__outline"] == [b"a", b"1", b"b", b"3", b"c", b"4"]
    assert values(builder, outer)["__outline"] == [b"a", b"1", b"b", b"2"]
    with pytest.raises(TypeError):
        builder.outlineAttributes({"a": 1})


@pytest.mark.shows(
    "popart.Builder.recomputeOutputInBackwardPass", "popart.Builder.getRecomputeOutputInBackwardPass",
    "popart.Builder.checkpointOutput",
)  # fmt: skip
def test_recomputation_of_nodes(builder):
    a, b = builder.aiOnnx.relu(["x"]), builder.aiOnnx.relu(["x"])
    builder.recomputeOutputInBackwardPass(a)
    builder.recomputeOutputInBackwardPass({b}, popart.RecomputeType.Checkpoint)
    assert builder.getRecomputeOutputInBackwardPass(a) and not builder.getRecomputeOutputInBackwardPass({b})
    builder.recomputeOutput(a, popart.RecomputeType.Checkpoint)
    assert not builder.getRecomputeOutputInBackwardPass(a)
    kept = builder.checkpointOutput([a, b])
    assert kept == ["Identity:0", "Identity:0/1"] and builder.getTensorShape(kept[0]) == [2, 2]
    wanted = {"__recompute_output_in_backward_pass": 1, "__exclude_patterns": [b"PreUniRepl", b"PostNRepl"]}
    assert values(builder, kept[0]) == wanted
    assert onnx.load_from_string(builder.getModelProto()).graph.node[-1].name == "Checkpoint"


@pytest.mark.shows("popart.Builder.excludePatterns")
def test_patterns_can_be_kept_from_nodes(builder):
    y = builder.aiOnnx.relu(["x"])
    builder.excludePatterns(y, ["InPlace", "OpToIdentity"])
    builder.outputTensorLocation(y, popart.TensorLocation(popart.TensorStorage.OffChip))
    assert values(builder, y) == {
        "__exclude_patterns": [b"InPlace", b"OpToIdentity"],
        "__output_tensor_location": [1, 0, 0, 0, 0, 0],
    }
    with pytest.raises(TypeError):
        builder.excludePatterns(y, "InPlace")


def conv(builder):
    data = builder.addInputTensor("FLOAT", [1, 2, 5, 5])
    return builder.aiOnnx.conv([data, builder.addInputTensor("FLOAT", [3, 2, 3, 3])])


@pytest.mark.shows(
    "popart.Builder.setPartialsType", "popart.Builder.getPartialsType", "popart.Builder.setAvailableMemoryProportion",
    "popart.Builder.setEnableConvDithering", "popart.Builder.setSerializeMatMul",
    "popart.Builder.setInplacePreferences",
)  # fmt: skip
def test_settings_of_products_and_convolutions(builder):
    product, window, other = builder.aiOnnx.matmul(["x", "x"]), conv(builder), builder.aiOnnx.relu(["x"])
    assert builder.getPartialsType(product) == "FLOAT"
    for id in (product, window):
        builder.setPartialsType(id, "HALF")
        builder.setAvailableMemoryProportion(id, 0.5)
        builder.setAvailableMemoryProportion({id}, 1)
        assert builder.getPartialsType(id) == "HALF" and values(builder, id)["__available_memory"] == 1.0
    builder.setEnableConvDithering(window, True)
    assert values(builder, window)["__enable_conv_dithering"] == 1
    builder.setSerializeMatMul({product}, "reducing_dim", 4, True)
    names = ("__serialize_matmul_mode", "__serialize_matmul_factor", "__serialize_matmul_precision")
    assert [values(builder, product)[name] for name in names] == [b"reducing_dim", 4, 1]
    builder.setInplacePreferences(other, {"ReluInplace": 1000.0, "Other": -1})
    assert values(builder, other) == {
        "__inplace_op_names": [b"ReluInplace", b"Other"],
        "__inplace_op_priorities": [1000.0, -1.0],
    }


@pytest.mark.parametrize(
    "call, message",
    [
        (lambda b, p, c, r: b.setPartialsType(r, "HALF"), "comes from Relu; only Conv and MatMul"),
        (lambda b, p, c, r: b.getPartialsType(r), "comes from Relu"),
        *(
            (lambda b, p, c, r, v=v: b.setAvailableMemoryProportion(p, v), r"is not in \(0, 1\]")
            for v in (0, -0.5, 1.01)
        ),
        (lambda b, p, c, r: b.setEnableConvDithering(p, 1), "comes from MatMul; only Conv"),
        *((lambda b, p, c, r, v=v: b.setEnableConvDithering(c, v), "is neither 0 nor 1") for v in (2, -1, "1")),
        (lambda b, p, c, r: b.setSerializeMatMul({p}, "rows", 2), "'rows' is no mode"),
        (lambda b, p, c, r: b.setSerializeMatMul({r}, "none"), "comes from Relu"),
    ],
)
def test_settings_that_are_refused_at_once(builder, call, message):
    with pytest.raises(popart.popart_exception, match=message):
        call(builder, builder.aiOnnx.matmul(["x", "x"]), conv(builder), builder.aiOnnx.relu(["x"]))


@pytest.mark.shows("popart.DebugContext")
def test_calls_of_a_builder_are_recorded(builder, tmp_path):
    import json

    popart.initializePoplarDebugInfo(str(tmp_path / "info.json"), "json")
    y = builder.aiOnnx.relu(["x"], popart.DebugContext("mine"))
    popart.closePoplarDebugInfo()
    found = json.loads((tmp_path / "info.json").read_text())
    (context,) = found["contexts"]
    strings = found["stringTable"]
    assert (context["layer"], strings[context["name"]], context["opType"]) == (
        "popartbuilder",
        "mine",
        "ai.onnx.Relu",
    )
    assert context["id"] == builder.getInt64NodeAttribute("__debug_info_id", {y})
    assert strings[context["location"]["functionName"]] == "test_calls_of_a_builder_are_recorded"


def test_nodes_are_logged_at_trace(builder, capfd):
    logger = popart.getLogger("builder")
    try:
        logger.setLevel("DEBUG")
        builder.aiOnnx.relu(["x"])
        logger.setLevel("TRACE")
        builder.aiOnnx.abs(["x"])
    finally:
        logger.setLevel("WARN")
    text = capfd.readouterr().err
    assert "ai.onnx.Abs" in text and "ai.onnx.Relu" not in text


@pytest.mark.shows("popart.Builder.reshape_const")
def test_shapes_to_reshape_to_may_be_floats(builder):
    y = builder.reshape_const(builder.aiOnnx, ["x"], np.array([4.0, 1.0]), "mine")
    assert builder.getTensorShape(y) == [4, 1]
    assert [node.name for node in onnx.load_from_string(builder.getModelProto()).graph.node] == ["mine_const", "mine"]
