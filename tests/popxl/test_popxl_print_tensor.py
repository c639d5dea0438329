"""print_tensor: what it writes, forward and backward, and its arguments."""

import numpy as np
import popxl
import pytest
from one_program import OneProgram, op_types
from popxl import ops

X = np.array([1.5, -2.0], np.float32)


@pytest.mark.shows("popxl.ops.print_tensor")
def test_prints_go_to_stderr_with_title_and_format(capfd):
    with OneProgram() as p:
        x = popxl.variable(X, name="x")
        y = ops.print_tensor(x)
        p.out(y)
        ops.print_tensor(x, "mine", separator=",", open_bracket="(", close_bracket=")", float_format="fixed", digits=2)
        ops.print_tensor(x, "silent", print_self=False)
        assert op_types(p.ir.main_graph).count("PrintTensor") == 3
        assert y.spec == x.spec
    np.testing.assert_array_equal(p.run()[0], X)
    text = capfd.readouterr().err
    assert "print_x" in text and "1.5" in text and "[" in text
    assert "mine" in text and "(" in text and "," in text
    assert "silent" not in text


@pytest.mark.shows("popxl.ops.print_tensor")
def test_8_bit_floats_are_shown_as_values(capfd):
    with OneProgram() as p:
        x = popxl.variable(X, popxl.float8_143)
        y = ops.print_tensor(x, "eight")
        assert y.dtype is popxl.float8_143
        p.out(ops.pow2scale_cast_from_fp8(y, popxl.constant(0, popxl.int32), popxl.float16))
    np.testing.assert_array_equal(p.run()[0], X)
    text = capfd.readouterr().err
    assert "eight" in text and "1.5" in text and "-2.0" in text


@pytest.mark.shows("popxl.ops.print_tensor")
def test_the_gradient_is_printed_by_an_op_of_the_same_type_where_that_is_asked_for(capfd):
    def loud(x):
        return ops.print_tensor(x * 2.0, "loud", print_self=False, print_gradient=True)

    def quiet(x):
        return ops.print_tensor(x * 2.0, "quiet")

    with OneProgram() as p:
        x = p.of(X)
        for function in (loud, quiet):
            graph = p.ir.create_graph(function, x)
            info = popxl.transforms.autodiff(graph, grads_required=[graph.inputs[0]])
            assert op_types(info.graph).count("PrintTensor") == 1
            call = ops.call_with_info(graph, x)
            p.out(
                ops.call_with_info(
                    info.graph, popxl.constant(np.array([7.0, 8.0], np.float32)), inputs_dict=info.inputs_dict(call)
                ).outputs[0]
            )
            p.out(call.outputs[0])
    values = p.run()
    np.testing.assert_array_equal(values[0], [14.0, 16.0])
    np.testing.assert_array_equal(values[2], [14.0, 16.0])
    text = capfd.readouterr().err
    assert "loud_gradient" in text and "7" in text
    assert "quiet" in text and "quiet_gradient" not in text


@pytest.mark.shows("popxl.ops.print_tensor")
def test_arguments_of_prints_are_checked_before_anything_is_added():
    with OneProgram() as p:
        x = p.of(X)
        with pytest.raises(KeyError, match="hex"):
            ops.print_tensor(x, float_format="hex")
        for name in ("separator", "open_bracket", "close_bracket"):
            for text in ("", "--"):
                with pytest.raises(ValueError, match=name):
                    ops.print_tensor(x, **{name: text})
        assert op_types(p.ir.main_graph) == []
