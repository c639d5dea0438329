"""`ipu.rand_ops` (chapter 12.12)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

dropout = ipu.rand_ops.dropout
KINDS = {"plain": both.plain, "in a unit": both.ours}


def with_gradient(**given):
    def net(x):
        y = dropout(x, **given)
        return y, tf.gradients(y, x)[0]

    return net


@pytest.mark.shows("ipu.ops.rand_ops.dropout")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("kind", KINDS)
def test_elements_are_dropped_at_the_rate_and_the_gradient_has_the_same_mask(kind, dtype):
    x = (np.abs(some(100, 100)) + 1).astype(dtype)
    ((y, gradient),), *_ = KINDS[kind](with_gradient(rate=0.3, seed=[3, 4]), [(x,)])
    kept = y != 0
    assert abs(np.mean(kept) - 0.7) < 0.03  # six standard deviations
    assert np.allclose(y, np.where(kept, x / 0.7, 0), rtol=2e-3)
    assert np.allclose(gradient, np.where(kept, 1 / 0.7, 0), rtol=2e-3)


@pytest.mark.parametrize("kind", KINDS)
def test_masks_are_new_at_each_run_but_with_a_seed(kind):
    def net(x):
        return dropout(x), dropout(x, seed=[1, 2]), dropout(x, seed=np.array([1, 2])), dropout(x, seed=(2, 2))

    x = np.ones([1000], np.float32)
    (first, second), *_ = KINDS[kind](net, [(x,), (x,)])
    assert (first[0] != second[0]).any()
    assert (first[1] == second[1]).all() and (first[1] == first[2]).all() and (first[1] != first[3]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_elements_along_a_dimension_are_dropped_together(kind):
    x = np.ones([50, 4, 3], np.float32)
    ((y, gradient),), *_ = KINDS[kind](with_gradient(noise_shape=[50, 1, 3], seed=[5, 6]), [(x,)])
    assert (y == y[:, :1]).all() and {0, 2} == set(y.ravel()) and (y == gradient).all()
    assert (y != y[:, :, :1]).any()


@pytest.mark.parametrize("kind", KINDS)
def test_at_rate_0_all_are_kept(kind):
    x = some(20)
    ((y, gradient),), *_ = KINDS[kind](with_gradient(rate=0.0), [(x,)])
    assert (y == x).all() and (gradient == 1).all()


@pytest.mark.parametrize(
    "given, text",
    [
        ({"rate": 1.0}, "at least 0 and less than 1"),
        ({"rate": -0.5}, "at least 0 and less than 1"),
        ({"noise_shape": [1]}, "has 1 dimensions and x of shape .* has 2"),
        ({"noise_shape": [2, 2]}, "is not of 1 and the sizes of x"),
        ({"seed": [1, 2, 3]}, r"two int32 numbers, not an array of shape \(3,\)"),
        ({"seed": 1}, "two int32 numbers"),
    ],
)
def test_arguments_that_are_wrong(given, text):
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        dropout(tf.ones([2, 3]), **given)


def test_an_argument_that_there_is_not():
    with tf.Graph().as_default():
        assert dropout(tf.ones([2]), ref=True).shape == [2]
        with pytest.raises(TypeError, match="unexpected keyword argument 'noise'"):
            dropout(tf.ones([2]), noise=1)
