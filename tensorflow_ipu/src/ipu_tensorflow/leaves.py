"""Ops of ours with kernels of the core: one node in a unit, and a body in plain TensorFlow that says what it gives.

The op is a call of a function whose graph is the body: its shapes are those of the body, and where it is in no unit TensorFlow runs the
body. In a unit it is a node of the domain "ipu" (records.py), whose importer makes the kernel.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import tensorflow as tf

from ipu_tensorflow import attributes, host

# By type: what gives the results for the operands and the attributes of the node.
BODIES: dict[str, Callable] = {}


def body(kind: str) -> Callable:
    """Decorates the body of a type: it takes the operands, then the attributes by name, and gives a list of tensors."""

    def register(function: Callable) -> Callable:
        BODIES[kind] = function
        return function

    return register


def call(kind: str, operands: Sequence[Any], **given: Any) -> list[Any]:
    """The results of an op of this type in the default graph."""

    def run(*tensors: Any) -> tuple:
        return tuple(BODIES[kind](*tensors, **given))

    run.__name__ = kind
    with tf.name_scope(kind):
        results = list(tf.function(run, autograph=False)(*operands))
    host.set_attribute(results[0].op, attributes.LEAF, attributes.leaf_value(kind, given, len(results)))
    return results


def differentiable(kind: str, operands: Sequence[Any], **given: Any) -> Any:
    """The one result of an op whose gradient is one op, too, of all operands and of the gradient of the result."""

    @tf.custom_gradient
    def run(*tensors: Any) -> tuple[Any, Callable]:
        def gradient(upstream: Any) -> list[Any]:
            return call(kind + "Gradient", [*tensors, upstream], **given)

        return call(kind, tensors, **given)[0], gradient

    return run(*[tf.convert_to_tensor(operand) for operand in operands])


def register_gradient(kind: str) -> None:
    """The body of the gradient of such an op: TensorFlow's gradient of its body."""

    @body(kind + "Gradient")
    def gradient(*operands: Any, **given: Any) -> list[Any]:
        *tensors, upstream = operands
        zero = tf.UnconnectedGradients.ZERO
        return tf.gradients(BODIES[kind](*tensors, **given), tensors, upstream, unconnected_gradients=zero)
