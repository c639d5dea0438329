"""TensorArrays that grow, are concatenated, split and scattered, with gradients; candidate samplers."""

import numpy as np
import pytest
import tensorflow as tf
from both import on_ipu, some
from ipu_tensorflow.seeds import reset_ipu_seed
from ipu_tensorflow.unit import compile

v1 = tf.compat.v1


@pytest.fixture(autouse=True)
def graph():
    with tf.Graph().as_default() as graph:
        yield graph


def built(net, *given):
    with on_ipu():
        return compile(net, list(given))


def array_of(values, **given):
    array = tf.TensorArray(tf.float32, **given)
    for i, value in enumerate(values):
        array = array.write(i, value)
    return array


def filled(x, rounds, **given):
    """x, x², x³, ..."""
    array = tf.TensorArray(tf.float32, element_shape=x.shape, **given)
    body = lambda i, array, v: [i + 1, array.write(i, v), v * x]  # noqa: E731
    return tf.while_loop(lambda i, *_: i < rounds, body, [0, array, x], maximum_iterations=5)[1]


@pytest.mark.parametrize(
    "net",
    [
        lambda x: filled(x, 4, size=4).concat(),
        lambda x: tf.TensorArray(tf.float32, 3).split(x, [2, 2, 2]).stack(),
        lambda x: tf.TensorArray(tf.float32, 3).scatter([2, 0], tf.reshape(x, [2, 3])).stack(),
        lambda x: tf.TensorArray(tf.float32, 6).unstack(x).gather([4, 1, 1]),
    ],
)
def test_a_tensor_array_and_its_gradient(net):
    def both_of(x):
        y = net(x)
        return [y, tf.gradients(tf.reduce_sum(y * y), x)[0]]

    x = v1.placeholder(tf.float32, [6])
    ours, theirs = built(both_of, x), both_of(x)
    with v1.Session() as session:
        for mine, other in zip(*session.run([ours, theirs], {x: some(6)})):
            np.testing.assert_allclose(mine, other, rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize(
    "net",
    [
        lambda x: filled(x, 5, size=0, dynamic_size=True).stack(),
        lambda x: filled(x, 4, size=2, dynamic_size=True).stack(),
        lambda x: filled(x, 4, size=0, dynamic_size=True).concat(),
    ],
)
def test_an_array_that_grows(net):
    x = v1.placeholder(tf.float32, [6])
    ours, theirs = built(net, x), net(x)
    with v1.Session() as session:
        mine, other = session.run([ours[0], theirs], {x: some(6)})
    assert mine.shape == other.shape
    np.testing.assert_allclose(mine, other, rtol=1e-5)


def test_an_array_that_has_not_grown_to_its_room_ends_the_run():
    def net(x, n):
        return filled(x, n, size=0, dynamic_size=True).stack()

    x, n = v1.placeholder(tf.float32, [6]), v1.placeholder(tf.int32, [])
    result = built(net, x, n)
    with v1.Session() as session:
        assert session.run(result, {x: some(6), n: 5})[0].shape == (5, 6)
        with pytest.raises(
            tf.errors.InternalError, match=r"\[3\] entries is made one tensor, which was compiled for 5"
        ):
            session.run(result, {x: some(6), n: 3})


@pytest.mark.parametrize("unique", [False, True])
@pytest.mark.parametrize("kind", ["log_uniform", "uniform"])
def test_candidates_are_drawn_by_their_chance(kind, unique):
    classes, count = 12, 8

    def net(true):
        sampler = getattr(tf.random, f"{kind}_candidate_sampler")
        return list(sampler(true, 2, count, unique, classes))

    true = v1.placeholder(tf.int64, [3, 2])
    result = built(net, true)
    numbers = np.arange(6).reshape(3, 2)
    p = np.full(classes, 1 / classes)
    if kind == "log_uniform":
        p = np.log((np.arange(classes) + 2) / (np.arange(classes) + 1)) / np.log(classes + 1)
    seen = np.zeros(classes)
    reset_ipu_seed(1)
    with v1.Session() as session:
        for _ in range(60):
            drawn, expected, own = session.run(result, {true: numbers})
            assert drawn.dtype == np.int64 and drawn.shape == (count,) and drawn.min() >= 0 and drawn.max() < classes
            np.add.at(seen, drawn, 1)
            if unique:
                assert len(set(drawn)) == count
                tries = np.log1p(-own[0]) / np.log1p(-p[drawn[0]])
                assert tries > count - 0.01 and abs(tries - round(tries)) < 0.01
                table = -np.expm1(tries * np.log1p(-p))
            else:
                table = p * count
            np.testing.assert_allclose(expected, table[numbers], rtol=1e-3)
            np.testing.assert_allclose(own, table[drawn], rtol=1e-3)
    if not unique:
        assert abs(seen / seen.sum() - p).max() < 0.06
