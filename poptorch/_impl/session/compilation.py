"""One compilation of a wrapper: cleans the inputs, records forward, and compiles, or takes the program of a file."""

from __future__ import annotations

import contextlib
import datetime
import math
import os
import typing

import torch

from poptorch import enums, poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import compile_hooks, lazy_modules, state as capture_state
from poptorch._impl.capture.graph_capture import GraphCapture
from poptorch._impl.log import logger
from poptorch._impl.options import locations, phased, popart_choices, replication
from poptorch._impl.session import inspection, job, precompiled, rng, weight_hooks
from poptorch._impl.session.compiled import Compiled
from poptorch._impl.session.progress import compilation_progress
from poptorch._impl.session.state import WrapperState
from poptorch._impl.structures import Signature, differ, rebuild, tensors_of

# One forward is recorded at a time in a process; who comes second waits.
capturing = poptorch_core.WaitLock("the capture of a model")


def _native_call(executable, result, names, values, keywords, defaults):
    """The call for arguments that are tensors and a result that is a tensor or a tuple of several; None for others.

    Arguments behind the tensors are left out in such a call: they must have been compiled with their defaults.
    """
    flat_result = isinstance(result, torch.Tensor) or (
        type(result) is tuple and len(result) != 1 and all(isinstance(member, torch.Tensor) for member in result)
    )
    count = next((i for i, value in enumerate(values) if not isinstance(value, torch.Tensor)), len(values))
    flat = flat_result and not any(keywords[:count])
    rest = zip(names[count:], values[count:])
    flat = flat and all(name in defaults and _is_constant(value, defaults[name]) for name, value in rest)
    return executable.call if flat else None


def _is_constant(value, expected):
    return not any(True for _ in tensors_of(value)) and type(value) is type(expected) and not differ(value, expected)


def _factors(state: WrapperState) -> dict[str, int]:
    options = state.options
    factors = {
        "Options.deviceIterations": options.device_iterations,
        "Options.replicationFactor": options.replication_factor,
    }
    if options.input_group_size != 1:
        del factors["Options.replicationFactor"]
        factors["Options.replicationFactor / input group size"] = replication.input_group_count(options)
    if state.training:
        factors["Options.Training.gradientAccumulation"] = options.Training.gradient_accumulation
    return factors


def _require_values(name: str, tensor: torch.Tensor, dry: bool) -> None:
    if dry and tensor.is_meta:
        return
    if tensor.device.type != "cpu":
        raise errors.create_error(f"Inputs must be on the CPU, got '{name}' on '{tensor.device}'. Pass tensor.cpu().")
    if objection := poptorch_core.objection_to(tensor):
        raise errors.create_error(f"The input '{name}' {objection}")


def clean_inputs(
    state: WrapperState, names: list[str], values: list[typing.Any], dry: bool = False
) -> list[typing.Any]:
    """Detached tensors. The native call copies those that are not contiguous; one warning each per wrapper.

    Args:
        dry: they may be on meta.
    """

    def clean(name, tensor):
        _require_values(name, tensor, dry)
        if tensor.requires_grad:
            _warn_once(
                state,
                "requires_grad",
                "An input has requires_grad=True: it is detached. Call requires_grad_() inside forward instead.",
            )
            tensor = tensor.detach()
        if not tensor.is_contiguous():
            _warn_once(
                state,
                "contiguous",
                "An input is not contiguous: it is copied at every call. Pass tensor.contiguous().",
            )
        return tensor

    return [rebuild(value, (clean(name, tensor) for tensor in tensors_of(value))) for name, value in zip(names, values)]


def _warn_once(state: WrapperState, key: str, text: str) -> None:
    if key not in state.warned:
        state.warned.add(key)
        logger.warning(text)


def _alone_in_capturing(state, body):
    """Others wait for the capture and for this wrapper, but not for ever if forward waits for them."""
    if capture_state.active() is not None:  # the capture itself will refuse
        return body()
    return capturing.hold_for_capture(lambda: state.lock.hold_for_capture(body))


def _native_options(state: WrapperState, captured: poptorch_core.Captured) -> dict[str, typing.Any]:
    options = state.options
    blocks = captured.blocks()
    places = {
        key: place for (key, _, _), place in zip(blocks, options._strategy._places(block[1:] for block in blocks))
    }
    places.setdefault("", (0, 0))  # what comes before the first block
    link = state.optimizer_link
    clips = link is not None and math.isfinite(link.description["max_grad_norm"])
    popart_choices.report(options, places, state.training, clips, captured.overlaps)
    native = {
        "training": state.training,
        "device_iterations": options.device_iterations,
        "gradient_accumulation": options.Training.gradient_accumulation if state.training else 1,
        "replication_factor": options.replication_factor,
        "processes": job.number_of_processes(options),
        "input_groups": replication.groups(options.input_cgt, options.input_group_size, options.replication_factor),
        "broadcast_buffers": options.broadcast_buffers,
        **precompiled.native_options(options),
        "replica_groupings": state.groupings,
        "output_mode": int(options.output_mode),
        "output_period": options.output_return_period,
        "schedule": popart_choices.schedule(options),
        "places": places,
        **locations.native(options.TensorLocations, off_chip=isinstance(options._strategy, phased.PhasedExecution)),
        "prefetch_depth": options._Popart.options.get("defaultPrefetchBufferingDepth", 1),
        "mean_reduction": (options.Training.accumulation_and_replication_reduction_type == enums.ReductionType.Mean),
        "running_mean": (
            options.Training.meanAccumulationAndReplicationReductionStrategy == enums.MeanReductionStrategy.Running
        ),
        "auto_round_num_ipus": options.auto_round_num_ipus,
        **inspection.compile_settings(options),
    }
    if isinstance(options._strategy, phased.PhasedExecution):
        native["phases"] = phased.native(options._strategy)
    if link is not None:
        native["recomputation"] = options._Popart.options.get("autoRecomputation", 3)
        native["optimizer"] = link.description
    return native


