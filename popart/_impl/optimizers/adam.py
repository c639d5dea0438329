"""Adam, AdaMax, Lamb, and their forms without bias correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart._impl.enums import AdamMode, DataType, WeightDecayMode
from popart._impl.optimizers.optimizer import Hyper, Optimizer, _native_type
from popart._impl.optimizers.values import ClipNormSettings, OptimizerValueMap

_KINDS = {
    "Adam": "adam",
    "AdamNoBias": "adam_no_bias",
    "AdaMax": "adamax",
    "Lamb": "lamb",
    "LambNoBias": "lamb_no_bias",
}


class Adam(Optimizer):
    """Steps of the size of the mean gradient over its root mean square.

    Args:
        values: `(number, constant)` of `defaultLearningRate` (0.1), `defaultWeightDecay` (0), `defaultBeta1` (0.9),
            `defaultBeta2` (0.999), `defaultEps` (1e-6), `lossScaling` (1), `defaultMaxWeightNorm` (10; of Lamb).
        mode: of AdamMode.
        weight_decay_mode: Decay acts on the weight, L2Regularization on the gradient.
        accum_type: FLOAT, FLOAT16, or UNDEFINED: that of the weight.
        accl1_type, accl2_type: of the two moments, FLOAT or FLOAT16.
        clip_norm_settings: groups of weights whose gradients are held to a norm.
        scaled_optimizer_state: the moments keep the loss scaling of the gradients.

    Raises:
        popart_exception: an unknown key or a value out of its range.

    >>> Adam({}, mode=AdamMode.Lamb).maxWeightNorms().getDefault().val()
    10.0
    """

    _family = "Adam"
    _hypers = (
        Hyper("learningRate", 0.1, "lr"),
        Hyper("weightDecay", 0.0, "weight_decay"),
        Hyper("beta1", 0.9, "beta1"),
        Hyper("beta2", 0.999, "beta2"),
        Hyper("eps", 1e-6, "eps", must_be_positive=True),
        Hyper("maxWeightNorm", 10.0, "max_weight_norm"),
    )
    _aliases = {"maxWeightNorm": "defaultMaxWeightNorm"}

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdamMode = AdamMode["Adam"],
        weight_decay_mode: WeightDecayMode = WeightDecayMode["Decay"],
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        clip_norm_settings: Sequence[ClipNormSettings] = (),
        scaled_optimizer_state: bool = False,
        debugContext: Any = "adam",
    ) -> None:
        self.mode, self.weight_decay_mode = mode, weight_decay_mode
        self._types = {"accum_type": accum_type, "accl1_type": accl1_type, "accl2_type": accl2_type}
        self.scaled_optimizer_state = bool(scaled_optimizer_state)
        self._check_types(self._types, also=("accum_type",))
        super().__init__(values, clip_norm_settings, debugContext)

    def learningRates(self) -> OptimizerValueMap:
        return self._values["learningRate"]

    def weightDecays(self) -> OptimizerValueMap:
        return self._values["weightDecay"]

    def beta1s(self) -> OptimizerValueMap:
        return self._values["beta1"]

    def beta2s(self) -> OptimizerValueMap:
        return self._values["beta2"]

    def epss(self) -> OptimizerValueMap:
        return self._values["eps"]

    def maxWeightNorms(self) -> OptimizerValueMap:
        return self._values["maxWeightNorm"]

    def _native_modes(self) -> dict[str, Any]:
        return {
            "kind": _KINDS[self.mode.name],
            "decay": "l2" if self.weight_decay_mode == WeightDecayMode["L2Regularization"] else "decay",
            "scaled_state": self.scaled_optimizer_state,
        }

    def _native_types(self, weight: DataType) -> dict[str, str]:
        names = {"accum_type": "accum", "accl1_type": "first", "accl2_type": "second"}
        return {names[name]: _native_type(dtype, weight) for name, dtype in self._types.items()}

    def _modes(self) -> dict[str, Any]:
        return {
            "mode": self.mode,
            "weight_decay_mode": self.weight_decay_mode,
            **self._types,
            "scaled_optimizer_state": self.scaled_optimizer_state,
        }
