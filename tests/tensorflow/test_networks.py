"""Networks in training: 20 steps are as near to the same steps in float64 as TensorFlow's own are, losses and variables."""

import pathlib
import sys

import both
import numpy as np
import pytest
import tensorflow as tf

sys.path.append(str(pathlib.Path(__file__).parents[2] / "benchmarks"))
from tensorflow_networks import NETWORKS, Network, numbers, resnet, transformer  # noqa: E402

v1 = tf.compat.v1
STEPS = 20
SMALL = {
    "transformer": Network(
        transformer(32, 1, 2, vocabulary=50, steps=8),
        lambda batch: np.random.default_rng(0).integers(0, 50, (batch, 8)).astype(np.int32),
        2,
        lambda: v1.train.AdamOptimizer(1e-3),
    ),
    "resnet": Network(resnet((8, 16)), numbers(8, 8, 3)),
}


def of_type(dtype, computation):
    """Variables have this type, so that layers do whose inputs are indices."""

    def net(*given):
        with v1.variable_scope(v1.get_variable_scope(), dtype=dtype):
            return computation(*given)

    return net


def distance(results, exact):
    """The norm of what differs, in losses and variables."""
    (rows, state), (exact_rows, exact_state) = results, exact
    assert list(state) == list(exact_state)
    pairs = [(row[0], other[0]) for row, other in zip(rows, exact_rows)]
    pairs += [(state[name], exact_state[name]) for name in state]
    return np.sqrt(sum(np.sum(np.square(a.astype(np.float64) - b)) for a, b in pairs))


def check_training(network, batch, dtype=tf.float32, steps=STEPS):
    def cast(array, dtype):
        return array.astype(dtype.as_numpy_dtype) if array.dtype.kind == "f" else array

    inputs = network.inputs(batch * 2)
    parts = [inputs[:batch], inputs[batch:]]
    labels = [network.labels(batch), network.labels(batch)[::-1].copy()]
    fed = [(cast(parts[i % 2], dtype), labels[i % 2]) for i in range(steps)]
    step = network.step(training=True)
    theirs, start, state = both.plain(of_type(dtype, step), fed)
    mine, _, ours = both.ours(of_type(dtype, step), fed, start)
    wide = [(cast(x, tf.float64), y) for x, y in fed]
    exact = both.plain(
        of_type(tf.float64, step), wide, {name: cast(value, tf.float64) for name, value in start.items()}
    )[::2]
    assert distance((mine, ours), exact) <= 3 * distance((theirs, state), exact) + 1e-6
    assert (
        distance((mine, ours), (mine, {name: cast(value, tf.float64) for name, value in start.items()})) > 1e-3
    )  # it has trained


@pytest.mark.parametrize("name, batch", [("mlp", 8), ("lenet", 4)])
def test_a_network_is_trained_as_near_to_float64_as_tensorflow_does(name, batch):
    check_training(NETWORKS[name], batch)


@pytest.mark.parametrize("name, batch", [("transformer", 4), ("resnet", 4)])
def test_a_small_network_is_trained_as_near_to_float64_as_tensorflow_does(name, batch):
    check_training(SMALL[name], batch)


@pytest.mark.parametrize("name, batch", [("mlp", 8), ("lenet", 4)])
def test_a_network_is_trained_in_float16_as_near_to_float64_as_tensorflow_does(name, batch):
    check_training(NETWORKS[name], batch, tf.float16)


@pytest.mark.slow
@pytest.mark.parametrize(
    "name, batch", [("lstm-cells", 4), ("resnet18", 4), ("bert-small", 2), ("resnet50", 2), ("bert-base-4", 2)]
)
def test_a_large_network_is_trained_as_near_to_float64_as_tensorflow_does(name, batch):
    check_training(NETWORKS[name], batch)
