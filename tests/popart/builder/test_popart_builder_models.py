"""What models a Builder loads, writes and refuses."""

import typing

import numpy as np
import onnx
import onnx.numpy_helper
import pytest

import ipu_core
import popart
from popart._impl.builder import protos


def small(version=10):
    builder = popart.Builder(opsets={"ai.onnx": version, "ai.graphcore": 1})
    x = builder.addInputTensor("FLOAT", [2, 3], "x")
    w = builder.addInitializedInputTensor(np.arange(12, dtype=np.float32).reshape(3, 4), "w")
    builder.addOutputTensor(builder.aiOnnx.matmul([x, w]))
    return builder


def parsed(builder):
    return onnx.load_from_string(builder.getModelProto())


@pytest.mark.parametrize("version", range(6, 12))
@pytest.mark.shows("popart.builder.Builder")
def test_headers_name_the_versions_that_are_used(version):
    model = parsed(small(version))
    assert model.ir_version == (3 if version <= 8 else 4)
    assert [(entry.domain, entry.version) for entry in model.opset_import] == [("", version)]
    assert parsed(popart.Builder()).ir_version == 4 and not parsed(popart.Builder()).opset_import


def test_domains_are_imported_when_they_are_used():
    builder = small()
    y = builder.aiGraphcore.gelu(["x"])
    builder.customOp("Mine", 3, "org.demo", [y], {})
    assert {entry.domain: entry.version for entry in parsed(builder).opset_import} == {
        "": 10,
        "ai.graphcore": 1,
        "org.demo": 1,
    }


@pytest.mark.shows("popart.builder.Opset", "popart.builder.AiOnnx", "popart.builder.AiGraphcore")
@pytest.mark.shows(
    "popart.Builder.aiOnnxOpset9", "popart.Builder.aiOnnxOpset10", "popart.Builder.aiOnnxMl",
    "popart.Builder.aiOnnxMlOpset1", "popart.Builder.aiGraphcoreOpset1", "popart.defaultAiOnnxOpset",
)  # fmt: skip
def test_the_first_accessor_fixes_the_version():
    builder = popart.Builder()
    assert str(builder.aiOnnxOpset9) == "AiOnnx9" and builder.aiOnnx is builder.aiOnnxOpset9
    with pytest.raises(RuntimeError, match="invalid opset 10 of ai.onnx: it is already defined as 9"):
        builder.aiOnnxOpset10
    assert str(popart.Builder().aiOnnx) == f"AiOnnx{popart.defaultAiOnnxOpset}" == "AiOnnx10"
    assert str(builder.aiGraphcore) == "AiGraphcore" and builder.aiGraphcoreOpset1 is builder.aiGraphcore
    assert builder.aiOnnxMl is builder.aiOnnxMlOpset1
    assert str(builder.createSubgraphBuilder().aiOnnx) == "AiOnnx9"


@pytest.mark.shows("popart._BuilderCore")
def test_native_versions_do_not_mix_either():
    core = popart._BuilderCore()
    x = core.addInputTensor("FLOAT", [2])
    popart.AiOnnxOpset9(core).relu([x])
    with pytest.raises(popart.popart_exception, match="invalid opset 10 of ai.onnx for Relu.*already defined as 9"):
        popart.AiOnnxOpset10(core).relu([x])


@pytest.mark.shows(
    "popart.AiOnnxOpset6", "popart.AiOnnxOpset7", "popart.AiOnnxOpset8", "popart.AiOnnxOpset9", "popart.AiOnnxOpset10",
    "popart.AiOnnxOpset11", "popart.builder.AiOnnx6", "popart.builder.AiOnnx7", "popart.builder.AiOnnx8",
    "popart.builder.AiOnnx9", "popart.builder.AiOnnx10", "popart.builder.AiOnnx11",
)  # fmt: skip
@pytest.mark.parametrize("version", range(6, 12))
def test_the_class_of_a_version_makes_nodes_of_that_version(version):
    for kind in (getattr(popart, f"AiOnnxOpset{version}"), getattr(popart.builder, f"AiOnnx{version}")):
        builder = popart.Builder()
        assert kind(builder).relu([builder.addInputTensor("FLOAT", [2])]) == "Relu:0"
        proto = parsed(builder)
        assert [node.op_type for node in proto.graph.node] == ["Relu"]
        assert {entry.domain: entry.version for entry in proto.opset_import}[""] == version


