"""PopTorch on emulated IPUs: wrap a torch module, call it, train it.

trainer = poptorch.trainingModel(model, options, optimizer)
output, loss = trainer(images, labels)
"""

import atexit
import builtins
import faulthandler
import importlib
import os
import signal
import subprocess
import sys
import traceback
import types as _types
import typing as _typing

import torch

__version__ = "3.4.0-open.1"

_TORCH = "2.13."
assert torch.__version__.startswith(_TORCH), (
    f"poptorch {__version__} is built for torch {_TORCH}x but torch {torch.__version__} is installed. "
    "Install the matching release: pip install torch==2.13.0"
)
os.environ.setdefault("RDMAV_FORK_SAFE", "1")

from ipu_common import one_core as _one_core

_one_core.check()
from poptorch._impl import device_module as _device_module

try:
    _device_module.install()
    from poptorch import poptorch_core as poptorch_core
except ImportError as error:
    raise ImportError(
        "poptorch's native module could not be loaded. Where PopTorch asks to enable the Poplar SDK, build it here: "
        "`pip install --no-build-isolation .` or scripts/build."
    ) from error

# `as` the same name: type checkers take these for names of the package.
from ipu_common.reports import Report as Report
from poptorch import enums as enums, ops as ops, optim as optim, options as options, profiling as profiling
from poptorch._impl import environment as _environment, errors as _errors, log as _logging, not_yet as _not_yet
from poptorch._impl.capture.annotations import Attribute as Attribute, MultiConv as MultiConv
from poptorch._impl.capture.control_flow import cond as cond, for_loop as for_loop
from poptorch._impl.capture.custom_ops import (
    accessAttributes as accessAttributes,
    attributes_lists as attributes_lists,
    custom_op as custom_op,
)
from poptorch._impl.capture.host_calls import CPU as CPU
from poptorch._impl.data.accessor import AsynchronousDataAccessor as AsynchronousDataAccessor
from poptorch._impl.capture.compile_hooks import (
    registerPostCompileHook as registerPostCompileHook,
    registerPreCompileHook as registerPreCompileHook,
)
from poptorch._impl.data.loader import DataLoader as DataLoader
from poptorch._impl.capture.device_ops import (
    ipu_print_tensor as ipu_print_tensor,
    serializedMatMul as serializedMatMul,
    set_available_memory as set_available_memory,
)
from poptorch._impl.capture.overlap import (
    set_overlap_for_input as set_overlap_for_input,
    set_overlap_for_output as set_overlap_for_output,
)
from poptorch._impl.capture.slices_and_points import (
    ctc_beam_search_decoder as ctc_beam_search_decoder,
    dynamic_slice as dynamic_slice,
    dynamic_update as dynamic_update,
    fps as fps,
    nearest as nearest,
)
from poptorch._impl.session.executor import PoplarExecutor as PoplarExecutor
from poptorch._impl.session.load import load as load
from poptorch._impl.session import precompiled as _precompiled
from poptorch._impl.structures import (
    ICustomArgParser as ICustomArgParser,
    registerCustomArgParser as registerCustomArgParser,
)
from poptorch._impl.session.factories import inferenceModel as inferenceModel, trainingModel as trainingModel
from poptorch.enums import *
from poptorch.ops import (
    BeginBlock as BeginBlock,
    Block as Block,
    BlockFunction as BlockFunction,
    LegacyBeginBlockFn as LegacyBeginBlockFn,
    NameScope as NameScope,
    identity_loss as identity_loss,
    isRunningOnIpu as isRunningOnIpu,
    module_repr as module_repr,
    nop as nop,
    recomputationCheckpoint as recomputationCheckpoint,
    removeBlocks as removeBlocks,
)
from poptorch.options import (
    ConfigFileError as ConfigFileError,
    Options as Options,
    ParallelPhasedExecution as ParallelPhasedExecution,
    Phase as Phase,
    PipelinedExecution as PipelinedExecution,
    SerialPhasedExecution as SerialPhasedExecution,
    ShardedExecution as ShardedExecution,
    Stage as Stage,
    TensorLocationSettings as TensorLocationSettings,
)
from poptorch.poptorch_core import (
    Error as Error,
    RecoverableError as RecoverableError,
    UnrecoverableError as UnrecoverableError,
    getIpuTensorId as getIpuTensorId,
)

