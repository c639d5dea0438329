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


# Shape of the variable, of an entry, what of its elements 0, 1, 2, ... are there after 10 was added to each that is stored.
LAID_OUT = [
    ((6,), (2, 3), [10, 11, 12, 13, 14, 15]),
    ((1, 2, 3), (6,), [10, 11, 12, 13, 14, 15]),
    ((2, 3), (4,), [10, 11, 12, 13, 4, 5]),  # a download leaves the others
    ((), (1, 1), [10]),
]


@pytest.mark.parametrize("shape, entry, after", LAID_OUT)
@pytest.mark.parametrize("groups", [1, 2])
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
def test_a_remote_variable_is_a_row_of_elements_of_its_buffer(shape, entry, after, groups, mode):
    ir = popxl.Ir(replication=4)
    data = np.arange(np.prod(shape, dtype=int), dtype=np.float32).reshape(shape)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(group_size=4 // groups)
        buffer = popxl.remote_buffer(entry, popxl.float32)
        given = np.stack([data + 100 * g for g in range(groups)]) if groups > 1 else data
        v = popxl.remote_variable(given, buffer, replica_grouping=grouping, retrieval_mode=mode)
        x = ops.remote_load(buffer, 0)
        ops.remote_store(buffer, 0, x + 10)
    assert x.shape == entry and v.shape == shape
    with popxl.Session(ir, "ipu_model") as s:
        s.run()
        inside = np.array(s.get_tensor_data(v))
    copies = 4 if mode == "all_replicas" else groups
    for got in (inside, s.get_tensor_data(v)):
        rows = got.reshape(copies, *shape)
        for row, begin in zip(rows, np.repeat(np.arange(groups) * 100, copies // groups)):
            np.testing.assert_array_equal(row.ravel(), np.array(after) + begin)


@pytest.mark.parametrize("replicas, size, over", [(2, 1, None), (2, 2, 1), (4, 2, 1)])
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
def test_shards_over_one_replica_are_whole_and_flat(replicas, size, over, mode):
    ir = popxl.Ir(replication=replicas)
    groups = replicas // size
    data = np.arange(groups * 20, dtype=np.float32).reshape(*([groups] if groups > 1 else []), 4, 5)
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(group_size=size)
        handle, shard = popxl.replica_sharded_variable(
            data, replica_grouping=grouping, shard_over=over, retrieval_mode=mode
        )
        assert (shard.shape, shard.meta_shape) == ((20,), (4, 5))
        shard += 1
        whole = ops.collectives.replicated_all_gather(shard, group=ir.replica_grouping(group_size=1))
        out = popxl.d2h_stream((4, 5), popxl.float32)
        ops.host_store(out, whole)
    with popxl.Session(ir, "ipu_model") as s:
        stored = s.run()[out]
    each = data.reshape(groups, 4, 5)[grouping.assignment] + 1
    np.testing.assert_array_equal(stored, each)
    kept = s.get_tensor_data(handle)
    np.testing.assert_array_equal(kept, each if kept.shape == each.shape and mode == "all_replicas" else data + 1)


@pytest.mark.parametrize("dtype", [popxl.float32, popxl.float16, popxl.int32, popxl.float8_143])
@pytest.mark.parametrize("shape", [(3,), (2, 2), (1,)])
@pytest.mark.parametrize("replicas, size", [(2, 2), (4, 4), (4, 2)])
def test_an_entry_may_be_larger_than_its_shard(dtype, shape, replicas, size):
    """Programs give a buffer of the shape of the whole."""
    ir, groups = popxl.Ir(replication=replicas), replicas // size
    data = (
        (1 + np.arange(groups * np.prod(shape))).astype(np.float32).reshape(*([groups] if groups > 1 else []), *shape)
    )
    float8 = dtype is popxl.float8_143
    given = data if float8 else data.astype(dtype.as_numpy())
    with ir.main_graph, popxl.in_sequence():
        grouping = ir.replica_grouping(group_size=size)
        buffer = popxl.remote_buffer(shape, dtype)
        v = popxl.remote_replica_sharded_variable(given, buffer, 0, dtype, replica_grouping=grouping)
        part = ops.remote_load(buffer, 0)
        assert part.shape == part.meta_shape == shape
        whole = ops.collectives.replicated_all_gather(part, group=grouping)
        if float8:
            whole = ops.pow2scale_cast_from_fp8(whole, popxl.constant(0), popxl.float32)
        else:
            ops.remote_store(buffer, 0, part + part)
        out = popxl.d2h_stream(shape, whole.dtype)
        ops.host_store(out, whole)
    each = data.reshape(groups, *shape)[grouping.assignment]
    s = popxl.Session(ir, "ipu_model")
    with s:
        np.testing.assert_array_equal(s.run()[out], each)
        if not float8:
            np.testing.assert_array_equal(s.get_tensor_data(v), 2 * given)
            s.write_variable_data(v, given + 3)
            np.testing.assert_array_equal(s.run()[out], each + 3)
            np.testing.assert_array_equal(s.get_tensor_data(v), 2 * (given + 3))
        else:
            s.write_variable_data(v, s.get_tensor_data(v))
            np.testing.assert_array_equal(s.run()[out], each)


@pytest.mark.parametrize("is_large", [False, True])
def test_the_gradient_of_a_gathered_shard_is_a_plain_tensor(is_large):
    """It has the shape of the shard, with zeros behind its share, and may be stored and added to the shard."""
    ir = popxl.Ir(replication=4)
    data = np.arange(1, 11, dtype=np.float32).reshape(5, 2)  # three elements each, of the last replica one
    with ir.main_graph, popxl.in_sequence():
        if is_large:
            buffer = popxl.remote_buffer(data.shape, popxl.float32)
            popxl.remote_replica_sharded_variable(data, buffer)
            x = ops.remote_load(buffer, 0)
        else:
            _, x = popxl.replica_sharded_variable(data, name="x")
        graph = ir.create_graph(lambda t: ops.collectives.replicated_all_gather(t), x)
        info = popxl.transforms.autodiff(graph)
        (y,) = ops.call_with_info(graph, x).outputs
        (dx,) = ops.call_with_info(info.graph, y).outputs
        assert dx.shape == x.shape and dx.meta_shape == info.graph.outputs[0].meta_shape == ()
        assert (x + dx).meta_shape == data.shape
        out = popxl.d2h_stream(dx.shape, dx.dtype)
        ops.host_store(out, dx)
        nested = ir.create_graph(lambda t: ops.call(graph, t), x)
        twice = popxl.transforms.autodiff(nested)
        assert twice.graph.outputs[0].meta_shape == () and twice.graph.outputs[0].shape == x.shape
    with popxl.Session(ir, "ipu_model") as s:
        rows = s.run()[out].reshape(4, -1)
    want = np.zeros((4, 3), np.float32)
    want.ravel()[:10] = data.ravel()
    np.testing.assert_array_equal(rows[:, :3], want)
    assert not rows[:, 3:].any()


def of_memmap(kind, w):
    """A variable of a memory map to which a run adds 1."""
    ir = popxl.Ir(replication=2)
    with ir.main_graph, popxl.in_sequence():
        if kind == "variable":
            handle = popxl.variable(w)
            handle += 1
            return ir, handle
        if kind == "replica_sharded_variable":
            handle, shard = popxl.replica_sharded_variable(w)
            shard += 1
            return ir, handle
        if kind == "remote_variable":
            buffer = popxl.remote_buffer(w.shape, popxl.float32)
            handle = popxl.remote_variable(w, buffer)
        else:
            buffer = popxl.replica_sharded_buffer(w.shape, popxl.float32)
            handle = popxl.remote_replica_sharded_variable(w, buffer)
        ops.remote_store(buffer, 0, ops.remote_load(buffer, 0) + 1)
    return ir, handle


MAPPED = ["variable", "remote_variable", "remote_replica_sharded_variable", "replica_sharded_variable"]


@pytest.mark.parametrize("kind", MAPPED)
def test_every_kind_of_variable_holds_the_memory_map_it_is_given(kind, tmp_path):
    class Watched(np.memmap):
        flushed = 0

        def flush(self):
            Watched.flushed += 1
            super().flush()

    path = tmp_path / "w"
    w = Watched(path, np.float32, "w+", shape=(4, 4))
    w[:] = 1
    ir, handle = of_memmap(kind, w)
    with popxl.Session(ir, "ipu_model") as s:
        s.run()
    assert s.get_tensor_data(handle) is w and (w == 2).all() and Watched.flushed == 1
    assert (np.fromfile(path, np.float32) == 2).all()

    ir, handle = of_memmap(kind, np.memmap(path, np.float32, "r", shape=(4, 4)))
    with popxl.Session(ir, "ipu_model") as s:
        s.run()
        with pytest.raises(Exception, match="read-only"):
            s.weights_to_host()
    assert (s.get_tensor_data(handle) == 2).all()


@pytest.mark.parametrize("kind", MAPPED)
@pytest.mark.parametrize("stored", ["f8", "i8", "u8", ">f4"])
def test_memory_maps_that_would_have_to_change_are_refused(kind, stored, tmp_path):
    w = np.memmap(tmp_path / "w", stored, "w+", shape=(4, 4))
    with popxl.Ir(replication=2).main_graph:
        plain, shards = popxl.remote_buffer((4, 4), popxl.float32), popxl.replica_sharded_buffer((4, 4), popxl.float32)
        make = {
            "variable": popxl.variable,
            "replica_sharded_variable": popxl.replica_sharded_variable,
            "remote_variable": lambda w, *rest, **named: popxl.remote_variable(w, plain, 0, *rest, **named),
            "remote_replica_sharded_variable": lambda w, *rest, **named: popxl.remote_replica_sharded_variable(
                w, shards, 0, *rest, **named
            ),
        }[kind]
        for dtype in (None, popxl.float64, popxl.float32):
            for downcast in (True, False):
                with pytest.raises(ValueError, match="np.memmap"):
                    make(w, dtype, downcast=downcast)


@pytest.mark.parametrize("kind", ["variable", "replica_sharded_variable"])
def test_a_grouping_without_a_stride_warns_of_its_copy_once(kind, tmp_path, capfd):
    w = np.memmap(tmp_path / "w", np.float32, "w+", shape=(2, 3))
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        getattr(popxl, kind)(w, replica_grouping=ir.replica_grouping_from_assignments([0, 1, 1, 0]))
    assert capfd.readouterr().err.count("is copied") == 1