def test_tools_find_the_classes_of_the_opsets():
    kinds = typing.get_args(popart.Builder.__getattr__.__annotations__["return"])
    assert kinds == tuple(getattr(popart, f"AiOnnxOpset{version}") for version in range(6, 12))


@pytest.mark.parametrize(
    "opsets, error",
    [
        ({"ai.onnx": 9}, KeyError),
        ({"ai.graphcore": 1}, KeyError),
        ({"ai.onnx": 12, "ai.graphcore": 1}, ValueError),
        ({"ai.onnx": 5, "ai.graphcore": 1}, ValueError),
        ({"ai.onnx": 9, "ai.graphcore": 2}, ValueError),
        ({"ai.onnx": 9, "ai.graphcore": 1, "ai.onnx.ml": 2}, ValueError),
    ],
)
def test_versions_that_there_are_not(opsets, error):
    with pytest.raises(error):
        popart.Builder(opsets=opsets)


@pytest.mark.shows("popart.Builder.getModelProto", "popart.Builder.saveModelProto")
def test_a_loaded_model_keeps_its_bytes_until_something_is_added(tmp_path):
    model = onnx.load_from_string(small().getModelProto())
    entry = model.metadata_props.add()
    entry.key, entry.value = "mine", "kept"
    model.producer_name = "somebody"
    data = model.SerializeToString() + b"\xf8\x7f\x01"  # and a field that nobody knows
    (tmp_path / "m.onnx").write_bytes(data)
    for source in (data, str(tmp_path / "m.onnx")):
        builder = popart.Builder(source)
        assert builder.getTensorShape("MatMul:0") == [2, 4] and builder.getModelProto() == data
        assert builder.getInputTensorIds() == ["x", "w"] and builder.getTrainableTensorIds() == ["w"]
        y = builder.aiOnnx.relu(["MatMul:0"])
        assert y == "Relu:0" and builder.getTensorShape(y) == [2, 4] and len(parsed(builder).graph.node) == 2
        assert builder.aiOnnx.matmul(["x", "w"]) == "MatMul:0/1" and builder.getValueTensorIds() == [
            "MatMul:0",
            "Relu:0",
            "MatMul:0/1",
        ]
    builder = popart.Builder(str(tmp_path / "m.onnx"))
    builder.saveModelProto(str(tmp_path / "copy.onnx"))
    assert (tmp_path / "copy.onnx").read_bytes() == data


def test_types_of_a_loaded_model_without_any_are_inferred():
    model = parsed(small())
    del model.graph.value_info[:]
    model.graph.output[0].ClearField("type")
    model.graph.output[0].type.tensor_type.elem_type = 1
    del model.graph.output[:]
    model.graph.output.add().CopyFrom(onnx.helper.make_tensor_value_info("z", 1, [2, 4]))
    model.graph.node.add().CopyFrom(onnx.helper.make_node("Relu", ["MatMul:0"], ["z"]))
    builder = popart.Builder(model.SerializeToString())
    assert builder.getTensorShape("MatMul:0") == [2, 4] and builder.getValueTensorIds() == ["MatMul:0", "z"]


def test_models_of_other_tools_load():
    graph = onnx.helper.make_graph(
        [onnx.helper.make_node("Add", ["x", "w"], ["y"])],
        "g",
        [onnx.helper.make_tensor_value_info("x", 1, [3])],
        [onnx.helper.make_tensor_value_info("y", 1, [3])],
        [onnx.numpy_helper.from_array(np.ones(3, np.float32), "w")],
    )
    model = onnx.helper.make_model(graph, ir_version=6, opset_imports=[onnx.helper.make_opsetid("", 11)])
    builder = popart.Builder(model.SerializeToString())
    assert (
        builder.getInputTensorIds() == ["x"]
        and builder.getTrainableTensorIds() == ["w"]
        and str(builder.aiOnnx) == "AiOnnx11"
    )
    model.opset_import[0].domain = "ai.onnx"
    assert str(popart.Builder(model.SerializeToString()).aiOnnx) == "AiOnnx11"


