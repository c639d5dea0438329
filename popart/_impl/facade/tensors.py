"""The tensor table of a graph as an object."""

from __future__ import annotations

from typing import Any

from popart._impl.enums import TensorType
from popart._impl.exceptions import popart_exception
from popart._impl.facade.ids import Scope, add_scope


class Tensors:
    """Tensors(graph): finds, adds and removes tensors of a graph."""

    def __init__(self, graph: Any) -> None:
        self._graph = graph

    def get(self, id: str) -> Any:
        return self._graph.getTensor(id)

    def remove(self, id: str) -> None:
        """Raises popart_exception when an op makes or reads the tensor."""
        self._graph.core.erase_tensor(self._graph.getTensor(id).number)

    def contains(self, id: str, scope: Scope | None = None) -> bool:
        if scope is None:
            return id in self._graph
        return any(add_scope(parent.str(), id) in self._graph for parent in scope.parents())

    def find(self, id: str, scope: Scope) -> str:
        """The full id, from the scope outwards. Raises popart_exception when there is none."""
        for parent in scope.parents():
            if add_scope(parent.str(), id) in self._graph:
                return add_scope(parent.str(), id)
        raise popart_exception(
            f"no tensor '{id}' is in the scope '{scope}' of {self._graph.getGraphString()}, or around it"
        )

    def n(self) -> int:
        return len(self._graph.getTensors())

    def getAllTensorIds(self) -> list[str]:
        return [tensor.id for tensor in self._graph.getTensors()]

    def getIds(self, type: TensorType) -> list[str]:
        return [tensor.id for tensor in self.getOfType(type)]

    def getOfType(self, types: Any) -> list[Any]:
        wanted = [types] if isinstance(types, TensorType) else list(types)
        return [tensor for tensor in self._graph.getTensors() if tensor.tensorType() in wanted]

    def getNoProducerIds(self) -> list[str]:
        return [tensor.id for tensor in self._graph.getTensors() if not tensor.hasProducer()]

    def addActGrad(self, tensorId: str, dc: Any = "") -> None:
        self._graph.addActGrad(tensorId, dc)

    def addVarInit(self, *arguments: Any, **named: Any) -> None:
        self._graph.addVarInit(*arguments, **named)

    def addConstInit(self, *arguments: Any, **named: Any) -> None:
        self._graph.addConstInit(*arguments, **named)

    def addStream(self, tensorId: str, tensorInfo: Any, inputSettings: Any = None, debugContext: Any = "") -> None:
        self._graph.addStream(tensorId, tensorInfo, debugContext)
        if hasattr(inputSettings, "replicatedStreamMode"):
            self.get(tensorId).setReplicatedStreamMode(inputSettings.replicatedStreamMode())

    def makeConstInit(self, id: str, data: Any) -> None:
        """Makes a Constant of a tensor that no op makes. Raises popart_exception when an op does."""
        self._graph.make_constant(self.get(id), data)

    def removeIsolated(self, *arguments: Any, **named: Any) -> None:
        self._graph.removeIsolatedTensors(*arguments, **named)
