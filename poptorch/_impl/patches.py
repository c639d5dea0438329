"""What is replaced in torch while `forward` is captured, and put back afterwards whatever happens."""

import contextlib
import functools
import sys

import torch
import torch.utils.checkpoint

from poptorch._impl import gradients
from poptorch._impl.log import warn_once
from poptorch._impl.plain_shapes import plain_shapes

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


@contextlib.contextmanager
def replaced(owner, name, value):
    """Sets `owner.name` and restores it."""
    own, saved = name in vars(owner), getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        if own:
            setattr(owner, name, saved)
        else:  # it was inherited
            delattr(owner, name)


def _redirected_factory(name, original):

    def factory(*args, **kwargs):
        if kwargs.get("device") is None:
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
        if not has_tensor and kwargs.get("device") is None:
            kwargs["device"] = "ipu"
        return original(*args, **kwargs)

    return normal


def _module_call(original, capture):

    def call(self, *args, **kwargs):
        capture.push_module(self)
        try:
            return original(self, *args, **kwargs)
        finally:
            capture.pop_module()

    return call


def _ignored_hook(original):

    def register_hook(self, hook):
        if self.device.type != "ipu":
            return original(self, hook)
        warn_once("register_hook", "Tensor.register_hook in forward: the hook is never called on the IPU.")
        return original(self, hook)

    return register_hook


def _to_numpy(original):

    def numpy(self, *args, **kwargs):
        return original(self.cpu() if self.device.type == "ipu" else self, *args, **kwargs)

    return numpy


def _is_tracing():
    # Library code asks in order to leave out checks on values; functional_call asks in order to refuse.
    return sys._getframe(1).f_globals.get("__name__") != "torch.nn.utils.stateless"


class _CheckpointInline:
    """Stands for CheckpointFunction during capture: runs the function so that its operations are seen as written."""

    @staticmethod
    def apply(function, preserve_rng_state, *args):
        return function(*args)


# Loss functions whose value torch computes in Python from operators: always, or when `weight` is given.
_PYTHON_LOSSES = ("kl_div", "multilabel_soft_margin_loss")
_WEIGHTED_LOSSES = ("huber_loss", "l1_loss", "mse_loss")


def _marked_loss(original, only_weighted):

    @functools.wraps(original)
    def loss(*args, **kwargs):
        value = original(*args, **kwargs)
        is_composed = not only_weighted or kwargs.get("weight") is not None
        return torch.ops.poptorch.identity_loss(value, "none") if is_composed else value

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


@contextlib.contextmanager
def during_capture(capture):
    """All replacements for the time of one capture."""
    with contextlib.ExitStack() as stack:
        for name in _FACTORIES:
            stack.enter_context(replaced(torch, name, _redirected_factory(name, getattr(torch, name))))
        stack.enter_context(replaced(torch, "normal", _redirected_normal(torch.normal)))
        stack.enter_context(replaced(torch.nn.Module, "__call__", _module_call(torch.nn.Module.__call__, capture)))
        stack.enter_context(replaced(torch.jit, "is_tracing", _is_tracing))
        stack.enter_context(replaced(torch.Tensor, "numpy", _to_numpy(torch.Tensor.numpy)))
        stack.enter_context(
            replaced(torch, "compile", lambda model=None, **_: model if model is not None else lambda f: f)
        )
        if "torch._dynamo" in sys.modules:  # what was compiled before runs as written
            stack.enter_context(torch.compiler.set_stance("force_eager"))
        stack.enter_context(replaced(torch.Tensor, "register_hook", _ignored_hook(torch.Tensor.register_hook)))
        stack.enter_context(gradients.during_capture(capture))
        stack.enter_context(replaced(torch.utils.checkpoint, "CheckpointFunction", _CheckpointInline))
        stack.enter_context(replaced(torch.distributions.Distribution, "_validate_args", False))
        batch_norm = torch.nn.modules.batchnorm._BatchNorm
        stack.enter_context(replaced(batch_norm, "forward", _cumulative_average(batch_norm.forward)))
        functional = torch.nn.functional
        for name in (*_PYTHON_LOSSES, *_WEIGHTED_LOSSES):
            loss = _marked_loss(getattr(functional, name), name in _WEIGHTED_LOSSES)
            stack.enter_context(replaced(functional, name, loss))
        stack.enter_context(plain_shapes())
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        yield
