"""Models that sessions and builders refuse, and with what: the process goes on, and a good model runs afterwards."""

import os
import random

import numpy as np
import onnx
import pytest
from changed_models import changed
from google.protobuf.message import EncodeError
from onnx import TensorProto, helper
from popart_session_models import identity, inference, linear, step, training

import popart

W = np.arange(12, dtype=np.float32).reshape(3, 4)


@pytest.fixture(autouse=True)
def a_good_session_runs_afterwards():
    yield
    x = np.ones(2, np.float32)
    np.testing.assert_array_equal(step(inference(identity([2])), x=x)["y"], -x)


def proto():
    return onnx.load_from_string(linear(W))


def cyclic():
    made = proto()
    made.graph.node[0].input[0] = "loss"
    return made


def without_initialiser():
    made = proto()
    del made.graph.initializer[:]
    del made.graph.input[1]
    return made


def two_nodes_of_one_name():
    made = proto()
    made.graph.node.append(made.graph.node[0])
    return made


def without_nodes_type():
    made = proto()
    made.graph.node[0].op_type = ""
    return made


RULES_OF_ONNX = {  # what the checker says, and what sessions do, which do not ask it
    "a cycle": (cyclic, "'loss'", "cycle.*'y'.*'loss'"),
    "an initialiser that is missing": (without_initialiser, "'w'", "reads 'w', which is no input"),
    "two nodes with one output": (two_nodes_of_one_name, "'y'", "gives 'y', and so does"),
    "a node without a type": (without_nodes_type, "", "no class for"),
}


def an_output_without_a_shape():
    made = proto()
    made.graph.output.append(onnx.helper.make_tensor_value_info("y", TensorProto.FLOAT, None))
    return made


def an_input_without_a_shape():
    made = proto()
    made.graph.input[0].type.tensor_type.ClearField("shape")
    return made


def an_output_without_a_type():
    made = proto()
    made.graph.output.add(name="y")
    return made


TYPES_OF_VALUES = {
    "an output without a shape": (an_output_without_a_shape, "output 'y': Field 'shape' of 'type' is required"),
    "an input without a shape": (an_input_without_a_shape, "input 'x': Field 'shape' of 'type' is required"),
    "an output without a type": (an_output_without_a_type, "output 'y': Field 'type' of 'value_info'"),
}


@pytest.mark.parametrize("make", [popart.Builder, popart.GraphTransformer])
@pytest.mark.parametrize("case", RULES_OF_ONNX)
def test_what_breaks_rules_of_onnx_is_a_runtime_error(case, make):
    build, message, _ = RULES_OF_ONNX[case]
    with pytest.raises(RuntimeError, match=f"checker refuses the model.*{message}") as raised:
        make(build().SerializeToString())
    assert raised.type is RuntimeError


@pytest.mark.parametrize("make", [popart.Builder, popart.GraphTransformer])
@pytest.mark.parametrize("case", TYPES_OF_VALUES)
def test_the_checker_names_the_value_whose_type_is_wrong(case, make):
    build, message = TYPES_OF_VALUES[case]
    with pytest.raises(RuntimeError, match=f"checker refuses the model: {message}") as raised:
        make(build().SerializeToString())
    assert raised.type is RuntimeError


@pytest.mark.parametrize("make", [inference, training])
@pytest.mark.parametrize("case", RULES_OF_ONNX)
def test_sessions_refuse_what_they_cannot_build(case, make):
    build, _, message = RULES_OF_ONNX[case]
    with pytest.raises(popart.popart_exception, match=message):
        make(build().SerializeToString())


def without_types(value):
    value.ClearField("type")


def without_shapes(value):
    value.type.tensor_type.ClearField("shape")


def of_no_type(value):
    value.type.tensor_type.elem_type = TensorProto.UNDEFINED


def of_another_type(value):
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.INT32, [7, 7, 7]))


@pytest.mark.parametrize("change", [without_types, without_shapes, of_no_type, of_another_type])
@pytest.mark.parametrize("entries", ["output", "value_info"])
def test_sessions_derive_types_themselves(change, entries):
    made = proto()
    value = getattr(made.graph, entries).add(name="y")
    value.type.CopyFrom(helper.make_tensor_type_proto(TensorProto.FLOAT, [2, 4]))
    change(value)
    x = np.ones((2, 3), np.float32)
    session = inference(made.SerializeToString())
    assert session.getInfo("y").shape() == [2, 4]
    np.testing.assert_allclose(step(session, x=x)["y"], x @ W)
    assert step(training(made.SerializeToString()), x=x)["loss"] == (x @ W).sum()


def unknown_operator():
    made = proto()
    made.graph.node[0].op_type = "Hardmax"
    del made.graph.node[0].input[1]
    return made


def shapes_that_do_not_fit():
    made = proto()
    made.graph.input[0].type.tensor_type.shape.dim[1].dim_value = 5
    return made


def open_shape():
    made = proto()
    made.graph.input[0].type.tensor_type.shape.dim[0].dim_param = "rows"
    return made


def no_such_type():
    made = proto()
    made.graph.input[0].type.tensor_type.elem_type = 99
    return made


