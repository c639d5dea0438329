"""Which ops update a weight, by optimizer."""

from __future__ import annotations

from typing import Any

_OUTER = "AccumulateOuterFragment"
_ADAPTIVE = {"AdaGrad": "RMSPropUpdater", "RMSProp": "RMSPropUpdater", "CenteredRMSProp": "RMSPropUpdater"}


def update_types(optimizer: Any, weight: str, accumulates: bool, replicated: bool) -> list[tuple[str, str]]:
    """The ops in order, each with its execution context."""
    from popart._impl.optimizers.adam import Adam
    from popart._impl.optimizers.adaptive import Adaptive

    outer = _OUTER if accumulates else "Normal"
    made: list[tuple[str, str]] = []
    if isinstance(optimizer, (Adam, Adaptive)):
        return [*_summed(accumulates, replicated, outer), *((type, outer) for type in _moments(optimizer))]
    momentum = optimizer.value("momentum", weight)
    if momentum.isConst() and momentum.val() == 0.0:
        return [*_summed(accumulates, replicated, outer), ("SGD0VarUpdate", outer)]
    if not optimizer.is_combined():
        made = [*_summed(accumulates, replicated, outer), ("Accumulate", outer)]
        return [*made, ("SGD1VarUpdate", outer)]
    if replicated and not accumulates:
        made.append(("ReplicatedAllReduce", "Normal"))
    made.append(("Accumulate", "Normal"))
    if replicated and accumulates:
        made.append(("ReplicatedAllReduceInplace", outer))
    if optimizer.value("nesterov", weight).val():
        made.append(("SGD1Nesterov", outer))
    return [*made, ("SGD1VarUpdate", outer), ("SGD1AcclUpdate", outer)]


def _summed(accumulates: bool, replicated: bool, outer: str) -> list[tuple[str, str]]:
    if not accumulates:
        return [("ReplicatedAllReduce", "Normal")] if replicated else []
    reduced = [("ReplicatedAllReduceInplace", outer)] if replicated else []
    return [("Accumulate", "Normal"), *reduced]


def _moments(optimizer: Any) -> list[str]:
    from popart._impl.optimizers.adam import Adam

    if isinstance(optimizer, Adam):
        squares = ["LambSquare", "LambSquare"] if "Lamb" in optimizer.mode.name else []
        return ["Accumulate", "Accumulate", "AdamUpdater", *squares, "AdamVarUpdate"]
    if optimizer.mode.name == "AdaDelta":
        return ["Accumulate", "AdaDeltaUpdater", "Accumulate", "ScaledVarUpdate"]
    second = ["Accumulate"] if optimizer.mode.name == "CenteredRMSProp" else []
    return ["Accumulate", *second, _ADAPTIVE[optimizer.mode.name], "ScaledVarUpdate"]
