"""Ops of a listing, and what all its parts know: the model, the options, types of tensors."""

from __future__ import annotations

import dataclasses
import functools
from typing import TYPE_CHECKING, Any

import numpy

from popart._impl.enums import VirtualGraphMode
from popart._impl.listing.source import Crossing, Machine, Source

if TYPE_CHECKING:
    import onnx

GRADIENT = "Gradient___"
_NUMPY_NAMES = {"float32": "FLOAT", "float64": "DOUBLE"}
Shape = tuple[int, ...]


@dataclasses.dataclass
class Op:
    """One op. `own`: attributes of its type; `place`: virtual graph, pipeline stage and execution phase, None for none."""

    type: str
    inputs: list[str]
    outputs: list[str]
    own: dict[str, str] = dataclasses.field(default_factory=dict)
    name: str = ""
    node: onnx.NodeProto | None = None
    place: tuple[int | None, int | None, int | None] = (None, None, None)
    context: str = "Normal"
    recompute: str = "Undefined"
    tile_set: int = 0
    priority: float = 0.0
    outline: dict[str, str] = dataclasses.field(default_factory=dict)
    excluded: frozenset[str] = frozenset()  # patterns that leave the op alone
    scope: str = ""
    is_forward: bool = False
    identity_of: str = ""  # what it was before a pattern made it an Identity
    replaced: list[Op] = dataclasses.field(default_factory=list)  # by a call

    def common(self) -> dict[str, str]:
        virtual_graph, stage, phase = ("none" if each is None else str(each) for each in self.place)
        return {
            "recompute": "YES" if self.recompute == "Recompute" else "NO",
            "recomputetype": self.recompute,
            "__ipu_number": virtual_graph,
            "__pipeline_stage": stage,
            "__execution_phase": phase,
            "__execution_context": self.context,
            "tileSet": str(self.tile_set),
            "scope": self.scope,
            "schedulePriority": f"{self.priority:.6f}",
            **{key: f"{key}:{value}" for key, value in self.outline.items()},
        }


def text_of(value: Any) -> str:
    """A value of an attribute as the listing writes it."""
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.6f}"
    if isinstance(value, bytes):
        return value.decode(errors="replace")
    if hasattr(value, "__iter__") and not isinstance(value, str):
        return "[" + " ".join(text_of(item) for item in value) + "]"
    return str(value)


def attributes_of(node: onnx.NodeProto) -> dict[str, Any]:
    """Values of a node's attributes; graphs stay graphs."""
    import onnx.helper

    return {attribute.name: onnx.helper.get_attribute_value(attribute) for attribute in node.attribute}


