"""Tensors: properties, operators, indexing, creation, variables of groups."""

import sys
import typing
from collections.abc import Iterable

import numpy as np
import pytest
from one_program import values

import popart
import popxl
from popxl import ops
from popxl.tensor import Constant, Variable


@pytest.mark.shows(
    "popxl.Tensor",
    "popxl.Tensor.shape",
    "popxl.Tensor.dtype",
    "popxl.Tensor.rank",
    "popxl.Tensor.nelms",
    "popxl.Tensor.strides",
    "popxl.Tensor.spec",
)
@pytest.mark.shows(
    "popxl.Tensor.ir",
    "popxl.Tensor.in_sync_with_ipu",
    "popxl.Tensor.location_info",
    "popxl.Tensor.__eq__",
    "popxl.Tensor.__hash__",
)
def test_a_tensor_knows_its_shape_dtype_name_and_graph(ir):
    with ir.main_graph:
        x = popxl.variable(np.zeros((2, 3), np.float16), name="bob")
        y = popxl.variable(0, name="bob")
    assert (x.shape, x.rank, x.nelms, x.dtype, x.meta_shape) == ((2, 3), 2, 6, popxl.float16, ())
    assert x.spec == popxl.TensorSpec((2, 3), popxl.float16) and len(x) == 2 and x.ir is ir
    assert x.strides() == (6, 2) and x.strides((4, 5)) == (10, 2)
    assert repr(x) == "Variable[bob popxl.dtypes.float16 (2, 3)]" and isinstance(x, popxl.Tensor)
    assert x == x and x != y and x != 3 and len({x, y, x}) == 2 and x.in_sync_with_ipu
    assert not x.location_info.isRemote()
    with pytest.raises(ValueError, match="length"):
        len(y)
    for wrong in (lambda: iter(x), lambda: 1 in x):
        with pytest.raises(TypeError):
            wrong()
    for cls in (popxl.Tensor, Variable, Constant):
        with pytest.raises(RuntimeError):
            cls()


@pytest.mark.shows(
    "popxl.Tensor.T", "popxl.Tensor.T_", "popxl.Tensor.transpose", "popxl.Tensor.flatten", "popxl.Tensor.reshape"
)
def test_operators_of_tensors_compute_what_numpy_does(ir):
    a, b = np.float32([[1, 2], [3, 4]]), np.float32([[2, 2], [5, 0.5]])
    with ir.main_graph:
        x, y = popxl.variable(a), popxl.variable(b)
        pairs = [
            (x + y, a + b), (x + 1, a + 1), (1 + x, 1 + a), (x - y, a - b), (3 - x, 3 - a), (x * y, a * b), (2 * x, 2 * a),
            (x / y, a / b), (6 / x, 6 / a), (x % y, np.fmod(a, b)), (7 % x, np.fmod(7, a)), (-x, -a), (x @ y, a @ b),
            (x**y, a**b), (x**2, a**2), (x**2.0, a**2), (2**x, 2**a), (np.ones((2, 2)) @ x, np.ones((2, 2)) @ a),
            (np.ones(2) + x, 1 + a), (x + [1.0, 2.0], a + [1, 2]), (x.T, a.T), (x.T_, a.T), (x.reshape((4,)), a.reshape(4)),
            (x.flatten(), a.ravel()), (x.detach(), a), (x.diag(), a.diagonal()), (x.transpose((1, 0)), a.T),
        ]  # fmt: skip
    for got, (_, expected) in zip(values(ir, *(t for t, _ in pairs)), pairs):
        np.testing.assert_allclose(got, expected, rtol=1e-5)


def test_logical_operators(ir):
    with ir.main_graph:
        flag = popxl.variable([True, False])
        tensors = (flag & [True, True], flag | True, ~flag, True & flag)
    got = [v.tolist() for v in values(ir, *tensors)]
    assert got == [[True, False], [True, True], [False, True], [True, False]]


def test_adding_in_place_keeps_the_object(ir):
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable([1.0, 2.0], name="x")
        same = x
        x += 1
        assert x is same
        x -= 1
        assert x is not same
    with popxl.Session(ir, "ipu_model") as s:
        s.run()
    assert s.get_tensor_data(same).tolist() == [2, 3]


def test_operands_that_are_refused(ir):
    with ir.main_graph:
        x = popxl.variable([1.0, 2.0])
        rows = []
        with pytest.raises(ValueError, match="no element"):
            rows += x
        with pytest.raises(ValueError, match="no element"):
            x + []
        with pytest.raises(popart.popart_exception):
            x + popxl.variable([1, 2])
        with pytest.raises(popart.popart_exception):
            x + popxl.variable([1.0, 2.0, 3.0])
        with pytest.raises(ValueError, match="2 axes|axes"):
            x.diag()
        other = ir.create_empty_graph()
        with other, pytest.raises(ValueError, match="current graph"):
            x + x
        with pytest.raises(TypeError, match="popxl.Tensor"):
            ops.add(x, 1)
    with pytest.raises(RuntimeError, match="current graph"):
        x + x