def types_that_do_not_fit():
    made = proto()
    made.graph.input[0].type.tensor_type.elem_type = TensorProto.INT32
    return made


def unknown_operator_of_a_domain():
    made = proto()
    made.graph.node[0].op_type, made.graph.node[0].domain = "Own", "com.user"
    made.opset_import.add(domain="com.user", version=3)
    return made


def short_data():
    made = proto()
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-4]
    return made


def odd_data():
    made = proto()
    made.graph.initializer[0].raw_data = made.graph.initializer[0].raw_data[:-1]
    return made


def no_text():
    return proto().SerializeToString().replace(b"MatMul", b"Mat\xfful")


REFUSED = {
    "an operator that no session runs": (unknown_operator, "no class for ai.onnx.Hardmax:10"),
    "an operator of a domain that nobody registered": (unknown_operator_of_a_domain, "no class for com.user.Own:3"),
    "shapes that do not fit": (shapes_that_do_not_fit, "5"),
    "an open shape": (open_shape, "input 'x' .* has shape .*rows"),
    "no such element type": (no_such_type, "input 'x' .*type 99"),
    "types that do not fit": (types_that_do_not_fit, "MatMul.* integer operands"),
    "too few elements": (short_data, r"'w' has 11 elements, but its shape \[3, 4\] has 12"),
    "half an element": (odd_data, "'w' has 47 bytes, which is no number of elements of 4 bytes"),
    "a name that is no text": (no_text, "which is no UTF-8"),
}


@pytest.mark.parametrize("make", [inference, training])
@pytest.mark.parametrize("case", REFUSED)
def test_what_no_session_can_run_is_a_popart_exception(case, make):
    build, message = REFUSED[case]
    made = build()
    with pytest.raises(popart.popart_exception, match=message):
        make(made if isinstance(made, bytes) else made.SerializeToString())


def test_no_device_has_doubles():
    session = inference(identity([2], TensorProto.DOUBLE), prepare=False)
    with pytest.raises(
        popart.popart_exception, match="unsupported data type: '[xy]' is DOUBLE.*convertDoublesToFloats"
    ):
        session.prepareDevice()
    transformer = popart.GraphTransformer(identity([2], TensorProto.DOUBLE))
    transformer.convertDoublesToFloats()
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(step(inference(transformer.getModelProto()), x=x)["y"], -x)


@pytest.mark.parametrize(
    "argument",
    ["fnModel", "dataFlow", "loss", "optimizer", "deviceInfo", "inputShapeInfo", "patterns", "userOptions", "name"],
)
def test_an_argument_of_another_class_is_a_type_error(argument):
    good = {
        "fnModel": linear(W), "dataFlow": popart.DataFlow(1, ["loss"]), "deviceInfo": popart.DeviceManager().createCpuDevice(),
        "inputShapeInfo": popart.InputShapeInfo(), "patterns": None, "userOptions": popart.SessionOptions(), "name": "it",
    }  # fmt: skip
    of_training = {"loss": "loss", "optimizer": popart.ConstSGD(0.1)}
    with pytest.raises(TypeError, match=f"incompatible constructor arguments: {argument} is a .*, not float"):
        popart.TrainingSession(**good | of_training | {argument: 1.5})
    if argument not in of_training:
        with pytest.raises(TypeError, match=f"incompatible constructor arguments: {argument} is a .*, not float"):
            popart.InferenceSession(**good | {argument: 1.5})


@pytest.mark.parametrize("of_nodes", ["", "ai.onnx"])
@pytest.mark.parametrize("of_version", ["", "ai.onnx"])
def test_ai_onnx_goes_by_two_names(of_nodes, of_version):
    made = onnx.load_from_string(identity([2]))
    made.graph.node[0].domain, made.opset_import[0].domain = of_nodes, of_version
    builder = popart.Builder(made.SerializeToString())
    y = builder.aiOnnx.add(["y", "x"])
    x = np.array([1, -2], np.float32)
    np.testing.assert_array_equal(step(inference(made.SerializeToString()), x=x)["y"], -x)
    np.testing.assert_array_equal(step(inference(builder.getModelProto(), anchors=[y]), x=x)[y], [0, 0])


@pytest.mark.parametrize("make", [popart.Builder, inference, training])
def test_files_that_end_early(make, tmp_path):
    data, path = linear(W), tmp_path / "model.onnx"
    graph_alone = proto()
    del graph_alone.opset_import[:]  # which comes last: without it, it is a model of opset 1
    for end in range(0, graph_alone.ByteSize(), 7):
        path.write_bytes(data[:end])
        with pytest.raises((popart.popart_exception, RuntimeError)):
            make(str(path))
            raise AssertionError(f"{end} bytes of {len(data)} are taken for a model")


def external(**entries):
    made = proto()
    tensor = made.graph.initializer[0]
    tensor.ClearField("raw_data")
    tensor.data_location = TensorProto.EXTERNAL
    for key, value in entries.items():
        tensor.external_data.add(key=key, value=value)
    return made.SerializeToString()


