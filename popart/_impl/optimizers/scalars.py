"""Numbers that PopART computes from variable hyper-parameters on the host, by the names of its tensors."""

from __future__ import annotations

from collections.abc import Iterable, Mapping

import numpy

from popart._impl.enums import AdamMode, DataType, WeightDecayMode
from popart._impl.optimizers.adam import Adam
from popart._impl.optimizers.adaptive import Adaptive
from popart._impl.optimizers.optimizer import Optimizer
from popart._impl.optimizers.sgd import SGD

_F = numpy.float32
_Scalars = dict[str, tuple[numpy.float32, tuple[str, ...]]]  # name to value and the keys it is computed from
_SCALING = "lossScaling"


def runtime_scalars(
    optimizer: Optimizer,
    weights: Mapping[str, DataType | str],
    loss_dtype: DataType | str,
    accumulation: int = 1,
    replicas: int = 1,
    reduction: str = "Sum",
) -> dict[str, numpy.float32]:
    """The scalars of a session that an update of the optimizer can change; constants are not among them.

    Args:
        optimizer: SGD, Adam or Adaptive.
        weights: element type of each trained weight.
        loss_dtype: of the loss scaling.
        accumulation, replicas: micro-batches of a weight update, and replicas of all processes.
        reduction: "Sum", "Post" (a mean that is divided at the end) or "Running" (a running mean).

    >>> runtime_scalars(SGD({"defaultLearningRate": (0.5, False)}), {"w": "FLOAT"}, "FLOAT")
    {'scaledLearningRate0___default___FLOAT': np.float32(0.5), 'weightDecayScaleFactor0___default___FLOAT': np.float32(1.0)}
    """
    found: dict[str, numpy.float32] = {}
    if not optimizer._loss_scaling.isConst():
        found[f"lossScaling_{_name(loss_dtype)}"] = _F(optimizer.getLossScalingVal())
    for weight, dtype in weights.items():
        scope = f"specific___{weight}" if weight in optimizer._specific else f"default___{_name(dtype)}"
        for name, (value, keys) in _of_weight(optimizer, weight, accumulation, replicas, reduction).items():
            if not _is_constant(optimizer, weight, keys):
                found[f"{name}___{scope}"] = value
    return dict(sorted(found.items()))


def _name(dtype: DataType | str) -> str:
    return dtype if isinstance(dtype, str) else dtype.name


def _is_constant(optimizer: Optimizer, weight: str, keys: Iterable[str]) -> bool:
    return all(
        optimizer._loss_scaling.isConst() if key == _SCALING else optimizer.value(key, weight).isConst() for key in keys
    )


def _of_weight(optimizer: Optimizer, weight: str, accumulation: int, replicas: int, reduction: str) -> _Scalars:
    if isinstance(optimizer, SGD):
        return _sgd(optimizer, weight, accumulation, replicas, reduction)
    divisor = _F(accumulation) * _F(replicas) if reduction == "Post" else _F(1)
    scaling = _F(optimizer.getLossScalingVal())

    def plain(key: str) -> tuple[numpy.float32, tuple[str, ...]]:
        return _F(optimizer.value(key, weight).val()), (key,)

    scalars: _Scalars = {"learningRate": plain("learningRate"), "weightDecay": plain("weightDecay")}
    if isinstance(optimizer, Adaptive):
        scalars["adaptiveAlpha"] = plain("alpha")
        scalars["adaptiveMomentum"] = plain("momentum")
        scalars["adaptiveEps"] = plain("eps")
        scalars["adaptiveGradientScaling"] = _F(1) / (scaling * divisor), (_SCALING,)
        return scalars
    assert isinstance(optimizer, Adam)
    scalars["adamBeta1"] = plain("beta1")
    scalars["adamBeta2"] = plain("beta2")
    scalars["adamEps"] = plain("eps")
    scalars["adamGradientScaling"] = _F(1) / (scaling * divisor), (_SCALING,)
    if optimizer.mode in (AdamMode["Lamb"], AdamMode["LambNoBias"]):
        scalars["maxWeightNorm"] = plain("maxWeightNorm")
    if optimizer.scaled_optimizer_state:
        scalars["adamGradientScaling"] = _F(1) / divisor, ()
        scalars["adamEps"] = scalars["adamEps"][0] * scaling, ("eps", _SCALING)
        if optimizer.weight_decay_mode == WeightDecayMode["L2Regularization"]:
            scalars["weightDecay"] = scalars["weightDecay"][0] * scaling, ("weightDecay", _SCALING)
    return scalars


def _sgd(optimizer: SGD, weight: str, accumulation: int, replicas: int, reduction: str) -> _Scalars:
    lr, wd, mm, dm, vs, _ = (_F(optimizer.value(hyper.key, weight).val()) for hyper in SGD._hypers)
    ls, one = _F(optimizer.getLossScalingVal()), _F(1)
    a, r = (_F(accumulation), _F(replicas)) if reduction == "Post" else (one, one)
    if not optimizer.has_momentum(weight):
        return {
            "scaledLearningRate0": (lr * (one - dm) / (ls * a * r), ("learningRate", _SCALING, "dampening")),
            "weightDecayScaleFactor0": (one - lr * (one - dm) * wd, ("weightDecay", "learningRate", "dampening")),
        }
    has_nesterov = optimizer.value("nesterov", weight).val() != 0.0
    damped, rate = ("dampening", "velocityScaling", _SCALING), ("learningRate", "velocityScaling")
    scalars: _Scalars
    if optimizer.is_combined():
        all_replicas = _F(replicas) if accumulation > 1 else one
        shared = one
        if accumulation > 1 and reduction == "Sum":
            shared = _F(replicas)
        elif accumulation == 1 and reduction != "Sum":
            shared = one / _F(replicas)
        micro_batches = one if reduction == "Sum" else _F(accumulation)
        scalars = {
            "dampeningScaleFactor1": ((one - dm) * vs * shared / (ls * micro_batches), damped),
            "scaledLearningRate1": (lr / (vs * all_replicas), rate),
            "scaledMomentum1": (mm / all_replicas, ("momentum",)),
        }
        if has_nesterov:
            scalars["nesterovGradScaleFactor1"] = vs * all_replicas, ("velocityScaling",)
            scalars["nesterovDampeningScaleFactor1"] = a / ((one - dm) * vs * shared), damped
    else:
        scalars = {
            "dampeningScaleFactor2": ((one - dm) * vs / (ls * a * r), damped),
            "scaledLearningRate2": (lr / vs, rate),
            "scaledMomentum2": (mm, ("momentum",)),
        }
        if has_nesterov:
            scalars["nesterovGradScaleFactor2"] = vs, ("velocityScaling",)
            scalars["nesterovDampeningScaleFactor2"] = a * r / ((one - dm) * vs), damped
    scalars["scaledWeightDecay1"] = (one - dm) * wd * vs, ("dampening", "weightDecay", "velocityScaling")
    if has_nesterov:
        scalars["sgdMomentum"] = mm, ("momentum",)
        scalars["sgdWeightDecay"] = wd, ("weightDecay",)
    return scalars
