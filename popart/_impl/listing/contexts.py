"""Debug information of a session: call of the builder -> ONNX node -> op of the program."""

from __future__ import annotations

import dataclasses
from typing import TYPE_CHECKING, Any

from ipu_common.debug_contexts import record
from popart._impl.builder.inference import schema
from popart._impl.builder.model_files import DEFAULT_OPSET, domain_name
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
    updates = record("popartbuilder", {}, _optimizer_name(optimizer)) if optimizer is not None else 0
    opids = _Identifiers(source.model)
    ids: dict[int, int] = {}
    combos: list[Op] = []  # which live as long as the numbers of objects are in use

    def add(op: Op, graph: str, **more: Any) -> int:
        node = nodes.get(op.node.output[0], 0) if op.node is not None and op.node.output else 0
        values = _values(op, opids.of(op), graph, len(ids)) | more
        made = ids[id(op)] = record("popart", values, op.name, updates if _is_update(op) else node)
        return made

    outlined = [name for name in program.graphs if name.startswith("call_subgraph(")]
    for graph in [
        *outlined,
        *(name for name in program.graphs if name not in outlined),
    ]:  # calls name the ops they call
        for op in program.graphs[graph]:
            if op.type.endswith("VarUpdate"):  # the op that it was decomposed from
                combos.append(dataclasses.replace(op, type=_combo(op.type, optimizer), own={}))
                add(combos[-1], graph)
            if op.type == "Call" and op.own.get("callee") in outlined:
                body = [ids[id(inner)] for inner in program.graphs[op.own["callee"]]]
                replaced = [add(each, graph) for each in op.replaced]
                add(op, graph, outlinedDebugContextIds=body, replacedDebugContextIds=replaced)
            else:
                add(op, graph)


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


_UPDATES = ("VarUpdate", "Updater", "Accumul", "Accl", "LambSquare", "SGD1Nesterov")


def _is_update(op: Op) -> bool:
    return op.type.endswith("Combo") or not op.is_forward and any(word in op.type for word in _UPDATES)


def _combo(type: str, optimizer: Any) -> str:
    """SGD0VarUpdate comes from SGD0Combo."""
    if type.startswith("SGD"):
        is_separate = type == "SGD1VarUpdate" and not optimizer.is_combined()
        return "SGD2Combo" if is_separate else type.replace("VarUpdate", "Combo")
    return f"{optimizer._family}Combo"


class _Identifiers:
    """Identifiers of ops: those of their nodes, and of the first version of ai.graphcore for ops that the program adds."""

    def __init__(self, model: Any) -> None:
        self._versions = {domain_name(entry.domain): entry.version for entry in model.opset_import}

    def of(self, op: Op) -> str:
        node = op.node
        known = None
        if node is not None and domain_name(node.domain) == "" and node.op_type == op.type:
            known = schema(op.type, self._versions.get("", DEFAULT_OPSET))
        return f"ai.graphcore.{op.type}:1" if known is None else f"ai.onnx.{op.type}:{known.since_version}"


def _values(op: Op, opid: str, graph: str, number: int) -> dict[str, Any]:
    return {
        "category": "op",
        "instanceId": number,
        "opid": opid,
        "attributes": op.own | op.common(),
        "inputs": [id for id in op.inputs if id],
        "outputs": list(op.outputs),
        "graphId": graph,
        "scope": op.scope,
    }
