"""Chapter 12.9: recurrent layers against the same recurrences written out step by step, outside of a unit and in one."""

import both
import numpy as np
import pytest
import recurrent
import tensorflow as tf
from both import some
from tensorflow.python import ipu
from test_training import flat

v1 = tf.compat.v1
TIMES, BATCH, SIZE, UNITS = 4, 2, 3, 5


def same(layer, reference, fed, variables, tolerance=1e-5):
    """The layer has these variables, and values and gradients of the reference, outside of a unit and in one."""
    layer, reference = recurrent.with_gradients(layer), recurrent.with_gradients(reference)
    _, before, _ = both.plain(layer, [fed])
    assert {name: list(value.shape) for name, value in before.items()} == variables
    start = recurrent.random_state(before)
    (expected,), *_ = both.plain(reference, [fed], start)
    for run in (both.plain, both.ours):
        (got,), *_ = run(layer, [fed], start)
        assert len(got) == len(expected)
        for a, b in zip(got, expected):
            both.close(a, b, tolerance)


@pytest.mark.shows("ipu.ops.rnn_ops.PopnnLSTM")
@pytest.mark.parametrize("given", [False, True], ids=["zeros", "initial state"])
def test_an_lstm(given):
    kind = v1.nn.rnn_cell.LSTMStateTuple

    def layer(x, c, h):
        outputs, state = ipu.rnn_ops.PopnnLSTM(UNITS)(x, initial_state=kind(c, h) if given else None)
        assert isinstance(state, kind)
        return outputs, state.c, state.h, c + h

    def reference(x, c, h):
        weights = recurrent.weights("popnn_lstm", x, UNITS, biases=[4, UNITS])
        outputs, state = recurrent.lstm(x, (c, h) if given else (tf.zeros_like(c), tf.zeros_like(h)), *weights)
        return outputs, *state, c + h

    fed = (some(TIMES, BATCH, SIZE), some(BATCH, UNITS, seed=1), some(BATCH, UNITS, seed=2))
    same(layer, reference, fed, {"popnn_lstm/kernel": [SIZE + UNITS, 4 * UNITS], "popnn_lstm/biases": [4, UNITS]})


@pytest.mark.shows("ipu.ops.rnn_ops.PopnnGRU")
@pytest.mark.parametrize("reset_after", [False, True], ids=["reset before", "reset after"])
def test_a_gru(reset_after):
    shape = [3, 2, UNITS] if reset_after else [3, UNITS]

    def layer(x, h):
        return ipu.rnn_ops.PopnnGRU(UNITS, reset_after=reset_after, name="own")(x, h)

    def reference(x, h):
        return recurrent.gru(x, h, *recurrent.weights("own", x, UNITS, biases=shape))

    fed = (some(TIMES, BATCH, SIZE), some(BATCH, UNITS, seed=1))
    same(layer, reference, fed, {"own/kernel": [SIZE + UNITS, 3 * UNITS], "own/biases": shape})


LENGTHS = np.array([2, TIMES], np.int32)


@pytest.mark.shows("ipu.ops.rnn_ops.PopnnDynamicLSTM")
def test_a_dynamic_lstm():
    def layer(x, lengths):
        outputs, state = ipu.rnn_ops.PopnnDynamicLSTM(UNITS)(x, lengths)
        return outputs, state.c, state.h

    def reference(x, lengths):
        weights = recurrent.weights("popnn_dynamic_lstm", x, UNITS, biases=[4, UNITS])
        zeros = tf.zeros([BATCH, UNITS])
        outputs, state = recurrent.lstm(x, (zeros, zeros), *weights, lengths=lengths)
        return outputs, *state

    name = "popnn_dynamic_lstm"
    variables = {f"{name}/kernel": [SIZE + UNITS, 4 * UNITS], f"{name}/biases": [4, UNITS]}
    same(layer, reference, (some(TIMES, BATCH, SIZE), LENGTHS), variables)


