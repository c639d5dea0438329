"""Moves parameters and buffers between the host and the device of one wrapper.

The host is behind while `host_version` differs from `weights_version`; the device is behind while `is_stale` is set.
"""

from __future__ import annotations

import typing

import torch

from poptorch import poptorch_core
from poptorch._impl.capture import host_calls
from poptorch._impl.log import INFO, logger
from poptorch._impl.session import current_states, job, sharing, weight_hooks
from poptorch._impl.session.compiled import Compiled
from poptorch._impl.session.state import WrapperState


def write(state: WrapperState, compiled: Compiled) -> None:
    """Host to device, of a wrapper that may not take calls yet."""
    state.fixed_host.hold(_write, state, compiled)  # what the device holds is no weight yet


def _write(state: WrapperState, compiled: Compiled) -> None:
    if current_states.follow(compiled.states, state.traced_model):
        sharing.leave(state)
        sharing.enter(state)
        if state.training:
            weight_hooks.wrap_tensors(state.user_model, state.owner)
    fetch_from_partners(state)
    state.is_stale = False
    poptorch_core.log(INFO, "Writing weights from host to IPU memory")
    compiled.executable.write_states(compiled.states)


def upload(state: WrapperState, compiled: Compiled) -> None:
    """Host to device, whose own values are discarded."""
    version = state.weights_version
    write(state, compiled)
    state.host_version = version


def read(state: WrapperState, compiled: Compiled) -> None:
    """Device to host."""
    version = state.weights_version
    state.fixed_host.hold(_read, state, compiled)  # the hooks of the tensors must not start another copy
    if state.host_version != version:
        state.host_version = version
        sharing.publish(state)


def _read(state: WrapperState, compiled: Compiled) -> None:
    poptorch_core.log(INFO, "Writing weights from IPU to host")
    _resize_to_replicas(state, compiled.states)
    compiled.executable.read_states(compiled.states)


def _resize_to_replicas(state: WrapperState, states: dict[str, torch.Tensor]) -> None:
    """Parameters of which every replica's value is read back get one entry per replica."""
    replicas = state.options.replication_factor * job.number_of_processes(state.options)
    for name, (_, all_replicas) in state.groupings.items():
        if all_replicas and name in states and states[name].shape[0] != replicas:
            tensor = states[name]
            tensor.data = tensor.new_empty((replicas, *tensor.shape[1:]), requires_grad=False)


def fetch(state: WrapperState) -> bool:
    """Device to host, if a training call made the host's values outdated; returns whether it copied."""
    if state.host_version == state.weights_version or state.compiled is None:
        return False
    if host_calls.running():  # inside of a run, which has the device: the host's tensors are as they are
        return False
    return state.lock.hold(_fetch, state)


def _fetch(state: WrapperState) -> bool:
    version, compiled = state.weights_version, state.compiled
    if state.fixed_host.is_held() or state.host_version == version or compiled is None:
        return False
    if not compiled.executable.is_attached():  # a call that is about to attach: the device has nothing newer
        state.host_version = version
        return False
    logger.debug("Implicit copyWeightsToHost()")
    read(state, compiled)
    return True


def fetch_from_partners(state: WrapperState) -> None:
    """Brings the host up to date with the training wrappers that share states with this one."""
    for reference in state.partners.trainers:
        if (other := reference()) is not None:
            fetch(typing.cast(WrapperState, other))


def take_newest(state: WrapperState, compiled: Compiled) -> None:
    """The device gets what another wrapper that shares states has, or had when it was destroyed."""
    fetch_from_partners(state)
    if state.is_stale:
        state.lock.hold(_take_newest, state, compiled)


def _take_newest(state: WrapperState, compiled: Compiled) -> None:
    if state.compiled is not compiled or not compiled.executable.is_attached():
        return  # attaching writes them
    logger.debug("Implicit copyWeightsToDevice()")
    fetch(state)  # of a call in another thread
    upload(state, compiled)
