"""Which device a descriptor of a Session means."""

import os
from typing import Any

_KNOWN = ("cpu", "ipu_model", "ipu_hw")


def device_info(descriptor: Any, num_ipus: int = 1, use_popdist: bool = False) -> Any:
    """The `popart.DeviceInfo` to compile for.

    Args:
        descriptor: "cpu", "ipu_model", "ipu_hw", the name of a system, or a `popart.DeviceInfo`, which is returned.
            `POPXL_OFFLINE_DEVICE` replaces a text.
        num_ipus: IPUs it must have, a power of two.
        use_popdist: the launcher says which hardware.

    Raises:
        ValueError: "cpu" with several IPUs; an unknown descriptor.
        RuntimeError: there is no such device.
    """
    import popart

    if not isinstance(descriptor, str):
        return descriptor
    descriptor = os.environ.get("POPXL_OFFLINE_DEVICE") or descriptor
    manager = popart.DeviceManager()
    if descriptor == "cpu":
        if num_ipus > 1:
            raise ValueError(f'The program needs {num_ipus} IPUs, and "cpu" is one: use "ipu_model" or "ipu_hw".')
        return manager.createCpuDevice()
    if descriptor == "ipu_model":
        return manager.createIpuModelDevice({"numIPUs": num_ipus})
    if descriptor == "ipu_hw":
        return manager.createOfflineIPUDevice({"numIPUs": num_ipus})
    try:
        return manager.createOfflineIpuFromSystemString(descriptor, num_ipus)
    except popart.popart_exception as error:
        raise ValueError(
            f"{descriptor!r} is no device for {num_ipus} IPUs: use one of {', '.join(_KNOWN)}, or a system: {error}"
        ) from error


def acquire(compiled_for: Any, use_popdist: bool, attach_seconds: int) -> Any:
    """An attachable device like the one compiled for, which waits so long for its IPUs. Raises RuntimeError when there is none."""
    import popart

    if use_popdist:
        import popdist.popart

        return popdist.popart.getDevice(connectionType=popart.DeviceConnectionType.OnDemand)
    device = popart.DeviceManager().tryAcquireAvailableDevice(
        compiled_for.numIpus, connectionType=popart.DeviceConnectionType.OnDemand
    )
    if device is None:
        raise RuntimeError(f"No device with {compiled_for.numIpus} IPUs is there.")
    device.attach_seconds = attach_seconds  # of this device alone: the manager's belongs to the program
    return device


def next_power_of_two(number: int) -> int:
    return 1 << max(0, number - 1).bit_length()
