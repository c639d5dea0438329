"""Chapter 11: the LSTM and the GRU of `ipu.keras.layers` against the cells of Keras, outside of a unit and in one."""

import both
import numpy as np
import pytest
import recurrent
import tensorflow as tf
from both import some
from tensorflow.python import ipu

v1 = tf.compat.v1
BATCH, TIMES, SIZE, UNITS = 2, 4, 3, 5
layers = ipu.keras.layers


def cell(kind, **given):
    """The layer of Keras that steps through time."""
    cells = {"lstm": tf.keras.layers.LSTMCell, "gru": tf.keras.layers.GRUCell}
    return lambda **more: tf.keras.layers.RNN(cells[kind](UNITS, **given), **more)


KINDS = {
    "lstm": (layers.PopnnLSTM, cell("lstm"), 2, [4 * UNITS], {}),
    "reset after": (layers.PopnnGRU, cell("gru"), 1, [2, 3 * UNITS], {}),
    "reset before": (layers.PopnnGRU, cell("gru", reset_after=False), 1, [3 * UNITS], {"reset_after": False}),
}


def run_like_keras(kind, fed, build, **more):
    """What `build` makes of our layer, and of that of Keras with the same weights."""
    make, of_keras, *_, given = KINDS[kind]
    mine = recurrent.with_gradients(build(lambda: make(UNITS, name="own", **given, **more)))
    theirs = recurrent.with_gradients(build(lambda: of_keras(**more)))
    _, before, _ = both.plain(mine, [fed])
    start = recurrent.random_state(before)
    _, names, _ = both.plain(theirs, [fed])
    (expected,), *_ = both.plain(theirs, [fed], dict(zip(names, start.values(), strict=True)))
    for run in (both.plain, both.ours):
        (got,), *_ = run(mine, [fed], start)
        for a, b in zip(got, expected, strict=True):
            both.close(a, b, 1e-5)
    return before


@pytest.mark.shows("ipu.keras.layers.PopnnLSTM", "ipu.keras.layers.PopnnGRU")
@pytest.mark.parametrize("kind", KINDS)
def test_values_gradients_and_weights_are_those_of_keras(kind):
    states = KINDS[kind][2]

    def build(make):
        def net(x, *state):
            outputs, *last = make()(x, initial_state=list(state))
            assert len(last) == states
            return outputs, *last

        return net

    fed = (some(BATCH, TIMES, SIZE), *[some(BATCH, UNITS, seed=i) for i in range(1, states + 1)])
    before = run_like_keras(kind, fed, build, return_sequences=True, return_state=True)
    gates = 4 if kind == "lstm" else 3
    shapes = {"kernel": [SIZE, gates * UNITS], "recurrent_kernel": [UNITS, gates * UNITS], "biases": KINDS[kind][3]}
    assert {name: list(value.shape) for name, value in before.items()} == {f"own/{n}": s for n, s in shapes.items()}


@pytest.mark.shows("ipu.keras.layers.LSTM", "ipu.keras.layers.GRU")
@pytest.mark.parametrize("kind", ["lstm", "reset after"])
def test_the_last_output_by_time(kind):
    assert layers.LSTM is layers.PopnnLSTM and layers.GRU is layers.PopnnGRU
    run_like_keras(kind, (some(TIMES, BATCH, SIZE),), lambda make: lambda x: make()(x), time_major=True)


@pytest.mark.parametrize("kind", [layers.LSTM, layers.GRU])
def test_a_layer_that_keeps_its_state(kind):
    """Two runs over halves of the times give what one over all of them gives."""

    def net(**given):
        def body(x):
            return kind(UNITS, return_sequences=True, name="own", **given)(x)

        return body

    x = some(BATCH, TIMES, SIZE)
    _, before, _ = both.plain(net(), [(x,)])
    weights = recurrent.random_state(before)
    ((whole,),), *_ = both.plain(net(), [(x,)], weights)
    for run in (both.plain, both.ours):
        halves = [(x[:, :2],), (x[:, 2:],)]
        _, state, _ = both.plain(net(stateful=True), halves[:1])
        got, _, after = run(net(stateful=True), halves, state | weights)
        both.close(np.concatenate([row[0] for row in got], 1), whole, 1e-5)
        both.close(after["own/state_0"], whole[:, -1], 1e-5)
        assert len(after) - len(weights) == (2 if kind is layers.LSTM else 1)


