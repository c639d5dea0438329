"""`ipu.rnn_ops`: recurrent layers with the weights of all gates in one kernel, for inputs by time."""

from __future__ import annotations

from typing import Any

import tensorflow as tf

from ipu_tensorflow import recurrence, recurrent

v1 = tf.compat.v1
Layer: Any = v1.layers.Layer
_NO_GRADIENT = "it was called with training=False: call it with training=True"


class _Recurrent(Layer):
    """A layer whose kernel has the rows of the inputs, then those of the state."""

    _gates: int
    built: bool

    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        name: str | None = None,
    ) -> None:
        super().__init__(dtype=recurrence.float_type(dtype, "dtype"), name=name)
        self._num_units = int(num_units)
        self._cell = recurrence.cell(activation, recurrent_activation, partials_dtype)
        self._weights_initializer = weights_initializer or v1.glorot_uniform_initializer(seed)
        self._bias_initializer = bias_initializer

    @property
    def num_units(self) -> int:
        return self._num_units

    def state_shape(self, batch_size: int) -> Any:
        """Shape of a state: that of each part, for a state of several."""
        return [batch_size, self._num_units]

    def build(self, input_shape: Any) -> None:
        """Makes the variables; `input_shape` is by time, then by sample."""
        size = recurrence.check_inputs(input_shape, type(self).__name__)
        if self.built:
            return
        width = self._gates * self._num_units
        self.kernel = self.add_weight("kernel", [size + self._num_units, width], initializer=self._weights_initializer)
        self._build_biases()
        self.built = True

    def _build_biases(self) -> None:
        self.biases = self._bias("biases", self._bias_shape(), v1.zeros_initializer())

    def _bias_shape(self) -> list[int]:
        return [self._gates, self._num_units]

    def _bias(self, name: str, shape: list[int], initial: Any) -> Any:
        return self.add_weight(name, shape, initializer=self._bias_initializer or initial)

    def _weights(self) -> tuple[Any, Any]:
        """Of the inputs and of the state."""
        kernel = tf.convert_to_tensor(self.kernel)
        size = kernel.shape[0] - self._num_units
        return kernel[:size], kernel[size:]

    def _results(self, training: bool, *results: Any) -> list[Any]:
        if training:
            return list(results)
        text = f"{type(self).__name__} '{self.name}' has no gradient, since {_NO_GRADIENT}"
        return [tf.raw_ops.PreventGradient(input=x, message=text) for x in results]


class PopnnLSTM(_Recurrent):
    """An LSTM: gates are input, forget, candidate, output."""

    _gates = 4

    def state_shape(self, batch_size: int) -> Any:
        shape = [batch_size, self._num_units]
        return v1.nn.rnn_cell.LSTMStateTuple(shape, list(shape))

    def call(self, inputs: Any, initial_state: Any = None, training: bool = True) -> tuple[Any, Any]:
        """Outputs at all times, and the LSTMStateTuple(c, h) at the end.

        Args:
            inputs: [time, sample, feature].
            initial_state: an LSTMStateTuple(c, h) of [sample, unit] each; None is zeros.
            training: False gives the same values, without gradients.
        """
        return self._call(inputs, initial_state, training)

    def _call(self, inputs: Any, initial_state: Any, training: bool, lengths: Any = None) -> tuple[Any, Any]:
        state = v1.nn.rnn_cell.LSTMStateTuple
        inputs = tf.convert_to_tensor(inputs, self.dtype)
        if initial_state is None:
            zeros = recurrence.zeros(inputs, self._num_units)
            initial_state = state(zeros, zeros)
        elif not isinstance(initial_state, state):
            raise ValueError(
                f"initial_state of {type(self).__name__} is an LSTMStateTuple(c, h), not {type(initial_state).__name__}"
            )
        before = [tf.convert_to_tensor(part, self.dtype) for part in (initial_state.h, initial_state.c)]
        bias = tf.reshape(self.biases, [-1])
        outputs, (h, c) = recurrent.lstm(self._cell, inputs, before, *self._weights(), bias, lengths)
        outputs, h, c = self._results(training, outputs, h, c)
        return outputs, state(c, h)


