"""Which ops update a weight, by optimizer."""

from __future__ import annotations

import dataclasses
from typing import Any

OUTER = "AccumulateOuterFragment"
_ADAPTIVE = {"AdaGrad": "RMSPropUpdater", "RMSProp": "RMSPropUpdater", "CenteredRMSProp": "RMSPropUpdater"}


@dataclasses.dataclass(frozen=True)
class UpdateOp:
    """One op. `state`: prefix of the variable beside the weight that it changes, "" for none."""

    type: str
    context: str
    state: str = ""


def sums(optimizer: Any, weight: str, accumulates: bool, replicated: bool) -> list[UpdateOp]:
    """From the gradient of a micro-batch and replica to what enters the rule."""
    reduced = [UpdateOp("ReplicatedAllReduceInplace", OUTER)] if replicated else []
    if _is_combined(optimizer, weight):
        velocity = [UpdateOp("Accumulate", "Normal", "Accl___")]
        if replicated and not accumulates:
            return [UpdateOp("ReplicatedAllReduce", "Normal"), *velocity]
        return [*velocity, *reduced]
    if not accumulates:
        return [UpdateOp("ReplicatedAllReduce", "Normal")] if replicated else []
    return [UpdateOp("Accumulate", "Normal", "Accum___"), *reduced]


def steps(optimizer: Any, weight: str, accumulates: bool) -> list[UpdateOp]:
    """The rule itself; the op that writes the weight is the one whose type ends with VarUpdate."""
    from popart._impl.optimizers.adam import Adam
    from popart._impl.optimizers.adaptive import Adaptive

    outer = OUTER if accumulates else "Normal"
    cleared = [UpdateOp("AccumulatorScale", outer, "Accum___")] if accumulates else []
    if isinstance(optimizer, (Adam, Adaptive)):
        return [*(UpdateOp(type, outer, state) for type, state in _moments(optimizer)), *cleared]
    if not _has_momentum(optimizer, weight):
        return [UpdateOp("SGD0VarUpdate", outer), *cleared]
    if not optimizer.is_combined():
        return [UpdateOp("Accumulate", outer, "Accl1___"), UpdateOp("SGD1VarUpdate", outer), *cleared]
    made = [UpdateOp("SGD1Nesterov", outer)] if optimizer.value("nesterov", weight).val() else []
    return [*made, UpdateOp("SGD1VarUpdate", outer), UpdateOp("SGD1AcclUpdate", outer, "Accl___")]


def _has_momentum(optimizer: Any, weight: str) -> bool:
    momentum = optimizer.value("momentum", weight)
    return not (momentum.isConst() and momentum.val() == 0.0)


def _is_combined(optimizer: Any, weight: str) -> bool:
    from popart._impl.optimizers.sgd import SGD

    return isinstance(optimizer, SGD) and _has_momentum(optimizer, weight) and optimizer.is_combined()


def _moments(optimizer: Any) -> list[tuple[str, str]]:
    from popart._impl.optimizers.adam import Adam

    first, second = ("Accumulate", "Accl1___"), ("Accumulate", "Accl2___")
    if isinstance(optimizer, Adam):
        squares = [("LambSquare", ""), ("LambSquare", "")] if "Lamb" in optimizer.mode.name else []
        return [first, second, ("AdamUpdater", ""), *squares, ("AdamVarUpdate", "")]
    if optimizer.mode.name == "AdaDelta":
        return [first, ("AdaDeltaUpdater", ""), second, ("ScaledVarUpdate", "")]
    centred = [second] if optimizer.mode.name == "CenteredRMSProp" else []
    return [first, *centred, (_ADAPTIVE[optimizer.mode.name], ""), ("ScaledVarUpdate", "")]
