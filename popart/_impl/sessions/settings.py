"""From the options of a session to what `ipu_core._native.ModelProgram` reads."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from popart._impl import reserved_names
from popart._impl.builder.metadata import input_settings
from popart._impl.data_flow import DataFlow
from popart._impl.enums import (
    AnchorReturnTypeId,
    ExchangeStrategy,
    MeanReductionStrategy,
    ReductionType,
    ReplicatedTensorSharding,
    TensorStorage,
    TileSet,
    VirtualGraphMode,
)
from popart._impl.locations import TensorLocation, TensorLocationSettings
from popart._impl.logs import getLogger
from popart._impl.option_values import accumulation_of, is_explicit, local_replicas_of
from popart._impl.session_options import SessionOptions
from popart._impl.sessions.option_checks import ipus_of_replica

_LOCATIONS = {
    "weights": "weightTensorLocationSettings",
    "optimizer_state": "optimizerStateTensorLocationSettings",
    "accumulators": "accumulatorTensorLocationSettings",
    "activations": "activationTensorLocationSettings",
}


def unstreamed_states(options: SessionOptions) -> tuple[str, ...]:
    """Prefixes of states of the optimizer that no stream connects to the host."""
    sums = reserved_names.SUMS if options.disableGradAccumulationTensorStreams else ()
    states = reserved_names.STATES if options.disableOptimizerStateTensorStreams else ()
    return (*sums, *states)


def input_exchange(metadata: Mapping[str, str], inputs: Iterable[str]) -> dict[str, tuple[Any, Any]]:
    """Tile set and exchange strategy of the inputs of which the model says them."""
    settings = {id: input_settings(metadata, id) for id in inputs}
    return {id: (found.tileSet(), found.exchangeStrategy()) for id, found in settings.items() if found is not None}


def native_settings(
    options: SessionOptions,
    flow: DataFlow,
    anchors: list[str],
    device: Any,
    exchange: Mapping[str, tuple[Any, Any]],
    is_training: bool,
) -> dict[str, Any]:
    """What of the options decides about the program.

    Args:
        anchors: those that the device gives.
        device: what is compiled for.
        exchange: tile set and exchange strategy of inputs.
        is_training: the session has a loss.
    """
    mean = options.accumulationAndReplicationReductionType is ReductionType["Mean"]
    running = options.meanAccumulationAndReplicationReductionStrategy is MeanReductionStrategy["Running"]
    return {
        "batches_per_step": flow.batchesPerStep(),
        "accumulation": accumulation_of(options),
        "replicas": options.getGlobalReplicationFactor(),
        "replicas_of_process": local_replicas_of(options),
        "mean_reduction": mean,
        "running_mean": mean and running,
        "recomputation": options.autoRecomputation.value,
        "explicit_recomputation": options.explicitRecomputation,
        "stochastic_rounding": options.enableStochasticRounding,
        "half_products": options.partialsTypeMatMuls.lower() == "half",
        "half_convolutions": options.convolutionOptions.get("partialsType", "") == "half",
        "io_tiles": options.numIOTiles,
        "prefetch_depth": max(
            [options.defaultBufferingDepth, *(options.bufferingDepthMap.get(id, 1) for id in exchange)]
        ),
        "locations": {family: _location(getattr(options, name)) for family, name in _LOCATIONS.items()},
        "location_overrides": {id: _override(place) for id, place in options.tensorLocationSettingsOverride.items()},
        "anchors": [_anchor(options, flow, id) for id in anchors],
        "input_exchange": {
            id: _exchange(options, f"the input '{id}'", strategy).value for id, (_, strategy) in exchange.items()
        },
        "ipus_of_replica": ipus_of_replica(options, device),
        "accumulates": options.enableGradientAccumulation,
        "explicit": is_explicit(options),
        "batch_parts": options.batchSerializationSettings.factor,
        "batch_joins_at_ipus": options.batchSerializationSettings.concatOnVirtualGraphChange,
        "batch_joins_at_phases": options.batchSerializationSettings.concatOnExecutionPhaseChange,
        "batch_joins_at_stages": options.batchSerializationSettings.concatOnPipelineStageChange,
        "forward_program": options.createImplicitPipeliningFwdOnlyProgram,
        **(_loss_scaling(options) if is_training else {}),
        **_schedule(options, is_training),
    }


def _loss_scaling(options: SessionOptions) -> dict[str, Any]:
    """What automatic loss scaling counts and when it decides."""
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return {}
    return {
        "loss_scaling": {
            "tracking": settings.gradientTensorTrackingMethod.value,
            "bin_edge": float(settings.binEdgeLocation),
            "upper_proportion": min(
                max(float(settings.thresholdUpperCountProportion), 0.0), 1.0
            ),  # others end at prepareDevice
            "period": int(settings.updatePeriod),
        },
        "tracked": list(settings.toTrackTensors or ()),
        "keeps_loss_scaling_f32": options.ensureFp32LossScaleTensor,
    }


def _anchor(options: SessionOptions, flow: DataFlow, id: str) -> tuple[str, int, int, int]:
    kind = flow.art(id)
    period = kind.rp() if kind.id() is AnchorReturnTypeId["EveryN"] else 1
    strategy = kind.exchangeStrategy()
    returns_all = kind.id() in (AnchorReturnTypeId["All"], AnchorReturnTypeId["Sum"])
    return id, kind.id().value, period, _exchange(options, f"the anchor '{id}'", strategy, returns_all).value


def _exchange(options: SessionOptions, what: str, strategy: Any, returns_all: bool = True) -> Any:
    """The strategy, or JustInTime and a warning where a program cannot overlap this tensor. Values are the same."""
    if strategy is ExchangeStrategy["JustInTime"]:
        return strategy
    if options.enablePipelining:
        reason = "enablePipelining is True"
    elif not options.numIOTiles:
        reason = "numIOTiles is 0"
    elif not returns_all:
        reason = "only some of its values are returned"
    else:
        return strategy
    getLogger("session").warn(f"{what} is moved just in time and not with ExchangeStrategy.{strategy.name}: {reason}")
    return ExchangeStrategy["JustInTime"]


def _override(location: TensorLocation) -> dict[str, Any]:
    return _location(TensorLocationSettings(location, 0, 0))


def _location(settings: TensorLocationSettings) -> dict[str, Any]:
    location = settings.location
    return {
        "off_chip": location.storage is TensorStorage["OffChip"],
        "sharded": location.replicatedTensorSharding is ReplicatedTensorSharding["On"],
        "loads_io": location.loadTileSet is TileSet["IO"],
        "stores_io": location.storageTileSet is TileSet["IO"],
        "min_elements_off_chip": settings.minElementsForOffChip,
        "min_elements_sharded": settings.minElementsForReplicatedTensorSharding,
    }


def _schedule(options: SessionOptions, is_training: bool) -> dict[str, Any]:
    """How the program is spread over IPUs and time."""
    mode = options.virtualGraphMode
    phases = options.executionPhaseSettings.phases
    is_phased = mode is VirtualGraphMode["ExecutionPhases"] and phases >= 2
    schedule = "phased" if is_phased else "pipelined" if options.enablePipelining else "sharded"
    if schedule == "pipelined" and is_training and accumulation_of(options) == 1:
        # A pipeline drains before weights are updated: with one micro-batch for each update it is never full.
        getLogger("session").warn(
            "enablePipelining without gradient accumulation: the stages run one after another, so that every micro-batch reads "
            "the weights that the one before it left"
        )
        schedule = "sharded"
    return {
        "schedule": schedule,
        "virtual_graphs": mode is VirtualGraphMode["Manual"],
        "stages": options.enablePipelining,
        "execution_phases": is_phased,
        "automatic_virtual_graphs": mode is VirtualGraphMode["Auto"],
        "split_ratios": list(options.virtualGraphSplitRatios),
        "phases": phases if is_phased else 1,
        "phase_groups": max(1, int(options.executionPhaseSettings.stages)) if is_phased else 1,
    }
