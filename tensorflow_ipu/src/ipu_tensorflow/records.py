"""A graph of TensorFlow as node records: plain data that the core compiles (`ipu_core.Unit`).

Aliases, dead nodes and resources do not appear: an operation on a variable names the variable. What depends on constants alone
is computed here. A value is called as TensorFlow calls the tensor, "node:0"; inside the graph of a function it has the path of
its place of use in front, "while|body|node:0", so that no name is taken twice.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
import tensorflow as tf

from ipu_tensorflow import attributes, core, folding, host, messages, order, ways_out
from ipu_tensorflow.record_tables import Constant, Records, Value, Writer

_ALIASES = {"Identity", "StopGradient", "PreventGradient", "Snapshot", "PlaceholderWithDefault", "EnsureShape"}
_READS = {"ReadVariableOp", "ResourceGather", "ResourceGatherNd", "VarIsInitializedOp", "VariableShape"}
_LOOPS = {"While", "StatelessWhile"}
_CONDITIONS = {"If", "StatelessIf"}
_CASES = {"Case", "StatelessCase"}
# Effects on something that is not a variable; operations of one kind keep their order.
_EFFECTS = {
    **dict.fromkeys(["Assert", "CheckNumerics", "CheckNumericsV2"], "assert"),
    **dict.fromkeys(["Print", "PrintV2", "IpuPrint"], "print"),
}
_FEEDS = {"IpuInfeedDequeue", "IpuOutfeedEnqueue"}


def of_graph(
    graph: host.Graph,
    inputs: Sequence[Any],
    outputs: Sequence[Any],
    operations: Sequence[Any] = (),
    name: str = "unit",
    source: str | None = None,
) -> Records:
    """Records of what `outputs` (tensors of the graph) and `operations` need, `inputs` being placeholders that are fed."""
    writer = Writer()
    place = Place(writer, graph, None, "", {inside.name: outside for outside, inside in host.captures_of(graph)})
    fed = []
    for tensor in inputs:
        writer.check_input(tensor, place.outside.get(tensor.name))
        place.values[tensor.name] = tensor.name
        fed.append((tensor.name, np.dtype(tensor.dtype.as_numpy_dtype), tensor.shape.as_list()))
    results = place.write(outputs, operations)
    nodes = _without_dead(place.nodes, set(results))
    writer.refuse_unknown(nodes)
    writer.finish()
    names = list(writer.variables)
    table = {v.name: (v.dtype, v.shape) for v in writer.variables.values()}
    body = {
        "name": name,
        "inputs": fed,
        "initialisers": table,
        "variables": names,
        "fed": names,
        "nodes": nodes,
        "outputs": results,
        "output_types": [np.dtype(tensor.dtype.as_numpy_dtype) for tensor in outputs],
    }
    data = {
        "source": source or name,
        "dialect": "tensorflow",
        "versions": {"tf": 1, "ipu": 1},
        "graph": body,
    }
    return Records(data, list(writer.variables.values()), results, writer.folded, writer.lost)


class Place:
    """A graph at one place of use. `outside`: the tensors around it that its placeholders stand for, by name."""

    def __init__(
        self,
        writer: Writer,
        graph: host.Graph,
        parent: Place | None,
        prefix: str,
        outside: dict[str, Any],
        nodes: list[dict] | None = None,
        settings: dict[str, Any] | None = None,
    ) -> None:
        self.writer = writer
        self.graph = graph
        self.parent = parent
        self.prefix = prefix
        self.outside = outside
        self.settings = settings or {}  # of operations that say nothing themselves
        self.values: dict[str, Value] = {}
        self.nodes: list[dict] = [] if nodes is None else nodes
        self._children: dict[str, dict[str, Place]] = {}
        self._effects: dict[str, list[order.Effect]] = {}

    # --- the way of a graph

    def write(self, outputs: Sequence[Any], operations: Iterable[Any] = ()) -> list[str]:
        """Writes what is needed; names of the outputs."""
        for op in self._ordered(outputs, operations):
            self._write_operation(op)
        return [self.operand(tensor) for tensor in outputs]

    def _ordered(self, outputs: Sequence[Any], operations: Iterable[Any]) -> list[host.Operation]:
        leaves = {name.rpartition(":")[0] for name in [*self.values, *self.outside]}
        live = order.live_operations(self.graph, [*(tensor.op for tensor in outputs), *operations], leaves)
        return order.ordered(live, leaves, self.effects)

    def _write_operation(self, op: host.Operation) -> None:
        kind = op.type
        results = [tensor.name for tensor in op.outputs]
        if kind == "Placeholder":
            self._write_placeholder(op)
        elif (refusal := ways_out.of_invalid(kind)) is not None and not folding.fold(self, op):
            self.writer.refuse(op, refusal.why)
            self._give_up(op)
        elif kind in ("NoOp", "VarHandleOp"):
            pass
        elif kind == "Const":
            self.constant(op, results[0], attributes.tensor(op))
        elif kind in _ALIASES:
            self._alias(results[0], op.inputs[0])
        elif kind == "IdentityN":
            for result, tensor in zip(results, op.inputs):
                self._alias(result, tensor)
        elif kind == "StringFormat" and messages.is_printed(op):
            self._give_up(op)
        elif kind == "VarIsInitializedOp":
            self.constant(op, results[0], np.array(True))
        elif not folding.fold(self, op):
            self._write_node(op)

    def _write_placeholder(self, op: host.Operation) -> None:
        name = op.outputs[0].name
        if name in self.values or op.outputs[0].dtype == tf.resource:
            return
        tensor = self.outside.get(name)
        if tensor is not None and self.parent is not None:
            self.values[name] = self.parent.value(tensor)
        elif tensor is not None and tensor.op.type == "Const":
            self.writer.folded.append(tensor)
            self.constant(tensor.op, name, attributes.tensor(tensor.op))
        else:
            self.writer.refuse(op, "is a placeholder inside the computation: nothing can feed it. Make it outside")
            self._give_up(op)

    def _give_up(self, op: host.Operation) -> None:
        """Names for the results of an operation that is refused when all are known."""
        for tensor in op.outputs:
            self.values[tensor.name] = self.prefix + tensor.name

    # --- values

    def value(self, tensor: Any) -> Value:
        return self.values[tensor.name]

    def operand(self, tensor: Any) -> str:
        """The name by which a node reads the tensor."""
        if tensor.dtype == tf.resource:
            return self.writer.variable(self.resource(tensor)).name
        return self.named(self.value(tensor))

    def named(self, value: Value) -> str:
        if isinstance(value, str):
            return value
        if not value.is_emitted:
            value.is_emitted = True
            node: dict[str, Any] = {
                "domain": "tf",
                "type": "Const",
                "name": value.name.rpartition(":")[0],
                "operands": [],
                "results": [value.name],
            }
            node |= {"attributes": {"value": value.array}, "subgraphs": {}, "settings": {}}
            value.home.nodes.append(_located(node, value.location))
        return value.name

    def constant(self, op: host.Operation, name: str, array: np.ndarray) -> None:
        self.values[name] = Constant(array, self.prefix + name, self, host.user_line(op))

    def _alias(self, name: str, tensor: Any) -> None:
        if tensor.dtype != tf.resource:
            self.values[name] = self.value(tensor)

    def resource(self, tensor: Any) -> Any:
        """The handle of the variable behind a tensor of type resource."""
        source = self._resource_source(tensor)
        if source.op.type != "VarHandleOp":
            self.writer.refuse(source.op, ways_out.OTHER_RESOURCE)
            self.writer.finish()
        return source

    def _resource_source(self, tensor: Any) -> Any:
        place: Place | None = self
        while True:
            op = tensor.op
            if place is not None and tensor.name in place.outside:
                tensor, place = place.outside[tensor.name], place.parent
            elif op.type in _ALIASES or op.type in _LOOPS:
                tensor = op.inputs[tensor.value_index if op.type in _LOOPS else 0]
            elif place is not None and (inside := place._inside(tensor)) is not None:
                tensor, place = inside
            else:
                return tensor

    def _inside(self, tensor: Any) -> tuple[Any, Place] | None:
        """What a call or a branch of a condition gives as this tensor. The other branch has something to stand in for a variable
        that only one of them has."""
        if tensor.op.type not in _CONDITIONS | _CASES and host.called_function(tensor.op) is None:
            return None
        for child in self.children(tensor.op).values():
            given = child.graph.outputs[tensor.value_index]
            if given.op.type != "FakeParam":
                return given, child
        return None

    # --- effects

    def effects(self, op: host.Operation) -> list[order.Effect]:
        """What the operation reads and writes beside its operands and results."""
        found = self._effects.get(op.name)
        if found is None:
            found = self._effects[op.name] = self._find_effects(op)
        return found

    def _find_effects(self, op: host.Operation) -> list[order.Effect]:
        if op.type in _FEEDS:
            return [(f"{op.type} {attributes.of(op)['queue']}", True)]
        if op.type in _EFFECTS:
            return [(_EFFECTS[op.type], True)]
        children = self.children(op)
        if children:
            written: dict[str, bool] = {}
            for child in children.values():
                for inner in child._ordered(child.graph.outputs, host.control_outputs_of(child.graph)):
                    for resource, is_write in child.effects(inner):
                        written[resource] = written.get(resource, False) or is_write
            return list(written.items())
        if op.type in _ALIASES or op.type in ("Placeholder", "VarHandleOp", "IdentityN"):
            return []
        handles = [tensor for tensor in op.inputs if tensor.dtype == tf.resource]
        if handles and not _has_rule(op):
            return []
        return [("variable " + self.resource(tensor).op.name, op.type not in _READS) for tensor in handles]

    # --- functions

    def children(self, op: host.Operation) -> dict[str, Place]:
        """The graphs that an operation runs, by role."""
        if op.name not in self._children:
            self._children[op.name] = self._find_children(op)
        return self._children[op.name]

    def _find_children(self, op: host.Operation) -> dict[str, Place]:
        if op.type in _LOOPS:
            return {role: self._child(op, role, op.get_attr(role).name, list(op.inputs)) for role in ("cond", "body")}
        if op.type in _CONDITIONS:
            roles = {"then": "then_branch", "else": "else_branch"}
            return {role: self._child(op, role, op.get_attr(a).name, list(op.inputs)[1:]) for role, a in roles.items()}
        if op.type in _CASES:
            branches = enumerate(op.get_attr("branches"))
            return {f"branch{i}": self._child(op, f"branch{i}", f.name, list(op.inputs)[1:]) for i, f in branches}
        if op.type == "IpuRepeat":
            return {"body": self._repeat_body(op)}
        called = None if attributes.is_leaf(op) else host.called_function(op)
        return {} if called is None else {"f": self._child(op, "f", called, list(op.inputs))}

    def _child(self, op: host.Operation, role: str, function: str, given: list[Any]) -> Place:
        graph = host.function_graph(self.graph, function, given)
        outside = {inside.name: tensor for inside, tensor in zip(graph.inputs, given)}
        nodes = self.nodes if role == "f" else None
        return Place(
            self.writer,
            graph,
            self,
            f"{self.prefix}{op.name}|{role}|",
            outside,
            nodes,
            self.settings | attributes.settings_of(op),
        )

    def _repeat_body(self, op: host.Operation) -> Place:
        """Carried values come first among the operands, but for the number of trips, and among the inputs of the body."""
        graph = host.body_of(op)
        captured = list(host.captures_of(graph))
        given = list(op.inputs)[-len(captured) :] if captured else []
        outside = {inside.name: tensor for (_, inside), tensor in zip(captured, given)}
        return Place(
            self.writer,
            graph,
            self,
            f"{self.prefix}{op.name}|body|",
            outside,
            settings=self.settings | attributes.settings_of(op),
        )

    # --- nodes

    def _write_node(self, op: host.Operation) -> None:
        if op.type in _LOOPS:
            self._write_loop(op)
        elif op.type in _CONDITIONS | _CASES:
            self._write_condition(op)
        elif "f" in self.children(op):
            self._write_call(op)
        elif op.type == "IpuRepeat":
            self._write_repeat(op)
        elif op.type == "Assert":
            messages.write_assert(self, op)
        elif op.type in ("Print", "PrintV2"):
            messages.write_print(self, op)
        else:
            types_fit = [self.writer.check_type(tensor) for tensor in [*op.inputs, *op.outputs]]
            if all(types_fit) and not _has_rule(op):
                self._write_unknown(op)
            else:
                self.emit(op, [self.operand(tensor) for tensor in op.inputs], attributes.of(op))

    def _write_unknown(self, op: host.Operation) -> None:
        """An operation that is refused if it is left when dead ones are gone."""
        self.writer.unknown[self.prefix + op.name] = op
        sources = [self._resource_source(tensor).op for tensor in op.inputs if tensor.dtype == tf.resource]
        for source in sources:
            if source.type != "VarHandleOp":
                self.writer.refuse(source, f"{ways_out.OTHER_RESOURCE}: {ways_out.of_unknown(op.type).way}")
        self.emit(op, [self.operand(tensor) for tensor in op.inputs if tensor.dtype != tf.resource], {})

    def emit(
        self,
        op: host.Operation,
        operands: list[str],
        given: dict[str, Any],
        subgraphs: dict[str, Any] | None = None,
        results: list[str] | None = None,
    ) -> None:
        for resource, is_write in self.effects(op):
            if is_write and resource.startswith("variable "):
                self.writer.variables[resource.partition(" ")[2]].is_written = True
        if results is None:
            results = [self.prefix + tensor.name for tensor in op.outputs]
            self.values |= {tensor.name: result for tensor, result in zip(op.outputs, results)}
        if host.loses_shape(op):
            self.writer.lost[self.prefix + op.name] = op
        domain, kind = attributes.kind_of(op)
        node = {"domain": domain, "type": kind, "name": self.prefix + op.name, "operands": operands, "results": results}
        node |= {
            "attributes": given,
            "subgraphs": subgraphs or {},
            "settings": self.settings | attributes.settings_of(op),
        }
        node = _located(node, host.user_line(op))
        if self.effects(op):
            node["effect"] = any(is_write for _, is_write in self.effects(op))
        self.nodes.append(node)

    def _write_call(self, op: host.Operation) -> None:
        child = self.children(op)["f"]
        self._inline(op, child)

    def _inline(self, op: host.Operation, child: Place) -> None:
        child.nodes = self.nodes
        graph = child.graph
        for inner in child._ordered(graph.outputs, host.control_outputs_of(graph)):
            child._write_operation(inner)
        for result, tensor in zip(op.outputs, graph.outputs):
            if result.dtype != tf.resource:
                self.values[result.name] = child.value(tensor)

    def _write_condition(self, op: host.Operation) -> None:
        places = self.children(op)
        predicate = self.value(op.inputs[0])
        if isinstance(predicate, Constant):
            if op.type in _CASES:
                index = int(predicate.array)
                role = f"branch{index if 0 <= index < len(places) else len(places) - 1}"
            else:
                role = "then" if predicate.array.all() else "else"
            self._inline(op, places[role])
            return
        kept = [i for i, tensor in enumerate(op.outputs) if tensor.dtype != tf.resource]
        subgraphs = {}
        for role, place in places.items():
            outputs = place.write([place.graph.outputs[i] for i in kept], host.control_outputs_of(place.graph))
            subgraphs[role] = _subgraph(place, [], outputs)
        results = [self.prefix + op.outputs[i].name for i in kept]
        self.values |= {op.outputs[i].name: result for i, result in zip(kept, results)}
        given = {"branches": len(places)} if op.type in _CASES else {}
        self.emit(op, [self.operand(op.inputs[0])], given, subgraphs, results)

    def _write_loop(self, op: host.Operation) -> None:
        places = self.children(op)
        body, condition = places["body"], places["cond"]
        carried = [i for i, tensor in enumerate(op.inputs) if not _is_invariant(body.graph, i, tensor)]
        for i, result in enumerate(op.outputs):
            if i not in carried and result.dtype != tf.resource:
                self.values[result.name] = self.value(op.inputs[i])
        operands = [self.operand(op.inputs[i]) for i in carried]
        subgraphs = {}
        for role, place in places.items():
            inputs = [place.carry(place.graph.inputs[i]) for i in carried]
            results = place.graph.outputs if role == "cond" else [place.graph.outputs[i] for i in carried]
            subgraphs[role] = _subgraph(place, inputs, place.write(results, host.control_outputs_of(place.graph)))
        given: dict[str, Any] = {}
        if condition.graph.inputs[1:2] and condition.graph.inputs[1].op.name.endswith("maximum_iterations"):
            maximum = self.value(op.inputs[1])
            if isinstance(maximum, Constant) and maximum.array >= 0:
                given["maximum"] = int(maximum.array)
        results = [self.prefix + op.outputs[i].name for i in carried]
        self.values |= {op.outputs[i].name: result for i, result in zip(carried, results)}
        self.emit(op, operands, given, subgraphs, results)

    def _write_repeat(self, op: host.Operation) -> None:
        place = self.children(op)["body"]
        graph = place.graph
        given = list(op.inputs)
        trips = len(op.get_attr("Tn"))
        carried = given[trips : trips + len(op.outputs)]
        operands = [self.operand(tensor) for tensor in [*given[:trips], *carried]]
        inputs = [place.carry(tensor) for tensor in graph.inputs[: len(carried)]]
        subgraph = _subgraph(place, inputs, place.write(graph.outputs, graph.control_outputs))
        self.emit(op, operands, {} if trips else {"n": op.get_attr("n")}, {"body": subgraph})

    def carry(self, tensor: Any) -> str:
        """The placeholder stands for a value of this place's own."""
        self.outside.pop(tensor.name, None)
        self.values[tensor.name] = self.prefix + tensor.name
        return self.prefix + tensor.name