@pytest.mark.parametrize("run", [both.plain, both.ours])
def test_inputs_are_dropped_in_training_alike_at_all_times(run):
    """An identity of an LSTM shows its inputs: relu of a candidate that is the input, and gates that are open."""

    def net(x):
        layer = layers.GRU(
            8,
            activation="relu",
            kernel_initializer=tf.compat.v1.constant_initializer(np.eye(8, 24, 16)),
            recurrent_initializer="zeros",
            bias_initializer=tf.compat.v1.constant_initializer(np.repeat([[-50.0, 50.0, 0.0], [0.0] * 3], 8, 1)),
            dropout=0.5,
            dropout_seed=[1, 2],
            return_sequences=True,
        )
        return layer(x, training=True), layer(x, training=False), layer(x)

    x = np.ones([4, TIMES, 8], np.float32)
    ((train, test, neither),), *_ = run(net, [(x,)])
    both.close(test, x, 1e-5)
    both.close(neither, x, 1e-5)
    assert np.allclose(train, train[:, :1], atol=1e-5) and {0.0, 2.0} == set(train.ravel().round(4).tolist())


def test_the_learning_phase_of_keras_says_whether_inputs_are_dropped():
    with tf.Graph().as_default(), v1.Session() as session:
        x = v1.placeholder(tf.float32, [100])
        with both.on_ipu():
            (y,) = ipu.ipu_compiler.compile(lambda x: layers.Dropout(0.5)(x), [x])
        phase = tf.keras.backend.learning_phase()
        ones = np.ones([100], np.float32)
        assert (session.run(y, {x: ones}) == ones).all()
        assert set(session.run(y, {x: ones, phase: True})) == {0.0, 2.0}


def test_initial_values():
    def values(kind, **given):
        with tf.Graph().as_default(), v1.Session() as session:
            layer = kind(UNITS, **given)
            layer.build([BATCH, TIMES, SIZE])
            kernel = layer.kernel
            layer.build([BATCH, TIMES, SIZE])
            assert layer.kernel is kernel and layer.weights == [kernel, layer.recurrent_kernel, layer.biases]
            session.run(v1.global_variables_initializer())
            return session.run(layer.weights)

    kernel, recurrent_kernel, biases = values(layers.LSTM, seed=3, bias_initializer="ones")
    assert np.allclose(recurrent_kernel @ recurrent_kernel.T, np.eye(UNITS), atol=1e-5)
    assert biases.tolist() == [0.0] * UNITS + [1.0] * UNITS + [0.0] * 2 * UNITS
    again, other = values(layers.LSTM, seed=3), values(layers.LSTM, seed=4)
    assert (kernel == again[0]).all() and (kernel != other[0]).any() and (recurrent_kernel != other[1]).any()
    assert (values(layers.LSTM, bias_initializer="ones", unit_forget_bias=False)[2] == 1).all()
    same = {"seed": 3, "kernel_initializer": "glorot_uniform", "recurrent_initializer": "glorot_uniform"}
    first, second, _ = values(lambda units, **given: layers.GRU(SIZE, **given), **same)
    assert (first != second).any()


def test_a_layer_from_its_configuration():
    first = layers.GRU(UNITS, activation="relu", dropout=0.1, reset_after=False, stateful=True, name="own", seed=1)
    copy = layers.GRU.from_config(first.get_config())
    assert copy.get_config() == first.get_config() and copy.reset_after is False and copy.name == "own"
    assert layers.LSTM.from_config(layers.LSTM(4, unit_forget_bias=False).get_config()).unit_forget_bias is False
    assert layers.LSTM(4).state_shape(7) == ([7, 4], [7, 4]) and copy.state_shape(7) == [7, UNITS]


