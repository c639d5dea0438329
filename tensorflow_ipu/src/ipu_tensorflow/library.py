"""The op library, loaded when the first unit or feed is built: importing the API costs nothing of it."""

from __future__ import annotations

import ctypes
import functools
import pathlib
from typing import Any

import tensorflow as tf

from ipu_tensorflow import core, host

PATH = pathlib.Path(__file__).with_name("libipu_tensorflow.so")


@functools.cache
def load() -> ctypes.CDLL:
    """Registers the ops; the library's plain C functions."""
    core.native()  # brings libipu.so, which the library shares with it
    if not PATH.is_file():
        raise ImportError(f"{PATH} is missing: build the project (scripts/build), or install tensorflow-ipu")
    tf.load_op_library(str(PATH))
    return ctypes.CDLL(str(PATH))


def operation(
    kind: str, inputs: list[Any], results: list[tf.DType], name: str | None = None, **attributes: Any
) -> host.Operation:
    """An operation of ours in the default graph."""
    load()
    given = {key: _attribute(value) for key, value in attributes.items()}
    return host.create_operation(kind, inputs, results, name or kind, given)


def _attribute(value: Any) -> host.AttrValue:
    if isinstance(value, bool):
        return host.AttrValue(b=value)
    if isinstance(value, int):
        return host.AttrValue(i=value)
    if isinstance(value, str):
        return host.AttrValue(s=value.encode())
    if all(isinstance(item, tf.DType) for item in value):
        return host.AttrValue(list=host.AttrValue.ListValue(type=[item.as_datatype_enum for item in value]))
    return host.AttrValue(list=host.AttrValue.ListValue(shape=[item.as_proto() for item in value]))
