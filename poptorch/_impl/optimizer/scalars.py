"""Scalars of the device: the variable hyper-parameters by the names of PopTorch's back end, and the way back from them.

Names and equations: docs/optimizers.md. A scalar is there when something that it is computed from is variable.
"""

from __future__ import annotations

import copy
import math
import typing

import torch

from poptorch._impl.log import logger

_Description = dict[str, typing.Any]
_Scalars = dict[str, torch.Tensor]

_COMBINED, _SEPARATE, _RMSPROP, _CENTRED = 0, 1, 5, 6
_LOSS_SCALING = "lossScaling_FLOAT"
_HALF_LOSS_SCALING = "lossScaling_FLOAT16"

_ADAM_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "beta1": "adamBeta1",
    "beta2": "adamBeta2",
    "eps": "adamEps",
    "max_weight_norm": "maxWeightNorm",
}
_ADAPTIVE_NAMES = {
    "lr": "learningRate",
    "weight_decay": "weightDecay",
    "alpha": "adaptiveAlpha",
    "momentum": "adaptiveMomentum",
    "eps": "adaptiveEps",
}


def device_scalars(description: _Description, accumulation: int) -> _Scalars:
    """0-d float32 tensors by back-end name.

    Args:
        description: as `OptimizerReader.read` gives it.
        accumulation: micro-batches of one update.
    """
    loss_scaling, is_constant = description["loss_scaling"]
    scalars = {} if is_constant else {_LOSS_SCALING: loss_scaling}
    for parameter, index in description["group_of"].items():
        of_group = _of_group(description, description["groups"][index], accumulation)
        scalars.update({f"{name}___specific___{parameter}": value for name, value in of_group.items()})
    return {name: torch.tensor(value, dtype=torch.float32) for name, value in scalars.items()}


def _of_group(description: _Description, group: dict[str, typing.Any], accumulation: int) -> dict[str, float]:
    """Scalars of one group by the first part of their names."""
    if description["kind"] <= _SEPARATE:
        return _of_sgd_group(description, group, accumulation)
    is_adaptive = description["kind"] in (_RMSPROP, _CENTRED)
    names = _ADAPTIVE_NAMES if is_adaptive else _ADAM_NAMES
    made = {names[name]: value for name, (value, is_constant) in group.items() if not is_constant}
    loss_scaling, is_constant = description["loss_scaling"]
    if not is_constant:
        made["adaptiveGradientScaling" if is_adaptive else "adamGradientScaling"] = 1 / loss_scaling
    return made


def _keeps_no_velocity(description: _Description, group: dict[str, typing.Any], accumulation: int) -> bool:
    return group["momentum"] == (0.0, True) and (description["kind"] == _SEPARATE or accumulation == 1)


def _of_sgd_group(description: _Description, group: dict[str, typing.Any], accumulation: int) -> dict[str, float]:
    values = {name: value for name, value in group.items() if name != "nesterov"}
    values["loss_scaling"] = description["loss_scaling"]
    lr, momentum, dampening, decay, velocity_scaling, loss_scaling = (
        values[name][0] for name in ("lr", "momentum", "dampening", "weight_decay", "velocity_scaling", "loss_scaling")
    )
    undamped = 1 - dampening
    table: dict[str, tuple[float, tuple[str, ...]]]
    if _keeps_no_velocity(description, group, accumulation):
        table = {
            "scaledLearningRate0": (lr * undamped / loss_scaling, ("lr", "dampening", "loss_scaling")),
            "weightDecayScaleFactor0": (1 - lr * undamped * decay, ("lr", "dampening", "weight_decay")),
        }
    else:
        suffix = 1 if description["kind"] == _COMBINED else 2
        scaled = ("velocity_scaling",) if suffix == 1 else ()
        factor = undamped * velocity_scaling / loss_scaling
        table = {
            f"scaledLearningRate{suffix}": (lr / velocity_scaling, ("lr", *scaled)),
            "scaledWeightDecay1": (undamped * decay * velocity_scaling, ("dampening", "weight_decay", *scaled)),
            f"dampeningScaleFactor{suffix}": (factor, ("dampening", "loss_scaling", *scaled)),
            f"scaledMomentum{suffix}": (momentum, ("momentum",)),
        }
        if group["nesterov"]:
            table |= {
                "sgdMomentum": (momentum, ("momentum",)),
                "sgdWeightDecay": (decay, ("weight_decay",)),
                f"nesterovGradScaleFactor{suffix}": (velocity_scaling, scaled),
                f"nesterovDampeningScaleFactor{suffix}": (
                    1 / (undamped * velocity_scaling),
                    ("dampening", "loss_scaling", *scaled),
                ),
            }
    return {name: value for name, (value, atoms) in table.items() if any(not values[atom][1] for atom in atoms)}


