"""Random networks with TensorFlow's gradients: many op types together, their gradients included, in the shapes that programs use."""

import numpy as np
import pytest
import tensorflow as tf
from ipu_tensorflow import records

import ipu_core

v1 = tf.compat.v1


class Network:
    """Draws a network of images [N, H, W, C]: each step takes one of the values so far."""

    def __init__(self, seed, dtype):
        self.draw, self.dtype = np.random.default_rng(seed), dtype
        self.feeds, self.weights = [], []

    def fed(self, *shape, low=-1.0, high=1.0):
        array = self.draw.uniform(low, high, shape).astype(np.float32)
        placeholder = v1.placeholder(self.dtype, shape)
        self.feeds.append((placeholder, array))
        return placeholder

    def weight(self, *shape, low=-0.5, high=0.5):
        self.weights.append(self.fed(*shape, low=low, high=high))
        return self.weights[-1]

    def pick(self, *choices):
        return choices[self.draw.integers(len(choices))]

    def convolution(self, x):
        kernel, out, stride = self.pick(1, 2, 3), self.pick(2, 3, 5), self.pick(1, 1, 2)
        padding = "SAME" if min(x.shape[1:3]) < kernel else self.pick("SAME", "VALID")
        filter = self.weight(kernel, self.pick(1, kernel), x.shape[3], out)
        return tf.nn.conv2d(x, filter, [1, stride, stride, 1], padding)

    def depthwise(self, x):
        return tf.nn.depthwise_conv2d(x, self.weight(3, 3, x.shape[3], self.pick(1, 2)), [1, 1, 1, 1], "SAME")

    def transposed(self, x):
        n, h, w, c = x.shape
        filter = self.weight(3, 3, 3, c)
        return tf.nn.conv2d_transpose(x, filter, [n, 2 * h, 2 * w, 3], [1, 2, 2, 1], "SAME")

    def pool(self, x):
        rule = self.pick(tf.nn.max_pool2d, tf.nn.avg_pool2d)
        return rule(x, self.pick(2, 3), self.pick(1, 2), "SAME")

    def norm(self, x):
        scale, offset = self.weight(x.shape[3], low=0.5, high=1.5), self.weight(x.shape[3])
        wide = tf.cast(x, tf.float32) if self.dtype == tf.float64 else x
        y, *_ = v1.nn.fused_batch_norm(wide, tf.cast(scale, tf.float32), tf.cast(offset, tf.float32), epsilon=0.1)
        return tf.cast(y, self.dtype)

    def activation(self, x):
        rules = (tf.nn.relu, tf.nn.relu6, tf.nn.elu, tf.nn.softplus, tf.tanh, tf.sigmoid, tf.nn.selu, tf.nn.leaky_relu)
        return self.pick(*rules)(x)

    def bias(self, x):
        return tf.nn.bias_add(x, self.weight(x.shape[3]))

    def arithmetic(self, x):
        return self.pick(
            lambda: x * x + 0.5,
            lambda: x / (1.5 + tf.square(x)),
            lambda: tf.sqrt(tf.abs(x) + 0.1) - x,
            lambda: tf.maximum(x, 0.1 * x) * 0.5,
            lambda: tf.where(x > 0, x, tf.exp(x) - 1.0),
            lambda: x - tf.reduce_mean(x, [1, 2], keepdims=True),
        )()

    def structure(self, x):
        return self.pick(
            lambda: tf.pad(x, [[0, 0], [1, 0], [0, 1], [0, 0]]),
            lambda: tf.concat([x, x[..., :1]], 3),
            lambda: x[:, ::2] if x.shape[1] > 2 else x,
            lambda: tf.reverse(x, [2]),
            lambda: tf.transpose(x, [0, 2, 1, 3]),
            lambda: tf.reshape(x, [x.shape[0], x.shape[2], x.shape[1], x.shape[3]]),
            lambda: tf.tile(x, [1, 1, 1, 2]) if x.shape[3] < 4 else x,
            lambda: tf.stack(tf.unstack(x, axis=3)[::-1], 3),
        )()

    def residual(self, x):
        return x + self.activation(self.bias(tf.nn.conv2d(x, self.weight(3, 3, x.shape[3], x.shape[3]), 1, "SAME")))

    def build(self, steps, has_norms):
        x = self.fed(2, self.pick(5, 6, 8), self.pick(4, 6, 7), self.pick(1, 3))
        kinds = [
            *[self.convolution] * 3,
            *[self.activation, self.bias, self.arithmetic, self.structure] * 2,
            self.depthwise,
            self.transposed,
            self.pool,
            self.residual,
        ]
        if has_norms:
            kinds += [self.norm] * 3
        for _ in range(steps):
            step = self.pick(*kinds)
            if step == self.transposed and x.shape[1] > 8:
                continue
            x = step(x)
        flat = tf.reshape(x, [x.shape[0], -1])
        scores = tf.matmul(flat, self.weight(flat.shape[1], 4)) / np.sqrt(float(flat.shape[1]))
        labels = tf.constant([1, 3])
        losses = tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores)
        loss = tf.reduce_mean(losses)
        return [loss, scores, *tf.gradients(loss, self.weights)]


def built(seed, dtype, has_norms):
    graph = tf.Graph()
    with graph.as_default():
        network = Network(seed, dtype)
        results = network.build(int(network.draw.integers(3, 9)), has_norms)
    return graph, network, results


def computed(graph, network, results):
    with v1.Session(graph=graph) as session:
        return session.run(results, dict(network.feeds))


def check(seed):
    """Half of them with norms, which TensorFlow has no doubles for: TensorFlow itself says what is right there."""
    has_norms = seed % 2 == 1
    graph, network, results = built(seed, tf.float32, has_norms)
    theirs = computed(graph, network, results)
    exact = theirs if has_norms else computed(*built(seed, tf.float64, has_norms))
    found = records.of_graph(graph, [p for p, _ in network.feeds], results)
    ours, _ = ipu_core.Unit(found.data).run([array for _, array in network.feeds], {})
    for i, (mine, other, right) in enumerate(zip(ours, theirs, exact)):
        assert mine.shape == other.shape and mine.dtype == other.dtype
        distance, size = np.linalg.norm(mine - right), np.linalg.norm(right)
        allowed = 3 * np.linalg.norm(other - right) + (3e-5 if has_norms else 1e-6) * max(size, 1e-2)
        assert distance <= allowed, f"result {i}: {distance:g} away, {allowed:g} allowed"


@pytest.mark.parametrize("seed", range(12))
def test_random_network_has_tensorflows_gradients(seed):
    check(seed)


@pytest.mark.slow  # the first of these run in the default tier
@pytest.mark.parametrize("seed", range(12, 400))
def test_random_network_has_tensorflows_gradients_too(seed):
    check(seed)
