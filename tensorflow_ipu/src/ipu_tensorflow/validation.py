"""What of a configuration does not fit together: found when it is configured."""

from __future__ import annotations

import os
import tempfile

from ipu_tensorflow.configuration import Configuration
from ipu_tensorflow.enums import DeviceConnectionType

_LATER = " is not in this version of tensorflow-ipu: it comes with a later one (docs/compatibility-tensorflow.md)"
_COMPILED_FOR = (DeviceConnectionType.NEVER, DeviceConnectionType.PRE_COMPILE)


def check(config: Configuration, is_model: bool) -> None:
    """Raises what chapter 6.5 of the API says. `is_model`: programs run on the software model."""
    _check_devices(config, is_model)
    connection = config.device_connection
    if connection.type in _COMPILED_FOR and not connection.version:
        raise ValueError(
            f"device_connection.version is empty: {connection.type.name} compiles without a device, so it must be 'ipu1' or 'ipu2'"
        )
    if connection.version not in ("", "ipu1", "ipu2"):
        raise ValueError(f"device_connection.version is '{connection.version}': it must be 'ipu1', 'ipu2' or ''")
    if connection.type is DeviceConnectionType.PRE_COMPILE:
        raise NotImplementedError(f"device_connection.type {connection.type.name}{_LATER}")
    _check_io_tiles(config)
    _check_processes(config, is_model)
    if is_model and not config.ipu_model.version:
        raise ValueError("ipu_model.version is empty: set it to 'ipu1' or 'ipu2' for the software model")
    if config.serialization_output_folder:
        _check_folder(config.serialization_output_folder)


def _check_devices(config: Configuration, is_model: bool) -> None:
    counts, ids = config.ipus_of_devices(), config.ids_of_devices()
    if counts and ids:
        raise Exception("both auto_select_ipus and select_ipus are set: set one of them")
    if any(count < 1 for count in counts):
        raise ValueError(f"auto_select_ipus is {config.auto_select_ipus}: each device has at least one IPU")
    if len(set(ids)) < len(ids):
        raise ValueError(f"select_ipus has an id twice: {ids}")
    if ids and is_model:
        raise Exception("select_ipus cannot be used with the software model: set auto_select_ipus")


def _check_io_tiles(config: Configuration) -> None:
    tiles, size = config.io_tiles, config.norms.experimental.distributed_batch_norm_replica_group_size
    if tiles.place_ops_on_io_tiles and tiles.num_io_tiles == 0:
        raise ValueError("io_tiles.place_ops_on_io_tiles is True and io_tiles.num_io_tiles is 0: reserve tiles for it")
    name = "norms.experimental.distributed_batch_norm_replica_group_size"
    if size < 1:
        raise ValueError(f"{name} is {size}: it must be at least 1")
    if size > 1 and tiles.num_io_tiles:
        raise ValueError(
            f"{name} is {size} and io_tiles.num_io_tiles is {tiles.num_io_tiles}: they cannot be used together"
        )
    if size > 1:
        raise NotImplementedError(f"{name} of more than 1{_LATER}")


def _check_processes(config: Configuration, is_model: bool) -> None:
    job = config.experimental.multi_replica_distribution
    if job.process_count > 0:
        if not 0 <= job.process_index < job.process_count:
            raise ValueError(
                f"experimental.multi_replica_distribution.process_index is {job.process_index}: "
                f"it must be from 0 to {job.process_count - 1}, below process_count"
            )
        if is_model:
            raise Exception("experimental.multi_replica_distribution cannot be used with the software model")
    if job.process_count > 1:
        raise NotImplementedError(f"experimental.multi_replica_distribution.process_count of more than 1{_LATER}")


def _check_folder(folder: str) -> None:
    try:
        os.makedirs(folder, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        raise ValueError(
            f"serialization_output_folder is '{folder}', which cannot be written: {error.strerror}"
        ) from None
