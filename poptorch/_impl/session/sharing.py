"""Wrappers that share parameters or buffers: whose values are the newest, and who must take them.

Every wrapper has a copy of its states on its device. A training call makes that copy newer than the host's; whoever
reads, or runs next, has it fetched first, so one copy at most is ahead of the host (unless threads call such wrappers
at once: then the one that is fetched last counts). What was fetched from a training wrapper, or uploaded by its
`copyWeightsToDevice` or `load_state_dict`, makes the copies of all others stale: they upload it before they run.
"""

from __future__ import annotations

import itertools
import typing
import weakref

import torch

from poptorch import poptorch_core


class WrapperState(typing.Protocol):
    """What this module needs of a wrapper."""

    training: bool
    user_model: typing.Any
    partners: Partners
    is_stale: bool  # the host has newer values than the device

    def device_states(self) -> typing.Iterable[torch.Tensor]: ...


_Reference: typing.TypeAlias = "weakref.ref[WrapperState]"

_holders: dict[tuple[str, int], tuple[_Reference, ...]] = {}  # compiled wrappers by what they hold
_held: dict[int, list[tuple[str, int]]] = {}  # the other way round, by id of the wrapper


class Partners:
    """The other compiled wrappers that share states with one wrapper."""

    def __init__(self) -> None:
        self.all: tuple[_Reference, ...] = ()
        self.trainers: tuple[_Reference, ...] = ()

    def set(self, references: typing.Iterable[_Reference]) -> None:
        living = [(reference, other) for reference in references if (other := reference()) is not None]
        self.all = tuple(reference for reference, _ in living)
        self.trainers = tuple(reference for reference, other in living if other.training)


def enter(state: WrapperState) -> None:
    """The wrapper has a program, with states on its device."""
    key = id(state)
    identities = [identity for tensor in state.device_states() for identity in _identities(tensor)]
    own = weakref.ref(state, lambda reference: _remove(key, reference))
    _held[key] = identities
    found: dict[_Reference, None] = {}
    for identity in identities:
        others = _holders.get(identity, ())
        found |= dict.fromkeys(others)
        _holders[identity] = (*others, own)
    found.pop(own, None)
    state.partners.set(found)
    for reference in state.partners.all:
        if (other := reference()) is not None:
            other.partners.set((*other.partners.all, own))


def leave(state: WrapperState) -> None:
    """The wrapper's program is gone; what it knew was published before."""
    own = weakref.ref(state)
    for reference in state.partners.all:
        if (other := reference()) is not None:
            other.partners.set(kept for kept in other.partners.all if kept() is not state)
    state.partners.set(())
    _remove(id(state), own)


def _remove(key: int, gone: _Reference) -> None:
    for identity in _held.pop(key, ()):
        left = tuple(reference for reference in _holders.get(identity, ()) if reference != gone)
        if left:
            _holders[identity] = left
        else:
            _holders.pop(identity, None)


def _address(tensor: torch.Tensor) -> int:
    is_strided = object.__getattribute__(tensor, "layout") is torch.strided
    return torch.Tensor.untyped_storage(tensor)._cdata if is_strided else 0


def _identities(tensor: torch.Tensor) -> list[tuple[str, int]]:
    """What tells that two states are one: the object, or the memory that two objects share."""
    # Its values are not asked for, so nothing is fetched. One native call: an interrupt leaves nothing behind.
    address = poptorch_core.without_torch_function(_address, (tensor,), {})
    return [("object", id(tensor))] + ([("memory", address)] if address else [])


def publish(state: WrapperState) -> None:
    """The host has new values of the states of this wrapper: the others take them before they run."""
    _mark_stale(state.partners.all)


def publish_model(state: WrapperState) -> None:
    """The same for all parameters and buffers of a model whose wrapper may have no program yet."""
    model = state.user_model
    for tensor in itertools.chain(model.parameters(), model.buffers()):
        for identity in _identities(tensor):
            _mark_stale(_holders.get(identity, ()))


def _mark_stale(references: tuple[_Reference, ...]) -> None:
    for reference in references:
        if (other := reference()) is not None:
            other.is_stale = True
