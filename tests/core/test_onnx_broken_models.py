"""Models and files that are broken: whatever is wrong, reading and compiling raise ipu_core.Error and nothing else."""

import os
import random
import re

import numpy
import onnx
import pytest
from google.protobuf.message import EncodeError

import ipu_core
from changed_models import changed
from onnx_models import ints, make_model, normal


def branch(kind):
    value = onnx.helper.make_tensor_value_info("b", onnx.TensorProto.UNDEFINED, None)
    return onnx.helper.make_graph([onnx.helper.make_node(kind, ["x"], ["b"])], kind, [], [value])


NODES = [
    ("Conv", ["x", "w"], ["c"], {"pads": [1, 1, 1, 1]}),
    ("Shape", ["x"], ["s"], {}),
    ("Gather", ["s", "i"], ["g"], {}),
    ("Concat", ["g", "rest"], ["n"], {"axis": 0}),
    ("Reshape", ["c", "n"], ["r"], {}),
    ("MatMul", ["r", "m"], ["y"], {}),
    ("If", ["yes"], ["z"], {"then_branch": branch("Relu"), "else_branch": branch("Neg")}),
    ("Slice", ["y", "rest", "end"], ["q"], {}),
    ("Cast", ["q"], ["h"], {"to": onnx.TensorProto.FLOAT16}),
]
CONSTANTS = {
    "w": normal(3, 2, 3, 3),
    "i": ints(-4),
    "rest": ints(-1),
    "m": normal(48, 2),
    "yes": numpy.array(True),
    "end": ints(2**63 - 1),
}


def model():
    return make_model(NODES, {"x": normal(1, 2, 4, 4)}, ["y", "z", "h"], 17, CONSTANTS)


def sweep(seeds):
    """How often changed models compiled and were refused."""
    data, compiled, refused = model().SerializeToString(), 0, 0
    for seed in seeds:
        try:
            broken = changed(random.Random(seed), data)
        except (EncodeError, ValueError):
            continue  # no such message can be written
        try:
            ipu_core.compile_model(ipu_core.read_onnx(broken))
            compiled += 1
        except ipu_core.Error:
            refused += 1
    return compiled, refused


def test_changed_models_compile_or_are_errors_of_this_package():
    compiled, refused = sweep(range(250))
    assert compiled > 30 and refused > 120


@pytest.mark.slow
def test_many_changed_models_compile_or_are_errors_of_this_package():
    compiled, refused = sweep(range(1000, 9000))
    assert compiled > 1000 and refused > 4000


def add_initialiser(**fields):
    return lambda made: made.graph.initializer.add(**fields)


FLOAT = onnx.TensorProto.FLOAT
BROKEN = {
    "two initialisers of one name": (
        lambda made: made.graph.initializer.append(made.graph.initializer[0]),
        "duplicate name: two initialisers of <model> are called 'w'",
    ),
    "an open size of a tensor": (
        add_initialiser(name="v", data_type=FLOAT, dims=[-1], float_data=[1, 2]),
        r"initialiser 'v' of <model> has the shape \[-1\]; no size is negative",
    ),
    "an open size among others": (
        add_initialiser(name="v", data_type=FLOAT, dims=[2, -1], float_data=[1, 2]),
        r"has the shape \[2, -1\]",
    ),
    "more elements than bytes": (
        add_initialiser(name="v", data_type=FLOAT, dims=[2**40, 2**40], raw_data=b"1234"),
        "initialiser 'v' of <model> cannot be read",
    ),
    "a tensor that is nowhere": (
        lambda made: onnx.external_data_helper.set_external_data(made.graph.initializer[0], "nowhere/w.bin"),
        "'w' of <model> cannot be read",
    ),
    "a negative size of an input": (
        lambda made: setattr(made.graph.input[0].type.tensor_type.shape.dim[0], "dim_value", -1),
        r"unknown size: input 'x' of <model> has shape \[-1, 2, 4, 4\]",
    ),
    "an input without a shape": (
        lambda made: made.graph.input[0].type.tensor_type.ClearField("shape"),
        "unknown size: input 'x' of <model> has no shape",
    ),
    "no graph": (lambda made: made.ClearField("graph"), "<model> holds no graph"),
    "an attribute of a function": (
        lambda made: setattr(made.graph.node[0].attribute[0], "ref_attr_name", "of_function"),
        "attribute 'pads' of Conv 'Conv_0' in <model> cannot be read",
    ),
}


