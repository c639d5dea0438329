"""Prefixes of tensor ids that programs may not begin a name with, and the functions that return them."""

from __future__ import annotations

from collections.abc import Callable

_PREFIXES = {
    "Gradient": "Gradient___",
    "UpdatedVar": "UpdatedVar___",
    "Accum": "Accum___",
    "Accl": "Accl___",
    "Accl1": "Accl1___",
    "Accl2": "Accl2___",
    "Accl3": "Accl3___",
    "Step": "Step___",
    "AcclToReduce": "AcclIntoReduce___",
    "AcclToUpdate": "AcclIntoUpdate___",
    "AcclFinalOut": "AcclOutOfAcclUpdate___",
    "FinalReducedGrad": "FinalReducedGradient___",
    "AdamUpdater": "AdamUpdater___",
    "LambR1Sq": "LambR1Sq___",
    "LambR2Sq": "LambR2Sq___",
    "Stashed": "Stashed___",
    "Restored": "Restored___",
    "LossScaling": "lossScaling_",
    "RandomSeed": "randomSeed___",
    "SeedModifier": "randomSeedModifier___",
    "RemoteArg": "RemoteArg___",
    "AutomaticLossScale": "AutomaticLossScaleProxy___",
}
# Scalars of optimizers have two prefixes each: for all weights, and for one.
_SCALARS = (
    "WeightDecayScaleFactor0 ScaledLearningRate0 ScaledWeightDecay1 ScaledLearningRate1 DampeningScaleFactor1 ScaledMomentum1 "
    "LearningRate WeightDecay LossScaling MaxWeightNorm AdamBeta1 AdamBeta2 AdamEps Step"
).split()
_SCALARS_WITHOUT_FUNCTION = (
    "adamGradientScaling adaptiveAlpha adaptiveEps adaptiveGradientScaling adaptiveMomentum scaledLearningRate2 "
    "dampeningScaleFactor2 scaledMomentum2 sgdWeightDecay sgdMomentum nesterovGradScaleFactor1 nesterovGradScaleFactor2 "
    "nesterovDampeningScaleFactor1 nesterovDampeningScaleFactor2"
).split()
_WITHOUT_FUNCTION = (
    "Counter___ AdaptiveUpdater___ anchorSum___ anchorFinal___ ConcatInit___ ConstValue___ cycleCount___ GlobalNorm___ Index___ "
    "Init___ Iterator___ LoopCond___ LossScalingRatio_ PreviousLossScaling_"
).split()
LOSS_SCALE_UPDATE_FACTOR = "lossScaleUpdateFactor"
# Of what an optimizer keeps for a weight: sums of gradients over micro-batches (that of SGD with momentum is its velocity, too),
# and the rest.
SUMS = ("Accum___", "Accl___")
STATES = ("Accl1___", "Accl2___", "Accl3___", "Step___")


def _function(name: str, prefix: str) -> Callable[[], str]:
    def reserved() -> str:
        return prefix

    reserved.__name__ = reserved.__qualname__ = name
    reserved.__doc__ = f"The prefix {prefix}, with which no name of a user's tensor may begin."
    return reserved


def _all() -> dict[str, Callable[[], str]]:
    prefixes = {f"reserved{key}Prefix": prefix for key, prefix in _PREFIXES.items()}
    for scalar in _SCALARS:
        name = scalar[0].lower() + scalar[1:]
        prefixes[f"reservedDefault{scalar}Prefix"] = f"{name}___default___"
        prefixes[f"reservedSpecific{scalar}Prefix"] = f"{name}___specific___"
    return {name: _function(name, prefix) for name, prefix in prefixes.items()}


FUNCTIONS = _all()
_RESERVED = (
    *(function() for function in FUNCTIONS.values()),
    *_WITHOUT_FUNCTION,
    *(f"{name}___{whom}___" for name in _SCALARS_WITHOUT_FUNCTION for whom in ("default", "specific")),
)


def clash(name: str) -> str | None:
    """The longest prefix that no tensor of a user may begin with and this one does, or None; the name itself where that is reserved.

    >>> clash("Gradient___x"), clash("x")
    ('Gradient___', None)
    """
    if name == LOSS_SCALE_UPDATE_FACTOR:
        return name
    return max((prefix for prefix in _RESERVED if name.startswith(prefix)), key=len, default=None)
