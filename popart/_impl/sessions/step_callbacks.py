"""One step of a session with callbacks: functions give and take each micro-batch while the program runs."""

from __future__ import annotations

import collections
import math
import threading
from collections.abc import Callable, Mapping
from typing import Any

import numpy

from popart._impl.exceptions import popart_exception, popart_runtime_error
from popart._impl.sessions.transfers import Transfers
from popart._impl.sessions.typed import check_type
from popart._impl.step_io import PyStepIOCallback


def run_callbacks(transfers: Transfers, native: Any, stepio: PyStepIOCallback, entry: str) -> None:
    """Inputs are asked for when the device reads them. Outputs of which every element is returned are given when the device
    writes them, the others after the run: only then are they known."""
    ports: dict[str, Any] = {id: _Feed(id, transfers, stepio) for id in transfers.inputs}
    ports |= {"anchor/" + id: _Drain(id, transfers, stepio) for id in transfers.all_outputs}
    try:
        for name, port in ports.items():
            native.bind(name, port)
        got = native.run({}, entry)
    finally:
        for name in ports:
            native.bind(name, None)
    for id in sorted(transfers.outputs.keys() - transfers.all_outputs):
        for element in got["anchor/" + id].reshape(-1, *transfers.shapes[id]):
            _give(id, element, transfers, stepio)


def give_scalars(
    values: Mapping[str, float],
    shape_of: Callable[[str], tuple[int, ...]],
    type_of: Callable[[str], numpy.dtype],
    stepio: PyStepIOCallback,
) -> None:
    """Numbers of the host, known after the run: each element of an anchor is given by calls of its own."""
    for id, value in values.items():
        for _ in range(math.prod(shape_of(id))):
            out = stepio.output_callback(id)
            flat = _flat(id, out, 1, "output")
            check_type(id, out, type_of(id), type_of(id))
            flat[...] = value
            stepio.output_complete_callback(id)


class _Feed:
    """Gives the elements of an input to the replicas: callbacks are called in the order of [micro-batch, replica], whichever
    replica comes first."""

    def __init__(self, id: str, transfers: Transfers, stepio: PyStepIOCallback) -> None:
        self._id, self._transfers, self._stepio = id, transfers, stepio
        self._waiting: list[collections.deque[numpy.ndarray]] = [collections.deque() for _ in range(transfers.replicas)]
        self._next = 0
        self._lock = threading.Lock()

    def __call__(self, replica: int) -> numpy.ndarray:
        with self._lock:
            while not self._waiting[replica]:
                element = self._ask()
                if self._id in self._transfers.broadcast:
                    for queue in self._waiting:
                        queue.append(element)
                else:
                    self._waiting[self._next].append(element)
                    self._next = (self._next + 1) % len(self._waiting)
            return self._waiting[replica].popleft()

    def _ask(self) -> numpy.ndarray:
        id, shape = self._id, self._transfers.shapes[self._id]
        count = int(numpy.prod(shape, dtype=numpy.int64))
        array = self._stepio.input_callback(id, False)
        if array is None or (numpy.ndim(array) == 0 and shape):
            raise popart_runtime_error(
                f"the input callback gave no data for '{id}', and it was not asked whether there are some: {count} elements "
                "are needed now"
            )
        flat = _flat(id, array, count, "input")
        dtype = self._transfers.inputs[id][0]
        check_type(id, flat, self._transfers.types[id], dtype)
        # A copy: after the completion the callback may use its array again.
        element = (flat.view(dtype) if flat.dtype.names else flat).astype(dtype).reshape(shape)
        self._stepio.input_complete_callback(id)
        return element


class _Drain:
    """Takes the elements of an output from the replicas, and gives them in the order of [micro-batch, replica]."""

    def __init__(self, id: str, transfers: Transfers, stepio: PyStepIOCallback) -> None:
        self._id, self._transfers, self._stepio = id, transfers, stepio
        self._waiting: list[collections.deque[numpy.ndarray]] = [collections.deque() for _ in range(transfers.replicas)]
        self._next = 0
        self._lock = threading.Lock()

    def __call__(self, element: numpy.ndarray, replica: int) -> None:
        with self._lock:
            self._waiting[replica].append(element)
            while self._waiting[self._next]:
                _give(self._id, self._waiting[self._next].popleft(), self._transfers, self._stepio)
                self._next = (self._next + 1) % len(self._waiting)


def _give(id: str, element: numpy.ndarray, transfers: Transfers, stepio: PyStepIOCallback) -> None:
    out = stepio.output_callback(id)
    flat = _flat(id, out, element.size, "output")
    check_type(id, out, transfers.types[id], transfers.outputs[id][0])
    flat[...] = element.reshape(-1)
    stepio.output_complete_callback(id)


def _flat(id: str, array: Any, count: int, way: str) -> numpy.ndarray:
    """The first `count` elements of what a callback gave."""
    if not isinstance(array, numpy.ndarray):
        raise popart_runtime_error(f"the {way} callback gave no NumPy array for '{id}', but {type(array).__name__}")
    if not array.flags["C_CONTIGUOUS"]:
        raise popart_exception(
            f"the {way} callback's array of '{id}' is not C-contiguous; numpy.ascontiguousarray makes it so"
        )
    if array.size < count:
        raise popart_runtime_error(
            f"the {way} callback's array of '{id}' has {array.size} elements, and a micro-batch {count}"
        )
    return array.reshape(-1)[:count]