class PopnnGRU(_Recurrent):
    """A GRU: gates are update, reset, candidate. With `reset_after` the reset comes after the product of the candidate."""

    _gates = 3

    def __init__(
        self,
        num_units: int,
        dtype: Any = tf.float32,
        partials_dtype: Any = tf.float32,
        seed: int | None = None,
        weights_initializer: Any = None,
        bias_initializer: Any = None,
        activation: Any = "tanh",
        recurrent_activation: Any = "sigmoid",
        name: str | None = None,
        reset_after: bool = False,
    ) -> None:
        super().__init__(
            num_units,
            dtype,
            partials_dtype,
            seed,
            weights_initializer,
            bias_initializer,
            activation,
            recurrent_activation,
            name,
        )
        self._reset_after = bool(reset_after)

    def call(self, inputs: Any, initial_state: Any = None, training: bool = True) -> tuple[Any, Any]:
        """Outputs at all times, and the state at the end.

        Args:
            inputs: [time, sample, feature].
            initial_state: [sample, unit]; None is zeros.
            training: False gives the same values, without gradients.
        """
        return self._call(inputs, initial_state, training)

    def _call(
        self, inputs: Any, initial_state: Any, training: bool, lengths: Any = None, attention: Any = None
    ) -> tuple[Any, Any]:
        inputs = tf.convert_to_tensor(inputs, self.dtype)
        before = recurrence.zeros(inputs, self._num_units) if initial_state is None else initial_state
        before = tf.convert_to_tensor(before, self.dtype)
        biases, of_state = self._all_biases(), None
        if self._reset_after:
            biases, of_state = biases[:, 0], tf.reshape(biases[:, 1], [-1])
        weights = (*self._weights(), tf.reshape(biases, [-1]), of_state)
        outputs, state = self._results(
            training, *recurrent.gru(self._cell, inputs, before, *weights, lengths, attention)
        )
        return outputs, state

    def _bias_shape(self) -> list[int]:
        return [3, 2, self._num_units] if self._reset_after else [3, self._num_units]

    def _all_biases(self) -> Any:
        return tf.convert_to_tensor(self.biases)


class PopnnDynamicLSTM(PopnnLSTM):
    """An LSTM over as many times as each sample has. Later its state stays and its outputs are 0."""

    def call(  # type: ignore[override]  # the lengths come before the state
        self, inputs: Any, seq_len: Any, initial_state: Any = None, training: bool = True
    ) -> tuple[Any, Any]:
        """As PopnnLSTM; `seq_len` has the number of times of each sample."""
        return self._call(inputs, initial_state, training, seq_len)


class PopnnDynamicGRU(PopnnGRU):
    """A GRU over as many times as each sample has. Later its state stays and its outputs are 0."""

    def _build_biases(self) -> None:
        self.bias_r_u = self._bias("bias_r_u", [2, self._num_units], v1.ones_initializer())
        self.bias_c = self._bias("bias_c", [1, self._num_units], v1.zeros_initializer())

    def _all_biases(self) -> Any:
        biases = tf.concat([self.bias_r_u, self.bias_c], 0)
        return tf.stack([biases, biases], 1) if self._reset_after else biases

    def call(  # type: ignore[override]  # the lengths come before the state
        self, inputs: Any, seq_len: Any, initial_state: Any = None, training: bool = True, time_major: bool = True
    ) -> tuple[Any, Any]:
        """As PopnnGRU, by time.

        Args:
            inputs: [time, sample, feature], or [sample, time, feature] where `time_major` is False. Outputs are by time in both cases.
            seq_len: the number of times of each sample.
            initial_state: [sample, unit]; None is zeros.
            training: False gives the same values, without gradients.
            time_major: which dimension of the inputs is the time.
        """
        return self._call(_by_time(inputs, time_major), initial_state, training, seq_len)


class PopnnAUGRU(PopnnDynamicGRU):
    """A dynamic GRU whose updates are lessened by the attention that each sample has at each time."""

    def call(  # type: ignore[override]  # the score comes before the state
        self,
        inputs: Any,
        seq_len: Any,
        attention_score: Any,
        initial_state: Any = None,
        training: bool = True,
        time_major: bool = True,
    ) -> tuple[Any, Any]:
        """As PopnnDynamicGRU; `attention_score` is [time, sample], or [sample, time] where `time_major` is False."""
        scores = _by_time(tf.convert_to_tensor(attention_score, self.dtype), time_major)
        return self._call(_by_time(inputs, time_major), initial_state, training, seq_len, scores)


def _by_time(x: Any, time_major: bool) -> Any:
    return x if time_major else tf.transpose(x, [1, 0, *range(2, len(x.shape))])
