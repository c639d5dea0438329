"""Chapter 11: layers of Keras, outside of a unit and in one."""

import both
import numpy as np
import pytest
import recurrent
import tensorflow as tf
from both import some
from tensorflow.python import ipu

v1 = tf.compat.v1


@pytest.mark.shows("ipu.keras.layers.LayerNormalization", "ipu.keras.layers.LayerNorm")
@pytest.mark.parametrize("axis", [-1, [2, 1]])
def test_layer_normalization(axis):
    count = 5 if axis == -1 else 15

    def layer(x):
        assert ipu.layers.LayerNorm is ipu.keras.layers.LayerNormalization
        first = ipu.keras.layers.LayerNormalization(axis=axis, name="norm", epsilon=0.01)
        copy = ipu.keras.layers.LayerNormalization.from_config(first.get_config())
        return copy(x), ipu.keras.layers.LayerNorm(center=False, scale=False)(x)

    def reference(x):
        gamma, beta = [v1.get_variable(f"norm/{name}", [count]) for name in ("gamma", "beta")]

        def norm(x, over, epsilon):
            mean, variance = tf.nn.moments(x, over, keepdims=True)
            return (x - mean) / tf.sqrt(variance + epsilon)

        shape = [1, 1, 5] if axis == -1 else [1, 3, 5]
        return norm(x, axis, 0.01) * tf.reshape(gamma, shape) + tf.reshape(beta, shape), norm(x, -1, 0.001)

    layer, reference = recurrent.with_gradients(layer), recurrent.with_gradients(reference)
    fed = [(some(2, 3, 5),)]
    _, before, _ = both.plain(layer, fed)
    assert {name: value.tolist() for name, value in before.items()} == {
        "norm/gamma": [1.0] * count,
        "norm/beta": [0.0] * count,
    }
    start = recurrent.random_state(before)
    (expected,), *_ = both.plain(reference, fed, start)
    for run in (both.plain, both.ours):
        (got,), *_ = run(layer, fed, start)
        for a, b in zip(got, expected, strict=True):
            both.close(a, b, 1e-4)


@pytest.mark.parametrize(
    ("axis", "shape", "text"),
    [
        (3, [2, 3, 5], "axis=3 of LayerNormalization must be different axes"),
        ([1, -2], [2, 3, 5], "must be different axes of inputs of shape"),
        ("last", [2, 3], "is a number or a list of numbers, not 'last'"),
        (-1, [2, None], "needs known dimensions there"),
        (-1, None, "takes inputs of known rank"),
    ],
)
def test_what_layer_normalization_refuses(axis, shape, text):
    with pytest.raises(ValueError, match=text):
        ipu.keras.layers.LayerNormalization(axis=axis).build(shape)


@pytest.mark.shows("ipu.keras.layers.Embedding")
def test_an_embedding():
    def layer(words):
        first = ipu.keras.layers.Embedding(7, 3, name="table")
        return ipu.keras.layers.Embedding.from_config(first.get_config())(words)

    def reference(words):
        return tf.gather(v1.get_variable("table/embeddings", [7, 3]), words)

    def trained(net):
        def body(words):
            rows = net(words)
            return rows, v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.sin(rows)))

        return body

    fed = [(np.array([[1, 6, 1, 0], [2, 2, 1, 5]], np.int32),)] * 2
    _, before, _ = both.plain(layer, fed)
    assert list(before) == ["table/embeddings"] and np.abs(before["table/embeddings"]).max() <= 0.05
    start = recurrent.random_state(before)
    expected, _, after = both.plain(trained(reference), fed, start)
    for run in (both.plain, both.ours):
        got, _, state = run(trained(layer), fed, start)
        both.close(got, expected, 1e-5)
        both.close(state["table/embeddings"], after["table/embeddings"], 1e-5)


def test_an_embedding_takes_rank_2():
    with pytest.raises(ValueError, match=r"numbers of shape \[sample, position\], not of shape \(2,\)"):
        ipu.keras.layers.Embedding(7, 3).build([2])
