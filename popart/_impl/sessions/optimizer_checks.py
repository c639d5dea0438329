"""Which options of a session go together with an optimizer. What is refused names both and a cure."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import GradientTensorTrackingMethod
from popart._impl.exceptions import popart_exception
from popart._impl.session_options import SessionOptions


def check_loss_scaling(options: SessionOptions, optimizer: Any) -> None:
    """Raises popart_exception where automatic loss scaling is asked for and cannot be. `optimizer`: None in inference."""
    settings = options.automaticLossScalingSettings
    if not settings.enabled:
        return
    if optimizer is None:
        raise popart_exception(
            "automaticLossScalingSettings.enabled is True in an inference session; there is no loss to scale"
        )
    if optimizer._loss_scaling.isConst():
        raise popart_exception(
            "automaticLossScalingSettings.enabled is True and the optimizer's lossScaling is constant; make it variable: "
            "(value, False)"
        )
    by_name = settings.gradientTensorTrackingMethod is GradientTensorTrackingMethod["GradientsOfUserSpecifiedTensors"]
    if by_name != bool(settings.toTrackTensors):
        raise popart_exception(
            f"automaticLossScalingSettings.toTrackTensors is {settings.toTrackTensors} and gradientTensorTrackingMethod is "
            f"{settings.gradientTensorTrackingMethod.name}; tensors are named with GradientsOfUserSpecifiedTensors, and only "
            "then"
        )
    if getattr(optimizer, "scaled_optimizer_state", False):
        raise popart_exception(
            "scaled_optimizer_state and automatic loss scaling exclude each other; turn one of them off"
        )


def check_clipping(options: SessionOptions, optimizer: Any) -> None:
    """Raises popart_exception for clipping in a pipeline that keeps the order of updates. `optimizer`: None in inference."""
    schedule = options.accumulateOuterFragmentSettings.schedule
    if options.enablePipelining and optimizer is not None and optimizer._clips and schedule.name == "Serial":
        raise popart_exception(
            "the optimizer has clip_norm_settings, enablePipelining is True and accumulateOuterFragmentSettings.schedule is "
            "Serial: a norm over the stages of a pipeline needs all gradients before the first update. Set the schedule to "
            "AccumulateOuterFragmentSchedule.OverlapCycleOptimized or another"
        )


def check_proportion(options: SessionOptions) -> None:
    """Raises popart_exception for a proportion of automatic loss scaling that is none."""
    settings = options.automaticLossScalingSettings
    if settings.enabled and not 0 <= settings.thresholdUpperCountProportion <= 1:
        raise popart_exception(
            f"automaticLossScalingSettings.thresholdUpperCountProportion is {settings.thresholdUpperCountProportion}: it must be "
            "from 0 to 1"
        )
