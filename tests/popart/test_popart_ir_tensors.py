"""popart._internal.ir: tensors, their types, data and places, and the table of a graph."""

import numpy
import pytest
from popart_ir_programs import Program, identifier, info

import popart
import popart._internal.ir as _ir


def test_a_tensor_stands_free_and_gets_its_type_later():
    """Any number of them have one id, also one that the graph has."""
    p = Program()
    for name in ("g/t", "g/t", "g/x"):
        t = _ir.Tensor(name, _ir.TensorType.ActGrad, p.graph)
        assert isinstance(t, _ir.Tensor) and str(t) == t.id == name and t.tensor_type() == "ActGrad"
        assert t.info.data_type() == "UNDEFINED" and t.info.shape() == []
        t.info = info(4, dtype="INT32")
        assert t.info == info(4, dtype="INT32")
        t.info.set(_ir.DataType.FLOAT16, [2, 2])
        assert t.info == info(2, 2, dtype="FLOAT16")
        assert t.getGraph() is p.graph is t.getGraph_const() and t.getIr() is p.ir is t.getIr_const()
        t.setTensorType(_ir.TensorType.Stream)
        assert t.tensorType() is _ir.TensorType.Stream and not t.hasTensorData() and not t.hasProducer()
        assert t.consumers.getTotal() == 0 and not t.isGraphInput() and not t.isModified()
        assert t.getReplicatedStreamMode() is popart.ReplicatedStreamMode.Replicate
        t.setReplicatedStreamMode(popart.ReplicatedStreamMode.Broadcast)
        assert t.getReplicatedStreamMode() is popart.ReplicatedStreamMode.Broadcast
        assert not t.hasVirtualGraphId() and t.getVirtualGraphIdUnsafe() == -1 and t.getBatchAxis() == -1
        assert t is not p.graph.getTensors()[0] and repr(t)
        with pytest.raises(popart.popart_exception, match="stands free"):
            t.dataAsFloat16()
    assert "g/t" not in p.graph and p.graph.getTensor("g/x").info == info(2, 3)
    op = p.graph.createOp_AddOp(identifier("Add"), p.settings("add"))
    with pytest.raises(popart.popart_exception, match="'g/x' stands free"):
        op.connectInTensor(0, t)


def test_a_clone_has_the_type_and_another_id():
    p = Program()
    clone = p.graph.getTensor("g/x").clone(p.graph)
    assert clone.id == "clone_g/x" and clone.info == info(2, 3)


def test_producers_and_readers():
    p = Program()
    op = p.op("Add", ["g/x", "g/x"], "g/z")
    reader = p.op("Exp", ["g/z"], "g/e")
    x, z = p.graph.getTensor("g/x"), p.graph.getTensor("g/z")
    assert not x.hasProducer() and z.hasProducer() and z.getProducer() is op
    assert x.consumers.getOps() == [op] and x.consumers.getTotal() == 2 and z.consumers.getOps() == [reader]
    with pytest.raises(popart.popart_exception, match="no op makes the tensor 'g/x'"):
        x.getProducer()


def test_the_place_of_a_tensor():
    p = Program()
    op = p.op("Exp", ["g/x"], "g/e")
    op.setVirtualGraphId(_ir.OptionalVGraphId(2))
    e, alone = p.graph.getTensor("g/e"), p.graph.getTensor("g/y")
    assert e.hasVirtualGraphId() and e.getVirtualGraphId() == 2
    assert e.getVirtualGraphIdAndTileSetUnsafe() == (2, _ir.TileSet.Compute)
    assert alone.getVirtualGraphIdUnsafe() == -1 and alone.getBatchAxis() == -1 and e.getBatchAxis() == 0
    with pytest.raises(popart.popart_exception, match="on which IPU the tensor 'g/y' is"):
        alone.getVirtualGraphId()


