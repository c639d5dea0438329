"""Contexts: the current graph, names, IPUs, tile sets, order, hooks; all restore what was, also after exceptions."""

import pytest

import popxl
from popxl import ops
from popxl.context import debug_context_frame_offset, get_current_context, get_source_location, op_debug_context


def before(t):
    """Ids of the ops that the maker of a tensor follows."""
    program = t._ir._program
    return set(program.before(program.producer(t._number)))


def maker(t):
    return t._ir._program.producer(t._number)


@pytest.mark.shows(
    "popxl.gcg", "popxl.gmg", "popxl.gir", "popxl.get_current_graph", "popxl.get_main_graph", "popxl.get_ir"
)
def test_the_current_graph(ir):
    for get in (popxl.gcg, popxl.gmg, popxl.gir, popxl.get_current_graph, popxl.get_main_graph, popxl.get_ir):
        with pytest.raises(RuntimeError, match="current graph"):
            get()
    g = ir.create_empty_graph("g")
    with g:
        assert popxl.gcg() is g and popxl.gmg() is ir.main_graph and popxl.gir() is ir
        with ir.main_graph, g:
            assert popxl.gcg() is g
        with pytest.raises(RuntimeError, match="another|cannot become current"):
            with popxl.Ir().main_graph:
                pass
        assert popxl.gcg() is g


@pytest.mark.shows("popxl.context.Context", "popxl.context.get_current_context")
@pytest.mark.edge("29.15")
def test_contexts_are_restored_after_exceptions(ir):
    context = get_current_context()
    assert type(context) is popxl.context.Context
    with pytest.raises(KeyError):
        with ir.main_graph, popxl.ipu(3), popxl.io_tiles(), popxl.in_sequence(), popxl.name_scope("a"):
            assert (context.ipu_id, context.io_tile_set, context.in_sequence) == (3, "io", True)
            assert context.name_scopes == ["a"]
            raise KeyError
    assert (context.ipu_id, context.io_tile_set, context.in_sequence) == (0, "compute", None)
    assert context.name_scopes == []
    with pytest.raises(RuntimeError):
        context.graph


@pytest.mark.shows("popxl.name_scope", "popxl.Tensor.name", "popxl.Tensor.scope")
def test_name_scopes(ir):
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        with popxl.name_scope("a") as scopes:
            assert scopes == ["a"]
            with popxl.name_scope("b"):
                y = x + x
                g = ir.create_graph(lambda t: t + t, x)
        z = x + x
    assert y.id == y.name == "a/b/add_out" and z.id == "add_out"
    assert g.inputs[0].name == "a/b/t" and g.inputs[0].scope == g.name
    assert g.outputs[0].id == f"{g.name}/a/b/add_out"


@pytest.mark.shows("popxl.ipu", "popxl.io_tiles", "popxl.Tensor.ipu", "popxl.Tensor.tile_set")
@pytest.mark.shows("popxl.ops.io_tile_copy")
def test_contexts_place_new_ops_on_ipus_and_tiles(ir):
    with ir.main_graph:
        v = popxl.variable(1.0, name="v")
        for what in ("ipu", "tile_set"):
            with pytest.raises(popxl.errors.UndefinedValue):
                getattr(v, what)
        with popxl.ipu(1) as number:
            assert number == 1
            y = v + v
            with popxl.io_tiles():
                z = y + y
        with popxl.ipu(None):
            w = popxl.variable(2.0)
            n = w + w
        assert (y.ipu, y.tile_set, z.ipu, z.tile_set) == (1, "compute", 1, "io")
        assert v.ipu == 1
        with pytest.raises(popxl.errors.UndefinedValue):
            n.ipu
        with pytest.raises(ValueError, match="source"):
            ops.ipu_copy(n, 2)
        c = ops.ipu_copy(y, 2)
        assert c.name == "add_out_c2" and c.ipu == 2
        assert ops.io_tile_copy(y).name == "add_out_iotilecopy"
        with pytest.raises(ValueError, match="different IPUs"):
            y + c


