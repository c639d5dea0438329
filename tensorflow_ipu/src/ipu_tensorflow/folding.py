"""What is known of a graph before it runs: what depends on constants and on shapes alone, computed by TensorFlow itself."""

from __future__ import annotations

from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tensorflow import attributes, host
from ipu_tensorflow.record_tables import Constant, Place

_SHAPES = {"Shape", "ShapeN", "Size", "Rank", "VariableShape"}
# What these give has another form in the core.
_NEVER_FOLDED = {"StatelessRandomGetKeyCounter", "StatelessRandomGetKeyCounterAlg"}
# What TensorFlow computes when all operands are known, up to so many elements.
_FOLDED_ELEMENTS = 4096


def fold(place: Place, op: host.Operation) -> bool:
    """Computes the results of an operation whose operands are known; False: it cannot."""
    if op.type in _SHAPES:
        return _fold_shape(place, op)
    is_pure = op.inputs and op.outputs and not op.op_def.is_stateful
    if not is_pure or place.children(op) or attributes.is_leaf(op) or op.type in _NEVER_FOLDED:
        return False
    given = []
    for tensor in op.inputs:
        value = place.values.get(tensor.name)
        if not isinstance(value, Constant):
            return False
        given.append(value.array)
    if any(_is_large(tensor) or tensor.dtype in (tf.variant, tf.resource) for tensor in op.outputs):
        return False
    for tensor, array in zip(op.outputs, host.evaluate(op, given)):
        place.constant(op, tensor.name, array)
    return True


def _fold_shape(place: Place, op: host.Operation) -> bool:
    for tensor, result in zip(op.inputs, op.outputs):
        shape = tensor.shape
        if op.type == "VariableShape":
            shape = tf.TensorShape(place.writer.variable(place.resource(tensor)).shape)
        if op.type == "Rank" and shape.rank is not None:
            value: Any = shape.rank
        elif shape.is_fully_defined():
            value = shape.num_elements() if op.type == "Size" else shape.as_list()
        else:
            return False
        place.constant(op, result.name, np.array(value, result.dtype.as_numpy_dtype))
    return True


def _is_large(tensor: Any) -> bool:
    elements = tensor.shape.num_elements()
    return elements is not None and elements > _FOLDED_ELEMENTS
