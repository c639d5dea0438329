"""Networks of benchmarks/tensorflow_programs.py, written as programs of TensorFlow 1 write them.

The models of benchmarks/peers/models.py under the same names, and ResNet-50. Each function takes inputs and whether it trains, and
returns logits.
"""

import dataclasses
from collections.abc import Callable

import numpy as np
import tensorflow.compat.v1 as tf

from tensorflow.python import ipu


def mlp(x, training):
    """784-512-512-10."""
    for width in (512, 512):
        x = tf.layers.dense(x, width, activation=tf.nn.relu)
    return tf.layers.dense(x, 10)


def lenet(x, training):
    x = tf.layers.conv2d(x, 6, 5, padding="same", activation=tf.nn.relu)
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.conv2d(x, 16, 5, activation=tf.nn.relu)
    x = tf.layers.max_pooling2d(x, 2, 2)
    x = tf.layers.flatten(x)
    for width in (120, 84):
        x = tf.layers.dense(x, width, activation=tf.nn.relu)
    return tf.layers.dense(x, 10)


def _convolution(x, filters, kernel, stride, training, relu=True):
    """A convolution without a bias, a batch norm, and perhaps a ReLU."""
    x = tf.layers.conv2d(x, filters, kernel, stride, padding="same", use_bias=False)
    x = tf.layers.batch_normalization(x, momentum=0.9, epsilon=1e-5, training=training, fused=True)
    return tf.nn.relu(x) if relu else x


def resnet(stages):
    """For 32x32 images: a 3x3 stem, no pooling before the stages of so many filters with two blocks each."""

    def net(x, training):
        x = _convolution(x, stages[0], 3, 1, training)
        for stage, filters in enumerate(stages):
            for stride in (1 if stage == 0 else 2, 1):
                inner = _convolution(x, filters, 3, stride, training)
                inner = _convolution(inner, filters, 3, 1, training, relu=False)
                if stride != 1 or x.shape[-1] != filters:
                    x = _convolution(x, filters, 1, stride, training, relu=False)
                x = tf.nn.relu(inner + x)
        return tf.layers.dense(tf.reduce_mean(x, [1, 2]), 10)

    return net


def resnet50(x, training):
    x = _convolution(x, 64, 7, 2, training)
    x = tf.layers.max_pooling2d(x, 3, 2, padding="same")
    for filters, blocks, stride in ((64, 3, 1), (128, 4, 2), (256, 6, 2), (512, 3, 2)):
        for block in range(blocks):
            first = stride if block == 0 else 1
            inner = _convolution(x, filters, 1, 1, training)
            inner = _convolution(inner, filters, 3, first, training)
            inner = _convolution(inner, 4 * filters, 1, 1, training, relu=False)
            if block == 0:
                x = _convolution(x, 4 * filters, 1, first, training, relu=False)
            x = tf.nn.relu(inner + x)
    return tf.layers.dense(tf.reduce_mean(x, [1, 2]), 1000)


def lstm(x, training):
    """2 layers of 256 over 32 steps, classified by the last output; the loop that TensorFlow has for its own devices."""
    for layer in range(2):
        with tf.variable_scope(f"layer_{layer}"):
            x, _ = tf.nn.dynamic_rnn(tf.nn.rnn_cell.BasicLSTMCell(256), x, dtype=x.dtype)
    return tf.layers.dense(x[:, -1], 10)


def popnn_lstm(x, training):
    """The same by the layer that programs take on an IPU."""
    x = tf.transpose(x, [1, 0, 2])
    for layer in range(2):
        x, _ = ipu.rnn_ops.PopnnLSTM(256, name=f"layer_{layer}")(x, training=training)
    return tf.layers.dense(x[-1], 10)


def _layer_norm(x):
    size = x.shape[-1]
    scale = tf.get_variable("gamma", [size], initializer=tf.ones_initializer())
    shift = tf.get_variable("beta", [size], initializer=tf.zeros_initializer())
    mean, variance = tf.nn.moments(x, [-1], keepdims=True)
    return tf.nn.batch_normalization(x, mean, variance, shift, scale, 1e-5)


