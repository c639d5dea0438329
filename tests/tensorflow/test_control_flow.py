"""Loops and conditions that users build with TensorFlow, in each other and with gradients (chapters 28 and 30)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some

v1 = tf.compat.v1


def trained(y):
    loss = tf.reduce_sum(tf.tanh(y) ** 2)
    with tf.control_dependencies([loss]):
        return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)


def weight():
    return v1.get_variable("w", [4], initializer=v1.constant_initializer(0.8))


def times(count, step, x):
    return tf.while_loop(lambda i, _: i < count, lambda i, a: (i + 1, step(a)), [0, x], maximum_iterations=count)[1]


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gradient_of_a_condition_whose_branches_keep_different_values(sign):
    def net(x):
        w = weight()
        return trained(tf.cond(tf.reduce_sum(x) > 0, lambda: x * w * tf.sin(w), lambda: x - w))

    both.check(net, *[(sign * np.abs(some(4)),)] * 2)


@pytest.mark.parametrize("sign", [1, -1])
def test_the_gradient_of_a_condition_with_a_loop_in_one_branch(sign):
    def net(x):
        w = weight()
        return trained(tf.cond(tf.reduce_sum(x) > 0, lambda: times(3, lambda a: tf.sin(a * w), x), lambda: x - w))

    both.check(net, *[(sign * np.abs(some(4)),)] * 2)


def test_the_gradient_of_a_loop_with_a_condition_in_it():
    def net(x):
        w = weight()
        return trained(times(4, lambda a: tf.cond(a[0] > 0.5, lambda: tf.sin(a * w), lambda: a + w), x))

    both.check(net, *[(some(4),)] * 2)


def test_the_gradient_of_loops_in_each_other():
    def net(x):
        y = times(3, lambda a: times(2, tf.sin, a) * 1.5, x)
        return y, tf.gradients(y, x)[0]

    both.check(net, (some(4),))


def test_the_ctc_loss_of_tensorflow_which_calls_functions_of_the_old_kind():
    lengths = np.array([6, 5], np.int32)

    def net(logits, labels):
        loss = tf.nn.ctc_loss(labels, logits, np.array([2, 3], np.int32), lengths, blank_index=0)
        return loss, tf.gradients(loss, logits)[0]

    both.check(net, (some(6, 2, 5), np.array([[1, 2, 0], [3, 4, 1]], np.int32)), tolerance=1e-4)


def test_rows_that_are_written_in_place():
    def net(x, rows):
        results = []
        for op in (tf.raw_ops.InplaceUpdate, tf.raw_ops.InplaceAdd, tf.raw_ops.InplaceSub):
            results.append(op(x=tf.raw_ops.DeepCopy(x=x), i=[3, 1], v=rows))
        empty = tf.raw_ops.Empty(shape=[4, 2], dtype=tf.float32, init=True)
        return [*results, tf.raw_ops.InplaceUpdate(x=empty, i=[0, 2], v=rows)]

    both.check(net, (some(4, 2), some(2, 2, seed=1)))
