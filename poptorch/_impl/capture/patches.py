"""What is replaced in torch while `forward` is captured. `poptorch_core.Changes` puts it back whatever happens.

Other threads see what torch has (replacements.py). Somebody may keep a replacement: it calls the original unless the
calling thread is the one that captures (`capture_state.active`).
"""

from __future__ import annotations

import functools
import sys

import torch
import torch.utils.checkpoint

from poptorch._impl.capture import (
    gradients,
    lazy_modules,
    plain_shapes,
    random_states,
    slicing,
    state as capture_state,
)
from poptorch._impl.capture.replacements import in_class, in_module
from poptorch._impl.log import warn_once

_FACTORIES = (
    "arange",
    "empty",
    "full",
    "full_like",
    "linspace",
    "logspace",
    "ones",
    "rand",
    "randint",
    "randn",
    "randperm",
    "range",
    "tensor",
    "zeros",
    "zeros_like",
)


def _redirected_factory(name, original):

    def factory(*args, **kwargs):
        if kwargs.get("device") is None and capture_state.active() is not None:
            warn_once(
                ("factory", name),
                f"torch.{name} without device= in forward: created on the IPU. Pass device= to choose explicitly.",
            )
            kwargs["device"] = "ipu"
        return original(*args, **kwargs)

    factory.__name__ = name
    return factory


def _redirected_normal(original):

    def normal(*args, **kwargs):
        has_tensor = any(isinstance(a, torch.Tensor) for a in (*args, *kwargs.values()))
        if capture_state.active() is not None and not has_tensor and kwargs.get("device") is None:
            kwargs["device"] = "ipu"
        return original(*args, **kwargs)

    return normal


def _module_call(original):

    def call(self, *args, **kwargs):
        capture = capture_state.active()
        if capture is None:
            return original(self, *args, **kwargs)
        capture.push_module(self)
        try:
            if lazy_modules.is_waiting(self):
                capture.initialise_lazy(self, args, kwargs)
            return original(self, *args, **kwargs)
        finally:
            capture.pop_module()

    return call


def _ignored_hook(original):

    def register_hook(self, hook):
        if capture_state.active() is None or self.device.type != "ipu":
            return original(self, hook)
        warn_once("register_hook", "Tensor.register_hook in forward: the hook is never called on the IPU.")
        return original(self, hook)

    return register_hook


def _to_numpy(original):

    def numpy(self, *args, **kwargs):
        is_ours = capture_state.active() is not None and self.device.type == "ipu"
        return original(self.cpu() if is_ours else self, *args, **kwargs)

    return numpy


def _is_tracing(original):

    def is_tracing():
        if capture_state.active() is None:
            return original()
        # Library code asks in order to leave out checks on values; functional_call asks in order to refuse.
        return sys._getframe(1).f_globals.get("__name__") != "torch.nn.utils.stateless"

    return is_tracing


def _inline_checkpoint(original):
    """`CheckpointFunction.apply` that runs the function so that its operations are seen as written."""

    def apply(cls, function, preserve_rng_state, *args):
        if capture_state.active() is None:
            return original.__get__(None, cls)(function, preserve_rng_state, *args)
        return function(*args)

    return classmethod(apply)


def _no_fast_path(original):

    def get_fastpath_enabled():
        return capture_state.active() is None and original()

    return get_fastpath_enabled


def _eager_compile(original):

    def compile(*args, **kwargs):
        if capture_state.active() is None:
            return original(*args, **kwargs)
        model = args[0] if args else kwargs.get("model")
        return model if model is not None else lambda f: f

    return compile


def _make_known_to_scripts(original, replacement, changes):
    """`torch.jit.script`, which another thread may be using, takes `replacement` for the built-in function it stands for."""
    table = torch.jit._builtins._get_builtin_table()
    if id(original) in table:
        changes.at_end(lambda: table.pop(id(replacement), None))
        table[id(replacement)] = table[id(original)]


# Loss functions whose value torch computes in Python from operators: always, or when `weight` is given.
_PYTHON_LOSSES = ("kl_div", "multilabel_soft_margin_loss")
_WEIGHTED_LOSSES = ("huber_loss", "l1_loss", "mse_loss")


def _marked_loss(original, only_weighted):

    @functools.wraps(original)
    def loss(*args, **kwargs):
        value = original(*args, **kwargs)
        is_composed = not only_weighted or kwargs.get("weight") is not None
        is_composed = is_composed and capture_state.active() is not None
        return torch.ops.poptorch.identity_loss(value, "none") if is_composed else value

    setattr(loss, "__original_fn", original)  # what torch.jit.script compiles
    setattr(loss, "__script_if_tracing_wrapper", True)
    return loss


