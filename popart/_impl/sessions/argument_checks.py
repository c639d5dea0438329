"""What the constructors of sessions are given: objects of the published classes."""

from __future__ import annotations

import os
from typing import Any

from popart._impl.data_flow import DataFlow, InputShapeInfo
from popart._impl.devices import DeviceInfo
from popart._impl.optimizers.optimizer import Optimizer
from popart._impl.patterns import Patterns
from popart._impl.session_options import SessionOptions

_CLASSES: dict[str, tuple[type, ...]] = {
    "fnModel": (bytes, bytearray, memoryview, str, os.PathLike),
    "dataFlow": (DataFlow,),
    "loss": (str,),
    "optimizer": (Optimizer,),
    "deviceInfo": (DeviceInfo,),
    "inputShapeInfo": (InputShapeInfo, type(None)),
    "patterns": (Patterns, type(None)),
    "userOptions": (SessionOptions, type(None)),
    "name": (str,),
}


def check_arguments(session: str, arguments: dict[str, Any]) -> None:
    """Raises TypeError for an argument of another class than the published one. `arguments`: of the constructor, by name."""
    for name, classes in _CLASSES.items():
        if name in arguments and not isinstance(arguments[name], classes):
            raise TypeError(
                f"{session}(): incompatible constructor arguments: {name} is a {classes[0].__name__}, not "
                f"{type(arguments[name]).__name__}"
            )
