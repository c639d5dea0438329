"""Rows of the table of sharp edges that concern graphs, tensors, calls and sessions, and small published helpers."""

import numpy as np
import pytest

import popart
import popxl
from popxl import ops
from popxl.ops import utils


@pytest.mark.edge("29.6", "29.8")
def test_adding_overwrites_and_subtracting_does_not(ir):
    with ir.main_graph, popxl.in_sequence():
        x = first = popxl.variable([1.0, 2.0])
        x += x
        assert x is first and ir._program.op_type(100) == "AddLhsInplace"
        x -= 1
        assert x is not first and (x == x) is True and (x == first) is False


@pytest.mark.edge("29.9", "29.19", "29.26", "29.32")
def test_data_of_a_session(ir):
    with ir.main_graph:
        unused = popxl.variable(np.float64([1, 2]))
        y = popxl.d2h_stream((), popxl.float32)
        ops.host_store(y, popxl.variable(1.0))
    with popxl.Session(ir, "ipu_model") as s:
        assert isinstance(s.expected_inputs(), set) and unused.dtype is popxl.float32
        assert s.get_tensor_data(unused).tolist() == [1, 2]
        assert s.get_tensor_data(unused) is s.get_tensor_data(unused)


@pytest.mark.edge("29.23", "29.29")
def test_groupings_are_checked_when_made_and_keep_their_number():
    ir = popxl.Ir(replication=8)
    with pytest.raises(ValueError, match="divide"):
        ir.replica_grouping(stride=2, group_size=3)
    rg = ir.replica_grouping()
    ir.replication_factor = 4
    assert rg.assignment == [0] * 8 and ir.replica_grouping().assignment == [0] * 4


@pytest.mark.edge("29.27")
@pytest.mark.shows("popxl.Tensor.copy_to_ipu", "popxl.tensor.Variable.copy_to_ipu", "popxl.tensor.Constant.copy_to_ipu")
def test_copies_to_other_ipus(ir):
    with ir.main_graph:
        v, c = popxl.variable(1.0), popxl.constant(2.0)
        for t in (v, c):
            assert t.copy_to_ipu(dst=1, src=0).ipu == 1
            with pytest.raises(TypeError):
                t.copy_to_ipu(1)
        assert (v + c).copy_to_ipu(destination=1, source=None).ipu == 1


@pytest.mark.edge("29.30", "29.34", "29.35")
def test_calls_know_what_they_modify_when_they_are_made(ir):
    def write(c):
        ops.add_(c, c)

    with ir.main_graph:
        x = popxl.variable(1.0)
        g = ir.create_graph(write, x)
        early = ops.call_with_info(g, x)
        with g:
            g._by_ref_inputs.add(g.inputs[0])
        late = ops.call_with_info(g, x)
        assert not early._op.modifiesIndex(0) and late._op.modifiesIndex(0)
        two = ir.create_graph(lambda a, b: a + b, x, x)
        assert ops.call_with_info(two, x, x).parent_to_graph(x) == two.inputs[0]
        assert ops.repeat_with_info(two, 0, x, x)._op.getTripCountValue() == 0


@pytest.mark.edge("29.11")
def test_ops_that_no_gradient_goes_through():
    ir = popxl.Ir(replication=2)
    with ir.main_graph:
        x = popxl.variable(np.ones((1, 1, 3, 3)))
        step = ir.create_graph(lambda t: ops.exp(t), x)
        buffer = popxl.remote_buffer(x.shape, x.dtype)
        for function, reason in (
            (lambda t: ops.scaled_add(t, t), "no gradient arises"),
            (lambda t: ops.conv_transpose(t, t), "no gradient arises"),
            (lambda t: ops.repeat(step, 2, t)[0], "no gradient arises"),
            (lambda t: ops.collectives.replicated_all_reduce(t), "no gradient arises"),
            (lambda t: ops.ipu_copy(t, 1, 0), "no gradient arises"),
            (lambda t: ops.io_tile_copy(t), "no gradient arises"),
            (lambda t: ops.remote_load_(buffer, 0, ops.exp(t)), "RemoteLoadInplace"),
        ):
            graph = ir.create_graph(lambda t, function=function: function(ops.exp(t)), x)
            with pytest.raises(popart.popart_exception, match=reason):
                popxl.transforms.autodiff(graph)
        other = ir.create_graph(lambda t: ops.exp(ops.exp(t)), x)
        assert len(popxl.transforms.autodiff(other).outputs) == 1


