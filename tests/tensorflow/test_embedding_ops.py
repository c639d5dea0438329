"""`ipu.embedding_ops` (chapter 12.11)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

v1 = tf.compat.v1
lookup = ipu.embedding_ops.embedding_lookup


@pytest.mark.shows("ipu.ops.embedding_ops.embedding_lookup")
@pytest.mark.parametrize("factor", [1, 2, 6])
@pytest.mark.parametrize("shape, ids", [((6, 3), [[0, 5, 2], [5, 5, 1]]), ((6,), [3, 3, 0]), ((6, 2, 2), 4)])
def test_rows_and_a_dense_gradient(shape, ids, factor):
    table, ids = some(*shape), np.array(ids, np.int32)

    def net(params, numbers):
        rows = lookup(params, numbers, serialization_factor=factor)
        gradient = tf.gradients(tf.reduce_sum(tf.square(rows)), params)[0]
        assert tf.is_tensor(gradient)
        return rows, gradient

    (got,), _ = both.check(net, (table, ids))
    wanted = np.zeros_like(table)
    np.add.at(wanted, ids, 2 * table[ids])
    assert (got[0] == table[ids]).all() and np.allclose(got[1], wanted, atol=1e-6)


def test_a_variable_is_trained_by_an_optimizer_with_slots():
    def net(words):
        table = v1.get_variable("table", [6, 3], initializer=v1.ones_initializer())
        loss = tf.reduce_sum(lookup(table, words, serialization_factor=3))
        with tf.control_dependencies([loss]):  # else TensorFlow may read the table after its update
            return loss, v1.train.MomentumOptimizer(0.1, 0.9).minimize(loss)

    fed = (np.array([1, 1, 4], np.int32),)
    _, state = both.check(net, fed, fed)
    assert np.allclose(state["table"][:, 0], [1, 1 - 2 * 0.29, 1, 1, 1 - 0.29, 1])


@pytest.mark.parametrize("factor, text", [(0, "is 0, and is at least 1"), (4, "4 does not divide the 6 rows")])
def test_factors_that_do_not_split(factor, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        lookup(tf.ones([6, 2]), tf.zeros([1], tf.int32), serialization_factor=factor)