def _cumulative_average(original):
    """Batch norm with `momentum=None`: torch reads the number of batches on the host, here it stays on the device."""

    def forward(self, input):
        if self.momentum is not None or not self.training or self.num_batches_tracked is None:
            return original(self, input)
        self._check_input_dim(input)
        self.num_batches_tracked.add_(1)
        share = 1.0 / self.num_batches_tracked.to(self.running_mean.dtype)
        dims = [dim for dim in range(input.dim()) if dim != 1]
        variance, mean = torch.var_mean(input.detach(), dims)
        self.running_mean.lerp_(mean.to(self.running_mean.dtype), share)
        self.running_var.lerp_(variance.to(self.running_var.dtype), share)
        return torch.nn.functional.batch_norm(input, None, None, self.weight, self.bias, True, 0.0, self.eps)

    return forward


def _unread_mask(original):
    """torch looks at a mask's values to find that it is the causal one, which is a hint for speed alone: the mask itself is used."""

    @functools.wraps(original)
    def is_causal_mask(mask, is_causal=None, size=None):
        if capture_state.active() is None or mask is None or mask.device.type != "ipu":
            return original(mask, is_causal, size)
        return is_causal is True

    return is_causal_mask


class _Stance:
    """What torch.compile does with what it has compiled: `inside` for the thread that captures, `original` for others."""

    def __init__(self, original, inside):
        self._original = original
        self._inside = inside

    def __getattr__(self, name):
        return getattr(self._original if capture_state.active() is None else self._inside, name)


def _without_ipu(original):
    """The devices whose lists of tensors torch updates by fused operators: during capture it goes tensor by tensor."""

    def supported_devices():
        devices = original()
        return devices if capture_state.active() is None else [name for name in devices if name != "ipu"]

    return supported_devices


def _no_autocast(original):
    """Element types are those that the model says: `torch.autocast` in forward has no effect on constants either."""

    def set_autocast_enabled(*args):
        if capture_state.active() is None:
            original(*args)

    return set_autocast_enabled


def _refused_exchange(capture, original):

    @functools.wraps(original)
    def swap_tensors(t1, t2):
        if capture_state.active() is capture:
            capture.refuse_exchange((t1, t2))
        return original(t1, t2)

    return swap_tensors


def _force_eager(changes):
    """What torch compiled before runs as written."""
    if "torch._dynamo" not in sys.modules:
        return
    compiler = sys.modules["torch._dynamo"].eval_frame
    changes.replace(compiler, "_stance", _Stance(compiler._stance, compiler.DynamoStance("force_eager")))


def install(capture, changes):
    """All replacements, for as long as `changes` (a `poptorch_core.Changes`) lasts."""
    factories = {}
    for name in _FACTORIES:
        original = getattr(torch, name)
        factories[name] = _redirected_factory(name, original)
        _make_known_to_scripts(original, factories[name], changes)
    in_module(
        changes,
        torch,
        **factories,
        normal=_redirected_normal(torch.normal),
        compile=_eager_compile(torch.compile),
        set_autocast_enabled=_no_autocast(torch.set_autocast_enabled),
    )
    in_module(changes, torch.jit, is_tracing=_is_tracing(torch.jit.is_tracing))
    in_class(changes, torch.nn.Module, "_call_impl", _module_call(torch.nn.Module._call_impl))
    in_class(changes, torch.Tensor, "numpy", _to_numpy(torch.Tensor.numpy))
    in_class(changes, torch.Tensor, "register_hook", _ignored_hook(torch.Tensor.register_hook))
    changes.watch_subscripts(slicing.dynamic_getitem, slicing.dynamic_setitem)
    _force_eager(changes)
    for module in (torch.utils._foreach_utils, sys.modules["torch.optim.optimizer"]):
        name = "_get_foreach_kernels_supported_devices"
        changes.replace(module, name, _without_ipu(getattr(module, name)))
    gradients.install(capture, changes)
    random_states.install(capture, changes)
    in_module(changes, torch.utils, swap_tensors=_refused_exchange(capture, torch.utils.swap_tensors))
    checkpointing = torch.utils.checkpoint.CheckpointFunction
    in_class(changes, checkpointing, "apply", _inline_checkpoint(torch.autograd.Function.__dict__["apply"]))
    in_class(changes, torch.distributions.Distribution, "_validate_args", False)
    batch_norm = torch.nn.modules.batchnorm._BatchNorm
    in_class(changes, batch_norm, "forward", _cumulative_average(batch_norm.forward))
    transformer = torch.nn.modules.transformer
    changes.replace(transformer, "_detect_is_causal_mask", _unread_mask(transformer._detect_is_causal_mask))
    functional = torch.nn.functional
    losses = {
        name: _marked_loss(getattr(functional, name), name in _WEIGHTED_LOSSES)
        for name in (*_PYTHON_LOSSES, *_WEIGHTED_LOSSES)
    }
    in_module(changes, functional, **losses)
    plain_shapes.install(changes)
    fast_path = torch.backends.mha.get_fastpath_enabled
    in_module(changes, torch.backends.mha, get_fastpath_enabled=_no_fast_path(fast_path))
