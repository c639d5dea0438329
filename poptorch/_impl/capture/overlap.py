"""Marks of inputs and outputs whose transfers overlap with compute. On the CPU: the same values."""

from __future__ import annotations

import collections.abc
import typing

import torch

from poptorch import enums
from poptorch._impl import errors
from poptorch._impl.structures import parser_of, rebuild, tensors_of

_Structure = typing.TypeVar("_Structure")


def _check_members(name: str, value: typing.Any, place: str) -> None:
    """Error at the first member, at any depth, that is no tensor; `place` is how the caller would write it."""
    parser = parser_of(value)
    members: collections.abc.Iterable[tuple[typing.Any, str]]
    if isinstance(value, torch.Tensor):
        return
    if parser is not None:
        members = ((member, f"tensor {i} of {place}") for i, member in enumerate(parser.yieldTensors(value)))
    elif isinstance(value, (tuple, list)):
        members = ((member, f"{place}[{i}]") for i, member in enumerate(value))
    elif isinstance(value, dict):
        members = ((member, f"{place}[{key!r}]") for key, member in value.items())
    else:
        raise errors.create_error(
            f"{name} needs tensors: {place} is {type(value).__name__}. Pass a tensor, a tuple, list or dict of them, or a "
            "type with a registered parser (poptorch.registerCustomArgParser)."
        )
    for member, where in members:
        _check_members(name, member, where)


def _marked(name: str, direction: str, tensors: _Structure, mode: enums.OverlapMode) -> _Structure:
    if not isinstance(mode, enums.OverlapMode):
        raise errors.create_error(f"{name} needs a mode of poptorch.OverlapMode, got {mode!r}")
    _check_members(name, tensors, "its first argument")
    marks = (torch.ops.poptorch.overlap_mark(tensor, direction, mode.value) for tensor in tensors_of(tensors))
    return typing.cast(_Structure, rebuild(tensors, marks))


def set_overlap_for_input(input_tensors: _Structure, mode: enums.OverlapMode) -> _Structure:
    """Lets I/O tiles fetch the next elements of these inputs while the rest of the IPU computes. Values stay as they are.

    Apply it to arguments of `forward` before any other operation, and go on with what it returns. It needs
    `options.TensorLocations.numIOTiles(32)` or more and a strategy other than `PipelinedExecution`.

    Args:
        input_tensors: a tensor of any shape and dtype, or a tuple, list, dict or type with a registered parser that holds
            tensors, nested as deep as you like.
        mode: `OverlapMode.OverlapAccumulationLoop` overlaps the micro-batches of one weight update,
            `OverlapMode.OverlapDeviceIterationLoop` those of a whole call; `OverlapMode.NoOverlap` changes nothing.

    Returns:
        The same structure around tensors of the same shapes and dtypes.

    Raises:
        poptorch.Error: a member is no tensor, or `mode` no `OverlapMode`. When the model is compiled: a tensor is no
            input of the model or has other readers; the options rule out overlap.

    Example:
        >>> def forward(self, x):
        ...     x = poptorch.set_overlap_for_input(x, poptorch.OverlapMode.OverlapDeviceIterationLoop)
        ...     return self.layers(x)
    """
    return _marked("poptorch.set_overlap_for_input", "input", input_tensors, mode)


def set_overlap_for_output(output_tensors: _Structure, mode: enums.OverlapMode) -> _Structure:
    """Lets I/O tiles send these outputs to the host while the IPU computes the next. Values stay as they are.

    It must be the last operation before `forward` returns. It needs `options.TensorLocations.numIOTiles(32)` or more, a
    strategy other than `PipelinedExecution`, and `OutputMode.All` or `OutputMode.Sum`.

    Args:
        output_tensors: a tensor of any shape and dtype, or a structure of tensors, as for `set_overlap_for_input`.
        mode: member of `OverlapMode`, as for `set_overlap_for_input`.

    Returns:
        The same structure around tensors of the same shapes and dtypes.

    Raises:
        poptorch.Error: a member is no tensor, or `mode` no `OverlapMode`. When the model is compiled: a tensor is read
            again, not returned, or returned twice; the options rule out overlap.

    Example:
        >>> def forward(self, x):
        ...     y = self.layers(x)
        ...     return poptorch.set_overlap_for_output(y, poptorch.OverlapMode.OverlapDeviceIterationLoop)
    """
    return _marked("poptorch.set_overlap_for_output", "output", output_tensors, mode)
