"""From the options of a session to what `ipu_core._native.ModelProgram` reads."""

from __future__ import annotations

from typing import Any

from popart._impl.data_flow import DataFlow
from popart._impl.enums import (
    AnchorReturnTypeId,
    MeanReductionStrategy,
    ReductionType,
    ReplicatedTensorSharding,
    TensorStorage,
    TileSet,
    VirtualGraphMode,
)
from popart._impl.locations import TensorLocationSettings
from popart._impl.session_options import SessionOptions

_LOCATIONS = {
    "weights": "weightTensorLocationSettings",
    "optimizer_state": "optimizerStateTensorLocationSettings",
    "accumulators": "accumulatorTensorLocationSettings",
    "activations": "activationTensorLocationSettings",
}


def accumulation_of(options: SessionOptions) -> int:
    return options.accumulationFactor if options.enableGradientAccumulation else 1


def local_replicas_of(options: SessionOptions) -> int:
    return options.replicatedGraphCount if options.enableReplicatedGraphs else 1


def native_settings(options: SessionOptions, flow: DataFlow, anchors: list[str]) -> dict[str, Any]:
    """What of the options decides about the program. `anchors`: those that the device gives."""
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
        "stochastic_rounding": options.enableStochasticRounding,
        "half_products": options.partialsTypeMatMuls.lower() == "half",
        "half_convolutions": options.convolutionOptions.get("partialsType", "") == "half",
        "io_tiles": int(options.numIOTiles),
        "prefetch_depth": options.defaultBufferingDepth,
        "locations": {family: _location(getattr(options, name)) for family, name in _LOCATIONS.items()},
        "anchors": [_anchor(flow, id) for id in anchors],
        **_schedule(options),
    }


def _anchor(flow: DataFlow, id: str) -> tuple[str, int, int, int]:
    kind = flow.art(id)
    period = kind.rp() if kind.id() is AnchorReturnTypeId["EveryN"] else 1
    return id, kind.id().value, period, kind.exchangeStrategy().value


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


def _schedule(options: SessionOptions) -> dict[str, Any]:
    """How the program is spread over IPUs and time."""
    mode = options.virtualGraphMode
    phases = options.executionPhaseSettings.phases
    is_phased = mode is VirtualGraphMode["ExecutionPhases"] and phases >= 2
    schedule = "phased" if is_phased else "pipelined" if options.enablePipelining else "sharded"
    return {
        "schedule": schedule,
        "virtual_graphs": mode is VirtualGraphMode["Manual"],
        "stages": options.enablePipelining,
        "execution_phases": is_phased,
        "phases": phases if is_phased else 1,
    }
