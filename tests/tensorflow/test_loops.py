"""`ipu.loops` (chapters 7 and 22)."""

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow import loops
from ipu_tensorflow.unit import compile

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def run(net, given=(), feed=None, variables=False):
    """Results of one run, and the variables."""
    with on_ipu():
        results = compile(net, list(given))
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        return session.run(results, feed), session.run(v1.global_variables())


@pytest.mark.shows("ipu.loops.repeat")
def test_repeat_runs_exactly_n_times():
    results, _ = run(lambda: loops.repeat(5, lambda a: a * 2.0, [tf.ones([3])]))
    assert results[0].tolist() == [32, 32, 32]


def test_one_value_is_a_list_of_one_and_gives_one_tensor():
    def net():
        found = loops.repeat(3, lambda a: a + 1, 4)
        assert tf.is_tensor(found) and found.dtype == tf.int32
        return found

    assert run(net)[0] == [7]


def test_several_values_give_a_list():
    def net():
        found = loops.repeat(4, lambda a, b: (a + b, b * 2.0), [1.0, 1.0])
        assert isinstance(found, list)
        return found

    assert run(net)[0] == [16, 16]


@pytest.mark.parametrize("n", [0, -3])
def test_a_loop_that_never_runs_gives_its_inputs(n):
    assert run(lambda: loops.repeat(n, lambda a: a + 1.0, [2.0]))[0] == [2]


def test_without_values_the_operations_run_each_time():
    def net():
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer())
        found = loops.repeat(6, lambda: count.assign_add(1.0).op)
        assert isinstance(found, tf.Operation)
        return found

    assert run(net)[1] == [6]


def test_operations_run_before_the_next_iteration_starts():
    def net():
        v = v1.get_variable("v", [], initializer=v1.ones_initializer())

        def body(total):
            return total + v, v.assign(v * 2.0).op

        return loops.repeat(4, body, [0.0])

    assert run(net) == ([15], [16])


def test_the_number_of_trips_is_known_when_the_unit_runs():
    n = v1.placeholder(tf.int32, [])
    with on_ipu():
        result = compile(lambda trips: loops.repeat(trips, lambda a: a + 1.0, [0.0]), [n])
    with v1.Session() as session:
        for trips in (3, 0, 7, -1):
            assert session.run(result, {n: trips}) == [max(trips, 0)]


def test_loops_nest():
    def net():
        return loops.repeat(3, lambda a: loops.repeat(2, lambda b: b + a, [a]), [1.0])

    assert run(net)[0] == [27]


@pytest.mark.shows("ipu.loops.while_loop")
def test_while_loop_stops_at_its_condition_or_at_the_most_iterations():
    def net():
        return (
            loops.while_loop(lambda a: a < 100.0, lambda a: a * 3.0, [1.0]),
            loops.while_loop(lambda a: a < 100.0, lambda a: a * 3.0, [1.0], maximum_iterations=2),
            loops.while_loop(lambda a: a < 0.0, lambda a: a * 3.0, [1.0]),
        )

    assert run(net)[0] == [243, 9, 1]


def test_while_loop_with_an_assign_in_its_body():
    def net():
        v = v1.get_variable("v", [], initializer=v1.zeros_initializer())
        return loops.while_loop(lambda i: i < 5, lambda i: (i + 1, v.assign_add(2.0).op), [0])

    assert run(net) == ([5], [10])


def test_training_inside_a_loop_equals_steps_of_plain_tensorflow(graph):
    data = some(4, 3)

    def step(x):
        w = v1.get_variable("w", [3, 2], initializer=v1.constant_initializer(0.3))
        loss = tf.reduce_mean(tf.square(tf.matmul(x, w) - 1.0))
        return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    def net(x):
        def body(_):
            return step(x)

        return loops.repeat(20, body, [0.0])

    x = v1.placeholder(tf.float32, [4, 3])
    (loss,), state = run(net, [x], {x: data})
    with tf.Graph().as_default(), v1.Session() as session:
        given = v1.placeholder(tf.float32, [4, 3])
        with v1.variable_scope("", use_resource=True):
            results = step(given)
        session.run(v1.global_variables_initializer())
        for _ in range(20):
            wanted, _ = session.run(results, {given: data})
        assert np.isclose(loss, wanted, rtol=1e-5)
        for mine, theirs in zip(state, session.run(v1.global_variables())):
            assert np.allclose(mine, theirs, rtol=1e-5, atol=1e-6)


def test_outside_of_a_unit_a_loop_is_one_of_tensorflow():
    found = loops.repeat(3, lambda a, b: (a + b, b * 2.0), [1.0, 1.0])
    with v1.Session() as session:
        assert session.run(found) == [8, 8]


def test_errors_of_building():
    def error(kind, text, make):
        with pytest.raises(kind, match=text), on_ipu():
            compile(make)

    error(TypeError, "cannot take 2 inputs", lambda: loops.repeat(2, lambda a: a, [1.0, 2.0]))
    error(TypeError, "takes 1 carried values and gives 2", lambda: loops.repeat(2, lambda a: (a, a), [1.0]))
    error(
        TypeError,
        "goes in as float32 and comes out as int32",
        lambda: loops.repeat(2, lambda a: tf.cast(a, tf.int32), [1.0]),
    )
    error(ValueError, "goes in with shape", lambda: loops.repeat(2, lambda a: tf.stack([a, a]), [1.0]))
    error(ValueError, "before the tensor", lambda: loops.repeat(2, lambda a: (tf.no_op(), a), [1.0]))
    error(
        TypeError, "the condition .* cannot take 1 inputs", lambda: loops.while_loop(lambda: True, lambda a: a, [1.0])
    )
    error(TypeError, "n is a Python int or an int32 scalar", lambda: loops.repeat(2.5, lambda a: a, [1.0]))
