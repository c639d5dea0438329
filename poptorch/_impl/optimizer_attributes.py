"""From a torch or poptorch optimizer to what the compiler needs: kind, groups, values, constant or variable marks."""

import torch

import poptorch.optim
from poptorch._impl import errors
from poptorch._impl.log import logger, warn_once

SUPPORTED = ("torch.optim.SGD", "poptorch.optim.SGD")
_SGD_HYPER = ("lr", "momentum", "dampening", "weight_decay")
_EXPECTED_GROUP_KEYS = set(_SGD_HYPER) | {
    "params",
    "nesterov",
    "maximize",
    "foreach",
    "differentiable",
    "fused",
    "velocity_scaling",
}


def _number(name, value):
    assert isinstance(value, (int, float)) and not isinstance(value, bool), (
        f"optimizer attribute '{name}' must be a number, got {type(value).__name__} ({value!r})"
    )
    return float(value)


class OptimizerReader:
    """Reads an optimizer again and again, warning once for each attribute it does not expect."""

    def __init__(self, parameter_names, relax_checks):
        """
        Args:
            parameter_names: dict from id(parameter) to its name in the model.
            relax_checks: log unexpected attributes at DEBUG rather than WARN.
        """
        self._names = parameter_names
        self._relax = relax_checks
        self._known_keys = None
        self._torch_variable = None  # attributes of a torch optimizer that are variable, decided at first use

    def read(self, optimizer):
        """The description `poptorch_core.compile` and `Executor.set_optimizer` take (dict).

        Raises:
            AssertionError: unsupported optimizer, or a hyper-parameter that is not a number.
            KeyError: a parameter that is not in the model.
        """
        assert isinstance(optimizer, torch.optim.SGD), (
            f"Unsupported optimizer type {type(optimizer).__module__}.{type(optimizer).__name__}. "
            f"Supported types are: {', '.join(SUPPORTED)}"
        )
        if type(optimizer) not in (torch.optim.SGD, poptorch.optim.SGD):
            warn_once(
                ("optimizer subclass", type(optimizer)),
                f"{type(optimizer).__name__}.step() is not used: the device applies the update of its base class.",
            )
        self._warn_unexpected(optimizer)
        is_poptorch = isinstance(optimizer, poptorch.optim.Optimizer)
        combined = bool(getattr(optimizer, "use_combined_accum", False))
        if any(group.get("maximize") for group in optimizer.param_groups):
            warn_once("maximize", "maximize=True is ignored on the device: negate the loss instead.")
        clip = getattr(optimizer, "max_grad_norm", float("inf"))
        if clip != float("inf"):
            raise errors.create_error(
                f"max_grad_norm={clip} is part of the PopTorch API but not available in this version. "
                "Remove the argument, or see docs/compatibility.md."
            )
        loss_scaling = _number("loss_scaling", getattr(optimizer, "loss_scaling", 1.0))
        constant = self._constant_test(optimizer, is_poptorch)
        groups, group_of = [], {}
        for index, group in enumerate(optimizer.param_groups):
            hyper = {name: (_number(name, group[name]), constant(name)) for name in _SGD_HYPER}
            scaling = _number("velocity_scaling", group.get("velocity_scaling", 1.0))
            if not combined and scaling != 1.0:
                warn_once("velocity_scaling", "velocity_scaling is only used with use_combined_accum=True: ignored.")
                scaling = 1.0
            hyper["velocity_scaling"] = (scaling, constant("velocity_scaling") or not combined)
            hyper["nesterov"] = bool(group["nesterov"])
            groups.append(hyper)
            for parameter in group["params"]:
                if id(parameter) not in self._names:
                    raise KeyError(
                        f"group {index} of the optimizer holds a parameter of shape {list(parameter.shape)} that "
                        "is not in the model: build the optimizer from model.parameters()"
                    )
                group_of[self._names[id(parameter)]] = index
        return {
            "kind": 0 if combined else 1,
            "groups": groups,
            "group_of": group_of,
            "loss_scaling": (loss_scaling, constant("loss_scaling")),
            "accum_dtype": _dtype_name(getattr(optimizer, "accum_type", torch.float32)),
            "velocity_dtype": _dtype_name(getattr(optimizer, "velocity_accum_type", torch.float32)),
        }

    def _constant_test(self, optimizer, is_poptorch):
        if is_poptorch:
            return optimizer.variable_attrs.isConstant
        if self._torch_variable is None:
            self._torch_variable = {"lr"}
            for name in ("momentum", "dampening", "weight_decay"):
                if any(group[name] != 0 for group in optimizer.param_groups):
                    self._torch_variable.add(name)
        return lambda name: name not in self._torch_variable

    def _warn_unexpected(self, optimizer):
        keys = {key for group in optimizer.param_groups for key in group} - _EXPECTED_GROUP_KEYS
        if self._known_keys is not None:
            for key in sorted(keys - self._known_keys):
                log = logger.debug if self._relax else logger.warning
                log("Ignoring unexpected optimizer attribute '%s'", key)
        self._known_keys = keys | (self._known_keys or set())


def _dtype_name(dtype):
    assert dtype in (torch.float16, torch.float32), (
        f"optimizer dtypes must be torch.float16 or torch.float32, not {dtype}"
    )
    return "f16" if dtype == torch.float16 else "f32"