@pytest.mark.parametrize("load", [popart.Builder, popart.GraphTransformer])
def test_what_is_no_model_is_refused(load, tmp_path):
    for broken in (b"no model", b"", "/no/such/file.onnx", str(tmp_path), small().getModelProto()[:-7]):
        with pytest.raises(popart.popart_exception, match="is no ONNX model"):
            load(broken)
    for version in (5, 12):
        model = parsed(small())
        model.opset_import[0].version = version
        with pytest.raises(
            popart.popart_exception, match=f"opset {version} of ai.onnx; versions 6 to 11.*10 is the default"
        ):
            load(model.SerializeToString())


def test_what_the_onnx_checker_refuses_is_a_runtime_error(tmp_path):
    model = parsed(small())
    model.graph.node[0].input[0] = "nowhere"
    with pytest.raises(RuntimeError, match="nowhere") as caught:
        popart.Builder(model.SerializeToString())
    assert type(caught.value) is RuntimeError
    builder = popart.Builder()
    builder.addOutputTensor(builder.addInputTensor("FLOAT", [2]))
    with pytest.raises(RuntimeError, match="opset_import"):
        builder.saveModelProto(str(tmp_path / "m.onnx"))
    assert not (tmp_path / "m.onnx").exists()
    with pytest.raises(popart.popart_exception, match="cannot be written"):
        small().saveModelProto(str(tmp_path / "no" / "m.onnx"))


STORED = {
    "float32": "float_data",
    "int32": "int32_data",
    "int64": "int64_data",
    "uint32": "uint64_data",
    "uint64": "uint64_data",
    **dict.fromkeys(("float16", "int8", "uint8", "int16", "uint16", "bool"), "int32_data"),
}


