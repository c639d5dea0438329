"""GraphTransformer and NumericsReport."""

import numpy as np
import onnx
import pytest

import popart
from popart._impl.builder import protos


def model(*arrays, op="Sum", outputs=1, **attributes):
    """A model that adds its initialisers w0, w1, ... with an input of their type."""
    names = [f"w{index}" for index in range(len(arrays))]
    kind = onnx.helper.np_dtype_to_tensor_dtype(arrays[0].dtype)
    node = onnx.helper.make_node(op, ["x", *names], [f"y{index}" for index in range(outputs)], "n", **attributes)
    inputs = [onnx.helper.make_tensor_value_info(name, kind, list(arrays[0].shape)) for name in ("x", "unused")]
    graph = onnx.helper.make_graph(
        [node], "g", inputs, [onnx.helper.make_tensor_value_info("y0", kind, list(arrays[0].shape))],
        [onnx.numpy_helper.from_array(array, name) for array, name in zip(arrays, names)],
    )  # fmt: skip
    return onnx.helper.make_model(graph, ir_version=4, opset_imports=[onnx.helper.make_opsetid("", 10)])


def changed(before, method, *arguments, **named):
    transformer = popart.GraphTransformer(before.SerializeToString())
    getattr(transformer, method)(*arguments, **named)
    return onnx.load_from_string(transformer.getModelProto())


T = onnx.TensorProto
CONVERSIONS = {
    "convertFloatsToHalfs": ("float32", T.FLOAT16, "float16"),
    "convertDoublesToFloats": ("float64", T.FLOAT, "float32"),
    "convertDoublesToHalfs": ("float64", T.FLOAT16, "float16"),
    "convertUINT8ToINT32": ("uint8", T.INT32, "int32"),
    "convertUINT16ToINT32": ("uint16", T.INT32, "int32"),
    "convertINT8ToINT32": ("int8", T.INT32, "int32"),
    "convertINT16ToINT32": ("int16", T.INT32, "int32"),
    "convertINT64ToINT32": ("int64", T.INT32, "int32"),
}


@pytest.mark.shows(*(f"popart.GraphTransformer.{name}" for name in CONVERSIONS))
@pytest.mark.parametrize("method", CONVERSIONS)
def test_element_types_are_converted(method):
    before, number, after = CONVERSIONS[method]
    data = np.array([1, 2.5, 100]).astype(before)
    source = model(data)
    constant = onnx.helper.make_node("Constant", [], ["c"], value=onnx.numpy_helper.from_array(data))
    source.graph.node.append(constant)
    found = changed(source, method)
    types = [value.type.tensor_type.elem_type for value in (*found.graph.input, *found.graph.output)]
    assert types == [number] * 3 and [value.name for value in found.graph.input] == ["x", "unused"]
    for tensor in (found.graph.initializer[0], found.graph.node[1].attribute[0].t):
        assert tensor.data_type == number and np.array_equal(protos.to_array(tensor), data.astype(after))
        assert tensor.HasField("raw_data") == (after == "float16")
        assert len(tensor.int32_data) == (3 if after == "int32" else 0) and len(tensor.float_data) == (
            3 if after == "float32" else 0
        )


@pytest.mark.shows("popart.GraphTransformer", "popart.GraphTransformer.getModelProto")
def test_converted_models_can_be_extended():
    builder = popart.Builder(changed(model(np.ones(3, np.float32)), "convertFloatsToHalfs").SerializeToString())
    y = builder.aiOnnx.relu(["y0"])
    assert builder.getTensorDtypeString(y) == "float16" and builder.getTensorShape(y) == [3]


@pytest.mark.shows("popart.GraphTransformer.convertBFloats16ToFloat32")
def test_bfloat16_becomes_float():
    source = model(np.ones(2, np.float32))
    for value in (*source.graph.input, *source.graph.output):
        value.type.tensor_type.elem_type = T.BFLOAT16
    source.graph.initializer[0].data_type, source.graph.initializer[0].raw_data = (
        T.BFLOAT16,
        np.array([0x3FC0, 0xC000], "<u2").tobytes(),
    )
    found = changed(source, "convertBFloats16ToFloat32")
    values = (*found.graph.input, *found.graph.output)
    assert {value.type.tensor_type.elem_type for value in values} == {T.FLOAT} == {found.graph.initializer[0].data_type}
    assert protos.to_array(found.graph.initializer[0]).tolist() == [1.5, -2.0]


