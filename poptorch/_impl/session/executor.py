"""PoplarExecutor: the wrapper that `trainingModel` and `inferenceModel` return."""

from __future__ import annotations

import collections.abc
import contextlib
import datetime
import functools
import os
import typing
import weakref

import torch

from poptorch import enums, poptorch_core
from poptorch._impl import errors
from poptorch._impl.capture import state as capture_state, compile_hooks
from poptorch._impl.session import precompiled
from poptorch._impl.options import popart_choices
from poptorch._impl.options import replication
from poptorch._impl.session import inspection, job, rng, weight_hooks
from poptorch._impl.session.compiled import Compiled
from poptorch._impl.session.binding import ArgumentBinder
from poptorch._impl.capture.graph_capture import GraphCapture
from poptorch._impl.log import logger
from poptorch._impl.optimizer.link import OptimizerLink
from poptorch._impl.session.progress import compilation_progress
from poptorch._impl.structures import Signature, rebuild, tensors_of
from poptorch.options import Options

_Result = typing.TypeVar("_Result")
_Method = typing.TypeVar("_Method", bound=collections.abc.Callable[..., typing.Any])


def _refuse_backward(*args, **kwargs):
    raise errors.create_error(
        "backward() cannot be called on a result of a poptorch model: the backward pass and the weight "
        "update run inside the call of the training model."
    )


def _native_call(executable, result, values, keywords):
    """The call for arguments that are tensors and a result that is a tensor or a tuple of them; None for others."""
    flat_result = isinstance(result, torch.Tensor) or (
        type(result) is tuple and all(isinstance(member, torch.Tensor) for member in result)
    )
    flat = flat_result and all(isinstance(value, torch.Tensor) for value in values) and not any(keywords)
    return executable.call if flat else None