VIEWS = {
    "transpose_": (lambda t: t.transpose_((1, 0)), np.transpose, "TransposeInplace"),
    "reshape_": (lambda t: t.reshape_((3, 2)), lambda a: a.reshape(3, 2), "ReshapeInplace"),
    "flatten_": (lambda t: t.flatten_(), np.ravel, "ReshapeInplace"),
    "detach_": (lambda t: t.detach_(), np.array, "DetachInplace"),
}


@pytest.mark.shows(*(f"popxl.Tensor.{name}" for name in VIEWS))
@pytest.mark.shows("popxl.Tensor.T_", "popxl.Tensor.reshape", "popxl.Tensor.detach")
def test_views_see_what_is_written_later_and_copies_do_not(ir):
    a = np.arange(6, dtype=np.float32).reshape(2, 3)
    with ir.main_graph as main, popxl.in_sequence():
        x = popxl.variable(a)
        views = [view(x) for view, _, _ in VIEWS.values()] + [x.T_]
        assert [op.opType() for op in main._pb_graph.getOps()] == [kind for _, _, kind in VIEWS.values()] + ["TransposeInplace"]
        copies = [x.transpose((1, 0)), x.reshape((3, 2)), x.flatten(), x.detach(), x.T]
        x += 1
        got = values(ir, *views, *copies)
    in_numpy = [function for _, function, _ in VIEWS.values()] + [np.transpose]
    for value, function in zip(got, in_numpy):
        np.testing.assert_array_equal(value, function(a + 1))
    for value, function in zip(got[len(in_numpy) :], in_numpy):
        np.testing.assert_array_equal(value, function(a))


@pytest.mark.shows("popxl.Tensor.diag")
def test_diagonals_of_high_matrices_wrap(ir):
    a = np.arange(12, dtype=np.float32).reshape(6, 2)
    with ir.main_graph:
        t = popxl.variable(a).diag()
    assert values(ir, t)[0].tolist() == a.ravel()[::3].tolist()


KEYS = [0, 2, -1, -3, slice(None), slice(1, 3), slice(None, None, 2), slice(None, None, -1), slice(4, 0, -2),
        (1, 2), (slice(1, None), 0), (slice(None, None, -2), slice(0, 3, 2)), (-1, -1, -1), np.int64(3), (0, slice(2, 4))]  # fmt: skip


def test_basic_indexing_takes_what_numpy_takes(ir):
    a = np.arange(5 * 4 * 3, dtype=np.float32).reshape(5, 4, 3)
    with ir.main_graph:
        x = popxl.variable(a)
        tensors = [x[key] for key in KEYS]
    for key, got in zip(KEYS, values(ir, *tensors)):
        np.testing.assert_array_equal(got, a[key])


def test_indexing_by_arrays(ir):
    a = np.arange(12, dtype=np.float32).reshape(4, 3)
    mask = a[:, :1] > 3
    torch = pytest.importorskip("torch")
    with ir.main_graph:
        x = popxl.variable(a)
        rows = popxl.constant([3, 1], popxl.uint32)
        tensors = [x[rows], x[[3, 1]], x[np.array([[0], [2]])], x[torch.tensor([1])], x[mask], x[popxl.constant(mask)]]
    got = values(ir, *tensors)
    for value, expected in zip(got, [a[[3, 1]], a[[3, 1]], a[[[0], [2]]], a[[1]], a * mask, a * mask]):
        np.testing.assert_array_equal(value, expected)


@pytest.mark.parametrize("key", [True, "a", 1.5, None, Ellipsis, (0, None), [1.5], np.ones(2), {}])
def test_keys_that_are_refused(ir, key):
    with ir.main_graph:
        x = popxl.variable(np.zeros((2, 2)))
        with pytest.raises(TypeError, match="index"):
            x[key]


def test_integers_out_of_range_are_refused(ir):
    with ir.main_graph:
        x = popxl.variable(np.zeros((2, 2)))
        for key in (2, -3, (0, 5)):
            with pytest.raises(ValueError, match="range"):
                x[key]


@pytest.mark.shows("popxl.variable", "popxl.constant")
@pytest.mark.shows("popxl.tensor.Variable", "popxl.tensor.Constant")
def test_variables_and_constants_take_the_dtype_of_their_data(ir):
    with ir.main_graph:
        for make, cls in ((popxl.variable, Variable), (popxl.constant, Constant)):
            for data, dtype in (
                (True, popxl.bool),
                (1, popxl.int32),
                (1.5, popxl.float32),
                (np.zeros(2), popxl.float32),
            ):
                t = make(data)
                assert type(t) is cls and t.dtype is dtype
            assert make([1.7], popxl.int32, "named").name.startswith("named")
            assert make(np.zeros(2), downcast=False).dtype is popxl.float64
            assert make([1.0], popxl.float8_143, log2_scale=1, nan_on_overflow=False).dtype is popxl.float8_143
            with pytest.raises(RuntimeError, match="log2_scale"):
                make([1.0], popxl.float32, log2_scale=1)
        codes = popxl.utils.to_numpy([1.0, 2.0], popxl.float8_152)
        assert popxl.variable(codes).dtype is popxl.float8_152
        assert popxl.constant(codes, popxl.float8_152).dtype is popxl.float8_152
        with pytest.raises(TypeError, match="float8"):
            popxl.constant(codes)
    g = ir.create_empty_graph()
    with g:
        assert popxl.constant(1.0).id == f"{g.id}/t"
        with pytest.raises(ValueError, match="main graph"):
            popxl.variable(1.0)
    with pytest.raises(RuntimeError, match="current graph"):
        popxl.variable(1.0)