def test_writes_and_views_of_a_tensor():
    p = Program((4, 3))
    view = p.op("SliceInplace", ["g/x"], "g/v", [1], [3], [0], [1])
    write = p.op_in_place("ReluInplace", ["g/v"], "g/w")
    x, v = p.graph.getTensor("g/x"), p.graph.getTensor("g/v")
    assert x.isAliased() and x.isModified() and not p.graph.getTensor("g/y").isAliased()
    (region,) = x.modifiedRegionsByOps([view, write])
    assert (region.lower, region.upper) == ((1, 0), (3, 3)) and not region.isEmpty()
    assert x.modifiedRegionsByOps([view]) == []
    assert v.modifiedRegionsByOps([write]) == [_ir.view.Region.getFull([2, 3])]


def test_variables_keep_their_data_on_the_host():
    p = Program()
    data = numpy.float32([1, 2, 3])
    p.main.addVarInit("w", info(3), data, popart.VariableSettings(), "", False)
    p.main.addVarInit("copy", info(3), data)
    w, copy = p.ir.getTensor("w"), p.ir.getTensor("copy")
    data[0] = 7
    assert w.dataAsFloat32()[0] == 7 and copy.dataAsFloat32()[0] == 1
    w.dataAsFloat32()[1] = 9
    assert data[1] == 9
    w.writeTensorData(numpy.float32([4, 5, 6]), None)
    assert data.tolist() == [4, 5, 6]
    assert w.tensorType() is _ir.TensorType.Variable and w.hasTensorData() and w.isWeightTensor()
    with pytest.raises(popart.popart_exception, match="not C-contiguous"):
        w.writeTensorData(numpy.ones(6, numpy.float32)[::2], None)
    with pytest.raises(popart.popart_exception, match="8 bytes; 12 are needed"):
        w.writeTensorData(numpy.ones(2, numpy.float32), None)
    with pytest.raises(popart.popart_exception, match="FLOAT, not of INT32"):
        w.dataAsInt32()
    with pytest.raises(popart.popart_exception, match="no data on the host"):
        p.graph.getTensor("g/x").dataAsFloat32()


def test_wrong_data_of_a_variable_are_refused():
    p = Program()
    with pytest.raises(popart.popart_exception, match="2 elements; FLOAT\\(3\\) in 1 groups has 3"):
        p.main.addVarInit("w", info(3), numpy.ones(2, numpy.float32))
    with pytest.raises(popart.popart_exception, match="int64, but the tensor is of FLOAT"):
        p.main.addVarInit("w", info(3), numpy.ones(3, numpy.int64))
    with pytest.raises(popart.popart_exception, match="2 elements; FLOAT\\(3\\) has 3"):
        p.main.addConstInit("c", info(3), numpy.ones(2, numpy.float32))


def test_settings_of_a_variable_for_groups_of_replicas():
    p = Program()
    p.ir.core.replicas = 4
    mode = popart.VariableRetrievalMode.AllReplicas
    p.main.addVarInit("w", info(3), numpy.ones((2, 3), numpy.float32), popart.VariableSettings(1, 2, mode))
    settings = p.ir.getTensor("w").getVariableSettings()
    assert (settings.getStride(), settings.getGroupSize(), settings.getRetrievalMode()) == (1, 2, mode)
    assert settings.groups(4) == [[0, 1], [2, 3]]


def test_where_a_variable_is_kept():
    p = Program()
    w = p.variable("w", [1.0])
    assert not w.tensorLocationInfo.isRemote() and not w.tensorLocationInfo.isSharded()
    w.setTensorLocationInfo(popart.TensorLocation(), 3, 5)
    assert w.tensorLocationInfo.isRemote() and w.tensorLocationInfo.getRemoteBufferInfo() == (3, 5)


def test_names_say_what_a_tensor_is():
    p = Program()
    names = {
        "Accum___w": "isAccumulatorTensor",
        "randomSeed___s": "isRandomSeedTensor",
        "RemoteArg___r": "isRemoteArgTensor",
        "learningRate___default___FLOAT": "isOptimizerTensor",
    }
    for name, query in names.items():
        tensor = _ir.Tensor(name, _ir.TensorType.ActGrad, p.main)
        assert getattr(tensor, query)() and not getattr(p.graph.getTensor("g/x"), query)()


