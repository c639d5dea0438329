"""The handwritten digits that ship with scikit-learn, and a small convolutional network for them in the manner of TensorFlow 1."""

import importlib.util
import pathlib

import numpy as np
import tensorflow.compat.v1 as tf


def read(file=None):
    """(training, testing), each (images f32[n, 8, 8, 1] in 0..1, labels i32[n]); every fifth image tests.

    Args:
        file: digits.csv.gz of scikit-learn; None: that of the installed one, which is not imported.
    """
    if file is None:
        found = importlib.util.find_spec("sklearn")
        if found is None:
            raise SystemExit(
                "scikit-learn, which has the digits, is not installed: install it, or give --data .../digits.csv.gz"
            )
        file = pathlib.Path(found.origin).parent / "datasets" / "data" / "digits.csv.gz"
    scans = np.loadtxt(file, delimiter=",")
    images = (scans[:, :-1].reshape(-1, 8, 8, 1) / 16).astype(np.float32)
    labels = scans[:, -1].astype(np.int32)
    tests = np.arange(len(labels)) % 5 == 0
    return (images[~tests], labels[~tests]), (images[tests], labels[tests])


def network(images):
    """Scores of the ten digits."""
    value = tf.layers.conv2d(images, 32, 3, padding="same", activation=tf.nn.relu, name="first")
    value = tf.layers.conv2d(value, 64, 3, padding="same", activation=tf.nn.relu, name="second")
    value = tf.layers.max_pooling2d(value, 2, 2)
    value = tf.layers.dense(tf.layers.flatten(value), 128, activation=tf.nn.relu, name="hidden")
    return tf.layers.dense(value, 10, name="scores")


def loss_of(scores, labels):
    return tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=scores))
