"""Ops behind the gradients: clipping, automatic loss scaling, updates of weights."""

from __future__ import annotations

import sys

from popart._impl.enums import GradientTensorTrackingMethod
from popart._impl.listing.records import GRADIENT, Listing, Op
from popart._impl.listing.update_types import update_types
from popart._impl.sessions.settings import accumulation_of

_PRODUCTS = ("MatMul", "Conv", "MultiConv")


def trained(listing: Listing) -> list[str]:
    """Weights that an optimizer changes, in the order of the model."""
    made = listing.session._initialisers
    return [name for name in made.values if name in made.trained and name in listing.graded]


def add_updates(listing: Listing) -> None:
    weights = trained(listing)
    user = {id: op for op in reversed(listing.ops) if op.is_forward for id in op.inputs}
    if listing.options.automaticLossScalingSettings.enabled:
        _loss_scale(listing)
    clipped = _clip(listing, weights, user)
    optimizer = listing.session._optimizer
    accumulates = accumulation_of(listing.options) > 1
    replicated = listing.options.getGlobalReplicationFactor() > 1
    for name in weights:
        for type, context in update_types(optimizer, name, accumulates, replicated):
            is_last = type.endswith("VarUpdate")
            made = listing.make(f"UpdatedVar___{name}" if is_last else f"{type}___{name}", name)
            op = listing.add(type, [name, clipped.get(name, GRADIENT + name)], [made], user.get(name), context=context)
            op.name, op.outline, op.node = "", {}, None


def _clip(listing: Listing, weights: list[str], user: dict[str, Op]) -> dict[str, str]:
    """The sum of squares of each weight of a group, then one norm for all. Returns the clipped gradient of each weight."""
    made: dict[str, str] = {}
    for group, settings in enumerate(listing.session._optimizer._clips):
        names = [name for name in weights if settings._clips_all or name in settings.weightIds]
        sums = []
        for name in names:
            total = listing.make(f"{GRADIENT}{name}__norm{group}", name, ())
            listing.add("ReduceSumSquare", [GRADIENT + name], [total], user.get(name), own={"keepdims": "0"})
            sums.append(total)
        added, norm = (
            listing.make(f"GlobalNorm___{group}__sum", sums[0], ()),
            listing.make(f"GlobalNorm___{group}", sums[0], ()),
        )
        listing.add("Sum", sums, [added])
        listing.add("Sqrt", [added], [norm])
        factor = listing.make(f"GlobalNorm___{group}__factor", norm)
        listing.add("Max", [norm], [factor])
        for name in names:
            made[name] = listing.make(f"{GRADIENT}{name}__clipped", name)
            listing.add("Div", [GRADIENT + name, factor], [made[name]], user.get(name))
    return made


def _loss_scale(listing: Listing) -> None:
    """Histograms of FLOAT16 gradients, their sum, and the op that changes the factor."""
    from popart._impl.listing.op_types import VIEWS

    settings, options = listing.options.automaticLossScalingSettings, listing.options
    early = options.delayVarUpdates and options.scheduleNonWeightUpdateGradientConsumersEarly
    method = settings.gradientTensorTrackingMethod
    readers = {id for op in listing.ops for id in op.inputs}
    tracked: list[str] = []
    for op in [op for op in listing.ops if not op.is_forward]:
        halves = [id for id in op.outputs if listing.type_of(id)[0] == "FLOAT16"]
        if method is GradientTensorTrackingMethod["GradientsOfUserSpecifiedTensors"]:
            tracked += [id for id in halves if id.removeprefix(GRADIENT) in (settings.toTrackTensors or ())]
        elif method is GradientTensorTrackingMethod["ConvAndMatmulGradients"]:
            tracked += halves if op.type.startswith(_PRODUCTS) else []
        elif op.type not in VIEWS and not any(listing.kinds.get(id) == "variable" for id in op.inputs):
            tracked += [id for id in halves if id in readers]
    counts = []
    for id in tracked:
        listing.types[f"{id}_statistics"] = ("UINT32", (2,))
        op = listing.add(
            "Histogram", [id], [f"{id}_statistics"], own={"levels": f"[{settings.binEdgeLocation * 65504.0:.6f}]"}
        )
        op.priority = sys.float_info.max if early else 0.0
        counts.append(f"{id}_statistics")
    if counts:
        listing.types["summedHistograms"] = ("UINT32", (2,))
        listing.add("Sum", counts, ["summedHistograms"])
        listing.add(
            "LossScaleUpdate", ["lossScaleUpdateFactor", "summedHistograms"], ["UpdatedVar___lossScaleUpdateFactor"]
        )
