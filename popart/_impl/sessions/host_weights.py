"""The host's copy of the variables of a session: what weightsFromHost sends and weightsToHost fills."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy

from ipu_core._native import replica_groups
from popart._impl.exceptions import popart_exception, popart_internal_exception, popart_runtime_error
from popart._impl.logs import getLogger
from popart._impl.core_errors import core_errors
from popart._impl.sessions.initialisers import Initialisers

if TYPE_CHECKING:
    from popart._impl.groups import VariableSettings
    from popart._impl.sessions.model import Model


class HostWeights:
    """Values of variables and of optimizer state by id.

    `values` are as users read and write them: [replicas that return the variable, where there are several] + shape. A model
    holds them as [groups, where there are several] + shape. Arrays are replaced, never changed: they may be views of a model's
    bytes.
    """

    def __init__(
        self,
        initialisers: Initialisers,
        tensors: Mapping[str, Any],
        replicas: int,
        unstreamed: tuple[str, ...] = (),
        scaled: Mapping[str, tuple[str, float]] | None = None,
    ) -> None:
        """`unstreamed`: prefixes of states that stay on the device; `scaled`: states that start at a factor times a weight."""
        self._initialisers, self._replicas, self._scaled = initialisers, replicas, scaled or {}
        self._tensors = tensors
        self.ids = [name for name, (_, _, kind) in tensors.items() if kind == "variable"]
        self.states = sorted(
            name for name, (_, _, kind) in tensors.items() if kind == "state" and not name.startswith(unstreamed)
        )
        self.values: dict[str, numpy.ndarray] = {
            name: self._from_model(name, value) for name, value in initialisers.values.items()
        }
        self._check_states()

    def _check_states(self) -> None:
        for name in self.states:
            value, dtype = self._initialisers.values.get(name), numpy.dtype(self._tensors[name][0])
            if value is not None and value.dtype != dtype:
                raise popart_exception(
                    f"the model holds the optimizer's state '{name}' as {value.dtype}, and the optimizer makes it {dtype}: "
                    "give the optimizer the dtypes that the model was trained with"
                )
            if value is not None and value.size != numpy.prod(self._shape_in_model(name), dtype=numpy.int64):
                raise popart_exception(
                    f"the model holds the optimizer's state '{name}' with the shape {value.shape}, and the optimizer makes it "
                    f"{self._shape_in_model(name)}: give the state that was saved with this weight"
                )

    # --- groups of replicas
    def _shape_in_model(self, name: str) -> tuple[int, ...]:
        """The shape of a state as a model holds it: [groups, where there are several] + shape."""
        settings, shape = self._settings(name), tuple(self._tensors[name][1])
        groups = 1 if settings is None else settings.getGroupCount(self._replicas)
        return (groups, *shape) if groups > 1 else shape

    def _settings(self, name: str) -> VariableSettings | None:
        """Those of the variable, or of the one whose state it is."""
        found = self._initialisers.settings.get(name)
        return found or self._initialisers.settings.get(name.split("___", 1)[-1])

    def _from_model(self, name: str, value: numpy.ndarray) -> numpy.ndarray:
        """[groups] + shape as [returning replicas] + shape."""
        settings = self._settings(name)
        if settings is None:
            return value
        groups = settings.getGroupCount(self._replicas)
        returning = settings.numReplicasReturningVariable(self._replicas)
        if returning == groups:
            return value
        if groups == 1:
            return numpy.repeat(value[numpy.newaxis], returning, axis=0)
        return value[self._group_of_each(settings)]

    def _group_of_each(self, settings: VariableSettings) -> list[int]:
        grouping = settings.getReplicaGrouping(self._replicas)
        return replica_groups.assignment(self._replicas, grouping.getStride(), grouping.getGroupSize())

    def in_model(self, name: str) -> numpy.ndarray:
        """The host's value as a model holds it."""
        return self._to_model(name, self.values[name])

    def _to_model(self, name: str, value: numpy.ndarray) -> numpy.ndarray:
        """Of each group its first replica's."""
        settings = self._settings(name)
        if settings is None:
            return value
        groups = settings.getGroupCount(self._replicas)
        if settings.numReplicasReturningVariable(self._replicas) == groups:
            return value
        firsts = replica_groups.firsts(self._group_of_each(settings))
        return value[firsts[0]] if groups == 1 else value[firsts]

    # --- the device
    def first_to_device(self, native: Any) -> None:
        """What a device that was just loaded holds: the values of the model."""
        on_device, model = native.variables(), self._initialisers.values
        first = {name: model[name] for name in self.ids if name in on_device and name in model}
        for name, (weight, factor) in self._scaled.items():
            if name in on_device:
                with numpy.errstate(over="ignore"):
                    first[name] = (model[weight].astype(numpy.float32) * numpy.float32(factor)).astype(
                        on_device[name][0]
                    )
        self._send(native, ((name, self._from_model(name, value)) for name, value in first.items()))

    def _send(self, native: Any, values: Iterable[tuple[str, numpy.ndarray]]) -> None:
        """One after another: what must be copied to lie right, as views of a model's bytes, is so for its own time alone."""
        with core_errors():
            for name, value in values:
                native.upload({name: (numpy.require(value, None, ["C", "ALIGNED"]), self._entries(name), 0)})

    def _entries(self, name: str) -> list[int]:
        """Of each replica, the entry of the array that it has."""
        settings = self._settings(name)
        if settings is None:
            return []
        of_groups = settings.numReplicasReturningVariable(self._replicas) == settings.getGroupCount(self._replicas)
        return self._group_of_each(settings) if of_groups else list(range(self._replicas))

    def to_device(self, native: Any) -> None:
        """Sends all variables. States that the host has no values of, before the first time, have the first ones on the device."""
        on_device = native.variables()
        sent = [name for name in (*self.ids, *self.states) if name in on_device]
        with core_errors():
            for name in sent:
                if name not in self.values and name in self.states:
                    self.values[name] = native.read(name)
        self._send(native, ((name, self.values[name]) for name in sent if name in self.values))

    def from_device(self, native: Any) -> None:
        on_device = native.variables()
        with core_errors():
            for name in (*self.ids, *self.states):
                if name in on_device and name not in self.values:
                    self.values[name] = native.read(name)
                elif name in on_device:
                    value = numpy.empty_like(self.values[name], order="C")
                    native.download({name: (value, self._entries(name), 0)})
                    self.values[name] = value

    # --- arrays of users
    def read(self, weightsIo: Any) -> None:
        """Fills the arrays of those ids that are variables; others are left alone."""
        for id in self._known(weightsIo):
            out, value = weightsIo.array(id), self.values[id]
            if out.nbytes != value.nbytes:
                raise popart_runtime_error(
                    f"the array of '{id}' has {out.nbytes} bytes, and the variable {value.nbytes} ({value.dtype} {value.shape})"
                )
            out.reshape(-1).view(numpy.uint8)[...] = numpy.ascontiguousarray(value).reshape(-1).view(numpy.uint8)

    def write(self, weightsIo: Any) -> None:
        arrays = {id: weightsIo.array(id) for id in self._known(weightsIo)}
        for id, given in arrays.items():
            value = self.values[id]
            if given.shape != value.shape or given.dtype != value.dtype:
                raise popart_internal_exception(
                    f"the array of '{id}' is {given.dtype} {given.shape}, and the variable {value.dtype} {value.shape}"
                )
        for id, given in arrays.items():
            self.values[id] = given.copy()

    def _known(self, weightsIo: Any) -> list[str]:
        ignored = sorted(weightsIo.weights.keys() - self.values.keys())
        if ignored:
            getLogger("session").info(f"no variables of the program, and ignored: {', '.join(ignored)}")
        return [id for id in weightsIo.weights if id in self.values]

    # --- another model
    def reset(self, model: Model, ignores_unknown: bool) -> None:
        """Takes the values of another model's initialisers."""
        metadata = {entry.key: entry.value for entry in model.proto.metadata_props}
        has_groups = "__replicationFactor" in metadata
        taken: dict[str, numpy.ndarray] = {}
        for name, value in model.values.items():
            if name not in self.values and name not in self.states:
                if ignores_unknown:
                    continue
                raise popart_runtime_error(
                    f"the model has the initialiser '{name}', and the session none; there are {sorted(self.values)}. "
                    "ignoreWeightsInModelWithoutCorrespondingHostWeight=True leaves such out"
                )
            taken[name] = self._as_mine(name, value, has_groups)
        self.values.update(taken)

    def _as_mine(self, name: str, value: numpy.ndarray, has_groups: bool) -> numpy.ndarray:
        known = self.in_model(name) if name in self.values else None
        settings = self._settings(name)
        if settings is not None and not has_groups:
            groups = settings.getGroupCount(self._replicas)
            value = numpy.stack([value] * groups) if groups > 1 else value
        dtype, shape = (known.dtype, known.shape) if known is not None else self._type_of(name)
        if value.dtype != dtype or value.shape != tuple(shape):
            raise popart_runtime_error(
                f"the initialiser '{name}' of the model is {value.dtype} {value.shape}, and the session's is {dtype} "
                f"{tuple(shape)}"
            )
        return self._from_model(name, value)

    def _type_of(self, name: str) -> tuple[numpy.dtype, Sequence[int]]:
        dtype, shape, _ = self._tensors[name]
        return numpy.dtype(dtype), shape