@pytest.mark.parametrize(
    ("entries", "message"),
    [
        ({}, "'w' are external, but no location is given"),
        ({"offset": "4"}, "should be 48 bytes|'w' has 11 elements"),
        ({"length": "44"}, "'w' has 11 elements"),
        ({"length": "9999"}, "should be 9999 bytes of the file .* from 0 on, and it has 48"),
        ({"offset": "1", "length": "48"}, "should be 48 bytes of the file .* from 1 on, and it has 48"),
        ({"offset": "-4"}, "the offset of the external data of tensor 'w' is '-4'"),
        ({"length": "many"}, "the length of the external data of tensor 'w' is 'many'"),
    ],
)
def test_data_in_a_file_that_does_not_hold_them(entries, message, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "w.bin").write_bytes(W.tobytes())
    place = {"location": str(tmp_path / "w.bin")} if entries else {}
    with pytest.raises(popart.popart_exception, match=message):
        inference(external(**place, **entries))


def test_data_lie_in_the_folder_of_the_model_or_in_the_working_directory(tmp_path, monkeypatch):
    """Locations are read from the working directory, as published; that a model may not lead out of both is ours."""
    inner = tmp_path / "inner"
    inner.mkdir()
    for file in (tmp_path / "w.bin", inner / "here.bin"):
        file.write_bytes(W.tobytes())
    (inner / "link.bin").symlink_to("../w.bin")
    monkeypatch.chdir(inner)
    x = np.ones((2, 3), np.float32)
    for location in ("here.bin", "../inner/here.bin", str(inner / "here.bin")):
        np.testing.assert_allclose(step(inference(external(location=location)), x=x)["y"], x @ W)
    for location in ("../w.bin", str(tmp_path / "w.bin"), "link.bin", "/proc/self/mem"):
        with pytest.raises(popart.popart_exception, match=f"'w' lie in '.*', which is outside of '{inner}'"):
            inference(external(location=location))
    model = tmp_path / "model.onnx"
    model.write_bytes(external(location="../w.bin"))
    np.testing.assert_allclose(step(inference(str(model)), x=x)["y"], x @ W)
    os.mkfifo("pipe")
    for location in ("w.bin", "..", "/dev/zero", "pipe", ""):
        with pytest.raises(RuntimeError, match="is not there|is no file") as raised:
            inference(external(location=location))
        assert raised.type is RuntimeError


def test_names_inside_a_builder_that_are_not_there():
    builder = popart.Builder()
    x = builder.addInputTensor("FLOAT", [2], "x")
    with pytest.raises(popart.popart_exception, match="nothing"):
        builder.aiOnnx.add([x, "nothing"])


# --- the other ways in and out of a session


@pytest.mark.timeout(60)  # a pipe that is waited for would hang
def test_a_model_is_written_to_regular_files_alone(tmp_path):
    session, pipe = training(linear(W)), tmp_path / "pipe"
    os.mkfifo(pipe)
    for path, message in (
        (tmp_path / "none" / "model.onnx", "cannot be written to '.*': .*No such file or directory"),
        (tmp_path, "regular file"),
        (pipe, "regular file"),
        ("/dev/null", "regular file"),
        ("a\0b", "cannot be written to '.*': embedded null byte"),
        ("", "cannot be written to '.*': .*No such file or directory"),
    ):
        with pytest.raises(popart.popart_runtime_error, match=message):
            session.modelToHost(path)
    session.modelToHost(tmp_path / "model.onnx")
    session.modelToHost(tmp_path / "model.onnx")  # a file that is there is written anew
    assert onnx.load(tmp_path / "model.onnx").graph.node[0].op_type == "MatMul"


def two_initialisers_of_one_name():
    made = proto()
    made.graph.initializer.append(made.graph.initializer[0])
    return made.SerializeToString()


def an_open_size():
    made = proto()
    made.graph.initializer[0].dims[1] = -1
    return made.SerializeToString()


@pytest.mark.parametrize(
    "make, message",
    [
        (two_initialisers_of_one_name, "two initialisers of <model> are called 'w'"),
        (an_open_size, "'w' has 12 elements, but its shape .*-1"),
    ],
)
def test_initialisers_that_cannot_be_meant_are_refused_everywhere(make, message):
    session = training(linear(W))
    for read in (inference, training, session.resetHostWeights):
        with pytest.raises((popart.popart_exception, RuntimeError), match=message):
            read(make())


def test_changed_models_are_refused_by_the_exceptions_of_popart():
    data, session = linear(W), training(linear(W))
    counts = {"taken": 0, "refused": 0}
    for seed in range(80):
        try:
            broken = changed(random.Random(seed), data)
        except (EncodeError, ValueError):
            continue  # no such message can be written
        for read in (session.resetHostWeights, lambda model: inference(model, prepare=False)):
            try:
                read(broken)
                counts["taken"] += 1
            except popart.popart_exception:
                counts["refused"] += 1
            except RuntimeError as error:
                assert type(error) is RuntimeError  # the checker of ONNX
                counts["refused"] += 1
    assert counts["taken"] > 20 and counts["refused"] > 20
