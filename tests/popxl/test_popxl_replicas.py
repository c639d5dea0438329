"""Replica groupings, and variables of groups."""

import numpy as np
import pytest

import popxl
from popxl import ops


@pytest.mark.shows("popxl.ReplicaGrouping", "popxl.ReplicaGrouping.assignment", "popxl.ReplicaGrouping.transpose")
@pytest.mark.parametrize(
    "stride,size,assignment,transposed",
    [
        (1, 8, "00000000", "01234567"),
        (1, 2, "00112233", "01010101"),
        (2, 4, "01010101", "00112233"),
        (2, 2, "01012323", "00110011"),
        (4, 2, "01230123", "00001111"),
        (1, 1, "01234567", "00000000"),
    ],
)
@pytest.mark.shows(
    "popxl.ReplicaGrouping.stride",
    "popxl.ReplicaGrouping.group_size",
    "popxl.ReplicaGrouping.num_groups",
    "popxl.ReplicaGrouping.is_const",
)
def test_a_grouping_assigns_replicas_by_stride_and_size(stride, size, assignment, transposed):
    ir = popxl.Ir(replication=8)
    rg = ir.replica_grouping(stride, size)
    assert rg.assignment == [int(c) for c in assignment] and rg.transpose().assignment == [int(c) for c in transposed]
    assert (rg.stride, rg.group_size, rg.num_groups, rg.is_const) == (stride, size, 8 // size, True)
    assert rg.const_rg is rg and rg.to_device_map is None and rg.to_host_map is None
    assert rg == ir.replica_grouping_from_assignments(rg.assignment)
    assert rg._pb_replica_grouping.getGroupSize() == size and not rg._to_variable_settings().isUsingCommGroup()


@pytest.mark.shows(
    "popxl.Ir.replica_grouping_from_assignments",
    "popxl.ReplicaGrouping.const_rg",
    "popxl.ReplicaGrouping.to_device_map",
)
@pytest.mark.shows("popxl.ReplicaGrouping.to_host_map")
def test_groupings_that_are_not_constant():
    ir = popxl.Ir(replication=8)
    rg = ir.replica_grouping_from_assignments([0, 0, 1, 1, 0, 0, 1, 1])
    assert not rg.is_const and (rg.group_size, rg.num_groups) == (4, 2)
    assert rg.const_rg.assignment == [0, 0, 1, 1, 2, 2, 3, 3]
    assert (rg.to_device_map, rg.to_host_map) == ([0, 1, 0, 1], [0, 1])
    for wrong in (lambda: rg.stride, lambda: rg._pb_replica_grouping, lambda: rg._to_variable_settings()):
        with pytest.raises(NotImplementedError, match="stride"):
            wrong()
    assert repr(rg) == "ReplicaGrouping(assignment=[0, 0, 1, 1, 0, 0, 1, 1])"
    assert repr(ir.replica_grouping(2)) == "ReplicaGrouping(num_replicas=8, stride=2, group_size=4, num_groups=2)"
    mixed = ir.replica_grouping_from_assignments([0, 1, 1, 0, 2, 3, 3, 2])
    assert mixed.const_rg._refines(mixed)
    assert mixed.transpose().transpose() is not None


def test_errors_of_groupings():
    ir = popxl.Ir(replication=8)
    for arguments in ((0,), (9,), (3,), (1, 0), (1, 9), (4, 4), (2, 3)):
        with pytest.raises(ValueError):
            ir.replica_grouping(*arguments)
    for wrong in ([0] * 7, [0, 0, 0, 1, 1, 1, 1, 1], [0, 0, 2, 2, 3, 3, 4, 4], [1, 1, 1, 1, 0, 0, 0, 0]):
        with pytest.raises(ValueError):
            ir.replica_grouping_from_assignments(wrong)
    rg = ir.replica_grouping()
    with pytest.raises(RuntimeError):
        popxl.ReplicaGrouping()
    for wrong in (lambda: rg == 1, lambda: hash(rg)):
        with pytest.raises(TypeError):
            wrong()
    assert rg != popxl.Ir(replication=8).replica_grouping()


@pytest.mark.shows(
    "popxl.tensor.Variable.shape_on_host",
    "popxl.tensor.Variable.retrieval_mode",
    "popxl.tensor.Variable.replica_grouping",
)
@pytest.mark.parametrize("mode", ["one_per_group", "all_replicas"])
@pytest.mark.parametrize("assignment", ["0000", "0011", "0101", "0110", "0123"])
@pytest.mark.shows("popxl.tensor.Variable.shape_on_replica")
def test_variables_of_groups(assignment, mode):
    ir = popxl.Ir(replication=4)
    groups = [int(c) for c in assignment]
    rg = ir.replica_grouping_from_assignments(groups)
    count = rg.num_groups
    each = np.arange(count * 3, dtype=np.float32).reshape(count, 3)
    data = each if count > 1 else each[0]
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(data, name="v", replica_grouping=rg, retrieval_mode=mode)
        assert (v.shape, v.shape_on_replica, v.shape_on_host) == ((3,), (3,), data.shape)
        assert v.retrieval_mode == mode and v.replica_grouping == rg
        v += 1
        out = popxl.d2h_stream((3,), popxl.float32)
        ops.host_store(out, v)
    every = mode == "all_replicas" and rg.group_size > 1
    with popxl.Session(ir, "ipu_model") as s:
        np.testing.assert_array_equal(s.run()[out], each[groups] + 1)
        got = s.get_tensor_data(v)
        np.testing.assert_array_equal(got, each[groups] + 1 if every else data + 1)
        if every:
            with pytest.raises(NotImplementedError, match="all replicas"):
                s.write_variable_data(v, data)
        else:
            s.write_variable_data(v, data * 10)
            np.testing.assert_array_equal(s.run()[out], each[groups] * 10 + 1)
    if every:
        np.testing.assert_array_equal(s.get_tensor_data(v), each[groups] + 1)
    else:
        np.testing.assert_array_equal(s.get_tensor_data(v), data * 10 + 1)


def test_unknown_retrieval_modes_are_refused():
    ir = popxl.Ir()
    with ir.main_graph, pytest.raises(ValueError, match="some"):
        popxl.variable(1.0, retrieval_mode="some")


def test_memory_maps_of_groupings_that_are_not_constant_are_copied(tmp_path, capfd):
    memmap = np.memmap(tmp_path / "m", np.float32, "w+", shape=(2, 3))
    memmap[:] = [[1, 2, 3], [4, 5, 6]]
    ir = popxl.Ir(replication=4)
    with ir.main_graph:
        v = popxl.variable(memmap, replica_grouping=ir.replica_grouping_from_assignments([0, 1, 1, 0]))
    assert v._memmap_arr is None and "copied" in capfd.readouterr().err


EQUAL_GROUPS = [[0, 1, 2, 3, 1, 2, 3, 0], [0, 1, 2, 3, 1, 2, 0, 3], [0, 1, 2, 3, 0, 1, 3, 2], [0, 1, 1, 2, 2, 0, 3, 3]]


@pytest.mark.parametrize("assignment", EQUAL_GROUPS)
def test_groups_without_a_stride_are_single_replicas_on_the_device(assignment):
    ir = popxl.Ir(replication=8)
    grouping = ir.replica_grouping_from_assignments(assignment)
    assert grouping.const_rg.assignment == list(range(8)) and grouping.to_device_map == assignment
    assert grouping.to_host_map == [assignment.index(g) for g in range(4)]
    with ir.main_graph, popxl.in_sequence():
        v = popxl.variable(np.arange(4, dtype=np.float32), replica_grouping=grouping)
        out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(out, v + 0)
        v += 1
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run()[out].tolist() == assignment and s.get_tensor_data(v).tolist() == [1, 2, 3, 4]
        s.write_variable_data(v, np.array([5, 6, 7, 8], np.float32))
        assert s.run()[out].tolist() == [5 + g for g in assignment]


@pytest.mark.parametrize("replicas", [128, 256])
def test_a_model_of_an_ipu_runs_256_replicas(replicas):
    ir = popxl.Ir(replication=replicas)
    with ir.main_graph:
        v = popxl.variable(np.arange(replicas, dtype=np.float32), replica_grouping=ir.replica_grouping(group_size=1))
        out = popxl.d2h_stream((), popxl.float32)
        ops.host_store(out, v)
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run()[out].tolist() == list(range(replicas))


def test_many_replicas():
    ir = popxl.Ir(replication=64)
    with ir.main_graph:
        x, y = popxl.h2d_stream((), popxl.float32), popxl.d2h_stream((), popxl.float32)
        ops.host_store(y, ops.collectives.replicated_all_reduce(ops.host_load(x)))
    with popxl.Session(ir, "ipu_model") as s:
        assert s.run({x: np.arange(64, dtype=np.float32)})[y].tolist() == [2016] * 64
