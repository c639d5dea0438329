"""Which options of a session go together. What is refused names the options, their values and a cure."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from typing import Any

import numpy

from popart._impl.data_flow import DataFlow
from popart._impl.enums import (
    AnchorReturnTypeId,
    BatchSerializationMethod,
    BatchSerializationTransformContext,
    ExchangeStrategy,
    RecomputationType,
    TileSet,
    VirtualGraphMode,
)
from popart._impl.exceptions import popart_exception
from popart._impl.logs import getLogger
from popart._impl.option_values import is_explicit
from popart._impl.session_options import SessionOptions

_FEWEST_IO_TILES = 32
_TIE_BREAKERS = ("greedy", "fifo", "random")
_PARTIALS = ("", "half", "float")
_IGNORED_VARIABLES = ("POPART_PRINT_TENSORS", "POPART_OPX_TRACE")


def check_options(options: SessionOptions, flow: DataFlow, device: Any, is_training: bool) -> None:
    """Checks what can be said before the model is read.

    Raises:
        popart_exception: options that do not fit together, the device, or the kind of session.
    """
    _check_values(options)
    _say_what_is_ignored()
    _check_replication(options, device)
    _check_accumulation(options, is_training)
    _check_virtual_graphs(options, device)
    _check_pipelining(options, flow, is_training)
    _check_loops(options)
    _check_locations(options)
    _check_anchors(options, flow)
    _check_serialisation(options, is_training)
    _check_transforms(options)


def check_device(options: SessionOptions, device: Any) -> None:
    """Checks what is refused when a program is lowered. Raises popart_exception."""
    tiles = options.numIOTiles
    if tiles and (tiles % 2 or not _FEWEST_IO_TILES <= tiles < device.tilesPerIPU):
        raise popart_exception(
            f"numIOTiles is {tiles}: it must be 0, or an even number from {_FEWEST_IO_TILES} to {device.tilesPerIPU - 1}, less "
            f"than the {device.tilesPerIPU} tiles of an IPU"
        )


def check_inputs(options: SessionOptions, inputs: Mapping[str, tuple[Any, Any]]) -> None:
    """Checks tile set and exchange strategy of inputs, which the model says. Raises popart_exception."""
    for id, (tiles, strategy) in inputs.items():
        _check_exchange(options, f"the input '{id}'", tiles, strategy)


def ipus_of_replica(options: SessionOptions, device: Any) -> int:
    return int(device.numIpus) // (options.replicatedGraphCount if options.enableReplicatedGraphs else 1)


def _say_what_is_ignored() -> None:
    for name in _IGNORED_VARIABLES:
        if os.environ.get(name):
            getLogger("session").warn(
                f"the variable {name} is set, and nothing reads it: the emulator has no such prints"
            )


def _check_values(options: SessionOptions) -> None:
    if str(options.kahnTieBreaker).lower() not in _TIE_BREAKERS:
        raise popart_exception(f"kahnTieBreaker is '{options.kahnTieBreaker}'; there are {', '.join(_TIE_BREAKERS)}")
    if options.partialsTypeMatMuls.lower() not in _PARTIALS:
        raise popart_exception(
            f"partialsTypeMatMuls is '{options.partialsTypeMatMuls}'; there are 'float', 'half', and '' for the default"
        )
    if options.aliasZeroCopy and not options.explicitRecomputation:
        raise popart_exception("aliasZeroCopy is True and explicitRecomputation is False; set both, or neither")
    for name in ("weight", "optimizerState", "accumulator", "activation"):
        settings = getattr(options, f"{name}TensorLocationSettings")
        for field in ("minElementsForOffChip", "minElementsForReplicatedTensorSharding"):
            if getattr(settings, field) < 0:
                raise popart_exception(
                    f"{name}TensorLocationSettings.{field} is {getattr(settings, field)}: it must be 0 or more"
                )


def _check_replication(options: SessionOptions, device: Any) -> None:
    count = options.replicatedGraphCount
    if count < 1:
        raise popart_exception(f"replicatedGraphCount is {count}: it must be at least 1")
    if count > 1 and not options.enableReplicatedGraphs:
        raise popart_exception(
            f"replicatedGraphCount is {count} and enableReplicatedGraphs is False; set it to True, or the count to 1"
        )
    if options.enableReplicatedGraphs and device.numIpus % count:
        raise popart_exception(
            f"replicatedGraphCount is {count} and the device has {device.numIpus} IPUs, which cannot be shared out evenly; use a "
            "count that divides them"
        )
    if not options.enableDistributedReplicatedGraphs:
        return
    total, offset = options.globalReplicationFactor, options.globalReplicaOffset
    if total < 1:
        raise popart_exception(f"globalReplicationFactor is {total}: it must be at least 1")
    if not 0 <= offset <= total:
        raise popart_exception(
            f"globalReplicaOffset is {offset}: it must be from 0 to globalReplicationFactor, {total}"
        )
    if options.enableReplicatedGraphs and not 1 < count <= total:
        raise popart_exception(
            f"replicatedGraphCount is {count}: with enableDistributedReplicatedGraphs and enableReplicatedGraphs it must be from 2 "
            f"to globalReplicationFactor, {total}"
        )
    if total % (count if options.enableReplicatedGraphs else 1):
        raise popart_exception(
            f"globalReplicationFactor is {total} and each process has {count} replicas, which do not divide it; use a multiple"
        )


def _check_accumulation(options: SessionOptions, is_training: bool) -> None:
    factor = options.accumulationFactor
    if factor < 1:
        raise popart_exception(f"accumulationFactor is {factor}: it must be at least 1")
    if factor > 1 and not options.enableGradientAccumulation:
        raise popart_exception(
            f"accumulationFactor is {factor} and enableGradientAccumulation is False; set it to True, or the factor to 1"
        )
    if options.enableGradientAccumulation and not is_training:
        raise popart_exception(
            "enableGradientAccumulation is True in an InferenceSession, which has no gradients; set it to False, and "
            "batchesPerStep to the number of micro-batches"
        )


def _check_virtual_graphs(options: SessionOptions, device: Any) -> None:
    mode, phases = options.virtualGraphMode, options.executionPhaseSettings.phases
    is_phased = mode is VirtualGraphMode["ExecutionPhases"]  # without phases the annotations are dropped
    if phases >= 2 and not is_phased:
        raise popart_exception(
            f"executionPhaseSettings.phases is {phases} and virtualGraphMode is {mode.name}: 2 phases or more go with "
            "VirtualGraphMode.ExecutionPhases, and with no other mode"
        )
    if phases >= 2 and options.executionPhaseSettings.stages < 1:
        raise popart_exception(
            f"executionPhaseSettings.stages is {int(options.executionPhaseSettings.stages)}: it must be at least 1"
        )
    if is_phased and options.enablePipelining:
        raise popart_exception("enablePipelining is True and virtualGraphMode is ExecutionPhases; use one of both")
    ratios = options.virtualGraphSplitRatios
    if mode is not VirtualGraphMode["Auto"] or not ratios:
        return
    ipus = ipus_of_replica(options, device)
    if (
        len(ratios) != ipus
        or not all(0 < ratio < 1 for ratio in ratios)
        or not math.isclose(sum(ratios), 1, abs_tol=1e-6)
    ):
        raise popart_exception(
            f"virtualGraphSplitRatios is {ratios}: it needs one number between 0 and 1 for each of the {ipus} IPUs of a replica, "
            f"and their sum, {sum(ratios):g}, must be 1"
        )


def _check_pipelining(options: SessionOptions, flow: DataFlow, is_training: bool) -> None:
    pipelined, explicit = options.enablePipelining, is_explicit(options)
    if options.createImplicitPipeliningFwdOnlyProgram:
        missing = [
            text
            for is_wrong, text in (
                (not pipelined, "enablePipelining is False"),
                (explicit, "useHostCopyOps and enableExplicitMainLoops make the pipeline explicit"),
                (not options.enableGradientAccumulation, "enableGradientAccumulation is False"),
            )
            if is_wrong
        ]
        if missing:
            raise popart_exception(
                f"createImplicitPipeliningFwdOnlyProgram is True and {', '.join(missing)}: it needs an implicit pipeline with "
                "gradient accumulation"
            )
    if not pipelined:
        if options.autoRecomputation is RecomputationType["Pipeline"]:
            raise popart_exception(
                "autoRecomputation is RecomputationType.Pipeline and enablePipelining is False; use RecomputationType.Standard"
            )
        return
    if options.virtualGraphMode is VirtualGraphMode["Off"]:
        raise popart_exception(
            "enablePipelining is True and virtualGraphMode is Off; set it to VirtualGraphMode.Manual or Auto"
        )
    if options.aliasZeroCopy and not explicit:
        raise popart_exception(
            "aliasZeroCopy is True in an implicit pipeline; call enableExplicitIR(True), or set it to False"
        )
    if explicit and not options.explicitRecomputation:
        raise popart_exception(
            "enablePipelining, useHostCopyOps and enableExplicitMainLoops are True, and explicitRecomputation is False; call "
            "enableExplicitIR(True), which sets it"
        )
    for id in flow.anchors():
        if flow.art(id).id() is AnchorReturnTypeId["EveryN"]:
            raise popart_exception(
                f"the anchor '{id}' is returned EveryN and enablePipelining is True; use All, Sum or Final in a pipeline"
            )
    if is_training and options.automaticLossScalingSettings.enabled and not options.enableGradientAccumulation:
        raise popart_exception(
            "automaticLossScalingSettings.enabled is True in a pipeline and enableGradientAccumulation is False; set it to True"
        )


def check_pipeline_device(options: SessionOptions, device: Any) -> None:
    """Raises popart_exception for a pipeline on one IPU."""
    ipus = ipus_of_replica(options, device)
    if options.enablePipelining and ipus < 2:
        raise popart_exception(
            f"enablePipelining is True and a replica has {ipus} IPU: a pipeline needs two or more virtual graphs. Use a device "
            "with more IPUs, or fewer replicas"
        )


def _check_loops(options: SessionOptions) -> None:
    if options.enableExplicitMainLoops and not options.useHostCopyOps:
        raise popart_exception(
            "enableExplicitMainLoops is True and useHostCopyOps is False; call enableExplicitIR(True), which sets both"
        )
    if options.numIOTiles and options.virtualGraphMode is VirtualGraphMode["Off"]:
        raise popart_exception(
            f"numIOTiles is {options.numIOTiles} and virtualGraphMode is Off; set it to VirtualGraphMode.Auto or Manual"
        )
    if options.defaultBufferingDepth < 1:
        raise popart_exception(f"defaultBufferingDepth is {options.defaultBufferingDepth}: it must be at least 1")
    for id, depth in options.bufferingDepthMap.items():
        if depth < 1:
            raise popart_exception(f"bufferingDepthMap['{id}'] is {depth}: it must be at least 1")


def check_buffering(options: SessionOptions, inputs: list[str], anchors: list[str]) -> None:
    """Raises popart_exception for several buffers of a tensor that the host rearranges."""
    depths = options.bufferingDepthMap
    for ids, name, kind in (
        (inputs, "rearrangeStreamsOnHost", "input"),
        (anchors, "rearrangeAnchorsOnHost", "anchor"),
    ):
        for id in ids if getattr(options, name) else ():
            depth = depths.get(id, options.defaultBufferingDepth)
            if depth > 1:
                origin = f"bufferingDepthMap['{id}']" if id in depths else "defaultBufferingDepth"
                raise popart_exception(
                    f"{origin} is {depth} and {name} is True: the {kind} '{id}', which the host rearranges, has one buffer. Set "
                    f"{name} to False, or the depth to 1"
                )


def _check_locations(options: SessionOptions) -> None:
    places = {
        f"{name}TensorLocationSettings": getattr(options, f"{name}TensorLocationSettings").location
        for name in ("weight", "optimizerState", "accumulator", "activation")
    }
    places |= {
        f"tensorLocationSettingsOverride['{id}']": place for id, place in options.tensorLocationSettingsOverride.items()
    }
    for name, location in places.items():
        if TileSet["IO"] in (location.loadTileSet, location.storageTileSet) and not options.numIOTiles:
            raise popart_exception(
                f"{name} asks for TileSet.IO and numIOTiles is 0; set it to {_FEWEST_IO_TILES} or more, or use TileSet.Compute"
            )


def _check_anchors(options: SessionOptions, flow: DataFlow) -> None:
    for id in flow.anchors():
        _check_exchange(options, f"the anchor '{id}'", flow.art(id).tileSet(), flow.art(id).exchangeStrategy())


def _check_exchange(options: SessionOptions, what: str, tiles: Any, strategy: Any) -> None:
    if tiles is TileSet["IO"] and not options.numIOTiles:
        raise popart_exception(
            f"{what} is on TileSet.IO and numIOTiles is 0; set it to {_FEWEST_IO_TILES} or more, or use TileSet.Compute"
        )
    if strategy is ExchangeStrategy["OverlapStep"]:
        raise popart_exception(
            f"{what} has ExchangeStrategy.OverlapStep, which is not supported; use OverlapLoops, OverlapInnerLoop or JustInTime"
        )
    if strategy is ExchangeStrategy["JustInTime"]:
        return
    for is_wrong, option in (
        (not options.useHostCopyOps, "useHostCopyOps is False"),
        (not options.enableExplicitMainLoops, "enableExplicitMainLoops is False"),
        (options.virtualGraphMode is VirtualGraphMode["Off"], "virtualGraphMode is Off"),
    ):
        if is_wrong:
            raise popart_exception(
                f"{what} has ExchangeStrategy.{strategy.name} and {option}; call enableExplicitIR(True) and set virtualGraphMode, "
                "or use ExchangeStrategy.JustInTime"
            )


def _check_serialisation(options: SessionOptions, is_training: bool) -> None:
    settings = options.batchSerializationSettings
    if settings.factor < 0:
        raise popart_exception(f"batchSerializationSettings.factor is {settings.factor}: it must be 0 or more")
    if (
        is_training
        and settings.factor > 1
        and settings.transformContext is BatchSerializationTransformContext["Fwd"]
        and settings.method is BatchSerializationMethod["Loop"]
    ):
        raise popart_exception(
            "batchSerializationSettings has transformContext Fwd and method Loop in a TrainingSession: loops are not "
            "differentiated; use the context Bwd, or UnrollDynamic"
        )


def _check_transforms(options: SessionOptions) -> None:
    for checkpoint, names in options.experimentalSettings.customTransformApplierSettings.items():
        for name in names:
            raise popart_exception(
                f"experimentalSettings.customTransformApplierSettings names the transform '{name}' at '{checkpoint}', and none of "
                "that name is registered: transforms that are written in C++ against PopART's headers cannot be loaded"
            )


def check_codelets(options: SessionOptions) -> None:
    """Says of codelets that nothing reads them. Raises popart_exception for a file that is not there."""
    for name in options.customCodelets:
        if not os.path.isfile(os.path.expanduser(name)):
            raise popart_exception(f"customCodelets names the file '{name}', which is not there")
    if options.customCodelets:
        getLogger("session").warn(
            f"customCodelets has {len(options.customCodelets)} files, which nothing reads: operators run on kernels of the emulator"
        )


def check_types(options: SessionOptions, dtypes: dict[str, Any]) -> None:
    """Checks the types of what the host moves.

    Raises:
        popart_exception: one is DOUBLE, or a 64-bit integer where these may not become 32-bit ones.
    """
    for id, dtype in dtypes.items():
        if numpy.dtype(dtype) == numpy.float64:
            raise popart_exception(
                f"unsupported data type: '{id}' is DOUBLE, which devices do not have; convert the model with "
                "GraphTransformer.convertDoublesToFloats"
            )
    if options.enableSupportedDataTypeCasting:
        return
    for id, dtype in dtypes.items():
        if numpy.dtype(dtype).name in ("int64", "uint64"):
            raise popart_exception(
                f"'{id}' is {numpy.dtype(dtype).name.upper()}, which devices do not have; they have 32-bit integers: leave "
                "enableSupportedDataTypeCasting True to have it cast, or use a 32-bit type in the model"
            )