def test_replicas_get_parts_of_a_stream_unless_it_is_said():
    p = Program()
    p.main.addStream("s", info(2), "s")
    s = p.ir.getTensor("s")
    assert s.getReplicatedStreamMode() is popart.ReplicatedStreamMode.Replicate and p.ir.dataStreamTensors() == [s]
    s.setReplicatedStreamMode(popart.ReplicatedStreamMode.Broadcast)
    assert s.getReplicatedStreamMode() is popart.ReplicatedStreamMode.Broadcast


def test_the_table_of_a_graph():
    p = Program()
    table = _ir.Tensors(p.graph)
    table.addActGrad("g/a")
    table.addConstInit("g/c", info(2), numpy.float32([1, 2]))
    assert table.n() == 4 and table.getAllTensorIds() == ["g/a", "g/c", "g/x", "g/y"]
    assert table.get("g/c").tensorType() is _ir.TensorType.Const and table.getIds(_ir.TensorType.Const) == ["g/c"]
    assert len(table.getOfType([_ir.TensorType.Const, _ir.TensorType.ActGrad])) == 4
    assert table.contains("g/a") and not table.contains("a")
    scope = _ir.Scope() / "g" / "inner"
    assert table.contains("a", scope) and table.find("a", scope) == "g/a"
    with pytest.raises(popart.popart_exception, match="no tensor 'q' is in the scope 'g/inner'"):
        table.find("q", scope)
    table.remove("g/a")
    assert not table.contains("g/a") and "g/x" in table.getNoProducerIds()
    with pytest.raises(popart.popart_exception):
        p.op("Exp", ["g/x"], "g/e") and table.remove("g/x")


def test_a_tensor_becomes_a_constant_in_its_place():
    p = Program((2,))
    op = p.op("Add", ["g/x", "g/y"], "g/z")
    table = _ir.Tensors(p.graph)
    table.addActGrad("g/c")
    c = table.get("g/c")
    c.info = info(2)
    op.disconnectInTensor(1)
    op.connectInTensor(1, "g/c")
    p.graph.markAsOutput("g/c")
    table.makeConstInit("g/c", numpy.float32([3, 4]))
    assert op.inTensor(1) is c is p.graph.getOutputTensor(0) and c.tensor_type() == "Const"
    assert c.dataAsFloat32().tolist() == [3, 4]
    with pytest.raises(popart.popart_exception, match="'g/z' is made by"):
        table.makeConstInit("g/z", numpy.float32([3, 4]))


@pytest.mark.shows("popart.TensorInfo")
def test_types_are_made_of_names_shapes_and_arrays():
    t = _ir.TensorInfo(_ir.DataType.FLOAT16, [2, 3], [6])
    assert (t.shape(), t.metaShape(), t.rank(), t.nelms(), t.nbytes(), t.dim(1)) == ([2, 3], [6], 2, 6, 12, 3)
    assert (t.dataType(), t.data_type(), t.data_type_lcase()) == (_ir.DataType.FLOAT16, "FLOAT16", "float16")
    assert _ir.TensorInfo("FLOAT16", "(5,5)") == _ir.TensorInfo("FLOAT16", [5, 5]) != t
    assert t.strides([2, 3]) == [6, 2]
    empty = _ir.TensorInfo()
    assert empty.dataType() is _ir.DataType.UNDEFINED and empty.rank() == 0
    assert popart.getTensorInfo(numpy.ones((2, 1), numpy.int32)) == _ir.TensorInfo("INT32", (2, 1))
    with pytest.raises(popart.popart_exception, match="no element type is called 'FLOT'"):
        _ir.TensorInfo("FLOT", [1])
    with pytest.raises(KeyError):
        _ir.TensorInfo(float, [1])
    with pytest.raises(TypeError, match="incompatible arguments"):
        _ir.TensorInfo("FLOAT")
    with pytest.raises(popart.popart_exception, match="dimension 3"):
        t.dim(3)


def test_tensor_data_are_copied():
    array = numpy.float32([1, 2])
    data = _ir.TensorData(info(2), array)
    assert data.data == array.tobytes()
    data.resetData(info(1), numpy.float32([5]))
    assert data.data == numpy.float32([5]).tobytes()
    with pytest.raises(popart.popart_exception, match="4 bytes of data for FLOAT\\(2\\), which has 8"):
        data.resetData(info(2), numpy.float32([5]))
