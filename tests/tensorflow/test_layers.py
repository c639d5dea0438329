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


@pytest.mark.shows("ipu.keras.layers.GroupNormalization", "ipu.keras.layers.GroupNorm")
@pytest.mark.shows("ipu.keras.layers.InstanceNormalization", "ipu.keras.layers.InstanceNorm")
@pytest.mark.parametrize("kind", ["group", "strided", "instance"])
def test_norms_over_groups(kind):
    keras = ipu.keras.layers
    assert (keras.GroupNorm, keras.InstanceNorm) == (keras.GroupNormalization, keras.InstanceNormalization)
    groups = 4 if kind == "instance" else 2

    def layer(x):
        if kind == "instance":
            first = keras.InstanceNormalization(name="norm", epsilon=0.01)
        else:
            first = keras.GroupNormalization(name="norm", epsilon=0.01, strided_channel_grouping=kind == "strided")
        return type(first).from_config(first.get_config())(x)

    def reference(x):
        beta, gamma = [v1.get_variable(f"norm/{name}", [4]) for name in ("beta", "gamma")]
        order = [0, 2, 1, 3] if kind == "strided" else [0, 1, 2, 3]  # which puts the members of a group side by side
        parts = []
        for part in tf.split(tf.gather(x, order, axis=2), groups, 2):
            mean, variance = tf.nn.moments(part, [1, 2], keepdims=True)
            parts.append((part - mean) / tf.sqrt(variance + 0.01))
        return tf.gather(tf.concat(parts, 2), order, axis=2) * gamma + beta

    layer, reference = recurrent.with_gradients(layer), recurrent.with_gradients(reference)
    fed = [(some(2, 3, 4),)]
    _, before, _ = both.plain(layer, fed)
    assert {name: value.tolist() for name, value in before.items()} == {"norm/beta": [0.0] * 4, "norm/gamma": [1.0] * 4}
    start = recurrent.random_state(before)
    (expected,), *_ = both.plain(reference, fed, start)
    for run in (both.plain, both.ours):
        (got,), *_ = run(layer, fed, start)
        for a, b in zip(got, expected, strict=True):
            both.close(a, b, 1e-4)


def test_a_norm_over_channels_first_without_weights():
    def net(x):
        layer = ipu.keras.layers.GroupNormalization(groups=3, channels_axis=1, center=False, scale=False)
        y = layer(x)
        assert layer.weights == []
        return y

    (row,), _ = both.check(net, (some(2, 6, 5, 3),))
    assert np.allclose(row[0].reshape(2, 2, 3, 15).std((1, 3)), 1, atol=0.01)


@pytest.mark.parametrize(
    ("given", "shape", "text"),
    [
        ({"groups": 4}, [2, 6], "6 channels of inputs of GroupNormalization cannot be split into 4 groups"),
        ({"groups": 7}, [2, 6], "cannot be split into 7 groups"),
        ({"channels_axis": 3}, [2, 6], "channels_axis 3 is not a dimension of inputs of GroupNormalization"),
        ({"channels_axis": 2}, [2, 3, 4, 5], "it is 1 or the last dimension"),
        ({}, [2, None], "the number of channels of inputs of GroupNormalization"),
        ({}, None, "the number of dimensions of inputs of GroupNormalization is not known"),
    ],
)
def test_what_norms_over_groups_refuse(given, shape, text):
    with pytest.raises(ValueError, match=text):
        ipu.keras.layers.GroupNormalization(**given).build(shape)


@pytest.mark.shows("ipu.keras.layers.Dropout")
@pytest.mark.parametrize("run", [both.plain, both.ours])
def test_dropout(run):
    def net(x):
        first = ipu.keras.layers.Dropout(0.5, noise_shape=[50, 1], seed=[1, 2])
        layer = ipu.keras.layers.Dropout.from_config(first.get_config())
        y = layer(x, training=True)
        return y, tf.gradients(y, x)[0], layer(x, training=False), layer(x)

    x = np.ones([50, 4], np.float32)
    ((y, gradient, test, neither),), *_ = run(net, [(x,)])
    assert (y == y[:, :1]).all() and set(y.ravel()) == {0, 2} and (gradient == y).all()
    assert (test == x).all() and (neither == x).all()


def test_a_rate_is_a_probability():
    with pytest.raises(ValueError, match="at least 0 and less than 1"):
        ipu.keras.layers.Dropout(1.0)


def test_a_recomputation_checkpoint_gives_its_structure():
    def net(x, y):
        found = ipu.keras.layers.RecomputationCheckpoint()({"x": x, "rest": (y, x)})
        assert list(found) == ["x", "rest"] and isinstance(found["rest"], tuple)
        total = tf.reduce_sum(found["x"]) * found["rest"][0]
        return total, tf.gradients(total, [x, y])

    both.check(net, (some(3), np.float32(2)))