class Listing:
    """What the parts of a listing share."""

    def __init__(self, source: Source) -> None:
        self.source, self.graph = source, source.model.graph
        self.options, self.patterns = source.options, source.patterns
        self.is_training = bool(source.loss)
        self.anchored = set(source.data_flow.anchors())
        self.losses = {source.loss}  # in the main graph and inside of loops
        self.loops: list[str] = []  # graphs of explicit main loops
        self.types: dict[str, tuple[str, Shape]] = {}
        self.kinds: dict[str, str] = {}
        self.graded: set[str] = set()  # tensors that have a gradient
        for id, (dtype, shape, kind) in (source.program.gone() | dict(source.tensors)).items():
            name = numpy.dtype(dtype).name
            self.types[id], self.kinds[id] = (_NUMPY_NAMES.get(name, name.upper()), tuple(shape)), kind
            if id.startswith(GRADIENT):
                self.graded.add(id.removeprefix(GRADIENT))
        self.places: dict[str, tuple[int, int, int]] = source.program.places()
        self.parts: dict[str, str] = {}  # of operators of which only parts are listed: first result of both
        self.ops: list[Op] = []
        self.tied: set[str] = set()  # products whose right operand a tied gather reads too
        self.counter = 0
        self.calls = 0
        self.alias: dict[str, str] = {}  # results of ops that were removed: what is read in their place
        self.values = {tensor.name: tensor for tensor in self.graph.initializer}
        made = source.initialisers
        for id, tensor in self.values.items():
            name = made.values[id].dtype.name
            self.types.setdefault(id, (_NUMPY_NAMES.get(name, name.upper()), tuple(tensor.dims)))
            self.kinds[id] = "variable" if id in made.trained or id in made.variables else "constant"

    @functools.cached_property
    def machine(self) -> Machine:
        there, marked, repeated, reads, stages, crossings = self.source.program.operators()
        return Machine(there, marked, repeated, reads, stages, [Crossing(*each) for each in crossings])

    def node_of(self, op: Op) -> str:
        """The first result of the operator of the model that an op belongs to; "" for none."""
        first = next((id for id in op.node.output if id), "") if op.node is not None else ""
        return self.parts.get(first, first)

    def number(self) -> int:
        self.counter += 1
        return self.counter

    def read(self, id: str) -> str:
        while id in self.alias:
            id = self.alias[id]
        return id

    def shape(self, id: str) -> Shape:
        return self.type_of(id)[1]

    def type_of(self, id: str) -> tuple[str, Shape]:
        return self.types.get(id, ("FLOAT", ()))

    def make(self, id: str, like: str, shape: Shape | None = None) -> str:
        """Declares a tensor of the type of another."""
        dtype, same = self.type_of(like)
        self.types[id] = (dtype, same if shape is None else tuple(shape))
        self.kinds.setdefault(id, "result")
        return id

    def between(self, base: str, like: str, shape: Shape | None = None) -> str:
        """A new intermediate tensor, named after another."""
        return self.make(f"{base}__t{self.number()}", like, shape)

    def enabled(self, pattern: str, excluded: frozenset[str] = frozenset()) -> bool:
        if pattern in excluded:
            return False
        return self.patterns.InPlace if pattern == "InPlace" else self.patterns.isPatternEnabled(pattern)

    def add(
        self, type: str, inputs: list[str], outputs: list[str], of: Op | onnx.NodeProto | None = None, **fields: Any
    ) -> Op:
        """Adds an op with the place and annotations of a node or of another op."""
        inputs = [self.read(id) if id else "" for id in inputs]
        op = Op(type, inputs, outputs)
        if isinstance(of, Op):
            op.name, op.place, op.outline, op.excluded, op.node = of.name, of.place, of.outline, of.excluded, of.node
        elif of is not None:
            self._annotate(op, of)
        for key, value in fields.items():
            setattr(op, key, value)
        self.ops.append(op)
        return op

    def _annotate(self, op: Op, node: onnx.NodeProto) -> None:
        given, options = attributes_of(node), self.options
        phases: Any = options.executionPhaseSettings.phases
        op.node, op.name = node, node.name
        op.place = (
            given.get("__ipu_number") if options.virtualGraphMode is not VirtualGraphMode["Off"] else None,
            given.get("__pipeline_stage") if options.enablePipelining else None,
            given.get("__execution_phase") if phases >= 2 else None,
        )
        found = self.places.get(next((id for id in node.output if id), ""))
        if found is not None:  # where options put it, too
            on = (options.virtualGraphMode is not VirtualGraphMode["Off"], options.enablePipelining, phases >= 2)
            op.place = (found[0] if on[0] else None, found[1] if on[1] else None, found[2] if on[2] else None)
        op.priority = float(given.get("__schedule_priority", 0.0))
        flat = [item.decode() for item in given.get("__outline", [])]
        op.outline = dict(zip(flat[::2], flat[1::2]))
        op.excluded = frozenset(item.decode() for item in given.get("__exclude_patterns", []))

    def exported(self, ops: list[Op]) -> list[dict[str, Any]]:
        return [self._exported(op) for op in ops]

    def _exported(self, op: Op) -> dict[str, Any]:
        return {
            "type": op.type,
            "name": op.name,
            "inputs": [self._tensor(id, i) for i, id in enumerate(op.inputs) if id],
            "outputs": [{"name": id, "index": str(i)} for i, id in enumerate(op.outputs) if id],
            "attributes": op.own | op.common(),
        }

    def _tensor(self, id: str, index: int) -> dict[str, str]:
        dtype, shape = self.type_of(id)
        return {"name": id, "shape": text_of(shape), "type": dtype, "index": str(index)}
