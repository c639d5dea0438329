"""Types of the outputs of ai.graphcore operators. A rule takes a View of a node and returns (element type, sizes) per output;
those of most operators are what their importers make."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any

import numpy
import onnx
import onnx.helper
from ipu_core import _native

from popart._impl.builder import protos
from popart._impl.builder.graph_view import GraphView
from popart._impl.enums import DataType
from popart._impl.operators.rows import BY_TYPE, Row

T = protos.Tensor
Result = list[tuple[int, Sequence[int]]]


class Unknown(Exception):
    """The type of an input is not known, so neither are those of the outputs."""


class View:
    """A node with the types of its inputs."""

    def __init__(self, core: GraphView, node: onnx.NodeProto) -> None:
        self._core, self.node = core, node
        self.attributes = protos.values_of(node)

    def __len__(self) -> int:
        return len(self.node.input)

    def has(self, index: int) -> bool:
        return index < len(self.node.input) and self.node.input[index] != ""

    def _type(self, index: int) -> onnx.TypeProto:
        type_ = self._core.type_of(self.node.input[index]) if self.has(index) else None
        if type_ is None:
            raise Unknown
        return type_

    def element(self, index: int = 0) -> int:
        return self._type(index).tensor_type.elem_type

    def sizes(self, index: int = 0) -> list[int]:
        sizes = protos.shape_of(self._type(index))
        if sizes is None or None in sizes:
            raise Unknown
        return sizes  # type: ignore[return-value]

    def get(self, name: str, default: Any = None) -> Any:
        return self.attributes.get(name, default)

    def types(self, rule: Callable[[View], Result]) -> dict[str, onnx.TypeProto]:
        try:
            found = rule(self)
        except (Unknown, ValueError, IndexError, KeyError, ZeroDivisionError):
            return {}  # the session tells what is wrong with the shapes, with the place in the program
        return {id: protos.tensor_type(element, sizes) for id, (element, sizes) in zip(self.node.output, found) if id}


def _same(op: View) -> Result:
    return [(op.element(), op.sizes())]


def _broadcast(op: View) -> Result:
    return [(op.element(), numpy.broadcast_shapes(*(tuple(op.sizes(index)) for index in range(len(op)))))]


def _init(op: View) -> Result:
    return [(protos.NUMBER[DataType(op.get("data_type"))], op.get("shape"))]


def _batch_norm(op: View) -> Result:
    mean, variance = [(op.element(operand), op.sizes(operand)) for operand in (3, 4)]
    return [(op.element(), op.sizes()), mean, variance, mean, variance]


def _scatter_shard(op: View) -> Result:
    _, size = op.get("__collectiveCommGroup") or (0, 0)  # 0: all replicas, whose number is not known yet
    return [(op.element(), [-(-math.prod(op.sizes()) // size)])] if size else []


def _as_it_runs(row: Row) -> Callable[[View], Result]:
    """What the importer of the operator makes of a node with such operands."""
    names = {parameter.attribute for parameter in row.parameters}
    declared = [protos.NUMBER[DataType[r.types]] if r.types in DataType.__members__ else None for r in row.results]

    def rule(op: View) -> Result:
        places = [index for index in range(len(op)) if op.has(index)]
        results = [f"y{index}" for index in range(len(op.node.output))]
        node = {
            "domain": "ai.graphcore",
            "type": row.type,
            "name": "",
            "operands": [f"x{index}" if index in places else "" for index in range(len(op))],
            "results": results,
            "attributes": {name: value for name, value in op.attributes.items() if name in names},
            "subgraphs": {},
        }
        inputs = [(f"x{index}", _numpy_type(op.element(index)), op.sizes(index)) for index in places]
        graph = {"name": "", "inputs": inputs, "nodes": [node], "outputs": results}
        try:
            found = _native.result_types({"dialect": "popart", "versions": {"ai.graphcore": 1}, "graph": graph})
        except _native.Error:
            raise Unknown from None
        types = []
        for index, known in enumerate(found):
            if known is None:
                raise Unknown
            kind = declared[index] if index < len(declared) else None
            types.append((_element(op, known[0], kind), known[1]))
        return types

    return rule


_FLOATS = {"f32": T.FLOAT, "f16": T.FLOAT16}


def _numpy_type(element: int) -> numpy.dtype:
    return onnx.helper.tensor_dtype_to_np_dtype(element or T.FLOAT16)  # FLOAT8, which models do not name


def _element(op: View, runs_as: str, declared: int | None) -> int:
    """The element type of a result: programs that run have narrower integers, and no FLOAT8 that these models name."""
    if declared is not None:
        return declared
    first = op.element()
    return _FLOATS[runs_as] if runs_as in _FLOATS and first != T.UNDEFINED else first


# Types of these follow from graphs inside, or from what a session knows.
_UNKNOWN = ("Abort", "Call", "CastThenPow2Scale", "PackedDataBlock", "Pow2ScaleThenCast", "ReplicatedAllGather")


def _loss(row: Row) -> Callable[[View], Result]:
    one_by_one = _as_it_runs(row)
    return lambda op: one_by_one(op) if op.get("reduction") == "None" else [(op.element(), [])]


def _rule(row: Row) -> Callable[[View], Result]:
    mark = row.results[0].mark
    if row.type in ("IdentityLoss", "L1", "Nll"):
        return _loss(row)
    return _same if mark == "=" else _broadcast if mark == "~" else _as_it_runs(row)


RULES: dict[str, Callable[[View], Result]] = {
    **{row.type: _rule(row) for row in BY_TYPE.values() if row.type not in _UNKNOWN},
    "BatchNormalization": _batch_norm,
    "Init": _init,
    "ReplicatedReduceScatter": _scatter_shard,
}
