"""`ipu.loops`: loops that run on the IPU. Outside of a unit they are loops of TensorFlow."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tensorflow import accumulation, host, library, order, trace


def repeat(n: Any, body: Callable, inputs: Any = None, infeed_queue: Any = None, use_while_v1: bool = True) -> Any:
    """Runs `body` n times: on carried values, then on the next element of the infeed.

    Args:
        n: a number, or an int32 scalar tensor that is known when the unit runs.
        body: takes the carried values and the element; gives the carried values, then operations.
        inputs: what is carried at first.
        infeed_queue: an IPUInfeedQueue whose elements the body takes.
        use_while_v1: has no effect.

    Returns:
        The carried values at the end: one tensor, a list, or an operation if there are none.
    """
    carried = _carried(inputs)
    _check_body(body, len(carried), infeed_queue, "body")
    graph = tf.compat.v1.get_default_graph()
    if not host.is_traced(graph):
        return _plain(lambda i, *_: i < n, body, carried, infeed_queue, None)
    trips = _trips(n)
    traced = host.TracedGraph("repeat_body")
    traced.updates = []
    with traced.tracing():
        arguments = [_placeholder(tensor) for tensor in carried]
        traced.inputs.extend(arguments)
        results, operations = _call(body, arguments, infeed_queue)
        traced.outputs.extend(trace.to_tensor(traced, tensor, "the body of a loop") for tensor in results)
        traced.control_outputs.extend(operations)
    live = {op.name for op in order.live_operations(traced, [*(t.op for t in traced.outputs), *operations], set())}
    updates = [update for update in traced.updates if update.marker.name in live]
    with tf.control_dependencies(traced.captured_operations):
        op = _accumulating(trips, carried, traced, updates) if updates else _repeated(trips, carried, traced)
    return _given(list(op.outputs), op)


def _repeated(
    trips: Any, carried: Sequence[Any], body: host.TracedGraph, captured: Sequence[Any] | None = None
) -> host.Operation:
    """`captured`: what the graph reads of those around it, where they are not the ones it was traced in."""
    if captured is None:
        captured = [outside for outside, _ in host.captures_of(body)]
    counted = [] if isinstance(trips, int) else [trips]
    types = [tensor.dtype for tensor in carried]
    op = library.operation(
        "IpuRepeat",
        [*counted, *carried, *captured],
        types,
        name="repeat",
        n=trips if isinstance(trips, int) else 0,
        Tn=[tensor.dtype for tensor in counted],
        T=types,
        Tcaptured=[tensor.dtype for tensor in captured],
    )
    host.keep_body(op, body)
    for result, tensor in zip(op.outputs, carried):
        result.set_shape(tensor.shape)
    return op


def _accumulating(
    trips: Any, carried: list[Any], body: host.TracedGraph, updates: list[accumulation.Update]
) -> host.Operation:
    """A loop of loops of `count` iterations with the updates behind each."""
    count = accumulation.common_count(updates)
    accumulation.add_sums(body, updates)
    around = host.TracedGraph("accumulation_body")
    with around.tracing():
        arguments = [_placeholder(tensor) for tensor in carried]
        around.inputs.extend(arguments)
        inner = _repeated(count, [*arguments, *accumulation.starts(updates)], body)
        around.outputs.extend(inner.outputs[: len(carried)])
        with tf.control_dependencies([inner]):
            around.control_outputs.extend(
                accumulation.apply(
                    updates, inner.outputs[len(carried) :], lambda graph, sums, read: _repeated(1, sums, graph, read)
                )
            )
    return _repeated(accumulation.rounds(trips, count), carried, around)


def while_loop(
    condition: Callable,
    body: Callable,
    inputs: Any = None,
    infeed_queue: Any = None,
    maximum_iterations: Any = None,
    use_while_v1: bool = True,
) -> Any:
    """Runs `body` while `condition` of the carried values holds, at most `maximum_iterations` times; else as `repeat`."""
    carried = _carried(inputs)
    trace.check_arity(condition, len(carried), "the condition", f"{len(carried)} inputs")
    _check_body(body, len(carried), infeed_queue, "body")
    return _plain(lambda i, *values: condition(*values), body, carried, infeed_queue, maximum_iterations)


def _plain(condition: Callable, body: Callable, carried: list[Any], infeed_queue: Any, maximum: Any) -> Any:
    """A loop of TensorFlow, which counts, so that there is something to carry."""
    if infeed_queue is not None and not host.is_traced(tf.compat.v1.get_default_graph()):
        raise ValueError("a loop reads an infeed only inside ipu_compiler.compile")

    def step(i: Any, *values: Any) -> tuple:
        results, operations = _call(body, list(values), infeed_queue)
        with tf.control_dependencies(operations):
            return (i + 1, *(tf.identity(tensor) for tensor in results))

    zero = tf.constant(0)
    found = tf.while_loop(condition, step, [zero, *carried], parallel_iterations=1, maximum_iterations=maximum)
    count, *results = found if isinstance(found, (list, tuple)) else [found]
    return _given(list(results), count.op)


def _given(results: list[Any], op: host.Operation) -> Any:
    if not results:
        return op
    return results[0] if len(results) == 1 else results


def _carried(inputs: Any) -> list[Any]:
    if inputs is None:
        return []
    items = inputs if isinstance(inputs, (list, tuple)) else [inputs]
    return [tf.convert_to_tensor(item) for item in items]


def _trips(n: Any) -> Any:
    if isinstance(n, (int, np.integer)) and not isinstance(n, bool):
        return max(int(n), 0)
    trips = tf.convert_to_tensor(n)
    if trips.dtype != tf.int32 or trips.shape.rank not in (0, None):
        raise TypeError(
            f"repeat(n, ...): n is a Python int or an int32 scalar tensor, not {trips.dtype.name} of shape {trips.shape}"
        )
    known = host.constant_value(trips)
    return trips if known is None else max(int(known), 0)


def _placeholder(tensor: Any) -> Any:
    return tf.compat.v1.placeholder(tensor.dtype, tensor.shape)


def _check_body(body: Callable, count: int, infeed_queue: Any, what: str) -> None:
    given = f"{count} inputs"
    elements, keywords = 0, []
    if infeed_queue is not None:
        elements, keywords = infeed_queue.argument_form
        given += f" and {elements + len(keywords)} of the infeed"
    trace.check_arity(body, count + elements, f"the {what}", given, keywords)


def _call(body: Callable, arguments: Sequence[Any], infeed_queue: Any) -> tuple[list[Any], list[host.Operation]]:
    """What the body gives for carried values, and for the next element of the infeed; checked."""
    positional, keywords = ([], {}) if infeed_queue is None else infeed_queue.dequeue()
    result = body(*arguments, *positional, **keywords)
    items = [] if result is None else list(result) if isinstance(result, (list, tuple)) else [result]
    tensors, operations = trace.split_results(tf.compat.v1.get_default_graph(), items, "the body of a loop")
    if len(tensors) != len(arguments):
        raise TypeError(
            f"the body of a loop takes {len(arguments)} carried values and gives {len(tensors)}: it gives as many as it takes"
        )
    for index, (tensor, given) in enumerate(zip(tensors, arguments)):
        if tensor.dtype != given.dtype:
            raise TypeError(
                f"carried value {index} of a loop goes in as {given.dtype.name} and comes out as {tensor.dtype.name}: cast one of them"
            )
        if not tensor.shape.is_compatible_with(given.shape):
            raise ValueError(
                f"carried value {index} of a loop goes in with shape {given.shape} and comes out with shape {tensor.shape}"
            )
    return tensors, operations
