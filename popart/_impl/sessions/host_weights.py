"""The host's copy of the variables of a session: what weightsFromHost sends and weightsToHost fills."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy

import ipu_core
from popart._impl.exceptions import popart_internal_exception, popart_runtime_error
from popart._impl.sessions.errors import as_popart
from popart._impl.sessions.initialisers import Initialisers


class HostWeights:
    """Values of variables and of optimizer state by id, as users see them: [groups where there are several] + shape."""

    def __init__(self, initialisers: Initialisers, tensors: Mapping[str, Any]) -> None:
        self._initialisers = initialisers
        self.ids = [name for name, (_, _, kind) in tensors.items() if kind == "variable"]
        self.states = [name for name, (_, _, kind) in tensors.items() if kind == "state"]
        # A state begins as the model says where it does, else as the program does.
        self.values: dict[str, numpy.ndarray] = {
            name: initialisers.values[name].copy() for name in (*self.ids, *self.states) if name in initialisers.values
        }

    def to_device(self, native: Any) -> None:
        on_device = native.variables()
        try:
            for name, value in self.values.items():
                if name in on_device:
                    dtype, shape = on_device[name]
                    native.write(name, value.astype(dtype, copy=False).reshape(shape))
        except ipu_core.Error as error:
            raise as_popart(error) from error

    def from_device(self, native: Any) -> None:
        on_device = native.variables()
        try:
            for name in (*self.ids, *self.states):
                if name in on_device:
                    value = native.read(name)
                    known = self.values.get(name)
                    self.values[name] = value if known is None else value.astype(known.dtype).reshape(known.shape)
        except ipu_core.Error as error:
            raise as_popart(error) from error

    def read(self, weightsIo: Any) -> None:
        for id in weightsIo.weights:
            out, value = weightsIo.array(id), self._value(id)
            if out.nbytes != value.nbytes:
                raise popart_runtime_error(
                    f"the array of '{id}' has {out.nbytes} bytes, and the variable {value.nbytes}"
                )
            out.reshape(-1)[...] = value.reshape(-1)

    def write(self, weightsIo: Any) -> None:
        for id in weightsIo.weights:
            given, value = weightsIo.array(id), self._value(id)
            if given.shape != value.shape or given.dtype != value.dtype:
                raise popart_internal_exception(
                    f"the array of '{id}' is {given.dtype} {given.shape}, and the variable {value.dtype} {value.shape}"
                )
            value[...] = given

    def _value(self, id: str) -> numpy.ndarray:
        if id not in self.values:
            raise popart_runtime_error(f"'{id}' is no variable of the program; there are {sorted(self.values)}")
        return self.values[id]
