"""Stochastic gradient descent."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart._impl.enums import DataType, SGDAccumulatorAndMomentum
from popart._impl.exceptions import popart_exception
from popart._impl.optimizers.optimizer import Hyper, Optimizer, _native_type
from popart._impl.optimizers.values import ClipNormSettings, OptimizerValue


class SGD(Optimizer):
    """Gradient descent with weight decay, momentum, dampening, velocity scaling and Nesterov's direction.

    Args:
        pyd: `(number, constant)` of `defaultLearningRate` (0.1), `defaultWeightDecay` (0), `defaultMomentum` (0),
            `defaultDampening` (0), `defaultVelocityScaling` (1), `lossScaling` (1), `nesterov` (0).
        clip_norm_settings: groups of weights whose gradients, or velocities, are held to a norm.
        accumulatorAndMomentum: whether gradients are summed into the velocity or on their own.
        accumType, accl1Type: FLOAT, FLOAT16 or UNDEFINED (that of the weight); of Separate.

    Raises:
        popart_exception: an unknown key or a value out of its range.

    >>> SGD({"defaultLearningRate": (0.5, False)}).learningRates().getDefault().val()
    0.5
    """

    _family = "SGD"
    _hypers = (
        Hyper("learningRate", 0.1, "lr"),
        Hyper("weightDecay", 0.0, "weight_decay"),
        Hyper("momentum", 0.0, "momentum"),
        Hyper("dampening", 0.0, "dampening"),
        Hyper("velocityScaling", 1.0, "velocity_scaling", must_be_positive=True),
        Hyper("nesterov", 0.0, "nesterov", may_be_negative=True, method="nesterov"),
    )
    _default_keys = {"nesterov": "nesterov"}

    def __init__(
        self,
        pyd: Mapping[str, Any],
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        accumulatorAndMomentum: SGDAccumulatorAndMomentum = SGDAccumulatorAndMomentum["Combined"],
        accumType: DataType = DataType.UNDEFINED,
        accl1Type: DataType = DataType.UNDEFINED,
        debugContext: Any = "sgd",
    ) -> None:
        self._variant = accumulatorAndMomentum
        self._accum_type, self._accl1_type = accumType, accl1Type
        self._check_types({"accumType": accumType, "accl1Type": accl1Type}, also=("accumType", "accl1Type"))
        super().__init__(pyd, clip_norm_settings, debugContext)

    def has_momentum(self, weight: str) -> bool:
        momentum = self.value("momentum", weight)
        return not (momentum.isConst() and momentum.val() == 0.0)

    def is_combined(self) -> bool:
        return self._variant == SGDAccumulatorAndMomentum["Combined"]

    def _check_together(self, values: Mapping[str, OptimizerValue], where: str) -> None:
        if values["nesterov"].val() != 0.0 and values["dampening"].val() != 0.0:
            raise popart_exception(
                f"SGD: {where} have nesterov and the dampening {values['dampening'].val()}: nesterov needs zero dampening."
            )

    def _native_group(self, weight: str, dtype: DataType) -> dict[str, Any]:
        group = super()._native_group(weight, dtype)
        group["nesterov"] = group["hyper"].pop("nesterov")[0] != 0.0
        return group

    def _native_modes(self) -> dict[str, Any]:
        return {"kind": "sgd_combined" if self.is_combined() else "sgd_separate"}

    def _native_types(self, weight: DataType) -> dict[str, str]:
        if self.is_combined():
            return {"accum": weight.name, "first": weight.name}
        return {"accum": _native_type(self._accum_type, weight), "first": _native_type(self._accl1_type, weight)}

    def _modes(self) -> dict[str, Any]:
        return {
            "accumulatorAndMomentum": self._variant,
            "accumType": self._accum_type,
            "accl1Type": self._accl1_type,
            "nesterov": {
                weight or "defaults": self.value("nesterov", weight).val() != 0.0
                for weight in ["", *sorted(self._specific)]
            },
        }


class ConstSGD(SGD):
    """SGD without momentum whose values are constants.

    >>> ConstSGD(0.25).learningRates().getDefault().isConst()
    True
    """

    def __init__(
        self,
        learning_rate: float,
        weight_decay: float = 0.0,
        loss_scaling: float = 1.0,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
    ) -> None:
        super().__init__(
            {
                "defaultLearningRate": (learning_rate, True),
                "defaultWeightDecay": (weight_decay, True),
                "lossScaling": (loss_scaling, True),
            },
            clip_norm_settings,
        )