@pytest.mark.edge("29.22")
def test_snippets_that_do_not_run():
    ir = popxl.Ir(replication=4)
    pair = ir.replica_grouping(group_size=2)
    data = np.ones((2, 4), np.float32)
    with ir.main_graph:
        x = popxl.variable(data[0])
        buffer = popxl.replica_sharded_buffer((4,), popxl.float32)
        for snippet, error, message in (
            (lambda: popxl.variable(data, grouping=pair), TypeError, "grouping"),
            (lambda: popxl.remote_replica_sharded_variable(buffer, data[0]), TypeError, "popxl.RemoteBuffer"),
            (lambda: ops.remote_store(x, 0, buffer), TypeError, "popxl.RemoteBuffer"),
            (lambda: ops.matmul_(x, x), AttributeError, "matmul_"),
            (lambda: ops.collectives.replicated_all_gather(x, pair), ValueError, "axis"),
        ):
            with pytest.raises(error, match=message):
                snippet()
        assert popxl.variable(data, replica_grouping=pair).shape == (4,)
        assert ops.collectives.replicated_all_gather(x, group=pair).shape == (8,)


@pytest.mark.edge("29.33")
def test_all_functions_are_exported():
    assert {"remote_code_load", "log2", "pow"} <= set(ops.__all__)
    assert all(hasattr(ops, name) for name in ops.__all__) and all(hasattr(popxl, name) for name in popxl.__all__)


@pytest.mark.shows(
    "popxl.ops.utils.check_in_graph",
    "popxl.ops.utils.check_tensor_ipu_and_tile_set",
    "popxl.ops.utils.cast_if_needed",
    "popxl.ops.utils.handle_negative_axis",
    "popxl.ops.ipu_copy",
)
def test_checks_for_custom_ops(ir):
    with ir.main_graph as main:
        x = popxl.variable(np.zeros((2, 3)))
        utils.check_in_graph(main, x=x)
        with pytest.raises(TypeError, match="mine must be"):
            utils.check_in_graph(main, mine=3)
        with pytest.raises(ValueError, match="mine"):
            utils.check_in_graph(ir.create_empty_graph(), mine=x)
        for check in (lambda: utils.check_in_graph(main, x), lambda: utils.check_tensor_ipu_and_tile_set(x)):
            with pytest.raises(Exception, match="keyword"):
                check()
        y = x + 1
        z = ops.ipu_copy(y, 1)
        utils.check_tensor_ipu_and_tile_set(x=x, y=y)
        with pytest.raises(ValueError, match="y on 0, z on 1"):
            utils.check_tensor_ipu_and_tile_set(y=y, z=z)
        with pytest.raises(ValueError, match="different tile sets"):
            with popxl.io_tiles():
                io = x + x
            utils.check_tensor_ipu_and_tile_set(y=y, io=io)
        assert utils.cast_if_needed(x, popxl.float32) is x
        assert utils.cast_if_needed(x, popxl.float16).dtype is popxl.float16
        assert [utils.handle_negative_axis(x, axis) for axis in (-1, -2, 0, 1)] == [1, 0, 0, 1]


@pytest.mark.shows(
    "popxl.ops.utils.convert_optional_float",
    "popxl.ops.utils.convert_optional_int",
    "popxl.ops.utils.convert_optional_dtype",
    "popxl.ops.utils.convert_optional_int64_list",
)
def test_optional_values():
    for convert, value in (
        (utils.convert_optional_float, 0.5),
        (utils.convert_optional_int, 3),
        (utils.convert_optional_dtype, popxl.float16),
        (utils.convert_optional_int64_list, (1, 2)),
    ):
        assert bool(convert(value)) and not bool(convert(None))
        held = convert(value).value
        assert held == (value._pb_dtype if value is popxl.float16 else list(value) if isinstance(value, tuple) else value)


@pytest.mark.shows("popxl.typing_.NewAliasAnnotation", "popxl.errors.UndefinedValue", "popxl.__version__")
def test_small_things(ir):
    alias = popxl.typing_.NewAliasAnnotation("Mine", int)
    assert alias.__name__ == "Mine" and alias is not popxl.typing_.NewAliasAnnotation("Mine", int)
    with pytest.raises(NotImplementedError, match="Mine"):
        alias(1)
    assert issubclass(popxl.errors.UndefinedValue, Exception) and popxl.__version__.startswith("3.4")
    assert popart.popart_exception is not popxl.errors.UndefinedValue
