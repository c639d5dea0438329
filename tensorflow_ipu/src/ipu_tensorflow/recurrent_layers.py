"""`ipu.keras.layers` with a state: LSTM and GRU, with the weights of Keras."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import rand_ops, recurrence, recurrent

Layer: Any = tf.keras.layers.Layer
# Arguments that layers of Keras have, and the only values that these take.
_NEUTRAL: dict[str, Any] = {
    "use_bias": True,
    "kernel_regularizer": None,
    "recurrent_regularizer": None,
    "bias_regularizer": None,
    "activity_regularizer": None,
    "kernel_constraint": None,
    "recurrent_constraint": None,
    "bias_constraint": None,
    "recurrent_dropout": 0.0,
    "implementation": 1,
    "go_backwards": False,
    "unroll": False,
}
_INITIALIZERS = ("kernel_initializer", "recurrent_initializer", "bias_initializer")
_KEPT = ("dropout", "dropout_seed", "return_sequences", "return_state", "stateful", "seed", "time_major")


class _Recurrent(Layer):
    """A layer over time, made of what its constructor was called with."""

    _gates: int
    _states: int
    built: bool

    def __init__(self, given: dict[str, Any]) -> None:
        """`given`: the arguments of the constructor of the class, by name."""
        what = type(self).__name__
        for name, neutral in _NEUTRAL.items():
            if given[name] != neutral:
                raise ValueError(f"{what}: {name}={given[name]!r} is not supported: leave it at {neutral!r}")
        super().__init__(**given["kwargs"])
        self.units = int(given["units"])
        self._cell = recurrence.cell(given["activation"], given["recurrent_activation"], given["partials_dtype"])
        rand_ops.check_rate(given["dropout"])
        for name in _KEPT:
            setattr(self, name, given[name])
        for name in _INITIALIZERS:
            setattr(self, name, tf.keras.initializers.get(given[name]))

    def state_shape(self, batch_size: int) -> Any:
        """Shape of the state: that of each part, for a state of several."""
        shapes = tuple([batch_size, self.units] for _ in range(self._states))
        return shapes if self._states > 1 else shapes[0]

    def build(self, input_shape: Any) -> None:
        """Makes `kernel`, `recurrent_kernel` and `biases`, with the gates in the order of Keras."""
        size = recurrence.check_inputs(input_shape, type(self).__name__)
        if self.built:
            return
        recurrence.float_type(self.dtype or tf.keras.backend.floatx(), f"dtype of {type(self).__name__}")
        width = self._gates * self.units
        seeds = (None, None) if self.seed is None else (self.seed, self.seed + 1)
        self.kernel = self.add_weight(
            "kernel", [size, width], initializer=_with_seed(self.kernel_initializer, seeds[0])
        )
        self.recurrent_kernel = self.add_weight(
            "recurrent_kernel", [self.units, width], initializer=_with_seed(self.recurrent_initializer, seeds[1])
        )
        self.biases = self.add_weight("biases", self._bias_shape(), initializer=self._initial_biases())
        if self.stateful:
            batch = tf.TensorShape(input_shape)[1 if self.time_major else 0]
            if batch is None:
                raise ValueError(
                    f"{type(self).__name__} with stateful=True needs to know the size of the batch: the shape is {input_shape}"
                )
            self.states = [
                self.add_weight(f"state_{i}", [batch, self.units], initializer="zeros", trainable=False)
                for i in range(self._states)
            ]
        self.built = True

    def _bias_shape(self) -> list[int]:
        return [self._gates * self.units]

    def _initial_biases(self) -> Any:
        return self.bias_initializer

    def call(self, inputs: Any, training: Any = None, initial_state: Any = None) -> Any:
        """Outputs, and with `return_state` the state.

        Args:
            inputs: [sample, time, feature], or [time, sample, feature] where `time_major`.
            training: whether inputs are dropped, a bool or a tensor; None is the learning phase of Keras.
            initial_state: None is zeros.
        """
        x = tf.convert_to_tensor(inputs)
        x = x if self.time_major else tf.transpose(x, [1, 0, 2])
        if self.dropout:
            x = self._dropped(x, training)
        outputs, states = self._over_time(x, self._before(x, initial_state))
        if self.stateful:
            with tf.control_dependencies([kept.assign(new) for kept, new in zip(self.states, states)]):
                outputs, *states = [tf.identity(tensor) for tensor in (outputs, *states)]
        if not self.return_sequences:
            outputs = outputs[-1]
        elif not self.time_major:
            outputs = tf.transpose(outputs, [1, 0, 2])
        return (outputs, *states) if self.return_state else outputs

    def _dropped(self, x: Any, training: Any) -> Any:
        """The same features of a sample at all times."""

        def drop() -> Any:
            return rand_ops.dropout(x, self.dropout, [1, *x.shape[1:].as_list()], self.dropout_seed)

        if None in x.shape[1:].as_list():
            raise ValueError(
                f"{type(self).__name__} with dropout needs inputs of known batch and features: the shape is {x.shape}"
            )
        return tf.keras.backend.in_train_phase(drop, lambda: tf.identity(x), training)

    def _before(self, x: Any, initial_state: Any) -> list[Any]:
        if initial_state is None:
            return list(self.states) if self.stateful else [recurrence.zeros(x, self.units)] * self._states
        given = list(initial_state) if isinstance(initial_state, (list, tuple)) else [initial_state]
        if len(given) != self._states:
            raise ValueError(
                f"initial_state of {type(self).__name__} has {len(given)} parts, and the layer has a state of {self._states}"
            )
        return [tf.convert_to_tensor(part, x.dtype) for part in given]

    def _over_time(self, x: Any, before: list[Any]) -> tuple[Any, Sequence[Any]]:
        raise NotImplementedError

    def get_config(self) -> dict[str, Any]:
        return {
            **super().get_config(),
            "units": self.units,
            "activation": self._cell.activation,
            "recurrent_activation": self._cell.recurrent_activation,
            "partials_dtype": self._cell.partials.name,
            **{name: getattr(self, name) for name in _KEPT},
            **{name: tf.keras.initializers.serialize(getattr(self, name)) for name in _INITIALIZERS},
        }


class PopnnLSTM(_Recurrent):
    """An LSTM: gates are input, forget, candidate, output. A state is h, then c, in an LSTMStateTuple, too."""

    _gates, _states = 4, 2

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        unit_forget_bias: bool = True,
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        dropout_seed: Any = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 1,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals())
        self.unit_forget_bias = bool(unit_forget_bias)

    def _initial_biases(self) -> Any:
        """With `unit_forget_bias` 1 for the gate that forgets and 0 for the others, whatever the initialiser is."""
        if not self.unit_forget_bias:
            return self.bias_initializer
        return tf.compat.v1.constant_initializer([float(gate == 1) for gate in range(4) for _ in range(self.units)])

    def _over_time(self, x: Any, before: list[Any]) -> tuple[Any, Sequence[Any]]:
        return recurrent.lstm(self._cell, x, before, self.kernel, self.recurrent_kernel, self.biases)

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "unit_forget_bias": self.unit_forget_bias}


class PopnnGRU(_Recurrent):
    """A GRU: gates are update, reset, candidate. With `reset_after` the reset comes after the product of the candidate."""

    _gates, _states = 3, 1

    def __init__(
        self,
        units: int,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        use_bias: bool = True,
        kernel_initializer: Any = "glorot_uniform",
        recurrent_initializer: Any = "orthogonal",
        bias_initializer: Any = "zeros",
        kernel_regularizer: Any = None,
        recurrent_regularizer: Any = None,
        bias_regularizer: Any = None,
        activity_regularizer: Any = None,
        kernel_constraint: Any = None,
        recurrent_constraint: Any = None,
        bias_constraint: Any = None,
        dropout: float = 0.0,
        dropout_seed: Any = None,
        recurrent_dropout: float = 0.0,
        implementation: int = 1,
        return_sequences: bool = False,
        return_state: bool = False,
        go_backwards: bool = False,
        stateful: bool = False,
        unroll: bool = False,
        reset_after: bool = True,
        seed: int | None = None,
        partials_dtype: Any = tf.float32,
        time_major: bool = False,
        **kwargs: Any,
    ) -> None:
        super().__init__(locals())
        self.reset_after = bool(reset_after)

    def _bias_shape(self) -> list[int]:
        return [2, 3 * self.units] if self.reset_after else [3 * self.units]

    def _over_time(self, x: Any, before: list[Any]) -> tuple[Any, Sequence[Any]]:
        biases = tf.convert_to_tensor(self.biases)
        of_inputs, of_state = (biases[0], biases[1]) if self.reset_after else (biases, None)
        weights = (self.kernel, self.recurrent_kernel, of_inputs, of_state)
        outputs, state = recurrent.gru(self._cell, x, before[0], *weights)
        return outputs, [state]

    def get_config(self) -> dict[str, Any]:
        return {**super().get_config(), "reset_after": self.reset_after}


def _with_seed(initializer: Any, seed: int | None) -> Any:
    """The same initialiser with a seed, where it draws and has none."""
    config = initializer.get_config() if hasattr(initializer, "get_config") else {}
    if seed is None or "seed" not in config or config["seed"] is not None:
        return initializer
    return type(initializer).from_config({**config, "seed": seed})
