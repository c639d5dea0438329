"""What `ipu.pipelining_ops` says of pipelines: their schedules, options and results of their functions, and what they keep."""

from __future__ import annotations

import dataclasses
import enum
from typing import Any

import tensorflow as tf


class PipelineSchedule(enum.IntEnum):
    """In which order the stages of a pipeline run."""

    Grouped = 0
    Interleaved = 1
    Sequential = 2


class RecomputationMode(enum.Enum):
    """How values of the forward pass are computed again in the backward pass."""

    Auto = "Auto"
    RecomputeThenBackpropagate = "RecomputeThenBackpropagate"
    RecomputeAndBackpropagateInterleaved = "RecomputeAndBackpropagateInterleaved"


class PipelineStageOptions:
    """Flags of convolutions and of products in a stage."""

    def __init__(self, convolution_options: dict | None = None, matmul_options: dict | None = None) -> None:
        self.convolution_options = _options("convolution_options", convolution_options)
        self.matmul_options = _options("matmul_options", matmul_options)


def _options(name: str, value: dict | None) -> dict:
    if value is not None and not isinstance(value, dict):
        raise TypeError(f"PipelineStageOptions: {name} is a dictionary, not {type(value).__name__}")
    return value or {}


@dataclasses.dataclass
class OptimizerFunctionOutput:
    """What the optimizer function of a pipeline returns.

    Args:
        opt: an optimizer of tf.compat.v1.train.
        loss: a tensor.
        compute_gradients_args, compute_gradients_kwargs: for its compute_gradients, beside the loss.
        apply_gradients_args, apply_gradients_kwargs: for its apply_gradients, beside gradients and variables.
    """

    opt: Any
    loss: Any
    compute_gradients_args: tuple | None = None
    compute_gradients_kwargs: dict | None = None
    apply_gradients_args: tuple | None = None
    apply_gradients_kwargs: dict | None = None

    def __setattr__(self, name: str, value: Any) -> None:
        if name == "opt" and not isinstance(value, tf.compat.v1.train.Optimizer):
            raise TypeError(
                f"OptimizerFunctionOutput: opt is an optimizer of tf.compat.v1.train, not {type(value).__name__}"
            )
        if name == "loss" and not isinstance(value, tf.Tensor):
            raise TypeError(f"OptimizerFunctionOutput: loss is a tensor, not {type(value).__name__}")
        for ending, kind in (("_args", tuple), ("_kwargs", dict)):
            if name.endswith(ending):
                value = kind() if value is None else value
                if not isinstance(value, kind):
                    raise TypeError(f"OptimizerFunctionOutput: {name} is a {kind.__name__}, not {type(value).__name__}")
        super().__setattr__(name, value)


def recomputation_checkpoint(tensors: Any, name: str | None = None) -> Any:
    """The tensors of a structure as they are; nothing is computed again that they could spare."""
    with tf.name_scope(name or "recomputation_checkpoint"):
        return tf.nest.map_structure(tf.identity, tensors)
