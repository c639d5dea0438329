"""Lazy modules (`torch.nn.LazyLinear`) of a model that is captured: their first call gives them parameters.

Their own hook does so on the host, from the shapes of the arguments. It gets tensors without values: an initialisation that
reads values raises torch's error.
"""

from __future__ import annotations

import typing

import torch
from torch.nn.modules.lazy import LazyModuleMixin
from torch.nn.parameter import is_lazy
from torch.utils import _pytree


def is_waiting(module: torch.nn.Module) -> bool:
    """Does it still wait for its first call?"""
    return isinstance(module, LazyModuleMixin) and module.has_uninitialized_params()


def _without_values(tensor):
    return torch.empty(tensor.shape, dtype=tensor.dtype, device="meta")


def initialise(module: typing.Any, args: tuple[typing.Any, ...], kwargs: dict[str, typing.Any]) -> None:
    """Gives the module parameters that fit these arguments of its call."""
    shapes = _pytree.tree_map_only(torch.Tensor, _without_values, (args, kwargs))
    module._infer_parameters(module, *shapes)


def follow(made: torch.nn.Module, original: typing.Any) -> None:
    """What the copy of a lazy module became becomes of the module itself, which shares its parameters."""
    for name in ("_initialize_hook", "_load_hook"):
        original.__dict__.pop(name, None)
    for name, value in made.__dict__.items():
        if name in original.__dict__:
            original.__dict__[name] = value
    if getattr(type(original), "cls_to_become", None) is type(made):  # not a wrapped class
        original.__class__ = type(made)


__all__ = ["follow", "initialise", "is_lazy", "is_waiting"]
