"""Whether the host's values of variables are those of the device: a flag that users of inference read and set."""

from __future__ import annotations


class HostSync:
    """Part of the sessions that run a program forward."""

    _in_sync = False

    def weightsToHost(self) -> None:
        raise NotImplementedError

    def copyDeviceWeightsToHost(self) -> None:
        """The device's values of all variables come to the host, unless the host has them."""
        if not self._in_sync:
            self.weightsToHost()

    def markHostWeightsInSync(self) -> None:
        """The host's values are taken for those of the device."""
        self._in_sync = True

    def markHostWeightsOutOfSync(self) -> None:
        """The host's values are taken for older than those of the device."""
        self._in_sync = False

    def areHostWeightsInSync(self) -> bool:
        """Whether the host's values are those of the device."""
        return self._in_sync
