"""LSTM and GRU over time: by kernels of the core where it has them (leaves.py), else step by step."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import leaves, recurrence, scopes
from ipu_tensorflow.recurrence import Cell, Product


def lstm(
    cell: Cell, inputs: Any, states: Sequence[Any], kernel: Any, recurrent: Any, bias: Any, lengths: Any = None
) -> tuple[Any, list[Any]]:
    """Outputs at all times, and h and c at the end.

    Args:
        inputs: [time, sample, feature].
        states: h and c before the first time.
        kernel, recurrent: weights of the inputs and of the state, for all gates.
        bias: of one dimension.
        lengths: how many times each sample has. Later its states stay and its outputs are 0.
    """
    if not cell.is_usual:
        product = Product(cell.partials)
        step = recurrence.lstm_step(product, recurrent, *cell.functions)
        (outputs,), last = recurrence.over_time(step, [product.of_all_steps(inputs, kernel) + bias], states, lengths)
        return outputs, last
    outputs, h, c, cells = _differentiable("Lstm", cell, 4, [inputs, *states, kernel, recurrent, bias])
    if lengths is None:
        return outputs, [h, c]
    return _ended(outputs, lengths), [_last(outputs, lengths, states[0]), _last(cells, lengths, states[1])]


def gru(
    cell: Cell,
    inputs: Any,
    state: Any,
    kernel: Any,
    recurrent: Any,
    bias: Any,
    recurrent_bias: Any = None,
    lengths: Any = None,
    attention: Any = None,
) -> tuple[Any, Any]:
    """Outputs at all times, and the state at the end; as `lstm`. See recurrence.gru_step for `recurrent_bias` and `attention`."""
    if not cell.is_usual or recurrent_bias is None or attention is not None:
        product = Product(cell.partials)
        given = [product.of_all_steps(inputs, kernel) + bias]
        given += [] if attention is None else [attention]
        step = recurrence.gru_step(product, recurrent, *cell.functions, recurrent_bias)
        (outputs,), (last,) = recurrence.over_time(step, given, [state], lengths)
        return outputs, last
    outputs, h = _differentiable("Gru", cell, 2, [inputs, state, kernel, recurrent, bias, recurrent_bias])
    if lengths is None:
        return outputs, h
    return _ended(outputs, lengths), _last(outputs, lengths, state)


def _differentiable(kind: str, cell: Cell, count: int, operands: Sequence[Any]) -> list[Any]:
    """The first `count` results of a layer. Its others are for the gradient, which is another op."""

    def made(kind: str, given: Sequence[Any]) -> list[Any]:
        with scopes.partials_type(cell.partials.as_numpy_dtype):
            return leaves.call(kind, given)

    @tf.custom_gradient
    def layer(*given: Any) -> tuple[tuple, Callable]:
        results = made(kind, given)

        def gradient(*upstream: Any) -> list[Any]:
            @tf.custom_gradient
            def once(*given_and_upstream: Any) -> tuple[tuple, Callable]:
                inside, above = given_and_upstream[: len(given)], given_and_upstream[len(given) :]

                def twice(*higher: Any) -> list[Any]:
                    """By TensorFlow, step by step."""
                    first = _gradients(kind, count, inside, above)
                    zero = tf.UnconnectedGradients.ZERO
                    return tf.gradients(first, given_and_upstream, higher, unconnected_gradients=zero)

                return tuple(made(kind + "Gradient", [*inside, *results, *above])), twice

            return list(once(*given, *upstream))

        return tuple(results[:count]), gradient

    return list(layer(*[tf.convert_to_tensor(operand) for operand in operands]))


def _gradients(kind: str, count: int, operands: Sequence[Any], upstream: Sequence[Any]) -> list[Any]:
    """Of the first results of a body."""
    found = leaves.BODIES[kind](*operands, keeps_all=False)[:count]
    return tf.gradients(found, operands, upstream, unconnected_gradients=tf.UnconnectedGradients.ZERO)


def _times(x: Any) -> Any:
    """Of [time, sample, feature], to compare with one number for each sample."""
    return tf.reshape(tf.range(tf.shape(x)[0]), [-1, 1, 1])


def _ended(x: Any, lengths: Any) -> Any:
    """0 after the last time of each sample."""
    return tf.where(_times(x) < tf.reshape(lengths, [1, -1, 1]), x, tf.zeros_like(x))


def _last(x: Any, lengths: Any, before: Any) -> Any:
    """At the last time of each sample; `before` where it has none."""
    lengths = tf.minimum(tf.convert_to_tensor(lengths), tf.shape(x, out_type=lengths.dtype)[0])
    is_last = tf.equal(_times(x), tf.reshape(lengths, [1, -1, 1]) - 1)
    found = tf.reduce_sum(tf.where(is_last, x, tf.zeros_like(x)), 0)
    return tf.where(tf.reshape(lengths, [-1, 1]) > 0, found, before)


# --- bodies: what the ops give, step by step


@leaves.body("Lstm")
def _lstm(x: Any, h: Any, c: Any, kernel: Any, recurrent: Any, bias: Any, keeps_all: bool = True) -> list[Any]:
    """y, h, c and the cells at all times; for the gradient the gates."""
    product = Product(tf.float32)
    step = recurrence.lstm_step(product, recurrent, tf.tanh, tf.sigmoid)
    parts = product.of_all_steps(x, kernel) + bias
    kept = [c.shape, parts.shape[1:]] if keeps_all else [c.shape]
    (y, *more), last = recurrence.over_time(step, [parts], [h, c], kept=kept)
    return [y, *last, *more]


@leaves.body("Gru")
def _gru(
    x: Any, h: Any, kernel: Any, recurrent: Any, bias: Any, recurrent_bias: Any, keeps_all: bool = True
) -> list[Any]:
    """y, h; for the gradient the gates, reset first, and what was scaled by the reset."""
    product = Product(tf.float32)
    step = recurrence.gru_step(product, recurrent, tf.tanh, tf.sigmoid, recurrent_bias)
    parts = product.of_all_steps(x, kernel) + bias
    kept = [parts.shape[1:], h.shape] if keeps_all else []
    (y, *more), last = recurrence.over_time(step, [parts], [h], kept=kept)
    return [y, *last, *more]


def _register_gradient(kind: str, operands: int, results: int, count: int) -> None:
    """By TensorFlow, of the body computed once more.

    Args:
        operands, results: of the layer, which are the first operands of its gradient.
        count: of results that have a gradient.
    """

    @leaves.body(kind + "Gradient")
    def gradient(*given: Any) -> list[Any]:
        return _gradients(kind, count, given[:operands], given[operands + results :])


_register_gradient("Lstm", 6, 5, 4)
_register_gradient("Gru", 6, 4, 2)
