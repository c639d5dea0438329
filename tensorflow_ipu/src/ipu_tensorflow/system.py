"""The IPUs that programs of this process run on: configured, asked for, and given back."""

from __future__ import annotations

import copy
import logging
import threading
from typing import Any

import tensorflow as tf

from ipu_tensorflow import core, device_ids, flags, scopes, validation
from ipu_tensorflow.configuration import Configuration
from ipu_tensorflow.enums import DeviceConnectionType
from ipu_tensorflow.option_functions import IpuOptions

log = logging.getLogger("tensorflow")
_lock = threading.RLock()
_active: IpuOptions | None = None


def configure_ipu_system(
    config: Configuration | IpuOptions, device: str = "cpu", reset_configuration: bool = True
) -> None:
    """Gives this process the IPUs that a configuration asks for.

    Args:
        config: an IPUConfig, or what the functions of `ipu.utils` made; later changes of it have no effect.
        device: has no effect.
        reset_configuration: another active configuration is reset first; else it is an error.

    Raises:
        TypeError: `config` is something else.
        ValueError, Exception: attributes do not fit together, or there are not so many free IPUs.
        NotImplementedError: a later version has what is asked for.
        tf.errors.InvalidArgumentError: there is no group of IPUs of that id, or two devices share an IPU.
        tf.errors.FailedPreconditionError: another configuration is active and `reset_configuration` is False.
    """
    global _active
    if not isinstance(config, (Configuration, IpuOptions)):
        raise TypeError(
            f"config must be an IPUConfig or what create_ipu_config() returns, and is {type(config).__name__}"
        )
    options = copy.deepcopy(config if isinstance(config, IpuOptions) else IpuOptions(config))
    validation.check(options.config, flags.running_on_ipu_model())
    devices = devices_of(options.config)
    with _lock:
        if _active == options:
            return
        if _active is not None:
            if not reset_configuration:
                raise tf.errors.FailedPreconditionError(
                    None, None, "another configuration is active: call reset_ipu_configuration() first"
                )
            log.warning("Another configuration of the IPUs is active: it is reset, and programs are compiled anew.")
            reset_ipu_configuration()
        core.set_devices(devices)
        if options.config.device_connection.type is DeviceConnectionType.ALWAYS:
            try:
                core.attach_devices()
            except core.native().Error as error:
                core.set_devices([])
                raise Exception(
                    f"could not attach: {error}. Free IPUs, or set device_connection.type to ON_DEMAND"
                ) from error
        _active = options


def get_ipu_config(session: Any = None) -> list[IpuOptions]:
    """The options of each device. Raises RuntimeError when nothing is configured.

    Args:
        session: has no effect: the IPUs are those of the process.
    """
    with _lock:
        if _active is None:
            raise RuntimeError("no IPUs are configured: call configure_ipu_system() first")
        return [copy.deepcopy(_active) for _ in devices_of(_active.config)]


def reset_ipu_configuration() -> None:
    """Waits until no program runs, gives the IPUs back and drops what was compiled. Nothing, if nothing is configured."""
    global _active
    with _lock:
        if _active is not None:
            core.set_devices([])
            _active = None


def active_config() -> Configuration:
    """What is configured, or what holds when nothing is."""
    with _lock:
        return Configuration() if _active is None else _active.config


def get_num_of_ipus_in_device(ipu_device: str, device: str = "cpu") -> int:
    """How many IPUs a TensorFlow device has, such as "/device:IPU:0".

    Args:
        device: has no effect.
    """
    return int(devices_of(active_config())[ordinal_of(ipu_device)]["ipus"])


def ordinal_of(device: str) -> int:
    """The number of a configured IPU device; ValueError if it is none."""
    ordinal = scopes.ipu_of(device)
    if ordinal is None:
        raise ValueError(f"'{device}' is no IPU device: it must be like '/device:IPU:0'")
    count = len(devices_of(active_config()))
    if ordinal >= count:
        raise ValueError(f"'{device}' is not there: {count} device(s) are configured")
    return ordinal


def unit_options(ordinal: int) -> dict[str, Any]:
    """What `ipu_core.Unit` is told of a program for the device of that number."""
    folder = flags.current().executable_cache_path or active_config().serialization_output_folder
    return {"device": ordinal, "cache_path": folder, "cache_suffix": ".poplar_exec"}


def devices_of(config: Configuration) -> list[dict[str, Any]]:
    """The devices of a configuration, as the core takes them."""
    waits = config.device_connection.type is DeviceConnectionType.ON_DEMAND
    shared = {
        "ipu_model": flags.running_on_ipu_model(),
        "wait_for_ipu": waits,
        "wait_seconds": flags.current().on_demand_device_timeout / 1000 if waits else -1.0,
        "compiles_only": config.device_connection.type is DeviceConnectionType.NEVER,
        "stochastic_rounding": config.has_floating_point("esr"),
        "check_floating_point": any(config.has_floating_point(name) for name in ("inv", "div0", "oflo")),
    }
    ids = config.ids_of_devices()
    if not ids:
        return [{"ipus": ipus, "ipu_id": -1, **shared} for ipus in config.ipus_of_devices() or [1]]
    ipus = core.system_ipus()
    known = device_ids.groups(ipus)
    taken: dict[int, int] = {}
    for id in ids:
        if not 0 <= id < len(known):
            raise tf.errors.InvalidArgumentError(
                None,
                None,
                f"select_ipus has the id {id}: a machine of {ipus} IPUs has ids 0 to {len(known) - 1}",
            )
        for ipu in known[id]:
            if ipu in taken:
                raise tf.errors.InvalidArgumentError(
                    None, None, f"select_ipus: the ids {taken[ipu]} and {id} share IPU {ipu}"
                )
            taken[ipu] = id
    return [{"ipus": len(known[id]), "ipu_id": device_ids.pool_id(known[id], ipus), **shared} for id in ids]
