"""Optimizers with IPU-specific arguments. They transport hyper-parameters and state; updates run on the device.

Update equations, state names and what differs from torch: docs/optimizers.md.
"""

from __future__ import annotations

import collections.abc
import typing

import torch

from poptorch._impl.optimizer.state import DeviceState, device_state_from, state_dict_of

if typing.TYPE_CHECKING:
    from torch.optim.optimizer import ParamsT

__all__ = ["LAMB", "SGD", "Adam", "AdamW", "Optimizer", "RMSprop", "VariableAttributes"]

# Arguments that choose a rule or say how torch's own step works: never variable.
_CONSTANTS = {
    "nesterov",
    "maximize",
    "foreach",
    "capturable",
    "differentiable",
    "fused",
    "amsgrad",
    "decoupled_weight_decay",
    "centered",
}


class VariableAttributes:
    """Which hyper-parameters may change after compilation without recompiling.

    Args:
        variable_attributes: names that are variable at first.
        allowed_attributes: names that may be marked.

    Example:
        >>> optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
        >>> optimizer.variable_attrs.markAsConstant("momentum")
    """

    def __init__(
        self, variable_attributes: collections.abc.Iterable[str], allowed_attributes: collections.abc.Iterable[str]
    ) -> None:
        # Programs read and assign these two.
        self._variable_attributes = list(variable_attributes)
        self._allowed_attributes = list(allowed_attributes)

    def isConstant(self, attr: str) -> bool:
        """True when `attr` (str) is compiled as a constant. Names are not validated."""
        return attr not in self._variable_attributes

    def markAsConstant(self, attr: str) -> None:
        """Compile `attr` as a constant. AssertionError for an unknown name. Call before the first compilation."""
        self._check(attr)
        self._variable_attributes = [name for name in self._variable_attributes if name != attr]

    def markAsVariable(self, attr: str) -> None:
        """Let `attr` change through `setOptimizer`. AssertionError for an unknown name. Call before compiling."""
        self._check(attr)
        if attr not in self._variable_attributes:
            self._variable_attributes.append(attr)

    def _check(self, attr: str) -> None:
        assert attr in self._allowed_attributes, (
            f"Unknown attribute '{attr}'. Valid attributes are: {', '.join(sorted(self._allowed_attributes))}"
        )


# A mix-in that always stands in front of one of torch's optimizers.
if typing.TYPE_CHECKING:
    _Mixed = torch.optim.Optimizer
else:
    _Mixed = object


