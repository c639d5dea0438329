"""Debug information of a session: call of the builder -> ONNX node -> op of the program."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from popart._impl.debug_info import record
from popart._impl.listing.records import attributes_of

if TYPE_CHECKING:
    from popart._impl.listing.program import Program
    from popart._impl.listing.records import Op

_BUILDER_ID = "__debug_info_id"


def record_program(program: Program) -> None:
    """Adds a context for each node and variable of the model, for the optimizer, and for each op."""
    source = program.listing.source
    nodes = _record_model(source.model)
    optimizer = source.optimizer
    updates = record("popart", {}, _optimizer_name(optimizer)) if optimizer is not None else 0
    ids: dict[int, int] = {}
    outlined = [name for name in program.graphs if name.startswith("call_subgraph(")]
    for graph in [
        *outlined,
        *(name for name in program.graphs if name not in outlined),
    ]:  # calls name the ops they call
        for op in program.graphs[graph]:
            node = nodes.get(op.node.output[0], 0) if op.node is not None and op.node.output else 0
            values = _values(op, graph, len(ids))
            if op.type == "Call" and op.own.get("callee") in outlined:
                values["outlinedDebugContextIds"] = [ids[id(inner)] for inner in program.graphs[op.own["callee"]]]
            ids[id(op)] = record("popart", values, op.name, updates if "Update" in op.type else node)


def _record_model(model: Any) -> dict[str, int]:
    """First result of each node and name of each variable -> id of its context."""
    metadata = {entry.key: entry.value for entry in model.metadata_props}
    made = {}
    for tensor in model.graph.initializer:
        parent = int(metadata.get(f"__debug_id/input/{tensor.name}", 0))
        made[tensor.name] = record("onnx", {"category": "variable", "tensorId": tensor.name}, tensor.name, parent)
    for node in model.graph.node:
        values = {"category": "node", "opType": node.op_type, "inputs": list(node.input), "outputs": list(node.output)}
        parent = attributes_of(node).get(_BUILDER_ID, 0)
        made[node.output[0] if node.output else node.name] = record("onnx", values, node.name, parent)
    return made


def _optimizer_name(optimizer: Any) -> str:
    """The optimizer's debugContext: its family in small letters unless the program gave another."""
    context = optimizer.debugContext
    return str(getattr(context, "name", context)) or str(optimizer._family).lower()


def _values(op: Op, graph: str, number: int) -> dict[str, Any]:
    return {
        "category": "op",
        "instanceId": number,
        "opid": op.type,
        "attributes": op.own | op.common(),
        "inputs": [id for id in op.inputs if id],
        "outputs": list(op.outputs),
        "graphId": graph,
        "scope": op.scope,
    }
