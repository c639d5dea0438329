"""What the records of one unit say beside their nodes: variables, constants, and what is refused."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np
import tensorflow as tf

from ipu_tensorflow import host, ways_out
from ipu_tensorflow.errors import Refused, refuse_operations


@dataclass
class Variable:
    """A variable that the graph reads or writes: `handle` is its resource outside."""

    name: str
    dtype: np.dtype
    shape: list[int]
    handle: Any
    is_written: bool = False


@dataclass
class Records:
    data: dict[str, Any]  # what ipu_core.Unit takes
    variables: list[Variable] = field(default_factory=list)  # in the order of data["graph"]["variables"]
    names: list[str] = field(default_factory=list)  # of the values handed back
    folded: list[Any] = field(default_factory=list)  # tensors around the graph whose value was taken as it stands
    lost: dict[str, host.Operation] = field(default_factory=dict)  # by name of the node: where shapes are lost


@dataclass
class Constant:
    array: np.ndarray
    name: str
    home: Any  # the place whose nodes it comes to
    location: tuple[str, int] | None
    is_emitted: bool = False


Value = str | Constant


class Writer:
    """What all places of one unit share."""

    def __init__(self) -> None:
        self.variables: dict[str, Variable] = {}
        self.refused: list[Refused] = []
        self.unknown: dict[str, host.Operation] = {}  # by name of the node: of a type without a rule
        self.lost: dict[str, host.Operation] = {}
        self.folded: list[Any] = []

    def refuse(self, op: host.Operation, why: str, is_invalid: bool = True) -> None:
        self.refused.append(Refused(op, why, is_invalid))

    def refuse_unknown(self, nodes: list[dict]) -> None:
        """Of the nodes that are left, those that the core does not know."""
        for node in nodes if self.unknown else ():
            if node["name"] in self.unknown:
                op = self.unknown[node["name"]]
                self.refuse(op, ways_out.of_unknown(op.type).why, is_invalid=False)
            for graph in node["subgraphs"].values():
                self.refuse_unknown(graph["nodes"])

    def check_input(self, tensor: Any, outside: Any) -> None:
        source = outside.op if outside is not None else tensor.op
        if source.type == "Identity":
            source = source.inputs[0].op
        if source.type in ways_out.REF_VARIABLES:
            self.refuse(source, ways_out.REF_VARIABLES[source.type].why)
        elif not tensor.shape.is_fully_defined():
            self._refuse_shape(tensor if outside is None else outside)
        self.check_type(tensor)

    def _refuse_shape(self, tensor: Any) -> None:
        """An input of the unit: the operation outside at which its shape is lost says why."""
        lost = host.first_unknown_shape(tensor)
        why = f"has the shape {tensor.shape}; shapes inside a unit are static"
        if lost is not tensor.op:
            shapes = ", ".join(str(result.shape) for result in lost.outputs)
            why = f"gives {shapes}, so that '{tensor.name}' {why}"
        self.refuse(lost, f"{why}. State all sizes, or pad to a known size")

    def check_type(self, tensor: Any) -> bool:
        if tensor.dtype == tf.string:
            self.refuse(tensor.op, "has the type string, which cannot be compiled")
        return tensor.dtype != tf.string

    def variable(self, handle: Any) -> Variable:
        name = handle.op.name
        if name not in self.variables:
            shape, dtype = host.handle_shape_and_type(handle)
            if not shape.is_fully_defined():
                self.refuse(handle.op, f"has the shape {shape}; shapes inside a unit are static")
                shape = tf.TensorShape([])
            self.variables[name] = Variable(name, np.dtype(dtype.as_numpy_dtype), shape.as_list(), handle)
        return self.variables[name]

    def finish(self) -> None:
        if self.refused:
            raise refuse_operations(self.refused)


class Place(Protocol):
    """What writers of single operations need of the graph that they stand in (records.Place)."""

    writer: Writer
    values: dict[str, Value]

    def value(self, tensor: Any) -> Value: ...

    def operand(self, tensor: Any) -> str: ...

    def named(self, value: Value) -> str: ...

    def resource(self, tensor: Any) -> Any: ...

    def children(self, op: host.Operation) -> Any: ...

    def constant(self, op: host.Operation, name: str, array: np.ndarray) -> None: ...

    def emit(self, op: host.Operation, operands: list[str], given: dict[str, Any]) -> None: ...
