"""TensorFlow's optimizers in units: 20 steps are as near to the same steps in float64 as TensorFlow's own are."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some

v1 = tf.compat.v1
train = v1.train
STEPS = 20

OPTIMIZERS = {
    "gradient descent": lambda: train.GradientDescentOptimizer(0.1),
    "momentum": lambda: train.MomentumOptimizer(0.1, 0.9),
    "nesterov": lambda: train.MomentumOptimizer(0.1, 0.9, use_nesterov=True),
    "adam": lambda: train.AdamOptimizer(0.01),
    "rmsprop": lambda: train.RMSPropOptimizer(0.01, momentum=0.5),
    "centred rmsprop": lambda: train.RMSPropOptimizer(0.01, momentum=0.5, centered=True),
}


def network(optimizer):
    def net(x, labels):
        def layer(value, units, name):
            with v1.variable_scope(name):
                w = v1.get_variable("w", [value.shape[-1], units], value.dtype, initializer=v1.ones_initializer())
                b = v1.get_variable("b", [units], value.dtype, initializer=v1.zeros_initializer())
            return tf.nn.bias_add(tf.matmul(value, w), b)

        hidden = tf.nn.relu(layer(x, 16, "one"))
        logits = layer(hidden, 5, "two")
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        return loss, optimizer().minimize(loss)

    return net


def start_of(net, fed):
    """Values for the variables: random where they are weights, as initialised where an optimizer has them."""
    _, before, _ = both.plain(net, fed[:1])
    return {
        name: some(*value.shape, seed=len(name)) * 0.3 if name in ("one/w", "two/w") else value
        for name, value in before.items()
    }


def flat(rows, state):
    values = [row[0] for row in rows] + [state[name] for name in sorted(state)]
    return np.concatenate([np.ravel(value).astype(np.float64) for value in values])


@pytest.mark.parametrize("name", OPTIMIZERS)
def test_an_optimizer(name):
    net = network(OPTIMIZERS[name])
    random = np.random.default_rng(3)
    fed = [(some(8, 10, seed=i), random.integers(0, 5, 8).astype(np.int32)) for i in range(STEPS)]
    start = start_of(net, fed)
    rows, _, state = both.plain(net, fed, start)
    mine, _, ours = both.ours(net, fed, start)
    wide = [(x.astype(np.float64), labels) for x, labels in fed]
    exact = flat(*both.plain(net, wide, {key: value.astype(np.float64) for key, value in start.items()})[::2])
    assert list(ours) == list(state)
    theirs_off = np.linalg.norm(flat(rows, state) - exact)
    assert np.linalg.norm(flat(mine, ours) - exact) <= 3 * theirs_off + 1e-6
    assert np.linalg.norm(flat(mine, ours) - flat(rows, start)) > 0.1  # it has trained


def test_filters_and_matrices_are_kept_as_kernels_read_them():
    def filtered(x, shape, name):
        return tf.nn.conv2d(x, v1.get_variable(name, shape, initializer=ramp), strides=1, padding="SAME")

    def ramp(shape, dtype=None, partition_info=None):
        return tf.reshape(tf.cos(tf.range(np.prod(shape), dtype=tf.float32)), shape) * 0.2

    def net(x, labels):
        x = tf.nn.relu(filtered(x, [3, 3, 2, 20], "one"))
        x = tf.nn.relu(filtered(x, [3, 2, 20, 3], "rows"))
        x = tf.reshape(filtered(x, [1, 1, 3, 4], "points"), [-1, 64])
        square = v1.get_variable("square", [64, 64], initializer=ramp)
        x = tf.nn.relu(tf.matmul(x, square) + v1.get_variable("bias", [64], initializer=ramp))
        logits = tf.matmul(x, v1.get_variable("wide", [5, 64], initializer=ramp), transpose_b=True)
        loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
        return loss, train.MomentumOptimizer(0.05, 0.9).minimize(loss)

    random = np.random.default_rng(0)
    fed = [(some(6, 4, 4, 2, seed=i), random.integers(0, 5, 6).astype(np.int32)) for i in range(3)]
    _, state = both.check(lambda x, labels: net(x, labels), *fed, tolerance=1e-4)
    assert len(state) == 12


def test_an_embedding_has_a_dense_gradient():
    def net(words, labels):
        table = v1.get_variable("table", [7, 3], initializer=v1.ones_initializer())
        rows = tf.nn.embedding_lookup(table, words)
        loss = tf.reduce_mean(tf.square(tf.reduce_sum(rows, axis=[1, 2]) - labels))
        return loss, train.MomentumOptimizer(0.01, 0.9).minimize(loss)

    random = np.random.default_rng(0)
    fed = [(random.integers(0, 7, (4, 5)).astype(np.int32), some(4, seed=i)) for i in range(3)]
    both.check(net, *fed, tolerance=1e-4)
