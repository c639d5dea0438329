"""What a session refuses in a model before the program is made."""

from __future__ import annotations

import re
from typing import TYPE_CHECKING

from popart._impl.exceptions import popart_exception

if TYPE_CHECKING:
    import onnx

_PREFIXES = """
    Gradient UpdatedVar Accum Accl Accl1 Accl2 Accl3 Step AcclIntoReduce AcclIntoUpdate AcclOutOfAcclUpdate
    FinalReducedGradient AdamUpdater LambR1Sq LambR2Sq Stashed Restored randomSeed randomSeedModifier RemoteArg
    AutomaticLossScaleProxy Counter AdaptiveUpdater anchorSum anchorFinal ConcatInit ConstValue cycleCount GlobalNorm Index
    Init Iterator LoopCond adamGradientScaling adaptiveAlpha adaptiveEps adaptiveGradientScaling adaptiveMomentum
    scaledLearningRate0 scaledLearningRate1 scaledLearningRate2 dampeningScaleFactor1 dampeningScaleFactor2 scaledMomentum1
    scaledMomentum2 scaledWeightDecay1 weightDecayScaleFactor0 sgdWeightDecay sgdMomentum nesterovGradScaleFactor1
    nesterovGradScaleFactor2 nesterovDampeningScaleFactor1 nesterovDampeningScaleFactor2 learningRate weightDecay lossScaling
    maxWeightNorm adamBeta1 adamBeta2 adamEps step
""".split()
# Scalars of the optimizer go on with who they are for.
_SCALARS = re.compile(
    "(adam|adaptive|scaled|dampening|weightDecay|sgd|nesterov|learningRate|lossScaling|maxWeight|step)"
)
_RESERVED = (
    *(f"{name}___" for name in _PREFIXES if not _SCALARS.match(name)),
    *(f"{name}___{whom}___" for name in _PREFIXES if _SCALARS.match(name) for whom in ("default", "specific")),
    "lossScaling_",
    "LossScalingRatio_",
    "PreviousLossScaling_",
)
_STATES = ("Accum___", "Accl___", "Accl1___", "Accl2___", "Accl3___", "Step___")
_SCALINGS = ("lossScaling_", "PreviousLossScaling_")
_FIXED = "lossScaleUpdateFactor"


def reserved_prefix(id: str) -> str | None:
    """The prefix that no tensor of a user may begin with and this one does; None where there is none.

    >>> reserved_prefix("Gradient___x"), reserved_prefix("x")
    ('Gradient___', None)
    """
    return next((prefix for prefix in _RESERVED if id.startswith(prefix)), None)


def _weight_of(state: str, prefix: str) -> str:
    """The weight that a state of an optimizer belongs to; the accumulator of Nesterov's gradient ends in its own way."""
    return state[len(prefix) :].removesuffix("_nesterovGrad")


def check_names(graph: onnx.GraphProto) -> None:
    """Checks names of the main graph.

    Raises:
        popart_exception: two inputs go by one name; a tensor begins as those do that a session makes. State of an optimizer
            that a saved model brings along with its weight may.
    """
    seen: set[str] = set()
    for value in graph.input:
        if value.name in seen:
            raise popart_exception(f"repeated input id: two inputs of the model are called '{value.name}'; rename one")
        seen.add(value.name)
    weights = {tensor.name for tensor in graph.initializer}
    names = [*seen, *(name for node in graph.node for name in node.output), *weights]
    for name in names:
        prefix = reserved_prefix(name)
        if prefix is None or name == _FIXED and name in weights:
            continue
        if name in weights and (prefix in _SCALINGS or prefix in _STATES and _weight_of(name, prefix) in weights):
            continue
        raise popart_exception(
            f"clash with reserved prefix: the tensor '{name}' of the model begins with '{prefix}', as tensors do that a session "
            "makes; rename it"
        )