def test_whole_numbers_out_of_range_are_refused_or_clipped():
    source = model(np.array([5, 2**40, -(2**40)]))
    with pytest.raises(
        popart.popart_exception, match="2 numbers of 'w0' are out of the range of INT32, the first is 1099511627776"
    ):
        changed(source, "convertINT64ToINT32")
    found = changed(source, "convertINT64ToINT32", clip=True)
    assert protos.to_array(found.graph.initializer[0]).tolist() == [5, 2**31 - 1, -(2**31)]


@pytest.mark.shows("popart.GraphTransformer.removeUnusedInputs")
def test_unused_inputs_are_removed():
    source = model(np.ones(3, np.float32))
    source.graph.initializer.append(onnx.numpy_helper.from_array(np.ones(3, np.float32), "spare"))
    found = changed(source, "removeUnusedInputs")
    assert [value.name for value in found.graph.input] == ["x"] and [t.name for t in found.graph.initializer] == ["w0"]


@pytest.mark.shows("popart.GraphTransformer.prepareNodesForTraining")
def test_batch_normalisation_is_prepared_for_training():
    source = model(*[np.ones(3, np.float32)] * 4, op="BatchNormalization")
    found = changed(source, "prepareNodesForTraining")
    assert list(found.graph.node[0].output) == ["y0", *(f"BatchNormalization_n_oi{index}" for index in range(1, 5))]


@pytest.mark.shows(
    "popart.GraphTransformer.convertInitializersToConstants",
    "popart.GraphTransformer.convertAllFixedPointInitializersToConstants",
)  # fmt: skip
def test_initialisers_become_constants():
    source = model(np.ones(3, np.float32), np.ones(3, np.float32))
    found = changed(source, "convertInitializersToConstants", ["w1"])
    assert [t.name for t in found.graph.initializer] == ["w0"] and found.graph.node[0].output[0] == "w1"
    with pytest.raises(popart.popart_exception, match="'q' is no initialiser; these are: w0, w1"):
        changed(source, "convertInitializersToConstants", ["q"])
    assert len(changed(source, "convertAllFixedPointInitializersToConstants").graph.initializer) == 2
    fixed = changed(model(np.ones(3, np.int32)), "convertAllFixedPointInitializersToConstants")
    assert not fixed.graph.initializer and popart.Builder(fixed.SerializeToString()).getTensorShape("w0") == [3]


@pytest.mark.shows("popart.GraphTransformer.saveInitializersExternally")
def test_initialisers_are_kept_in_a_file(tmp_path):
    data = np.arange(3, dtype=np.float32)
    found = changed(model(data), "saveInitializersExternally", ["w0"], str(tmp_path / "d"))
    assert (tmp_path / "d").read_bytes() == data.tobytes() and found.graph.initializer[0].data_location == T.EXTERNAL


def test_graphs_in_attributes_are_refused():
    source = model(np.ones(3, np.float32))
    inner = onnx.helper.make_graph(
        [onnx.helper.make_node("Relu", ["x"], ["z"])], "inner", [], [onnx.ValueInfoProto(name="z")]
    )
    inner.output[0].CopyFrom(onnx.helper.make_tensor_value_info("z", 1, [3]))
    source.graph.node.append(onnx.helper.make_node("Mine", ["x"], ["m"], domain="org.demo", body=inner))
    source.opset_import.add(domain="org.demo", version=1)
    with pytest.raises(popart.popart_exception, match="Mine .*has a graph as attribute 'body'"):
        changed(source, "convertFloatsToHalfs")


@pytest.mark.shows(
    "popart.NumericsReport", "popart.NumericsReport.report", "popart.NumericsReport.fullReport",
    "popart.NumericsReport.getRelativeErrors",
)  # fmt: skip
def test_trainings_are_compared(tmp_path):
    start = np.array([1.0, 2.0], np.float32)
    names = []
    for index, moved in enumerate(([0, 0], [3, 4], [0, 0], [3, 3.5])):
        names.append(str(tmp_path / f"{index}.onnx"))
        onnx.save(model(start + np.array(moved, np.float32)), names[-1])
    report = popart.NumericsReport(*names)
    error = 0.25 / (5 * np.sqrt(9 + 3.5**2) + 1e-8)
    assert report.getRelativeErrors() == {"w0": pytest.approx(error, rel=1e-6)}
    assert report.report("w0").startswith("w0: |dA| 5, ") and report.fullReport() == report.report("w0")
    with pytest.raises(popart.popart_exception, match="'v' is no weight of these models; there are w0"):
        report.report("v")
    onnx.save(model(np.ones(5, np.float32)), names[1])
    with pytest.raises(popart.popart_exception, match="differ in their initialisers"):
        popart.NumericsReport(*names)
