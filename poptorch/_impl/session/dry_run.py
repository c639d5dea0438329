"""A dry run: `compile()` of a model of which parameters, buffers or inputs are on meta, where tensors have a shape and no values.

It ends at the machine form, which is what reports read. There is nothing to run, to upload or to save.
"""

from __future__ import annotations

import collections.abc
import typing

import torch

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.structures import tensors_of


def states_on_meta(model: torch.nn.Module) -> list[str]:
    """What of the model has no values: "the parameter 'fc.weight'", ..."""
    return [
        f"the {kind} '{name}'"
        for kind, named in (("parameter", model.named_parameters()), ("buffer", model.named_buffers()))
        for name, tensor in named
        if tensor.is_meta
    ]


def inputs_on_meta(names: collections.abc.Iterable[str], values: collections.abc.Iterable[typing.Any]) -> list[str]:
    """What of the arguments of `forward` has no values: "the input 'x'", ..."""
    return [
        f"the input '{name}'"
        for name, value in zip(names, values)
        if any(tensor.is_meta for tensor in tensors_of(value))
    ]


def refusal(what: str, on_meta: collections.abc.Sequence[str]) -> poptorch_core.Error:
    """The error for what needs values; `on_meta`: what has none."""
    others = f" and {len(on_meta) - 1} more" if len(on_meta) > 1 else ""
    return errors.create_error(
        f"{what} needs values, and {on_meta[0]}{others} on meta {'have' if others else 'has'} none: such a model can be "
        'compiled and reported on (a dry run), and nothing else. Give the model values (model.to_empty(device="cpu"), then '
        "load_state_dict) and wrap it anew, with inputs of the CPU.\n"
        f"  from:     {poptorch_core.user_line()}"
    )