BlockId = str
createPoptorchError = _errors.create_error
importPoptorchMetadataFromFile = _precompiled.metadata_bytes
logger = _logging.logger


if _typing.TYPE_CHECKING:
    from poptorch import testing as testing
else:

    def __getattr__(name):
        if name == "testing":  # not loaded by `import poptorch`
            return importlib.import_module("poptorch.testing")
        raise _not_yet.package_attribute(name)


def setLogLevel(level: _typing.Union[str, int]) -> None:
    """Sets the log level: a name (TRACE, DEBUG, INFO, WARN, ERR, OFF) or its number. ValueError otherwise."""
    _logging.set_level(level)


def ipuHardwareIsAvailable(num_ipus: int = 1) -> bool:
    """True if the attached (emulated) system has a device with that many IPUs, free or not."""
    if _ipu_model_requested():
        return False
    return poptorch_core.ipuHardwareVersion(num_ipus) > 0


def ipuHardwareVersion() -> int:
    """Version of the attached system: 1, 2 or 21 (int); AssertionError when there is none."""
    assert ipuHardwareIsAvailable(), "there is no IPU hardware: an IPU model is selected by the environment"
    return poptorch_core.ipuHardwareVersion()


def _ipu_model_requested() -> bool:
    return any(_environment.flag(name) for name in ("POPTORCH_IPU_MODEL", "POPTORCH_SMALL_IPU_MODEL"))


def print(module: object) -> None:  # noqa: A001 (published name)
    """Prints a module with its block annotations, then without; anything else goes to the built-in print."""
    if isinstance(module, torch.nn.Module):
        builtins.print(module_repr(module))
    builtins.print(module)


def poptorchAtExit() -> None:
    """Shuts the native side down; called at interpreter exit."""
    poptorch_core.poptorchAtExit()


def _log_uncaught(
    kind: type[BaseException],
    value: BaseException,
    trace: _typing.Optional[_types.TracebackType],
    previous: _typing.Any = sys.excepthook,
) -> None:
    """Uncaught exceptions are logged with their traceback; of a failed child process also what it wrote."""
    if issubclass(kind, KeyboardInterrupt):
        previous(kind, value, trace)
        return
    text = "".join(traceback.format_exception(kind, value, trace)).rstrip()
    if isinstance(value, subprocess.CalledProcessError):
        output = value.stderr or value.stdout
        if output:
            text += "\n" + (output.decode(errors="replace") if isinstance(output, bytes) else str(output))
    logger.critical("Uncaught %s: %s\n%s", kind.__name__, value, text)
    if previous is not sys.__excepthook__:  # it would print the same traceback once more
        previous(kind, value, trace)


def _install_process_hooks() -> None:
    """Tensor printing, fault handler, uncaught exceptions, exit: the published side effects of the import."""
    import torch._tensor_str as tensor_str
    from poptorch._impl.capture.state import active

    original = tensor_str._str_intern

    def show(tensor: torch.Tensor, *args: _typing.Any, **kwargs: _typing.Any) -> str:
        if tensor.device.type == "ipu" and active() is not None:
            return f"tensor(<unavailable>, device='{tensor.device}', size={tuple(tensor.shape)}, dtype={tensor.dtype})"
        return original(tensor, *args, **kwargs)

    setattr(tensor_str, "_str_intern", show)
    if sys.stderr is not None and hasattr(sys.stderr, "fileno"):
        try:
            faulthandler.enable()
            faulthandler.register(signal.SIGTERM, chain=True)
        except (ValueError, OSError, RuntimeError):
            pass  # stderr without a file descriptor: there is nowhere to write a trace to
    sys.excepthook = _log_uncaught
    atexit.register(poptorchAtExit)
    try:
        from tqdm import std

        # A forked worker would wait for a lock that another process holds. The default one, made first, would also
        # leave a semaphore in every process that is killed, and settle how multiprocessing starts processes.
        lock = getattr(std.tqdm, "_lock", None) or std.TqdmDefaultWriteLock.__new__(std.TqdmDefaultWriteLock)
        lock.locks = []
        std.tqdm.set_lock(lock)
    except (ImportError, AttributeError):
        pass


_logging.install()
_install_process_hooks()
