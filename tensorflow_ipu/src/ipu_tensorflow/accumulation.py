"""`ipu.optimizers.gradient_accumulation_optimizer`: optimizers that apply the sum of the gradients of several loop iterations.

The update is traced into a graph of its own. The loop around it runs its body as often as gradients are summed, then the update, and so
on: there is no condition in it, and the sums are carried values of the inner loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import tensorflow as tf

from ipu_tensorflow import attributes, host, scopes
from ipu_tensorflow.optimizers import CrossReplicaOptimizer, IpuOptimizer, innermost

_OFFLOADED = (
    "{name}: {option} moves the state of the optimizer to streaming memory, which is not there yet. Leave it out"
)


@dataclass
class Update:
    """What happens to sums over the iterations of one loop body."""

    count: int  # iterations
    summed: list[Any]  # tensors of the body, gradients mostly
    types: list[tf.DType]  # of the sums
    graph: host.TracedGraph  # its inputs are the sums
    marker: host.Operation  # of the body: the update happens where this operation is needed
    exported: list[Any] = field(default_factory=list)  # other tensors of the body that the update reads


class GradientAccumulationOptimizerV2(IpuOptimizer):
    """Applies the sum of the gradients of `num_mini_batches` loop iterations with the optimizer that it wraps, once for all of them.

    Args:
        opt: any optimizer of tf.compat.v1.train.
        num_mini_batches: how many gradients are summed; the loop around runs a multiple of it.
        dtype: the type of the sums, or a function of the variable that gives it; None: that of the variable. The wrapped optimizer gets
            gradients of this type.

    Raises:
        ValueError: `num_mini_batches` is less than 1.
        tf.errors.FailedPreconditionError: it is not used in an `ipu.loops.repeat`, or not in one whose trip count is a multiple of
            `num_mini_batches`.

    Example:
        >>> optimizer = GradientAccumulationOptimizerV2(tf.compat.v1.train.GradientDescentOptimizer(0.1), 4)
        >>> train = optimizer.minimize(loss)
    """

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: Any = None,
        name: str = "GradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(opt, name)
        if num_mini_batches < 1:
            raise ValueError(f"{name}: num_mini_batches is {num_mini_batches}, and is at least 1")
        for option, value in (
            ("offload_weight_update_variables", offload_weight_update_variables),
            ("replicated_optimizer_state_sharding", replicated_optimizer_state_sharding),
        ):
            if value:
                raise NotImplementedError(_OFFLOADED.format(name=name, option=f"{option}={value}"))
        self._count, self._dtype = int(num_mini_batches), dtype

    def apply_gradients(
        self, grads_and_vars: Iterable[tuple[Any, Any]], global_step: Any = None, name: str | None = None
    ) -> Any:
        """The operation that the update comes with. `global_step` grows once for each update."""
        pairs = list(grads_and_vars)

        def update(given: list[tuple[Any, Any]]) -> Any:
            return self._opt.apply_gradients(given, global_step=global_step, name=name)

        return sum_gradients(pairs, self._count, self._dtype, update, name or self._name)


def sum_gradients(
    pairs: Sequence[tuple[Any, Any]], count: int, dtype: Any, update: Callable, name: str
) -> host.Operation:
    """Calls `update` for what happens to the sums of `count` gradients, in pairs with their variables; the operation that it comes with.

    Args:
        dtype: the type of the sums, or a function of the variable that gives it; None: that of the variable.
    """

    def type_of(variable: Any) -> tf.DType:
        found = dtype(variable) if callable(dtype) else dtype
        return tf.as_dtype(variable.dtype if found is None else found).base_dtype

    known = [(tf.convert_to_tensor(gradient), variable) for gradient, variable in pairs if gradient is not None]

    def use(sums: list[Any]) -> Any:
        left = iter(sums)
        return update([(gradient if gradient is None else next(left), variable) for gradient, variable in pairs])

    types = [type_of(variable) for _, variable in known]
    return sum_tensors([gradient for gradient, _ in known], types, count, use, name)


def sum_tensors(tensors: list[Any], types: list[tf.DType], count: int, use: Callable, name: str) -> host.Operation:
    """Calls `use` for the operation that takes the sums of the tensors over `count` iterations of the loop around."""
    body = tf.compat.v1.get_default_graph()
    updates = host.updates_of(body)
    if updates is None:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"{name} sums over loop iterations: use it in the body of an ipu.loops.repeat, outside of conditions and other loops in it",
        )
    graph = host.TracedGraph("update")
    with graph.tracing():
        sums = [tf.compat.v1.placeholder(type_, tensor.shape) for type_, tensor in zip(types, tensors)]
        graph.inputs.extend(sums)
        graph.outputs.extend(sums)
        graph.control_outputs.append(use(sums))
    marker = tf.group(*tensors, name=name)
    of_outside = {inside.name for _, inside in host.captures_of(body)}
    read = [outside for outside, _ in host.captures_of(graph) if outside.graph is body]
    exported = [tensor for tensor in read if tensor.name not in of_outside]
    updates.append(Update(count, tensors, types, graph, marker, exported))
    return marker


class GradientAccumulationOptimizer(GradientAccumulationOptimizerV2):
    """As GradientAccumulationOptimizerV2, for gradient descent and momentum alone.

    Raises:
        ValueError: with `verify_usage`, `opt` is another optimizer.
    """

    def __init__(
        self, opt: Any, num_mini_batches: int, verify_usage: bool = True, name: str = "GradientAccumulationOptimizer"
    ) -> None:
        super().__init__(opt, num_mini_batches, name=name)
        if verify_usage:
            inner = innermost(opt)
            kinds = (tf.compat.v1.train.GradientDescentOptimizer, tf.compat.v1.train.MomentumOptimizer)
            if not isinstance(inner, kinds):
                raise ValueError(
                    f"{name} sums gradients for GradientDescentOptimizer and MomentumOptimizer, not {type(inner).__name__}: take "
                    "GradientAccumulationOptimizerV2"
                )


class CrossReplicaGradientAccumulationOptimizer(GradientAccumulationOptimizer):
    """GradientAccumulationOptimizer of a CrossReplicaOptimizer: gradients are reduced over the replicas when they are applied."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        verify_usage: bool = True,
        name: str = "CrossReplicaGradientAccumulationOptimizer",
    ) -> None:
        super().__init__(CrossReplicaOptimizer(opt), num_mini_batches, verify_usage, name)


