"""tf.switch_case and tf.case, with state and gradients; printing and checking of values."""

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


def built(net, *given):
    with on_ipu():
        return compile(net, list(given))


def placeholders():
    return v1.placeholder(tf.float32, [3]), v1.placeholder(tf.int32, [])


X = np.array([1, 2, 3], np.float32)


def test_the_branch_of_the_index_runs_and_the_last_one_where_there_is_none():
    x, i = placeholders()
    result = built(lambda x, i: tf.switch_case(i, [lambda: x, lambda: x * 2.0, lambda: x * 3.0]), x, i)
    with v1.Session() as session:
        for index, factor in ((0, 1), (1, 2), (2, 3), (7, 3), (-1, 3)):
            assert session.run(result, {x: X, i: index})[0].tolist() == (X * factor).tolist()


def test_a_known_index_leaves_one_branch():
    x, _ = placeholders()
    result = built(lambda x: tf.switch_case(tf.constant(1), [lambda: x, lambda: x * 2.0]), x)
    with v1.Session() as session:
        assert session.run(result, {x: X})[0].tolist() == [2, 4, 6]


def test_branches_assign_variables_of_their_own():
    def net(x, i):
        a, b = (v1.get_variable(name, [], initializer=v1.zeros_initializer(), use_resource=True) for name in "ab")

        def adding(variable, value):
            def branch():
                with tf.control_dependencies([variable.assign_add(value)]):
                    return x + value

            return branch

        return tf.switch_case(i, [adding(a, 1.0), adding(b, 10.0), lambda: x, adding(a, 100.0)])

    x, i = placeholders()
    result = built(net, x, i)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        for index in (0, 1, 1, 2, 3):
            session.run(result, {x: X, i: index})
        assert session.run(v1.global_variables()) == [101, 20]


def test_a_case_in_a_loop():
    def net(x):
        def body(i, x):
            return i + 1, tf.switch_case(i % 3, [lambda: x + 1.0, lambda: x * 2.0, lambda: x - 3.0])

        return loops.repeat(5, body, [0, x])

    x, _ = placeholders()
    result = built(net, x)
    with v1.Session() as session:
        assert session.run(result, {x: X})[1].tolist() == [((v + 1) * 2 - 3 + 1) * 2 for v in X]


def test_what_is_printed(capfd):
    def net(x):
        y = v1.Print(x * 2.0, [x, tf.reduce_sum(x)], message="x=", summarize=2)
        with tf.control_dependencies([tf.print("the sum:", tf.reduce_sum(y), "of", y)]):
            return y + 1.0

    x, _ = placeholders()
    result = built(net, x)
    with v1.Session() as session:
        assert session.run(result, {x: X})[0].tolist() == [3, 5, 7]
    printed = capfd.readouterr().err
    assert "x: [" in printed and "the sum: 12" in printed and "of: [2.000 4.000 6.000]" in printed


def test_printing_so_many_times_is_refused():
    x, _ = placeholders()
    with pytest.raises(tf.errors.UnimplementedError, match="first_n"):
        built(lambda x: v1.Print(x, [x], first_n=2), x)


def test_numbers_that_are_none_end_the_run_with_their_message():
    def net(x):
        count = v1.get_variable("count", [], initializer=v1.zeros_initializer(), use_resource=True)
        with tf.control_dependencies([count.assign_add(1.0)]):
            return tf.debugging.check_numerics(tf.math.log(x), "the logarithm") * 2.0

    x, _ = placeholders()
    result = built(net, x)
    with v1.Session() as session:
        session.run(v1.global_variables_initializer())
        session.run(result, {x: X})
        with pytest.raises(tf.errors.InternalError, match="the logarithm : Tensor had Inf or NaN values"):
            session.run(result, {x: [1, 0, 1]})
        assert session.run(v1.global_variables()) == [1]


@pytest.mark.parametrize("solve", [tf.linalg.cholesky, tf.linalg.inv, lambda a: tf.linalg.solve(a, a)])
def test_a_matrix_without_a_result_ends_the_run(solve):
    x = v1.placeholder(tf.float32, [2, 2])
    result = built(solve, x)
    with v1.Session() as session:
        session.run(result, {x: np.eye(2)})
        with pytest.raises(tf.errors.InternalError, match="not successful|not invertible"):
            session.run(result, {x: [[1, 1], [1, 1]]})


@pytest.mark.parametrize(
    "net",
    [
        lambda x: tf.linalg.cholesky(tf.matmul(x, x, transpose_b=True) + 3.0 * tf.eye(3)),
        lambda x: tf.linalg.inv(x + 3.0 * tf.eye(3)),
        lambda x: tf.linalg.triangular_solve(tf.linalg.set_diag(x, tf.ones([3])), x),
        lambda x: tf.nn.conv3d(tf.reshape(x, [1, 1, 3, 3, 1]), tf.reshape(x[0], [1, 1, 3, 1, 1]), [1] * 5, "SAME"),
        lambda x: tf.nn.max_pool3d(tf.reshape(x, [1, 1, 3, 3, 1]), 2, 1, "SAME"),
        lambda x: tf.nn.lrn(tf.reshape(x, [1, 1, 3, 3])),
        lambda x: v1.image.resize_bilinear(tf.reshape(x, [1, 3, 3, 1]), [5, 4]),
    ],
)
def test_gradients_are_those_of_tensorflow(net):
    def gradient(x):
        return tf.gradients(tf.reduce_sum(tf.square(net(x))), [x])[0]

    value = some(3, 3)
    x = v1.placeholder(tf.float32, [3, 3])
    result, theirs = built(gradient, x), gradient(x)
    with v1.Session() as session:
        ours, right = session.run([result[0], theirs], {x: value})
    np.testing.assert_allclose(ours, right, rtol=2e-4, atol=1e-5)


def test_stateless_numbers_follow_from_their_seed():
    def net(seed):
        return [
            tf.random.stateless_uniform([500], seed),
            tf.random.stateless_normal([500], seed),
            tf.random.stateless_uniform([500], seed, 3, 9, tf.int32),
            tf.random.stateless_truncated_normal([500], seed),
        ]

    seed = v1.placeholder(tf.int32, [2])
    result = built(net, seed)
    with v1.Session() as session:
        first, again, other = (session.run(result, {seed: value}) for value in ([1, 2], [1, 2], [1, 3]))
    for a, b, c in zip(first, again, other):
        assert (a == b).all() and (a != c).any()
    assert 0.4 < first[0].mean() < 0.6 and abs(first[1].mean()) < 0.2 and abs(first[3]).max() <= 2
    assert set(first[2]) == set(range(3, 9))
