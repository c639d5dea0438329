"""Ops that are one node in a unit, with kernels of the core, against their bodies in TensorFlow."""

import both
import interpreter
import numpy as np
import pytest
import tensorflow as tf
from both import some
from ipu_tensorflow import host, records, trace
from tensorflow.python import ipu

v1 = tf.compat.v1
TIMES, BATCH, SIZE, UNITS = 4, 2, 3, 5


def records_of(net, *arrays):
    with tf.Graph().as_default():
        given = [v1.placeholder(array.dtype, array.shape) for array in arrays]
        with both.on_ipu():
            unit = trace.trace(net, given)
        fed = [inside for outside, inside in host.captures_of(unit.graph) if outside.dtype != tf.resource]
        return records.of_graph(unit.graph, fed, unit.tensors, unit.operations).data


def types_of(data):
    return [node["type"] for node in data["graph"]["nodes"] if node["domain"] == "ipu"]


def drawn(data):
    """Values for the variables."""
    draw = np.random.default_rng(3)
    table = data["graph"]["initialisers"]
    return {name: (draw.standard_normal(shape) * 0.5).astype(dtype) for name, (dtype, shape) in table.items()}


def with_gradients(net):
    def whole(*given):
        results = net(*given)
        loss = tf.add_n([tf.reduce_sum(tf.sin(x)) for x in tf.nest.flatten(results)])
        return [*tf.nest.flatten(results), *tf.gradients(loss, [*given, *v1.trainable_variables()])]

    return whole


def lstm(x, c, h):
    state = v1.nn.rnn_cell.LSTMStateTuple(c, h)
    outputs, (c, h) = ipu.rnn_ops.PopnnLSTM(UNITS)(x, initial_state=state)
    return outputs, c, h


def gru(x, h):
    return ipu.rnn_ops.PopnnGRU(UNITS, reset_after=True)(x, initial_state=h)


NORMS = {
    "of all": lambda x: ipu.normalization_ops.group_norm(x, groups=1),
    "of a layer of Keras": lambda x: ipu.keras.layers.LayerNormalization(axis=[2, 1])(x),
    "without weights": lambda x: ipu.normalization_ops.layer_norm(x, center=False, scale=False),
    "with one weight": lambda x: ipu.normalization_ops.layer_norm(x, center=False),
}


@pytest.mark.parametrize("name", NORMS)
def test_a_norm_and_its_gradient_are_a_node_each(name):
    x = some(3, 4, 4)
    data = records_of(with_gradients(NORMS[name]), x)
    assert types_of(data) == ["LayerNorm", "LayerNormGradient"]
    assert interpreter.first_difference(data, [x], drawn(data)) is None


def test_a_norm_of_halves_and_its_second_gradient():
    def net(x):
        y = ipu.normalization_ops.group_norm(x, groups=2)  # which is made of TensorFlow's ops
        return y, ipu.normalization_ops.layer_norm(y)

    data = records_of(net, some(2, 5, 4).astype(np.float16))
    assert types_of(data) == ["LayerNorm"]
    both.check(net, (some(2, 5, 4).astype(np.float16),), tolerance=5e-3)

    def twice(x):
        first = tf.gradients(tf.reduce_sum(tf.sin(net(x)[1])), x)[0]
        return first, tf.gradients(tf.reduce_sum(tf.square(first)), x)[0]

    both.check(twice, (some(2, 5, 4),), tolerance=1e-4)


def test_a_dropout_is_a_node_that_is_its_own_gradient_twice():
    def net(x):
        y = ipu.rand_ops.dropout(x, 0.25)
        first = tf.gradients(tf.sin(y), x)[0]
        return y, first, tf.gradients(first, x)[0]

    x = np.ones([40, 5], np.float32)
    assert types_of(records_of(net, x)) == ["Dropout"] * 4
    ((y, first, second),), *_ = both.ours(net, [(x,)])
    scale = np.float32(4 / 3)
    assert set(y.ravel().round(4)) == {0, scale.round(4)}
    both.close(first, np.where(y != 0, scale * np.cos(scale), 0).astype(np.float32), 1e-5)
    both.close(second, np.where(y != 0, -(scale**2) * np.sin(scale), 0).astype(np.float32), 1e-5)