def canonical(given: _Scalars) -> _Scalars:
    """The loss scaling of a half precision loss goes by the name that `device_scalars` gives it."""
    made = dict(given)
    if _HALF_LOSS_SCALING in made:
        made.setdefault(_LOSS_SCALING, made.pop(_HALF_LOSS_SCALING).float())
    return made


def with_constants(description: _Description, given: _Description) -> _Description:
    """`description` with the constants of `given`, so that a device compiled with others can refuse them."""
    made = copy.deepcopy(description)
    for mine, theirs in zip(made["groups"], given["groups"]):
        mine |= {name: entry for name, entry in theirs.items() if isinstance(entry, tuple) and entry[1]}
    return made


def with_scalars(description: _Description, given: _Scalars, accumulation: int) -> _Description:
    """`description` with the hyper-parameters that scalars of the device came from; others stay.

    Constants stay as they were compiled. What cannot be had (scalars that contradict each other or a constant, another
    value for each parameter of a group) is warned about.
    """
    made = copy.deepcopy(description)
    values = {name: tensor.item() for name, tensor in given.items() if tensor.numel() == 1}
    _set(made, "loss_scaling", values.get(_LOSS_SCALING))
    group_of = description["group_of"]
    for index, group in enumerate(made["groups"]):
        first = next((parameter for parameter, of in group_of.items() if of == index), None)
        ending = f"___specific___{first}"
        mine = {name.removesuffix(ending): value for name, value in values.items() if name.endswith(ending)}
        if made["kind"] <= _SEPARATE:
            _set_sgd_group(made, group, mine, accumulation)
        else:
            names = _ADAPTIVE_NAMES if made["kind"] in (_RMSPROP, _CENTRED) else _ADAM_NAMES
            for hyper in group:
                _set(group, hyper, mine.get(names[hyper]))
    for name, tensor in device_scalars(made, accumulation).items():
        wanted = values.get(name, tensor.item())
        if not math.isclose(tensor.item(), wanted, rel_tol=1e-5, abs_tol=1e-30):
            logger.warning(
                "The optimizer parameter '%s' is %g, and the device uses %g: it contradicts another one that was loaded, or "
                "what was compiled.",
                name,
                wanted,
                tensor.item(),
            )
    return made


def _set(values: dict[str, typing.Any], name: str, value: float | None) -> None:
    """A new value for a variable hyper-parameter; None keeps the one it has."""
    if value is not None and not values[name][1] and math.isfinite(value):
        values[name] = (value, False)


def _set_sgd_group(
    description: _Description, group: dict[str, typing.Any], given: dict[str, float], accumulation: int
) -> None:
    def now(name: str) -> float:
        return group[name][0]

    loss_scaling = description["loss_scaling"][0]
    if _keeps_no_velocity(description, group, accumulation):
        if "scaledLearningRate0" in given:
            rate = given["scaledLearningRate0"] * loss_scaling
            if group["lr"][1]:
                _set(group, "dampening", 1 - rate / now("lr"))
            elif now("dampening") != 1:
                _set(group, "lr", rate / (1 - now("dampening")))
        rate = now("lr") * (1 - now("dampening"))
        if rate != 0 and "weightDecayScaleFactor0" in given:
            _set(group, "weight_decay", (1 - given["weightDecayScaleFactor0"]) / rate)
        return
    suffix = 1 if description["kind"] == _COMBINED else 2
    _set(group, "velocity_scaling", given.get(f"nesterovGradScaleFactor{suffix}"))
    scaling = now("velocity_scaling")
    if f"scaledLearningRate{suffix}" in given:
        _set(group, "lr", given[f"scaledLearningRate{suffix}"] * scaling)
    _set(group, "momentum", given.get(f"scaledMomentum{suffix}"))
    if f"dampeningScaleFactor{suffix}" in given:
        _set(group, "dampening", 1 - given[f"dampeningScaleFactor{suffix}"] * loss_scaling / scaling)
    undamped = (1 - now("dampening")) * scaling
    if "scaledWeightDecay1" in given and undamped != 0:
        _set(group, "weight_decay", given["scaledWeightDecay1"] / undamped)