def _has_rule(op: host.Operation) -> bool:
    return attributes.kind_of(op) in core.node_types()


def _located(node: dict[str, Any], line: tuple[str, int] | None) -> dict[str, Any]:
    """Operations of imported graphs have no line."""
    return node if line is None else node | {"location": line}


def _is_invariant(body: Any, index: int, operand: Any) -> bool:
    """Whether a loop hands an operand on as it is."""
    tensor = body.outputs[index]
    while tensor.op.type == "Identity":
        tensor = tensor.op.inputs[0]
    return operand.dtype == tf.resource or tensor is body.inputs[index] or tensor.name == body.inputs[index].name


def _subgraph(place: Place, inputs: list[str], outputs: list[str]) -> dict[str, Any]:
    return {"name": place.prefix, "inputs": inputs, "nodes": place.nodes, "outputs": outputs}


def _without_dead(nodes: list[dict], wanted: set[str]) -> list[dict]:
    """The nodes with an effect and those that others read; `wanted` grows by what they read."""
    kept = []
    for node in reversed(nodes):
        is_effect = node.pop("effect", False)
        if not is_effect and not wanted.intersection(node["results"]):
            continue
        for graph in node["subgraphs"].values():
            wanted.update(graph["outputs"])
            graph["nodes"] = _without_dead(graph["nodes"], wanted)
        wanted.update(node["operands"])
        kept.append(node)
    return kept[::-1]
