"""Layers of version 1 need the Keras that was made for them, `tf_keras`; TensorFlow takes Keras 3 unless told otherwise.

TensorFlow reads the switch when a name of Keras is first used, so importing `ipu` before that is early enough.
"""

from __future__ import annotations

import functools
import importlib.util
import os
import pathlib
import sys
from typing import Any

import tensorflow as tf

from ipu_tensorflow import host

SWITCH = "TF_USE_LEGACY_KERAS"
CURE = f"Layers of version 1 need tf_keras: import ipu first, or set {SWITCH}=1"
INSTALL = "pip install --no-deps tf-keras=={}.*"


def use_legacy_keras() -> None:
    """Turns the switch on, if no name of Keras was used yet and the user has not set it."""
    found = importlib.util.find_spec("tf_keras")
    if found is None or SWITCH in os.environ or not _is_untouched():
        _explain(CURE if found else f"{CURE}, after {INSTALL.format('.'.join(tf.__version__.split('.')[:2]))}")
        return
    os.environ[SWITCH] = "1"
    folder = pathlib.Path((found.submodule_search_locations or [""])[0])
    for module, version in (
        ("tensorflow", "_v2"),
        ("tensorflow._api.v2.compat.v1", "_v1"),
        ("tensorflow.compat.v1", "_v1"),
    ):
        if module in sys.modules:  # `from tensorflow.keras import layers` looks here
            sys.modules[module].__path__.insert(0, str(folder / "api" / version))


def _is_untouched() -> bool:
    return isinstance(vars(tf)["keras"], host.KerasLazyLoader) and "tensorflow.keras" not in sys.modules


def _explain(cure: str) -> None:
    """What TensorFlow says of names that Keras 3 does not have gets the cure."""
    loader = host.KerasLazyLoader
    before = loader.__getattr__

    @functools.wraps(before)
    def get(self: Any, item: str) -> Any:
        try:
            return before(self, item)
        except AttributeError as error:
            if "Keras 3" in str(error):
                raise AttributeError(f"{error} {cure}") from None
            raise

    loader.__getattr__ = get
