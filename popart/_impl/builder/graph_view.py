"""What rules and contexts need to see of a graph that is being built."""

from __future__ import annotations

from typing import Any, Protocol

import onnx

from popart._impl.builder.model import Model

Types = dict[str, onnx.TypeProto]


class GraphView(Protocol):
    """The types and constants of a graph, those of the graphs around it included."""

    @property
    def model(self) -> Model: ...

    def type_of(self, id: str) -> onnx.TypeProto | None: ...

    def constant(self, id: str) -> onnx.TensorProto | None: ...


class OpenGraph(Protocol):
    """What contexts change: attributes of the nodes that are made next, and prefixes of their names."""

    common: dict[str, Any]
    scopes: list[str]