class CrossReplicaGradientAccumulationOptimizerV2(GradientAccumulationOptimizerV2):
    """GradientAccumulationOptimizerV2 of a CrossReplicaOptimizer: gradients are reduced over the replicas once for each update."""

    def __init__(
        self,
        opt: Any,
        num_mini_batches: int,
        offload_weight_update_variables: bool | None = None,
        replicated_optimizer_state_sharding: bool | None = False,
        dtype: Any = None,
        name: str = "CrossReplicaGradientAccumulationOptimizerV2",
    ) -> None:
        super().__init__(
            CrossReplicaOptimizer(opt),
            num_mini_batches,
            offload_weight_update_variables,
            replicated_optimizer_state_sharding,
            dtype,
            name,
        )


def common_count(updates: Sequence[Update]) -> int:
    """How many iterations come before the updates of one body."""
    counts = sorted({update.count for update in updates})
    if len(counts) > 1:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"one loop sums gradients over {counts[0]} and over {counts[-1]} iterations: give its optimizers one num_mini_batches",
        )
    return counts[0]


def rounds(trips: Any, count: int) -> Any:
    """How often `trips` iterations make `count` of them."""
    text = f"the optimizers of a loop sum the gradients of {count} iterations"
    if not isinstance(trips, int):
        whole = tf.compat.v1.Assert(
            tf.equal(trips % count, 0), [f"{text}, and its number of iterations is no multiple of it:", trips]
        )
        with tf.control_dependencies([whole]):
            return trips // count
    if trips % count:
        raise tf.errors.FailedPreconditionError(
            None,
            None,
            f"{text}, and it runs {trips}: repeat(n, ...) with a multiple of {count}, such as {max(trips // count, 1) * count}",
        )
    return trips // count


def add_sums(body: host.TracedGraph, updates: Sequence[Update]) -> None:
    """Lets the body carry the sums of its gradients, and what the updates read of it, behind what it carries already."""

    def carried(dtype: tf.DType, shape: Any) -> Any:
        before = tf.compat.v1.placeholder(dtype, shape)
        body.inputs.insert(len(body.outputs), before)  # those of captured tensors come behind
        return before

    with body.tracing():
        for update in updates:
            for gradient, type_ in zip(update.summed, update.types):
                with _where(gradient):
                    body.outputs.append(carried(type_, gradient.shape) + tf.cast(gradient, type_))
            for tensor in update.exported:
                carried(tensor.dtype, tensor.shape)
                body.outputs.append(tf.identity(tensor))


def _where(gradient: Any) -> contextlib.AbstractContextManager:
    """What is built goes to the IPU of the gradient."""
    shard = attributes.settings_of(gradient.op).get("ipu")
    return contextlib.nullcontext() if shard is None else scopes.ipu_shard(shard)


def starts(updates: Sequence[Update]) -> list[Any]:
    """Zeros for what `add_sums` carries."""
    zeros = []
    for update in updates:
        for gradient, type_ in zip(update.summed, update.types):
            with _where(gradient):
                zeros.append(tf.zeros(gradient.shape, type_))
        zeros += [tf.zeros(tensor.shape, tensor.dtype) for tensor in update.exported]
    return zeros


def apply(updates: Sequence[Update], carried: Sequence[Any], run: Callable) -> list[host.Operation]:
    """Runs each update on what the inner loop gives of `add_sums`. `run(graph, inputs, captured)` runs a graph once."""
    operations, left = [], list(carried)
    for update in updates:
        sums, left = left[: len(update.summed)], left[len(update.summed) :]
        read, left = left[: len(update.exported)], left[len(update.exported) :]
        body = update.marker.graph
        known = {inside.name: outside for outside, inside in host.captures_of(body)}
        known |= {tensor.name: value for tensor, value in zip(update.exported, read)}
        captured = [
            known[outside.name] if outside.graph is body else outside for outside, _ in host.captures_of(update.graph)
        ]
        operations.append(run(update.graph, sums, captured))
    return operations
