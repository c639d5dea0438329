"""PoplarExecutor: the wrapper that `trainingModel` and `inferenceModel` return."""

from __future__ import annotations

import collections.abc
import copy
import datetime
import functools
import os
import typing
import weakref

import torch

from poptorch import enums, poptorch_core
from poptorch._impl import errors
from poptorch._impl.options import replication
from poptorch._impl.session import (
    compilation,
    device_weights,
    dry_run,
    inspection,
    job,
    precompiled,
    rng,
    sharing,
    weight_hooks,
)
from poptorch._impl.session.compiled import Compiled
from poptorch._impl.log import DEBUG, logger
from poptorch._impl.optimizer.link import OptimizerLink
from poptorch._impl.session.state import WrapperState
from poptorch._impl.structures import rebuild, tensors_of
from poptorch.options import Options

_Result = typing.TypeVar("_Result")
_Method = typing.TypeVar("_Method", bound=collections.abc.Callable[..., typing.Any])


def _refuse_backward(*args, **kwargs):
    raise errors.create_error(
        "backward() cannot be called on a result of a poptorch model: the backward pass and the weight "
        "update run inside the call of the training model."
    )


def _locked(method: _Method) -> _Method:
    """A method of the wrapper that one thread at a time is in."""

    @functools.wraps(method)
    def held(self, *args, **kwargs):
        return self._state.lock.hold(method, self, *args, **kwargs)

    return typing.cast(_Method, held)


