"""Devices: what a program is compiled for and runs on. All are emulated; "hardware" is as much as the host has."""

from __future__ import annotations

import itertools
from collections.abc import Mapping
from typing import Any

from popart._impl.enums import DeviceConnectionType, DeviceSelectionCriterion, DeviceType, SyncPattern
from popart._impl.exceptions import popart_exception

_ids = itertools.count()
_TILES = {"ipu1": 1216, "ipu2": 1472, "ipu21": 1472}
_WORKERS = 6
_ALWAYS, _ON_DEMAND, _NEVER = DeviceConnectionType
# IPUs and version of each named system.
SYSTEMS = {
    "ipu2": (1, "ipu2"),
    "IPU-M2000": (4, "ipu2"),
    "IPU-POD4": (4, "ipu2"),
    "IPU-POD8": (8, "ipu2"),
    "IPU-POD16": (16, "ipu2"),
    "IPU-POD32": (32, "ipu2"),
    "IPU-POD64": (64, "ipu2"),
    "IPU-POD128": (128, "ipu2"),
    "IPU-POD256": (256, "ipu2"),
}


class DeviceInfo:
    """A device: its kind, its IPUs, and whether this program holds it. `with device:` detaches at the end."""

    def __init__(
        self,
        type: DeviceType,
        connection: Any,
        ipus: int,
        tiles: int,
        version: str,
        ipu_version: str,
        pattern: SyncPattern = SyncPattern.Full,
        id: int | None = None,
    ) -> None:
        self._type, self._connection, self._pattern = type, connection, pattern
        self._ipus, self._tiles = ipus, tiles
        self._version, self._ipu_version = version, ipu_version
        self._id = next(_ids) if id is None else id
        self._attached = False

    type = property(lambda self: self._type)
    connectionType = property(lambda self: self._connection)
    version = property(lambda self: self._version)
    ipuVersion = property(lambda self: self._ipu_version)
    id = property(lambda self: self._id)
    numIpus = property(lambda self: self._ipus)
    tilesPerIPU = property(lambda self: self._tiles)
    tilesPerIpu = property(lambda self: self._tiles)
    isAttached = property(lambda self: self._attached)
    numWorkerContexts = property(lambda self: _WORKERS)
    driverIds = property(lambda self: [0] if self._type is DeviceType.OfflineIpu else [self._id])
    syncPattern = property(lambda self: self._pattern)

    def attach(self) -> bool:
        """Takes the device. Raises popart_exception for one that is only compiled for."""
        if self._type is DeviceType.OfflineIpu or self._connection is _NEVER:
            raise popart_exception(f"{self!r} cannot be attached: programs are only compiled for it")
        self._attached = True
        return True

    def tryAttachUntilTimeout(self) -> bool:
        return self.attach()

    def detach(self) -> None:
        if self._type is DeviceType.OfflineIpu:
            raise popart_exception(f"{self!r} cannot be detached: programs are only compiled for it")
        self._attached = False

    def __enter__(self) -> DeviceInfo:
        return self

    def __exit__(self, kind: Any, error: Any, trace: Any) -> None:
        if self._attached:
            self.detach()

    def __repr__(self) -> str:
        return (
            f"DeviceInfo(type={self._type}, connection type={self._connection.name}, id={self._id}, version={self._version}, "
            f"numIPUs={self._ipus}, tilesPerIPU={self._tiles}, device ids={self.driverIds})"
        )

    __str__ = __repr__


def _read(what: str, options: Mapping[str, Any], known: Mapping[str, Any]) -> dict[str, str]:
    """The options as texts, with defaults. Raises popart_exception for a key that is not known."""
    for key in options:
        if key not in known:
            raise popart_exception(f"createHostDevice: '{key}' is no option of {what}; there are {', '.join(known)}")
    return {key: str(options.get(key, value)) for key, value in known.items()}


