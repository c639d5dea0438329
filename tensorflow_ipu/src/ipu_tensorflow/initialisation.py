"""Initial values of variables are computed by the host."""

from __future__ import annotations

import tensorflow as tf

from ipu_tensorflow import attributes, host

_COMPILED = ("_XlaCompile", "_XlaScope", "_XlaSeparateCompiledGradients", attributes.DEVICE, attributes.SHARD)


def move_variable_initialization_to_cpu(graph: tf.Graph | None = None) -> None:
    """Places on the CPU what the initial values of the variables of a graph are computed from, and takes it out of compilation.

    Args:
        graph: None is the default graph; all its variables exist already.
    """
    graph = graph or tf.compat.v1.get_default_graph()
    variables = graph.get_collection(tf.compat.v1.GraphKeys.GLOBAL_VARIABLES)
    waiting = [tensor.op for variable in variables for tensor in variable.initializer.inputs]
    seen = set()
    while waiting:
        op = waiting.pop()
        if op in seen or any(tensor.dtype == tf.resource for tensor in [*op.inputs, *op.outputs]):
            continue
        seen.add(op)
        host.move_to_cpu(op, _COMPILED)
        waiting += [tensor.op for tensor in op.inputs]
