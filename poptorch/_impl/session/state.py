"""What one wrapper holds, for the modules that work for it: they are handed this object, not the wrapper."""

from __future__ import annotations

import contextlib
import datetime
import typing
import weakref

import torch
from torch.utils import weak

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.session import dry_run, job, sharing, weight_hooks
from poptorch._impl.session.binding import ArgumentBinder
from poptorch._impl.session.compiled import Compiled
from poptorch.options import Options

if typing.TYPE_CHECKING:
    from poptorch._impl.optimizer.link import OptimizerLink

# Wrappers of one model, or of models that share tensors, have one lock: while one of them records forward, the tensors
# are symbols.
_locks: weakref.WeakKeyDictionary[typing.Any, poptorch_core.WaitLock] = weakref.WeakKeyDictionary()
_locks_of_tensors: typing.MutableMapping[torch.Tensor, poptorch_core.WaitLock] = weak.WeakIdKeyDictionary()


def _lock_of(model: typing.Any) -> poptorch_core.WaitLock:
    tensors = [*model.parameters(), *model.buffers()] if isinstance(model, torch.nn.Module) else []
    locks = (_locks_of_tensors.get(tensor) for tensor in tensors)
    lock = next((lock for lock in locks if lock is not None), None) or poptorch_core.WaitLock("the wrapped model")
    with contextlib.suppress(TypeError):  # a callable of a class without weak references, or without a hash
        lock = _locks.setdefault(model, lock)
    for tensor in tensors:
        _locks_of_tensors.setdefault(tensor, lock)
    return lock


class _CallableModule(torch.nn.Module):
    """A plain callable as a module without state."""

    def __init__(self, function):
        super().__init__()
        self._function = function

    def forward(self, *args, **kwargs):
        return self._function(*args, **kwargs)


class WrapperState:
    """The state of one `PoplarExecutor`, which alone keeps it: others look at it weakly, or for the time of a call.

    Whatever changes it holds `lock`. A call of the model only reads it.
    """

    def __init__(
        self, model: typing.Any, options: Options, training: bool, origins: tuple[typing.Any, ...] = ()
    ) -> None:
        is_module = isinstance(model, torch.nn.Module)
        self.traced_model = weight_hooks.plain_model(model) if is_module else _CallableModule(model)
        # What the wrapper shows: the user's own object when training, else the copy that is captured.
        self.user_model = self.traced_model if is_module and not training else model
        # Models that share the parameters and may be wrapped for training: what the copy was made of, and so on.
        self.origins = (model, *origins)
        self.options = options
        self.training = training
        self.in_job = job.number_of_processes(options) > 1
        self.binder = ArgumentBinder(model)
        self.lock = _lock_of(model)
        if self.user_model is not model:
            with contextlib.suppress(TypeError):  # as above
                _locks[self.user_model] = self.lock
        self.compiled: Compiled | None = None
        self.counts_cycles = bool(options._Popart.options.get("instrumentWithHardwareCycleCounter"))
        self.compilation_time = datetime.timedelta()  # the last one took
        self.warned: set[str] = set()  # kinds of inputs this wrapper has warned of
        self.optimizer_link: OptimizerLink | None = None  # training only
        self.host_version = 0  # the version the host has; another one: the device's weights are newer
        # Held while weights move between the two, by the holder of the lock: nobody fetches them then.
        self.fixed_host = poptorch_core.WaitLock("the weights on the host")
        self.partners = sharing.Partners()  # wrappers that share states with this one
        self.is_stale = False  # the host has newer values than the device, from one of them
        self.class_wrapped = False
        self.owner: weakref.ref[typing.Any]  # the wrapper, which sets it
        # The replica groups of parameters by name: ((size, stride), whether one value per replica is read back).
        self.groupings: dict[str, tuple[tuple[int, int], bool]] = {}

    @property
    def executable(self) -> poptorch_core.Executor | None:
        compiled = self.compiled
        return compiled.executable if compiled is not None else None

    @property
    def weights_version(self) -> int:
        """The version of the weights on the device. The executable counts it, so all threads see each ended run."""
        compiled = self.compiled
        if compiled is None or not self.training:
            return self.host_version
        return compiled.executable.weights_version()

    def device_states(self) -> typing.Iterable[torch.Tensor]:
        """The parameters and buffers of the program."""
        return self.compiled.states.values() if self.compiled is not None else ()

    def is_attached(self) -> bool:
        executable = self.executable
        return executable is not None and executable.is_attached()

    def require_compiled(self, what: str) -> Compiled:
        """The compilation. poptorch.Error naming `what` when there is none."""
        compiled = self.compiled
        if compiled is None:
            raise errors.create_error(
                f"{what}: the model has not been compiled or has been destroyed. Call it or compile() first."
            )
        return compiled

    def require_program(self, what: str) -> Compiled:
        """The compilation. poptorch.Error naming `what` when there is none, or when it was a dry run."""
        compiled = self.require_compiled(what)
        if compiled.on_meta:
            raise dry_run.refusal(what, compiled.on_meta)
        return compiled

    def model_name(self) -> str:
        options = self.options
        return options.model_name if options.exists("model_name") else "training" if self.training else "inference"