def test_data_are_copied(ir):
    data = np.float32([1, 2])
    with ir.main_graph:
        v, c = popxl.variable(data), popxl.constant(data)
    data[:] = 7
    assert [t.tolist() for t in values(ir, v, c)] == [[1, 2], [1, 2]]


@pytest.mark.shows("popxl.ops.init")
def test_init_makes_zeros_or_leaves_memory_undefined(ir):
    with ir.main_graph:
        t = ops.init((2,), popxl.float32, "zeros")
        u = ops.init((2,), popxl.int32, init_type="undef", meta_shape=(4,))
        assert (t.name, u.name, u.meta_shape) == ("zeros", "t", (4,))
        with pytest.raises(ValueError, match="one"):
            ops.init((2,), popxl.int32, init_type="one")
    assert values(ir, t)[0].tolist() == [0, 0]


def test_counts_of_ops_and_tensors(ir):
    with ir.main_graph as main:
        x = popxl.variable([1.0, 2.0], name="x")
        x + 1
        assert (len(main.tensors), len(main._pb_graph.getOps())) == (3, 1)
        s = popxl.h2d_stream((2,), popxl.float32)
        ops.host_load(s)
        assert (len(main.tensors), len(main._pb_graph.getOps())) == (6, 3)
        g = ir.create_graph(lambda t: t, x)
        assert len(g.tensors) == 1
        ops.repeat(g, 2, x)
        assert (len(main.tensors), len(main._pb_graph.getOps())) == (7, 4)
        assert [op.id for op in main._pb_graph.getOps()] == [100, 101, 102, 104]  # 103: the call in the wrapper
        (wrapper,) = main.called_graphs
        assert (len(wrapper.tensors), len(ir._pb_ir.getAllGraphs())) == (4, 3)
        buf = popxl.remote_buffer((2,), popxl.float32)
        ops.remote_load(buf, 0)
        assert (len(main.tensors), len(main._pb_graph.getOps())) == (10, 6)
        ops.remote_store(buf, 0, x)
        assert (len(main.tensors), len(main._pb_graph.getOps())) == (11, 7)


@pytest.mark.shows("popxl.tensor.host_tensor_types", "popxl.tensor.TensorLike")
@pytest.mark.shows("popxl.tensor.ScalarType", "popxl.tensor.HostTensor", "popxl.tensor.HostScalarTensor")
def test_type_aliases():
    from popxl import tensor

    assert isinstance(np.zeros(2), tensor.host_tensor_types) and not isinstance(1, tensor.host_tensor_types)
    scalars, torch = (int, float, bool), (sys.modules["torch"].Tensor,) if "torch" in sys.modules else ()
    assert typing.get_args(tensor.ScalarType) == scalars
    host = (np.ndarray, Iterable[tensor.ScalarType], *torch)
    assert set(typing.get_args(tensor.HostTensor)) == set(host)
    assert set(typing.get_args(tensor.HostScalarTensor)) == {*host, *scalars}
    assert set(typing.get_args(tensor.TensorLike)) == {*host, *scalars, popxl.Tensor}
    with pytest.raises(AttributeError):
        tensor.Nothing


@pytest.mark.shows("popxl.Tensor")
@pytest.mark.parametrize("read", [lambda t: t.id, lambda t: t.shape, lambda t: t._pb_tensor.id, repr])
def test_reading_a_removed_tensor_is_a_popart_exception(read):
    ir = popxl.Ir()
    with ir.main_graph as graph:
        result = ops.exp(popxl.variable([1.0]))
    core, op = graph._pb_graph, result._pb_tensor.getProducer()
    op.disconnectAllInputs()
    op.disconnectAllOutputs()
    core.eraseOp(op.id)
    core.removeIsolatedTensors()
    with pytest.raises(popart.popart_exception, match="was removed"):
        read(result)


def test_a_spec_without_a_meta_shape_is_not_sharded(ir):
    spec = popxl.TensorSpec((2,), popxl.float32, None)
    assert not spec.meta_shape
    graph = ir.create_graph(lambda x: x + 1, spec)
    assert graph.inputs[0].shape == (2,) and not graph.inputs[0].meta_shape


def test_the_number_of_io_tiles_is_an_int(ir):
    for options in (ir._pb_ir.getSessionOptions(), popart.SessionOptions()):
        assert type(options.numIOTiles) is int and options.numIOTiles == 0
        options.numIOTiles = 32
        assert type(options.numIOTiles) is int and not options.numIOTiles < 1 and options.numIOTiles + 1 == 33
        options.numIOTiles = popart.NumIOTiles(64)
        assert type(options.numIOTiles) is int and options.numIOTiles == 64
