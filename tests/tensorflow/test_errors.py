"""Errors by moment (chapter 25): class, what, the user's line and a cure; afterwards all goes on."""

import os
import signal
import threading
import time

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu
from ipu_tensorflow import loops
from ipu_tensorflow.outfeed import IPUOutfeedQueue
from ipu_tensorflow.unit import compile, units_of

v1 = tf.compat.v1
errors = tf.errors


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def built(net, *given):
    with on_ipu():
        return compile(net, list(given))


def refused(kind, net, *given):
    with pytest.raises(kind) as caught:
        built(net, *given)
    return str(caught.value)


def vector():
    return v1.placeholder(tf.float32, [4], name="x")


def test_all_operations_without_a_rule_are_listed_with_counts_and_lines():
    def net(x):
        def python(a):
            return tf.numpy_function(np.sin, [a], tf.float32)

        y = python(x) + python(x)
        return tf.ensure_shape(y, [4]), tf.raw_ops.Betainc(a=x, b=x, x=x)

    text = refused(errors.UnimplementedError, net, vector())
    assert "PyFunc" in text and "x2" in text and "Betainc" in text and "test_errors.py:" in text
    assert "outside of ipu_compiler.compile" in text


def test_shapes_that_depend_on_values():
    text = refused(errors.InvalidArgumentError, lambda x: (tf.where(x > 0.0), tf.unique(x)[0]), vector())
    assert "2 operations cannot be compiled" in text and "(Where) at" in text and "(Unique) at" in text
    assert "Use a mask" in text and "test_errors.py:" in text


def test_strings():
    assert "has the type string" in refused(errors.InvalidArgumentError, lambda x: tf.strings.as_string(x), vector())


def test_a_resource_that_is_no_variable():
    table = tf.lookup.StaticHashTable(tf.lookup.KeyValueTensorInitializer(tf.constant([1]), tf.constant([2])), 0)
    text = refused(errors.InvalidArgumentError, lambda: table.lookup(tf.constant([1, 2])))
    assert "resource that is no variable" in text


def test_more_shards_than_ipus():
    def net(x):
        from ipu_tensorflow import scopes

        with scopes.ipu_shard(0):
            y = x * 2.0
        with scopes.ipu_shard(1):
            return y + 1.0

    x = vector()
    result = built(net, x)
    with v1.Session() as session, pytest.raises(errors.InternalError, match="uses 2 and device 0 has 1"):
        session.run(result, {x: np.ones(4)})


def test_a_failing_assertion_has_its_message_and_nothing_is_written():
    outfeed = IPUOutfeedQueue()

    def net(x):
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
        with tf.control_dependencies(
            [v1.assert_less(tf.reduce_max(x), 10.0, message="too large for me"), count.assign_add(1.0).op]
        ):
            return tf.identity(x), outfeed.enqueue(x)

    x = vector()
    result = built(net, x)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(result, {x: np.ones(4)})
        with pytest.raises(errors.InternalError, match="too large for me"):
            session.run(result, {x: np.full(4, 11)})
        assert session.run(v1.global_variables()) == [1]
        session.run(result, {x: np.ones(4)})
        assert session.run(v1.global_variables()) == [2]


def test_an_integer_that_does_not_fit():
    x = v1.placeholder(tf.int64, [2])
    result = built(lambda a: a + 1, x)
    with v1.Session() as session:
        assert session.run(result, {x: [1, 2]})[0].tolist() == [2, 3]
        assert session.run(result, {x: [1, 2]})[0].dtype == np.int64
        with pytest.raises(errors.InvalidArgumentError, match="integer does not fit"):
            session.run(result, {x: [1, 1 << 40]})
        assert session.run(result, {x: [5, 6]})[0].tolist() == [6, 7]


def test_ctrl_c_ends_a_run():
    def net(x):
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
        return loops.repeat(2_000_000_000, lambda a: (a * 1.0001, count.assign_add(1.0).op), [x])

    x = vector()
    result = built(net, x)
    (native,) = units_of(v1.get_default_graph())

    def interrupt():  # the run itself, which would go on for hours
        while native.counts()["compilations"] == 0:
            time.sleep(0.01)
        os.kill(os.getpid(), signal.SIGINT)

    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        thread = threading.Thread(target=interrupt)
        thread.start()
        with pytest.raises(errors.CancelledError, match="interrupted"):
            session.run(result, {x: np.ones(4)})
        thread.join()
        assert session.run(v1.global_variables()) == [0]
