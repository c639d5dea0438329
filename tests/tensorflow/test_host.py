"""The names of TensorFlow that are not documented and that ipu_tensorflow/host.py uses: they are there and mean what we think."""

import pathlib
import re

import ipu_tensorflow.host
import pytest
import tensorflow as tf
from ipu_tensorflow import host

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def test_attributes_of_operations_and_scopes(graph):
    with host.attribute_scope(graph, {"_mine": host.AttrValue(i=3)}):
        assert host.scoped_attribute(graph, "_mine").i == 3
        op = tf.constant(1.0).op
    host.set_attribute(op, "_other", host.AttrValue(b=True))
    assert op.get_attr("_mine") == 3 and op.get_attr("_other") and host.scoped_attribute(graph, "_mine") is None


def test_what_is_built_in_a_traced_graph_stays_there(graph):
    outside = tf.constant([1.0, 2.0])
    with tf.name_scope("outer"):
        traced = host.TracedGraph("traced")
        with traced.tracing(), tf.control_dependencies([outside.op]):
            inside = outside * 2.0
            v = v1.get_variable("v", [2], use_resource=True)
            v1.add_to_collection(v1.GraphKeys.UPDATE_OPS, inside.op)
    assert inside.graph is traced and inside.op.name == "outer/mul"
    assert host.is_traced(traced) and not host.is_traced(graph)
    assert [pair[0] is outside for pair in host.captures_of(traced)] == [True]
    assert traced.captured_operations == [outside.op]
    assert v.handle.graph is graph and v1.global_variables() == [v]
    assert v1.get_collection(v1.GraphKeys.UPDATE_OPS) == []
    assert host.handle_shape_and_type(v.handle) == (tf.TensorShape([2]), tf.float32)


def test_the_graph_of_a_function():
    traced = host.TracedGraph("traced")
    with traced.tracing():
        x = v1.placeholder(tf.float32, [])
        tf.cond(x > 0.0, lambda: x * 2.0, lambda: x)
    (branch,) = [op for op in traced.get_operations() if op.type == "StatelessIf"]
    inside = host.function_graph(traced, branch.get_attr("then_branch").name, branch.inputs[1:])
    assert "Mul" in [op.type for op in inside.get_operations()]


def test_one_operation_runs_eagerly():
    a, b = tf.constant([1, 2]), tf.constant([3, 4])
    assert host.evaluate((a + b).op, [[5, 6], [1, 1]])[0].tolist() == [6, 7]


def test_no_other_module_imports_what_is_not_documented():
    hidden = re.compile(r"^\s*(from|import) tensorflow\.(python|core|compiler)", re.MULTILINE)
    files = pathlib.Path(ipu_tensorflow.host.__file__).parent.glob("*.py")
    assert [file.name for file in files if hidden.search(file.read_text())] == ["host.py"]