class DeviceManager:
    """Finds and makes devices; every DeviceManager() is a handle of the same manager."""

    _attach_timeout = 0

    def createCpuDevice(self) -> DeviceInfo:
        return DeviceInfo(DeviceType.Cpu, _ALWAYS, 1, 1, "<unknown-cpu>", "<unknown-cpu>")

    def createIpuModelDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        """`numIPUs` (1), `tilesPerIPU` (4), `compileIPUCode`, `ipuVersion` ("ipu2"). Raises popart_exception for another key."""
        known = {"numIPUs": 1, "tilesPerIPU": 4, "compileIPUCode": True, "ipuVersion": "ipu2"}
        read = _read("a model of IPUs", options, known)
        version = read["ipuVersion"]
        return DeviceInfo(
            DeviceType.IpuModel, _ALWAYS, self._count(read["numIPUs"]), int(read["tilesPerIPU"]), version, version
        )

    def createSimDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        read = _read("a simulator", options, {"numIPUs": 1, "tilesPerIPU": 4})
        ipus, tiles = self._count(read["numIPUs"]), int(read["tilesPerIPU"])
        return DeviceInfo(DeviceType.Sim, _ALWAYS, ipus, tiles, "<unknown-sim>", "ipu2")

    def createOfflineIPUDevice(self, options: Mapping[str, Any]) -> DeviceInfo:
        known = {"numIPUs": 1, "tilesPerIPU": 0, "ipuVersion": "ipu2", "syncPattern": "full", "gatewayMode": "false"}
        read = _read("an offline IPU", options, known)
        return self._offline(self._count(read["numIPUs"]), int(read["tilesPerIPU"]), read["ipuVersion"])

    def createOfflineIpuFromDeviceInfo(self, deviceInfo: DeviceInfo) -> DeviceInfo:
        return self._offline(deviceInfo.numIpus, deviceInfo.tilesPerIPU, deviceInfo.ipuVersion)

    def createOfflineIpuFromSystemString(self, system: str, numIpus: int) -> DeviceInfo:
        """Raises popart_exception for a system that is not known, or has fewer IPUs."""
        if system not in SYSTEMS:
            raise popart_exception(f"no system is called '{system}'; there are {', '.join(SYSTEMS)}")
        ipus, version = SYSTEMS[system]
        if numIpus > ipus:
            raise popart_exception(f"the system '{system}' has {ipus} IPUs, and {numIpus} are asked for")
        return self._offline(numIpus, 0, version)

    def tryAcquireAvailableDevice(
        self,
        numIpus: int = 1,
        tilesPerIpu: int = 0,
        pattern: SyncPattern = SyncPattern.Full,
        connectionType: Any = _ALWAYS,
        selectionCriterion: Any = DeviceSelectionCriterion["First"],
    ) -> DeviceInfo | None:
        """A device like hardware with so many IPUs, attached if `connectionType` is Always. Raises popart_exception where
        their number is no power of two."""
        if numIpus < 1 or numIpus & (numIpus - 1):
            raise popart_exception(f"{numIpus} IPUs cannot be acquired: the number must be a power of two")
        device = self._hardware(numIpus, tilesPerIpu, pattern, connectionType)
        if connectionType is _ALWAYS:
            device.attach()
        return device

    def acquireAvailableDevice(self, *arguments: Any, **named: Any) -> DeviceInfo:
        """As tryAcquireAvailableDevice; connectionType Never raises popart_exception."""
        if named.get("connectionType") is _NEVER or _NEVER in arguments:
            raise popart_exception("connectionType Never acquires nothing: use createOfflineIPUDevice to compile")
        device = self.tryAcquireAvailableDevice(*arguments, **named)
        assert device is not None
        return device

    def tryAcquireDeviceById(
        self, id: int, pattern: SyncPattern = SyncPattern.Full, connectionType: Any = _ALWAYS
    ) -> DeviceInfo | None:
        """The device that enumerateDevices shows with this id; None: there is none."""
        if not 0 <= id < max(ipus for ipus, _ in SYSTEMS.values()):
            return None
        device = self._hardware(1, 0, pattern, connectionType, id)
        if connectionType is _ALWAYS:
            device.attach()
        return device

    def acquireDeviceById(
        self, id: int, pattern: SyncPattern = SyncPattern.Full, connectionType: Any = _ALWAYS
    ) -> DeviceInfo:
        device = self.tryAcquireDeviceById(id, pattern, connectionType)
        if device is None:
            raise popart_exception(f"there is no device {id}")
        return device

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: Any = _ALWAYS,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """What could be acquired with so many IPUs; not attached."""
        if deviceType is not DeviceType.Ipu or numIpus < 1 or numIpus & (numIpus - 1):
            return []
        return [self._hardware(numIpus, tilesPerIPU, pattern, connectionType, id=0)]

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        DeviceManager._attach_timeout = attachTimeout

    @staticmethod
    def _count(text: str) -> int:
        if not text.isdigit() or int(text) < 1:
            raise popart_exception(f"numIPUs is {text}: a device has at least 1")
        return int(text)

    @staticmethod
    def _offline(ipus: int, tiles: int, version: str) -> DeviceInfo:
        if version not in _TILES:
            raise popart_exception(f"no IPU has the version '{version}'; there are {', '.join(_TILES)}")
        return DeviceInfo(DeviceType.OfflineIpu, _NEVER, ipus, tiles or _TILES[version], "<offline-ipu>", version, id=0)

    @staticmethod
    def _hardware(ipus: int, tiles: int, pattern: SyncPattern, connection: Any, id: int | None = None) -> DeviceInfo:
        return DeviceInfo(DeviceType.Ipu, connection, ipus, tiles or _TILES["ipu2"], "ipu2", "ipu2", pattern, id)