class Optimizer(_Mixed):
    """Mix-in of all PopTorch optimizers: marks of hyper-parameters, and state dictionaries with the device's part."""

    variable_attrs: VariableAttributes = None  # type: ignore[assignment] # while torch's constructor runs
    loss_scaling: float
    max_grad_norm: float
    accum_type: torch.dtype
    _device_state: DeviceState

    def _finish(
        self,
        given: dict[str, typing.Any],
        loss_scaling: float | None,
        types: dict[str, torch.dtype | None],
        max_grad_norm: float | None = None,
        **attributes: typing.Any,
    ) -> None:
        """Sets what torch's constructor knows nothing of.

        `given`: group arguments by name, None when left out. Explicit ones are variable, the others constants.
        """
        self.loss_scaling = 1.0 if loss_scaling is None else loss_scaling
        for name, dtype in types.items():
            dtype = torch.float32 if dtype is None else dtype
            assert dtype in (torch.float16, torch.float32), (
                f"{name} must be torch.float16 or torch.float32, not {dtype}"
            )
            setattr(self, name, dtype)
        self.max_grad_norm = float("inf") if max_grad_norm is None else max_grad_norm
        for name, value in attributes.items():
            setattr(self, name, value)
        given = {**given, "loss_scaling": loss_scaling}
        allowed = [*self.defaults, "loss_scaling"]
        self.variable_attrs = VariableAttributes(
            (name for name, value in given.items() if value is not None and name not in _CONSTANTS), allowed
        )
        self._device_state = DeviceState()

    @property
    def ipu_state_is_dirty(self) -> bool:
        """Is there state that the device gets before the next run?"""
        return self._device_state.pending

    @property
    def host_state_is_dirty(self) -> bool:
        """Has the device newer state than the host's copy?"""
        return self._device_state.is_outdated()

    def state_dict(self) -> dict[str, typing.Any]:
        """torch's state dictionary with `ipu_state` and `ipu_param`, tensors by back-end name as they are on the device.

        Both are None before the model is compiled and attached. The device is read once after a run.
        """
        return state_dict_of(self._device_state, super().state_dict())

    def load_state_dict(self, state_dict: dict[str, typing.Any]) -> None:
        """Loads a dictionary that `state_dict()` gave; the device gets it before the next run.

        Hyper-parameters come from `param_groups`, the loss scaling from `ipu_param`. Entries the compiled model does not
        know, or misses, are warned about and skipped.

        Raises:
            KeyError, ValueError: what torch finds wrong with its part, which is loaded first.
            RuntimeError: no IPU part (saved by a torch optimizer), or an empty one (saved before the first call).
        """
        super().load_state_dict(state_dict)
        loaded = device_state_from(state_dict)
        if loaded.param is not None and "lossScaling_FLOAT" in loaded.param:
            self.loss_scaling = loaded.param["lossScaling_FLOAT"].item()
        self._device_state.load(loaded)

    def __getstate__(self) -> dict[str, typing.Any]:
        state = super().__getstate__()
        for name, value in self.__dict__.items():
            is_of_torch = name.startswith(("_optimizer_", "_zero_grad_")) or callable(value)
            if name not in state and not is_of_torch:
                state[name] = value
        attrs = self.variable_attrs
        state["variable_attrs"] = VariableAttributes(attrs._variable_attributes, attrs._allowed_attributes)
        state["_device_state"] = self._device_state.snapshot()
        return state


def _given(**arguments: typing.Any) -> dict[str, typing.Any]:
    return {name: value for name, value in arguments.items() if value is not None}


class SGD(Optimizer, torch.optim.SGD):
    """Stochastic gradient descent with momentum, dampening, weight decay and Nesterov momentum.

        v ← momentum·v + (1 − dampening)·(g + weight_decay·w),   w ← w − lr·v

    Args:
        params: parameters or parameter groups.
        lr: learning rate (float).
        momentum, dampening, weight_decay: floats, default 0; groups may override them.
        nesterov: bool, default False; needs momentum > 0 and dampening 0. w ← w − lr·(g + weight_decay·w + momentum·v).
        maximize, foreach, differentiable: accepted for compatibility and ignored on the device
            (`maximize=True` warns: negate the loss instead).
        loss_scaling: factor of the loss gradient during back-propagation (float, default 1.0).
        velocity_scaling: scale of the velocity, only with `use_combined_accum` (otherwise ignored with a warning).
        use_combined_accum: keep one combined accumulator and velocity tensor (bool, default False). A changed
            hyper-parameter then takes full effect one update late.
        accum_type, velocity_accum_type: dtypes of gradient accumulators and velocity (float32 or float16; separate variant).
        max_grad_norm: all gradients together are scaled down to this 2-norm (float, default inf: never).

    Raises:
        AssertionError: a dtype that is not float16 or float32.
        ValueError: values torch refuses.

    Example:
        >>> optimizer = poptorch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)

    Dampening applies from the first step on, unlike torch (docs/compatibility.md).
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float,
        momentum: float | None = None,
        dampening: float | None = None,
        weight_decay: float | None = None,
        nesterov: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        velocity_scaling: float | None = None,
        use_combined_accum: bool | None = None,
        accum_type: torch.dtype | None = None,
        velocity_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        numbers = {"lr": lr, "momentum": momentum, "dampening": dampening, "weight_decay": weight_decay}
        torch.optim.SGD.__init__(
            self,
            params,
            **_given(nesterov=nesterov, maximize=maximize, foreach=foreach, differentiable=differentiable, **numbers),
        )
        scaling = 1.0 if velocity_scaling is None else velocity_scaling
        self.defaults["velocity_scaling"] = scaling
        for group in self.param_groups:
            group.setdefault("velocity_scaling", scaling)
        self._finish(
            {**numbers, "velocity_scaling": velocity_scaling},
            loss_scaling,
            {"accum_type": accum_type, "velocity_accum_type": velocity_accum_type},
            max_grad_norm,
            use_combined_accum=bool(use_combined_accum),
        )


class Adam(Optimizer, torch.optim.Adam):
    """Adam with L2 weight decay.

        g' = g + weight_decay·w
        m ← β1·m + (1 − β1)·g',   v ← β2·v + (1 − β2)·g'²
        w ← w − lr·m̂ / (√v̂ + eps),   m̂ = m / (1 − β1^t),   v̂ = v / (1 − β2^t)

    Args:
        params: parameters or parameter groups.
        lr: learning rate (float, default 1e-3). Left out, it is compiled as a constant: pass it to change it later.
        betas: tuple of two floats, default (0.9, 0.999).
        eps, weight_decay: floats, default 1e-8 and 0; groups may override all four.
        amsgrad: must be False.
        foreach, maximize, capturable, differentiable, fused: accepted for compatibility and ignored on the device
            (`maximize=True` warns: negate the loss instead).
        loss_scaling: factor of the loss gradient during back-propagation (float, default 1.0).
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: dtypes of gradient accumulators, m
            and v (float32 or float16).
        max_grad_norm: all gradients together are scaled down to this 2-norm (float, default inf: never).

    Raises:
        AssertionError: a dtype that is not float16 or float32.
        ValueError: values torch refuses; `amsgrad=True` when a model is wrapped.

    Example:
        >>> optimizer = poptorch.optim.Adam(model.parameters(), lr=1e-3, loss_scaling=128.0)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        torch.optim.Adam.__init__(
            self,
            params,
            **_given(
                amsgrad=amsgrad,
                foreach=foreach,
                maximize=maximize,
                capturable=capturable,
                differentiable=differentiable,
                fused=fused,
                **numbers,
            ),
        )
        types = {
            "accum_type": accum_type,
            "first_order_momentum_accum_type": first_order_momentum_accum_type,
            "second_order_momentum_accum_type": second_order_momentum_accum_type,
        }
        self._finish(numbers, loss_scaling, types, max_grad_norm)


