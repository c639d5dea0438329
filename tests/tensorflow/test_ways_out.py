"""Errors of building name what cannot be compiled, with the nearest way out for each type, and where shapes are lost."""

import pytest
import tensorflow as tf
from both import on_ipu
from ipu_tensorflow import core, ways_out
from ipu_tensorflow.unit import compile
from tensorflow.python.framework import op_def_registry

v1 = tf.compat.v1
errors = tf.errors


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def refused(kind, net, *given):
    with on_ipu(), pytest.raises(kind) as caught:
        compile(net, list(given))
    return str(caught.value).partition("Original stack trace")[0]


def vector():
    return v1.placeholder(tf.float32, [4], name="x")


def test_the_table_names_types_of_tensorflow_that_have_no_rule():
    known = {kind for _, kind in core.node_types()}
    types = ways_out.known_types()
    assert len(types) > 100 and not known.intersection(types)
    assert [kind for kind in types if op_def_registry.get(kind) is None] == []


@pytest.mark.parametrize(
    ("net", "way"),
    [
        (
            lambda x: tf.numpy_function(lambda a: a, [x], tf.float32),
            "Python cannot run on the IPU; compute it on the CPU",
        ),
        (lambda x: tf.raw_ops.Qr(input=tf.reshape(x, [2, 2]))[0], "tf.linalg.cholesky"),
        (lambda x: tf.abs(tf.signal.rfft(x)), "multiply by the matrix of the transform"),
        (lambda x: tf.random.gamma([3], x), "draw tf.random.normal"),
        (lambda x: tf.raw_ops.Betainc(a=x, b=x, x=x), "compute it on the CPU, outside of ipu_compiler.compile"),
    ],
)
def test_the_way_out_is_that_of_the_type(net, way):
    text = refused(errors.UnimplementedError, net, vector())
    assert way in text and "has no rule for the IPU" in text and "test_ways_out.py:" in text


def test_all_kinds_of_operations_that_cannot_be_compiled_are_in_one_error():
    def net(x):
        inside = tf.cond(x[0] > 0.0, lambda: tf.raw_ops.Betainc(a=x, b=x, x=x), lambda: x)
        return inside, tf.raw_ops.Betainc(a=x, b=x, x=x), tf.unique(x)[0]

    text = refused(errors.InvalidArgumentError, net, vector())
    assert "3 operations cannot be compiled" in text and "Betainc x2" in text and "'Unique' (Unique) at" in text
    assert "tf.math.unsorted_segment_sum" in text


def test_operations_that_nothing_reads_are_not_refused():
    def net(x):
        with tf.control_dependencies([tf.raw_ops.Betainc(a=x, b=x, x=x)]):
            return tf.identity(x)

    with on_ipu():
        compile(net, [vector()])


def test_the_way_out_of_a_table_is_the_dataset():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2])), 0)
    text = refused(errors.InvalidArgumentError, lambda: table.lookup(tf.constant([1, 2])))
    assert "resource that is no variable" in text and "in the dataset of an infeed" in text


def test_the_operation_that_first_loses_a_shape_is_named():
    def net(x, n):
        lost = tf.reshape(x, [n, -1])  # here
        return tf.reduce_sum(lost * 2.0 + 1.0)

    text = refused(errors.InvalidArgumentError, net, vector(), v1.placeholder(tf.int32, []))
    assert "'Reshape' (Reshape) at" in text and "is the first whose shape is not known" in text
    assert "shapes inside a unit are static" in text and "AddV2" not in text


def test_the_shape_of_an_input_is_lost_outside():
    given = v1.placeholder(tf.float32, [None, 3], name="batch")
    text = refused(errors.InvalidArgumentError, lambda x: x + 1.0, given * 2.0)
    assert "'batch' (Placeholder) at" in text and f"'mul:0' has the shape {given.shape}" in text
