"""Devices: what a program is compiled for and runs on. All are emulated; "hardware" is the system of this process."""

from __future__ import annotations

import functools
import itertools
import random
import weakref
from collections.abc import Mapping
from typing import Any

from popart._impl.enums import (
    DeviceConnectionType,
    DeviceSelectionCriterion,
    DeviceType,
    SyncPattern,
    syncPatternFromString,
)
from popart._impl.exceptions import popart_exception, popart_runtime_error, poplar_exception

_ids = itertools.count()
_VERSIONS = ("ipu1", "ipu2", "ipu21")
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


_selection = random.Random(0)  # Random selects the same devices in every process


def system_ipus() -> int:
    """IPUs of the system that this process emulates."""
    from ipu_core import _native

    return int(_native.system_ipus())


@functools.cache
def machine(version: str) -> dict[str, int]:
    """`tiles`, `bytes_per_tile` and `workers_per_tile` of an IPU; a version that is not known is like "ipu2"."""
    from ipu_core import _native

    numbers: dict[str, int] = _native.machine(version if version in _VERSIONS else "ipu2")
    return numbers


class DeviceInfo:
    """A device: its kind, its IPUs, whether this program holds it, and which session is loaded on it.

    `with device:` detaches at the end. A device like hardware has IPUs of the system, `driverIds`, which one device at a
    time holds.
    """

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
        first_ipu: int = 0,
        attach_timeout: int = 0,
    ) -> None:
        self._type, self._connection, self._pattern = type, connection, pattern
        self._ipus, self._tiles = ipus, tiles
        self._version, self._ipu_version = version, ipu_version
        self._id = next(_ids) if id is None else id
        self._first_ipu, self.attach_seconds = first_ipu, attach_timeout
        self._attached = False
        self.ipus: Any = None  # the lease of those of the system, while attached
        self._loaded: weakref.ref[Any] | None = None
        self.rng_state: list[int] | None = None  # of the random number generators of all IPUs; None: never set

    type = property(lambda self: self._type)
    connectionType = property(lambda self: self._connection)
    version = property(lambda self: self._version)
    ipuVersion = property(lambda self: self._ipu_version)
    id = property(lambda self: self._id)
    numIpus = property(lambda self: self._ipus)
    tilesPerIPU = property(lambda self: self._tiles)
    tilesPerIpu = property(lambda self: self._tiles)
    isAttached = property(lambda self: self._attached)
    numWorkerContexts = property(lambda self: machine(self._ipu_version)["workers_per_tile"])
    syncPattern = property(lambda self: self._pattern)

    @property
    def bytes_per_ipu(self) -> int:
        """The memory of the tiles of one IPU."""
        return self._tiles * machine(self._ipu_version)["bytes_per_tile"]

    @property
    def driverIds(self) -> list[int]:
        """Numbers of the IPUs; [0] where programs are only compiled."""
        if self._type is DeviceType.Ipu:
            return list(range(self._first_ipu, self._first_ipu + self._ipus))
        return [0] if self._type is DeviceType.OfflineIpu else [self._id]

    def attach(self) -> bool:
        """Takes the device; False: another one holds some of its IPUs. Raises popart_exception for one that is only
        compiled for."""
        if self._type is DeviceType.OfflineIpu or self._connection is _NEVER:
            raise popart_exception(f"{self!r} cannot be attached: programs are only compiled for it")
        return self._attach(0.0)

    def _attach(self, seconds: float) -> bool:
        if not self._attached and self._type is DeviceType.Ipu:
            self.ipus = self._lease(seconds)
        self._attached = self._type is not DeviceType.Ipu or self.ipus is not None
        return self._attached

    def _lease(self, seconds: float) -> Any:
        from ipu_core import _native

        return _native.take_ipus(self._first_ipu, self._ipus, seconds)

    def is_in_use(self) -> bool:
        """Whether others hold some of the IPUs: devices, or models of other front ends."""
        return self._type is DeviceType.Ipu and not self._attached and self._lease(0.0) is None

    def tryAttachUntilTimeout(self) -> bool:
        """attach(), which waits for the IPUs until the timeout that was set when the device was acquired."""
        return self.attach() or self._attach(self.attach_seconds)

    def detach(self) -> None:
        """Gives the device back; what the loaded session has on it is lost. Raises popart_exception for one that is only
        compiled for."""
        if self._type is DeviceType.OfflineIpu:
            raise popart_exception(f"{self!r} cannot be detached: programs are only compiled for it")
        self.unload()
        self.ipus, self._attached = None, False

    # --- the session that is loaded
    def is_loaded(self, session: Any) -> bool:
        return self._loaded is not None and self._loaded() is session

    def load(self, session: Any) -> bool:
        """Makes `session` the loaded one, of which `unloaded()` is called when it is so no longer; True: it was not.

        Raises:
            popart_runtime_error: the device cannot be attached.
        """
        if self._type is DeviceType.OfflineIpu or self._connection is _NEVER:
            raise popart_runtime_error(f"{self!r} runs no programs: they are only compiled for it")
        if self.is_loaded(session) and self._attached:
            return False
        if not self._attached and self._connection is not _ON_DEMAND and self._type is DeviceType.Ipu:
            raise popart_runtime_error(f"{self!r} is detached; attach() takes it again")
        if not self.tryAttachUntilTimeout():
            raise popart_runtime_error(
                f"failed to attach to {self!r} within {self.attach_seconds} s: another device holds its IPUs"
            )
        self.unload()
        self._loaded = weakref.ref(session)
        return True

    def unload(self) -> None:
        """No session is loaded afterwards."""
        session = None if self._loaded is None else self._loaded()
        self._loaded = None
        if session is not None:
            session.unloaded()

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

    def createIpuModelDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        """`numIPUs` (1), `tilesPerIPU` (4), `compileIPUCode`, `ipuVersion` ("ipu2"). Raises popart_exception for another key."""
        known = {"numIPUs": 1, "tilesPerIPU": 4, "compileIPUCode": True, "ipuVersion": "ipu2"}
        read = _read("a model of IPUs", opts, known)
        version = read["ipuVersion"]
        return DeviceInfo(
            DeviceType.IpuModel,
            _ALWAYS,
            self._count(read["numIPUs"]),
            _tiles(read["tilesPerIPU"], version),
            version,
            version,
        )

    def createSimDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        read = _read("a simulator", opts, {"numIPUs": 1, "tilesPerIPU": 4})
        ipus, tiles = self._count(read["numIPUs"]), _tiles(read["tilesPerIPU"], "ipu2")
        return DeviceInfo(DeviceType.Sim, _ALWAYS, ipus, tiles, "<unknown-sim>", "ipu2")

    def createOfflineIPUDevice(self, opts: Mapping[str, Any]) -> DeviceInfo:
        known = {"numIPUs": 1, "tilesPerIPU": 0, "ipuVersion": "ipu2", "syncPattern": "full", "gatewayMode": "false"}
        read = _read("an offline IPU", opts, known)
        syncPatternFromString(read["syncPattern"])
        return self._offline(self._count(read["numIPUs"]), int(read["tilesPerIPU"]), read["ipuVersion"])

    def createOfflineIpuFromDeviceInfo(self, info: DeviceInfo) -> DeviceInfo:
        return self._offline(info.numIpus, info.tilesPerIPU, info.ipuVersion)

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
        """A device like hardware with so many IPUs that no other device holds, attached if `connectionType` is Always.
        None: there is none. Raises popart_exception where their number is no power of two."""
        if numIpus < 1 or numIpus & (numIpus - 1):
            raise popart_exception(f"{numIpus} IPUs cannot be acquired: the number must be a power of two")
        found = self.enumerateDevices(pattern, numIpus, DeviceType.Ipu, connectionType, tilesPerIpu)
        if connectionType is not _NEVER:
            free = [device for device in found if not device.is_in_use()]
            # A device that is attached later may wait for one that is in use now.
            found = free if free or connectionType is _ALWAYS else found
        if not found:
            return None
        is_random = selectionCriterion is DeviceSelectionCriterion["Random"]
        device = _selection.choice(found) if is_random else found[0]
        if connectionType is _ALWAYS:
            device.attach()
        return device

    def acquireAvailableDevice(self, *arguments: Any, **named: Any) -> DeviceInfo:
        """As tryAcquireAvailableDevice; where there is none, and for connectionType Never: popart_exception."""
        if named.get("connectionType") is _NEVER or _NEVER in arguments:
            raise popart_exception("connectionType Never acquires nothing: use createOfflineIPUDevice to compile")
        device = self.tryAcquireAvailableDevice(*arguments, **named)
        if device is None:
            from ipu_core import _native

            wanted = named.get("numIpus", arguments[0] if arguments else 1)
            raise popart_exception(
                f"failed to acquire {wanted} IPU(s): the system has {system_ipus()}, of which others hold "
                f"{system_ipus() - _native.free_ipus()}"
            )
        return device

    def tryAcquireDeviceById(
        self, id: int, pattern: SyncPattern = SyncPattern.Full, connectionType: Any = _ALWAYS
    ) -> DeviceInfo | None:
        """The device that enumerateDevices shows with this id; None: there is none, or another device holds its IPUs."""
        device = self._by_id(id, pattern, connectionType)
        if device is None or connectionType is not _ALWAYS:
            return device
        return device if device.attach() else None

    def acquireDeviceById(
        self, id: int, pattern: SyncPattern = SyncPattern.Full, connectionType: Any = _ALWAYS
    ) -> DeviceInfo:
        """Raises poplar_exception for an unknown id, popart_exception where another device holds the IPUs."""
        if self._by_id(id, pattern, connectionType) is None:
            raise poplar_exception(f"there is no device {id}; enumerateDevices shows those that there are")
        device = self.tryAcquireDeviceById(id, pattern, connectionType)
        if device is None:
            raise popart_exception(f"failed to acquire device {id}: it is in use")
        return device

    def enumerateDevices(
        self,
        pattern: SyncPattern = SyncPattern.Full,
        numIpus: int = 1,
        deviceType: DeviceType = DeviceType.Ipu,
        connectionType: Any = _ALWAYS,
        tilesPerIPU: int = 0,
    ) -> list[DeviceInfo]:
        """Every device with so many IPUs, those in use too; not attached. Groups of IPUs are numbered by size: first all
        single IPUs, then all pairs, and so on."""
        if deviceType is DeviceType.IpuModel and numIpus >= 1:
            return [self.createIpuModelDevice({"numIPUs": numIpus, "tilesPerIPU": tilesPerIPU or 4})]
        if deviceType is DeviceType.Cpu and numIpus == 1:
            return [self.createCpuDevice()]
        if deviceType is not DeviceType.Ipu or numIpus < 1 or numIpus & (numIpus - 1):
            return []
        from ipu_core import _native

        return [
            self._hardware(numIpus, tilesPerIPU, pattern, connectionType, _native.device_id(first, numIpus), first)
            for first in range(0, system_ipus() - numIpus + 1, numIpus)
        ]

    def _by_id(self, id: int, pattern: SyncPattern, connection: Any) -> DeviceInfo | None:
        from ipu_core import _native

        group = _native.device_group(id)
        return None if group is None else self._hardware(group[1], 0, pattern, connection, id, group[0])

    def setOnDemandAttachTimeout(self, attachTimeout: int) -> None:
        """Seconds for which devices that are acquired later try to attach."""
        DeviceManager._attach_timeout = attachTimeout

    @staticmethod
    def _count(text: str) -> int:
        if not text.isdigit() or int(text) < 1:
            raise popart_exception(f"numIPUs is {text}: a device has at least 1")
        return int(text)

    @staticmethod
    def _offline(ipus: int, tiles: int, version: str) -> DeviceInfo:
        if version not in _VERSIONS:
            raise popart_exception(f"no IPU has the version '{version}'; there are {', '.join(_VERSIONS)}")
        tiles = tiles or machine(version)["tiles"]
        return DeviceInfo(DeviceType.OfflineIpu, _NEVER, ipus, tiles, "<offline-ipu>", version, id=0)

    @staticmethod
    def _hardware(ipus: int, tiles: int, pattern: SyncPattern, connection: Any, id: int, first_ipu: int) -> DeviceInfo:
        tiles = tiles or machine("ipu2")["tiles"]
        timeout = DeviceManager._attach_timeout
        return DeviceInfo(
            DeviceType.Ipu, connection, ipus, tiles, "ipu2", "ipu2", pattern, id, first_ipu, attach_timeout=timeout
        )


def _tiles(count: str, version: str) -> int:
    """0: all tiles of an IPU."""
    return int(count) or machine(version)["tiles"]