def _require_elements_of_their_own(captured, tensors):
    """Raises poptorch.Error for a parameter or buffer that the program writes, and of which several elements are one."""
    for spec in captured.states:
        is_updated = spec.trainable and spec.used
        if (is_updated or spec.written) and torch._debug_has_internal_overlap(tensors[spec.name]) == 1:
            kind = "parameter" if spec.is_parameter else "buffer"
            raise errors.create_error(
                f"the {kind} '{spec.name}' {list(spec.shape)} is an expanded tensor: several of its elements are one place in "
                f"memory, so {'its update' if is_updated else 'what forward writes to it'} could not be stored. Give it memory "
                "of its own: .expand(...).clone()."
            )


def compile_program(
    state: WrapperState,
    names: list[str],
    values: list[typing.Any],
    keywords: list[str | None],
    from_file: poptorch_core.ExecutableFile | None = None,
    on_meta: tuple[str, ...] = (),
) -> Compiled:
    """Compiles for these arguments of `forward`, attaches as the options say, and makes it the program of the wrapper.

    Args:
        from_file: its program is taken if it was compiled from the same graph.
        on_meta: what has no values. The compilation is a dry run if there is any.
    """
    inspection.check_device_options(state.options)
    factors = _factors(state)
    count = 1
    for value in factors.values():
        count *= value
    started = datetime.datetime.now()
    with compilation_progress(state.options._show_progress_bar) as progress:
        values = clean_inputs(state, names, values, dry=bool(on_meta))
        trainable: set[str] = set()
        link = state.optimizer_link
        if link is not None:
            if not state.class_wrapped:  # called again after destroy(): tensors are hooked, the class stays
                weight_hooks.wrap_tensors(state.user_model, state.owner)
            link.before_compile()
            trainable = set(link.description["group_of"])
        capture = GraphCapture(state.traced_model, state.training, state.options, trainable, state.groupings)
        makes_program = from_file is None and not on_meta
        cache_directory = precompiled.cache_directory(state.options) if makes_program else ""
        with contextlib.ExitStack() as stack:
            if makes_program:
                stack.enter_context(job.compiling(state.traced_model, state.options, cache_directory))

            def follow_initialised(modules):
                if state.traced_model in modules:  # a copy of the user's own
                    for origin in state.origins:
                        lazy_modules.follow(state.traced_model, origin)
                if link is not None:
                    weight_hooks.wrap_tensors(state.user_model, state.owner)

            def record():
                compile_hooks.run_before()
                try:
                    return capture.run(names, values, keywords, count, factors)
                finally:
                    compile_hooks.run_after()
                    if capture.initialised:
                        follow_initialised(capture.initialised)

            captured = _alone_in_capturing(state, record)
            _require_elements_of_their_own(captured, capture.states)
            progress.advance("capture")
            if from_file is None:
                native = _native_options(state, captured)
                executable = poptorch_core.compile(
                    captured, {**native, "dry": bool(on_meta), "cache_directory": os.fsencode(cache_directory)}
                )
                if link is not None:
                    executable.add_tensor_names(link.scalar_names())
            else:
                executable = from_file.executor(poptorch_core.graph_digest(captured))
                precompiled.describe(executable, from_file)
                if link is not None:
                    executable.set_optimizer(link.description)
        inspection.judge_memory(executable, state.options)
        if capture.host_calls.functions:
            executable.set_host_functions(capture.host_calls.functions)
        executable.configure(inspection.run_settings(state.options))
        job.join(executable, state.options, state.training or bool(state.groupings))
        progress.advance("compile")
        if state.options.connection_type == enums.ConnectionType.Always and not on_meta:
            executable.attach()
        progress.advance("attach")
    rng.start(executable, state.options)
    state.compilation_time = datetime.datetime.now() - started
    # From here on there is a program, whatever interrupts: calls attach it anew until the device takes them. Calls of
    # other threads wait for the lock.
    compiled = state.compiled = Compiled(
        executable=executable,
        captured=captured,
        signature=Signature(names, values),
        argument_names=names,
        example_inputs=(names, [] if on_meta else precompiled.example_inputs(values), keywords),
        result_structure=capture.output_structure,
        states=capture.states,
        on_meta=on_meta,
        call=_native_call(executable, capture.output_structure, names, values, keywords, state.binder.defaults),
    )
    return compiled