@pytest.mark.shows("ipu.ops.rnn_ops.PopnnDynamicGRU", "ipu.ops.rnn_ops.PopnnAUGRU")
@pytest.mark.parametrize("attends", [False, True], ids=["dynamic", "attention"])
def test_dynamic_grus(attends):
    """The plain one by sample with a reset before, the one with attention by time with a reset after the product."""

    def layer(x, scores, lengths):
        if attends:
            return *ipu.rnn_ops.PopnnAUGRU(UNITS, name="own", reset_after=True)(
                x, lengths, scores, initial_state=x[0] @ W
            ), scores
        x = tf.transpose(x, [1, 0, 2])
        return *ipu.rnn_ops.PopnnDynamicGRU(UNITS, name="own")(x, lengths, time_major=False), scores

    def reference(x, scores, lengths):
        kernel, bias = recurrent.weights("own", x, UNITS, bias_r_u=[2, UNITS], bias_c=[1, UNITS])
        if attends:
            bias = tf.tile(bias[:, None], [1, 2, 1])
            return *recurrent.gru(x, x[0] @ W, kernel, bias, lengths=lengths, attention=scores), scores
        return *recurrent.gru(x, tf.zeros([BATCH, UNITS]), kernel, bias, lengths=lengths), scores

    W = some(SIZE, UNITS, seed=9)
    variables = {"own/kernel": [SIZE + UNITS, 3 * UNITS], "own/bias_r_u": [2, UNITS], "own/bias_c": [1, UNITS]}
    scores = np.random.default_rng(1).random((TIMES, BATCH)).astype(np.float32)
    same(layer, reference, (some(TIMES, BATCH, SIZE), scores, LENGTHS), variables)


def test_initial_biases_of_a_gru_with_attention():
    """And the attention by sample, which gives what the attention by time gives."""
    with tf.Graph().as_default(), v1.Session() as session:
        layer = ipu.rnn_ops.PopnnAUGRU(UNITS)
        layer.build([TIMES, BATCH, SIZE])
        session.run(v1.global_variables_initializer())
        gates, candidate = session.run([layer.bias_r_u, layer.bias_c])
        x, scores = some(TIMES, BATCH, SIZE), some(TIMES, BATCH, seed=1)
        by_time, by_sample = session.run(
            [layer(x, LENGTHS, scores)[0], layer(x.transpose(1, 0, 2), LENGTHS, scores.T, time_major=False)[0]]
        )
    assert by_time.shape == (TIMES, BATCH, UNITS) and np.allclose(by_time, by_sample)
    assert (gates == 1).all() and (candidate == 0).all()


ACTIVATIONS = {
    "hard": ("relu", "hard_sigmoid", tf.nn.relu, lambda x: tf.clip_by_value(0.2 * x + 0.5, 0.0, 1.0)),
    "functions": (tf.sigmoid, tf.nn.softmax, tf.sigmoid, tf.nn.softmax),
}


@pytest.mark.parametrize("name", ACTIVATIONS)
def test_activations(name):
    activation, recurrent_activation, phi, sigma = ACTIVATIONS[name]

    def layer(x):
        return ipu.rnn_ops.PopnnGRU(
            UNITS, activation=activation, recurrent_activation=recurrent_activation, name="own"
        )(x)

    def reference(x):
        weights = recurrent.weights("own", x, UNITS, biases=[3, UNITS])
        return recurrent.gru(x, tf.zeros([BATCH, UNITS]), *weights, phi, sigma)

    fed = (some(TIMES, BATCH, SIZE),)
    same(layer, reference, fed, {"own/kernel": [SIZE + UNITS, 3 * UNITS], "own/biases": [3, UNITS]})


def test_float16():
    def net(x):
        outputs, state = ipu.rnn_ops.PopnnLSTM(UNITS, dtype=tf.float16, partials_dtype=tf.float16)(x)
        return outputs, state.c

    fed = (some(TIMES, BATCH, SIZE).astype(np.float16),)
    both.check(net, fed, tolerance=5e-3)


def test_initial_values():
    def net(seed):
        with tf.Graph().as_default(), v1.Session() as session:
            layer = ipu.rnn_ops.PopnnLSTM(UNITS, seed=seed, bias_initializer=v1.ones_initializer())
            layer.build([TIMES, BATCH, SIZE])
            kernel, biases = layer.kernel, layer.biases
            layer.build([TIMES, BATCH, SIZE])
            assert layer.kernel is kernel and v1.trainable_variables() == [kernel, biases]
            session.run(v1.global_variables_initializer())
            return session.run([kernel, biases])

    (kernel, biases), (again, _), (other, _) = net(3), net(3), net(4)
    limit = np.sqrt(6 / (SIZE + UNITS + 4 * UNITS))
    assert np.abs(kernel).max() <= limit and np.abs(kernel).max() > 0.8 * limit
    assert (kernel == again).all() and (kernel != other).any() and (biases == 1).all()


def test_shapes_of_states():
    layers = ipu.rnn_ops.PopnnLSTM(UNITS), ipu.rnn_ops.PopnnGRU(UNITS)
    lstm, gru = [layer.state_shape(7) for layer in layers]
    assert list(lstm) == [[7, UNITS], [7, UNITS]] and gru == [7, UNITS] and layers[0].num_units == UNITS


