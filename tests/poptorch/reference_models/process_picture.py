"""A picture of what a process has that programs share: what differs between two of them, something has changed.

Of torch, numpy, onnx and the standard library: attributes of modules, dictionaries and slots of classes, modes, hooks,
filters, random states, what belongs to the thread, what the interpreter and the system know of the process.
"""

import builtins
import ctypes
import gc
import locale
import logging
import os
import random
import resource
import signal
import sys
import threading
import types
import warnings

import numpy as np

OURS = ("poptorch", "popart", "popxl", "popdist", "ipu_core", "popart_core")
OURS += ("process_picture", "plain_expressions", "__main__", "__mp_main__")
# Counters, and what Python fills in when it is asked.
OF_USE = ("__warningregistry__", "__path__", "_cache", "next_id", "_name_sequence", "tempdir")
TABLES = {"as_async": (80, 4), "as_number": (96, 36), "as_sequence": (104, 10), "as_mapping": (112, 3)}
TABLES["as_buffer"] = (160, 2)
SINGLE = "48 64 72 88 120 128 136 144 152 184 192 200 216 224 256 264 272 280 296 304 312 320 328 392 400"


def words(address, count):
    return tuple((ctypes.c_void_p * count).from_address(address))


def slots(kind):
    """The C slots of a class, as CPython 3.11 lays them out."""
    own = {f"tp+{offset}": words(id(kind) + int(offset), 1) for offset in SINGLE.split()}
    tables = {name: words(id(kind) + at, 1)[0] for name, (at, _) in TABLES.items()}
    return own | {name: words(address, TABLES[name][1]) for name, address in tables.items() if address}


def is_ours(name):
    return name.split(".")[0] in OURS or name.startswith(("test_", "_pytest", "pytest"))


def modules():
    return {name: module for name, module in sorted(sys.modules.items()) if type(name) is str and not is_ours(name)}


def roots():
    """Classes that stand for all below them: those of Python, of numpy, and of torch where programs derive."""
    found = [kind for kind in vars(builtins).values() if isinstance(kind, type) and kind is not object]
    found += [threading.Thread, types.ModuleType, np.ndarray, np.generic, np.ufunc, np.random.Generator]
    if "torch" in sys.modules:
        import torch

        found += [
            torch.Tensor,
            torch.nn.Module,
            torch.autograd.Function,
            torch.optim.Optimizer,
            torch.utils.data.Dataset,
        ]
        found += [
            torch.utils.data.DataLoader,
            torch.utils.data.Sampler,
            torch.distributions.Distribution,
            torch.Generator,
        ]
        found += [torch.dtype, torch.device, torch.Size, torch.UntypedStorage, torch.utils.hooks.RemovableHandle]
    if "onnx" in sys.modules:
        import onnx

        found += [onnx.ModelProto, onnx.GraphProto, onnx.NodeProto, onnx.TensorProto]
    return found


def classes():
    found = {id(kind): kind for kind in roots()}
    waiting = [kind for kind in found.values() if not is_of_python(kind)]
    while waiting:
        for kind in type.__subclasses__(waiting.pop()):
            if id(kind) not in found:
                found[id(kind)] = kind
                waiting.append(kind)
    return [kind for kind in found.values() if not is_ours(str(kind.__module__))]


def is_of_python(kind):
    return vars(builtins).get(kind.__name__) is kind


class Same:
    """Compares by identity, and keeps the object alive."""

    def __init__(self, value):
        self.value = value

    def __eq__(self, other):
        return isinstance(other, Same) and self.value is other.value

    def __hash__(self):
        return id(self.value)

    def __repr__(self):
        return f"<{type(self.value).__name__} at {id(self.value):#x}>"


def of_python():
    """Of the interpreter and the process."""
    with open("/proc/self/status") as file:
        lines = dict(line.split(":", 1) for line in file)
    return {
        "filters of warnings": list(warnings.filters),
        "showwarning": Same(warnings.showwarning),
        "sys hooks": [
            Same(getattr(sys, name)) for name in ("excepthook", "displayhook", "unraisablehook", "breakpointhook")
        ],
        "threading.excepthook": Same(threading.excepthook),
        "trace": [
            Same(sys.gettrace()),
            Same(sys.getprofile()),
            Same(threading.gettrace()),
            Same(threading.getprofile()),
        ],
        "streams": [Same(sys.stdin), Same(sys.stdout), Same(sys.stderr)],
        "sys": [sys.getrecursionlimit(), sys.getswitchinterval(), sys.dont_write_bytecode, sys.flags],
        "path": list(sys.path),
        "finders": [Same(finder) for finder in (*sys.meta_path, *sys.path_hooks)],
        "signals": {number: Same(signal.getsignal(number)) for number in signal.valid_signals()},
        "masks": {
            name: int(lines[name], 16) & ~(3 << 31) for name in ("SigBlk", "SigIgn", "SigCgt")
        },  # two are the C library's
        "mask of files": lines["Umask"],
        "timers": [
            signal.getitimer(timer) for timer in (signal.ITIMER_REAL, signal.ITIMER_VIRTUAL, signal.ITIMER_PROF)
        ],
        "environment": dict(os.environ),
        "folder": os.getcwd(),
        "limits": [
            resource.getrlimit(limit) for limit in (resource.RLIMIT_NOFILE, resource.RLIMIT_AS, resource.RLIMIT_CORE)
        ],
        "locale": locale.setlocale(locale.LC_ALL),
        "gc": [gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 0, gc.get_debug(), len(gc.callbacks)],
        "logging": [
            logging.root.level,
            list(logging.root.handlers),
            list(logging.root.filters),
            logging.root.manager.disable,
        ],
        "random": random.getstate(),
        "numpy": [np.geterr(), np.geterrcall(), np.get_printoptions(), repr(np.random.get_state())],
    }


