"""Remote buffers, remote variables, shards."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops


@pytest.mark.shows(
    "popxl.RemoteBuffer",
    "popxl.RemoteBuffer.entries",
    "popxl.RemoteBuffer.meta_shape",
    "popxl.RemoteBuffer.set_remote_buffer_info",
    "popxl.RemoteBuffer.validate_tensor_matches_buffer",
)
@pytest.mark.shows(
    "popxl.RemoteBuffer.remote_buffer_id", "popxl.RemoteBuffer.tensor_shape", "popxl.RemoteBuffer.tensor_dtype"
)
def test_a_remote_buffer_takes_tensors_of_its_shape_and_dtype_only(ir):
    with pytest.raises(RuntimeError, match="current graph"):
        popxl.remote_buffer((2,), popxl.float32)
    with ir.main_graph:
        first, second = popxl.remote_buffer((2,), popxl.float32), popxl.RemoteBuffer((3, 1), popxl.float16, 4)
        for entries in (0, -1):
            with pytest.raises(ValueError, match="at least 1"):
                popxl.remote_buffer((2,), popxl.float32, entries)
        t = popxl.variable(np.zeros(2))
        first.validate_tensor_matches_buffer(t)
        for wrong in (popxl.variable(np.zeros((2, 1))), popxl.variable(np.zeros(2), popxl.float16)):
            with pytest.raises(ValueError, match="buffer 1"):
                first.validate_tensor_matches_buffer(wrong)
    assert [b.remote_buffer_id for b in (first, second)] == [1, 2] and hash(first) != hash(second)
    assert (second.tensor_shape, second.tensor_dtype, second.entries) == ((3, 1), popxl.float16, 4)
    for name in ("tensor_shape", "tensor_dtype", "remote_buffer_id"):
        with pytest.raises(AttributeError):
            setattr(first, name, None)
    first.entries = 5
    first.meta_shape = [7]
    assert ir._program.remote_buffers()[1] == (popxl.float32._number, (2,), (7,), 5) and first.meta_shape == (7,)
    with pytest.raises(ValueError):
        first.entries = 0
    first.validate_tensor_matches_buffer(_of_shape(ir, (7,)), num_shards=2)
    first.set_remote_buffer_info(popxl.int32, (4,), 2)
    assert ir._program.remote_buffers()[1][:2] == (popxl.int32._number, (4,)) and first._current_ir is ir


def _of_shape(ir, shape):
    with ir.main_graph:
        return popxl.variable(np.zeros(shape))


def test_buffers_of_another_ir_and_other_things_are_refused():
    """Numbers of buffers begin at 1 in each Ir: a foreign buffer would be another one here."""
    ir, other = popxl.Ir(replication=2), popxl.Ir()
    with other.main_graph:
        foreign = popxl.remote_buffer((2,), popxl.float32)
    with ir.main_graph:
        t, here = popxl.variable(np.zeros(2)), popxl.remote_buffer((2,), popxl.float32)
        assert here.remote_buffer_id == foreign.remote_buffer_id
        for call in (
            lambda buffer: ops.remote_load(buffer, 0),
            lambda buffer: ops.remote_load_(buffer, 0, t),
            lambda buffer: ops.remote_store(buffer, 0, t),
            lambda buffer: popxl.remote_variable(np.zeros(2), buffer),
            lambda buffer: popxl.remote_replica_sharded_variable(np.zeros(4), buffer),
        ):
            with pytest.raises(ValueError, match=rf"id={other.id}.*id={ir.id}"):
                call(foreign)
            with pytest.raises(TypeError, match="popxl.RemoteBuffer"):
                call(t)
    assert len(ir.main_graph.tensors) == 1


@pytest.mark.shows("popxl.ops.remote_load", "popxl.ops.remote_load_", "popxl.ops.remote_store", "popxl.remote_variable")
def test_loads_and_stores(ir):
    with ir.main_graph, popxl.in_sequence():
        buf = popxl.remote_buffer((2,), popxl.float32, entries=3)
        handles = [popxl.remote_variable(np.float32([n, n + 10]), buf, n, name=f"h{n}") for n in range(3)]
        a = ops.remote_load(buf, 1)
        b = ops.remote_load(buf, popxl.constant(2, popxl.uint32, "at"), "named")
        c = popxl.variable([5.0, 5.0], name="c")
        d = ops.remote_load_(buf, 0, c)
        ops.remote_store(buf, 0, a + b)
        out = popxl.d2h_stream((2,), popxl.float32)
        ops.host_store(out, c)
        for call in (ops.remote_load_, ops.remote_store):
            with pytest.raises(ValueError, match="shape"):
                call(buf, 0, popxl.variable(np.zeros(3)))
            with pytest.raises(ValueError, match="dtype"):
                call(buf, 0, popxl.variable(np.zeros(2), popxl.float16))
    assert a.name == "id_1_offset_offset_remote_loaded" and b.name == "named_remote_loaded"
    assert ir.main_graph.get_tensor("named_remote_loaded_init") is not None and d != c
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run()[out].tolist() == [0, 10]
        assert s.get_tensor_data(handles[0]).tolist() == [3, 23]
        assert s.get_tensor_data(handles[1]).tolist() == [1, 11]
        s.write_variable_data(handles[0], np.float32([7, 8]))
        assert s.run()[out].tolist() == [7, 8]
    assert handles[0].location_info.getRemoteBufferInfo() == (1, 0)


@pytest.mark.shows(
    "popxl.replica_sharded_buffer", "popxl.remote_replica_sharded_variable", "popxl.replica_sharded_variable"
)
def test_a_loaded_shard_is_called_after_its_variable():
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.name_scope("layer"):
        handle, shard = popxl.replica_sharded_variable(np.zeros(4, np.float32), name="w")
        assert (handle.name, shard.name) == ("layer/w", "layer/w_rts")
        assert popxl.replica_sharded_variable(np.zeros(4, np.float32))[1].name == "layer/t_rts"


@pytest.mark.parametrize("stride,size,over", [(1, 4, 4), (1, 4, 2), (1, 2, 2), (2, 2, 2)])
def test_shards_of_groups(stride, size, over):
    ir = popxl.Ir(replication=4)
    rg = ir.replica_grouping(stride, size)
    shape = (rg.num_groups, 2, 3) if rg.num_groups > 1 else (2, 3)
    data = np.arange(np.prod(shape), dtype=np.float32).reshape(shape)
    gathered = ir.replica_grouping(stride * 1, size // over) if size // over > 1 else None
    with ir.main_graph, popxl.in_sequence():
        buf = popxl.replica_sharded_buffer(shape, popxl.float32, rg, over, entries=2)
        assert (buf.tensor_shape, buf.meta_shape, buf.entries) == ((-(-6 // over),), (2, 3), 2)
        handle = popxl.remote_replica_sharded_variable(data, buf, 1, name="remote", replica_grouping=rg)
        shard = ops.remote_load(buf, 1)
        ops.add_(shard, shard)
        ops.remote_store(buf, 1, shard)
        on_chip, its_shard = popxl.replica_sharded_variable(data, name="chip", replica_grouping=rg, shard_over=over)
        assert its_shard.name == "chip_rts" and its_shard.meta_shape == (2, 3) == shard.meta_shape
        assert handle.shape_on_host == on_chip.shape_on_host == shape
        its_shard += 1
        with pytest.raises(popart.popart_exception):
            ops.host_store(popxl.d2h_stream(shard.shape, popxl.float32), shard)
    assert gathered is None or gathered.group_size == size // over
    with popxl.Session(ir, "ipu_model") as s:
        s.run()
        np.testing.assert_array_equal(s.get_tensor_data(handle), 2 * data)
        np.testing.assert_array_equal(s.get_tensor_data(on_chip), data + 1)
        s.run()
        s.write_variable_data(handle, data)  # the shard on chip keeps what the runs left there
        np.testing.assert_array_equal(s.get_tensor_data(on_chip), data + 2)
        s.run()
    np.testing.assert_array_equal(s.get_tensor_data(handle), 2 * data)
    np.testing.assert_array_equal(s.get_tensor_data(on_chip), data + 3)


def test_what_shards_refuse(ir):
    with ir.main_graph:
        with pytest.raises(ValueError, match="1 replica"):
            popxl.remote_replica_sharded_variable(np.zeros(2), popxl.remote_buffer((1,), popxl.float32))
        with pytest.raises(ValueError, match="1 replica"):
            popxl.replica_sharded_variable(np.zeros(2))
    four = popxl.Ir(replication=4)
    with four.main_graph:
        for over in (3, 8, 0):
            with pytest.raises(ValueError, match="shard_over"):
                popxl.replica_sharded_buffer((4,), popxl.float32, shard_over=over)
        buf = popxl.replica_sharded_buffer((4,), popxl.float32)
        with pytest.raises(ValueError, match=r"\(5,\)"):
            popxl.remote_replica_sharded_variable(np.zeros(5), buf)
        with pytest.raises(popart.popart_exception, match="first axis"):
            popxl.variable(np.zeros(3), replica_grouping=four.replica_grouping(1, 2))
    with four.create_empty_graph(), pytest.raises(ValueError, match="main graph"):
        popxl.remote_variable(np.zeros(4), buf)