class _CallableModule(torch.nn.Module):
    """A plain callable as a module without state."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


# One forward is recorded at a time in a process; who comes second waits.
_capturing = poptorch_core.WaitLock("the capture of a model")


# Wrappers of one model have one lock: while one of them records forward, the model's tensors are symbols.
_locks: weakref.WeakKeyDictionary[typing.Any, poptorch_core.WaitLock] = weakref.WeakKeyDictionary()


def _lock_of(model: typing.Any) -> poptorch_core.WaitLock:
    try:
        return _locks.setdefault(model, poptorch_core.WaitLock("the wrapped model"))
    except TypeError:  # a callable of a class without weak references, or without a hash
        return poptorch_core.WaitLock("the wrapped model")


def _locked(method: _Method) -> _Method:
    """A method of the wrapper that one thread at a time is in."""

    @functools.wraps(method)
    def held(self, *args, **kwargs):
        return self._lock.hold(method, self, *args, **kwargs)

    return typing.cast(_Method, held)


class PoplarExecutor(inspection.Inspection):
    """Runs a model on emulated IPUs. Made by `poptorch.trainingModel` and `poptorch.inferenceModel`.

    Any thread may use it (docs/threads.md). Whatever changes its life, its weights on the host or its optimizer holds
    `_lock`; a call does not, it only takes the device, in the native part.
    """

    def __init__(
        self, model: typing.Any, options: Options, training: bool, optimizer: torch.optim.Optimizer | None = None
    ) -> None:
        self._user_model = model
        self._options = options
        self._training = training
        self._in_job = job.number_of_processes(options) > 1
        self._binder = ArgumentBinder(model)
        self._traced_model = (
            weight_hooks.plain_model(model) if isinstance(model, torch.nn.Module) else _CallableModule(model)
        )
        self._lock = _lock_of(model)
        self._compiled: Compiled | None = None
        self._warned: set[str] = set()  # kinds of inputs this wrapper has warned of
        self._optimizer_link: OptimizerLink | None = None  # training only
        self._host_version = 0  # the version the host has; another one: the device's weights are newer
        # Held while weights move between the two, by the holder of the lock: nobody fetches them then.
        self._fixed_host = poptorch_core.WaitLock("the weights on the host")
        self._seen_version: int | None = None  # of the trainer, for inference wrappers
        self._class_wrapped = False
        self._groupings: dict[str, tuple[tuple[int, int], bool]] = {}  # of parameters by name: ((size, stride), one value per replica is read back)
        if training:
            names = {id(tensor): name for name, tensor in model.named_parameters()}
            self._optimizer_link = OptimizerLink(self, optimizer, names, options)
            weight_hooks.wrap_tensors(model, self)
            weight_hooks.wrap_class(model, self)
            self._class_wrapped = True

    @property
    def _executable(self) -> poptorch_core.Executor | None:
        compiled = self._compiled
        return compiled.executable if compiled is not None else None

    @property
    def _optimizer(self) -> torch.optim.Optimizer | None:
        """The current optimizer of a training wrapper."""
        return self._optimizer_link.optimizer if self._optimizer_link is not None else None

    # --- compilation ---
    def _factors(self) -> dict[str, int]:
        options = self._options
        factors = {
            "Options.deviceIterations": options.device_iterations,
            "Options.replicationFactor": options.replication_factor,
        }
        if options.input_group_size != 1:
            del factors["Options.replicationFactor"]
            factors["Options.replicationFactor / input group size"] = replication.input_group_count(options)
        if self._training:
            factors["Options.Training.gradientAccumulation"] = options.Training.gradient_accumulation
        return factors

    @_locked
    def compile(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Builds the program (and attaches) without running it; inputs are only examples."""
        if self._compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled.")
            return
        self._compile(*self._binder.bind(args, kwargs))

    @_locked
    def _compile_for_a_call(self, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> Compiled:
        if self._compiled is None:  # no other thread was first
            self._compile(*self._binder.bind(args, kwargs))
        return self._require_compiled("calling the model")

    def _compile(
        self,
        names: list[str],
        values: list[typing.Any],
        keywords: list[str | None],
        from_file: poptorch_core.ExecutableFile | None = None,
    ) -> None:
        """`from_file`: a `poptorch_core.ExecutableFile` whose program is taken if it was compiled from the same graph."""
        inspection.check_device_options(self._options)
        factors = self._factors()
        count = 1
        for value in factors.values():
            count *= value
        started = datetime.datetime.now()
        with compilation_progress(self._options._show_progress_bar) as progress:
            values = self._clean_inputs(values)
            trainable: set[str] = set()
            link = self._optimizer_link
            if link is not None:
                if not self._class_wrapped:  # called again after destroy(): tensors are hooked, the class stays
                    weight_hooks.wrap_tensors(self._user_model, self)
                link.before_compile()
                trainable = set(link.description["group_of"])
            capture = GraphCapture(self._traced_model, self._training, self._options, trainable, self._groupings)
            cache_directory = precompiled.cache_directory(self._options) if from_file is None else ""
            with contextlib.ExitStack() as stack:
                if from_file is None:
                    stack.enter_context(job.compiling(self._traced_model, self._options, cache_directory))

                def record():
                    compile_hooks.run_before()
                    try:
                        return capture.run(names, values, keywords, count, factors)
                    finally:
                        compile_hooks.run_after()

                captured = self._alone_in_capturing(record)
                progress.advance("capture")
                if from_file is None:
                    native = self._native_options(captured)
                    executable = poptorch_core.compile(captured, {**native, "cache_directory": cache_directory})
                else:
                    executable = from_file.executor(poptorch_core.graph_digest(captured))
                    if link is not None:
                        executable.set_optimizer(link.description)
            executable.configure(inspection.run_settings(self._options))
            job.join(executable, self._options, self._training)
            progress.advance("compile")
            if self._options.connection_type == enums.ConnectionType.Always:
                executable.attach()
            progress.advance("attach")
        rng.start(executable, self._options)
        self._compilation_time = datetime.datetime.now() - started
        # From here on there is a program, whatever interrupts: calls attach it anew until the device takes them. Calls of
        # other threads wait for the lock.
        self._compiled = Compiled(
            executable=executable,
            captured=captured,
            signature=Signature(names, values),
            argument_names=names,
            example_inputs=(names, precompiled.example_inputs(values), keywords),
            result_structure=capture.output_structure,
            states=capture.states,
            call=_native_call(executable, capture.output_structure, values, keywords),
        )
        inspection.write_reports(executable, self._options, self._model_name())
        if executable.is_attached():
            self._on_attach(self._compiled)

    def _alone_in_capturing(self, body):
        """Others wait for the capture and for this wrapper, but not for ever if forward waits for them."""
        if capture_state.active() is not None:  # the capture itself will refuse
            return body()
        return _capturing.hold_for_capture(lambda: self._lock.hold_for_capture(body))

    def _model_name(self) -> str:
        options = self._options
        return options.model_name if options.exists("model_name") else "training" if self._training else "inference"

    def _native_options(self, captured: poptorch_core.Captured) -> dict[str, typing.Any]:
        options = self._options
        places = options._strategy._place(captured.blocks())
        popart_choices.warn(options, places, self._training)
        native = {
            "training": self._training,
            "device_iterations": options.device_iterations,
            "gradient_accumulation": options.Training.gradient_accumulation if self._training else 1,
            "replication_factor": options.replication_factor,
            "processes": job.number_of_processes(options),
            "input_groups": replication.groups(options.input_cgt, options.input_group_size, options.replication_factor),
            "broadcast_buffers": options.broadcast_buffers,
            **precompiled.native_options(options),
            "replica_groupings": self._groupings,
            "output_mode": int(options.output_mode),
            "output_period": options.output_return_period,
            "schedule": options._strategy._schedule,
            "places": places,
            "mean_reduction": (
                options.Training.accumulation_and_replication_reduction_type == enums.ReductionType.Mean
            ),
            "running_mean": (
                options.Training.meanAccumulationAndReplicationReductionStrategy == enums.MeanReductionStrategy.Running
            ),
            "auto_round_num_ipus": options.auto_round_num_ipus,
            **inspection.compile_settings(options),
        }
        if self._optimizer_link is not None:
            native["recomputation"] = options._Popart.options.get("autoRecomputation", 3)
            native["optimizer"] = self._optimizer_link.description
        return native

    def compileAndExport(
        self,
        filename: str | os.PathLike[str],
        *args: typing.Any,
        export_model: bool = True,
        **kwargs: typing.Any,
    ) -> None:
        """`compile(*args, **kwargs)`, then `save(filename, export_model)`."""
        self.compile(*args, **kwargs)
        self.save(filename, export_model)

    @_locked
    def save(
        self, filename: str | os.PathLike[str], export_model: bool = True, save_rng_state: bool = True
    ) -> None:
        """Writes the executable to a file, for `poptorch.load` or `loadExecutable` in another process.

        Args:
            filename: target; parent folders are made. A folder means `model.poptorch` in it, with a warning.
            export_model: store the model with its weights, the optimizer and its state too (bool; needs a picklable
                model). `poptorch.load` needs them, `loadExecutable` does not.
            save_rng_state: store the state of the device's random generators (bool).

        Raises:
            poptorch.Error: not compiled, nothing to export, or the file cannot be written.
            AssertionError: a parent of the target is no folder.

        Example:
            >>> trainer.compile(images, labels)
            >>> trainer.save("trainer.poptorch")
        """
        self._between_calls(
            self._require_compiled("save"), lambda: precompiled.save(self, filename, export_model, save_rng_state)
        )

    @_locked
    def loadExecutable(self, filename: str | os.PathLike[str], trusted: bool = False) -> None:
        """Takes the executable of a file instead of compiling, and attaches as `Options.connectionType` says.

        The model is captured once more, to check that the executable is its own.

        Args:
            filename: what `save` or `compileAndExport` wrote.
            trusted: run whatever code the example inputs in the file name (bool); leave it False for files of others.

        Raises:
            poptorch.Error: unreadable, damaged, of another version, model or machine.
        """
        if self._compiled is not None:
            logger.warning("Call to loadExecutable() ignored: the executable is already compiled.")
            return
        precompiled.load_into(self, filename, trusted)

    def _clean_inputs(self, values: list[typing.Any]) -> list[typing.Any]:
        """Detached tensors. The native call copies those that are not contiguous; one warning each per wrapper."""

        def clean(tensor):
            if tensor.requires_grad:
                self._warn_once(
                    "requires_grad",
                    "An input has requires_grad=True: it is detached. Call requires_grad_() inside forward instead.",
                )
                tensor = tensor.detach()
            if tensor.layout == torch.strided and not tensor.is_contiguous():
                self._warn_once(
                    "contiguous",
                    "An input is not contiguous: it is copied at every call. Pass tensor.contiguous().",
                )
            return tensor

        return [rebuild(value, map(clean, tensors_of(value))) for value in values]

    def _warn_once(self, key: str, text: str) -> None:
        if key not in self._warned:
            self._warned.add(key)
            logger.warning(text)

    def _attach(self, compiled: Compiled) -> None:
        compiled.executable.attach()
        self._on_attach(compiled)

    def _on_attach(self, compiled: Compiled) -> None:
        """Weights and optimizer state go to a fresh device; then it takes calls."""
        try:
            self._fixed_host.hold(self._write_states, compiled)  # what the device holds is no weight yet
            if self._optimizer_link is not None:
                self._optimizer_link.on_attach()
        except BaseException:
            compiled.executable.detach()
            raise
        self._host_version = self._weights_version
        compiled.executable.accept_calls(True)

    def _write_states(self, compiled: Compiled) -> None:
        weight_hooks.fetch(compiled.states.values())  # another wrapper's device may hold newer ones
        compiled.executable.write_states(compiled.states)

    def _between_calls(self, compiled: Compiled, body: collections.abc.Callable[[], _Result]) -> _Result:
        """`body()` for the holder of the lock: no call runs inside, one that runs now ends first, others wait. The host's
        weights are brought up to date before and then stay as they are."""

        def alone():
            if not self._device_is_lost(compiled.executable):
                self.copyWeightsToHostIfNeeded()
            return self._fixed_host.hold(body)

        return compiled.executable.without_calls(alone)

    # --- calls ---
    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        compiled = self._compiled
        if compiled is None:
            compiled = self._compile_for_a_call(args, kwargs)
        if not compiled.executable.is_attached():
            self._attach_for_a_call(compiled)
        link = self._optimizer_link
        if link is None:
            self._pull_from_trainer(compiled)
        else:
            if self._in_job:
                job.check_exchange(self._options)
            if link.host.pending:
                self._upload_optimizer(compiled, link)
        result = None
        if compiled.call is not None and not kwargs:
            result = compiled.call(args)
        if result is None:
            result = self._call_general(compiled, args, kwargs)
        if self._training:
            for tensor in (result,) if isinstance(result, torch.Tensor) else tensors_of(result):
                tensor.backward = _refuse_backward  # type: ignore[method-assign] # of this tensor alone
        return result

    @_locked
    def _attach_for_a_call(self, compiled: Compiled) -> None:
        assert self._options.connection_type != enums.ConnectionType.Never, (
            "the model cannot be run: its options say poptorch.ConnectionType.Never (offline compilation)"
        )
        if self._compiled is not compiled:
            raise errors.create_error(
                "the model was destroyed in another thread while it was called here. Call it again to compile it anew."
            )
        if not compiled.executable.is_attached():
            self._attach(compiled)
        elif not compiled.executable.accepts_calls():  # something failed after it was attached
            self._on_attach(compiled)

    @_locked
    def _upload_optimizer(self, compiled: Compiled, link: OptimizerLink) -> None:
        if self._compiled is compiled and link.host.pending and self.isAttachedToDevice():
            self._between_calls(compiled, link.before_run)

    def _call_general(self, compiled: Compiled, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> typing.Any:
        names, values, _ = self._binder.bind(args, kwargs)
        if names != compiled.argument_names:
            names, values = self._binder.align(names, values, compiled.argument_names, compiled.signature.is_constant)
        tensors = compiled.signature.flatten(self._clean_inputs(values))
        for name, tensor in zip(names, tensors):
            if tensor.device.type != "cpu":
                raise errors.create_error(
                    f"Inputs must be on the CPU, got '{name}' on '{tensor.device}'. Pass tensor.cpu()."
                )
        while (outputs := compiled.executable.run(tensors)) is None:  # another thread took the device away
            self._attach_for_a_call(compiled)
        return rebuild(compiled.result_structure, iter(outputs))

    def _pull_from_trainer(self, compiled: Compiled) -> None:
        trainer = weight_hooks.trainer_of(self._user_model)
        if trainer is None or trainer._compiled is None or trainer._weights_version == self._seen_version:
            return
        trainer._lock.hold(self._take_weights, compiled, trainer)

    @_locked
    def _take_weights(self, compiled: Compiled, trainer: PoplarExecutor) -> None:
        if not compiled.executable.is_attached():
            return  # attaching writes them
        trainer.copyWeightsToHostIfNeeded()
        version = trainer._host_version
        if version != self._seen_version:
            self._write_states(compiled)
            self._seen_version = version

    # --- life cycle ---
    @property
    def _weights_version(self) -> int:
        """Of the weights on the device. Counted where the runs are: a run that has just ended counts for all threads."""
        compiled = self._compiled
        if compiled is None or not self._training:
            return self._host_version
        return compiled.executable.weights_version()

    def _require_compiled(self, what: str) -> Compiled:
        compiled = self._compiled
        if compiled is None:
            raise errors.create_error(
                f"{what}: the model has not been compiled or has been destroyed. Call it or compile() first."
            )
        return compiled

    def isCompiled(self) -> bool:
        """Is there an executable?"""
        return self._compiled is not None

    def isAttachedToDevice(self) -> bool:
        """Is a device held? False when not compiled."""
        executable = self._executable
        return executable is not None and executable.is_attached()

    @_locked
    def attachToDevice(self) -> None:
        """Acquires IPUs and uploads the weights. poptorch.Error when not compiled, attached already, or none is free."""
        compiled = self._require_compiled("attachToDevice")
        assert self._options.connection_type != enums.ConnectionType.Never, (
            "attachToDevice: the options say poptorch.ConnectionType.Never (offline compilation)"
        )
        if compiled.executable.is_attached():
            raise errors.create_error("attachToDevice: the model is already attached to a device.")
        self._attach(compiled)

    @_locked
    def detachFromDevice(self) -> None:
        """Reads the weights back (training) and releases the IPUs; the executable stays in memory."""
        compiled = self._require_compiled("detachFromDevice")
        if not compiled.executable.is_attached():
            raise errors.create_error("detachFromDevice: the model is not attached to a device.")
        self._detach(compiled)

    def _detach(self, compiled: Compiled) -> None:
        def leave():
            if self._optimizer_link is not None and not self._device_is_lost(compiled.executable):
                self._optimizer_link.before_detach()
            if compiled.executable.is_attached():
                compiled.executable.detach()

        self._between_calls(compiled, leave)

    def _device_is_lost(self, executable: poptorch_core.Executor) -> bool:
        """After a device fault nothing can be read back: the host keeps what it has."""
        if not executable.is_lost():
            return False
        if self._host_version != self._weights_version:
            logger.warning(
                "A device fault took the device: the weights of calls since the last copyWeightsToHost are lost."
            )
            self._host_version = self._weights_version
        return True

    @_locked
    def destroy(self) -> None:
        """Frees the executable and the device; a training wrapper gives the user model its own class back.

        Raises:
            poptorch.Error: a training wrapper that was used again after destroy(), which does not wrap its model twice.
        """
        if self._compiled is not None:
            self._destroy(self._compiled)

    def _destroy(self, compiled: Compiled) -> None:
        self._detach(compiled)
        was_wrapped = self._class_wrapped
        if self._optimizer_link is not None:
            self._optimizer_link.forget()
            weight_hooks.unwrap_tensors(self._user_model)
            if was_wrapped:
                weight_hooks.unwrap_class(self._user_model)
        self._compiled, self._class_wrapped = None, False  # last: what is interrupted is destroyed again
        if self._training and not was_wrapped:
            raise errors.create_error(
                "destroy: the model was never wrapped again after an earlier destroy(). The executable is freed; "
                "build a new wrapper with poptorch.trainingModel to train it further."
            )

    # --- weights ---
    @_locked
    def copyWeightsToHost(self) -> None:
        """Parameters and buffers from the device to the user model, always."""
        compiled = self._require_compiled("copyWeightsToHost")
        version = self._weights_version
        self._fixed_host.hold(self._read_states, compiled)  # the hooks of the tensors must not start another copy
        self._host_version = version

    def _read_states(self, compiled: Compiled) -> None:
        self._resize_to_replicas(compiled.states)
        compiled.executable.read_states(compiled.states)

    def _resize_to_replicas(self, states: dict[str, torch.Tensor]) -> None:
        """Parameters of which every replica's value is read back get one entry per replica."""
        replicas = self._options.replication_factor
        for name, (_, all_replicas) in self._groupings.items():
            if all_replicas and name in states and states[name].shape[0] != replicas:
                tensor = states[name]
                tensor.data = tensor.new_empty((replicas, *tensor.shape[1:]), requires_grad=False)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """The same, only if a training call made the host's values outdated; returns whether it copied."""
        if self._host_version == self._weights_version or self._compiled is None:
            return False
        return self._fetch_weights()

    @_locked
    def _fetch_weights(self) -> bool:
        version = self._weights_version
        if self._fixed_host.is_held() or self._host_version == version or self._compiled is None:
            return False
        if not self.isAttachedToDevice():  # a call that is about to attach: the device has nothing newer
            self._host_version = version
            return False
        self.copyWeightsToHost()
        return True

    @_locked
    def copyWeightsToDevice(self) -> None:
        """Parameters and buffers from the user model to the device. Unread device values are discarded."""
        compiled = self._require_compiled("copyWeightsToDevice")
        version = self._weights_version
        self._fixed_host.hold(self._write_states, compiled)
        self._host_version = version

    @_locked
    def copyNamedBuffersToDevice(self) -> None:
        """Only the buffers named with `Options.updatableNamedBuffers`, from the user model to the device.

        Raises:
            poptorch.Error: not compiled, or the option was not used.
            KeyError: a name that is no buffer of the model.
        """
        executable = self._require_compiled("copyNamedBuffersToDevice").executable
        if not self._options.exists("updatable_named_buffers"):
            raise errors.create_error(
                "copyNamedBuffersToDevice needs Options.updatableNamedBuffers([...]) before compiling."
            )
        buffers = dict(self._user_model.named_buffers())
        executable.write_states({name: buffers[name] for name in self._options.updatable_named_buffers})

    @_locked
    def load_state_dict(self, state_dict: collections.abc.Mapping[str, typing.Any], strict: bool = True) -> typing.Any:
        """Loads into the user model, and to the device when attached. Returns torch's (missing, unexpected) result."""
        if not self.isAttachedToDevice():
            return self._user_model.load_state_dict(state_dict, strict)

        def load():
            result = self._user_model.load_state_dict(state_dict, strict)
            self.copyWeightsToDevice()
            return result

        return self._between_calls(self._require_compiled("load_state_dict"), load)

    @_locked
    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Re-reads the hyper-parameters of `optimizer`; mandatory after any change of them.

        Raises:
            AssertionError: unsupported optimizer or value.
            ValueError: amsgrad, or an accumulator type that the compiled reduction cannot take.
            KeyError: a parameter that is not in the model.
            poptorch.Error: a constant hyper-parameter, the kind, or the groups changed after compilation.
        """
        link = self._optimizer_link
        if link is None:
            raise errors.create_error("setOptimizer is for training models: this is an inference model.")
        if self._compiled is None:
            link.set_optimizer(optimizer)
        else:
            self._compiled.executable.without_calls(lambda: link.set_optimizer(optimizer))

    @property
    def rng_state(self) -> list[int] | None:
        """What the random numbers of the next call depend on: `[seed, calls so far]`; docs/random.md.

        Before the first call: `[Options.randomSeed]`, or None when the option is not set. Assigning a list (of the
        same kind, copied) makes the calls that follow repeat the numbers of that point.

        Raises:
            poptorch.Error: not compiled or destroyed; a list of another form.
        """
        return rng.state(self._require_compiled("rng_state").executable, self._options)

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        rng.restore(self._require_compiled("rng_state").executable, state)

    # --- information ---
    @property
    def model(self) -> typing.Any:
        """The user model."""
        return self._user_model

    @property
    def options(self) -> Options:
        """The frozen options of this wrapper."""
        return self._options

    def compilationTime(self) -> datetime.timedelta:
        """Duration of the last compilation (datetime.timedelta)."""
        self._require_compiled("compilationTime")
        if not self._options._show_progress_bar:
            raise errors.create_error(
                "compilationTime is not available: the progress bar was disabled with "
                "Options.showCompilationProgressBar(False)."
            )
        return self._compilation_time

    def __repr__(self) -> str:
        from poptorch.ops import module_repr

        return module_repr(self._user_model)

    def __getattr__(self, name: str) -> typing.Any:
        if name.startswith("_"):
            raise AttributeError(f"'PoplarExecutor' object has no attribute '{name}'")
        return replication.with_setter(self, name, getattr(self._user_model, name))