def test_float16():
    def net(x):
        return layers.LSTM(UNITS, dtype="float16", partials_dtype=tf.float16)(x)

    got, state = both.check(net, (some(BATCH, TIMES, SIZE).astype(np.float16),), tolerance=5e-3)
    assert got[0][0].dtype == np.float16 and {value.dtype.name for value in state.values()} == {"float16"}


REFUSED = {
    "use_bias=False": "use_bias=False is not supported: leave it at True",
    "bias_regularizer='l2'": "bias_regularizer='l2' is not supported",
    "kernel_constraint='non_neg'": "kernel_constraint='non_neg' is not supported",
    "recurrent_dropout=0.5": "recurrent_dropout=0.5 is not supported: leave it at 0.0",
    "implementation=2": "implementation=2 is not supported",
    "go_backwards=True": "go_backwards=True is not supported",
    "unroll=True": "unroll=True is not supported",
    "dropout=1.0": "at least 0 and less than 1",
    "activation='selu'": "activation='selu' is not supported",
    "recurrent_activation='relu'": "recurrent_activation='relu' is not supported",
}


@pytest.mark.parametrize("argument", REFUSED)
def test_arguments_that_are_refused(argument):
    name, _, value = argument.partition("=")
    for kind in (layers.LSTM, layers.GRU):
        with pytest.raises(ValueError, match=REFUSED[argument]):
            kind(UNITS, **{name: eval(value)})  # a literal of the table


BUILT = {
    "rank": ({}, [2, 3], "inputs of rank 3, not of shape"),
    "features": ({}, [2, 3, None], "last dimension of the inputs of PopnnLSTM must be known"),
    "batch": ({"stateful": True}, [None, 3, 4], "stateful=True needs to know the size of the batch"),
    "type": ({"dtype": "float64"}, [2, 3, 4], "must be float16 or float32, not float64"),
}


@pytest.mark.parametrize("name", BUILT)
def test_shapes_that_are_refused(name):
    given, shape, text = BUILT[name]
    with tf.Graph().as_default(), pytest.raises(ValueError, match=text):
        layers.LSTM(UNITS, **given).build(shape)


def test_a_state_of_another_number_of_parts():
    with (
        tf.Graph().as_default(),
        pytest.raises(ValueError, match="PopnnLSTM has 1 parts, and the layer has a state of 2"),
    ):
        layers.LSTM(UNITS)(tf.zeros([BATCH, TIMES, SIZE]), initial_state=[tf.zeros([BATCH, UNITS])])


def test_dropped_inputs_are_of_known_size():
    with tf.Graph().as_default(), pytest.raises(ValueError, match="PopnnLSTM with dropout needs inputs of known batch"):
        layers.LSTM(UNITS, dropout=0.5)(v1.placeholder(tf.float32, [None, TIMES, SIZE]), training=True)


def test_checkpoints_are_read_by_keras(tmp_path):
    """Weights trained in a unit, saved under the names of a graph without units."""

    def trained(x):
        y = layers.LSTM(UNITS, name="own")(x)
        return y, v1.train.GradientDescentOptimizer(0.1).minimize(tf.reduce_sum(tf.square(y)))

    x = some(BATCH, TIMES, SIZE)
    path = str(tmp_path / "model")
    with tf.Graph().as_default(), v1.Session() as session:
        with both.on_ipu():
            (y,) = ipu.ipu_compiler.compile(trained, [tf.constant(x)])
        session.run(v1.global_variables_initializer())
        session.run(y)
        v1.train.Saver().save(session, path)
        after = session.run(v1.trainable_variables())
    with tf.Graph().as_default(), v1.Session() as session:
        layer = tf.keras.layers.RNN(tf.keras.layers.LSTMCell(UNITS))
        y = layer(tf.constant(x))
        names = ("own/kernel", "own/recurrent_kernel", "own/biases")
        v1.train.Saver(dict(zip(names, layer.weights, strict=True))).restore(session, path)
        for mine, theirs in zip(after, session.run(layer.weights), strict=True):
            assert (mine == theirs).all()
