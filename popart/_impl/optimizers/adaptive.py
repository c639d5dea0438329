"""AdaGrad, RMSProp, centred RMSProp and AdaDelta."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from popart._impl.enums import AdaptiveMode, DataType, WeightDecayMode
from popart._impl.exceptions import popart_exception
from popart._impl.optimizers.optimizer import Hyper, MomentOptimizer


class Adaptive(MomentOptimizer):
    """Steps of the size of the gradient over its root mean square.

    Args:
        values: `(number, constant)` of `defaultLearningRate` (0.01), `defaultWeightDecay` (0), `defaultAlpha` (0.99),
            `defaultMomentum` (0), `defaultEps` (1e-6), `lossScaling` (1).
        mode: of AdaptiveMode.
        weight_decay_mode: Decay acts on the weight, L2Regularization on the gradient.
        accum_type, accl3_type: FLOAT, FLOAT16, or UNDEFINED: that of the weight.
        accl1_type, accl2_type: FLOAT or FLOAT16.
        rmsprop_tf_variant: RMSProp as TensorFlow has it.

    Raises:
        popart_exception: an unknown key, a value out of its range, or the variant with another mode.

    >>> Adaptive({}).alphas().getDefault().isConst()
    True
    """

    _family = "Adaptive"
    _kinds = {"AdaGrad": "adagrad", "RMSProp": "rmsprop", "CenteredRMSProp": "rmsprop_centred", "AdaDelta": "adadelta"}
    _flag = ("rmsprop_tf_variant", "tf_variant")
    _hypers = (
        Hyper("learningRate", 0.01, "lr"),
        Hyper("weightDecay", 0.0, "weight_decay"),
        Hyper("alpha", 0.99, "alpha"),
        Hyper("momentum", 0.0, "momentum"),
        Hyper("eps", 1e-6, "eps", must_be_positive=True),
    )

    def __init__(
        self,
        values: Mapping[str, Any],
        mode: AdaptiveMode = AdaptiveMode["RMSProp"],
        weight_decay_mode: WeightDecayMode = WeightDecayMode["Decay"],
        accum_type: DataType = DataType.UNDEFINED,
        accl1_type: DataType = DataType.FLOAT,
        accl2_type: DataType = DataType.FLOAT,
        accl3_type: DataType = DataType.UNDEFINED,
        rmsprop_tf_variant: bool = False,
        debugContext: Any = "adaptive",
    ) -> None:
        self.mode, self.weight_decay_mode = mode, weight_decay_mode
        self._types = {
            "accum_type": accum_type,
            "accl1_type": accl1_type,
            "accl2_type": accl2_type,
            "accl3_type": accl3_type,
        }
        self.rmsprop_tf_variant = bool(rmsprop_tf_variant)
        self._check_types(self._types, also=("accum_type", "accl3_type"))
        if self.rmsprop_tf_variant and "RMSProp" not in mode.name:
            raise popart_exception(
                f"Adaptive: rmsprop_tf_variant is set and the mode is {mode.name}: it is for RMSProp and CenteredRMSProp."
            )
        super().__init__(values, (), debugContext)
