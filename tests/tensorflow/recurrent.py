"""LSTM and GRU written out step by step in plain TensorFlow, with the variables of the layers of rnn_ops."""

import numpy as np
import tensorflow as tf

v1 = tf.compat.v1


def weights(name, inputs, units, **biases):
    """The kernel and, concatenated, the biases of a layer."""
    gates = sum(shape[0] for shape in biases.values())
    with v1.variable_scope(name):
        kernel = v1.get_variable("kernel", [inputs.shape[2] + units, gates * units], inputs.dtype)
        each = [v1.get_variable(bias, shape, inputs.dtype) for bias, shape in biases.items()]
    return kernel, tf.concat(each, 0)


def lstm(x, state, kernel, bias, phi=tf.tanh, sigma=tf.sigmoid, lengths=None):
    c, h = state
    outputs = []
    for t in range(x.shape[0]):
        parts = tf.split(tf.matmul(tf.concat([x[t], h], 1), kernel), 4, 1)
        i, f, g, o = [part + bias[k] for k, part in enumerate(parts)]
        new_c = sigma(f) * c + sigma(i) * phi(g)
        new_h = sigma(o) * phi(new_c)
        live = tf.ones_like(h, tf.bool) if lengths is None else tf.tile((t < lengths)[:, None], [1, h.shape[1]])
        outputs.append(tf.where(live, new_h, tf.zeros_like(h)))
        c, h = tf.where(live, new_c, c), tf.where(live, new_h, h)
    return tf.stack(outputs), (c, h)


def gru(x, h, kernel, bias, phi=tf.tanh, sigma=tf.sigmoid, lengths=None, attention=None):
    """Biases [3, 2, units] are those of a reset after the product."""
    outputs = []
    size = x.shape[2]
    for t in range(x.shape[0]):
        a = tf.split(tf.matmul(x[t], kernel[:size]), 3, 1)
        u = tf.split(kernel[size:], 3, 1)
        if bias.shape.rank == 3:
            z, r = [sigma(a[k] + bias[k, 0] + tf.matmul(h, u[k]) + bias[k, 1]) for k in (0, 1)]
            new = phi(a[2] + bias[2, 0] + r * (tf.matmul(h, u[2]) + bias[2, 1]))
        else:
            z, r = [sigma(a[k] + bias[k] + tf.matmul(h, u[k])) for k in (0, 1)]
            new = phi(a[2] + bias[2] + tf.matmul(r * h, u[2]))
        if attention is not None:
            z = (1 - attention[t][:, None]) * z
        new = z * h + (1 - z) * new
        live = tf.ones_like(h, tf.bool) if lengths is None else tf.tile((t < lengths)[:, None], [1, h.shape[1]])
        outputs.append(tf.where(live, new, tf.zeros_like(h)))
        h = tf.where(live, new, h)
    return tf.stack(outputs), h


def with_gradients(net):
    """Results of the net and the gradients of a number made of all of them, of its inputs and the variables."""

    def whole(*given):
        results = tf.nest.flatten(net(*given))
        loss = tf.add_n(
            [tf.reduce_sum(x * tf.reshape(tf.sin(tf.range(tf.size(x), dtype=x.dtype)), x.shape)) for x in results]
        )
        over = [x for x in given if x.dtype.is_floating] + v1.trainable_variables()
        return [*results, *(tf.convert_to_tensor(g) for g in tf.gradients(loss, over))]

    return whole


def random_state(state, scale=0.5):
    """Other values of the same shapes, by the order of the variables."""
    random = np.random.default_rng(5)
    return {name: (random.standard_normal(value.shape) * scale).astype(value.dtype) for name, value in state.items()}