@pytest.mark.shows("popxl.in_sequence")
def test_order_of_ops(ir):
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        free = x + 0
        with popxl.in_sequence():
            a = x + 1
            with popxl.in_sequence(False):
                b, c = x + 2, x + 3
            with popxl.in_sequence("pass"):
                p = x + 4
            d = x + 5
        with popxl.in_sequence():
            e = x + 6
        with pytest.raises(TypeError, match="None"):
            popxl.in_sequence(None)

        @popxl.in_sequence()
        def two():
            return x + 7, x + 8

        f, h = two()
    assert before(free) == before(a) == before(p) == before(e) == before(f) == set()
    assert before(b) == before(c) == {maker(a)}
    assert before(d) >= {maker(b), maker(c)} and maker(p) not in before(d)
    assert before(h) == {maker(f)}


@pytest.mark.shows("popxl.ExecutionContext")
def test_order_is_kept_for_each_graph_and_execution_context(ir):
    g = ir.create_empty_graph()
    with ir.main_graph, popxl.in_sequence():
        x = popxl.variable(1.0, name="x")
        a = x + 1
        with g:
            t = popxl.graph_input((), popxl.float32)
            inner = t + t
        with popxl.context._execution_context(popxl.ExecutionContext.WeightsFromHostFragment):
            other = x + 2
        b = x + 3
    assert before(inner) == before(other) == set() and before(b) == {maker(a)}


def test_deleting_the_mode_is_refused():
    with pytest.raises(AttributeError):
        del get_current_context().in_sequence


@pytest.mark.shows("popxl.Graph.register_op_created_hook", "popxl.Graph.remove_op_created_hook")
def test_hooks_see_each_op_that_is_created_in_their_graph(ir):
    seen = []
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        g = ir.create_graph(lambda t: t + t, x)
        first = ir.main_graph.register_op_created_hook(lambda op: seen.append(("first", op.opType())))
        second = ir.main_graph.register_op_created_hook(lambda op: seen.append(("second", len(op.getInputTensors()))))
        assert second == first + 1
        x + x
        ops.call(g, x)
        with g:
            g.inputs[0] + g.inputs[0]
        assert seen == [("first", "Add"), ("second", 2), ("first", "Call"), ("second", 0)]
        ir.main_graph.remove_op_created_hook(first)
        x + x
        assert seen[4:] == [("second", 2)]
        ir.main_graph.remove_op_created_hook(second)
        x + x
        assert len(seen) == 5
        with pytest.raises(ValueError, match=str(second)):
            ir.main_graph.remove_op_created_hook(second)


def test_settings_for_custom_ops(ir):
    context = get_current_context()
    with ir.main_graph, popxl.ipu(2), popxl.io_tiles(), popxl.name_scope("s"):
        settings = context._get_op_settings("mine")
    assert settings.name == "s/mine" and settings.tileSet is popxl.TileSet.IO
    assert settings.executionContext is popxl.ExecutionContext.Normal


def helper(x):
    with debug_context_frame_offset(0):
        return x + 1


@pytest.mark.shows("popxl.context.debug_context_frame_offset")
def test_ops_know_the_line_of_the_user(ir):
    with ir.main_graph:
        x = popxl.variable(1.0, name="x")
        y, line = x + 1, get_source_location(0).lineNumber
        z, line_of_call = helper(x), get_source_location(0).lineNumber
    program = ir._program
    assert program.op_setting(maker(y), "location") == (__file__, line)
    assert program.op_setting(maker(z), "location") == (__file__, line_of_call)
    with pytest.raises(IndexError):
        get_source_location(10_000)


@pytest.mark.shows("popxl.context.op_debug_context")
def test_debug_names_nest():
    context = get_current_context()
    seen = []

    @op_debug_context
    def inner():
        seen.append(context._record)

    @op_debug_context("other")
    def outer():
        inner()
        seen.append(context._record)

    outer()
    assert seen == ["inner", "other"] and context._record is None