LAYERS = {
    "Lstm": (lstm, (some(TIMES, BATCH, SIZE), some(BATCH, UNITS, seed=1), some(BATCH, UNITS, seed=2))),
    "Gru": (gru, (some(TIMES, BATCH, SIZE), some(BATCH, UNITS, seed=1))),
}


@pytest.mark.parametrize("kind", LAYERS)
def test_an_op_and_its_gradient_are_a_node_each_that_gives_all_its_body_gives(kind):
    net, arrays = LAYERS[kind]
    data = records_of(with_gradients(net), *arrays)
    assert types_of(data) == [kind, kind + "Gradient"]
    assert not any(node["type"].endswith("While") for node in data["graph"]["nodes"])
    assert interpreter.first_difference(data, arrays, drawn(data)) is None


def test_a_layer_without_a_gradient_is_one_node_and_zeros_are_seen():
    def net(x):
        return ipu.rnn_ops.PopnnLSTM(UNITS)(x)[0]

    data = records_of(net, some(TIMES, BATCH, SIZE))
    assert types_of(data) == ["Lstm"]
    (layer,) = [line for line in both.text_of(data).splitlines() if " = lstm_layer(" in line]
    assert layer.partition("lstm_layer(")[2].count("%") == 2  # of the inputs and the weights; no state


def test_functions_that_no_kernel_has_are_steps():
    def net(x):
        return ipu.rnn_ops.PopnnLSTM(UNITS, activation="relu")(x)[0], ipu.rnn_ops.PopnnGRU(UNITS)(x)[0]

    assert types_of(records_of(net, some(TIMES, BATCH, SIZE))) == []


@pytest.mark.parametrize("kind", LAYERS)
def test_a_gradient_of_a_gradient(kind):
    """TensorFlow differentiates the body of the gradient, which then stands in the unit itself."""
    net, arrays = LAYERS[kind]

    def twice(*given):
        first = tf.gradients(tf.reduce_sum(tf.sin(net(*given)[0])), given[0])[0]
        return first, tf.gradients(tf.reduce_sum(tf.square(first)), given[0])[0]

    both.check(twice, arrays)


def test_layers_in_loops_and_conditions():
    def net(x):
        layer = ipu.rnn_ops.PopnnLSTM(SIZE)
        layer.build(x.shape)

        def body(x):
            y = layer(x)[0]
            gradient = tf.gradients(tf.reduce_sum(tf.square(y)), x)[0]
            return x - 0.1 * gradient

        x = ipu.loops.repeat(3, body, [x])
        return tf.cond(tf.reduce_sum(x) > 0, lambda: layer(x)[0], lambda: -layer(x)[0])

    both.check(net, (some(TIMES, BATCH, SIZE),), (some(TIMES, BATCH, SIZE, seed=5),))


def test_a_gradient_through_a_loop_of_tensorflow():
    def net(x):
        layer = ipu.rnn_ops.PopnnGRU(SIZE, reset_after=True)
        layer.build(x.shape)
        _, y = tf.while_loop(lambda i, _: i < 3, lambda i, x: (i + 1, layer(x)[0]), [0, x], maximum_iterations=3)
        return y, tf.gradients(tf.reduce_sum(tf.square(y)), x)[0]

    both.check(net, (some(TIMES, BATCH, SIZE),))


def test_shapes_that_are_not_known_outside_of_units():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [None, None, SIZE])
        outputs, state = ipu.rnn_ops.PopnnLSTM(UNITS)(x)
        gradient = tf.gradients(outputs, x)[0]
        assert outputs.shape.as_list()[2] == UNITS
        session.run(v1.global_variables_initializer())
        got = session.run([outputs, state.h, gradient], {x: some(TIMES, BATCH, SIZE)})
    assert [array.shape for array in got] == [(TIMES, BATCH, UNITS), (BATCH, UNITS), (TIMES, BATCH, SIZE)]
    both.close(got[0][-1], got[1], 1e-6)
