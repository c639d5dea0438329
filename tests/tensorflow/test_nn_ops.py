"""`ipu.nn_ops` (chapter 12.7)."""

import both
import numpy as np
import pytest
import tensorflow as tf
from both import some
from tensorflow.python import ipu

# Each with what it is in float64, and its derivative.
erf = np.vectorize(__import__("math").erf)


def sigmoid(x):
    return 1 / (1 + np.exp(-x))


ACTIVATIONS = {
    "gelu by tanh": (ipu.nn_ops.gelu, lambda x: 0.5 * x * (1 + np.tanh(np.sqrt(2 / np.pi) * (x + 0.044715 * x**3)))),
    "gelu by erf": (lambda x: ipu.nn_ops.gelu(x, approximate=False), lambda x: 0.5 * x * (1 + erf(x / np.sqrt(2)))),
    "swish": (ipu.nn_ops.swish, lambda x: x * sigmoid(x)),
    "hard sigmoid": (ipu.nn_ops.hard_sigmoid, lambda x: np.clip(0.2 * x + 0.5, 0, 1)),
}


@pytest.mark.shows("ipu.ops.nn_ops.gelu", "ipu.ops.nn_ops.swish", "ipu.ops.nn_ops.hard_sigmoid")
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize("name", ACTIVATIONS)
def test_an_activation_and_its_gradient(name, dtype):
    function, exact = ACTIVATIONS[name]
    x = (some(4, 5) * 3).astype(dtype)

    def net(given):
        y = function(given)
        return y, tf.gradients(y, given)[0]

    tolerance = 1e-5 if dtype == np.float32 else 4e-3
    (got,), _ = both.check(net, (x,), tolerance=tolerance)
    wide, step = x.astype(np.float64), 1e-6
    for mine, wanted in zip(got, (exact(wide), (exact(wide + step) - exact(wide - step)) / (2 * step))):
        assert mine.dtype == dtype
        assert np.allclose(mine, wanted, rtol=tolerance, atol=tolerance)


def test_the_gradient_of_hard_sigmoid_ends_before_its_corners():
    x = np.array([-2.5, np.nextafter(np.float32(-2.5), np.float32(0)), 0, 2.5, 3], np.float32)

    def net(given):
        return tf.gradients(ipu.nn_ops.hard_sigmoid(given), given)[0]

    (got,), _ = both.check(net, (x,))
    assert np.allclose(got[0], [0, 0.2, 0.2, 0, 0])