@pytest.mark.parametrize("case", BROKEN)
def test_what_is_wrong_with_a_model_is_named(case):
    change, message = BROKEN[case]
    made = model()
    change(made)
    with pytest.raises(ipu_core.Error, match=message):
        ipu_core.read_onnx(made)


def test_graphs_without_end_are_refused():
    made = model()
    graph = made.graph
    for _ in range(120):
        graph = graph.node.add(op_type="If").attribute.add(name="then_branch", type=onnx.AttributeProto.GRAPH).g
    with pytest.raises(ipu_core.Error, match="graphs of <model> lie in each other more than 100 times"):
        ipu_core.read_onnx(made)


@pytest.mark.parametrize(
    "data, message",
    [
        (b"no model", "<model> is no ONNX model"),
        (b"", "<model> holds no graph"),
        (
            model().SerializeToString().replace(b"MatMul", b"Mat\xfful"),
            r"<model> has b'Mat\\xfful_5' in a field 'name', which is no",
        ),
        (7, "no model: int is neither a model, nor bytes, nor the name of a file"),
    ],
)
def test_bytes_that_are_no_model_are_refused(data, message):
    with pytest.raises(ipu_core.Error, match=message):
        ipu_core.read_onnx(data)


@pytest.mark.timeout(20)  # a pipe that is waited for would hang
def test_files_that_are_no_models_are_refused(tmp_path):
    pipe, text = tmp_path / "pipe.onnx", tmp_path / "text.onnx"
    os.mkfifo(pipe)
    text.write_text("no model")
    for path, message in (
        (pipe, f"cannot read file [IPU-E504]: {pipe}: not a regular file."),
        (tmp_path, f"cannot read file [IPU-E504]: {tmp_path}: not a regular file."),
        ("/dev/zero", "cannot read file [IPU-E504]: /dev/zero: not a regular file."),
        ("/dev/null", "cannot read file [IPU-E504]: /dev/null: not a regular file."),
        (tmp_path / "none", f"cannot read file [IPU-E504]: {tmp_path / 'none'}: No such file or directory."),
        (text / "inside", f"cannot read file [IPU-E504]: {text / 'inside'}: Not a directory."),
        ("a\0b", "cannot read file [IPU-E504]: a\0b: embedded null byte."),
        (text, f"unsupported model: {text} is no ONNX model: "),
    ):
        with pytest.raises(ipu_core.Error, match=re.escape(message)):
            ipu_core.read_onnx(path)


@pytest.mark.timeout(20)
def test_tensors_beside_a_model_are_regular_files_in_its_folder(tmp_path):
    made, path = model(), tmp_path / "model.onnx"
    onnx.save_model(made, path, save_as_external_data=True, location="w.bin", size_threshold=0)
    assert ipu_core.read_onnx(path)["graph"]["initialisers"]["w"].shape == (3, 2, 3, 3)
    (tmp_path / "w.bin").unlink()
    with pytest.raises(ipu_core.Error, match=f"the tensors beside {path} cannot be read"):
        ipu_core.read_onnx(path)
    os.mkfifo(tmp_path / "w.bin")
    with pytest.raises(ipu_core.Error, match=f"the tensors beside {path} cannot be read"):
        ipu_core.read_onnx(path)


def test_the_end_of_a_name_says_how_a_model_is_written(tmp_path):
    for end in ("onnx", "json", "textproto"):
        onnx.save(model(), tmp_path / f"model.{end}")
        records = ipu_core.read_onnx(tmp_path / f"model.{end}")
        assert [node["type"] for node in records["graph"]["nodes"]] == [kind for kind, *_ in NODES]
