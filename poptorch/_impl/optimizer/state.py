"""Optimizer state between device, optimizer objects and files.

A `DeviceState` is the host's copy of what the device keeps for an optimizer; every `poptorch.optim` optimizer has one, and
an executor makes one for a torch optimizer. It is read when somebody asks for it, before the device is released, and then
not again until the next run. The device's side is `optimizer_link`.
"""

from __future__ import annotations

import typing
import weakref

import torch

from poptorch import poptorch_core
from poptorch._impl import errors
from poptorch._impl.log import logger

_Tensors = typing.Optional[dict[str, torch.Tensor]]


class DeviceState:
    """The host's copy of the state of one optimizer.

    `state` and `param` (dicts of tensors by back-end name) are None while there is nothing; `pending` says that they must
    reach the device before the next run.
    """

    def __init__(self, state: _Tensors = None, param: _Tensors = None, pending: bool = False) -> None:
        self.state = state
        self.param = param
        self.pending = pending
        self.scalars_are_loaded = False  # `param` is what the device shall use, whatever the optimizer's groups say
        # The link of the executor that has the state on its device.
        self._link: weakref.ref[typing.Any] | None = None
        self._version: int | None = None  # runs of that executor when the copy was made

    def follow(self, link: typing.Any, is_current: bool) -> None:
        """From now on the device of `link` has the newest state; `is_current`: the copy here equals it."""
        self._link = weakref.ref(link)
        self._version = link.version() if is_current else None

    def leave(self, link: typing.Any) -> None:
        """The device of `link` does not have the newest state any more."""
        if self._current_link() is link:
            self._link = None

    def fetch(self) -> None:
        """Brings the copy up to date if the device has run since it was made."""
        link = self._current_link()
        if link is not None and self.is_outdated():
            link.hold(self._read, link)

    def is_outdated(self) -> bool:
        """Has the device run since the copy was made?"""
        link = self._current_link()
        return not (link is None or self.pending or not link.is_attached() or self._version == link.version())

    def _read(self, link: typing.Any) -> None:
        if self._current_link() is not link or self.pending or not link.is_attached():
            return  # another thread changed it meanwhile
        version = link.version()
        self.state, self.param = link.read_device()
        self._version = version

    def load(self, loaded: DeviceState) -> None:
        """Takes over `loaded`, which waits for the device."""
        link = self._current_link()
        if link is None:
            self._take(loaded)
        else:
            link.hold(self._take, loaded)

    def _take(self, loaded: DeviceState) -> None:
        self.state, self.param, self.pending = loaded.state, loaded.param, True
        self.scalars_are_loaded = True

    def _current_link(self) -> typing.Any:
        link = self._link
        return link() if link is not None else None

    def snapshot(self) -> DeviceState:
        """An independent copy without a device; its state, if any, waits for upload."""
        self.fetch()
        return DeviceState(self.state, self.param, self.state is not None)

    def __getstate__(self) -> dict[str, _Tensors]:
        return {"state": self.state, "param": self.param}

    def __setstate__(self, saved: dict[str, _Tensors]) -> None:
        DeviceState.__init__(self, saved["state"], saved["param"], saved["state"] is not None)


def device_state_of(optimizer: object) -> DeviceState | None:
    """The `DeviceState` of a poptorch optimizer; None for one of torch."""
    return getattr(optimizer, "_device_state", None)


def state_dict_of(host: DeviceState, torch_part: dict[str, typing.Any]) -> dict[str, typing.Any]:
    """The state dictionary of a poptorch optimizer."""
    if host.state is not None and not host.is_outdated():
        logger.debug("Using cached optimiser state dict")
    host.fetch()
    copied = [dict(part) if part is not None else None for part in (host.state, host.param)]
    return {"ipu_state": copied[0], "ipu_param": copied[1], **torch_part}


def device_state_from(state_dict: dict[str, typing.Any]) -> DeviceState:
    """A pending `DeviceState` of the IPU part of a state dictionary.

    Raises:
        RuntimeError: there is no IPU part, or it is empty.
        poptorch.Error: a tensor in it cannot be read.
    """
    if "ipu_state" not in state_dict or "ipu_param" not in state_dict:
        raise RuntimeError(
            "Only IPU optimizer states can be loaded into a poptorch optimizer: the dictionary has no 'ipu_state' and "
            "'ipu_param'. It was saved by a torch optimizer; load it into one of that class."
        )
    state, param = state_dict["ipu_state"], state_dict["ipu_param"]
    if state is None or param is None or not (state or param):
        raise RuntimeError(
            "The IPU optimizer state is empty: it was saved before the model was compiled and attached. Save the state "
            "dictionary after the first call, or load its 'param_groups' into a new optimizer by hand."
        )

    def copied(tensors):
        return {name: _copy_of(name, torch.as_tensor(tensor)) for name, tensor in tensors.items()}

    return DeviceState(copied(state), copied(param), pending=True)


def _copy_of(name, tensor):
    if objection := poptorch_core.objection_to(tensor):
        raise errors.create_error(f"The optimizer state '{name}' {objection}")
    return tensor.detach().clone()