class AdamW(Optimizer, torch.optim.AdamW):
    """Adam with decoupled weight decay.

        m ← β1·m + (1 − β1)·g,   v ← β2·v + (1 − β2)·g²
        w ← w − lr·(m̂ / (√v̂ + eps) + weight_decay·w),   m̂ = m / (1 − β1^t),   v̂ = v / (1 − β2^t)

    Args:
        params: parameters or parameter groups.
        lr: learning rate (float, default 1e-3). Left out, it is compiled as a constant: pass it to change it later.
        betas: tuple of two floats, default (0.9, 0.999).
        eps, weight_decay: floats, default 1e-8 and 1e-2; groups may override all four.
        amsgrad: must be False.
        maximize, foreach, capturable, differentiable, fused: accepted for compatibility and ignored on the device
            (`maximize=True` warns: negate the loss instead).
        loss_scaling: factor of the loss gradient during back-propagation (float, default 1.0).
        bias_correction: bool, default True; with False m̂ = m and v̂ = v.
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: dtypes of gradient accumulators, m
            and v (float32 or float16).
        max_grad_norm: all gradients together are scaled down to this 2-norm (float, default inf: never).

    Raises:
        AssertionError: a dtype that is not float16 or float32.
        ValueError: values torch refuses; `amsgrad=True` when a model is wrapped.

    Example:
        >>> optimizer = poptorch.optim.AdamW(model.parameters(), lr=3e-4, loss_scaling=128.0, max_grad_norm=1.0)
        >>> optimizer.variable_attrs.markAsConstant("loss_scaling")
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        amsgrad: bool | None = None,
        maximize: bool | None = None,
        foreach: bool | None = None,
        capturable: bool | None = None,
        differentiable: bool | None = None,
        fused: bool | None = None,
        loss_scaling: float | None = None,
        bias_correction: bool | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        max_grad_norm: float | None = None,
    ) -> None:
        numbers = {"lr": lr, "betas": betas, "eps": eps, "weight_decay": weight_decay}
        torch.optim.AdamW.__init__(
            self,
            params,
            **_given(
                amsgrad=amsgrad,
                maximize=maximize,
                foreach=foreach,
                capturable=capturable,
                differentiable=differentiable,
                fused=fused,
                **numbers,
            ),
        )
        types = {
            "accum_type": accum_type,
            "first_order_momentum_accum_type": first_order_momentum_accum_type,
            "second_order_momentum_accum_type": second_order_momentum_accum_type,
        }
        corrects = True if bias_correction is None else bool(bias_correction)
        self._finish(numbers, loss_scaling, types, max_grad_norm, bias_correction=corrects)


class RMSprop(Optimizer, torch.optim.RMSprop):
    """RMSprop with L2 weight decay, plain or centred, with or without momentum.

        g' = g + weight_decay·w,   s ← alpha·s + (1 − alpha)·g'²
        d = s, centred: q ← alpha·q + (1 − alpha)·g',   d = s − q²
        x = g' / (√d + eps);   w ← w − lr·x, with momentum: b ← momentum·b + x,   w ← w − lr·b

    With `use_tf_variant=True` as TensorFlow has it: s starts at 1, x = g' / √(d + eps), b ← momentum·b + lr·x, w ← w − b.

    Args:
        params: parameters or parameter groups.
        lr: learning rate (float, default 1e-2). Left out, it is compiled as a constant: pass it to change it later.
        alpha, eps, weight_decay, momentum: floats, default 0.99, 1e-8, 0 and 0; groups may override them.
        centered: bool, default False; all groups must agree.
        foreach, maximize, differentiable: accepted for compatibility and ignored on the device
            (`maximize=True` warns: negate the loss instead).
        loss_scaling: factor of the loss gradient during back-propagation (float, default 1.0).
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: dtypes of gradient accumulators, s
            and q (float32 or float16).
        use_tf_variant: bool, default False.

    Raises:
        AssertionError: a dtype that is not float16 or float32; groups that disagree about `centered` when a model is
            wrapped.
        ValueError: values torch refuses.

    Example:
        >>> optimizer = poptorch.optim.RMSprop(model.parameters(), lr=1e-2, momentum=0.9)
    """

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        alpha: float | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        momentum: float | None = None,
        centered: bool | None = None,
        foreach: bool | None = None,
        maximize: bool | None = None,
        differentiable: bool | None = None,
        loss_scaling: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
        use_tf_variant: bool | None = None,
    ) -> None:
        numbers = {"lr": lr, "alpha": alpha, "eps": eps, "weight_decay": weight_decay, "momentum": momentum}
        torch.optim.RMSprop.__init__(
            self,
            params,
            **_given(centered=centered, foreach=foreach, maximize=maximize, differentiable=differentiable, **numbers),
        )
        types = {
            "accum_type": accum_type,
            "first_order_momentum_accum_type": first_order_momentum_accum_type,
            "second_order_momentum_accum_type": second_order_momentum_accum_type,
        }
        self._finish(numbers, loss_scaling, types, use_tf_variant=bool(use_tf_variant))
        del self.max_grad_norm


class LAMB(Optimizer, torch.optim.Optimizer):
    """LAMB: AdamW's direction, its length bound to the length of the weight.

        m ← β1·m + (1 − β1)·g,   v ← β2·v + (1 − β2)·g²
        u = m̂ / (√v̂ + eps) + weight_decay·w,   m̂ = m / (1 − β1^t),   v̂ = v / (1 − β2^t)
        w ← w − lr·(min(‖w‖, max_weight_norm) / ‖u‖)·u,   factor 1 if either norm is 0

    Args:
        params: parameters or parameter groups.
        lr: learning rate (float, default 1e-3). Left out, it is compiled as a constant: pass it to change it later.
        betas: tuple of two floats, default (0.9, 0.999).
        eps, weight_decay: floats, default 1e-8 and 1e-2.
        bias_correction: bool, default True; with False m̂ = m and v̂ = v.
        loss_scaling: factor of the loss gradient during back-propagation (float, default 1.0).
        max_weight_norm: bound of ‖w‖ (float, default 65500.0: the largest a half can say, in practice off).
        accum_type, first_order_momentum_accum_type, second_order_momentum_accum_type: dtypes of gradient accumulators, m
            and v (float32 or float16).

    Raises:
        AssertionError: a dtype that is not float16 or float32.
        ValueError: a negative number, or betas outside [0, 1).

    Example:
        >>> optimizer = poptorch.optim.LAMB(model.parameters(), lr=2e-3, weight_decay=0.01)

    `step()` works on the CPU too.
    """

    bias_correction: bool

    def __init__(
        self,
        params: ParamsT,
        lr: float | None = None,
        betas: tuple[float, float] | None = None,
        eps: float | None = None,
        weight_decay: float | None = None,
        bias_correction: bool | None = None,
        loss_scaling: float | None = None,
        max_weight_norm: float | None = None,
        accum_type: torch.dtype | None = None,
        first_order_momentum_accum_type: torch.dtype | None = None,
        second_order_momentum_accum_type: torch.dtype | None = None,
    ) -> None:
        numbers = {
            "lr": lr,
            "betas": betas,
            "eps": eps,
            "weight_decay": weight_decay,
            "max_weight_norm": max_weight_norm,
        }
        defaults: dict[str, typing.Any] = {
            "lr": 1e-3,
            "betas": (0.9, 0.999),
            "eps": 1e-8,
            "weight_decay": 1e-2,
            "max_weight_norm": 65500.0,
        }
        defaults.update(_given(**numbers))
        for name in ("lr", "eps", "weight_decay", "max_weight_norm"):
            if not defaults[name] >= 0.0:
                raise ValueError(f"Invalid {name} value: {defaults[name]}")
        for index, beta in enumerate(defaults["betas"]):
            if not 0.0 <= beta < 1.0:
                raise ValueError(f"Invalid beta parameter at index {index}: {beta}")
        torch.optim.Optimizer.__init__(self, params, defaults)
        types = {
            "accum_type": accum_type,
            "first_order_momentum_accum_type": first_order_momentum_accum_type,
            "second_order_momentum_accum_type": second_order_momentum_accum_type,
        }
        corrects = True if bias_correction is None else bool(bias_correction)
        self._finish(numbers, loss_scaling, types, bias_correction=corrects)
        del self.max_grad_norm

    @torch.no_grad()
    def step(self, closure: collections.abc.Callable[[], typing.Any] | None = None) -> typing.Any:
        """One update on the CPU.

        Args:
            closure: computes the loss and its gradients again (callable, optional).

        Returns:
            What `closure` returned, or None.
        """
        loss = None
        if closure is not None:
            with torch.enable_grad():
                loss = closure()
        for group in self.param_groups:
            for parameter in group["params"]:
                if parameter.grad is not None:
                    self._step_of(parameter, group)
        return loss

    def _step_of(self, parameter: torch.Tensor, group: dict[str, typing.Any]) -> None:
        gradient = parameter.grad
        state = self.state[parameter]
        if not state:
            state["step"] = 0
            state["exp_avg"] = torch.zeros_like(parameter)
            state["exp_avg_sq"] = torch.zeros_like(parameter)
        beta1, beta2 = group["betas"]
        state["step"] += 1
        mean = state["exp_avg"].mul_(beta1).add_(gradient, alpha=1 - beta1)
        square = state["exp_avg_sq"].mul_(beta2).addcmul_(gradient, gradient, value=1 - beta2)
        if self.bias_correction:
            mean = mean / (1 - beta1 ** state["step"])
            square = square / (1 - beta2 ** state["step"])
        direction = (mean / (square.sqrt() + group["eps"])).add_(parameter, alpha=group["weight_decay"])
        weight_norm, direction_norm = parameter.norm(), direction.norm()
        factor = weight_norm.clamp(max=group["max_weight_norm"]) / direction_norm
        factor = torch.where((weight_norm > 0) & (direction_norm > 0), factor, torch.ones_like(factor))
        parameter.sub_(direction * (group["lr"] * factor))