@pytest.mark.parametrize("dtype", STORED)
def test_data_of_variables_are_in_the_typed_field(dtype):
    data = (np.arange(7) - (0 if dtype[0] in "ub" else 3)).astype(dtype)
    builder = popart.Builder()
    builder.addInitializedInputTensor(np.stack([data, data])[:, ::2], "w")
    builder.addInitializedInputTensor(np.array(data[1]), "s")
    graph = parsed(builder).graph
    entries = getattr(graph.initializer[0], STORED[dtype])
    assert len(entries) == (-(-8 * data.itemsize // 4) if data.itemsize < 4 else 8) and not graph.initializer[
        0
    ].HasField("raw_data")
    for tensor, wanted in zip(graph.initializer, (np.stack([data, data])[:, ::2], data[1])):
        assert np.array_equal(protos.to_array(tensor), wanted) and protos.to_array(tensor).dtype == wanted.dtype
        usual = onnx.numpy_helper.from_array(np.asarray(wanted), "w")
        assert np.array_equal(protos.to_array(usual), wanted)
    if data.itemsize == 2:
        assert (
            np.frombuffer(np.array(entries, "<i4").tobytes(), dtype).tolist()
            == np.stack([data, data])[:, ::2].reshape(-1).tolist()
        )


def test_read_onnx_reads_packed_elements():
    data = np.array([1.5, -2, 65504], np.float16)
    builder = popart.Builder()
    builder.addInitializedInputTensor(data, "w")
    builder.addOutputTensor(builder.aiOnnx.relu(["w"]))
    assert np.array_equal(ipu_core.read_onnx(builder.getModelProto())["graph"]["initialisers"]["w"], data)


@pytest.mark.parametrize("dtype", ["float64", "complex64", "complex128"])
def test_element_types_that_no_variable_has(dtype):
    with pytest.raises(popart.popart_exception, match="unsupported data type for initialised data"):
        popart.Builder().addInitializedInputTensor(np.ones(2, dtype))
    with pytest.raises(TypeError, match="incompatible function arguments"):
        popart.Builder().addInitializedInputTensor([1.0])


def test_variables_are_copied():
    data, builder = np.ones(3, np.float32), popart.Builder()
    builder.addInitializedInputTensor(data, "w")
    data[:] = 7
    assert protos.to_array(parsed(builder).graph.initializer[0]).tolist() == [1, 1, 1]


@pytest.mark.shows(
    "popart.Builder.embedReplicationFactor", "popart.InputSettings", "popart.ReplicatedStreamMode", "popart.TileSet",
    "popart.ExchangeStrategy",
)  # fmt: skip
def test_settings_of_inputs_and_variables_are_in_the_metadata():
    builder, kinds = popart.Builder(), popart.CommGroupType
    settings = popart.InputSettings(
        popart.TileSet.IO, popart.ExchangeStrategy.OverlapLoops, popart.ReplicatedStreamMode.Broadcast
    )
    x = builder.addInputTensor("FLOAT", [2], settings, "x")
    own = popart.InputSettings(
        popart.TileSet.IO, popart.ExchangeStrategy.OverlapLoops, popart.ReplicatedStreamMode.Replicate
    )
    y = builder.addInputTensor(popart.TensorInfo("FLOAT", [2]), settings=own, debugContext="y")
    w = builder.addInitializedInputTensor(
        np.ones((2, 3), np.float32), popart.VariableSettings(popart.CommGroup(kinds.Consecutive, 2)), "w"
    )
    builder.embedReplicationFactor(4)
    builder.embedReplicationFactor(8)
    found = {entry.key: entry.value for entry in parsed(builder).metadata_props}
    assert found["__replicationFactor"] == "8" and int(found[f"__debug_id/input/{x}"]) > 0
    keys = ("tile_set", "exchange_strategy", "replicated_stream_mode")
    for id, mode in ((x, "0"), (y, "1")):
        assert [found[f"__{key}/{id}"] for key in keys] == ["1", "2", mode]
    assert [found[f"__{key}/{w}"] for key in ("variable_settings", "comm_group_type", "comm_group_size")] == [
        "0",
        "1",
        "2",
    ]
    assert builder.getTensorShape(w) == [2, 3]


@pytest.mark.shows("popart.Builder.saveInitializersExternally")
def test_data_of_variables_can_be_kept_in_a_file(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    builder, half = small(), np.array([1, 2, 3], np.float16)
    builder.addInitializedInputTensor(half, "h")
    builder.saveInitializersExternally(["h", "w"], "data.bin")
    weights = np.arange(12, dtype=np.float32).tobytes()
    assert (tmp_path / "data.bin").read_bytes() == half.tobytes() + weights
    tensors = {t.name: t for t in parsed(builder).graph.initializer}
    entries = {e.key: e.value for e in tensors["w"].external_data}
    assert (
        entries == {"location": "data.bin", "offset": "6", "length": str(len(weights))} and not tensors["w"].float_data
    )
    loaded = popart.Builder(builder.getModelProto())
    assert loaded.getTensorShape("w") == [3, 4] and np.array_equal(protos.to_array(tensors["h"]), half)
    with pytest.raises(popart.popart_exception, match="'h' are already external"):
        loaded.saveInitializersExternally(["h"], "other.bin")
    (tmp_path / "data.bin").unlink()
    with pytest.raises(RuntimeError, match="data.bin") as caught:
        popart.Builder(builder.getModelProto())
    assert type(caught.value) is RuntimeError


@pytest.mark.parametrize(
    "ids, name, message",
    [
        (["x"], "d", "'x' is no initialiser; these are: w"),
        (["w", "w"], "d", "'w' are already external"),
        (["w"], "no/d", "the folder '.*no' .*is not there"),
        (["empty"], "d", "'empty' has no data"),
    ],
)
def test_variables_that_cannot_be_kept_in_a_file(ids, name, message, tmp_path):
    builder = small()
    if ids == ["empty"]:
        builder.addInitializedInputTensor(np.ones((0,), np.float32), "empty")
    before = builder.getModelProto()
    with pytest.raises(popart.popart_exception, match=message):
        builder.saveInitializersExternally(ids, str(tmp_path / name))
    assert builder.getModelProto() == before and not list(tmp_path.iterdir())