@pytest.mark.parametrize("run", [both.plain, both.ours])
def test_a_layer_that_does_not_train_has_no_gradient(run):
    def net(training):
        def body(x):
            outputs, _ = ipu.rnn_ops.PopnnGRU(UNITS, weights_initializer=v1.ones_initializer())(x, training=training)
            return [outputs, *([] if training is False else tf.gradients(outputs, x))]

        return body

    fed = [(some(TIMES, BATCH, SIZE),)]
    assert np.allclose(run(net(False), fed)[0][0][0], run(net(True), fed)[0][0][0])

    def wrong(x):
        return tf.gradients(ipu.rnn_ops.PopnnGRU(UNITS)(x, training=False)[0], x)

    with pytest.raises(LookupError, match="PopnnGRU.*training=True"):
        run(wrong, fed)


REFUSED = {
    "dtype": (lambda c: c(UNITS, dtype=tf.float64), ValueError, "dtype must be float16 or float32, not float64"),
    "partials": (lambda c: c(UNITS, partials_dtype=tf.int32), ValueError, "partials_dtype must be float16 or float32"),
    "name": (lambda c: c(UNITS, activation="selu"), ValueError, "activation='selu' is not supported: take one of tanh"),
    "gate": (
        lambda c: c(UNITS, recurrent_activation="relu"),
        ValueError,
        "recurrent_activation='relu' is not supported",
    ),
    "function": (lambda c: c(UNITS, activation=tf.nn.selu), TypeError, "is not supported: take one of tanh"),
    "none": (lambda c: c(UNITS, activation=None), TypeError, "activation=None is not supported"),
    "rank": (lambda c: c(UNITS).build([2, 3]), ValueError, "inputs of rank 3, not of shape"),
    "size": (
        lambda c: c(UNITS).build([2, 3, None]),
        ValueError,
        "last dimension of the inputs of Popnn.* must be known",
    ),
}


@pytest.mark.parametrize("name", REFUSED)
def test_what_layers_refuse(name):
    call, kind, text = REFUSED[name]
    for layer in (ipu.rnn_ops.PopnnLSTM, ipu.rnn_ops.PopnnGRU):
        with tf.Graph().as_default(), pytest.raises(kind, match=text):
            call(layer)


def test_a_state_of_an_lstm_is_a_tuple_of_two():
    with tf.Graph().as_default(), pytest.raises(ValueError, match=r"an LSTMStateTuple\(c, h\), not tuple"):
        zeros = tf.zeros([BATCH, UNITS])
        ipu.rnn_ops.PopnnLSTM(UNITS)(tf.zeros([TIMES, BATCH, SIZE]), initial_state=(zeros, zeros))


def test_a_classifier_trains_as_plain_tensorflow_does():
    def classifier(lstm):
        def net(x, labels):
            logits = lstm(x)
            loss = tf.reduce_mean(tf.nn.sparse_softmax_cross_entropy_with_logits(labels=labels, logits=logits))
            return loss, v1.train.MomentumOptimizer(0.5, 0.9).minimize(loss)

        return net

    def reference(x):
        zeros = tf.zeros([x.shape[1], UNITS], x.dtype)
        return recurrent.lstm(x, (zeros, zeros), *recurrent.weights("popnn_lstm", x, UNITS, biases=[4, UNITS]))[0][-1]

    net, plain = classifier(lambda x: ipu.rnn_ops.PopnnLSTM(UNITS)(x)[0][-1]), classifier(reference)
    random = np.random.default_rng(3)
    fed = [(some(6, 8, SIZE, seed=i), random.integers(0, UNITS, 8).astype(np.int32)) for i in range(10)]
    _, before, _ = both.plain(plain, fed[:1])
    start = {
        name: value if name.endswith("Momentum") else recurrent.random_state({name: value}, 0.3)[name]
        for name, value in before.items()
    }
    rows, _, state = both.plain(plain, fed, start)
    mine, _, ours = both.ours(net, fed, start)
    wide = [(x.astype(np.float64), labels) for x, labels in fed]
    exact = flat(*both.plain(plain, wide, {name: value.astype(np.float64) for name, value in start.items()})[::2])
    assert list(ours) == list(state)
    assert np.linalg.norm(flat(mine, ours) - exact) <= 3 * np.linalg.norm(flat(rows, state) - exact) + 1e-6
    assert np.linalg.norm(flat(mine, ours) - flat(rows, start)) > 0.1  # it has trained
