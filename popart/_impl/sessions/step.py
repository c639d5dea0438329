"""One step of a session: arrays of a StepIO go to the streams of the program, and back."""

from __future__ import annotations

from typing import Any

import numpy

import ipu_core
from popart._impl.exceptions import popart_runtime_error
from popart._impl.logs import getLogger
from popart._impl.sessions.errors import as_popart

_warned: set[str] = set()


def run_step(session: Any, native: Any, stepio: Any) -> None:
    streams = native.streams("main")
    inputs = {
        name: _input(name, stepio, dtype, shape) for name, (way, dtype, shape) in streams.items() if way == "input"
    }
    try:
        got = native.run(inputs, "main")
    except ipu_core.Error as error:
        raise as_popart(error, of_run=True) from error
    for id in session.dataFlow.anchors():
        _output(id, stepio, got["anchor/" + id])


def _input(id: str, stepio: Any, dtype: Any, shape: tuple[int, ...]) -> numpy.ndarray:
    """What a step takes of an input, `shape` is that of all of it."""
    if id not in stepio.inputs:
        raise popart_runtime_error(
            f"no tensor '{id}' was provided in PyStepIO's inputs; there are {sorted(stepio.inputs)}"
        )
    array = stepio.inputs[id]
    count = int(numpy.prod(shape, dtype=numpy.int64))
    if stepio.runtime_asserts and array.size != count:
        raise popart_runtime_error(
            f"unexpected number of input elements for '{id}': a step takes {count}, and the array of shape {array.shape} has "
            f"{array.size}"
        )
    return typed(id, array, dtype).reshape(shape)


def typed(id: str, array: numpy.ndarray, dtype: Any) -> numpy.ndarray:
    """In the type of the tensor: 64-bit integers are narrowed. popart_runtime_error for another type."""
    target = numpy.dtype(dtype)
    if array.dtype == target:
        return array
    if array.dtype == numpy.int64 and target == numpy.int32:
        if "int64" not in _warned:
            _warned.add("int64")
            getLogger("devicex").warn(f"the input '{id}' has 64-bit integers: they are narrowed to 32 bits")
        return array.astype(target)
    raise popart_runtime_error(f"type discrepancy: the array of '{id}' has {array.dtype}, and the tensor {target}")


def _output(id: str, stepio: Any, value: numpy.ndarray) -> None:
    if id not in stepio.outputs:
        raise popart_runtime_error(
            f"no tensor '{id}' was provided in PyStepIO's outputs; there are {sorted(stepio.outputs)}"
        )
    out = stepio.outputs[id]
    if out.size != value.size:
        raise popart_runtime_error(
            f"unexpected number of output elements for '{id}': a step gives {value.size}, and the array of shape {out.shape} "
            f"has {out.size}"
        )
    out.reshape(-1)[...] = value.reshape(-1)
