"""Ops behind the gradients: clipping, automatic loss scaling, updates of weights."""

from __future__ import annotations

import itertools
import sys

from popart._impl.enums import GradientTensorTrackingMethod
from popart._impl.listing.records import GRADIENT, Listing, Op
from popart._impl.listing.update_types import OUTER, UpdateOp, steps, sums
from popart._impl.option_values import accumulation_of

_PRODUCTS = ("MatMul", "Conv", "MultiConv")


def trained(listing: Listing) -> list[str]:
    """Weights that an optimizer changes, in the order of the model."""
    made = listing.source.initialisers
    return [name for name in made.values if name in made.trained and name in listing.graded]


def add_updates(listing: Listing) -> None:
    weights = trained(listing)
    user = {id: op for op in reversed(listing.ops) if op.is_forward for id in op.inputs}
    if listing.options.automaticLossScalingSettings.enabled:
        _loss_scale(listing)
    optimizer, accumulates = listing.source.optimizer, accumulation_of(listing.options) > 1
    replicated = listing.options.getGlobalReplicationFactor() > 1
    taken = {id for op in listing.ops for id in op.outputs}
    made = [_Weight(listing, name, user.get(name), taken) for name in weights]
    for weight in made:
        for step, after in itertools.pairwise([*sums(optimizer, weight.name, accumulates, replicated), None]):
            weight.add(step, is_reduced=after is not None and after.type.startswith("Replicated"))
    _clip(listing, made, OUTER if accumulates else "Normal")
    for weight in made:
        for step in steps(optimizer, weight.name, accumulates):
            weight.add(step)
    listing.ops.sort(key=lambda op: op.context == OUTER)  # behind all micro-batches; else in order


class _Weight:
    """The ops of one weight; `value`: what the next of them reads beside the variables."""

    def __init__(self, listing: Listing, name: str, user: Op | None, taken: set[str]) -> None:
        self.listing, self.name, self.user, self.taken = listing, name, user, taken
        self.value = GRADIENT + name
        self.moments: list[str] = []  # means over updates that no op has put together yet

    def add(self, step: UpdateOp | None, is_reduced: bool = False) -> None:
        """`is_reduced`: replicas reduce the result before it is used."""
        name = self.name
        if step is None:
            return
        if step.type.endswith("VarUpdate"):
            is_ready = self.value.partition("___")[0].endswith("Updater") or not self.moments
            self._op(step, [name, self.value if is_ready else self.moments[-1]], f"UpdatedVar___{name}")
        elif step.type == "SGD1AcclUpdate":
            self._op(step, [step.state + name], f"AcclOutOfAcclUpdate___{name}")
        elif step.type == "AccumulatorScale":
            self._op(step, [step.state + name], f"UpdatedVar___{step.state}{name}")
        elif step.state:
            variable = step.state + name
            if variable not in self.listing.types:
                self.listing.make(variable, name)
            self.listing.kinds[variable] = "state"
            result = f"UpdatedVar___{variable}"
            if step.state == "Accl___":
                result = f"AcclInto{'Reduce' if is_reduced else 'Update'}___{name}"
            made = self._op(step, [variable, self.value], result)
            if step.state in ("Accum___", "Accl___"):
                self.value = made
            else:
                self.moments.append(made)
        elif step.type == "LambSquare":
            self._op(step, [self.value], f"{step.type}___{name}")
        elif step.type.startswith("Replicated"):
            is_velocity = self.value.startswith("AcclIntoReduce___")
            result = "AcclIntoUpdate" if is_velocity else "FinalReducedGradient"
            self.value = self._op(step, [self.value], f"{result}___{name}")
        else:
            self.value = self._op(step, [self.value, *self.moments], f"{step.type}___{name}")
            self.moments = []

    def _op(self, step: UpdateOp, read: list[str], result: str) -> str:
        listing = self.listing
        made = listing.between(result, self.name) if result in self.taken else listing.make(result, self.name)
        self.taken.add(made)
        op = listing.add(step.type, read, [made], self.user, context=step.context)
        op.name, op.outline, op.node = "", {}, None
        return made


def _clip(listing: Listing, weights: list[_Weight], context: str) -> None:
    """The sum of squares of each weight of a group, then one norm for all, by which what they read is scaled."""
    for group, settings in enumerate(listing.source.optimizer._clips):
        members = [weight for weight in weights if settings._clips_all or weight.name in settings.weightIds]
        if not members:
            continue
        sums = []
        for weight in members:
            total = listing.make(f"{GRADIENT}{weight.name}__norm{group}", weight.name, ())
            listing.add("ReduceSumSquare", [weight.value], [total], weight.user, own={"keepdims": "0"}, context=context)
            sums.append(total)
        added, norm = (
            listing.make(f"GlobalNorm___{group}__sum", sums[0], ()),
            listing.make(f"GlobalNorm___{group}", sums[0], ()),
        )
        listing.add("Sum", sums, [added], context=context)
        listing.add("Sqrt", [added], [norm], context=context)
        factor = listing.make(f"GlobalNorm___{group}__factor", norm)
        listing.add("Max", [norm], [factor], context=context)
        for weight in members:
            clipped = listing.make(f"{GRADIENT}{weight.name}__clipped", weight.name)
            listing.add("Div", [weight.value, factor], [clipped], weight.user, context=context)
            weight.value = clipped


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
        _decide(listing)


def _decide(listing: Listing) -> None:
    """From the sum of the counts of a micro-batch to the scales in use and the factor of the next update."""
    scalars, factor, statistics = listing.source.scalars, "lossScaleUpdateFactor", "summedCastedHistograms"
    listing.types[statistics] = ("FLOAT", (2,))
    listing.add("Cast", ["summedHistograms"], [statistics], own={"to": "FLOAT"})
    context = "Normal"
    if accumulation_of(listing.options) > 1:
        stats = listing.make("Accum___autoLossScaleStats", statistics)
        listing.kinds[stats], context = "state", OUTER
        summed = listing.make(f"UpdatedVar___{stats}", statistics)
        listing.add("Accumulate", [stats, statistics], [summed])
        statistics = summed
    if listing.options.getGlobalReplicationFactor() > 1:
        reduced = listing.between(statistics, statistics)
        listing.add("ReplicatedAllReduce", [statistics], [reduced], context=context)
        statistics = reduced
    updated = listing.make(f"UpdatedVar___{factor}", factor)
    listing.add("LossScaleUpdate", [factor, statistics], [updated], context=context)
    for id in scalars:
        if id.startswith("lossScaling_"):
            listing.add("Mul", [id, factor], [listing.make("finalLossScale", id)])
    inverse = [
        id
        for id in scalars
        if id.startswith(
            ("scaledLearningRate0", "dampeningScaleFactor", "adamGradientScaling", "adaptiveGradientScaling")
        )
    ]
    for number, id in enumerate(inverse):
        listing.add("Div", [id, factor], [listing.make(f"finalInverseLossScale_{number}", id)], context=context)