class PoplarExecutor(inspection.Inspection):
    """Runs a model on emulated IPUs. Made by `poptorch.trainingModel` and `poptorch.inferenceModel`.

    Any thread may use it (docs/threads.md). Whatever changes its life, its weights on the host or its optimizer holds
    the lock of its state; a call does not, it only takes the device, in the native part.
    """

    def __init__(
        self,
        model: typing.Any,
        options: Options,
        training: bool,
        optimizer: torch.optim.Optimizer | None = None,
        origins: tuple[typing.Any, ...] = (),
    ) -> None:
        self._state = state = WrapperState(model, options, training, origins)
        state.owner = weakref.ref(self)
        if training:
            names = {id(tensor): name for name, tensor in model.named_parameters()}
            state.optimizer_link = OptimizerLink(state, optimizer, names, options)
            weight_hooks.wrap_tensors(model, state.owner)
            weight_hooks.wrap_class(model, self, state.lock)
            state.class_wrapped = True

    def __copy__(self) -> PoplarExecutor:
        made = type(self).__new__(type(self))
        made.__dict__.update(self.__dict__)
        made._state = copy.copy(self._state)
        made._state.owner = weakref.ref(made)
        return made

    def __reduce_ex__(self, protocol: typing.SupportsIndex) -> typing.NoReturn:
        raise errors.create_error(
            "a wrapper cannot be pickled or copied deeply: its program and its state are on a device. Pickle the model or its "
            "state_dict(); save() writes the compiled program to a file, which poptorch.load reads."
        )

    @property
    def _executable(self) -> poptorch_core.Executor | None:
        return self._state.executable

    @property
    def _optimizer(self) -> torch.optim.Optimizer | None:
        """The current optimizer of a training wrapper."""
        link = self._state.optimizer_link
        return link.optimizer if link is not None else None

    # --- compilation ---
    @_locked
    def compile(self, *args: typing.Any, **kwargs: typing.Any) -> None:
        """Builds the program (and attaches) without running it; inputs are only examples.

        With parameters, buffers or inputs on meta (`torch.device("meta")`) it is a dry run: nothing is allocated, and the
        compiled model can be reported on and not run.
        """
        if self._state.compiled is not None:
            logger.warning("Call to compile() ignored: the executable is already compiled.")
            return
        names, values, keywords = self._state.binder.bind(args, kwargs)
        on_meta = dry_run.states_on_meta(self._state.traced_model) + dry_run.inputs_on_meta(names, values)
        self._compile(names, values, keywords, on_meta=tuple(on_meta))

    @_locked
    def _compile_for_a_call(self, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> Compiled:
        if self._state.compiled is None:  # no other thread was first
            if on_meta := dry_run.states_on_meta(self._state.traced_model):
                raise dry_run.refusal("calling the model", on_meta)
            self._compile(*self._state.binder.bind(args, kwargs))
        return self._state.require_compiled("calling the model")

    def _compile(
        self,
        names: list[str],
        values: list[typing.Any],
        keywords: list[str | None],
        from_file: poptorch_core.ExecutableFile | None = None,
        on_meta: tuple[str, ...] = (),
    ) -> None:
        state = self._state
        compiled = compilation.compile_program(state, names, values, keywords, from_file, on_meta)
        state.host_version = state.weights_version  # the device has nothing newer
        sharing.enter(state)
        inspection.write_reports(compiled.executable, state.options, state.model_name())
        if compiled.executable.is_attached():
            self._on_attach(compiled)

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
    def save(self, filename: str | os.PathLike[str], export_model: bool = True, save_rng_state: bool = True) -> None:
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
            self._state.require_program("save"),
            lambda: precompiled.save(self._state, filename, export_model, save_rng_state),
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
        if self._state.compiled is not None:
            logger.warning("Call to loadExecutable() ignored: the executable is already compiled.")
            return
        precompiled.load_into(self._state, self._compile, filename, trusted)

    def _attach(self, compiled: Compiled) -> None:
        compiled.executable.attach()
        self._on_attach(compiled)

    def _on_attach(self, compiled: Compiled) -> None:
        """Weights and optimizer state go to a fresh device; then it takes calls."""
        try:
            device_weights.write(self._state, compiled)
            if self._state.optimizer_link is not None:
                self._state.optimizer_link.on_attach()
            rng.log_writing(compiled.executable)
        except BaseException:
            compiled.executable.detach()
            raise
        self._state.host_version = self._state.weights_version
        compiled.executable.accept_calls(True)

    def _between_calls(self, compiled: Compiled, body: collections.abc.Callable[[], _Result]) -> _Result:
        """`body()` for the holder of the lock: no call runs inside, one that runs now ends first, others wait. The host's
        weights are brought up to date before and then stay as they are."""

        def alone():
            if not self._device_is_lost(compiled.executable):
                self.copyWeightsToHostIfNeeded()
            return self._state.fixed_host.hold(body)

        return compiled.executable.without_calls(alone)

    # --- calls ---
    def __call__(self, *args: typing.Any, **kwargs: typing.Any) -> typing.Any:
        compiled = self._state.compiled
        if compiled is None:
            compiled = self._compile_for_a_call(args, kwargs)
        if not compiled.executable.is_attached():
            self._attach_for_a_call(compiled)
        state = self._state
        if state.is_stale or state.partners.trainers:
            device_weights.take_newest(state, compiled)
        link = state.optimizer_link
        if link is not None:
            if state.in_job:
                job.check_exchange(state.options)
            if link.host.pending:
                self._upload_optimizer(compiled, link)
        result = None
        if compiled.call is not None and not kwargs:
            result = compiled.call(args)
        if result is None:
            result = self._call_general(compiled, args, kwargs)
        if self._state.counts_cycles and poptorch_core.log_enabled(DEBUG):
            poptorch_core.log(DEBUG, f"Total number of IPU cycles: {compiled.executable.cycles()}")
        if self._state.training:
            for tensor in (result,) if isinstance(result, torch.Tensor) else tensors_of(result):
                tensor.backward = _refuse_backward  # type: ignore[method-assign] # of this tensor alone
        return result

    @_locked
    def _attach_for_a_call(self, compiled: Compiled) -> None:
        if compiled.on_meta:
            raise dry_run.refusal("calling the model", compiled.on_meta)
        assert self._state.options.connection_type != enums.ConnectionType.Never, (
            "the model cannot be run: its options say poptorch.ConnectionType.Never (offline compilation)"
        )
        if self._state.compiled is not compiled:
            raise errors.create_error(
                "the model was destroyed in another thread while it was called here. Call it again to compile it anew."
            )
        if not compiled.executable.is_attached():
            self._attach(compiled)
        elif not compiled.executable.accepts_calls():  # something failed after it was attached
            self._on_attach(compiled)

    @_locked
    def _upload_optimizer(self, compiled: Compiled, link: OptimizerLink) -> None:
        if self._state.compiled is compiled and link.host.pending and self.isAttachedToDevice():
            self._between_calls(compiled, link.before_run)

    def _call_general(
        self, compiled: Compiled, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]
    ) -> typing.Any:
        names, values, _ = self._state.binder.bind(args, kwargs)
        if names != compiled.argument_names:
            values = self._state.binder.align(names, values, compiled.argument_names)
        values = compilation.clean_inputs(self._state, compiled.argument_names, values)
        tensors = compiled.signature.flatten(values)
        while (outputs := compiled.executable.run(tensors)) is None:  # another thread took the device away
            self._attach_for_a_call(compiled)
        return rebuild(compiled.result_structure, iter(outputs))

    # --- life cycle ---
    def isCompiled(self) -> bool:
        """Is there an executable?"""
        return self._state.compiled is not None

    def isAttachedToDevice(self) -> bool:
        """Is a device held? False when not compiled."""
        return self._state.is_attached()

    @_locked
    def attachToDevice(self) -> None:
        """Acquires IPUs and uploads the weights. poptorch.Error when not compiled, attached already, or none is free."""
        compiled = self._state.require_program("attachToDevice")
        assert self._state.options.connection_type != enums.ConnectionType.Never, (
            "attachToDevice: the options say poptorch.ConnectionType.Never (offline compilation)"
        )
        if compiled.executable.is_attached():
            raise errors.create_error("attachToDevice: the model is already attached to a device.")
        self._attach(compiled)

    @_locked
    def detachFromDevice(self) -> None:
        """Reads the weights back (training) and releases the IPUs; the executable stays in memory."""
        compiled = self._state.require_compiled("detachFromDevice")
        if not compiled.executable.is_attached():
            raise errors.create_error("detachFromDevice: the model is not attached to a device.")
        self._detach(compiled)

    def _detach(self, compiled: Compiled) -> None:
        def leave():
            if not self._device_is_lost(compiled.executable):
                if compiled.executable.is_attached():
                    rng.log_reading(compiled.executable)
                if self._state.optimizer_link is not None:
                    self._state.optimizer_link.before_detach()
            if compiled.executable.is_attached():
                compiled.executable.detach()

        self._between_calls(compiled, leave)

    def _device_is_lost(self, executable: poptorch_core.Executor) -> bool:
        """After a device fault nothing can be read back: the host keeps what it has."""
        if not executable.is_lost():
            return False
        if self._state.host_version != self._state.weights_version:
            logger.warning(
                "A device fault took the device: the weights of calls since the last copyWeightsToHost are lost."
            )
            self._state.host_version = self._state.weights_version
        return True

    @_locked
    def destroy(self) -> None:
        """Frees the executable and the device; a training wrapper gives the user model its own class back.

        Raises:
            poptorch.Error: a training wrapper that was used again after destroy(), which does not wrap its model twice.
        """
        if self._state.compiled is not None:
            self._destroy(self._state.compiled)

    def _destroy(self, compiled: Compiled) -> None:
        self._detach(compiled)
        was_wrapped = self._state.class_wrapped
        if self._state.optimizer_link is not None:
            self._state.optimizer_link.forget()
            weight_hooks.unwrap_tensors(self._state.user_model, self)
            if was_wrapped:
                weight_hooks.unwrap_class(self._state.user_model)
        sharing.leave(self._state)
        self._state.compiled, self._state.class_wrapped = None, False  # last: what is interrupted is destroyed again
        if self._state.training and not was_wrapped:
            raise errors.create_error(
                "destroy: the model was never wrapped again after an earlier destroy(). The executable is freed; "
                "build a new wrapper with poptorch.trainingModel to train it further."
            )

    # --- weights ---
    @_locked
    def copyWeightsToHost(self) -> None:
        """Parameters and buffers from the device to the user model, always."""
        compiled = self._state.require_program("copyWeightsToHost")
        if compiled.executable.is_attached():
            device_weights.take_newest(self._state, compiled)
        device_weights.read(self._state, compiled)

    def copyWeightsToHostIfNeeded(self) -> bool:
        """The same, only if a training call made the host's values outdated; returns whether it copied."""
        device_weights.fetch_from_partners(self._state)
        return device_weights.fetch(self._state)

    @_locked
    def copyWeightsToDevice(self) -> None:
        """Parameters and buffers from the user model to the device. Unread device values are discarded."""
        device_weights.upload(self._state, self._state.require_program("copyWeightsToDevice"))
        if self._state.training:
            sharing.publish(self._state)

    @_locked
    def copyNamedBuffersToDevice(self) -> None:
        """Only the buffers named with `Options.updatableNamedBuffers`, from the user model to the device.

        Raises:
            poptorch.Error: not compiled, or the option was not used.
            KeyError: a name that is no buffer of the model.
        """
        executable = self._state.require_program("copyNamedBuffersToDevice").executable
        if not self._state.options.exists("updatable_named_buffers"):
            raise errors.create_error(
                "copyNamedBuffersToDevice needs Options.updatableNamedBuffers([...]) before compiling."
            )
        buffers = dict(self._state.user_model.named_buffers())
        executable.write_states({name: buffers[name] for name in self._state.options.updatable_named_buffers})

    @_locked
    def load_state_dict(self, state_dict: collections.abc.Mapping[str, typing.Any], strict: bool = True) -> typing.Any:
        """Loads into the user model, and to the device when attached. Returns torch's (missing, unexpected) result."""
        if not self.isAttachedToDevice():
            result = self._state.user_model.load_state_dict(state_dict, strict)
            if self._state.training:
                sharing.publish_model(self._state)
            return result

        def load():
            result = self._state.user_model.load_state_dict(state_dict, strict)
            self.copyWeightsToDevice()
            return result

        return self._between_calls(self._state.require_compiled("load_state_dict"), load)

    @_locked
    def setOptimizer(self, optimizer: torch.optim.Optimizer) -> None:
        """Re-reads the hyper-parameters of `optimizer`; mandatory after any change of them.

        Raises:
            AssertionError: unsupported optimizer or value.
            ValueError: amsgrad, or an accumulator type that the compiled reduction cannot take.
            KeyError: a parameter that is not in the model.
            poptorch.Error: a constant hyper-parameter, the kind, or the groups changed after compilation.
        """
        link = self._state.optimizer_link
        if link is None:
            raise errors.create_error("setOptimizer is for training models: this is an inference model.")
        if self._state.compiled is None:
            link.set_optimizer(optimizer)
        else:
            self._state.compiled.executable.without_calls(lambda: link.set_optimizer(optimizer))

    @property
    def rng_state(self) -> list[int] | None:
        """What the random numbers of the next call depend on: `[seed, calls so far]`; docs/random.md.

        Before the first call: `[Options.randomSeed]`, or None when the option is not set. Assigning a list (of the
        same kind, copied) makes the calls that follow repeat the numbers of that point.

        Raises:
            poptorch.Error: not compiled or destroyed; a list of another form.
        """
        return rng.state(self._state.require_compiled("rng_state").executable, self._state.options)

    @rng_state.setter
    def rng_state(self, state: list[int]) -> None:
        rng.restore(self._state.require_compiled("rng_state").executable, state)

    # --- information ---
    @property
    def model(self) -> typing.Any:
        """The user's module; of an inference wrapper the shallow copy of it that is captured: what is set on it before
        compiling counts (`model.eval()`), parameters and buffers are shared."""
        return self._state.user_model

    @property
    def options(self) -> Options:
        """The frozen options of this wrapper."""
        return self._state.options

    def compilationTime(self) -> datetime.timedelta:
        """Duration of the last compilation (datetime.timedelta)."""
        self._state.require_compiled("compilationTime")
        if not self._state.options._show_progress_bar:
            raise errors.create_error(
                "compilationTime is not available: the progress bar was disabled with "
                "Options.showCompilationProgressBar(False)."
            )
        return self._state.compilation_time

    def __repr__(self) -> str:
        from poptorch.ops import module_repr

        return module_repr(self._state.user_model)

    def __getattr__(self, name: str) -> typing.Any:
        if name.startswith("_"):
            raise AttributeError(f"'PoplarExecutor' object has no attribute '{name}'")
        return replication.with_setter(self._state, name, getattr(self._state.user_model, name))


# --- for the other modules of the package
def state_of(executor: PoplarExecutor) -> WrapperState:
    return executor._state


def adopt(executor: PoplarExecutor, read: precompiled.Precompiled) -> None:
    """Takes the program of a file that was read."""
    precompiled.adopt(executor._state, executor._compile, read)
