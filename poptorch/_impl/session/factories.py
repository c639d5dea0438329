"""The two factories that wrap a module."""

from __future__ import annotations

import collections.abc
import typing

import torch

from poptorch import enums, optim
from poptorch._impl import errors, log
from poptorch._impl.session import weight_hooks
from poptorch._impl.session.executor import PoplarExecutor, state_of
from poptorch.options import Options


def _prepared_options(options: Options | None, default_output_mode: enums.OutputMode) -> Options:
    if not options:
        options = Options()
    if not isinstance(options, Options):
        raise errors.create_error(f"Invalid type of options: expected poptorch.Options, got {type(options).__name__}.")
    options._freeze()
    own = options.clone()
    if own.defaultOutputMode():
        own.outputMode(default_output_mode)
    own._fix_anchor_modes()
    own._freeze()
    log.set_max_repeat_logs(own.max_repeat_logs)
    return own


def _model_and_origins(model: typing.Any) -> tuple[typing.Any, tuple[typing.Any, ...]]:
    """The model to wrap, and those it is a copy of when it comes from another wrapper."""
    return (model.model, state_of(model).origins) if isinstance(model, PoplarExecutor) else (model, ())


def trainingModel(
    model: torch.nn.Module | PoplarExecutor,
    options: Options | None = None,
    optimizer: torch.optim.Optimizer | None = None,
) -> PoplarExecutor:
    """Wraps a module for training: each call runs forward, backward and the weight updates on the IPUs.

    Args:
        model: torch.nn.Module whose `forward` returns a loss (or marks one with `identity_loss`). Set `model.train()`
            or `eval()` before wrapping.
        options: `poptorch.Options`, frozen from now on.
        optimizer: SGD, Adam, AdamW or RMSprop of torch or poptorch, or LAMB; default
            `poptorch.optim.SGD(model.parameters(), lr=0.01)`.

    Returns:
        `PoplarExecutor`. A call takes the inputs of `forward` with dimension 0 times device iterations times
        accumulation times replicas, and returns what `forward` returns (output mode Final by default).

    Raises:
        RuntimeError: the model is already wrapped for training.
        poptorch.Error: options of another type, or a buffer that is not a plain tensor.
        AssertionError: unsupported optimizer.

    Example:
        >>> trainer = poptorch.trainingModel(net, options, poptorch.optim.SGD(net.parameters(), lr=0.1))
        >>> output, loss = trainer(images, labels)
    """
    model, origins = _model_and_origins(model)
    if any(map(weight_hooks.is_wrapped, (model, *origins))):
        raise RuntimeError("The model is already wrapped in a trainingModel: call destroy() on it first.")
    own = _prepared_options(options, enums.OutputMode.Final)
    if optimizer is None:
        optimizer = optim.SGD(model.parameters(), lr=0.01)
    return PoplarExecutor(model, own, training=True, optimizer=optimizer, origins=origins)


def inferenceModel(
    model: torch.nn.Module | collections.abc.Callable[..., typing.Any],
    options: Options | None = None,
) -> PoplarExecutor:
    """Wraps a module (or another wrapper's module, sharing its weights) for inference.

    Args:
        model: torch.nn.Module, callable, or `PoplarExecutor`. Set `model.eval()` before wrapping, or `eval()` of the
            wrapper before it is compiled.
        options: `poptorch.Options`, frozen from now on.

    Returns:
        `PoplarExecutor`; output mode All by default.

    Raises:
        poptorch.Error: options of another type, or gradient accumulation other than 1.

    Example:
        >>> predict = poptorch.inferenceModel(net.eval())
        >>> logits = predict(images)
    """
    model, origins = _model_and_origins(model)
    own = _prepared_options(options, enums.OutputMode.All)
    accumulation = own.Training.gradient_accumulation
    if accumulation != 1:
        hint = (
            " To keep a pipeline busy in inference use Options.deviceIterations instead."
            if own._strategy._schedule == "pipelined"
            else ""
        )
        raise errors.create_error(
            f"Gradient accumulation ({accumulation}) must be 1 for inference: "
            f"set Options.Training.gradientAccumulation(1).{hint}"
        )
    return PoplarExecutor(model, own, training=False, origins=origins)
