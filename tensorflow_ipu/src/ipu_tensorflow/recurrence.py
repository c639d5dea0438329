"""Recurrences over time: the steps of LSTM and GRU, and the loop that carries their state."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tensorflow import scopes

Function = Callable[[Any], Any]


def _hard_sigmoid(x: Any) -> Any:
    return tf.clip_by_value(x * 0.2 + 0.5, 0.0, 1.0)


_FUNCTIONS: dict[str, Function] = {
    "tanh": tf.tanh,
    "relu": tf.nn.relu,
    "softmax": tf.nn.softmax,
    "sigmoid": tf.sigmoid,
    "hard_sigmoid": _hard_sigmoid,
}
_RECURRENT = ("tanh", "softmax", "sigmoid", "hard_sigmoid")


def activation_name(activation: Any, recurrent: bool = False) -> str:
    """Name of a function that a layer may have, given by its name or as the function of TensorFlow or Keras."""
    what = "recurrent_activation" if recurrent else "activation"
    names = _RECURRENT if recurrent else tuple(_FUNCTIONS)
    if isinstance(activation, str):
        if activation not in names:
            raise ValueError(f"{what}={activation!r} is not supported: take one of {', '.join(names)}")
        return activation
    for name in names:
        of_keras = getattr(tf.keras.activations, name)
        if activation in (_FUNCTIONS[name], of_keras, getattr(tf.compat.v1.nn, name, of_keras)):
            return name
    raise TypeError(f"{what}={activation!r} is not supported: take one of {', '.join(names)}")


def float_type(dtype: Any, what: str) -> tf.DType:
    found = tf.as_dtype(dtype)
    if found not in (tf.float16, tf.float32):
        raise ValueError(f"{what} must be float16 or float32, not {found.name}")
    return found


class Product:
    """Matrix products with one type of partial results."""

    def __init__(self, partials: tf.DType) -> None:
        self._partials = np.dtype(partials.as_numpy_dtype)

    def __call__(self, a: Any, b: Any) -> Any:
        with scopes.partials_type(self._partials):
            return tf.matmul(a, b)

    def of_all_steps(self, inputs: Any, kernel: Any) -> Any:
        """The products of the inputs at all times at once."""
        size, width = kernel.shape
        found = self(tf.reshape(inputs, [-1, size]), kernel)
        shape = [tf.shape(inputs)[i] if n is None else n for i, n in enumerate(inputs.shape[:2].as_list())]
        return tf.reshape(found, [*shape, width])


def lstm_step(product: Product, kernel: Any, activation: Function, gate: Function) -> Callable:
    """Gates are input, forget, candidate, output; `kernel` is that of the state. Keeps the cells and the gates."""

    def step(inputs: Sequence[Any], states: Sequence[Any]) -> tuple[list[Any], list[Callable]]:
        h, c = states
        i, f, g, o = tf.split(inputs[0] + product(h, kernel), 4, axis=1)
        i, f, g, o = gate(i), gate(f), activation(g), gate(o)
        c = f * c + i * g
        return [o * activation(c), c], [lambda: c, lambda: tf.concat([i, f, g, o], 1)]

    return step


def gru_step(
    product: Product, kernel: Any, activation: Function, gate: Function, recurrent_bias: Any = None
) -> Callable:
    """Gates are update, reset, candidate; `kernel` is that of the state.

    With a `recurrent_bias` the reset comes after the product of the candidate, without one before it. A second input is
    the attention of each sample, which takes from the update. Keeps the gates, reset first, and what the state gave for the
    candidate.
    """
    units = kernel.shape[0]
    of_gates, of_candidate = (
        (kernel[:, : 2 * units], kernel[:, 2 * units :]) if recurrent_bias is None else (kernel, None)
    )

    def step(inputs: Sequence[Any], states: Sequence[Any]) -> tuple[list[Any], list[Callable]]:
        (h,) = states
        z, r, c = tf.split(inputs[0], 3, axis=1)
        if recurrent_bias is None:
            of_z, of_r = tf.split(product(h, of_gates), 2, axis=1)
            r = gate(r + of_r)
            of_c = product(r * h, of_candidate)
            c = activation(c + of_c)
        else:
            of_z, of_r, of_c = tf.split(product(h, of_gates) + recurrent_bias, 3, axis=1)
            r = gate(r + of_r)
            c = activation(c + r * of_c)
        z = gate(z + of_z)
        if len(inputs) > 1:
            z = (1.0 - tf.expand_dims(inputs[1], 1)) * z
        return [z * h + (1.0 - z) * c], [lambda: tf.concat([r, z, c], 1), lambda: of_c]

    return step


def over_time(
    step: Callable, inputs: Sequence[Any], states: Sequence[Any], lengths: Any = None, kept: Sequence[Any] = ()
) -> tuple[list[Any], list[Any]]:
    """The first state and the first of what the step keeps, at all times; and the states at the end.

    Args:
        step: takes the inputs of a time and the states before it; gives the states after it, and functions that give what it keeps.
        inputs: by time, then by sample.
        states: before the first time, by sample.
        lengths: how many times each sample has. Later its states stay and its outputs are 0.
        kept: shapes at one time.
    """
    steps = inputs[0].shape[0]
    steps = tf.shape(inputs[0])[0] if steps is None else steps
    arrays = [tf.TensorArray(x.dtype, size=steps, element_shape=x.shape[1:]).unstack(x) for x in inputs]
    shapes = [states[0].shape, *kept]
    outputs = [tf.TensorArray(states[0].dtype, size=steps, element_shape=shape) for shape in shapes]

    def body(time: Any, outputs: list, *before: Any) -> tuple:
        after, more = step([array.read(time) for array in arrays], before)
        output = after[0]
        if lengths is not None:
            runs = tf.expand_dims(time < lengths, 1)
            output = tf.where(runs, output, tf.zeros_like(output))
            after = [tf.where(runs, new, old) for new, old in zip(after, before)]
        written = [
            array.write(time, value) for array, value in zip(outputs, [output, *[make() for make in more[: len(kept)]]])
        ]
        return (time + 1, written, *after)

    _, outputs, *last = tf.while_loop(
        lambda time, *_: time < steps, body, [tf.constant(0), outputs, *states], maximum_iterations=steps
    )
    return [array.stack() for array in outputs], last


@dataclasses.dataclass(frozen=True)
class Cell:
    """What steps compute: names of functions, and the type of partial results of products."""

    activation: str
    recurrent_activation: str
    partials: tf.DType

    @property
    def is_usual(self) -> bool:
        """Whether the core has kernels for it."""
        return (self.activation, self.recurrent_activation) == ("tanh", "sigmoid")

    @property
    def functions(self) -> tuple[Function, Function]:
        return _FUNCTIONS[self.activation], _FUNCTIONS[self.recurrent_activation]


def cell(activation: Any, recurrent_activation: Any, partials_dtype: Any) -> Cell:
    """Of what users give, checked."""
    names = activation_name(activation), activation_name(recurrent_activation, True)
    return Cell(*names, float_type(partials_dtype, "partials_dtype"))


def zeros(inputs: Any, units: int) -> Any:
    """A state for inputs [time, sample, feature]."""
    return tf.zeros([tf.shape(inputs)[1] if inputs.shape[1] is None else inputs.shape[1], units], inputs.dtype)


def check_inputs(shape: Any, what: str) -> int:
    """Size of the last dimension."""
    found = tf.TensorShape(shape)
    if found.rank != 3:
        raise ValueError(f"{what} takes inputs of rank 3, not of shape {found}")
    if found[-1] is None:
        raise ValueError(f"the last dimension of the inputs of {what} must be known, their shape is {found}")
    return int(found[-1])
