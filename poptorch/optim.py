"""Optimizers with IPU-specific arguments. They transport hyper-parameters; updates run on the device.

Update equations: docs/optimizers.md.
"""

import torch

__all__ = ["Optimizer", "SGD", "VariableAttributes"]

_NOT_YET = ("Adam", "AdamW", "RMSprop", "LAMB")


def __getattr__(name):
    if name in _NOT_YET:
        raise AttributeError(
            f"poptorch.optim.{name} is part of the PopTorch API but not available in this version. "
            "See docs/compatibility.md for what works."
        )
    raise AttributeError(f"module 'poptorch.optim' has no attribute '{name}'")


class VariableAttributes:
    """Which hyper-parameters may change after compilation without recompiling.

    Args:
        variable: names that are variable at first.
        allowed: names that may be marked.
    """

    def __init__(self, variable, allowed):
        self._variable = set(variable)
        self._allowed = set(allowed)

    def isConstant(self, attr):
        """True when `attr` (str) is compiled as a constant. Names are not validated."""
        return attr not in self._variable

    def markAsConstant(self, attr):
        """Compile `attr` as a constant. AssertionError for an unknown name. Call before the first compilation."""
        self._check(attr)
        self._variable.discard(attr)

    def markAsVariable(self, attr):
        """Let `attr` change through `setOptimizer`. AssertionError for an unknown name. Call before compiling."""
        self._check(attr)
        self._variable.add(attr)

    def _check(self, attr):
        assert attr in self._allowed, (
            f"Unknown attribute '{attr}'. Valid attributes are: {', '.join(sorted(self._allowed))}"
        )


class Optimizer:
    """Mix-in of all PopTorch optimizers."""

    variable_attrs = None

    def _init_variable_attrs(self, given, defaults):
        """`given`: arguments by name, None when left out. Explicit ones are variable, the others constants."""
        allowed = set(defaults) | {"loss_scaling"}
        self.variable_attrs = VariableAttributes(
            (name for name, value in given.items() if value is not None and name in allowed), allowed
        )


def _check_dtype(name, dtype):
    assert dtype in (torch.float16, torch.float32), f"{name} must be torch.float16 or torch.float32, not {dtype}"
    return dtype


def _given(**arguments):
    return {name: value for name, value in arguments.items() if value is not None}


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent with momentum, dampening, weight decay and Nesterov momentum.

    Args:
        params: parameters or parameter groups.
        lr: learning rate (float).
        momentum, dampening, weight_decay: floats, default 0; groups may override them.
        nesterov: bool, default False; needs momentum > 0 and dampening 0.
        maximize, foreach, differentiable: accepted for compatibility and ignored on the device
            (`maximize=True` warns: negate the loss instead).
        loss_scaling: factor of the loss gradient during back-propagation (float, default 1.0).
        velocity_scaling: only with `use_combined_accum`.
        use_combined_accum: keep one combined accumulator and velocity tensor (bool, default False).
        accum_type, velocity_accum_type: dtypes of gradient accumulators and velocity (float32 or float16).
        max_grad_norm: gradient clipping; not available in this version (poptorch.Error when finite).

    Raises:
        AssertionError: a dtype that is not float16 or float32.
        ValueError: values torch refuses.

    Example:
        >>> optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    Dampening applies from the first step on, unlike torch (docs/compatibility.md).
    """

    def __init__(
        self,
        params,
        lr,
        momentum=None,
        dampening=None,
        weight_decay=None,
        nesterov=None,
        maximize=None,
        foreach=None,
        differentiable=None,
        loss_scaling=None,
        velocity_scaling=None,
        use_combined_accum=None,
        accum_type=None,
        velocity_accum_type=None,
        max_grad_norm=None,
    ):
        torch.optim.SGD.__init__(
            self,
            params,
            lr=lr,
            **_given(
                momentum=momentum,
                dampening=dampening,
                weight_decay=weight_decay,
                nesterov=nesterov,
                maximize=maximize,
                foreach=foreach,
                differentiable=differentiable,
            ),
        )
        self.loss_scaling = 1.0 if loss_scaling is None else loss_scaling
        self.use_combined_accum = bool(use_combined_accum)
        self.accum_type = _check_dtype("accum_type", torch.float32 if accum_type is None else accum_type)
        self.velocity_accum_type = _check_dtype(
            "velocity_accum_type", torch.float32 if velocity_accum_type is None else velocity_accum_type
        )
        self.max_grad_norm = float("inf") if max_grad_norm is None else max_grad_norm
        scaling = 1.0 if velocity_scaling is None else velocity_scaling
        self.defaults["velocity_scaling"] = scaling
        for group in self.param_groups:
            group.setdefault("velocity_scaling", scaling)
        self._init_variable_attrs(
            {
                "lr": lr,
                "momentum": momentum,
                "dampening": dampening,
                "weight_decay": weight_decay,
                "velocity_scaling": velocity_scaling,
                "loss_scaling": loss_scaling,
            },
            ("lr", "momentum", "dampening", "weight_decay", "nesterov", "velocity_scaling"),
        )
        self.variable_attrs._variable.discard("nesterov")
