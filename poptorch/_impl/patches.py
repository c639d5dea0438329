"""What is replaced in torch while `forward` is captured, and put back afterwards whatever happens."""

import contextlib

import torch
import torch.utils.checkpoint

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
    saved = getattr(owner, name)
    setattr(owner, name, value)
    try:
        yield
    finally:
        setattr(owner, name, saved)


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


class _CheckpointInline:
    """Stands for CheckpointFunction during capture: runs the function so that its operations are seen as written."""

    @staticmethod
    def apply(function, preserve_rng_state, *args):
        return function(*args)


@contextlib.contextmanager
def during_capture(capture):
    """All replacements for the time of one capture."""
    with contextlib.ExitStack() as stack:
        for name in _FACTORIES:
            stack.enter_context(replaced(torch, name, _redirected_factory(name, getattr(torch, name))))
        stack.enter_context(replaced(torch, "normal", _redirected_normal(torch.normal)))
        stack.enter_context(replaced(torch.nn.Module, "__call__", _module_call(torch.nn.Module.__call__, capture)))
        stack.enter_context(replaced(torch.jit, "is_tracing", lambda: True))
        stack.enter_context(replaced(torch.Tensor, "register_hook", _ignored_hook(torch.Tensor.register_hook)))
        stack.enter_context(replaced(torch.utils.checkpoint, "CheckpointFunction", _CheckpointInline))
        stack.enter_context(replaced(torch.distributions.Distribution, "_validate_args", False))
        stack.enter_context(plain_shapes())
        fast_path = torch.backends.mha.get_fastpath_enabled()
        torch.backends.mha.set_fastpath_enabled(False)
        stack.callback(torch.backends.mha.set_fastpath_enabled, fast_path)
        yield
