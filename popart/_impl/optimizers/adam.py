"""Adam, AdaMax, Lamb, and their forms without bias correction."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from popart._impl.enums import AdamMode, DataType, WeightDecayMode
from popart._impl.optimizers.optimizer import Hyper, MomentOptimizer
from popart._impl.optimizers.values import ClipNormSettings


class Adam(MomentOptimizer):
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
    _kinds = {
        "Adam": "adam",
        "AdamNoBias": "adam_no_bias",
        "AdaMax": "adamax",
        "Lamb": "lamb",
        "LambNoBias": "lamb_no_bias",
    }
    _flag = ("scaled_optimizer_state", "scaled_state")
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