def of_torch():
    """Of torch: process and calling thread."""
    import torch

    hooks = [name for name in vars(torch.nn.modules.module) if name.startswith("_global_") and name.endswith("hooks")]
    types_of_autocast = ("cpu", "cuda", "ipu")
    return {
        "modes": [torch.is_grad_enabled(), torch.is_inference_mode_enabled(), torch.is_anomaly_enabled()],
        "mode stacks": [torch._C._len_torch_function_stack(), torch._C._len_torch_dispatch_stack()],
        "functions": [torch._C._is_torch_function_enabled(), torch._C._is_torch_function_all_disabled()],
        "keys": [str(torch._C._dispatch_tls_local_include_set()), str(torch._C._dispatch_tls_local_exclude_set())],
        "tracing": [torch._C._get_tracing_state(), torch.jit.is_tracing()],
        "functorch": torch._C._functorch.maybe_current_level(),
        "autocast": [torch.is_autocast_enabled(kind) for kind in types_of_autocast],
        "types of autocast": [torch.get_autocast_dtype(kind) for kind in types_of_autocast],
        "autocast cache": torch.is_autocast_cache_enabled(),
        "defaults": [torch.get_default_dtype(), str(torch.get_default_device())],
        "threads": [torch.get_num_threads(), torch.get_num_interop_threads()],
        "deterministic": [torch.are_deterministic_algorithms_enabled(), torch.get_deterministic_debug_mode()],
        "flush": torch.ones(1).mul(1e-41).item(),
        "precision": torch.get_float32_matmul_precision(),
        "random": [torch.get_rng_state().tolist(), torch.initial_seed()],
        "saved tensors": torch._C._autograd._saved_tensors_hooks_is_enabled(),
        "warn always": torch.is_warn_always_enabled(),
        "hooks of modules": {name: list(getattr(torch.nn.modules.module, name).items()) for name in hooks},
        "multithreading": torch.autograd.is_multithreading_enabled(),
        "validation": torch.distributions.Distribution._validate_args,
        "printing": vars(torch._tensor_str.PRINT_OPTS).copy(),
        "backends": [
            torch.backends.mkldnn.enabled,
            torch.backends.cudnn.enabled,
            torch.backends.mha.get_fastpath_enabled(),
        ],
        "built-in functions of scripts": {
            key: name
            for key, name in torch.jit._builtins._get_builtin_table().items()
            if not name.startswith("poptorch::")
        },
        "sharing": torch.multiprocessing.get_sharing_strategy(),
        "profiler": torch.autograd._profiler_enabled(),
    }


def take():
    """The picture: values by what they are of, and dictionaries of modules and classes, whose values are compared by identity."""
    values = {("python", name): value for name, value in of_python().items()}
    if "torch" in sys.modules:
        values |= {("torch", name): value for name, value in of_torch().items()}
    tables = {}
    for name, module in modules().items():
        values["class of module", name] = Same(type(module))
        tables["module", name] = dict(vars(module)) if isinstance(module, types.ModuleType) else {"": module}
    for kind in classes():
        values["slots", kind] = slots(kind)
        tables["class", kind] = dict(vars(kind))
    return values, tables


def differences(before, after):
    """What `after` has otherwise (list of keys). What was loaded meanwhile does not count."""
    (values, tables), (new_values, new_tables) = before, after
    changed = [key for key, value in values.items() if key not in new_values or new_values[key] != value]
    for key, table in tables.items():
        new = new_tables.get(key, {})
        for name in table.keys() | new.keys():
            if str(name).endswith(OF_USE) or name in OURS:
                continue
            missing = object()
            was, now = table.get(name, missing), new.get(name, missing)
            loaded = was is missing and isinstance(now, types.ModuleType) and sys.modules.get(f"{key[1]}.{name}") is now
            if was is not now and not loaded:
                changed.append((*key, name))
    return changed
