"""Elements of initialisers in the bytes of a model: found, taken out, put back."""

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import popart
from popart._impl.builder import tensor_data

REALS = np.arange(6, dtype=np.float32).reshape(2, 3)


def typed(name, kind, values):
    return helper.make_tensor(name, kind, [len(values)], values)


def in_a_file(name):
    tensor = TensorProto(name=name, data_type=TensorProto.FLOAT, dims=[2], data_location=TensorProto.EXTERNAL)
    tensor.external_data.add(key="location", value="weights.bin")
    return tensor


def model(tensors):
    graph = helper.make_graph([helper.make_node("Neg", ["x"], ["y"], name="n" * 200)], "g", [], [], tensors)
    return helper.make_model(graph, producer_name="tests", opset_imports=[helper.make_opsetid("", 10)], ir_version=6)


APART = [
    numpy_helper.from_array(REALS, "raw"),
    numpy_helper.from_array(np.arange(70000, dtype=np.int64), "long"),
    typed("reals", TensorProto.FLOAT, [1.5, -2.0]),
    typed("doubles", TensorProto.DOUBLE, [0.1]),
    numpy_helper.from_array(np.zeros((0, 3), np.float32), "empty"),
]
LEFT = [
    typed("integers", TensorProto.INT32, [1, -1]),
    typed("halves", TensorProto.FLOAT16, [0.5]),
    in_a_file("external"),
    TensorProto(name="nothing", data_type=TensorProto.FLOAT, dims=[0]),
    TensorProto(name="both", data_type=TensorProto.FLOAT, dims=[1], raw_data=b"1234", float_data=[1.0]),
    TensorProto(name="bfloat16", data_type=TensorProto.BFLOAT16, dims=[1], raw_data=b"12"),
]


def test_elements_are_taken_out_and_put_back():
    tensors = [tensor for pair in zip(LEFT, [*APART, LEFT[0]]) for tensor in pair]
    data = model(tensors).SerializeToString()
    rest, places = tensor_data.split(data)
    assert [tensors[number].name for number in places] == [tensor.name for tensor in APART]
    assert len(rest) < 1000 and not onnx.ModelProto.FromString(rest).graph.initializer[1].raw_data
    begin, end = places[1].begin, places[1].end
    assert data[begin:end] == REALS.tobytes()
    own = {number: (place.field, data[place.begin : place.end]) for number, place in places.items()}
    assert b"".join(tensor_data.join(rest, own)) == data  # protobuf writes fields in order of their numbers
    other = onnx.ModelProto.FromString(b"".join(tensor_data.join(rest, own | {1: (9, (2 * REALS).tobytes())})))
    np.testing.assert_array_equal(numpy_helper.to_array(other.graph.initializer[1]), 2 * REALS)
    assert b"".join(tensor_data.join(rest, {})) == rest


def test_bytes_that_are_no_usual_model_stay_as_they_are():
    data = model(APART).SerializeToString()
    graph = onnx.ModelProto(graph=onnx.GraphProto(name="more")).SerializeToString()
    for odd in (b"", b"\xff" * 20, data[:-1], data + graph, b"\x3a\x02\x2a\x05", b"\x38\x01", b"\x0f"):
        assert tensor_data.split(odd) == (odd, {})


@pytest.mark.shows("popart.InferenceSession", "popart.InferenceSession.modelToHost")
def test_a_session_reads_weights_in_the_bytes_of_the_model_and_writes_the_others_as_they_are(tmp_path):
    nodes = [helper.make_node("MatMul", ["x", "w"], ["h"]), helper.make_node("Add", ["h", "b"], ["y"])]
    tensors = [numpy_helper.from_array(REALS, "w"), typed("b", TensorProto.FLOAT, [1.0, 2.0, 3.0])]
    inputs = [helper.make_tensor_value_info("x", TensorProto.FLOAT, [1, 2])]
    made = model(tensors)
    made.graph.ClearField("node")
    made.graph.node.extend(nodes)
    made.graph.input.extend(inputs)
    data = made.SerializeToString()
    options = popart.SessionOptions()
    options.constantWeights = False
    session = popart.InferenceSession(
        data, popart.DataFlow(1, ["y"]), popart.DeviceManager().createCpuDevice(), userOptions=options
    )
    whole = np.frombuffer(data, np.uint8)
    assert all(np.shares_memory(value, whole) for value in session._weights.values.values())
    session.prepareDevice()
    session.writeWeights(popart.PyWeightsIO({"w": 2 * REALS}))
    session.weightsFromHost()
    session.modelToHost(str(tmp_path / "changed.onnx"))
    made.graph.initializer[0].raw_data = (2 * REALS).tobytes()
    assert (tmp_path / "changed.onnx").read_bytes() == made.SerializeToString()