def _gelu(x):
    return x * 0.5 * (1.0 + tf.erf(x / np.sqrt(2.0).astype(np.float32)))


def _attention(x, heads):
    """`x` is a matrix of batch times steps rows, as in the published BERT."""
    batch, steps, size = x.shape
    rows = tf.reshape(x, [batch * steps, size])

    def split(name):
        part = tf.layers.dense(rows, size, name=name)
        return tf.transpose(tf.reshape(part, [batch, steps, heads, size // heads]), [0, 2, 1, 3])

    query, key, value = split("query"), split("key"), split("value")
    scores = tf.matmul(query, key, transpose_b=True) * (1.0 / np.sqrt(float(size // heads)))
    context = tf.matmul(tf.nn.softmax(scores), value)
    context = tf.reshape(tf.transpose(context, [0, 2, 1, 3]), [batch * steps, size])
    return tf.reshape(tf.layers.dense(context, size, name="output"), [batch, steps, size])


def transformer(size, layers, heads, vocabulary=30522, steps=128):
    """Layers of BERT, and a class of the first token."""

    def net(ids, training):
        table = tf.get_variable("tokens", [vocabulary, size], initializer=tf.truncated_normal_initializer(stddev=0.02))
        places = tf.get_variable("places", [steps, size], initializer=tf.truncated_normal_initializer(stddev=0.02))
        with tf.variable_scope("norm"):
            x = _layer_norm(tf.gather(table, ids) + places)
        for layer in range(layers):
            with tf.variable_scope(f"layer_{layer}"):
                with tf.variable_scope("attention"):
                    x = _layer_norm(x + _attention(x, heads))
                with tf.variable_scope("feed_forward"):
                    wide = tf.layers.dense(x, 4 * size, activation=_gelu, name="wide")
                    x = _layer_norm(x + tf.layers.dense(wide, size, name="narrow"))
        return tf.layers.dense(x[:, 0], 2, name="head")

    return net


@dataclasses.dataclass(frozen=True)
class Network:
    """logits(x, training); inputs(batch): an array; the classes its labels have; its optimizer."""

    logits: Callable
    inputs: Callable
    classes: int = 10
    optimizer: Callable = lambda: tf.train.MomentumOptimizer(1e-3, 0.9)
    plain: Callable | None = None  # what plain TensorFlow runs, if that differs

    def labels(self, batch):
        return np.random.default_rng(1).integers(0, self.classes, batch).astype(np.int32)

    def step(self, training, plain=False):
        """The computation: of `x` alone, or with labels the loss and the operation that trains."""
        logits = self.plain if plain and self.plain is not None else self.logits

        def infer(x):
            return logits(x, False)

        def train(x, labels):
            out = logits(x, True)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=out))
            with tf.control_dependencies(tf.get_collection(tf.GraphKeys.UPDATE_OPS)):
                return loss, self.optimizer().minimize(loss)

        return train if training else infer


def numbers(*shape):
    return lambda batch: np.random.default_rng(0).standard_normal((batch, *shape)).astype(np.float32)


def tokens(batch):
    return np.random.default_rng(0).integers(0, 30522, (batch, 128)).astype(np.int32)


def adam():
    return tf.train.AdamOptimizer(1e-4)


NETWORKS = {
    "mlp": Network(mlp, numbers(784)),
    "lstm": Network(popnn_lstm, numbers(32, 256), plain=lstm),
    "lstm-cells": Network(lstm, numbers(32, 256)),
    "lenet": Network(lenet, numbers(28, 28, 1)),
    "resnet18": Network(resnet((64, 128, 256, 512)), numbers(32, 32, 3)),
    "resnet50": Network(resnet50, numbers(224, 224, 3), 1000),
    "bert-small": Network(transformer(256, 4, 4), tokens, 2, adam),
    "bert-base-4": Network(transformer(768, 4, 12), tokens, 2, adam),
    "bert-base": Network(transformer(768, 12, 12), tokens, 2, adam),
}
