"""`ipu.pipelining_ops.pipeline`: a network cut into stages that lie on different IPUs.

Each mini-batch goes through the stages, its loss back through them, and an update follows so many mini-batches. That is what all schedules
compute; the stages run one after another here, as in the schedule Sequential."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import tensorflow as tf

from ipu_tensorflow import accumulation, host, loops, scopes, trace
from ipu_tensorflow.infeed import IPUInfeedQueue
from ipu_tensorflow.outfeed import IPUOutfeedMode, IPUOutfeedQueue
from ipu_tensorflow.pipelining import OptimizerFunctionOutput, PipelineSchedule, PipelineStageOptions, RecomputationMode

_MODES = {
    PipelineSchedule.Grouped: list(RecomputationMode),
    PipelineSchedule.Interleaved: [RecomputationMode.Auto, RecomputationMode.RecomputeThenBackpropagate],
    PipelineSchedule.Sequential: [RecomputationMode.Auto, RecomputationMode.RecomputeAndBackpropagateInterleaved],
}


def pipeline(
    computational_stages: Sequence[Any],
    gradient_accumulation_count: int | None = None,
    gradient_accumulation_dtype: Any = None,
    repeat_count: int = 1,
    batch_serialization_iterations: int = 1,
    inputs: Sequence[Any] | None = None,
    infeed_queue: Any = None,
    outfeed_queue: Any = None,
    optimizer_function: Callable | None = None,
    device_mapping: Sequence[Any] | None = None,
    pipeline_schedule: Any = None,
    recomputation_mode: Any = None,
    forward_propagation_stages_poplar_options: Sequence[PipelineStageOptions] | None = None,
    backward_propagation_stages_poplar_options: Sequence[PipelineStageOptions] | None = None,
    weight_update_poplar_options: PipelineStageOptions | None = None,
    offload_weight_update_variables: bool | None = None,
    replicated_optimizer_state_sharding: bool | None = False,
    offload_activations: bool | None = None,
    offload_gradient_accumulation_buffers: bool | None = None,
    replicated_weight_sharding: bool | None = None,
    offload_weights: bool | None = None,
    continuous_weight_updates: bool = False,
    outfeed_loss: bool = False,
    accumulate_outfeed: bool = False,
    accumulate_outfeed_dtype: Any = None,
    outfeed_mask: Sequence[bool] | None = None,
    name: str | None = None,
) -> host.Operation:
    """Runs mini-batches through stages, inside `ipu_compiler.compile`.

    Args:
        computational_stages: two functions or more. The first one takes `inputs` and an element of the infeed, each other one what the one
            before gives. A list of functions is one stage: all get the same arguments, and their results are put together.
        gradient_accumulation_count: how many mini-batches one execution takes, and one update sums the gradients of.
        gradient_accumulation_dtype: the type of the sums, or a function of the variable that gives it; None: that of the variable.
        repeat_count: executions in a run.
        batch_serialization_iterations: mini-batches that a stage takes one after another; on one IPU, with the schedule Sequential.
        inputs: what stays the same in a run.
        infeed_queue: gives each mini-batch.
        outfeed_queue: takes what the last stage gives.
        optimizer_function: takes what the last stage gives and returns an OptimizerFunctionOutput: the pipeline trains.
        device_mapping: the IPU of each stage; None: 0, 1, ...
        pipeline_schedule: a PipelineSchedule, Grouped if None. It decides which counts are legal.
        recomputation_mode: a RecomputationMode that goes with the schedule.
        outfeed_loss: the outfeed takes the loss instead.
        accumulate_outfeed: it takes sums over each execution.
        accumulate_outfeed_dtype: their type, or a function of the tensor that gives it.
        outfeed_mask: for each result of the last stage, whether it is left out.
        name: "pipeline" if None.

    Options of memory, recomputation and products change no value. Raises ValueError, TypeError and NotImplementedError for arguments that
    do not fit together, tf.errors.FailedPreconditionError for counts that the schedule cannot take.

    Returns:
        The operation that runs it all.
    """
    plan = _Plan(
        list(_sequence("computational_stages", computational_stages)),
        gradient_accumulation_count,
        gradient_accumulation_dtype,
        batch_serialization_iterations,
        outfeed_queue,
        optimizer_function,
        outfeed_loss,
        accumulate_outfeed,
        accumulate_outfeed_dtype,
        None if outfeed_mask is None else list(outfeed_mask),
    )
    devices = plan.devices(device_mapping)
    plan.check_schedule(pipeline_schedule, recomputation_mode, devices)
    _check_options(
        "forward_propagation_stages_poplar_options", forward_propagation_stages_poplar_options, len(plan.stages)
    )
    _check_options(
        "backward_propagation_stages_poplar_options", backward_propagation_stages_poplar_options, len(plan.stages)
    )
    if weight_update_poplar_options is not None:
        _check_options("weight_update_poplar_options", [weight_update_poplar_options], 1)
    if continuous_weight_updates:
        raise NotImplementedError("pipeline: continuous_weight_updates is not implemented, as published")
    if infeed_queue is not None and not isinstance(infeed_queue, IPUInfeedQueue):
        raise TypeError(f"pipeline: infeed_queue is an IPUInfeedQueue, not {type(infeed_queue).__name__}")
    graph = tf.compat.v1.get_default_graph()
    if not host.is_traced(graph):
        raise ValueError("pipeline is called inside ipu_compiler.compile")
    constants = [_by_value(value) for value in inputs or ()]

    def body(*element: Any, **named: Any) -> Any:
        return plan.mini_batch(devices, constants, element, named)

    with tf.name_scope(name or "pipeline"):
        return loops.repeat(repeat_count * plan.batches, body, [], infeed_queue)


@dataclass
class _Plan:
    stages: list[Any]
    count: int | None
    dtype: Any
    serial: int
    outfeed: Any
    optimizer_function: Callable | None
    outfeed_loss: bool
    sums_outfeed: bool
    sums_dtype: Any
    mask: list[bool] | None

    def __post_init__(self) -> None:
        if len(self.stages) < 2:
            raise ValueError(f"pipeline: computational_stages has {len(self.stages)} stages; a pipeline has at least 2")
        if not self.count or self.count < 1:
            raise ValueError(
                f"pipeline: gradient_accumulation_count is {self.count}; state how many mini-batches an execution takes"
            )
        if self.outfeed is not None and not isinstance(self.outfeed, IPUOutfeedQueue):
            raise TypeError(f"pipeline: outfeed_queue is an IPUOutfeedQueue, not {type(self.outfeed).__name__}")
        if self.optimizer_function is None and (self.outfeed_loss or self.mask is not None):
            raise ValueError("pipeline: outfeed_loss and outfeed_mask are for training, with an optimizer_function")
        if self.outfeed_loss and self.mask is not None:
            raise ValueError("pipeline: outfeed_loss and outfeed_mask exclude each other")
        if self.sums_outfeed and (self.outfeed is None or self.outfeed.outfeed_mode is not IPUOutfeedMode.ALL):
            raise ValueError("pipeline: accumulate_outfeed needs an outfeed_queue of the mode ALL")

    @property
    def batches(self) -> int:
        """Mini-batches of an execution."""
        return int(self.count or 0) * self.serial

    def devices(self, mapping: Any) -> list[Any]:
        """The IPU of each stage, or those of its parts."""
        if mapping is None:
            return [self._each(stage, 0 if self.serial > 1 else i) for i, stage in enumerate(self.stages)]
        found = list(_sequence("device_mapping", mapping))
        if len(found) != len(self.stages):
            raise ValueError(f"pipeline: device_mapping has {len(found)} entries for {len(self.stages)} stages")
        for index, (stage, device) in enumerate(zip(self.stages, found)):
            if isinstance(stage, (list, tuple)) and not (
                isinstance(device, (list, tuple)) and len(device) == len(stage)
            ):
                raise ValueError(
                    f"pipeline: stage {index} has {len(stage)} parts, so its device_mapping is a list of as many"
                )
        return found

    @staticmethod
    def _each(stage: Any, device: int) -> Any:
        return [device] * len(stage) if isinstance(stage, (list, tuple)) else device

    def check_schedule(self, schedule: Any, mode: Any, devices: list[Any]) -> None:
        if schedule is None:
            schedule = PipelineSchedule.Sequential if self.serial > 1 else PipelineSchedule.Grouped
        if not isinstance(schedule, PipelineSchedule):
            raise TypeError(f"pipeline: pipeline_schedule is a PipelineSchedule, not {type(schedule).__name__}")
        mode = RecomputationMode.Auto if mode is None else mode
        if not isinstance(mode, RecomputationMode):
            raise TypeError(f"pipeline: recomputation_mode is a RecomputationMode, not {type(mode).__name__}")
        if mode not in _MODES[schedule]:
            raise ValueError(
                f"pipeline: the recomputation mode {mode.name} does not go with the schedule {schedule.name}"
            )
        used = {device for entry in devices for device in (entry if isinstance(entry, (list, tuple)) else [entry])}
        if self.serial > 1 and (schedule is not PipelineSchedule.Sequential or len(used) > 1):
            raise NotImplementedError(
                "pipeline: batch_serialization_iterations is for the schedule Sequential on one IPU, as published"
            )
        trains = self.optimizer_function is not None
        if schedule is PipelineSchedule.Interleaved and trains and len(used) < len(self.stages):
            raise NotImplementedError(
                "pipeline: in the schedule Interleaved each stage of a training pipeline has an IPU of its own, as published"
            )
        steps = len(self.stages) * (2 if trains and schedule is PipelineSchedule.Grouped else 1)
        count = int(self.count or 0)
        if schedule is not PipelineSchedule.Sequential and count % steps:
            raise tf.errors.FailedPreconditionError(
                None,
                None,
                f"pipeline: gradient_accumulation_count is {count}; with the schedule {schedule.name} and {len(self.stages)} stages it is a "
                f"multiple of {steps}, such as {(count // steps + 1) * steps}",
            )

    def mini_batch(
        self, devices: list[Any], constants: list[Any], element: Sequence[Any], named: dict[str, Any]
    ) -> list[host.Operation]:
        """The operations of one mini-batch, built in the body of the loop."""
        graph = tf.compat.v1.get_default_graph()
        given: list[Any] = [graph.capture(value) for value in constants] + list(element)
        watch = _Watch(graph)
        operations: list[host.Operation] = []
        results: Any = None
        for index, (stage, device) in enumerate(zip(self.stages, devices)):
            results = watch.call(index, stage, device, given, named)
            named = {}
            if isinstance(results, dict):
                given = [results]
            else:
                given, made = trace.split_results(graph, results, f"stage {index} of a pipeline")
                operations += made
        last = devices[-1][-1] if isinstance(devices[-1], (list, tuple)) else devices[-1]
        with scopes.ipu_shard(last):
            if self.optimizer_function is None:
                kept: Any = results if isinstance(results, dict) else given
            else:
                output = (
                    self.optimizer_function(**results) if isinstance(results, dict) else self.optimizer_function(*given)
                )
                if not isinstance(output, OptimizerFunctionOutput):
                    raise TypeError(
                        f"pipeline: optimizer_function returns an OptimizerFunctionOutput, not {type(output).__name__}"
                    )
                operations.append(self._train(output))
                kept = (
                    output.loss
                    if self.outfeed_loss
                    else self._unmasked(results if isinstance(results, dict) else given)
                )
            operations += self._enqueued(kept)
        with tf.control_dependencies(operations):
            return [tf.no_op("mini_batch")]

    def _train(self, output: OptimizerFunctionOutput) -> host.Operation:
        optimizer = output.opt
        if isinstance(optimizer, accumulation.GradientAccumulationOptimizerV2):
            raise ValueError(
                "pipeline: it sums gradients by itself; give the optimizer function an optimizer that does not"
            )
        pairs = optimizer.compute_gradients(
            output.loss, *(output.compute_gradients_args or ()), **(output.compute_gradients_kwargs or {})
        )

        def update(given: list[tuple[Any, Any]]) -> Any:
            return optimizer.apply_gradients(
                given, *(output.apply_gradients_args or ()), **(output.apply_gradients_kwargs or {})
            )

        return accumulation.sum_gradients(pairs, self.batches, self.dtype, update, "pipeline_update")

    def _unmasked(self, results: Any) -> Any:
        if self.mask is None:
            return results
        leaves = list(results.values()) if isinstance(results, dict) else list(results)
        if len(self.mask) != len(leaves):
            raise ValueError(
                f"pipeline: outfeed_mask has {len(self.mask)} entries for {len(leaves)} results of the last stage"
            )
        return [leaf for leaf, is_masked in zip(leaves, self.mask) if not is_masked]

    def _enqueued(self, kept: Any) -> list[host.Operation]:
        leaves = tf.nest.flatten(kept)
        if not leaves:
            return []
        if self.outfeed is None:
            raise ValueError("pipeline: the last stage gives tensors, and there is no outfeed_queue for them")
        if not self.sums_outfeed:
            return [self.outfeed.enqueue(kept)]
        dtype = self.sums_dtype
        types = [tf.as_dtype((dtype(leaf) if callable(dtype) else dtype) or leaf.dtype) for leaf in leaves]

        def enqueue(sums: list[Any]) -> host.Operation:
            return self.outfeed.enqueue(tf.nest.pack_sequence_as(kept, sums))

        return [accumulation.sum_tensors(leaves, types, self.batches, enqueue, "pipeline_outfeed")]


class _Watch:
    """Calls stages and sees that each takes tensors as arguments alone, and variables of one IPU."""

    def __init__(self, graph: host.TracedGraph) -> None:
        self._graph = graph
        self._owners: dict[str, tuple[int, Any]] = {}  # by variable: stage and IPU

    def call(self, index: int, stage: Any, device: Any, given: list[Any], named: dict[str, Any]) -> Any:
        if not isinstance(stage, (list, tuple)):
            return self._call(f"stage {index}", index, stage, device, given, named)
        together: list[Any] = []
        for part, (function, where) in enumerate(zip(stage, device)):
            results = self._call(f"part {part} of stage {index}", index, function, where, given, named)
            together += results.values() if isinstance(results, dict) else results
        return sorted(together, key=lambda item: isinstance(item, host.Operation))  # operations come last

    def _call(
        self, what: str, index: int, function: Callable, device: Any, given: list[Any], named: dict[str, Any]
    ) -> Any:
        trace.check_arity(
            function, len(given), f"{what} of a pipeline,", f"{len(given) + len(named)} values", list(named)
        )
        before = len(self._graph.get_operations())
        with scopes.ipu_shard(device), tf.name_scope(f"stage_{index}"):
            results = function(*given, **named)
        if isinstance(results, dict):
            results = {key: tf.convert_to_tensor(value) for key, value in results.items()}
        elif results is None:
            results = []
        else:
            results = list(results) if isinstance(results, (list, tuple)) else [results]
        self._check(what, device, index, before, [*given, *named.values()])
        return results

    def _check(self, what: str, device: Any, index: int, before: int, given: Sequence[Any]) -> None:
        known = {tensor.name for tensor in tf.nest.flatten(list(given)) if tf.is_tensor(tensor)}
        outside = {inside.name: tensor for tensor, inside in host.captures_of(self._graph)}
        made = self._graph.get_operations()[before:]
        names = {op.name for op in made}
        for op in made:
            for tensor in op.inputs:
                found = outside.get(tensor.name, tensor)
                if tensor.dtype == tf.resource:
                    self._own(found.op.name, what, device, index)
                elif (
                    (found is not tensor or tensor.op.name not in names)
                    and tensor.name not in known
                    and found.op.type != "Const"
                ):
                    line = host.user_line(found.op)
                    raise ValueError(
                        f"pipeline: {what} uses the tensor '{found.name}'"
                        + (f", made at {line[0]}:{line[1]}," if line else "")
                        + " which is none of its arguments: hand it through the stages before, or through `inputs`"
                    )

    def _own(self, variable: str, what: str, device: Any, index: int) -> None:
        stage, where = self._owners.setdefault(variable, (index, device))
        if where != device:
            raise ValueError(
                f"pipeline: variable '{variable}' is used in stage {stage} on IPU {where} and in {what} on IPU {device}: "
                "stages that share a variable lie on one IPU"
            )


def _by_value(value: Any) -> Any:
    tensor = tf.convert_to_tensor(value)
    if tensor.dtype == tf.resource or isinstance(value, tf.Variable):
        warnings.warn(f"pipeline: the variable '{value.name}' among the inputs is passed by its value", stacklevel=3)
    return tensor


def _sequence(name: str, value: Any) -> Sequence[Any]:
    if not isinstance(value, (list, tuple)):
        raise TypeError(f"pipeline: {name} is a list or a tuple, not {type(value).__name__}")
    return value


def _check_options(name: str, options: Any, count: int) -> None:
    if options is None:
        return
    items = list(_sequence(name, options))
    for item in items:
        if not isinstance(item, PipelineStageOptions):
            raise TypeError(f"pipeline: {name} has PipelineStageOptions, not {type(item).__name__}")
    if len(items) != count:
        raise ValueError(f"pipeline: {name} has {len(items)} entries for {count} stages")
